//! The stream that the scripted agent writes: the real one's lines, one JSON object each.

use std::io::{Result, Write};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::domain::money::Usd;

use super::flags::Given;

/// Characters of one piece of text while it is being written.
const PIECE: usize = 40;

/// Writes lines of one session.
pub(super) struct Stream<W: Write> {
    out: W,
    session: String,
    model: String,
}

/// How a turn ended.
pub(super) struct Ending<'a> {
    pub(super) subtype: &'a str,
    pub(super) is_error: bool,
    pub(super) terminal_reason: Option<&'a str>,
    pub(super) stop_reason: Option<&'a str>,
    pub(super) text: &'a str,
    pub(super) errors: Vec<String>,
    pub(super) denied: &'a [Value],
    pub(super) turns: u32,
    pub(super) milliseconds: u64,
    pub(super) cost: Usd,
}

impl<W: Write> Stream<W> {
    /// Makes the stream of this start.
    pub(super) fn new(out: W, given: &Given) -> Stream<W> {
        Stream {
            out,
            session: given.session.clone(),
            model: model_id(&given.model).to_owned(),
        }
    }

    /// Writes these bytes as they are, as one line.
    pub(super) fn raw(&mut self, line: &[u8]) -> Result<()> {
        self.out.write_all(line)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }

    fn line(&mut self, mut value: Value) -> Result<()> {
        value["session_id"] = self.session.clone().into();
        if value.get("uuid").is_none() {
            value["uuid"] = id().into();
        }
        self.raw(value.to_string().as_bytes())
    }

    /// `system/init`, at the beginning of each turn.
    pub(super) fn init(&mut self, given: &Given, workspace: &str) -> Result<()> {
        let mut tools: Vec<&str> = given
            .tools
            .iter()
            .map(|tool| if tool == "Agent" { "Task" } else { tool })
            .collect();
        tools.sort_unstable();
        let model = self.model.clone();
        self.line(json!({
            "type": "system", "subtype": "init", "cwd": workspace, "tools": tools, "mcp_servers": [],
            "model": model, "permissionMode": given.mode, "slash_commands": [], "apiKeySource": "none",
            "output_style": "default", "agents": [], "skills": [], "plugins": [],
        }))
    }

    /// A message of people, once it belongs to the conversation.
    pub(super) fn echo(&mut self, uuid: &str, text: &str) -> Result<()> {
        self.line(json!({
            "type": "user", "message": {"role": "user", "content": text}, "parent_tool_use_id": null,
            "uuid": uuid, "isReplay": true,
        }))
    }

    /// A text, first piece by piece and then whole.
    pub(super) fn text(&mut self, text: &str, cost: Usd) -> Result<()> {
        let message = self.begin("text", cost)?;
        let characters: Vec<char> = text.chars().collect();
        for piece in characters.chunks(PIECE) {
            let piece: String = piece.iter().collect();
            self.event(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}))?;
        }
        self.block(&message, json!({"type": "text", "text": text}), cost)?;
        self.end("end_turn", cost)
    }

    /// A thought.
    pub(super) fn thinking(&mut self, thought: &str) -> Result<()> {
        let message = self.begin("thinking", Usd::ZERO)?;
        self.block(
            &message,
            json!({"type": "thinking", "thinking": thought, "signature": ""}),
            Usd::ZERO,
        )?;
        self.end("end_turn", Usd::ZERO)
    }

    /// The beginning of a tool call.
    pub(super) fn tool_use(
        &mut self,
        tool: &str,
        name: &str,
        input: &Value,
        cost: Usd,
    ) -> Result<()> {
        let message = self.begin("tool_use", cost)?;
        self.block(
            &message,
            json!({"type": "tool_use", "id": tool, "name": name, "input": input}),
            cost,
        )?;
        self.end("tool_use", cost)
    }

    /// An answer of the model that shows in nothing but its cost.
    pub(super) fn hidden(&mut self, cost: Usd) -> Result<()> {
        self.begin("redacted", cost)?;
        self.end("end_turn", cost)
    }

    fn begin(&mut self, kind: &str, cost: Usd) -> Result<String> {
        let message = format!("msg_{}", Uuid::new_v4().simple());
        let start = json!({
            "id": message, "type": "message", "role": "assistant", "model": self.model, "content": [], "usage": usage(cost),
        });
        self.event(json!({"type": "message_start", "message": start}))?;
        self.event(
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": kind}}),
        )?;
        Ok(message)
    }

    fn block(&mut self, message: &str, block: Value, cost: Usd) -> Result<()> {
        let model = self.model.clone();
        self.assistant(json!({
            "id": message, "type": "message", "role": "assistant", "model": model, "content": [block], "stop_reason": null,
            "usage": usage(cost),
        }))
    }

    fn assistant(&mut self, message: Value) -> Result<()> {
        self.line(json!({"type": "assistant", "message": message, "parent_tool_use_id": null}))
    }

    fn end(&mut self, reason: &str, cost: Usd) -> Result<()> {
        self.event(json!({"type": "content_block_stop", "index": 0}))?;
        self.event(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage(cost)}))?;
        self.event(json!({"type": "message_stop"}))
    }

    fn event(&mut self, event: Value) -> Result<()> {
        self.line(json!({"type": "stream_event", "event": event, "parent_tool_use_id": null}))
    }

    /// The end of a tool call.
    pub(super) fn tool_result(&mut self, tool: &str, output: &str, failed: bool) -> Result<()> {
        self.line(json!({
            "type": "user", "parent_tool_use_id": null, "message": {"role": "user", "content": [
                {"tool_use_id": tool, "type": "tool_result", "content": output, "is_error": failed}]},
        }))
    }

    /// An error in the agent's name, as the real program writes the provider's errors.
    pub(super) fn synthetic(&mut self, text: &str) -> Result<()> {
        self.line(json!({
            "type": "assistant", "parent_tool_use_id": null, "error": "scripted", "message": {
                "id": id(), "type": "message", "role": "assistant", "model": "<synthetic>",
                "content": [{"type": "text", "text": text}]},
        }))
    }

    /// The note that a turn was interrupted.
    pub(super) fn interrupted(&mut self) -> Result<()> {
        self.line(json!({
            "type": "user", "parent_tool_use_id": null,
            "message": {"role": "user", "content": [{"type": "text", "text": "[Request interrupted]"}]},
        }))
    }

    /// Asks whether a tool may be used; returns the id that the answer must name.
    pub(super) fn can_use_tool(&mut self, tool: &str, name: &str, input: &Value) -> Result<String> {
        let request = id();
        self.raw(
            json!({
                "type": "control_request", "request_id": request, "request": {
                    "subtype": "can_use_tool", "tool_name": name, "display_name": name, "input": input, "tool_use_id": tool},
            })
            .to_string()
            .as_bytes(),
        )?;
        Ok(request)
    }

    /// Answers a control request.
    pub(super) fn control_response(&mut self, request: &str) -> Result<()> {
        let response = json!({"subtype": "success", "request_id": request});
        self.raw(
            json!({"type": "control_response", "response": response})
                .to_string()
                .as_bytes(),
        )
    }

    /// The end of a turn.
    pub(super) fn result(&mut self, ending: &Ending<'_>) -> Result<()> {
        let mut value = json!({
            "type": "result", "subtype": ending.subtype, "is_error": ending.is_error, "api_error_status": null,
            "duration_ms": ending.milliseconds, "duration_api_ms": ending.milliseconds, "num_turns": ending.turns,
            "stop_reason": ending.stop_reason, "total_cost_usd": ending.cost.0 as f64 / 1e6,
            "permission_denials": ending.denied, "terminal_reason": ending.terminal_reason,
        });
        if ending.subtype == "success" {
            value["result"] = ending.text.into();
        }
        if !ending.errors.is_empty() {
            value["errors"] = ending.errors.clone().into();
        }
        self.line(value)
    }
}

/// The use that costs so much: a small model's input is a micro-dollar for each token.
fn usage(cost: Usd) -> Value {
    json!({"input_tokens": cost.0, "output_tokens": 0})
}

fn id() -> String {
    Uuid::new_v4().to_string()
}

/// The ids behind the aliases, as the real program 2.1.197 has them.
fn model_id(model: &str) -> &str {
    match model {
        "opus" => "claude-opus-4-8",
        "sonnet" => "claude-sonnet-5",
        "haiku" => "claude-haiku-4-5-20251001",
        "fable" => "claude-fable-5",
        other => other,
    }
}
