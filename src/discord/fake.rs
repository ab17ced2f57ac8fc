//! A small Discord for this room's tests: answers as a test says, keeps what it was asked, and has a gateway that says
//! what a test wants said.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};

use super::Url;

/// One request that arrived.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) method: String,
    /// What follows `/api/v10/`.
    pub(super) path: String,
    pub(super) query: Value,
    /// The body as JSON; of a form, its `payload_json`.
    pub(super) body: Value,
    pub(super) raw: String,
    pub(super) headers: HeaderMap,
    pub(super) at: tokio::time::Instant,
}

impl Seen {
    /// Returns method and path.
    pub(super) fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// What is answered.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
    pub(super) after: Duration,
}

/// Returns an answer without anything special.
pub(super) fn said(status: u16, body: Value) -> Said {
    Said {
        status,
        headers: Vec::new(),
        body,
        after: Duration::ZERO,
    }
}

type Script = Arc<dyn Fn(&Seen) -> Said + Send + Sync>;

/// The server. It ends with the test's runtime.
#[derive(Clone)]
pub(super) struct Fake {
    pub(super) url: Url,
    inner: Arc<Inner>,
}

struct Inner {
    script: Script,
    seen: watch::Sender<Vec<Seen>>,
    events: broadcast::Sender<Value>,
    identified: watch::Sender<Vec<Value>>,
    /// Close with this code instead of becoming ready.
    refuse_with: Mutex<Option<u16>>,
}

impl Fake {
    /// Starts a server that answers by `script`; `GET /gateway` and `/gateway/bot` it answers by itself.
    pub(super) async fn start(script: impl Fn(&Seen) -> Said + Send + Sync + 'static) -> Fake {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let fake = Fake {
            url: Url::parse(&url).unwrap(),
            inner: Arc::new(Inner {
                script: Arc::new(script),
                seen: watch::Sender::new(Vec::new()),
                events: broadcast::Sender::new(256),
                identified: watch::Sender::new(Vec::new()),
                refuse_with: Mutex::new(None),
            }),
        };
        let app = Router::new()
            .route("/gw/", any(gateway))
            .fallback(rest)
            .with_state(fake.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        fake
    }

    /// Makes the gateway refuse everybody with this close code.
    pub(super) fn refuse_with(&self, code: u16) {
        *self.inner.refuse_with.lock().unwrap() = Some(code);
    }

    /// Returns everything that was asked so far.
    pub(super) fn seen(&self) -> Vec<Seen> {
        self.inner.seen.borrow().clone()
    }

    /// Returns what was asked so far by this method and path.
    pub(super) fn seen_at(&self, line: &str) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|seen| seen.line() == line);
        seen
    }

    /// Waits until something was asked by this method and path, and returns the first.
    pub(super) async fn sees(&self, line: &str) -> Seen {
        let mut seen = self.inner.seen.subscribe();
        let found = seen.wait_for(|seen| seen.iter().any(|seen| seen.line() == line));
        let found = tokio::time::timeout(Duration::from_secs(20), found).await;
        let Ok(found) = found else {
            let lines: Vec<String> = self.seen().iter().map(Seen::line).collect();
            panic!("{line} was not asked, but {lines:#?}");
        };
        let found = found.unwrap();
        found
            .iter()
            .find(|seen| seen.line() == line)
            .unwrap()
            .clone()
    }

    /// Waits until the gateway has a session, and returns what was said to begin it.
    pub(super) async fn session(&self) -> Value {
        let mut identified = self.inner.identified.subscribe();
        let all = identified.wait_for(|all| !all.is_empty()).await.unwrap();
        all[0].clone()
    }

    /// Lets the gateway close every connection without giving a code.
    pub(super) fn hang_up(&self) {
        self.inner.events.send(Value::Null).unwrap();
    }

    /// Lets the gateway ask for a new connection.
    pub(super) fn ask_to_reconnect(&self) {
        self.inner.events.send(json!({"op": 7, "d": null})).unwrap();
    }

    /// Returns where the gateway is.
    pub(super) fn gateway_url(&self) -> Url {
        let url = format!("ws://127.0.0.1:{}/gw/", self.url.port().unwrap());
        Url::parse(&url).unwrap()
    }

    /// Lets the gateway report something.
    pub(super) fn report(&self, kind: &str, data: Value) {
        let event = json!({"op": 0, "s": 9, "t": kind, "d": data});
        self.inner.events.send(event).unwrap();
    }
}

async fn rest(State(fake): State<Fake>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, 64 << 20).await.unwrap();
    let raw = String::from_utf8_lossy(&bytes).into_owned();
    let payload = raw
        .split_once("name=\"payload_json\"")
        .and_then(|(_, rest)| rest.split_once("\r\n\r\n"))
        .map_or(&*raw, |(_, rest)| rest.split("\r\n").next().unwrap());
    let seen = Seen {
        method: parts.method.to_string(),
        path: parts.uri.path().trim_start_matches("/api/v10/").to_owned(),
        query: query(parts.uri.query().unwrap_or_default()),
        body: serde_json::from_str(payload).unwrap_or_default(),
        raw,
        headers: parts.headers,
        at: tokio::time::Instant::now(),
    };
    fake.inner.seen.send_modify(|all| all.push(seen.clone()));
    let said = (fake.inner.script)(&seen);
    let said = if said.status == 0 {
        announced(&fake)
    } else {
        said
    };
    tokio::time::sleep(said.after).await;
    let mut response = axum::Json(said.body).into_response();
    *response.status_mut() = StatusCode::from_u16(said.status).unwrap();
    for (name, value) in said.headers {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    response
}

fn query(text: &str) -> Value {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect()
}

/// Returns what stands for "where the gateway is" in a script.
pub(super) fn gateway_is_here() -> Said {
    said(0, Value::Null)
}

fn announced(fake: &Fake) -> Said {
    let url = fake.gateway_url();
    let limit = json!({"total": 1000, "remaining": 999, "reset_after": 1000, "max_concurrency": 1});
    said(
        200,
        json!({"url": url, "shards": 1, "session_start_limit": limit}),
    )
}

async fn gateway(State(fake): State<Fake>, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(move |socket| converse(fake, socket))
}

async fn converse(fake: Fake, mut socket: WebSocket) {
    let mut events = fake.inner.events.subscribe();
    send(
        &mut socket,
        &json!({"op": 10, "d": {"heartbeat_interval": 40_000}}),
    )
    .await;
    loop {
        tokio::select! {
            Ok(event) = events.recv() => match event {
                Value::Null => drop(socket.send(Message::Close(None)).await),
                event => send(&mut socket, &event).await,
            },
            received = socket.next() => {
                let Some(Ok(Message::Text(text))) = received else { return };
                let said: Value = serde_json::from_str(&text).unwrap();
                match said["op"].as_u64() {
                    Some(1) => send(&mut socket, &json!({"op": 11})).await,
                    Some(6) => {
                        let resumed = json!({"op": 0, "s": 9, "t": "RESUMED", "d": {"_trace": []}});
                        send(&mut socket, &resumed).await;
                    }
                    Some(2) => identify(&fake, &mut socket, said["d"].clone()).await,
                    _ => {}
                }
            }
        }
    }
}

async fn identify(fake: &Fake, socket: &mut WebSocket, said: Value) {
    let refused = *fake.inner.refuse_with.lock().unwrap();
    if let Some(code) = refused {
        let frame = CloseFrame {
            code,
            reason: "no".into(),
        };
        let _ = socket.send(Message::Close(Some(frame))).await;
        return;
    }
    let ready = json!({
        "v": 10, "session_id": "s", "resume_gateway_url": "ws://127.0.0.1:9/", "shard": [0, 1],
        "user": {"id": "99", "username": "innkeeper", "discriminator": "0", "avatar": null, "bot": true,
                 "verified": true, "mfa_enabled": false, "email": null, "flags": 0},
        "guilds": [{"id": "1", "unavailable": true}],
        "application": {"id": "50", "flags": 0},
    });
    send(socket, &json!({"op": 0, "s": 1, "t": "READY", "d": ready})).await;
    fake.inner.identified.send_modify(|all| all.push(said));
}

async fn send(socket: &mut WebSocket, value: &Value) {
    let _ = socket.send(Message::Text(value.to_string().into())).await;
}
