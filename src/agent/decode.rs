//! Lines of the agent's stream become events.
//!
//! Every line gives at least one event, so that a line always counts as a sign of life. Nothing a line holds is an error:
//! what cannot be understood passes as [`Event::Unknown`] or [`Event::Unreadable`].

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;

use crate::domain::ids::SessionId;
use crate::domain::money::Usd;

use super::event::{Event, Init, Outcome, PermissionAsked, Tokens, ToolCall, ToolId, Used};
use super::lines::Line;
use super::wire::{Block, Message, StreamEvent, Usage, Wire};

/// The most that is kept of a tool's output, in bytes.
const OUTPUT: usize = 8 * 1024;

/// The `model` of messages that the CLI itself wrote in the agent's name (measured: errors, answers to commands).
const SYNTHETIC: &str = "<synthetic>";

/// Returns what a line says, in its order; never nothing.
pub fn decode(line: &Line) -> Vec<Event> {
    match line {
        Line::Whole(bytes) => match parse(bytes) {
            Some(wire) => whole(wire),
            None => vec![Event::Unreadable],
        },
        Line::TooLong { bytes, head } => too_long(*bytes, head),
    }
}

/// Reads one object; serde would take a list for one too.
fn parse(bytes: &[u8]) -> Option<Wire> {
    if !bytes.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    serde_json::from_slice(bytes)
        .or_else(|_| serde_json::from_slice(&mend_surrogates(bytes)))
        .ok()
}

/// Replaces half surrogate pairs by the replacement character: a text cut in the middle of an emoji is written as a lone
/// `\ud83d`, which is legal JSON for JavaScript and an error for serde.
fn mend_surrogates(bytes: &[u8]) -> Cow<'_, [u8]> {
    let mut mended = Vec::new();
    let mut done = 0;
    let mut at = 0;
    while at + 1 < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        let lone = match unit(bytes, at) {
            Some(0xD800..=0xDBFF) if matches!(unit(bytes, at + 6), Some(0xDC00..=0xDFFF)) => {
                at += 12;
                continue;
            }
            found => matches!(found, Some(0xD800..=0xDFFF)),
        };
        if lone {
            mended.extend_from_slice(&bytes[done..at]);
            mended.extend_from_slice(b"\\ufffd");
            done = at + 6;
        }
        at += if lone { 6 } else { 2 };
    }
    if done == 0 {
        return Cow::Borrowed(bytes);
    }
    mended.extend_from_slice(&bytes[done..]);
    Cow::Owned(mended)
}

/// Returns the number that a `\uXXXX` at this place names.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn whole(wire: Wire) -> Vec<Event> {
    match (wire.kind.as_deref(), wire.subtype.as_deref()) {
        (Some("assistant"), _) => assistant(wire),
        (Some("user"), _) => user(wire),
        (Some("stream_event"), _) => vec![stream_event(&wire)],
        (Some("control_request"), _) => vec![control_request(wire)],
        (Some("result"), _) => vec![Event::Result(outcome(wire))],
        (Some("system"), Some("init")) => vec![init(wire)],
        (Some("system"), Some("api_retry")) => vec![retry(&wire)],
        (Some("system"), Some("model_fallback")) => vec![model_changed(wire)],
        (Some("system"), Some("compact_boundary")) => vec![Event::Compacted],
        _ => vec![unknown(&wire)],
    }
}

fn unknown(wire: &Wire) -> Event {
    let kind = wire.kind.as_deref().unwrap_or("untyped");
    let kind = match wire.subtype.as_deref() {
        Some(subtype) => format!("{kind}/{subtype}"),
        None => kind.to_owned(),
    };
    Event::Unknown {
        kind: bounded(&kind, 100),
    }
}

fn some_kind(kind: &str) -> Event {
    Event::Unknown {
        kind: kind.to_owned(),
    }
}

fn init(wire: Wire) -> Event {
    let strings = wire.tools.unwrap_or_default();
    Event::Init(Init {
        session: SessionId(wire.session_id.unwrap_or_default()),
        model: wire.model.unwrap_or_default(),
        permission_mode: wire.permission_mode.unwrap_or_default(),
        tools: strings.iter().filter_map(owned).collect(),
    })
}

fn retry(wire: &Wire) -> Event {
    Event::Retry {
        attempt: wire.attempt.unwrap_or(1),
        of: wire.max_retries.unwrap_or(0),
        wait: milliseconds(wire.retry_delay_ms),
        status: wire.error_status,
    }
}

fn model_changed(wire: Wire) -> Event {
    match wire.fallback_model {
        Some(to) => Event::ModelChanged { to },
        None => unknown(&wire),
    }
}

fn assistant(wire: Wire) -> Vec<Event> {
    let parent = wire.parent_tool_use_id.clone().map(ToolId);
    let Some(message) = &wire.message else {
        return vec![unknown(&wire)];
    };
    // The result repeats what the CLI says in the agent's name, so nothing is lost here.
    if wire.error.is_some() || message.model.as_deref() == Some(SYNTHETIC) {
        return vec![some_kind("assistant/synthetic")];
    }
    let mut events: Vec<Event> = match &message.content {
        Value::String(text) if !text.is_empty() => vec![Event::Text {
            text: text.clone(),
            parent: parent.clone(),
        }],
        content => blocks(content)
            .into_iter()
            .filter_map(|block| said(block, parent.clone()))
            .collect(),
    };
    if let Some(usage) = &message.usage {
        events.push(used(parent, Some(message), tokens(usage)));
    }
    or_unknown(events, "assistant")
}

fn used(parent: Option<ToolId>, message: Option<&Message>, tokens: Tokens) -> Event {
    Event::Used(Used {
        answer: message.and_then(|message| message.id.clone()),
        parent,
        model: message.and_then(|message| message.model.clone()),
        tokens,
    })
}

fn tokens(usage: &Usage) -> Tokens {
    let hour = usage.cache_creation.as_ref();
    let hour = hour.and_then(|split| split.ephemeral_1h_input_tokens);
    let hour = hour.unwrap_or(0);
    let searches = usage.server_tool_use.as_ref();
    let searches = searches.and_then(|tools| tools.web_search_requests);
    Tokens {
        input: usage.input_tokens.unwrap_or(0),
        output: usage.output_tokens.unwrap_or(0),
        cache_write: usage.cache_creation_input_tokens.unwrap_or(0).max(hour),
        cache_write_1h: hour,
        cache_read: usage.cache_read_input_tokens.unwrap_or(0),
        web_searches: searches.unwrap_or(0),
    }
}

fn said(block: Block, parent: Option<ToolId>) -> Option<Event> {
    match block.kind.as_deref()? {
        "text" => Some(Event::Text {
            text: block.text.filter(|text| !text.is_empty())?,
            parent,
        }),
        "thinking" | "redacted_thinking" => Some(Event::Thinking),
        "tool_use" => Some(Event::ToolStarted(ToolCall {
            id: ToolId(block.id?),
            name: block.name.unwrap_or_else(|| "tool".to_owned()),
            input: block.input,
            parent,
        })),
        _ => None,
    }
}

fn user(wire: Wire) -> Vec<Event> {
    let Some(message) = wire.message else {
        return vec![some_kind("user")];
    };
    if wire.is_synthetic == Some(true) {
        return vec![some_kind("user/synthetic")];
    }
    if wire.is_replay == Some(true) {
        return vec![Event::Echo {
            id: wire.uuid,
            text: plain(&message.content),
        }];
    }
    let ended = tool_results(&message);
    or_unknown(ended, "user")
}

fn tool_results(message: &Message) -> Vec<Event> {
    blocks(&message.content)
        .into_iter()
        .filter(|block| block.kind.as_deref() == Some("tool_result"))
        .filter_map(|block| {
            Some(Event::ToolEnded {
                id: ToolId(block.tool_use_id?),
                failed: block.is_error.unwrap_or(false),
                output: bounded(&plain(&block.content), OUTPUT),
            })
        })
        .collect()
}

fn or_unknown(events: Vec<Event>, kind: &str) -> Vec<Event> {
    if events.is_empty() {
        vec![some_kind(kind)]
    } else {
        events
    }
}

fn stream_event(wire: &Wire) -> Event {
    let parent = wire.parent_tool_use_id.clone().map(ToolId);
    wire.event
        .as_ref()
        .and_then(|event| match event.kind.as_deref()? {
            "message_start" => {
                let message = event.message.as_ref()?;
                let tokens = message.usage.as_ref().map(tokens).unwrap_or_default();
                Some(used(parent, Some(message), tokens))
            }
            "message_delta" => Some(used(parent, None, tokens(event.usage.as_ref()?))),
            // Only the main conversation is shown while it is written.
            _ if parent.is_none() => piece(event),
            _ => None,
        })
        .unwrap_or_else(|| some_kind("stream_event"))
}

fn piece(event: &StreamEvent) -> Option<Event> {
    match event.kind.as_deref()? {
        "content_block_delta" => {
            let delta = event.delta.as_ref()?;
            let text = delta.text.clone().filter(|text| !text.is_empty())?;
            (delta.kind.as_deref() == Some("text_delta")).then_some(Event::TextDelta(text))
        }
        "content_block_start" => {
            let block = event.content_block.as_ref()?;
            (block.kind.as_deref() == Some("thinking")).then_some(Event::Thinking)
        }
        _ => None,
    }
}

fn control_request(wire: Wire) -> Event {
    match (wire.request_id, wire.request) {
        (Some(request_id), Some(request)) if request.subtype.as_deref() == Some("can_use_tool") => {
            Event::Permission(PermissionAsked {
                request_id,
                tool: request.tool_name.unwrap_or_default(),
                input: request.input,
            })
        }
        (_, request) => {
            let subtype = request.and_then(|request| request.subtype);
            some_kind(&bounded(
                &format!("control_request/{}", subtype.unwrap_or_default()),
                100,
            ))
        }
    }
}

fn outcome(wire: Wire) -> Outcome {
    let subtype = wire.subtype.unwrap_or_default();
    let denied = wire.permission_denials.unwrap_or_default();
    let errors = wire.errors.unwrap_or_default();
    Outcome {
        is_error: wire.is_error.unwrap_or(subtype != "success"),
        subtype,
        terminal_reason: wire.terminal_reason,
        stop_reason: wire.stop_reason,
        text: wire.result.unwrap_or_default(),
        errors: errors.iter().filter_map(owned).collect(),
        api_status: wire.api_error_status,
        total_cost: Usd::from_dollars(wire.total_cost_usd.unwrap_or(0.0)),
        turns: wire.num_turns.unwrap_or(0),
        duration: milliseconds(wire.duration_ms),
        session: wire.session_id.map(SessionId),
        denied: denied
            .iter()
            .filter_map(|denial| owned(denial.get("tool_name")?))
            .collect(),
        origin: wire.origin.and_then(|origin| origin.kind),
    }
}

/// Tells what the head of a line tells. A tool whose output is too long has ended all the same, so that is said too:
/// in a result that went well the CLI writes the tool's id before the output, and the id's key can stand unescaped
/// nowhere else in a `user` line (measured).
fn too_long(bytes: u64, head: &[u8]) -> Vec<Event> {
    let head = String::from_utf8_lossy(head);
    let kind = after(&head, "{\"type\":\"").map(str::to_owned);
    let tool = after(&head, "\"tool_use_id\":\"").map(|id| ToolId(id.to_owned()));
    let ended = tool
        .filter(|_| kind.as_deref() == Some("user"))
        .map(|id| Event::ToolEnded {
            id,
            failed: false,
            output: format!("({bytes} bytes, too many to show)"),
        });
    let mut events = vec![Event::TooLong { bytes, kind }];
    events.extend(ended);
    events
}

fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(key)?;
    let (value, _) = rest.split_once('"')?;
    (value.len() <= 100).then_some(value)
}

/// Returns the list's blocks that are blocks.
fn blocks(content: &Value) -> Vec<Block> {
    content
        .as_array()
        .into_iter()
        .flatten()
        .filter(|value| value.is_object())
        .filter_map(|value| serde_json::from_value(value.clone()).ok())
        .collect()
}

/// Returns content as text: a string as it is, a list block by block, pictures as `[image]`.
fn plain(content: &Value) -> String {
    if let Value::String(text) = content {
        return text.clone();
    }
    blocks(content)
        .into_iter()
        .filter_map(|block| match block.kind.as_deref() {
            Some("image") => Some("[image]".to_owned()),
            Some("document") => Some("[document]".to_owned()),
            _ => block.text,
        })
        .collect::<Vec<_>>()
        .join("\n")
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Returns at most `most` bytes of the text, cut between characters, with a mark where something is left out.
fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most.saturating_sub('…'.len_utf8());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

fn milliseconds(number: Option<f64>) -> Duration {
    let seconds = number.unwrap_or(0.0) / 1000.0;
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests;
