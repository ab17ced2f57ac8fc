//! Counts an answer that comes as server-sent events, while its bytes go by. Pure; keeps at most one line.

use serde::Deserialize;

use super::account::Count;
use super::usage::{Usage, WireUsage};

/// The longest line that is read. The events that carry numbers are far shorter; a longer one is a piece of an answer.
const LINE: usize = 16 * 1024;

/// Bytes of written text that one token usually takes, on the dear side.
const USUAL_BYTES_PER_TOKEN: u64 = 3;

/// Characters of a thinking block's signature for one token of the thinking that it stands for.
const SIGNATURE_PER_TOKEN: u64 = 4;

/// Counts one stream.
#[derive(Debug, Default)]
pub(super) struct StreamCounter {
    line: Vec<u8>,
    /// Bytes of the line that did not fit.
    skipped: u64,
    usage: Usage,
    input_known: bool,
    complete: bool,
    shown: Shown,
}

/// What the stream shows of the output before the provider tells its size.
#[derive(Debug, Default)]
struct Shown {
    /// Bytes of text and tool input.
    text: u64,
    /// Bytes of thinking that is written out.
    thinking: u64,
    /// Tokens of hidden thinking, as the provider estimates them on the way.
    hidden: u64,
    /// Characters of signatures.
    signature: u64,
}

/// One event, of any kind.
#[derive(Deserialize)]
struct Wire {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    message: Option<WireMessage>,
    #[serde(default)]
    delta: Option<WireDelta>,
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct WireMessage {
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct WireDelta {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    partial_json: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    estimated_tokens: Option<u64>,
}

impl StreamCounter {
    /// Takes the next bytes, cut anywhere.
    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.keep(&bytes[..end]);
            self.finish_line();
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    /// Returns how far the answer is counted.
    pub(super) fn count(&self) -> Count {
        let output = self.usage.output;
        Count {
            usage: Usage {
                output: if self.complete {
                    output
                } else {
                    output.max(self.shown.tokens())
                },
                ..self.usage
            },
            input_known: self.input_known,
            complete: self.complete,
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let fits = bytes.len().min(LINE - self.line.len());
        self.line.extend_from_slice(&bytes[..fits]);
        self.skipped += (bytes.len() - fits) as u64;
    }

    fn finish_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let skipped = std::mem::take(&mut self.skipped);
        if let Some(data) = line.strip_prefix(b"data:") {
            if skipped > 0 {
                self.shown.take_cut_line(data, skipped);
            } else if let Ok(event) = serde_json::from_slice(data) {
                self.take_event(event);
            }
        }
        // The buffer is used again, unless one long line made it large.
        if line.capacity() <= 1024 {
            self.line = line;
            self.line.clear();
        }
    }

    fn take_event(&mut self, event: Wire) {
        match event.kind.as_str() {
            "message_start" => {
                if let Some(usage) = event.message.and_then(|message| message.usage) {
                    self.usage.update(&usage);
                    self.input_known = true;
                }
            }
            "content_block_delta" => self.shown.take(event.delta),
            "message_delta" => {
                if let Some(usage) = event.usage {
                    self.usage.update(&usage);
                    self.complete = self.input_known;
                }
            }
            _ => {}
        }
    }
}

impl Shown {
    fn take(&mut self, delta: Option<WireDelta>) {
        let Some(delta) = delta else {
            return;
        };
        let bytes = |text: &Option<String>| text.as_ref().map_or(0, |text| text.len() as u64);
        self.text += bytes(&delta.text) + bytes(&delta.partial_json);
        self.thinking += bytes(&delta.thinking);
        self.signature += bytes(&delta.signature);
        self.hidden = self
            .hidden
            .saturating_add(delta.estimated_tokens.unwrap_or(0));
    }

    /// Takes a line of which only the beginning was kept. What is no delta (the results of a search) is no output.
    fn take_cut_line(&mut self, beginning: &[u8], skipped: u64) {
        let head = &beginning[..beginning.len().min(200)];
        let has = |word: &[u8]| head.windows(word.len()).any(|piece| piece == word);
        let size = beginning.len() as u64 + skipped;
        if has(b"signature_delta") {
            self.signature += size;
        } else if has(b"content_block_delta") {
            self.text += size;
        }
    }

    fn tokens(&self) -> u64 {
        let thought = self.hidden + self.thinking.div_ceil(USUAL_BYTES_PER_TOKEN);
        let signed = self.signature / SIGNATURE_PER_TOKEN;
        self.text.div_ceil(USUAL_BYTES_PER_TOKEN) + thought.max(signed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &str = concat!(
        "event: message_start\n",
        r#"data: {"type":"message_start","message":{"model":"m","usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":1}}}"#,
        "\n\nevent: ping\r\ndata: {\"type\":\"ping\"}\r\n\r\n",
        r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ein Stück \"Text\""}}"#,
        "\n\n",
        r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":12,"output_tokens":77,"server_tool_use":{"web_search_requests":2}}}"#,
        "\n\ndata: {\"type\":\"message_stop\"}\n\n",
    );

    fn counted(pieces: &[&[u8]]) -> Count {
        let mut counter = StreamCounter::default();
        for piece in pieces {
            counter.take(piece);
        }
        counter.count()
    }

    fn delta(piece: &str) -> String {
        format!("data: {{\"type\":\"content_block_delta\",\"delta\":{{{piece}}}}}\n\n")
    }

    #[test]
    fn the_numbers_of_a_stream_are_found() {
        let usage = Usage {
            input: 12,
            output: 77,
            cache_write: 20,
            cache_read: 30,
            web_searches: 2,
            ..Usage::default()
        };
        let expected = Count {
            usage,
            input_known: true,
            complete: true,
        };
        assert_eq!(counted(&[STREAM.as_bytes()]), expected);
    }

    #[test]
    fn a_stream_cut_at_any_byte_is_counted_as_far_as_it_came() {
        let whole = counted(&[STREAM.as_bytes()]);
        let told = STREAM.find("\n\nevent: ping").unwrap();
        let final_told = STREAM.find("\n\ndata: {\"type\":\"message_stop").unwrap();
        for end in 0..=STREAM.len() {
            let count = counted(&[&STREAM.as_bytes()[..end]]);
            assert_eq!(count.input_known, end > told, "{end}");
            assert_eq!(count.complete, end > final_told, "{end}");
            assert!(count.usage.output <= whole.usage.output, "{end}");
        }
    }

    proptest! {
        #[test]
        fn it_makes_no_difference_where_chunks_end(cuts in prop::collection::vec(0..STREAM.len(), 0..40)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let pieces: Vec<_> = cuts.windows(2).map(|w| &STREAM.as_bytes()[w[0]..w[1]]).collect();
            prop_assert_eq!(counted(&pieces), counted(&[STREAM.as_bytes()]));
        }

        #[test]
        fn nonsense_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let count = counted(&[&bytes]);
            prop_assert!(!count.complete);
        }
    }

    #[test]
    fn output_is_estimated_from_what_is_shown() {
        let table = [
            (delta(r#""text":"123456789""#), 3),
            (delta(r#""partial_json":"{\"a\":1}""#), 3),
            (delta(r#""thinking":"","estimated_tokens":50"#), 50),
            (delta(r#""signature":"12345678""#), 2),
            (
                delta(r#""estimated_tokens":50"#) + &delta(r#""signature":"12345678""#),
                50,
            ),
        ];
        for (stream, tokens) in table {
            assert_eq!(
                counted(&[stream.as_bytes()]).usage.output,
                tokens,
                "{stream}"
            );
        }
    }

    #[test]
    fn a_line_too_long_to_be_kept_still_counts_as_output_if_it_is_any() {
        let long = "x".repeat(3 * LINE);
        let text = delta(&format!(r#""text":"{long}""#));
        assert!(counted(&[text.as_bytes(), STREAM.as_bytes()]).complete);
        assert!(counted(&[text.as_bytes()]).usage.output > LINE as u64);
        let found =
            format!("data: {{\"type\":\"content_block_start\",\"content_block\":\"{long}\"}}\n\n");
        assert_eq!(counted(&[found.as_bytes()]).usage.output, 0);
    }

    #[test]
    fn one_line_is_all_that_is_kept() {
        let mut counter = StreamCounter::default();
        for _ in 0..100 {
            counter.take(&[b'x'; 4096]);
        }
        assert!(counter.line.capacity() <= 2 * LINE);
    }
}
