//! How records of older versions become records of today.

use serde_json::Value;

/// The version that is written.
pub(super) const VERSION: u8 = 1;

/// Turns a value of an older version into one of [`VERSION`]; an unknown version is `None`.
///
/// Each new version adds one step here and a sample under `tests/fixtures/store/`.
pub(super) fn upgrade(_tree: &str, version: u8, value: Value) -> Option<Value> {
    (version == VERSION).then_some(value)
}
