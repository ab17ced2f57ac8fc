//! The stand-in's own routes: the page, the world, acting as a person, faults, the record, the
//! news.
//!
//! They are for this machine alone: from loopback addresses, to a loopback name, from a page of a
//! loopback origin.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio_stream::wrappers::BroadcastStream;

use super::act;
use super::clock::instant;
use super::faults::Demand;
use super::shared::{Core, State};

/// The page.
const PAGE: &str = include_str!("page.html");

/// Bytes that a request to these routes may have; files of an action come in base64.
const LARGEST_REQUEST: usize = 64 * 1024 * 1024;

/// What is wrong with a request: status and reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) status: u16,
    pub(crate) text: String,
}

impl Reason {
    pub(crate) fn new(status: u16, text: impl Into<String>) -> Reason {
        Reason {
            status,
            text: text.into(),
        }
    }
}

/// Answers a request to one of these routes.
pub(crate) async fn answer(
    core: Arc<Core>,
    peer: SocketAddr,
    request: Request<Body>,
) -> Response<Body> {
    match decide(core, peer, request).await {
        Ok(response) => response,
        Err(reason) => json_response(
            reason.status,
            &json!({ "ok": false, "reason": reason.text }),
        ),
    }
}

async fn decide(
    core: Arc<Core>,
    peer: SocketAddr,
    request: Request<Body>,
) -> Result<Response<Body>, Reason> {
    guard(peer, request.headers())?;
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    match (method, path.as_str()) {
        (Method::GET, "/") => Ok(page()),
        (Method::GET, "/standin/world") => {
            Ok(json_response(200, &core.look(|state| state.world.view())))
        }
        (Method::GET, "/standin/requests") => Ok(requests(&core)),
        (Method::GET, "/standin/events") => Ok(events(&core)),
        (Method::POST, "/standin/act") => {
            let body = read_json(request).await?;
            act::act(&core, &body)
                .await
                .map(|answer| json_response(200, &answer))
        }
        (Method::GET, "/standin/faults") => Ok(json_response(200, &core.look(list_faults))),
        (Method::POST, "/standin/faults") => {
            let body = read_json(request).await?;
            add_faults(&core, &body).map(|answer| json_response(200, &answer))
        }
        (Method::DELETE, "/standin/faults") => {
            core.with(|state| state.faults.clear());
            Ok(json_response(200, &json!({ "ok": true })))
        }
        (
            _,
            "/" | "/standin/world" | "/standin/requests" | "/standin/events" | "/standin/act"
            | "/standin/faults",
        ) => Err(Reason::new(405, "this route does not have that method")),
        _ => Err(Reason::new(404, "there is nothing at this path")),
    }
}

/// Refuses whoever is not on this machine, and pages of other origins.
fn guard(peer: SocketAddr, headers: &HeaderMap) -> Result<(), Reason> {
    let text = |name| {
        headers
            .get(name)
            .map(|value: &HeaderValue| value.to_str().unwrap_or("?"))
    };
    if !peer.ip().to_canonical().is_loopback() {
        return Err(Reason::new(403, "these routes are for this machine alone"));
    }
    if !text(header::HOST).is_some_and(is_loopback_authority) {
        return Err(Reason::new(
            403,
            "the Host must be a loopback name such as localhost or 127.0.0.1",
        ));
    }
    let own_origin = |origin: &str| {
        origin
            .strip_prefix("http://")
            .is_some_and(is_loopback_authority)
    };
    if !text(header::ORIGIN).is_none_or(own_origin) {
        return Err(Reason::new(
            403,
            "pages of other origins may not use these routes",
        ));
    }
    Ok(())
}

/// Tells whether `host` or `host:port` names this machine.
fn is_loopback_authority(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && !host.ends_with(':') => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

async fn read_json(request: Request<Body>) -> Result<Value, Reason> {
    let content_type = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let kind = content_type
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Reason::new(
            415,
            "the body must be sent as application/json",
        ));
    }
    let bytes = axum::body::to_bytes(request.into_body(), LARGEST_REQUEST).await;
    let bytes = bytes.map_err(|_| Reason::new(413, "the body is too large or broke off"))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Reason::new(400, format!("the body is not JSON: {error}")))
}

fn json_response(status: u16, body: &Value) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap_or_default();
    (
        status,
        [(header::CONTENT_TYPE, "application/json")],
        body.to_string(),
    )
        .into_response()
}

fn page() -> Response<Body> {
    // The page needs nothing from elsewhere, and nothing else may come into it.
    const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src 'self'; \
                          connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, PAGE).into_response()
}

/// Returns every REST request so far, one JSON object a line.
pub(crate) fn record(state: &State) -> String {
    state
        .record
        .iter()
        .flat_map(|line| [line.as_str(), "\n"])
        .collect()
}

fn requests(core: &Core) -> Response<Body> {
    let lines = core.look(record);
    (
        [(header::CONTENT_TYPE, "application/jsonl; charset=utf-8")],
        lines,
    )
        .into_response()
}

fn events(core: &Core) -> Response<Body> {
    let notices = BroadcastStream::new(core.notices()).map(|notice| {
        // Whoever was too slow learns that something is missing.
        let (name, data) = notice.unwrap_or(("missed", "{}".to_owned()));
        Ok::<Event, Infallible>(Event::default().event(name).data(data))
    });
    Sse::new(notices)
        .keep_alive(KeepAlive::default())
        .into_response()
}

fn list_faults(state: &State) -> Value {
    json!({
        "rules": state.faults.list(instant()), "rate_limited": state.limits.passed,
        "connections": state.gateway.connections(), "logins": state.gateway.logins,
    })
}

/// Takes one rule or a list of them.
pub(crate) fn add_faults(core: &Core, body: &Value) -> Result<Value, Reason> {
    let rules = body
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![body.clone()]);
    core.with(|state| {
        for rule in &rules {
            match state
                .faults
                .add(rule, instant())
                .map_err(|error| Reason::new(400, error))?
            {
                Demand::Nothing => {}
                Demand::Blow(blow) => state.gateway.strike(blow),
                Demand::Forget => state.gateway.forget(),
                Demand::Advance(by) => state.world.clock.advance(by),
            }
        }
        Ok(json!({ "ok": true }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_under_a_loopback_name_is_let_in() {
        let here: SocketAddr = "127.0.0.1:5".parse().unwrap();
        let there: SocketAddr = "192.0.2.7:5".parse().unwrap();
        let headers = |host: &'static str, origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            headers
        };
        for (peer, host, origin, allowed) in [
            (here, "localhost:8000", None, true),
            (here, "127.0.0.1", Some("http://127.0.0.1:8000"), true),
            (here, "[::1]:8000", Some("http://[::1]:8000"), true),
            (there, "localhost", None, false),
            (here, "evil.example", None, false),
            (here, "localhost.evil.example:80", None, false),
            (here, "localhost", Some("http://evil.example"), false),
            (here, "localhost", Some("null"), false),
        ] {
            assert_eq!(
                guard(peer, &headers(host, origin)).is_ok(),
                allowed,
                "{peer} {host} {origin:?}"
            );
        }
        assert!(guard(here, &HeaderMap::new()).is_err());
    }
}
