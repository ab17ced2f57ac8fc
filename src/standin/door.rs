//! The way of one REST request: read, misbehave as told, count, answer, record.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Multipart};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Request, Response, header};
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::clock::{instant, rfc3339, wall_ms};
use super::faults::{Effect, FaultAnswer, FaultBody};
use super::files;
use super::limits::{Standing, TooMany, rule_of};
use super::refused::{self, Refused};
use super::rest::{self, Call, Upload};
use super::server::HungUp;
use super::shared::{Core, State};

/// Bytes that one request may have.
const LARGEST_REQUEST: usize = 25 * 1024 * 1024;

/// What goes out: status, body, and the headers of the limits.
struct Outcome {
    status: u16,
    body: Option<FaultBody>,
    headers: Vec<(&'static str, String)>,
}

impl Outcome {
    fn plain(status: u16, body: Option<Value>) -> Outcome {
        Outcome {
            status,
            body: body.map(FaultBody::Json),
            headers: vec![],
        }
    }

    fn refusal(refused: &Refused) -> Outcome {
        let mut outcome = Outcome::plain(refused.status, Some(refused.body()));
        if let Some(retry_after) = refused.retry_after {
            outcome
                .headers
                .push(("retry-after", retry_after.ceil().to_string()));
            outcome
                .headers
                .push(("x-ratelimit-scope", "user".to_owned()));
        }
        outcome
    }
}

/// Serves one REST request. `Err` cuts the connection without an answer.
pub(crate) async fn serve(core: &Core, request: Request<Body>) -> Result<Response<Body>, HungUp> {
    let (parts, body) = request.into_parts();
    let began = rfc3339(wall_ms());
    let path = api_path(parts.uri.path());
    let steps: Vec<&str> = path.iter().map(String::as_str).collect();
    let effect = core.with(|state| state.faults.on_request(parts.method.as_str(), &steps));
    if let Some(effect) = &effect {
        tokio::time::sleep(effect.delay).await;
    }
    let read = read(&parts, path, body).await;
    let outcome = decide(core, effect.as_ref(), &read);
    let cut = effect.is_some_and(|effect| effect.hang_up || effect.lose_reply);
    core.note_request(record(&parts, &read, outcome.as_ref(), (&began, cut)));
    match outcome {
        Some(outcome) if !cut => Ok(respond(outcome)),
        _ => Err(HungUp),
    }
}

/// Serves an attachment; the path is what follows `/attachments/`. `Err` cuts the connection
/// without an answer.
pub(crate) async fn serve_file(core: &Core, path: &str) -> Result<Response<Body>, HungUp> {
    let steps: Vec<&str> = std::iter::once("attachments")
        .chain(path.split('/'))
        .collect();
    let Some(effect) = core.with(|state| state.faults.on_request("GET", &steps)) else {
        return Ok(files::answer(core, path));
    };
    tokio::time::sleep(effect.delay).await;
    match effect.answer {
        _ if effect.hang_up || effect.lose_reply => Err(HungUp),
        Some(answer) => Ok(respond(misbehave(&answer))),
        None => Ok(files::answer(core, path)),
    }
}

/// Returns the steps of a path below `/api` or `/api/v10`, decoded.
fn api_path(path: &str) -> Vec<String> {
    let mut steps: Vec<&str> = path
        .split('/')
        .filter(|step| !step.is_empty())
        .skip(1)
        .collect();
    let is_version = |step: &&str| {
        step.strip_prefix('v')
            .is_some_and(|number| number.parse::<u8>().is_ok())
    };
    if steps.first().is_some_and(is_version) {
        steps.remove(0);
    }
    steps.into_iter().map(decoded).collect()
}

/// Undoes percent-encoding.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn query(parts: &Parts) -> BTreeMap<String, String> {
    let pairs = parts
        .uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(key, value)| (decoded(key), decoded(&value.replace('+', " "))))
        .collect()
}

/// A request that was read, or the reason why it could not be, with its path.
struct Read {
    call: Call,
    problem: Option<Refused>,
}

async fn read(parts: &Parts, path: Vec<String>, body: Body) -> Read {
    let authorization = parts
        .headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let mut call = Call {
        method: parts.method.to_string(),
        path,
        query: query(parts),
        authorization: authorization.map(str::to_owned),
        body: Value::Null,
        files: vec![],
    };
    let problem = match axum::body::to_bytes(body, LARGEST_REQUEST).await {
        Ok(bytes) => read_body(parts, bytes, &mut call).await.err(),
        Err(_) => Some(refused::TOO_LARGE.into()),
    };
    Read { call, problem }
}

async fn read_body(parts: &Parts, bytes: Bytes, call: &mut Call) -> Result<(), Refused> {
    let content_type = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let content_type = content_type.to_owned();
    if content_type.starts_with("multipart/form-data") {
        return read_form(&content_type, bytes, call).await;
    }
    if bytes.is_empty() {
        return Ok(());
    }
    if !content_type.is_empty() && !content_type.starts_with("application/json") {
        let message = "Expected \"Content-Type\" header to be one of {'application/json', 'multipart/form-data'}.";
        return Err(Refused::field(&["_misc"], "CONTENT_TYPE_INVALID", message));
    }
    call.body = serde_json::from_slice(&bytes).map_err(|_| refused::INVALID_JSON)?;
    Ok(())
}

async fn read_form(content_type: &str, bytes: Bytes, call: &mut Call) -> Result<(), Refused> {
    let broken = |_| Refused::from(refused::INVALID_JSON);
    let request = Request::builder()
        .method("POST")
        .header(header::CONTENT_TYPE, content_type)
        .body(Body::from(bytes));
    let mut request = request.map_err(|_| refused::INVALID_JSON)?;
    // The whole request is bounded already, a second bound would only be lower.
    DefaultBodyLimit::disable().apply(&mut request);
    let mut form = Multipart::from_request(request, &())
        .await
        .map_err(|_| refused::INVALID_JSON)?;
    while let Some(field) = form.next_field().await.map_err(broken)? {
        let name = field.name().unwrap_or_default().to_owned();
        let file = field.file_name().map(str::to_owned);
        let bytes = field.bytes().await.map_err(broken)?;
        match file {
            None if name == "payload_json" => {
                call.body = serde_json::from_slice(&bytes).map_err(|_| refused::INVALID_JSON)?;
            }
            None => {}
            Some(file) if file.chars().any(char::is_control) => {
                return Err(refused::INVALID_JSON.into());
            }
            Some(file) => call.files.push(Upload {
                field: name,
                name: file,
                bytes,
            }),
        }
    }
    if call.body.is_null() {
        call.body = json!({});
    }
    Ok(())
}

/// Decides the answer; None hangs up without any effect.
fn decide(core: &Core, effect: Option<&Effect>, read: &Read) -> Option<Outcome> {
    match effect {
        Some(Effect {
            answer: Some(answer),
            ..
        }) => return Some(misbehave(answer)),
        Some(Effect { hang_up: true, .. }) => return None,
        _ => {}
    }
    Some(core.with(|state| {
        let standing = match count(state, &read.call) {
            Ok(standing) => standing,
            Err(over) => return too_many(over),
        };
        let mut outcome = match &read.problem {
            Some(refused) => Outcome::refusal(refused),
            None => match rest::answer(state, &read.call) {
                Ok((status, body)) => Outcome::plain(status, body),
                Err(refused) => Outcome::refusal(&refused),
            },
        };
        if let Some(standing) = standing {
            outcome.headers.extend(limit_headers(standing));
        }
        outcome
    }))
}

fn count(state: &mut State, call: &Call) -> Result<Option<Standing>, TooMany> {
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    match rule_of(&call.method, &path) {
        // Interactions do not count under the global limit.
        Some((rule, major)) if path.first() == Some(&"webhooks") => {
            state.limits.take_one(rule, &major, instant()).map(Some)
        }
        Some((rule, major)) => state.limits.take(rule, &major, instant()).map(Some),
        None => Ok(None),
    }
}

fn limit_headers(standing: Standing) -> [(&'static str, String); 5] {
    let reset = Duration::from_millis(wall_ms()) + standing.reset_after;
    let bucket = Sha256::digest(standing.bucket.as_bytes());
    [
        ("x-ratelimit-limit", standing.limit.to_string()),
        ("x-ratelimit-remaining", standing.remaining.to_string()),
        ("x-ratelimit-reset", format!("{:.3}", reset.as_secs_f64())),
        (
            "x-ratelimit-reset-after",
            format!("{:.3}", standing.reset_after.as_secs_f64()),
        ),
        ("x-ratelimit-bucket", hex(&bucket[..16])),
    ]
}

fn too_many(over: TooMany) -> Outcome {
    let seconds = (over.standing.reset_after.as_secs_f64() * 1000.0).ceil() / 1000.0;
    let body = json!({ "message": "You are being rate limited.", "retry_after": seconds, "global": over.global });
    let mut outcome = Outcome::plain(429, Some(body));
    outcome
        .headers
        .push(("retry-after", seconds.ceil().to_string()));
    if over.global {
        outcome
            .headers
            .push(("x-ratelimit-global", "true".to_owned()));
        outcome
            .headers
            .push(("x-ratelimit-scope", "global".to_owned()));
    } else {
        outcome.headers.extend(limit_headers(over.standing));
        outcome
            .headers
            .push(("x-ratelimit-scope", "user".to_owned()));
    }
    outcome
}

/// Gives the answer of a fault rule.
fn misbehave(answer: &FaultAnswer) -> Outcome {
    let mut headers = vec![];
    if let Some(retry_after) = answer.retry_after {
        headers.push(("retry-after", retry_after.ceil().to_string()));
        headers.push(("x-ratelimit-scope", answer.scope.clone()));
    }
    if answer.global {
        headers.push(("x-ratelimit-global", "true".to_owned()));
    }
    Outcome {
        status: answer.status,
        body: Some(answer.body.clone()),
        headers,
    }
}

fn respond(outcome: Outcome) -> Response<Body> {
    let (body, content_type) = match outcome.body {
        None => (Body::empty(), None),
        Some(FaultBody::Json(body)) => (Body::from(body.to_string()), Some("application/json")),
        Some(FaultBody::Text(text)) => (Body::from(text), Some("text/html; charset=utf-8")),
    };
    let mut response = Response::new(body);
    *response.status_mut() = axum::http::StatusCode::from_u16(outcome.status).unwrap_or_default();
    if let Some(content_type) = content_type {
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    for (name, value) in outcome.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// Writes one request as a line for `GET /standin/requests`.
fn record(
    parts: &Parts,
    read: &Read,
    outcome: Option<&Outcome>,
    (began, cut): (&str, bool),
) -> String {
    let files = read.call.files.iter().map(|file| {
        json!({ "name": file.name, "size": file.bytes.len(), "sha256": hex(&Sha256::digest(&file.bytes)) })
    });
    let answer = match outcome.and_then(|outcome| outcome.body.as_ref()) {
        Some(FaultBody::Json(body)) => body.clone(),
        Some(FaultBody::Text(text)) => json!(text),
        None => Value::Null,
    };
    let mut line = json!({
        "began": began, "time": rfc3339(wall_ms()), "method": read.call.method,
        "path": parts.uri.path_and_query().map_or(parts.uri.path(), |path| path.as_str()),
        "body": read.call.body, "files": files.collect::<Vec<Value>>(),
        "status": outcome.map(|outcome| outcome.status), "answer": answer,
    });
    if cut {
        line["reply_lost"] = json!(true);
    }
    line.to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_with_and_without_a_version_and_decoded() {
        for path in [
            "/api/v10/channels/1/messages",
            "/api/channels/1/messages",
            "/api/v9/channels/1//messages/",
        ] {
            assert_eq!(api_path(path), ["channels", "1", "messages"]);
        }
        assert_eq!(api_path("/api/v10/x/%F0%9F%91%80/%zz"), ["x", "👀", "%zz"]);
    }
}
