//! What the agent reports, in our words.
//!
//! Source: recorded streams of the real CLI, 2.1.197 (`tests/fixtures/stream-json`).

use std::time::Duration;

use crate::domain::ids::SessionId;
use crate::domain::money::Usd;

/// The agent's own name of one tool call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolId(pub String);

/// One thing that the stream says.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A turn of the process begins (repeated for each one).
    Init(Init),
    /// A block of the agent's text.
    Text {
        /// The words.
        text: String,
        /// The sub-agent's call it belongs to; `None`: the main conversation.
        parent: Option<ToolId>,
    },
    /// The newest piece of a text that is being written (main conversation only).
    TextDelta(String),
    /// The agent thinks.
    Thinking,
    /// A tool call begins.
    ToolStarted(ToolCall),
    /// A tool call ended.
    ToolEnded {
        /// Which.
        id: ToolId,
        /// Whether it failed or was denied.
        failed: bool,
        /// What it gave, bounded to 8 KiB.
        output: String,
    },
    /// A message that was fed in is now part of the conversation (`--replay-user-messages`).
    Echo {
        /// The `uuid` it was fed with, if the CLI kept it.
        id: Option<String>,
        /// Its text.
        text: String,
    },
    /// The agent asks whether a tool may be used (`can_use_tool`).
    Permission(PermissionAsked),
    /// What an answer of the provider has used so far.
    Used(Used),
    /// The provider could not be reached or refused; the CLI tries again.
    Retry {
        /// Which attempt failed, from 1.
        attempt: u32,
        /// How many there will be.
        of: u32,
        /// The wait before the next.
        wait: Duration,
        /// HTTP status, where there was one.
        status: Option<u16>,
    },
    /// Another model answers than was asked for.
    ModelChanged {
        /// Which.
        to: String,
    },
    /// The conversation was compacted.
    Compacted,
    /// A result. A process can give several; the run ends when the process ends.
    Result(Outcome),
    /// Nothing we know; harmless.
    Unknown {
        /// `type` or `type/subtype`.
        kind: String,
    },
    /// A line that is no JSON object; harmless.
    Unreadable,
    /// A line larger than is kept in memory; what could be told from its head.
    TooLong {
        /// Bytes of the line.
        bytes: u64,
        /// `type`, if its head told.
        kind: Option<String>,
    },
}

/// `system/init`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// The session.
    pub session: SessionId,
    /// The full id of the model.
    pub model: String,
    /// Must be the mode that was asked for, else the settings did not hold.
    pub permission_mode: String,
    /// The tools it has.
    pub tools: Vec<String>,
}

/// What an answer of the provider has used so far. The numbers grow until the answer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// The provider's id of the answer; `None`: the one that began last in its conversation.
    pub answer: Option<String>,
    /// The sub-agent's call it belongs to; `None`: the main conversation.
    pub parent: Option<ToolId>,
    /// The full id of the model, where told.
    pub model: Option<String>,
    /// How much.
    pub tokens: Tokens,
}

/// Tokens and extras of one answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input outside the cache.
    pub input: u64,
    /// Output, thinking included.
    pub output: u64,
    /// Input written to the cache, for whichever time.
    pub cache_write: u64,
    /// That of it which was written for an hour.
    pub cache_write_1h: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Web searches.
    pub web_searches: u64,
}

impl Tokens {
    /// Returns the larger number of each kind.
    pub fn max(self, other: Tokens) -> Tokens {
        Tokens {
            input: self.input.max(other.input),
            output: self.output.max(other.output),
            cache_write: self.cache_write.max(other.cache_write),
            cache_write_1h: self.cache_write_1h.max(other.cache_write_1h),
            cache_read: self.cache_read.max(other.cache_read),
            web_searches: self.web_searches.max(other.web_searches),
        }
    }

    /// Returns whether nothing was used.
    pub fn is_none(&self) -> bool {
        *self == Tokens::default()
    }
}

/// One tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Its id.
    pub id: ToolId,
    /// The tool (`Bash`, `Write`, `Agent`, …).
    pub name: String,
    /// Its input, as JSON.
    pub input: serde_json::Value,
    /// The sub-agent's call it belongs to; `None`: the main conversation.
    pub parent: Option<ToolId>,
}

/// `control_request` / `can_use_tool`.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionAsked {
    /// What the answer must name.
    pub request_id: String,
    /// The tool.
    pub tool: String,
    /// Its input.
    pub input: serde_json::Value,
}

/// What a `result` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The only thing that says whether it went well: `subtype` is `success` for API errors too (measured).
    pub is_error: bool,
    /// `success`, `error_max_turns`, `error_max_budget_usd`, `error_during_execution`, …
    pub subtype: String,
    /// Why the loop ended, where told: `completed`, `aborted_tools`, `aborted_streaming`, `max_turns`, …
    pub terminal_reason: Option<String>,
    /// `end_turn`, `max_tokens`, `refusal`; `None` also for a stream that was cut.
    pub stop_reason: Option<String>,
    /// The last text, or the error's.
    pub text: String,
    /// Further errors.
    pub errors: Vec<String>,
    /// Status of the provider's error, where there was one.
    pub api_status: Option<u16>,
    /// Cost of the process so far: cumulative within a process, sub-agents included, from 0 again on resume.
    pub total_cost: Usd,
    /// Tool results counted, not API calls.
    pub turns: u32,
    /// Wall time.
    pub duration: Duration,
    /// The session.
    pub session: Option<SessionId>,
    /// Tools that were denied by rule.
    pub denied: Vec<String>,
    /// Set where the turn was not asked for by people (`task-notification`).
    pub origin: Option<String>,
}
