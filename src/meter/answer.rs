//! Counts an answer that comes as one JSON object, while its bytes go by. Pure; keeps only the `usage` in it.

use super::account::Count;
use super::usage::{Usage, WireUsage};

/// The largest `usage` that is read.
const MOST: usize = 16 * 1024;

/// The longest key that is read.
const KEY: usize = 32;

/// Counts one answer.
#[derive(Debug, Default)]
pub(super) struct AnswerCounter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// The last string at the top of the object: the key, when its value begins.
    key: Vec<u8>,
    /// The bytes of `usage` so far, while it is being read.
    found: Option<Vec<u8>>,
    usage: Option<Usage>,
}

impl AnswerCounter {
    /// Takes the next bytes, cut anywhere.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.take_byte(*byte);
        }
    }

    /// Returns what the answer used, once its `usage` has gone by.
    pub(super) fn count(&self) -> Count {
        Count {
            usage: self.usage.unwrap_or_default(),
            input_known: self.usage.is_some(),
            complete: self.usage.is_some(),
        }
    }

    fn take_byte(&mut self, byte: u8) {
        if self.in_string {
            self.take_in_string(byte);
        } else {
            self.take_outside(byte);
        }
    }

    fn take_in_string(&mut self, byte: u8) {
        self.keep(byte);
        if self.escaped {
            self.escaped = false;
        } else if byte == b'\\' {
            self.escaped = true;
        } else if byte == b'"' {
            self.in_string = false;
            return;
        }
        if self.depth == 1 && self.key.len() < KEY {
            self.key.push(byte);
        }
    }

    fn take_outside(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.in_string = true;
                if self.depth == 1 {
                    self.key.clear();
                }
            }
            b'{' | b'[' => {
                if byte == b'{' && self.depth == 1 && self.key == b"usage" {
                    self.found = Some(Vec::new());
                }
                self.depth += 1;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.keep(byte);
        if self.depth == 1 && byte == b'}' {
            self.finish();
        }
    }

    fn keep(&mut self, byte: u8) {
        if let Some(found) = self.found.as_mut().filter(|found| found.len() < MOST) {
            found.push(byte);
        }
    }

    fn finish(&mut self) {
        let Some(found) = self.found.take() else {
            return;
        };
        if let Ok(wire) = serde_json::from_slice::<WireUsage>(&found) {
            let mut usage = Usage::default();
            usage.update(&wire);
            self.usage = Some(usage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"{"id":"m\"","content":[{"type":"text","text":"\"usage\":{\"output_tokens\":9}","usage":{"output_tokens":8}}],
        "usage":{"input_tokens":5,"cache_creation":{"ephemeral_1h_input_tokens":2},"output_tokens":7},"x":"}"}"#;

    fn counted(pieces: &[&str]) -> Count {
        let mut counter = AnswerCounter::default();
        for piece in pieces {
            counter.take(piece.as_bytes());
        }
        counter.count()
    }

    #[test]
    fn the_usage_of_an_answer_is_found_wherever_it_is_cut() {
        for at in 0..ANSWER.len() {
            let count = counted(&[&ANSWER[..at], &ANSWER[at..]]);
            let usage = count.usage;
            assert_eq!(
                (usage.input, usage.output, usage.cache_write_1h),
                (5, 7, 2),
                "{at}"
            );
            assert!(count.complete);
        }
    }

    #[test]
    fn an_answer_without_its_usage_is_not_complete() {
        let end = ANSWER.find(r#","x""#).unwrap();
        for end in 0..end {
            assert!(!counted(&[&ANSWER[..end]]).complete, "{end}");
        }
        for other in [
            "[1,2]",
            "}}}}",
            r#"{"usage":3}"#,
            r#"{"usage":{"output_tokens":"many"}}"#,
        ] {
            assert!(!counted(&[other]).complete, "{other}");
        }
    }
}
