//! Reads Discord's objects field by field. A shape that surprises costs the one field, never the whole event: the SDK
//! drops an event as soon as one part of it is unknown, and with it a request of somebody who waits.

use serde_json::Value;

/// Returns a snowflake, which Discord writes as text.
pub(super) fn id(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_u64(),
        _ => None,
    }
    .filter(|id| *id != 0)
}

/// Returns the elements of a list; none where there is no list.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns a text; empty where there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the snowflakes in a list.
pub(super) fn ids(value: &Value) -> impl Iterator<Item = u64> {
    list(value).iter().filter_map(id)
}
