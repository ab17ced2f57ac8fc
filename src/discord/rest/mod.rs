//! The one client for Discord's REST interface.
//!
//! Every call to a channel stands in that channel's queue, with one call on the wire; limits are honoured as Discord
//! announces them, so that a 429 is the exception; what is repeated is only what may be. It never follows a redirect,
//! never asks another host than the configured one, and never lets an address or a token into an error.

mod call;
mod error;
mod lanes;
mod pace;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rand::Rng;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::multipart::{Form, Part};
use reqwest::{StatusCode, Url};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use call::{Again, Call, Major};
pub use error::RestError;
use lanes::{Lane, Lanes};
use pace::{Pace, Tally};

/// Calls a second for the whole bot. Discord allows fifty (topics/rate-limits); the rest is left to the unforeseen.
const PER_SECOND: u32 = 30;

/// The longest that one try may take, beside the time for its files.
const TRY: Duration = Duration::from_secs(30);

/// Tries of a call that faults.
const TRIES: u32 = 5;

/// The first pause after a fault; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Kibibytes of files that may be on their way at once: each file is in memory twice while it is sent.
const UPLOAD_ROOM: u32 = 128 * 1024;

/// The longest wait that is believed when Discord asks for one.
const LONGEST_WAIT: f64 = 86_400.0;

/// The client; clones share everything.
#[derive(Clone, Debug)]
pub struct Rest {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    http: reqwest::Client,
    base: Url,
    authorization: HeaderValue,
    pace: Pace,
    lanes: Lanes,
    tally: Tally,
    uploads: Arc<Semaphore>,
    token_refused: CancellationToken,
}

/// Discord's answer to a call that worked.
#[derive(Clone, Debug)]
pub struct Answer {
    call: &'static str,
    body: Bytes,
}

impl Answer {
    /// Reads the body as JSON.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, RestError> {
        serde_json::from_slice(&self.body).map_err(|error| RestError::Away {
            call: self.call,
            why: format!("the answer makes no sense: {error}"),
        })
    }
}

/// What one try came to.
enum Try {
    Done(Answer),
    Failed(RestError),
    /// Discord did nothing and wants this call, or every call, to wait.
    Wait(Instant),
    /// Whether it had an effect is unknown.
    Fault {
        why: String,
        connection: bool,
    },
}

/// Why the client could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BadSettings {
    /// The token holds something that no header can.
    #[error("discord.token holds characters that no token has")]
    Token,
    /// The address is none.
    #[error("discord.api_url {0:?} is no http or https address")]
    Address(String),
    /// The system's TLS or sockets cannot be used.
    #[error("no HTTP client could be made: {0}")]
    Client(String),
}

impl Rest {
    /// Returns a client that asks `api_url` alone, signing with `token`.
    pub fn new(api_url: &Url, token: &SecretString) -> Result<Rest, BadSettings> {
        if !matches!(api_url.scheme(), "http" | "https") || api_url.cannot_be_a_base() {
            return Err(BadSettings::Address(api_url.to_string()));
        }
        let secret = token.expose_secret().trim();
        let mut authorization =
            HeaderValue::from_str(&format!("Bot {secret}")).map_err(|_| BadSettings::Token)?;
        authorization.set_sensitive(true);
        Ok(Rest {
            inner: Arc::new(Inner {
                http: client().map_err(|error| BadSettings::Client(error.to_string()))?,
                base: api_url.clone(),
                authorization,
                pace: Pace::new(PER_SECOND),
                lanes: Lanes::default(),
                tally: Tally::new(),
                uploads: Arc::new(Semaphore::new(UPLOAD_ROOM as usize)),
                token_refused: CancellationToken::new(),
            }),
        })
    }

    /// Returns the configured address.
    pub fn base(&self) -> &Url {
        &self.inner.base
    }

    /// Returns a token that is cancelled when Discord refuses the bot's token: nothing is asked any more, and the
    /// program ends with the exit code that keeps a supervisor from starting it again.
    pub fn token_refused(&self) -> CancellationToken {
        self.inner.token_refused.clone()
    }

    /// Returns how many calls stand in the queue of `major`.
    pub fn waiting(&self, major: Major) -> usize {
        self.inner.lanes.waiting(major)
    }

    /// Returns an HTTP client with this one's limits that adds no token, for files.
    pub(super) fn plain(&self) -> &reqwest::Client {
        &self.inner.http
    }

    /// Makes a call and reads its answer.
    pub async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, RestError> {
        self.send(call).await?.read()
    }

    /// Makes a call: waits for its turn, its limits and the room for its files, repeats it where that is right, and
    /// gives up at its deadline.
    pub async fn send(&self, call: Call) -> Result<Answer, RestError> {
        let inner = &*self.inner;
        if call.ornament && inner.tally.total(Instant::now()) > Tally::TOO_MANY {
            return Err(away(&call, "discord has refused too much lately"));
        }
        let until = Instant::now() + call.deadline;
        let outcome = tokio::time::timeout_at(until, inner.in_line(&call, until)).await;
        outcome.unwrap_or_else(|_| Err(away(&call, "no answer within the deadline")))
    }
}

impl Inner {
    async fn in_line(&self, call: &Call, until: Instant) -> Result<Answer, RestError> {
        let _room = self.room(call).await?;
        if call.major == Major::Interaction {
            return self.persist(call, until, None).await;
        }
        let standing = self.lanes.enter(call.major);
        let turn = standing.lane.turn(call.name);
        let _turn = turn.lock().await;
        self.persist(call, until, Some(&standing.lane)).await
    }

    /// Waits until the files of a call may take their memory.
    async fn room(&self, call: &Call) -> Result<Option<OwnedSemaphorePermit>, RestError> {
        let kibibytes = u32::try_from(call.upload_bytes().div_ceil(1024)).unwrap_or(u32::MAX);
        if kibibytes == 0 {
            return Ok(None);
        }
        let wanted = kibibytes.saturating_mul(2).min(UPLOAD_ROOM);
        let room = Arc::clone(&self.uploads).acquire_many_owned(wanted).await;
        room.map(Some)
            .map_err(|_| away(call, "the client is closed"))
    }

    /// Tries until something is final.
    async fn persist(
        &self,
        call: &Call,
        until: Instant,
        lane: Option<&Lane>,
    ) -> Result<Answer, RestError> {
        let mut tries = 0;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.one_try(call, until, lane).await {
                Try::Done(answer) => return Ok(answer),
                Try::Failed(error) => return Err(error),
                Try::Wait(at) if at > until => {
                    return Err(away(call, "discord wants a wait beyond the deadline"));
                }
                Try::Wait(at) => tokio::time::sleep_until(at).await,
                Try::Fault { why, connection } => {
                    tries += 1;
                    let again = match call.again {
                        Again::Safe => tries < TRIES,
                        Again::Once => tries < 2 && connection,
                        Again::Never => false,
                    };
                    if !again {
                        return Err(away(call, &why));
                    }
                    if call.again == Again::Safe {
                        tokio::time::sleep(jittered(pause)).await;
                        pause *= 2;
                    }
                }
            }
        }
    }

    async fn one_try(&self, call: &Call, until: Instant, lane: Option<&Lane>) -> Try {
        if self.token_refused.is_cancelled() && call.major != Major::Interaction {
            return Try::Failed(refused(call, 401, 0, "the token was refused before"));
        }
        let Some(lane) = lane else {
            return self.exchange(call, None).await;
        };
        loop {
            let now = Instant::now();
            let ready = self.lanes.ready_at(lane, call.name);
            if let Some(at) = ready.filter(|at| *at > now) {
                if at > until {
                    return Try::Wait(at);
                }
                tokio::time::sleep_until(at).await;
            }
            let _flight = lane.flight.lock().await;
            // A call that falls under the same limit may have used it up meanwhile.
            let ready = self.lanes.ready_at(lane, call.name);
            if ready.is_none_or(|at| at <= Instant::now()) {
                self.pace.pass().await;
                return self.exchange(call, Some(lane)).await;
            }
        }
    }

    /// Sends the request once and judges the answer.
    async fn exchange(&self, call: &Call, lane: Option<&Lane>) -> Try {
        let request = match self.request(call) {
            Ok(request) => request,
            Err(error) => return Try::Failed(error),
        };
        let exchanged = async {
            let response = request.send().await?;
            let (status, headers) = (response.status(), response.headers().clone());
            Ok::<_, reqwest::Error>((status, headers, response.bytes().await?))
        };
        match exchanged.await {
            Ok((status, headers, body)) => self.judge(call, lane, status, &headers, body),
            Err(error) => Try::Fault {
                connection: !error.is_timeout(),
                why: causes(&error.without_url()),
            },
        }
    }

    fn request(&self, call: &Call) -> Result<reqwest::RequestBuilder, RestError> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => {
                segments.pop_if_empty().extend(["api", "v10"]);
                segments.extend(call.path.split('/'));
            }
            Err(()) => return Err(away(call, "the configured address is none")),
        }
        let mut request = self
            .http
            .request(call.method.clone(), url)
            .query(&call.query)
            .timeout(TRY + call.upload_time());
        if call.major != Major::Interaction {
            request = request.header(AUTHORIZATION, self.authorization.clone());
        }
        let json = call.json.clone();
        Ok(match (call.files.is_empty(), json) {
            (true, None) => request,
            (true, Some(json)) => request.header(CONTENT_TYPE, "application/json").body(json),
            (false, json) => request.multipart(form(call, json)),
        })
    }

    fn judge(
        &self,
        call: &Call,
        lane: Option<&Lane>,
        status: StatusCode,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Try {
        let now = Instant::now();
        self.learn_limit(call, lane, headers, now);
        if status.is_success() {
            let call = call.name;
            return Try::Done(Answer { call, body });
        }
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        let code = u32::try_from(said["code"].as_u64().unwrap_or(0)).unwrap_or(0);
        let error = refused(call, status.as_u16(), code, &words(&said));
        match status.as_u16() {
            429 => self.wait(call, lane, headers, &said, error),
            status @ (401 | 403) => {
                self.count(now);
                // Callbacks carry a token of their own, whose end (50027) says nothing about the bot's.
                if status == 401 && call.major != Major::Interaction {
                    self.token_refused.cancel();
                }
                Try::Failed(error)
            }
            500.. => fault(error),
            // "Not ready" and "overloaded", whatever the status.
            _ if matches!(code, 110_000 | 130_000) => fault(error),
            _ => Try::Failed(error),
        }
    }

    /// Remembers what Discord announces about the limit that a call falls under.
    fn learn_limit(&self, call: &Call, lane: Option<&Lane>, headers: &HeaderMap, now: Instant) {
        let Some(lane) = lane else { return };
        if let Some(bucket) = text(headers, "x-ratelimit-bucket") {
            self.lanes.learn(call.name, bucket);
        }
        let remaining = number(headers, "x-ratelimit-remaining");
        let reset = number(headers, "x-ratelimit-reset-after");
        if let (Some(remaining), Some(reset)) = (remaining, reset)
            && remaining < 1.0
        {
            self.lanes.hold(lane, call.name, now + wait_of(reset));
        }
    }

    /// Judges a 429: nothing was done, so the call is made again once Discord allows it.
    fn wait(
        &self,
        call: &Call,
        lane: Option<&Lane>,
        headers: &HeaderMap,
        said: &Value,
        error: RestError,
    ) -> Try {
        let now = Instant::now();
        let scope = text(headers, "x-ratelimit-scope").unwrap_or("");
        metrics::counter!("innkeeper_discord_429_total", "scope" => scope_label(scope))
            .increment(1);
        if scope != "shared" {
            self.count(now);
        }
        let header = number(headers, "retry-after");
        let wanted = said["retry_after"].as_f64().or(header);
        // An edit of an old message (30046) comes as 429 and is final; one without any wait in it must not be repeated
        // by a program at all.
        let (Some(wanted), false) = (wanted, error.code() == 30_046) else {
            return Try::Failed(error);
        };
        let until = now + wait_of(wanted);
        let global = scope == "global"
            || said["global"].as_bool() == Some(true)
            || headers.contains_key("x-ratelimit-global");
        tracing::debug!(
            call = call.name,
            seconds = wanted,
            global,
            "discord wants a wait"
        );
        match lane {
            _ if global => self.pace.pause(until),
            Some(lane) => self.lanes.hold(lane, call.name, until),
            None => {}
        }
        Try::Wait(until)
    }

    fn count(&self, now: Instant) {
        if self.tally.count(now) == Tally::MANY {
            tracing::warn!("discord has refused a thousand calls within ten minutes");
        }
    }
}

/// Returns an HTTP client that never follows a redirect, uses no proxy, and gives up on a silent server.
pub(super) fn client() -> Result<reqwest::Client, reqwest::Error> {
    reqwest::Client::builder()
        .user_agent(concat!(
            "DiscordBot (innkeeper, ",
            env!("CARGO_PKG_VERSION"),
            ")"
        ))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(5))
        .pool_idle_timeout(Duration::from_secs(60))
        .build()
}

fn form(call: &Call, json: Option<Bytes>) -> Form {
    let json = json.unwrap_or_else(|| Bytes::from_static(b"{}"));
    let json = String::from_utf8_lossy(&json).into_owned();
    let mut form = Form::new().text("payload_json", json);
    for (index, file) in call.files.iter().enumerate() {
        let length = file.bytes.len() as u64;
        let part = Part::stream_with_length(file.bytes.clone(), length);
        form = form.part(format!("files[{index}]"), part.file_name(file.name.clone()));
    }
    form
}

fn away(call: &Call, why: &str) -> RestError {
    RestError::Away {
        call: call.name,
        why: why.to_owned(),
    }
}

fn refused(call: &Call, status: u16, code: u32, message: &str) -> RestError {
    RestError::Refused {
        call: call.name,
        status,
        code,
        message: message.to_owned(),
    }
}

fn fault(error: RestError) -> Try {
    Try::Fault {
        why: error.to_string(),
        connection: false,
    }
}

/// Returns Discord's words about an error, with the paths of the fields that it names.
fn words(said: &Value) -> String {
    let message: String = said["message"]
        .as_str()
        .unwrap_or("no reason given")
        .chars()
        .take(200)
        .collect();
    let mut paths = Vec::new();
    field_paths(&said["errors"], "", &mut paths);
    if paths.is_empty() {
        message
    } else {
        format!("{message} ({})", paths.join(", "))
    }
}

/// Collects the paths of rejected fields, a few of them and not too deep.
fn field_paths(errors: &Value, path: &str, found: &mut Vec<String>) {
    let Some(fields) = errors.as_object() else {
        return;
    };
    for (name, inner) in fields {
        if found.len() >= 5 || path.len() > 100 {
            return;
        }
        if name == "_errors" {
            found.push(path.trim_start_matches('.').to_owned());
        } else {
            field_paths(inner, &format!("{path}.{name}"), found);
        }
    }
}

/// Returns an error with its causes, which reqwest leaves out.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn number(headers: &HeaderMap, name: &str) -> Option<f64> {
    text(headers, name)?.trim().parse().ok()
}

fn wait_of(seconds: f64) -> Duration {
    if seconds.is_nan() {
        Duration::ZERO
    } else {
        Duration::from_secs_f64(seconds.clamp(0.0, LONGEST_WAIT))
    }
}

fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(rand::rng().random_range(0.5..1.5))
}

fn scope_label(scope: &str) -> &'static str {
    match scope {
        "global" => "global",
        "shared" => "shared",
        _ => "user",
    }
}
