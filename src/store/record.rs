//! The bytes of one record: a version, then JSON of the domain value.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::StoreError;
use super::upgrade::{VERSION, upgrade};

/// Returns the bytes of a value for a tree.
pub(super) fn encode<T: Serialize>(tree: &'static str, value: &T) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![VERSION];
    serde_json::to_writer(&mut bytes, value).map_err(|error| StoreError::Unwritable {
        tree,
        why: error.to_string(),
    })?;
    Ok(bytes)
}

/// Reads a record back, upgrading it if it is an older one.
pub(super) fn decode<T: DeserializeOwned>(
    tree: &'static str,
    key: &[u8],
    bytes: &[u8],
) -> Result<T, StoreError> {
    let value = decode_value(tree, key, bytes)?;
    serde_json::from_value(value).map_err(|error| unreadable(tree, key, error))
}

/// Reads a record back as JSON of today's version.
pub(super) fn decode_value(
    tree: &'static str,
    key: &[u8],
    bytes: &[u8],
) -> Result<Value, StoreError> {
    let Some((version, json)) = bytes.split_first() else {
        return Err(unreadable(tree, key, "it is empty"));
    };
    let key_text = String::from_utf8_lossy(key);
    if *version > VERSION {
        return Err(future(
            format!("the record {key_text:?} in {tree}"),
            u64::from(*version),
        ));
    }
    let value = serde_json::from_slice(json).map_err(|error| unreadable(tree, key, error))?;
    upgrade(tree, *version, value)
        .ok_or_else(|| unreadable(tree, key, format!("there never was a version {version}")))
}

/// Returns the error for something that a newer program wrote.
pub(super) fn future(place: String, found: u64) -> StoreError {
    StoreError::Future {
        place,
        found,
        known: VERSION,
    }
}

/// Returns the error for a record that cannot be read.
pub(super) fn unreadable(tree: &'static str, key: &[u8], why: impl ToString) -> StoreError {
    StoreError::Unreadable {
        tree,
        key: String::from_utf8_lossy(key).into_owned(),
        why: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::money::Usd;

    #[test]
    fn a_record_comes_back_as_it_was_written() {
        let bytes = encode("t", &Usd(5)).unwrap();
        assert_eq!(bytes, b"\x015");
        assert_eq!(decode::<Usd>("t", b"k", &bytes).unwrap(), Usd(5));
    }

    #[test]
    fn a_newer_record_is_refused_and_not_guessed_at() {
        let error = decode::<Usd>("t", b"k", b"\x025").unwrap_err();
        assert!(matches!(
            error,
            StoreError::Future {
                found: 2,
                known: 1,
                ..
            }
        ));
    }

    #[test]
    fn a_damaged_record_is_named_and_never_becomes_a_default() {
        for bytes in [&b""[..], b"\x01", b"\x01{", b"\x01\"x\"", b"\x005"] {
            let error = decode::<Usd>("money", b"k7", bytes).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("money") && text.contains("k7"), "{text}");
        }
    }
}
