//! The shapes of the stream's JSON, as the CLI 2.1.197 writes them.
//!
//! Everything is optional, a field of another type than expected counts as absent, and what is not named here is passed over:
//! a new version of the CLI must never stop a turn.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// One line of the stream, whatever its type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wire {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) subtype: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) session_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) uuid: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) parent_tool_use_id: Option<String>,

    // assistant, user
    #[serde(deserialize_with = "lenient")]
    pub(super) message: Option<Message>,
    #[serde(rename = "isSynthetic", deserialize_with = "lenient")]
    pub(super) is_synthetic: Option<bool>,
    #[serde(rename = "isReplay", deserialize_with = "lenient")]
    pub(super) is_replay: Option<bool>,
    #[serde(deserialize_with = "lenient")]
    pub(super) error: Option<Value>,

    // system/init
    #[serde(deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    #[serde(rename = "permissionMode", deserialize_with = "lenient")]
    pub(super) permission_mode: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) tools: Option<Vec<Value>>,

    // system/api_retry
    #[serde(deserialize_with = "lenient")]
    pub(super) attempt: Option<u32>,
    #[serde(deserialize_with = "lenient")]
    pub(super) max_retries: Option<u32>,
    #[serde(deserialize_with = "lenient")]
    pub(super) retry_delay_ms: Option<f64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) error_status: Option<u16>,

    // system/model_fallback
    #[serde(deserialize_with = "lenient")]
    pub(super) fallback_model: Option<String>,

    // stream_event
    #[serde(deserialize_with = "lenient")]
    pub(super) event: Option<StreamEvent>,

    // control_request
    #[serde(deserialize_with = "lenient")]
    pub(super) request_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) request: Option<ControlRequest>,

    // result
    #[serde(deserialize_with = "lenient")]
    pub(super) is_error: Option<bool>,
    #[serde(deserialize_with = "lenient")]
    pub(super) api_error_status: Option<u16>,
    #[serde(deserialize_with = "lenient")]
    pub(super) result: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) errors: Option<Vec<Value>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) terminal_reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) stop_reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) total_cost_usd: Option<f64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) num_turns: Option<u32>,
    #[serde(deserialize_with = "lenient")]
    pub(super) duration_ms: Option<f64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) permission_denials: Option<Vec<Value>>,
    #[serde(deserialize_with = "lenient")]
    pub(super) origin: Option<Origin>,
}

/// The message of an `assistant` or `user` line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    #[serde(deserialize_with = "lenient")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: Option<Usage>,
    /// A string, or a list of blocks.
    pub(super) content: Value,
}

/// What an answer used, as it stands in `assistant`, `message_start` and `message_delta`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Usage {
    #[serde(deserialize_with = "lenient")]
    pub(super) input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) output_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) cache_creation_input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) cache_read_input_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) cache_creation: Option<CacheCreation>,
    #[serde(deserialize_with = "lenient")]
    pub(super) server_tool_use: Option<ServerToolUse>,
}

/// Input written to the cache, by how long it stays there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CacheCreation {
    #[serde(deserialize_with = "lenient")]
    pub(super) ephemeral_1h_input_tokens: Option<u64>,
}

/// Tools that the provider itself ran.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ServerToolUse {
    #[serde(deserialize_with = "lenient")]
    pub(super) web_search_requests: Option<u64>,
}

/// One block of a message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) text: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) name: Option<String>,
    pub(super) input: Value,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_use_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) is_error: Option<bool>,
    /// A string, or a list of blocks.
    pub(super) content: Value,
}

/// The event inside a `stream_event`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamEvent {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) delta: Option<Delta>,
    #[serde(deserialize_with = "lenient")]
    pub(super) content_block: Option<Block>,
    /// Of `message_start`.
    #[serde(deserialize_with = "lenient")]
    pub(super) message: Option<Message>,
    /// Of `message_delta`.
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: Option<Usage>,
}

/// A piece of a block that is being written.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Delta {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) text: Option<String>,
}

/// What a `control_request` asks.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ControlRequest {
    #[serde(deserialize_with = "lenient")]
    pub(super) subtype: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_name: Option<String>,
    pub(super) input: Value,
}

/// Why a turn began that nobody asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Origin {
    #[serde(deserialize_with = "lenient")]
    pub(super) kind: Option<String>,
}

/// Reads a field, or leaves it out where it has another type.
fn lenient<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value::<Option<T>>(value).unwrap_or_default())
}
