//! The bot's token never goes anywhere but to the configured address and the gateway that it announces.
//!
//! The SDK by itself falls back to the real Discord. This story runs where nothing can leave, a network of its own with
//! nothing but loopback, and where Discord's names lead into a trap that counts whoever comes.

#![expect(
    clippy::unwrap_used,
    reason = "what breaks in a story breaks the story"
)]

use std::collections::VecDeque;
use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::any;
use futures_util::FutureExt;
use innkeeper::discord::{
    Answering, Completing, Discord, DiscordSettings, Fatal, Handlers, OfficeCalls, Url,
};
use innkeeper::domain::ids::{GuildId, MemberId};
use innkeeper::domain::money::Usd;
use innkeeper::domain::rules::{Limits, Rules};
use innkeeper::driver::inbound::Reply;
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Tells the inner run that it is the inner run.
const INSIDE: &str = "INNKEEPER_TEST_INSIDE";

/// Discord's names, as the trap's.
const HOSTS: &str = "127.0.0.1 localhost discord.com gateway.discord.gg discord.gg discordapp.com \
                     cdn.discordapp.com media.discordapp.net\n";

#[test]
fn nothing_is_asked_but_the_configured_address() {
    if std::env::var_os(INSIDE).is_some() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let story = tokio::time::timeout(Duration::from_secs(90), story());
            story.await.expect("the story ends in time");
        });
        return;
    }
    let mut hosts = tempfile::NamedTempFile::new().unwrap();
    hosts.write_all(HOSTS.as_bytes()).unwrap();
    let inside = Command::new("bwrap")
        .args([
            "--unshare-user",
            "--unshare-net",
            "--cap-add",
            "CAP_NET_BIND_SERVICE",
        ])
        .args([
            "--uid",
            "0",
            "--gid",
            "0",
            "--dev-bind",
            "/",
            "/",
            "--ro-bind",
        ])
        .arg(hosts.path())
        .arg("/etc/hosts")
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "nothing_is_asked_but_the_configured_address",
            "--nocapture",
        ])
        .env(INSIDE, "1")
        .output()
        .expect("this test needs bubblewrap (bwrap), as the local sandbox does");
    let told = String::from_utf8_lossy(&inside.stdout);
    let trouble = String::from_utf8_lossy(&inside.stderr);
    assert!(inside.status.success(), "{told}\n{trouble}");
}

async fn story() {
    let caught = trap().await;
    assert_eq!(caught.load(Ordering::SeqCst), 0);
    TcpStream::connect("gateway.discord.gg:443").await.unwrap();
    while caught.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }

    a_dead_address_is_asked_again().await;
    bad_answers_are_asked_again_and_a_foreign_gateway_is_refused().await;
    the_sdks_own_finding_does_not_count().await;

    assert_eq!(caught.load(Ordering::SeqCst), 1, "somebody went to Discord");
}

/// Counts whoever comes to Discord's names.
async fn trap() -> Arc<AtomicUsize> {
    let caught = Arc::new(AtomicUsize::new(0));
    for port in [80, 443] {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let caught = Arc::clone(&caught);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                caught.fetch_add(1, Ordering::SeqCst);
            }
        });
    }
    caught
}

async fn a_dead_address_is_asked_again() {
    let reserved = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = reserved.local_addr().unwrap();
    drop(reserved);
    let bot = Bot::at(&format!("http://{address}"));
    let listener = TcpListener::bind(address).await.unwrap();
    let api = Api::on(listener, vec![nonsense(), nonsense()]);
    api.asked(2).await;
    assert_eq!(bot.stop().await, Ok(()));
}

async fn bad_answers_are_asked_again_and_a_foreign_gateway_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers = vec![
        (StatusCode::INTERNAL_SERVER_ERROR, json!({})),
        nonsense(),
        (StatusCode::OK, announcing("no address at all")),
        (StatusCode::OK, announcing("wss://gateway.discord.gg")),
    ];
    let api = Api::on(listener, answers);
    let fatal = Bot::at(&url).ended().await;
    let host = "gateway.discord.gg".to_owned();
    assert_eq!(fatal, Err(Fatal::ForeignGateway(host)));
    api.asked(4).await;
}

/// The SDK asks for the gateway by itself when it is built; whatever it hears, it goes where it was told to go. So it
/// does when a session names another address for its resumption.
async fn the_sdks_own_finding_does_not_count() {
    for heard in [
        nonsense(),
        (StatusCode::OK, json!({"url": "wss://gateway.discord.gg"})),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let own = (StatusCode::OK, announcing(&format!("ws://{address}/gw/")));
        // First the bot asks, then the SDK.
        let api = Api::on(listener, vec![own, heard]);
        let bot = Bot::at(&format!("http://{address}"));
        api.connected(2).await;
        assert_eq!(bot.stop().await, Ok(()));
    }
}

fn nonsense() -> (StatusCode, Value) {
    (StatusCode::OK, json!("garbage"))
}

fn announcing(url: &str) -> Value {
    let limit = json!({"total": 1000, "remaining": 999, "reset_after": 1000, "max_concurrency": 1});
    json!({"url": url, "shards": 1, "session_start_limit": limit})
}

/// A Discord that gives these answers to whoever asks for the gateway, and has a gateway that breaks each connection
/// once it has a session.
struct Api {
    asked: watch::Sender<usize>,
    connected: watch::Sender<usize>,
}

impl Api {
    fn on(listener: TcpListener, answers: Vec<(StatusCode, Value)>) -> Api {
        let api = Api {
            asked: watch::Sender::new(0),
            connected: watch::Sender::new(0),
        };
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let asked = api.asked.clone();
        let gateway = move || {
            let next = answers.lock().unwrap().pop_front();
            asked.send_modify(|count| *count += 1);
            async move {
                let (status, body) = next.unwrap_or((StatusCode::BAD_GATEWAY, json!({})));
                (status, axum::Json(body)).into_response()
            }
        };
        let connected = api.connected.clone();
        let socket = move |upgrade: WebSocketUpgrade| {
            let connected = connected.clone();
            async move { upgrade.on_upgrade(move |socket| converse(socket, connected)) }
        };
        let app = Router::new()
            .route("/api/v10/gateway", any(gateway.clone()))
            .route("/api/v10/gateway/bot", any(gateway))
            .route("/gw/", any(socket))
            .fallback(|| async { axum::Json(json!([])) });
        tokio::spawn(async move { axum::serve(listener, app).await });
        api
    }

    async fn asked(&self, times: usize) {
        let mut asked = self.asked.subscribe();
        asked.wait_for(|count| *count >= times).await.unwrap();
    }

    async fn connected(&self, times: usize) {
        let mut connected = self.connected.subscribe();
        connected.wait_for(|count| *count >= times).await.unwrap();
    }
}

async fn converse(mut socket: WebSocket, connected: watch::Sender<usize>) {
    let hello = json!({"op": 10, "d": {"heartbeat_interval": 40_000}});
    send(&mut socket, &hello).await;
    while let Some(Ok(Message::Text(text))) = socket.recv().await {
        let said: Value = serde_json::from_str(&text).unwrap();
        // IDENTIFY, or RESUME.
        if matches!(said["op"].as_u64(), Some(2 | 6)) {
            connected.send_modify(|count| *count += 1);
            if said["op"] == 2 {
                send(&mut socket, &ready()).await;
                send(&mut socket, &json!({"op": 7, "d": null})).await;
            }
        }
    }
}

fn ready() -> Value {
    json!({"op": 0, "s": 1, "t": "READY", "d": {
        "v": 10, "session_id": "s", "resume_gateway_url": "wss://gateway.discord.gg", "shard": [0, 1],
        "user": {"id": "99", "username": "innkeeper", "discriminator": "0", "avatar": null, "bot": true,
                 "verified": true, "mfa_enabled": false, "email": null, "flags": 0},
        "guilds": [], "application": {"id": "50", "flags": 0},
    }})
}

async fn send(socket: &mut WebSocket, value: &Value) {
    let _ = socket.send(Message::Text(value.to_string().into())).await;
}

/// A bot that serves.
struct Bot {
    cancel: CancellationToken,
    served: tokio::task::JoinHandle<Result<(), Fatal>>,
}

impl Bot {
    fn at(api_url: &str) -> Bot {
        let settings = DiscordSettings {
            token: SecretString::from("a.b.c"),
            api_url: Url::parse(api_url).unwrap(),
        };
        let discord = Discord::new(settings, rules()).unwrap();
        let cancel = CancellationToken::new();
        Bot {
            served: tokio::spawn(discord.serve(handlers(), cancel.clone())),
            cancel,
        }
    }

    async fn ended(self) -> Result<(), Fatal> {
        self.served.await.unwrap()
    }

    async fn stop(self) -> Result<(), Fatal> {
        self.cancel.cancel();
        self.ended().await
    }
}

fn handlers() -> Handlers {
    fn silent<Question: 'static>() -> Answering<Question> {
        Arc::new(|_| async { Reply::default() }.boxed())
    }
    let nothing: Completing = Arc::new(|_| async { Vec::new() }.boxed());
    Handlers {
        inbound: Arc::new(|_| {}),
        ask: silent(),
        press: silent(),
        stop: silent(),
        chat: silent(),
        office: OfficeCalls {
            grant: silent(),
            revoke: silent(),
            grants: silent(),
            me: silent(),
            usage: silent(),
            act: silent(),
            complete_projects: Arc::clone(&nothing),
            complete_models: nothing,
        },
    }
}

fn rules() -> Arc<Rules> {
    let second = Duration::from_secs(1);
    Arc::new(Rules {
        guilds: vec![GuildId(1)],
        owners: vec![MemberId(7)],
        admin_roles: Vec::new(),
        admin_channel: None,
        channels: Vec::new(),
        models: vec!["haiku".to_owned()],
        families: vec!["haiku".to_owned()],
        zone: jiff::tz::TimeZone::UTC,
        limits: Limits {
            budget: Usd::ZERO,
            turn: Usd::ZERO,
            turn_time: second,
            silence: second,
            question: second,
            queue_depth: 1,
            running: 1,
            running_per_guest: 1,
            upload: 1,
            download: 1,
            catch_up: second,
        },
    })
}
