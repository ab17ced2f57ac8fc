//! Discord as a whole: connects, listens, and says why it cannot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::domain::rules::Rules;

use super::Url;
use super::gateway::{self, Announced, Control, End, Gateway, Unusable};
use super::handlers::Handlers;
use super::listener::Listener;
use super::outbound::Outbound;
use super::places::Places;
use super::rest::{BadSettings, Call, Major, Rest, RestError};
use reqwest::Method;

/// How long the gateway may be unwell, while Discord answers otherwise, before the process is given up.
const UNWELL: Duration = Duration::from_secs(180);

/// How often is looked whether the gateway is well.
const LOOK: Duration = Duration::from_secs(15);

/// The first pause before another try to connect; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause before another try to connect.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How long a single question may take.
const QUESTION: Duration = Duration::from_secs(10);

/// How to reach Discord.
#[derive(Clone, Debug)]
pub struct DiscordSettings {
    /// The bot's token.
    pub token: SecretString,
    /// The address of the REST interface, without `/api`: `https://discord.com`, or a stand-in's.
    pub api_url: Url,
}

/// Why Discord cannot be served any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fatal {
    /// Discord refuses the token. A supervisor must not start the bot again.
    #[error(
        "discord refuses the token: give discord.token, or the file in discord.token_file, the one that the Developer Portal shows under Bot"
    )]
    Token,
    /// Discord refuses what the bot wants to be told of; what to do. A supervisor must not start the bot again.
    #[error("{0}")]
    Intents(String),
    /// The configured address announces the real Discord's gateway, which would get a token that is not meant for it.
    #[error(
        "discord.api_url is not discord, but announces discord's gateway {0}: the token is not sent there"
    )]
    ForeignGateway(String),
    /// The bot has gone deaf in a way that only a new process mends.
    #[error("{0}")]
    Deaf(String),
}

/// Returns the bot's own id, which a token's first part holds (Discord reference, "Authentication"): known before the first
/// session, so that what an earlier process said can be told from what others said. `None`: this is no bot's token.
pub fn own_id(token: &SecretString) -> Option<u64> {
    let (first, _) = token.expose_secret().split_once('.')?;
    let id = STANDARD_NO_PAD.decode(first.trim_end_matches('=')).ok()?;
    std::str::from_utf8(&id).ok()?.parse().ok()
}

/// Discord, ready to be spoken to and to be listened to.
#[derive(Clone, Debug)]
pub struct Discord {
    settings: DiscordSettings,
    rules: Arc<Rules>,
    rest: Rest,
    places: Arc<Places>,
}

/// What came of listening.
enum Heard {
    Cancelled,
    Fatal(Fatal),
    Over(String),
}

impl Discord {
    /// Returns Discord at the configured address. Nothing is asked yet.
    pub fn new(settings: DiscordSettings, rules: Arc<Rules>) -> Result<Discord, BadSettings> {
        let places = Places::default();
        if let Some(me) = own_id(&settings.token) {
            places.be(me);
        }
        Ok(Discord {
            rest: Rest::new(&settings.api_url, &settings.token)?,
            places: Arc::new(places),
            settings,
            rules,
        })
    }

    /// Returns the bot's hands: what the driver speaks with.
    pub fn surface(&self) -> Outbound {
        Outbound::new(self.rest.clone(), Arc::clone(&self.places))
    }

    /// Returns the client that all questions to Discord go through.
    pub fn rest(&self) -> &Rest {
        &self.rest
    }

    /// Asks one thing that is about the bot itself; `path` is what follows `/api/v10/`.
    pub async fn ask(&self, path: &str) -> Result<serde_json::Value, RestError> {
        self.rest
            .ask(Call::new("look", Method::GET, path.to_owned(), Major::Account).within(QUESTION))
            .await
    }

    /// Listens until it is cancelled or Discord cannot be served any more. A connection that breaks is made anew.
    pub async fn serve(self, handlers: Handlers, cancel: CancellationToken) -> Result<(), Fatal> {
        let mut listener = Listener::new(
            self.rest.clone(),
            Arc::clone(&self.places),
            Arc::clone(&self.rules),
            handlers,
        );
        let mut pause = FIRST_PAUSE;
        let outcome = loop {
            let began = Instant::now();
            let heard = tokio::select! {
                () = cancel.cancelled() => Heard::Cancelled,
                () = self.rest.token_refused().cancelled_owned() => Heard::Fatal(Fatal::Token),
                found = self.find_gateway() => match found {
                    Ok(url) => self.connection(url, &mut listener, &cancel).await,
                    Err(fatal) => Heard::Fatal(fatal),
                },
            };
            match heard {
                Heard::Cancelled => break Ok(()),
                Heard::Fatal(fatal) => break Err(fatal),
                Heard::Over(why) => tracing::warn!(why, "the gateway is connected anew"),
            }
            pause = next_pause(pause, began.elapsed());
            tokio::select! {
                () = cancel.cancelled() => break Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
        };
        listener.finish().await;
        outcome
    }

    /// Asks for the gateway until there is an answer, and waits until a session may be started.
    async fn find_gateway(&self) -> Result<Url, Fatal> {
        let mut pause = FIRST_PAUSE;
        loop {
            match Announced::ask(&self.rest).await {
                Ok(announced) => match announced.address(self.rest.base()) {
                    Ok(url) if announced.pause().is_zero() => return Ok(url),
                    Ok(url) => {
                        let wait = announced.pause();
                        tracing::warn!(seconds = wait.as_secs(), "few session starts are left");
                        tokio::time::sleep(wait).await;
                        if !announced.is_exhausted() {
                            return Ok(url);
                        }
                        continue;
                    }
                    Err(Unusable::Foreign(host)) => return Err(Fatal::ForeignGateway(host)),
                    Err(Unusable::Nonsense) => {
                        tracing::warn!("the configured address announces no gateway");
                    }
                },
                Err(error) if error.status() == 401 => return Err(Fatal::Token),
                Err(error) => tracing::warn!(%error, "the gateway cannot be found yet"),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Keeps one connection, from its start to its end.
    async fn connection(
        &self,
        url: Url,
        listener: &mut Listener,
        cancel: &CancellationToken,
    ) -> Heard {
        let started = Gateway::start(&self.settings.token, &self.settings.api_url, url).await;
        let mut gateway = match started {
            Ok(gateway) => gateway,
            Err(end) => return end.into(),
        };
        let watch = self.watch(gateway.control.clone(), listener.renewals());
        tokio::pin!(watch);
        let refused = self.rest.token_refused();
        loop {
            tokio::select! {
                () = cancel.cancelled() => {
                    gateway.close().await;
                    return Heard::Cancelled;
                }
                () = refused.cancelled() => {
                    gateway.close().await;
                    return Heard::Fatal(Fatal::Token);
                }
                Some((context, event)) = gateway.heard.recv() => {
                    listener.hear(context, event, &gateway.control.manager);
                }
                () = listener.pump() => {}
                end = &mut gateway.ended => {
                    while let Ok((context, event)) = gateway.heard.try_recv() {
                        listener.hear(context, event, &gateway.control.manager);
                    }
                    return end.unwrap_or_else(|_| gateway::broken()).into();
                }
                fatal = &mut watch => return Heard::Fatal(fatal),
            }
        }
    }

    /// Watches a connection until it is deaf for good. An outage of Discord's is no reason to give up.
    async fn watch(&self, control: Control, renewals: Arc<AtomicU64>) -> Fatal {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut well_at = Instant::now();
        let mut renewed = renewals.load(Ordering::Relaxed);
        loop {
            looks.tick().await;
            let well = control.is_well().await;
            metrics::gauge!("innkeeper_discord_gateway_up").set(if well { 1.0 } else { 0.0 });
            if well {
                well_at = Instant::now();
            }
            let sessions = renewals.load(Ordering::Relaxed);
            let unwell = well_at.elapsed() > UNWELL;
            if sessions > renewed || unwell {
                renewed = sessions;
                match Announced::ask(&self.rest).await {
                    Ok(announced) if announced.is_exhausted() => {
                        let why =
                            "hardly any session start is left: the connection breaks too often";
                        return Fatal::Deaf(why.to_owned());
                    }
                    Ok(_) if unwell => {
                        let why = "the gateway has not been heard for three minutes";
                        return Fatal::Deaf(why.to_owned());
                    }
                    _ => {}
                }
            }
        }
    }
}

impl From<End> for Heard {
    fn from(end: End) -> Heard {
        match end {
            End::Fatal(fatal) => Heard::Fatal(fatal),
            End::Over(why) => Heard::Over(why),
        }
    }
}

/// Returns the pause after a connection that lasted so long: a good one begins the growth anew.
fn next_pause(last: Duration, lasted: Duration) -> Duration {
    if lasted > LONGEST_PAUSE {
        FIRST_PAUSE
    } else {
        (last * 2).min(LONGEST_PAUSE)
    }
}
