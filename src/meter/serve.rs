//! The side of the meter that the sandbox sees: connections, tokens, routes and their limits.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::domain::ids::TurnId;

use super::ask::{Ask, NotAsked, model_of};
use super::forward::Outgoing;
use super::leases::{Held, House};
use super::passage::{self, Body, Takes};
use super::refusal::Refusal;

/// Connections open at once.
const CONNECTIONS: usize = 512;

/// Bytes that the head of a request may have.
const HEAD: usize = 64 * 1024;

/// Lines that the head of a request may have.
const HEADERS: usize = 100;

/// Bytes that a body may have: the provider's own limit.
const BODY: usize = 32 * 1024 * 1024;

/// How long the head of a request may take, which is also how long a connection may idle.
const HEAD_TIME: Duration = Duration::from_secs(60);

/// How long a body may take.
const BODY_TIME: Duration = Duration::from_secs(60);

/// Wait after a connection could not be taken, which happens when the process has no descriptors left.
const BREATHER: Duration = Duration::from_millis(200);

/// What is served, beside `HEAD`, by which the CLI looks whether anybody is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Messages,
    CountTokens,
    Models,
}

/// Takes connections until the bot stops.
pub(super) async fn listen(house: Arc<House>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let next = async {
            let place = places.clone().acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = house.stop.cancelled() => return,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = connect(house.clone(), stream);
                house.tracker.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the meter cannot take a connection");
                tokio::time::sleep(BREATHER).await;
            }
        }
    }
}

async fn connect(house: Arc<House>, stream: TcpStream) {
    // Small pieces of answers must not wait for each other.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let stop = house.stop.clone();
    let service = service_fn(move |request| answer(house.clone(), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD)
        .max_headers(HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = stop.cancelled() => {}
        result = connection => {
            if let Err(error) = result {
                tracing::debug!(%error, "a connection to the meter ended");
            }
        }
    }
}

async fn answer(
    house: Arc<House>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let answered = handle(&house, request).await;
    Ok(answered.unwrap_or_else(|refusal| {
        tracing::debug!(?refusal, "the meter refuses a request");
        refusal.answer()
    }))
}

async fn handle(house: &Arc<House>, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    let (parts, body) = request.into_parts();
    if parts.method == Method::HEAD {
        let nothing = Empty::new().map_err(|never| match never {});
        return Ok(Response::new(nothing.boxed_unsync()));
    }
    let (turn, path, route) = route(&parts).ok_or(Refusal::NotServed)?;
    let held = house.holder(turn, token(&parts.headers))?;
    let seat = held.seats.clone().try_acquire_owned();
    let seat = seat.map_err(|_| Refusal::Crowded)?;
    let (body, room) = read_body(&held, body).await?;
    let takes = Takes { _seat: seat, room };
    let outgoing = Outgoing {
        method: parts.method,
        path,
        headers: parts.headers,
        body,
    };
    match route {
        Route::Messages => {
            let ask = Ask::read(&outgoing.body).map_err(not_asked)?;
            let price = house.price(&held, &ask.model)?;
            passage::ask(house, &held, (&ask, price), outgoing, takes).await
        }
        Route::CountTokens => {
            let model = model_of(&outgoing.body).map_err(not_asked)?;
            house.price(&held, &model)?;
            passage::free(house, &held, outgoing, takes).await
        }
        Route::Models => passage::free(house, &held, outgoing, takes).await,
    }
}

/// Returns the turn, the provider's path with its query, and what that is.
fn route(parts: &Parts) -> Option<(TurnId, String, Route)> {
    let rest = parts.uri.path().strip_prefix("/turn/")?;
    let (turn, _) = rest.split_once('/')?;
    let path = &rest[turn.len()..];
    let route = match (&parts.method, path) {
        (&Method::POST, "/v1/messages") => Route::Messages,
        (&Method::POST, "/v1/messages/count_tokens") => Route::CountTokens,
        (&Method::GET, "/v1/models") => Route::Models,
        _ => return None,
    };
    let query = parts
        .uri
        .query()
        .map_or_else(String::new, |query| format!("?{query}"));
    Some((TurnId(turn.parse().ok()?), format!("{path}{query}"), route))
}

/// Returns the token that came with a request, empty if none did.
fn token(headers: &HeaderMap) -> &[u8] {
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let key = || headers.get("x-api-key").map(|value| value.as_bytes());
    bearer.or_else(key).unwrap_or_default()
}

/// Reads a body, within the limits of one request and of the turn.
async fn read_body(
    held: &Held,
    body: Incoming,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
    timeout(BODY_TIME, read_within(held, body))
        .await
        .unwrap_or(Err(Refusal::Slow))
}

async fn read_within(
    held: &Held,
    mut body: Incoming,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Refusal> {
    let mut all = Vec::new();
    let mut room: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Refusal::Request("the request broke off".to_owned()))?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        if all.len() + data.len() > BODY {
            return Err(Refusal::TooLarge);
        }
        let more = u32::try_from(data.len().div_ceil(1024)).map_err(|_| Refusal::TooLarge)?;
        let more = held.room.clone().try_acquire_many_owned(more);
        let more = more.map_err(|_| Refusal::Crowded)?;
        match &mut room {
            Some(room) => room.merge(more),
            None => room = Some(more),
        }
        all.extend_from_slice(data);
    }
    Ok((all.into(), room))
}

fn not_asked(why: NotAsked) -> Refusal {
    Refusal::Request(why.to_string())
}
