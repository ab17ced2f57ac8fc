//! The gateway's connection: serenity on a thread and a runtime of its own.
//!
//! On its own, because it spins without yielding after some closes and would stop every timer of the bot with it. On
//! one thread, because it spawns a task for each event and only a single-threaded runtime runs those in order.
//! It must never connect anywhere but where the configured address says: by itself the SDK falls back to the real Discord.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serenity::all::{
    ClientBuilder, ConnectionStage, Context, Event, GatewayIntents, HttpBuilder, RawEventHandler,
    ShardManager,
};
use serenity::gateway::GatewayError;
use tokio::sync::{mpsc, oneshot};

use super::rest::{self, Call, Major, Rest, RestError};
use super::serve::Fatal;

/// What Discord asks to be told of before it lets a bot listen: servers, messages, and what they say.
const INTENTS: GatewayIntents = GatewayIntents::GUILDS
    .union(GatewayIntents::GUILD_MESSAGES)
    .union(GatewayIntents::MESSAGE_CONTENT);

/// Session starts that are left alone: at none at all Discord resets the token.
const RESERVED_STARTS: u64 = 20;

/// Session starts below which the rest of them is spread over the time that is left.
const FEW_STARTS: u64 = 200;

/// The longest pause before a session start that still has some to spare.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// How long the connection may take to close.
const CLOSING: Duration = Duration::from_secs(6);

/// What `GET /gateway/bot` announces.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Announced {
    url: String,
    session_start_limit: StartLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct StartLimit {
    remaining: u64,
    /// Milliseconds.
    reset_after: u64,
}

/// Why a gateway's address is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// No address at all, or not one of a websocket.
    Nonsense,
    /// It is Discord's, although Discord is not what is configured.
    Foreign(String),
}

impl Announced {
    /// Asks the configured address where its gateway is.
    pub(super) async fn ask(rest: &Rest) -> Result<Announced, RestError> {
        let call = Call::new(
            "read gateway",
            Method::GET,
            "gateway/bot".to_owned(),
            Major::Account,
        );
        rest.ask(call).await
    }

    /// Returns the gateway's address, if a bot that is configured for `api` may go there.
    pub(super) fn address(&self, api: &Url) -> Result<Url, Unusable> {
        let mut url = Url::parse(&self.url).map_err(|_| Unusable::Nonsense)?;
        let host = url.host_str().ok_or(Unusable::Nonsense)?.to_owned();
        let real = is_discord(api.host_str().unwrap_or_default());
        match url.scheme() {
            "wss" => {}
            "ws" if !real => {}
            _ => return Err(Unusable::Nonsense),
        }
        if is_discord(&host) && !real {
            return Err(Unusable::Foreign(host));
        }
        // The SDK appends its own query as text.
        url.set_query(None);
        url.set_fragment(None);
        Ok(url)
    }

    /// Returns how long to wait before a session may be started: a loop of crashes must not use them up.
    pub(super) fn pause(&self) -> Duration {
        let StartLimit {
            remaining,
            reset_after,
        } = self.session_start_limit;
        let reset_after = Duration::from_millis(reset_after);
        match remaining {
            0..RESERVED_STARTS => reset_after,
            RESERVED_STARTS..FEW_STARTS => {
                let spread = reset_after / u32::try_from(remaining).unwrap_or(u32::MAX);
                spread.clamp(Duration::from_secs(5), LONGEST_PAUSE)
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns whether hardly any session may be started any more.
    pub(super) fn is_exhausted(&self) -> bool {
        self.session_start_limit.remaining < RESERVED_STARTS
    }
}

/// Returns whether a host belongs to Discord.
fn is_discord(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    ["discord.com", "discord.gg", "discordapp.com"]
        .iter()
        .any(|name| host == *name || host.ends_with(&format!(".{name}")))
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// It cannot be had: no use in trying again.
    Fatal(Fatal),
    /// It was closed, or broke in a way that another try may mend; why, for the log.
    Over(String),
}

/// A connection, as the main runtime sees it.
pub(super) struct Gateway {
    /// The handle on its thread.
    pub(super) control: Control,
    /// What it hears, in order.
    pub(super) heard: mpsc::UnboundedReceiver<(Context, Event)>,
    /// How it ended.
    pub(super) ended: oneshot::Receiver<End>,
}

/// The handle on a connection's thread.
#[derive(Clone)]
pub(super) struct Control {
    /// The SDK's own control of the connection.
    pub(super) manager: Arc<ShardManager>,
    runtime: tokio::runtime::Handle,
}

impl Control {
    /// Returns whether the connection stands and its thread answers.
    pub(super) async fn is_well(&self) -> bool {
        let answers = self.runtime.spawn(async {});
        let looked = tokio::time::timeout(Duration::from_secs(5), async {
            let runners = self.manager.runners.lock().await;
            answers.await.is_ok()
                && runners
                    .values()
                    .any(|runner| runner.stage == ConnectionStage::Connected)
        });
        looked.await.unwrap_or(false)
    }
}

/// What a thread needs to connect.
struct Start {
    token: SecretString,
    api: Url,
    gateway: Url,
    tap: mpsc::UnboundedSender<(Context, Event)>,
    begun: oneshot::Sender<Control>,
}

impl Gateway {
    /// Starts the connection on a thread of its own.
    pub(super) async fn start(
        token: &SecretString,
        api: &Url,
        gateway: Url,
    ) -> Result<Gateway, End> {
        let (tap, heard) = mpsc::unbounded_channel();
        let (begun, begins) = oneshot::channel();
        let (ends, mut ended) = oneshot::channel();
        let start = Start {
            token: token.clone(),
            api: api.clone(),
            gateway,
            tap,
            begun,
        };
        std::thread::Builder::new()
            .name("discord-gateway".to_owned())
            .spawn(move || {
                // Nobody listens any more once the main runtime has given the connection up.
                let _ = ends.send(run(start));
            })
            .map_err(|error| End::Over(format!("no thread for the gateway: {error}")))?;
        match begins.await {
            Ok(control) => Ok(Gateway {
                control,
                heard,
                ended,
            }),
            Err(_) => Err((&mut ended).await.unwrap_or_else(|_| broken())),
        }
    }

    /// Closes the connection, as far as it lets itself be closed: after some faults only the end of the process does it.
    pub(super) async fn close(self) {
        let closed = tokio::time::timeout(CLOSING, async {
            self.control.manager.shutdown_all().await;
            self.ended.await
        });
        if closed.await.is_err() {
            tracing::debug!("the gateway's connection did not close in time");
        }
    }
}

/// Runs a connection to its end, on the thread that it has for itself.
fn run(start: Start) -> End {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(connect(start, runtime.handle().clone())),
        Err(error) => End::Over(format!("no runtime for the gateway: {error}")),
    }
}

async fn connect(start: Start, runtime: tokio::runtime::Handle) -> End {
    let client = match rest::client() {
        Ok(client) => client,
        Err(error) => return End::Over(format!("no client for the gateway: {error}")),
    };
    // The proxy counts only while the SDK's own limiter is off. Nothing but the gateway's start uses this.
    let http = HttpBuilder::new(start.token.expose_secret())
        .client(client)
        .proxy(start.api.as_str().trim_end_matches('/'))
        .ratelimiter_disabled(true)
        .build();
    let built = ClientBuilder::new_with_http(http, INTENTS)
        .raw_event_handler(Tap(start.tap))
        .await;
    let mut client = match built {
        Ok(client) => client,
        Err(error) => return judge(&error),
    };
    // Whatever the SDK has found out by itself may be its fallback: what counts is what was checked.
    *client.ws_url.lock().await = start.gateway.to_string();
    let control = Control {
        manager: Arc::clone(&client.shard_manager),
        runtime,
    };
    if start.begun.send(control).is_err() {
        return End::Over("nobody waits for the gateway".to_owned());
    }
    match client.start().await {
        Ok(()) => End::Over("the connection was closed".to_owned()),
        Err(error) => judge(&error),
    }
}

/// Judges the SDK's error. Its text may hold an address and is not passed on.
fn judge(error: &serenity::Error) -> End {
    let serenity::Error::Gateway(error) = error else {
        return End::Over("the gateway's client failed".to_owned());
    };
    match error {
        GatewayError::InvalidAuthentication | GatewayError::NoAuthentication => {
            End::Fatal(Fatal::Token)
        }
        GatewayError::DisallowedGatewayIntents => End::Fatal(Fatal::Intents(
            "discord does not let the bot read messages (close code 4014): switch on \"Message \
             Content Intent\" in the Developer Portal, under Bot, Privileged Gateway Intents"
                .to_owned(),
        )),
        GatewayError::InvalidGatewayIntents => End::Fatal(Fatal::Intents(
            "discord does not know what the bot wants to be told of (close code 4013): this \
             version of the bot is too old for it"
                .to_owned(),
        )),
        _ => End::Over("the gateway's connection broke".to_owned()),
    }
}

pub(super) fn broken() -> End {
    End::Over("the gateway's thread ended without a word".to_owned())
}

/// Hands every event over, at once and in order.
struct Tap(mpsc::UnboundedSender<(Context, Event)>);

#[serenity::async_trait]
impl RawEventHandler for Tap {
    async fn raw_event(&self, context: Context, event: Event) {
        // Nobody listens any more while the connection is being given up.
        let _ = self.0.send((context, event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(url: &str, remaining: u64, reset_after: u64) -> Announced {
        Announced {
            url: url.to_owned(),
            session_start_limit: StartLimit {
                remaining,
                reset_after,
            },
        }
    }

    #[test]
    fn a_gateway_of_discords_is_refused_unless_discord_is_configured() {
        let own = Url::parse("http://127.0.0.1:4000").unwrap();
        let real = Url::parse("https://discord.com").unwrap();
        let ok = |url: &str| Ok(Url::parse(url).unwrap());
        let foreign = |host: &str| Err(Unusable::Foreign(host.to_owned()));
        let table = [
            (
                &own,
                "ws://127.0.0.1:4001/gw?x=1#y",
                ok("ws://127.0.0.1:4001/gw"),
            ),
            (
                &own,
                "wss://gateway.discord.gg",
                foreign("gateway.discord.gg"),
            ),
            (
                &own,
                "wss://GATEWAY.DISCORD.GG./",
                foreign("gateway.discord.gg."),
            ),
            (&own, "wss://discord.com", foreign("discord.com")),
            (
                &own,
                "ws://gateway.discord.gg:80",
                foreign("gateway.discord.gg"),
            ),
            (&own, "wss://notdiscord.gg", ok("wss://notdiscord.gg")),
            (&own, "nonsense", Err(Unusable::Nonsense)),
            (&own, "", Err(Unusable::Nonsense)),
            (&own, "https://127.0.0.1", Err(Unusable::Nonsense)),
            (
                &real,
                "wss://gateway.discord.gg",
                ok("wss://gateway.discord.gg"),
            ),
            (&real, "ws://gateway.discord.gg", Err(Unusable::Nonsense)),
        ];
        for (api, url, expected) in table {
            assert_eq!(announced(url, 1000, 0).address(api), expected, "{url}");
        }
    }

    #[test]
    fn session_starts_are_saved_before_they_run_out() {
        let day = 86_400_000;
        let pause = |remaining| announced("", remaining, day).pause().as_secs();
        assert_eq!(pause(1000), 0);
        assert_eq!(pause(200), 0);
        assert_eq!(pause(199), 434);
        assert_eq!(pause(20), 600);
        assert_eq!(pause(19), 86_400);
        assert_eq!(announced("", 100, 1000).pause().as_secs(), 5);
        assert!(announced("", 19, 0).is_exhausted());
    }
}
