//! How an agent reaches the model provider, and who counts what it costs.

use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use crate::domain::ids::TurnId;
use crate::domain::ledger::Counted;
use crate::domain::money::Usd;
use crate::domain::turn_record::{Stage, TurnRecord};
use crate::meter::{Charge, Lease, Meter, MeterError, MeterEvent};
use crate::store::{Store, StoreError};
use crate::turn::alarm::KEY_REFUSED;

use super::alarm;
use super::house::House;
use super::hub::Letter;

/// The way to the provider.
#[derive(Debug)]
pub enum Provider {
    /// Through the meter: the key stays in the bot, and what goes over the wire is what is booked.
    Metered {
        /// The meter.
        meter: Meter,
        /// Its address as the sandbox reaches it.
        url: String,
    },
    /// A subscription's token goes to the agent itself; amounts are what the agent says, called estimated.
    Subscription {
        /// The token.
        token: SecretString,
        /// Another provider than the agent's own.
        base_url: Option<String>,
    },
    /// The agent needs none (the scripted one); amounts are what it says.
    Own,
}

/// What a run is given to reach the provider.
#[derive(Debug, Default)]
pub struct Access {
    /// Environment.
    pub env: Vec<(String, String)>,
    /// Environment that must show nowhere else.
    pub secrets: Vec<(String, SecretString)>,
}

/// What the meter counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bill {
    /// The sum of the turn's requests.
    pub spent: Usd,
    /// Whether a part of it is not known for sure.
    pub estimated: bool,
}

/// Why a turn has no way to the provider.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// What the meter counted cannot be read or kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The meter does not open.
    #[error(transparent)]
    Meter(#[from] MeterError),
}

impl Provider {
    /// Gives a turn its way to the provider; after a restart, the same as before. It is to be flushed before the agent has it.
    pub fn open(&self, store: &Store, record: &TurnRecord) -> Result<Access, ProviderError> {
        match self {
            Provider::Metered { meter, url } => open_lease(meter, url, store, record),
            Provider::Subscription { token, base_url } => Ok(Access {
                env: base_url
                    .iter()
                    .map(|url| ("ANTHROPIC_BASE_URL".to_owned(), url.clone()))
                    .collect(),
                secrets: vec![("CLAUDE_CODE_OAUTH_TOKEN".to_owned(), token.clone())],
            }),
            Provider::Own => Ok(Access::default()),
        }
    }

    /// Gives the turns that an earlier process left running their way back before anything else happens: their agents may
    /// ask at any moment, and to a token that belongs to no turn they are told not to come again.
    pub fn reopen(&self, store: &Store) -> Result<(), ProviderError> {
        for record in store.unfinished()? {
            if matches!(record.stage, Stage::Held | Stage::Started)
                && store.counted(record.id)?.is_some()
            {
                self.open(store, &record)?;
            }
        }
        Ok(())
    }

    /// Ends a turn's way to the provider and returns what the meter counted, where there is one.
    pub fn close(&self, store: &Store, turn: TurnId) -> Result<Option<Bill>, StoreError> {
        let Provider::Metered { meter, .. } = self else {
            return Ok(None);
        };
        if let Some(closed) = meter.close(turn) {
            return Ok(Some(Bill {
                spent: closed.spent,
                estimated: closed.estimated,
            }));
        }
        // An earlier process counted and nobody opened the lease again: what could not be seen is charged at its worst.
        Ok(store.counted(turn)?.map(|counted| Bill {
            spent: counted.spent + counted.open_worst,
            estimated: counted.estimated || counted.open_worst > Usd::ZERO,
        }))
    }
}

fn open_lease(
    meter: &Meter,
    url: &str,
    store: &Store,
    record: &TurnRecord,
) -> Result<Access, ProviderError> {
    let earlier = store.counted(record.id)?;
    let opened = meter.open(Lease {
        turn: record.id,
        hold: record.hold,
        spent: earlier
            .as_ref()
            .map_or(Usd::ZERO, |counted| counted.spent + counted.open_worst),
        estimated: earlier
            .as_ref()
            .is_some_and(|counted| counted.estimated || counted.open_worst > Usd::ZERO),
        families: record.families.clone(),
        token: earlier.map(|counted| SecretString::from(counted.token)),
    })?;
    let charge = meter.charge(record.id);
    store.put_counted(&Counted {
        turn: record.id,
        token: opened.token.expose_secret().to_owned(),
        spent: charge.map_or(Usd::ZERO, |charge| charge.spent),
        open_worst: charge.map_or(Usd::ZERO, |charge| charge.open_worst),
        estimated: charge.is_some_and(|charge| charge.estimated),
    })?;
    Ok(Access {
        env: vec![(
            "ANTHROPIC_BASE_URL".to_owned(),
            format!("{url}{}", opened.path),
        )],
        secrets: vec![("ANTHROPIC_AUTH_TOKEN".to_owned(), opened.token)],
    })
}

/// Logs what the agent says that a turn cost, where the meter counted something else.
pub fn note_difference(turn: TurnId, counted: Usd, reported: Option<Usd>) {
    if let Some(reported) = reported.filter(|reported| *reported != counted) {
        tracing::info!(
            %turn,
            counted = counted.0,
            reported = reported.0,
            "the agent's own total, in micro-dollars, differs from what the meter counted"
        );
    }
}

/// What a meter tells, and the tasks that tell it.
#[derive(Debug)]
pub struct Told {
    /// Its events.
    pub events: mpsc::UnboundedReceiver<MeterEvent>,
    /// Its tasks, and nobody else's.
    pub tasks: TaskTracker,
}

/// Keeps what the meter counts until the house closes and the last open answer has been counted. What a request may cost is
/// on disk before it leaves.
pub async fn keep_counts(house: Arc<House>, told: Told) {
    let Told { mut events, tasks } = told;
    // The house itself holds an end of the channel, so its closing is no sign.
    let over = async {
        house.cancel.cancelled().await;
        tasks.close();
        tasks.wait().await;
    };
    tokio::pin!(over);
    loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => take(&house, event).await,
            () = &mut over => break,
        }
    }
    while let Ok(event) = events.try_recv() {
        take(&house, event).await;
    }
}

async fn take(house: &Arc<House>, event: MeterEvent) {
    match event {
        MeterEvent::Opening { charge, stored } => match keep(house, &charge, true).await {
            // The request waits for this; if it was given up meanwhile, nothing leaves.
            Ok(()) => drop(stored.send(())),
            Err(error) => {
                tracing::error!(turn = %charge.turn, %error, "a request is refused: its cost cannot be stored")
            }
        },
        MeterEvent::Charged(charge) => {
            if let Err(error) = keep(house, &charge, false).await {
                tracing::error!(turn = %charge.turn, %error, "what a turn costs cannot be stored");
            }
        }
        MeterEvent::LimitReached { turn } => match house.store.turn(turn) {
            Ok(Some(record)) => house.hub.tell(house, record.thread, Letter::Limit { turn }),
            Ok(None) => {}
            Err(error) => tracing::error!(%turn, %error, "a turn at its limit cannot be read"),
        },
        MeterEvent::ProviderRefusesKey => alarm::tell_admins(house, KEY_REFUSED),
    }
}

async fn keep(house: &House, charge: &Charge, on_disk: bool) -> Result<(), StoreError> {
    let Some(mut counted) = house.store.counted(charge.turn)? else {
        return Ok(());
    };
    counted.spent = charge.spent;
    counted.open_worst = charge.open_worst;
    counted.estimated = charge.estimated;
    house.store.put_counted(&counted)?;
    if on_disk {
        house.store.flush().await
    } else {
        Ok(())
    }
}
