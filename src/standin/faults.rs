//! Faults on demand: how the stand-in misbehaves, by rules that a test gives.
//!
//! The rules are told in the room's opening words.

use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

/// A rule for REST requests.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestRule {
    /// Method and path, such as `PATCH /channels/*/messages/*`; `*` stands for one step of the path
    /// or any method.
    on: String,
    status: Option<u16>,
    code: Option<u32>,
    message: Option<String>,
    /// The whole body, in place of one made of code and message.
    body: Option<Value>,
    /// A body that is not JSON, such as a proxy's page.
    text: Option<String>,
    /// Seconds; with status 429.
    retry_after: Option<f64>,
    #[serde(default)]
    global: bool,
    scope: Option<String>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    lose_reply: bool,
    #[serde(default)]
    hang_up: bool,
    /// How often the rule holds; until it is cleared where absent.
    times: Option<u32>,
    /// Only every so many-th request that fits is meant, beginning with the first.
    #[serde(default = "each")]
    every: u32,
}

fn each() -> u32 {
    1
}

/// A rule for the gateway.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GatewayRule {
    gateway: GatewayFault,
    /// Close code.
    code: Option<u16>,
    #[serde(default)]
    resumable: bool,
    /// The only event that a trick is for.
    event: Option<String>,
    times: Option<u32>,
    seconds: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum GatewayFault {
    Drop,
    Close,
    Reconnect,
    InvalidSession,
    Forget,
    Duplicate,
    Shuffle,
    Unparsable,
    Lose,
    SilentHeartbeat,
    Refuse,
}

/// What is done to single events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trick {
    /// Sent twice.
    Duplicate,
    /// Held back and sent in the opposite order.
    Shuffle,
    /// Sent in a form that no client can read.
    Unparsable,
    /// Not sent, though it counts.
    Lose,
}

/// What is done at once to all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Blow {
    /// The connection ends without a word.
    Drop,
    /// The connection is closed with a code.
    Close(u16),
    /// The client is asked to connect again.
    Reconnect,
    /// The session is declared invalid.
    InvalidSession { resumable: bool },
}

/// What a REST rule does to one request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Effect {
    pub(crate) delay: Duration,
    /// The answer given instead of any effect.
    pub(crate) answer: Option<FaultAnswer>,
    pub(crate) lose_reply: bool,
    pub(crate) hang_up: bool,
}

/// An answer that a rule gives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FaultAnswer {
    pub(crate) status: u16,
    pub(crate) body: FaultBody,
    pub(crate) retry_after: Option<f64>,
    pub(crate) global: bool,
    pub(crate) scope: String,
}

/// The body of an answer that a rule gives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FaultBody {
    Json(Value),
    Text(String),
}

#[derive(Debug)]
struct Standing<T> {
    rule: T,
    given: Value,
    left: Option<u32>,
    /// How often it fitted.
    met: u32,
}

/// The rules that hold now.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rest: Vec<Standing<RestRule>>,
    tricks: Vec<Standing<(Trick, Option<String>)>>,
    silent: Option<Standing<()>>,
    refuse_until: Option<Instant>,
}

/// What a rule asks for beyond being kept.
#[derive(Debug, PartialEq)]
pub(crate) enum Demand {
    Nothing,
    Blow(Blow),
    /// All sessions are forgotten, so that none can be resumed.
    Forget,
    Advance(Duration),
}

impl Faults {
    /// Takes a rule. An error says what is wrong with it.
    pub(crate) fn add(&mut self, given: &Value, now: Instant) -> Result<Demand, String> {
        let read = |error: serde_json::Error| format!("unusable rule: {error}");
        if given.get("on").is_some() {
            let rule: RestRule = serde_json::from_value(given.clone()).map_err(read)?;
            rule.check()?;
            self.rest.push(Standing {
                left: rule.times,
                rule,
                given: given.clone(),
                met: 0,
            });
            return Ok(Demand::Nothing);
        }
        if given.get("gateway").is_some() {
            let rule: GatewayRule = serde_json::from_value(given.clone()).map_err(read)?;
            return Ok(self.add_gateway(rule, given, now));
        }
        match given.get("advance_seconds").and_then(Value::as_u64) {
            Some(seconds) => Ok(Demand::Advance(Duration::from_secs(seconds))),
            None => Err(
                "a rule has `on` (REST), `gateway`, or `advance_seconds` (a whole number)"
                    .to_owned(),
            ),
        }
    }

    fn add_gateway(&mut self, rule: GatewayRule, given: &Value, now: Instant) -> Demand {
        let trick = match rule.gateway {
            GatewayFault::Drop => return Demand::Blow(Blow::Drop),
            GatewayFault::Close => return Demand::Blow(Blow::Close(rule.code.unwrap_or(4000))),
            GatewayFault::Reconnect => return Demand::Blow(Blow::Reconnect),
            GatewayFault::InvalidSession => {
                return Demand::Blow(Blow::InvalidSession {
                    resumable: rule.resumable,
                });
            }
            GatewayFault::Forget => return Demand::Forget,
            GatewayFault::SilentHeartbeat => {
                self.silent = Some(Standing {
                    rule: (),
                    given: given.clone(),
                    left: rule.times,
                    met: 0,
                });
                return Demand::Nothing;
            }
            GatewayFault::Refuse => {
                let seconds = rule
                    .seconds
                    .filter(|seconds| *seconds >= 0.0)
                    .unwrap_or(5.0)
                    .min(3600.0);
                self.refuse_until = Some(now + Duration::from_secs_f64(seconds));
                return Demand::Blow(Blow::Drop);
            }
            GatewayFault::Duplicate => Trick::Duplicate,
            GatewayFault::Shuffle => Trick::Shuffle,
            GatewayFault::Unparsable => Trick::Unparsable,
            GatewayFault::Lose => Trick::Lose,
        };
        let left = Some(
            rule.times
                .unwrap_or(if trick == Trick::Shuffle { 2 } else { 1 }),
        );
        self.tricks.push(Standing {
            rule: (trick, rule.event),
            given: given.clone(),
            left,
            met: 0,
        });
        Demand::Nothing
    }

    /// Returns what the first rule that fits does to a request; the path has no `/api` before it.
    pub(crate) fn on_request(&mut self, method: &str, path: &[&str]) -> Option<Effect> {
        for standing in &mut self.rest {
            if standing.left == Some(0) || !standing.rule.fits(method, path) {
                continue;
            }
            standing.met += 1;
            if (standing.met - 1) % standing.rule.every == 0 {
                standing.left = standing.left.map(|left| left - 1);
                return Some(standing.rule.effect());
            }
        }
        None
    }

    /// Returns what is done to an event, and how many more a trick of this kind is for.
    pub(crate) fn on_event(&mut self, name: &str) -> Option<(Trick, u32)> {
        let standing = self.tricks.iter_mut().find(|standing| {
            standing.left != Some(0) && standing.rule.1.as_deref().is_none_or(|event| event == name)
        })?;
        let left = standing.left.unwrap_or(1) - 1;
        standing.left = Some(left);
        Some((standing.rule.0, left))
    }

    /// Tells whether a heartbeat is left without an answer.
    pub(crate) fn swallows_heartbeat(&mut self) -> bool {
        match &mut self.silent {
            Some(Standing { left: Some(0), .. }) | None => false,
            Some(standing) => {
                standing.left = standing.left.map(|left| left - 1);
                true
            }
        }
    }

    /// Tells whether new gateway connections are refused now.
    pub(crate) fn refuses_connections(&self, now: Instant) -> bool {
        self.refuse_until.is_some_and(|until| now < until)
    }

    /// Returns the rules that still hold.
    pub(crate) fn list(&self, now: Instant) -> Vec<Value> {
        let rest = self
            .rest
            .iter()
            .map(|standing| (&standing.given, standing.left));
        let tricks = self
            .tricks
            .iter()
            .map(|standing| (&standing.given, standing.left));
        let silent = self
            .silent
            .iter()
            .map(|standing| (&standing.given, standing.left));
        let standing = rest
            .chain(tricks)
            .chain(silent)
            .filter(|(_, left)| *left != Some(0));
        let mut listed: Vec<Value> = standing
            .map(|(given, left)| with_times(given, left))
            .collect();
        if let Some(until) = self.refuse_until.filter(|until| now < *until) {
            listed.push(
                json!({ "gateway": "refuse", "seconds": until.duration_since(now).as_secs_f64() }),
            );
        }
        listed
    }

    /// Ends all rules.
    pub(crate) fn clear(&mut self) {
        *self = Faults::default();
    }
}

fn with_times(given: &Value, left: Option<u32>) -> Value {
    let mut listed = given.clone();
    if let Some(left) = left {
        listed["times"] = json!(left);
    }
    listed
}

impl RestRule {
    fn check(&self) -> Result<(), String> {
        if self.on.split_once(" /").is_none() {
            return Err(format!(
                "unusable rule: `on` is {:?}, expected is `METHOD /path`",
                self.on
            ));
        }
        if self.every == 0 {
            return Err("unusable rule: `every` must be 1 or more".to_owned());
        }
        if self
            .status
            .is_some_and(|status| !(200..=599).contains(&status))
        {
            return Err("unusable rule: `status` must be 200 to 599".to_owned());
        }
        if self.status.is_none() && self.delay_ms == 0 && !self.lose_reply && !self.hang_up {
            return Err(
                "unusable rule: it needs `status`, `delay_ms`, `lose_reply` or `hang_up`"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn fits(&self, method: &str, path: &[&str]) -> bool {
        let Some((wanted, pattern)) = self.on.split_once(" /") else {
            return false;
        };
        let mut steps: Vec<&str> = pattern.split('/').filter(|step| !step.is_empty()).collect();
        let open_ended = steps.pop_if(|last| *last == "**").is_some();
        let long_enough = path.len() == steps.len() || open_ended && path.len() > steps.len();
        (wanted == "*" || wanted.eq_ignore_ascii_case(method))
            && long_enough
            && steps
                .iter()
                .zip(path)
                .all(|(step, given)| *step == "*" || step == given)
    }

    fn effect(&self) -> Effect {
        let answer = self.status.map(|status| {
            let retry_after = self.retry_after.filter(|_| status == 429);
            let mut body = json!({
                "message": self.message.clone().unwrap_or_else(|| default_message(status).to_owned()),
                "code": self.code.unwrap_or(0),
            });
            if status == 429 {
                body["global"] = json!(self.global);
            }
            if let Some(retry_after) = retry_after {
                body["retry_after"] = json!(retry_after);
            }
            let body = self.body.clone().unwrap_or(body);
            let body = self.text.clone().map_or(FaultBody::Json(body), FaultBody::Text);
            let scope = self.scope.clone().unwrap_or_else(|| if self.global { "global" } else { "user" }.to_owned());
            FaultAnswer { status, body, retry_after, global: self.global, scope }
        });
        let delay = Duration::from_millis(self.delay_ms);
        Effect {
            delay,
            answer,
            lose_reply: self.lose_reply,
            hang_up: self.hang_up,
        }
    }
}

fn default_message(status: u16) -> &'static str {
    match status {
        401 => "401: Unauthorized",
        403 => "Missing Access",
        404 => "404: Not Found",
        429 => "You are being rate limited.",
        500.. => "Internal server error",
        _ => "Bad request",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(rule: Value) -> (Faults, Result<Demand, String>) {
        let mut faults = Faults::default();
        let demand = faults.add(&rule, Instant::now());
        (faults, demand)
    }

    #[test]
    fn a_rule_holds_as_often_as_it_says_and_for_its_path_alone() {
        let (mut faults, _) = with(json!({
            "on": "PATCH /channels/*/messages/*", "status": 429, "retry_after": 5, "times": 2
        }));
        assert_eq!(
            faults.on_request("POST", &["channels", "1", "messages"]),
            None
        );
        let path = ["channels", "1", "messages", "2"];
        let answer = faults
            .on_request("PATCH", &path)
            .and_then(|effect| effect.answer)
            .unwrap();
        assert_eq!((answer.status, answer.retry_after), (429, Some(5.0)));
        assert!(faults.on_request("PATCH", &path).is_some());
        assert_eq!(faults.on_request("PATCH", &path), None);
        assert!(faults.list(Instant::now()).is_empty());
    }

    #[test]
    fn a_pattern_may_leave_its_end_open() {
        for (on, path, fits) in [
            ("* /**", vec!["users", "@me"], true),
            (
                "GET /channels/*/**",
                vec!["channels", "1", "messages", "2"],
                true,
            ),
            ("GET /channels/*/**", vec!["channels", "1"], true),
            ("GET /channels/*/**", vec!["guilds", "1", "roles"], false),
            ("GET /channels/*", vec!["channels", "1", "messages"], false),
        ] {
            let (mut faults, _) = with(json!({"on": on, "status": 500}));
            assert_eq!(
                faults.on_request("GET", &path).is_some(),
                fits,
                "{on} {path:?}"
            );
        }
    }

    #[test]
    fn an_unusable_rule_is_refused_with_the_reason() {
        for (rule, expected) in [
            (json!({}), "`on`"),
            (json!({"on": "messages", "status": 500}), "METHOD /path"),
            (json!({"on": "GET /x"}), "needs `status`"),
            (json!({"on": "GET /x", "status": 99}), "200 to 599"),
            (json!({"on": "GET /x", "satus": 500}), "satus"),
            (json!({"gateway": "explode"}), "explode"),
        ] {
            let (_, demand) = with(rule);
            let error = demand.expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_trick_is_for_its_event_alone() {
        let (mut faults, _) = with(json!({"gateway": "duplicate", "event": "MESSAGE_CREATE"}));
        assert_eq!(faults.on_event("READY"), None);
        assert_eq!(
            faults.on_event("MESSAGE_CREATE"),
            Some((Trick::Duplicate, 0))
        );
        assert_eq!(faults.on_event("MESSAGE_CREATE"), None);
    }

    #[test]
    fn heartbeats_are_swallowed_as_often_as_a_rule_says() {
        let (mut faults, _) = with(json!({"gateway": "silent-heartbeat", "times": 1}));
        assert!(faults.swallows_heartbeat());
        assert!(!faults.swallows_heartbeat());
        let (mut faults, _) = with(json!({"gateway": "silent-heartbeat"}));
        assert!((0..100).all(|_| faults.swallows_heartbeat()));
        faults.clear();
        assert!(!faults.swallows_heartbeat());
    }

    #[test]
    fn connections_are_refused_for_a_while() {
        let start = Instant::now();
        let mut faults = Faults::default();
        let demand = faults.add(&json!({"gateway": "refuse", "seconds": 3}), start);
        assert_eq!(demand, Ok(Demand::Blow(Blow::Drop)));
        assert!(faults.refuses_connections(start + Duration::from_secs(2)));
        assert!(!faults.refuses_connections(start + Duration::from_secs(3)));
    }
}
