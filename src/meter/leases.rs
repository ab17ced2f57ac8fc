//! The meter as the driver uses it: leases are opened and closed, and what happens to them is told.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::domain::ids::TurnId;
use crate::domain::money::Usd;

use super::account::{Account, Admitted, Charge, Closed, Count, End, Verdict};
use super::ask::Ask;
use super::forward::Provider;
use super::price::{Price, Prices};
use super::refusal::Refusal;
use super::{serve, token};

/// Requests that one turn may have open at once. More are told to come back.
pub const SEATS: usize = 8;

/// KiB that the bodies of one turn's requests may take together while they wait for the provider.
pub(super) const ROOM: usize = 64 * 1024;

/// How a meter is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens; port 0 picks a free one.
    pub listen: SocketAddr,
    /// The provider's address, with or without a path.
    pub upstream: reqwest::Url,
    /// The provider's key.
    pub key: SecretString,
    /// What models cost.
    pub prices: Prices,
}

/// What one turn may do.
#[derive(Clone, Debug)]
pub struct Lease {
    /// The turn.
    pub turn: TurnId,
    /// What it may cost altogether.
    pub hold: Usd,
    /// What it has cost already. After the meter died: [`Charge::spent`] and [`Charge::open_worst`] together.
    pub spent: Usd,
    /// Whether that holds an estimate: true if [`Charge::open_worst`] was not zero.
    pub estimated: bool,
    /// The model families it may use (`sonnet`), or full names of single models; `None`: whatever has a price.
    pub families: Option<Vec<String>>,
    /// The token that it had before a restart of the bot; `None`: a new one is made.
    pub token: Option<SecretString>,
}

/// Where and how a turn reaches its meter.
#[derive(Clone, Debug)]
pub struct Opened {
    /// What the agent is given as `ANTHROPIC_AUTH_TOKEN`.
    pub token: SecretString,
    /// What follows the meter's address in `ANTHROPIC_BASE_URL`; begins with `/`, ends without.
    pub path: String,
}

/// What a meter tells. Events of one turn come in the order in which things happened.
#[derive(Debug)]
pub enum MeterEvent {
    /// A request is about to be forwarded. It waits until `stored` is used, and is refused if that is dropped: so what
    /// it may cost is on disk before it can cost anything.
    Opening {
        /// What to store.
        charge: Charge,
        /// Says that it is stored.
        stored: oneshot::Sender<()>,
    },
    /// More is known about what a turn spends. To be stored, but nothing waits for it: what is stored already is not
    /// less than the truth.
    Charged(Charge),
    /// A request did not fit into the hold any more, or open answers were cut because it is used up. Told once.
    LimitReached {
        /// The turn.
        turn: TurnId,
    },
    /// The provider answers 401: the key is wrong or was withdrawn. Told once until an answer comes again.
    ProviderRefusesKey,
}

/// Why a meter could not be started, or a lease not be opened.
#[derive(Debug, thiserror::Error)]
pub enum MeterError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address} (provider.meter_listen): {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The provider's address is of no use.
    #[error("{0} cannot be the provider's address (provider.base_url): it must be http or https")]
    Upstream(String),
    /// The key is of no use.
    #[error(
        "the provider's key (provider.api_key) is empty or holds characters that no HTTP header may hold"
    )]
    Key,
    /// The HTTP client cannot be set up.
    #[error("cannot set up the connection to the provider: {0}")]
    Client(String),
    /// The system gives no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Randomness(String),
}

/// A running meter. Clones are the same meter.
#[derive(Clone, Debug)]
pub struct Meter {
    house: Arc<House>,
    address: SocketAddr,
}

impl Meter {
    /// Starts to listen. All tasks belong to `tracker` and end with `stop`, which cuts open answers and counts them as
    /// far as they came; leases opened again later go on.
    pub async fn start(
        settings: Settings,
        tracker: TaskTracker,
        stop: CancellationToken,
        events: mpsc::UnboundedSender<MeterEvent>,
    ) -> Result<Meter, MeterError> {
        let cannot_listen = |source| MeterError::Listen {
            address: settings.listen,
            source,
        };
        let provider = Provider::new(settings.upstream, &settings.key)?;
        let listener = TcpListener::bind(settings.listen)
            .await
            .map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        let house = Arc::new(House {
            prices: settings.prices,
            provider,
            leases: Mutex::default(),
            events,
            key_refused: AtomicBool::new(false),
            tracker,
            stop,
        });
        house.tracker.spawn(serve::listen(house.clone(), listener));
        Ok(Meter { house, address })
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a turn's lease. A turn whose lease is open already keeps it, with its count and its token.
    pub fn open(&self, lease: Lease) -> Result<Opened, MeterError> {
        let mut leases = lock(&self.house.leases);
        let held = match leases.get(&lease.turn) {
            Some(held) => held.clone(),
            None => {
                let held = Arc::new(Held::new(lease, &self.house.stop)?);
                leases.insert(held.turn, held.clone());
                held
            }
        };
        Ok(Opened {
            token: held.token.clone(),
            path: format!("/turn/{}", held.turn),
        })
    }

    /// Closes a turn's lease: its token is void from now on, its open answers are cut and counted as far as they came.
    /// `None`: it was not open.
    pub fn close(&self, turn: TurnId) -> Option<Closed> {
        let held = lock(&self.house.leases).remove(&turn)?;
        let closed = lock(&held.account).close();
        held.cut.cancel();
        Some(closed)
    }

    /// Returns what a turn has spent so far; `None`: its lease is not open.
    pub fn charge(&self, turn: TurnId) -> Option<Charge> {
        let held = lock(&self.house.leases).get(&turn)?.clone();
        Some(lock(&held.account).charge())
    }
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct House {
    prices: Prices,
    pub(super) provider: Provider,
    leases: Mutex<HashMap<TurnId, Arc<Held>>>,
    events: mpsc::UnboundedSender<MeterEvent>,
    key_refused: AtomicBool,
    pub(super) tracker: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// An open lease.
#[derive(Debug)]
pub(super) struct Held {
    turn: TurnId,
    token: SecretString,
    families: Option<Vec<String>>,
    account: Mutex<Account>,
    limit_told: AtomicBool,
    /// Ends everything that is open for this turn.
    pub(super) cut: CancellationToken,
    pub(super) seats: Arc<Semaphore>,
    pub(super) room: Arc<Semaphore>,
}

impl Held {
    fn new(lease: Lease, stop: &CancellationToken) -> Result<Held, MeterError> {
        let token = match lease.token {
            Some(token) => token,
            None => token::mint().map_err(|error| MeterError::Randomness(error.to_string()))?,
        };
        let account = Account::new(lease.turn, lease.hold, lease.spent, lease.estimated);
        Ok(Held {
            turn: lease.turn,
            token,
            families: lease.families,
            account: Mutex::new(account),
            limit_told: AtomicBool::new(false),
            cut: stop.child_token(),
            seats: Arc::new(Semaphore::new(SEATS)),
            room: Arc::new(Semaphore::new(ROOM)),
        })
    }
}

impl House {
    /// Returns the open lease of this turn if this is its token.
    pub(super) fn holder(&self, turn: TurnId, given: &[u8]) -> Result<Arc<Held>, Refusal> {
        let held = lock(&self.leases).get(&turn).cloned();
        held.filter(|held| token::fits(&held.token, given))
            .ok_or(Refusal::NotYours)
    }

    /// Returns the price of a model that this turn may use.
    pub(super) fn price(&self, held: &Held, model: &str) -> Result<&Price, Refusal> {
        let family = self.prices.family_of(model);
        let may = |allowed: &String| allowed == model || Some(allowed.as_str()) == family;
        self.prices
            .price_of(model)
            .filter(|_| {
                held.families
                    .as_ref()
                    .is_none_or(|families| families.iter().any(may))
            })
            .ok_or_else(|| Refusal::Model(model.chars().take(100).collect()))
    }

    /// Lets a request in; it must not be forwarded before what is returned says that its cost is stored.
    pub(super) fn admit(
        &self,
        held: &Held,
        ask: &Ask,
        price: &Price,
    ) -> Result<(Admitted, oneshot::Receiver<()>), Refusal> {
        let mut account = lock(&held.account);
        let Some(admitted) = account.admit(ask, price) else {
            drop(account);
            self.tell_limit(held);
            return Err(Refusal::UsedUp);
        };
        let (stored, is_stored) = oneshot::channel();
        self.tell(MeterEvent::Opening {
            charge: account.charge(),
            stored,
        });
        Ok((admitted, is_stored))
    }

    /// Notes how far an answer has come, and cuts everything that is open when the hold is used up.
    pub(super) fn progress(&self, held: &Held, id: u64, count: Count, telling: Telling) {
        let mut account = lock(&held.account);
        let verdict = account.progress(id, count);
        if telling == Telling::News {
            self.tell(MeterEvent::Charged(account.charge()));
        }
        drop(account);
        if verdict == Verdict::UsedUp {
            self.tell_limit(held);
            held.cut.cancel();
        }
    }

    /// Ends a request.
    pub(super) fn end(&self, held: &Held, id: u64, end: End) {
        let mut account = lock(&held.account);
        if account.end(id, end) {
            self.tell(MeterEvent::Charged(account.charge()));
        }
    }

    /// Notes whether the provider took the key.
    pub(super) fn note_status(&self, status: http::StatusCode) {
        if status == http::StatusCode::UNAUTHORIZED {
            if !self.key_refused.swap(true, Ordering::Relaxed) {
                tracing::error!("the provider refuses the key (provider.api_key)");
                self.tell(MeterEvent::ProviderRefusesKey);
            }
        } else if status.is_success() {
            self.key_refused.store(false, Ordering::Relaxed);
        }
    }

    fn tell_limit(&self, held: &Held) {
        if !held.limit_told.swap(true, Ordering::Relaxed) {
            self.tell(MeterEvent::LimitReached { turn: held.turn });
        }
    }

    /// Tells an event. When nobody listens any more the bot is ending; an [`MeterEvent::Opening`] is then dropped, which
    /// refuses its request.
    fn tell(&self, event: MeterEvent) {
        let _ = self.events.send(event);
    }
}

/// Whether a count holds something that is worth telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Telling {
    /// The provider told a number.
    News,
    /// Only some more output went by.
    Nothing,
}

/// Locks, also after a panic elsewhere: every change under these locks is complete in itself.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
