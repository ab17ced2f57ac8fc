//! What a request to the provider asks for, as far as money is concerned.

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::price::{Cost, Price};
use super::prompt::{LARGEST_WINDOW, Messages, Prompt};

/// The most web searches and fetches that one request may allow.
pub const MOST_SEARCHES: u64 = 20;

/// The shortest answer that is worth its input, in tokens.
const LEAST_ANSWER: u64 = 256;

/// The smallest thinking budget that the provider accepts, in tokens (Messages API reference, `thinking`).
const LEAST_THINKING: u64 = 1024;

/// Kinds of tools that cost nothing beyond tokens and counted searches, by the beginning of their `type`.
const PRICED_TOOLS: [&str; 7] = [
    "custom",
    "bash_",
    "text_editor_",
    "memory_",
    "tool_search_tool_",
    "web_search_",
    "web_fetch_",
];

/// Why a request cannot be let through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAsked {
    /// The body is no request that can be read.
    #[error("the request cannot be read: {0}")]
    Unreadable(String),
    /// Something whose price is not known.
    #[error("{0} is not available here, because the meter cannot tell what it costs")]
    Unpriced(String),
    /// A tool that reads the web without a bound.
    #[error("tools that search or fetch need max_uses, of at most {MOST_SEARCHES} together")]
    Searches,
}

/// A request for an answer.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The model.
    pub model: String,
    /// Output tokens at most, as asked for.
    pub max_tokens: u64,
    /// Web searches and fetches at most.
    pub searches: u64,
    /// The thinking budget, where one is named.
    thinking: Option<u64>,
    /// Whether its answer comes piece by piece, so that its output shows while it is made.
    pub(super) streamed: bool,
    /// Its input.
    pub(super) prompt: Prompt,
    places: Places,
}

/// Where numbers stand in the body: offset and length.
#[derive(Clone, Debug)]
struct Places {
    max_tokens: (usize, usize),
    budget: Option<(usize, usize)>,
}

/// The parts of a request that are looked at. A key that occurs twice is an error, so that nobody reads another one
/// than the provider does.
#[derive(Deserialize)]
struct Wire<'a> {
    model: String,
    #[serde(borrow)]
    max_tokens: &'a RawValue,
    #[serde(borrow, default)]
    thinking: Option<WireThinking<'a>>,
    #[serde(default)]
    stream: Option<bool>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_choice: Option<&'a RawValue>,
    #[serde(borrow, default)]
    system: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_config: Option<&'a RawValue>,
    #[serde(default)]
    messages: Messages,
    #[serde(default)]
    speed: Option<String>,
    #[serde(default)]
    inference_geo: Option<String>,
    #[serde(default)]
    mcp_servers: Option<Vec<IgnoredAny>>,
    #[serde(default)]
    container: Option<Value>,
    #[serde(default)]
    fallbacks: Option<Value>,
}

#[derive(Deserialize)]
struct WireThinking<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    budget_tokens: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireTool {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    max_uses: Option<u64>,
}

impl Ask {
    /// Reads a request's body.
    pub fn read(body: &[u8]) -> Result<Ask, NotAsked> {
        let text = str::from_utf8(body).map_err(|error| NotAsked::Unreadable(error.to_string()))?;
        let wire: Wire<'_> = serde_json::from_str(text).map_err(unreadable)?;
        let tools: Option<Vec<WireTool>> = match wire.tools {
            Some(tools) => serde_json::from_str(tools.get()).map_err(unreadable)?,
            None => None,
        };
        let tools = tools.unwrap_or_default();
        refuse_unpriced(&wire, &tools)?;
        let thinking = wire.thinking.as_ref();
        let budget = thinking.and_then(|thinking| thinking.budget_tokens);
        let before = [
            wire.tools,
            wire.system,
            wire.tool_choice,
            wire.output_config,
            thinking.and_then(|thinking| thinking.kind),
        ];
        Ok(Ask {
            max_tokens: number(wire.max_tokens)?,
            thinking: budget.map(number).transpose()?,
            searches: searches(&tools)?,
            streamed: wire.stream.unwrap_or(false),
            prompt: Prompt::read(text, &before, wire.messages),
            places: Places {
                max_tokens: place(body, wire.max_tokens),
                budget: budget.map(|budget| place(body, budget)),
            },
            model: wire.model,
        })
    }

    /// Returns the greatest number of input tokens that this can be: pictures and documents can take more tokens than
    /// bytes, and what the web gives is read as input again and again.
    pub fn most_input(&self) -> u64 {
        LARGEST_WINDOW * (self.searches + 1)
    }

    /// Returns the least number of output tokens with which the request is of use and is accepted.
    pub fn least_output(&self) -> u64 {
        let thinking = self.thinking.map_or(0, |_| LEAST_THINKING);
        self.max_tokens.min(thinking + LEAST_ANSWER)
    }

    /// Returns what its input costs if nothing of it is in the cache, as reckoned from its text.
    pub fn input_cost(&self, price: &Price) -> Cost {
        Cost::of(self.prompt.tokens(), self.prompt.dearest(price))
    }

    /// Returns what its searches and a short answer cost.
    pub(super) fn extras(&self, price: &Price) -> Cost {
        Cost::searches(self.searches) + Cost::of(self.least_output(), price.output)
    }

    /// Returns the thinking budget that is sent if at most `output` tokens are asked for.
    pub(super) fn budget(&self, output: u64) -> Option<u64> {
        let most = match output >= self.max_tokens {
            true => u64::MAX,
            false => output.saturating_sub(LEAST_ANSWER),
        };
        self.thinking.map(|budget| budget.min(most))
    }

    /// Returns the body with at most `output` tokens asked for; a thinking budget is kept below that.
    pub fn lowered(&self, body: Bytes, output: u64) -> Bytes {
        if output >= self.max_tokens {
            return body;
        }
        let mut edits = vec![(self.places.max_tokens, output)];
        if let (Some(place), Some(budget)) = (self.places.budget, self.budget(output)) {
            edits.push((place, budget));
        }
        edits.sort_unstable();
        let mut lowered = Vec::with_capacity(body.len());
        let mut from = 0;
        for ((start, length), number) in edits {
            lowered.extend_from_slice(&body[from..start]);
            lowered.extend_from_slice(number.to_string().as_bytes());
            from = start + length;
        }
        lowered.extend_from_slice(&body[from..]);
        lowered.into()
    }

    /// Returns whether the provider may read the web for it, which makes further input.
    pub fn reads_web(&self) -> bool {
        self.searches > 0
    }
}

impl WireTool {
    fn is(&self, kind: &str) -> bool {
        self.kind
            .as_deref()
            .is_some_and(|own| own.starts_with(kind))
    }
}

/// Returns the model of a request that costs nothing (`count_tokens`).
pub(super) fn model_of(body: &[u8]) -> Result<String, NotAsked> {
    #[derive(Deserialize)]
    struct Model {
        model: String,
    }
    let Model { model } = serde_json::from_slice(body).map_err(unreadable)?;
    Ok(model)
}

fn refuse_unpriced(wire: &Wire<'_>, tools: &[WireTool]) -> Result<(), NotAsked> {
    let unpriced = |what: &str| Err(NotAsked::Unpriced(what.to_owned()));
    let is_set = |value: &Option<Value>| value.as_ref().is_some_and(|value| !value.is_null());
    if wire
        .speed
        .as_deref()
        .is_some_and(|speed| speed != "standard")
    {
        return unpriced("speed");
    }
    if wire
        .inference_geo
        .as_deref()
        .is_some_and(|geo| geo != "global")
    {
        return unpriced("inference_geo");
    }
    if wire
        .mcp_servers
        .as_ref()
        .is_some_and(|servers| !servers.is_empty())
    {
        return unpriced("mcp_servers");
    }
    if is_set(&wire.container) {
        return unpriced("container");
    }
    if is_set(&wire.fallbacks) {
        return unpriced("fallbacks");
    }
    let unknown = tools
        .iter()
        .find(|tool| tool.kind.is_some() && !PRICED_TOOLS.iter().any(|priced| tool.is(priced)));
    match unknown.and_then(|tool| tool.kind.as_deref()) {
        Some(kind) => unpriced(&format!("the tool {kind:.60}")),
        None => Ok(()),
    }
}

fn searches(tools: &[WireTool]) -> Result<u64, NotAsked> {
    let mut all = 0_u64;
    for tool in tools.iter().filter(|tool| tool.is("web_")) {
        all = all.saturating_add(tool.max_uses.ok_or(NotAsked::Searches)?);
    }
    if all > MOST_SEARCHES {
        return Err(NotAsked::Searches);
    }
    Ok(all)
}

fn number(raw: &RawValue) -> Result<u64, NotAsked> {
    serde_json::from_str(raw.get()).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> NotAsked {
    NotAsked::Unreadable(error.to_string())
}

/// Returns where in `body` a value stands that was borrowed from it.
fn place(body: &[u8], value: &RawValue) -> (usize, usize) {
    let text = value.get();
    (text.as_ptr() as usize - body.as_ptr() as usize, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price::usual(
        crate::domain::money::Usd(3_000_000),
        crate::domain::money::Usd(15_000_000),
    );

    fn ask(text: &str) -> Result<Ask, NotAsked> {
        Ask::read(text.as_bytes())
    }

    #[test]
    fn lowering_changes_the_two_numbers_and_nothing_else() {
        let table = [
            (
                r#"{"model":"m","thinking":{"budget_tokens": 31999,"type":"enabled"}, "max_tokens" : 32000,"z":1}"#,
                r#"{"model":"m","thinking":{"budget_tokens": 1744,"type":"enabled"}, "max_tokens" : 2000,"z":1}"#,
            ),
            (
                r#"{"max_tokens":64000,"model":"m","thinking":{"type":"adaptive"},"messages":["max_tokens"]}"#,
                r#"{"max_tokens":2000,"model":"m","thinking":{"type":"adaptive"},"messages":["max_tokens"]}"#,
            ),
            (
                r#"{"max_tokens":7,"model":"m"}"#,
                r#"{"max_tokens":7,"model":"m"}"#,
            ),
        ];
        for (before, after) in table {
            let body = Bytes::from(before);
            assert_eq!(Ask::read(&body).unwrap().lowered(body, 2000), after);
        }
    }

    #[test]
    fn a_thinking_budget_stays_acceptable_when_it_is_lowered() {
        let body =
            Bytes::from(r#"{"model":"m","max_tokens":32000,"thinking":{"budget_tokens":31999}}"#);
        let ask = Ask::read(&body).unwrap();
        let lowered = Ask::read(&ask.lowered(body, ask.least_output())).unwrap();
        assert_eq!((lowered.max_tokens, lowered.thinking), (1280, Some(1024)));
    }

    #[test]
    fn what_has_no_known_price_is_refused_by_name() {
        let table = [
            (r#""speed":"fast""#, "speed"),
            (r#""inference_geo":"us""#, "inference_geo"),
            (r#""mcp_servers":[{}]"#, "mcp_servers"),
            (r#""container":"c""#, "container"),
            (r#""fallbacks":[{"model":"claude-opus-4-8"}]"#, "fallbacks"),
            (
                r#""tools":[{"name":"a"},{"type":"code_execution_20250825"}]"#,
                "the tool code_execution_20250825",
            ),
            (
                r#""tools":[{"type":"advisor_20260301","model":"claude-opus-4-8"}]"#,
                "the tool advisor_20260301",
            ),
        ];
        for (piece, name) in table {
            let refused = ask(&format!(r#"{{"model":"m","max_tokens":1,{piece}}}"#)).unwrap_err();
            assert_eq!(refused, NotAsked::Unpriced(name.to_owned()));
        }
    }

    #[test]
    fn what_is_harmless_passes() {
        for piece in [
            r#""speed":"standard""#,
            r#""mcp_servers":[],"container":null,"tools":null"#,
            r#""tools":[{"name":"Bash","input_schema":{}},{"type":"custom"},{"type":"web_search_20250305","max_uses":8}]"#,
        ] {
            ask(&format!(r#"{{"model":"m","max_tokens":1,{piece}}}"#)).unwrap();
        }
    }

    #[test]
    fn reading_the_web_needs_a_bound() {
        for rest in [
            "search_20250305\"",
            "search_20250305\",\"max_uses\":21",
            "fetch_20250910\"",
        ] {
            let tool = format!(r#"{{"type":"web_{rest}}}"#);
            let body = format!(r#"{{"model":"m","max_tokens":1,"tools":[{tool}]}}"#);
            assert_eq!(ask(&body).unwrap_err(), NotAsked::Searches);
        }
    }

    #[test]
    fn a_key_that_is_there_twice_is_an_error_however_it_is_spelt() {
        for twice in [
            r#"{"model":"claude-haiku-4-5","model":"claude-opus-4-8","max_tokens":1}"#,
            r#"{"model":"claude-haiku-4-5","mod\u0065l":"claude-opus-4-8","max_tokens":1}"#,
            r#"{"model":"m","max_tokens":1,"max_tokens":2}"#,
        ] {
            assert!(
                matches!(ask(twice), Err(NotAsked::Unreadable(_))),
                "{twice}"
            );
        }
    }

    #[test]
    fn a_body_that_is_no_request_is_an_error() {
        for body in [
            "",
            "[]",
            "{}",
            r#"{"model":"m"}"#,
            r#"{"model":"m","max_tokens":-1}"#,
            r#"{"model":1,"max_tokens":1}"#,
        ] {
            assert!(matches!(ask(body), Err(NotAsked::Unreadable(_))), "{body}");
        }
    }

    #[test]
    fn the_input_is_reckoned_as_if_nothing_were_in_the_cache() {
        let words = "words ".repeat(4000);
        let asked = |mark: &str| {
            let message = format!(r#"{{"content":[{{"text":"{words}"{mark}}}]}}"#);
            ask(&format!(
                r#"{{"model":"m","max_tokens":1,"messages":[{message}]}}"#
            ))
            .unwrap()
        };
        let plain = asked("").input_cost(&PRICE);
        // Two bytes of six to a token, and something for what stands around them.
        assert!(plain > Cost::of(8_000, PRICE.input) && plain < Cost::of(8_600, PRICE.input));
        assert!(asked(r#","cache_control":{}"#).input_cost(&PRICE) > plain);
    }

    #[test]
    fn messages_that_are_no_list_are_an_error() {
        let body = r#"{"model":"m","max_tokens":1,"messages":"words"}"#;
        assert!(matches!(ask(body), Err(NotAsked::Unreadable(_))));
    }
}
