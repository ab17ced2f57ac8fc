//! The stand-in's one port: accepting connections and sending each request to its part.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts as _, WebSocketUpgrade};
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::clock::instant;
use super::faults::Blow;
use super::shared::Core;
use super::world::World;
use super::{act, door, gateway, own};

/// A connection is to be cut without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut, as a fault rule asks")]
pub(crate) struct HungUp;

/// A running stand-in. It ends when it is stopped or dropped.
#[derive(Debug)]
pub struct Standin {
    address: SocketAddr,
    core: Arc<Core>,
    accepting: JoinHandle<()>,
}

impl Standin {
    /// Starts a stand-in on an address (port 0 takes a free one) that shows this world.
    pub async fn start(listen: SocketAddr, mut world: World) -> io::Result<Standin> {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        world.base_url = format!("http://{}", reachable(address));
        let core = Arc::new(Core::new(world));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&core)));
        Ok(Standin {
            address,
            core,
            accepting,
        })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address for clients, such as `http://127.0.0.1:8000`: Discord's routes are below `/api`.
    pub fn url(&self) -> String {
        format!("http://{}", reachable(self.address))
    }

    /// Takes a rule, or a list of them, as `POST /standin/faults` does. An error says what is wrong with it.
    pub fn misbehave(&self, rules: &Value) -> Result<(), String> {
        own::add_faults(&self.core, rules)
            .map(|_| ())
            .map_err(|reason| reason.text)
    }

    /// Moves the world's time forward: messages grow older and interactions expire; new ids follow the real time.
    pub fn advance(&self, by: Duration) {
        self.core.with(|state| state.world.clock.advance(by));
    }

    /// Does what a person does, as `POST /standin/act`; the error is the reason that Discord's client would show.
    pub async fn act(&self, action: &Value) -> Result<Value, String> {
        act::act(&self.core, action)
            .await
            .map_err(|reason| reason.text)
    }

    /// Returns the world as `GET /standin/world` shows it.
    pub fn world(&self) -> Value {
        self.core.look(|state| state.world.view())
    }

    /// Tells of each change of the world.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.core.changes()
    }

    /// Returns how many clients have a session on the gateway.
    pub fn listeners(&self) -> usize {
        self.core.look(|state| state.gateway.listeners())
    }

    /// Returns every REST request so far, one JSON object a line, as `GET /standin/requests`.
    pub fn requests(&self) -> String {
        self.core.look(own::record)
    }

    /// Returns how many requests got a 429 because they passed a limit.
    pub fn rate_limited(&self) -> u64 {
        self.core.look(|state| state.limits.passed)
    }

    /// Stops it and cuts all connections.
    pub async fn stop(mut self) {
        self.accepting.abort();
        // An aborted task ends with an error that says just this.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Standin {
    fn drop(&mut self) {
        self.accepting.abort();
        self.core.with(|state| state.gateway.strike(Blow::Drop));
    }
}

/// Returns an address that a client on this host can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

async fn accept(listener: TcpListener, core: Arc<Core>) {
    // Dropping the set, when this task is aborted, cuts the connections in it.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(serve(stream, peer, Arc::clone(&core)));
                }
                // Too many open files, or a client that left at once: a later one may do better.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, peer: SocketAddr, core: Arc<Core>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let core = Arc::clone(&core);
        async move { answer(core, peer, request.map(Body::new)).await }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // However a connection ends, it is the client's affair.
    let _ = connection.with_upgrades().await;
}

async fn answer(
    core: Arc<Core>,
    peer: SocketAddr,
    request: Request<Body>,
) -> Result<Response<Body>, HungUp> {
    let path = request.uri().path();
    if path.starts_with("/api/") {
        return door::serve(&core, request).await;
    }
    if let Some(file) = path.strip_prefix("/attachments/") {
        return door::serve_file(&core, file).await;
    }
    if path.trim_end_matches('/') == "/gateway" {
        return Ok(open_gateway(core, request).await);
    }
    Ok(own::answer(core, peer, request).await)
}

async fn open_gateway(core: Arc<Core>, request: Request<Body>) -> Response<Body> {
    if core.look(|state| state.faults.refuses_connections(instant())) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let (mut parts, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade.on_upgrade(move |socket| gateway::serve(core, socket)),
        Err(refusal) => refusal.into_response(),
    }
}
