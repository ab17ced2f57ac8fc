//! How large a request's input is, and by which of its beginnings the provider's cache may know it. Pure.
//!
//! The provider tells the size of an input only when its answer begins, so before that it is reckoned from the text. It
//! keeps in its cache the beginning of a request up to a mark (`cache_control`); the next request of the same talk begins
//! alike, but for the marks, which have moved on.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde::Deserialize;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::domain::money::Usd;

use super::price::Price;

/// The largest context window of any model, in tokens: no request has more input than that.
pub(super) const LARGEST_WINDOW: u64 = 1_000_000;

/// Tokens that the provider adds of its own to explain tools.
const OWN: u64 = 500;

/// Sixths of a token that a byte of text is reckoned to be: of words, of figures and signs, of letters beyond ASCII.
/// English takes one and a half, code two.
const SIXTHS: [u8; 256] = {
    let mut of = [FOREIGN; 256];
    let mut byte: u8 = 0;
    while byte < 128 {
        let is_word = byte.is_ascii_alphabetic() || byte == b' ';
        of[byte as usize] = if is_word { 2 } else { 3 };
        byte += 1;
    }
    of
};
const FOREIGN: u8 = 4;

/// Sixths of a token that are a whole one.
const WHOLE: u64 = 6;

/// Tokens that a picture takes at most: the provider makes larger ones smaller.
const PICTURE: u64 = 5_000;

/// What stands before a file's content. In a text the quotes would be escaped.
const DATA: &str = r#""data":""#;

/// What begins a mark. In a text the quotes would be escaped.
const MARK: &str = r#","cache_control":{"#;

/// What makes the cache keep something for an hour.
const HOUR: &str = r#""ttl":"1h""#;

/// Ends of messages that are remembered: those before them are of no further use.
const ENDS: usize = 64;

/// Content blocks before a mark in which the provider looks for something kept.
const LOOKED_THROUGH: u64 = 20;

/// The input of one request.
#[derive(Clone, Debug)]
pub(super) struct Prompt {
    tokens: u64,
    keeps: Keeps,
    /// Everything before the messages, in the provider's order.
    base: u64,
    messages: Messages,
}

/// For how long the cache is asked to keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    Nothing,
    FiveMinutes,
    AnHour,
}

/// The messages, as far as is needed: where they end.
#[derive(Clone, Debug, Default)]
pub(super) struct Messages {
    /// Where in memory the first one begins and the last one ends.
    span: Option<(usize, usize)>,
    /// After no message at first, then after each; the last ones only.
    ends: VecDeque<End>,
}

/// A place at which a message ends.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// All messages up to here, without their marks.
    chain: u64,
    /// Sixths of tokens up to here.
    sixths: u64,
    /// Content blocks up to here.
    blocks: u64,
    /// Whether the last message has a mark.
    marked: bool,
}

/// A beginning of a request, by which the next one may be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Beginning {
    /// Tells it from others.
    pub(super) name: u64,
    /// Tokens behind it, as reckoned.
    pub(super) rest: u64,
}

impl Prompt {
    /// Reads a request of which these parts come before its messages.
    pub(super) fn read(body: &str, before: &[Option<&RawValue>], messages: Messages) -> Prompt {
        let mut base = DefaultHasher::new();
        let mut marked = false;
        for part in before {
            marked |= hash_without_marks(&mut base, part.map_or("", RawValue::get));
        }
        let keeps = match (marked || messages.ends.iter().any(|end| end.marked), body) {
            (false, _) => Keeps::Nothing,
            (true, body) if body.contains(HOUR) => Keeps::AnHour,
            (true, _) => Keeps::FiveMinutes,
        };
        let around = match messages.span {
            Some((start, end)) => {
                let at = |address: usize| address - body.as_ptr() as usize;
                sixths(&body[..at(start)]) + sixths(&body[at(end)..])
            }
            None => sixths(body),
        };
        let all = around + messages.ends.back().map_or(0, |end| end.sixths);
        Prompt {
            tokens: (OWN + all.div_ceil(WHOLE)).min(LARGEST_WINDOW),
            keeps,
            base: base.finish(),
            messages,
        }
    }

    /// Returns its tokens, as reckoned.
    pub(super) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns what a million tokens of it cost that are not in the cache.
    pub(super) fn dearest(&self, price: &Price) -> Usd {
        match self.keeps {
            Keeps::Nothing => price.input,
            Keeps::FiveMinutes => price.input.max(price.cache_write),
            Keeps::AnHour => price.input.max(price.cache_write_1h),
        }
    }

    /// Returns the beginning that the cache is asked to keep. `budget`: for thinking, as sent: what was kept under another
    /// one is not found.
    pub(super) fn kept(&self, budget: Option<u64>) -> Option<Beginning> {
        let end = self.messages.ends.iter().rfind(|end| end.marked)?;
        Some(self.beginning(end, budget))
    }

    /// Returns the beginnings at which the cache is looked through, the longest first.
    pub(super) fn looked_up(&self, budget: Option<u64>) -> impl Iterator<Item = Beginning> {
        let ends = &self.messages.ends;
        let mark = ends.iter().rfind(|end| end.marked).copied();
        let reaches = move |end: &&End| {
            mark.is_some_and(|mark| {
                end.blocks <= mark.blocks && mark.blocks - end.blocks < LOOKED_THROUGH
            })
        };
        let found = ends.iter().rev().filter(reaches);
        found.map(move |end| self.beginning(end, budget))
    }

    fn beginning(&self, end: &End, budget: Option<u64>) -> Beginning {
        let mut name = DefaultHasher::new();
        (self.base, end.chain, budget).hash(&mut name);
        let all = self.messages.ends.back().map_or(0, |end| end.sixths);
        Beginning {
            name: name.finish(),
            rest: OWN + (all - end.sixths).div_ceil(WHOLE),
        }
    }
}

impl Messages {
    fn push(&mut self, message: &str) {
        let last = self.ends.back().copied().unwrap_or_default();
        let mut chain = DefaultHasher::new();
        last.chain.hash(&mut chain);
        let marked = hash_without_marks(&mut chain, message);
        let start = message.as_ptr() as usize;
        let first = self.span.map_or(start, |(first, _)| first);
        self.span = Some((first, start + message.len()));
        self.ends.push_back(End {
            chain: chain.finish(),
            sixths: last.sixths + sixths(message),
            blocks: last.blocks + blocks(message),
            marked,
        });
        if self.ends.len() > ENDS {
            self.ends.pop_front();
        }
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Messages, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Messages;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of messages")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Messages, A::Error> {
                let mut messages = Messages::default();
                while let Some(message) = all.next_element::<&RawValue>()? {
                    messages.push(message.get());
                }
                Ok(messages)
            }
        }
        deserializer.deserialize_seq(Each)
    }
}

/// Returns how many content blocks a message has.
fn blocks(message: &str) -> u64 {
    #[derive(Deserialize)]
    struct Wire<'a> {
        #[serde(borrow)]
        content: &'a RawValue,
    }
    let blocks = serde_json::from_str::<Wire<'_>>(message)
        .and_then(|wire| serde_json::from_str::<Vec<IgnoredAny>>(wire.content.get()));
    blocks.map_or(1, |blocks| blocks.len() as u64)
}

/// Hashes a piece of a request without its marks; returns whether it has any.
fn hash_without_marks(hasher: &mut DefaultHasher, mut text: &str) -> bool {
    let mut marked = false;
    while let Some((before, mark)) = text.split_once(MARK) {
        hasher.write(before.as_bytes());
        text = mark.split_once('}').map_or("", |(_, rest)| rest);
        marked = true;
    }
    text.hash(hasher);
    marked
}

/// Returns how many sixths of tokens a piece of a request is, on the dear side.
fn sixths(text: &str) -> u64 {
    // A page of a document is text and picture at once, and neither shows in its size.
    let is_document = text.contains("application/pdf");
    let mut sum = written(text.as_bytes());
    for (at, data) in text.match_indices(DATA) {
        let behind = &text.as_bytes()[at + data.len()..];
        let length = behind.iter().take_while(|byte| is_base64(byte)).count();
        let in_file = match is_document {
            true => length as u64 * WHOLE,
            false => (length as u64 * u64::from(FOREIGN)).min(PICTURE * WHOLE),
        };
        sum = sum - written(&behind[..length]) + in_file;
    }
    sum
}

/// Returns how many sixths of tokens these bytes are as text.
fn written(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .map(|byte| u64::from(SIXTHS[usize::from(*byte)]))
        .sum()
}

fn is_base64(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRICE: Price = Price::usual(Usd(3_000_000), Usd(15_000_000));
    const MARKED: &str = r#","cache_control":{"type":"ephemeral"}"#;

    fn prompt(system: &str, messages: &[String]) -> Prompt {
        let body = format!("[{}]", messages.join(","));
        let system = RawValue::from_string(format!("\"{system}\"")).unwrap();
        let messages = serde_json::from_str(&body).unwrap();
        Prompt::read(&body, &[Some(&system), None], messages)
    }

    fn message(text: &str, mark: &str) -> String {
        format!(r#"{{"role":"user","content":[{{"type":"text","text":"{text}"{mark}}}]}}"#)
    }

    fn finds(next: &Prompt, kept: Beginning) -> Option<Beginning> {
        next.looked_up(None).find(|it| it.name == kept.name)
    }

    #[test]
    fn the_next_request_of_a_talk_begins_with_what_was_kept() {
        let first = prompt("s", &[message("one", MARKED)]);
        let kept = first.kept(None).unwrap();
        let longer = [
            message("one", ""),
            message("two", ""),
            message("three", MARKED),
        ];
        let next = prompt("s", &longer);
        let found = finds(&next, kept).unwrap();
        let behind = sixths(&longer[1]) + sixths(&longer[2]);
        assert_eq!(found.rest, OWN + behind.div_ceil(6));
        assert_eq!(next.kept(None).map(|kept| kept.rest), Some(OWN));
        for other in [
            prompt("t", &longer),
            prompt("s", &longer[1..]),
            prompt("s", &[message("One", ""), message("two", MARKED)]),
            prompt("s", &[message("one", ""), message("two", "")]),
        ] {
            assert_eq!(finds(&other, kept), None);
        }
        assert_ne!(first.kept(Some(1024)), Some(kept));
        assert_eq!(prompt("s", &[message("one", "")]).kept(None), None);
    }

    #[test]
    fn what_lies_too_many_blocks_back_is_not_looked_up() {
        let kept = prompt("s", &[message("one", MARKED)]).kept(None).unwrap();
        for (more, found) in [(19, true), (20, false)] {
            let mut all = vec![message("one", "")];
            all.extend((1..more).map(|_| message("more", "")));
            all.push(message("last", MARKED));
            assert_eq!(finds(&prompt("s", &all), kept).is_some(), found, "{more}");
        }
    }

    #[test]
    fn a_mark_that_somebody_writes_about_is_none() {
        let text = MARKED.replace('"', "\\\"");
        assert_eq!(prompt("s", &[message(&text, "")]).kept(None), None);
    }

    #[test]
    fn tokens_are_reckoned_on_the_dear_side() {
        let table = [("words ", 12), ("12, 34", 17), ("дом", 24), ("\\n", 5)];
        for (text, right) in table {
            assert_eq!(sixths(text), right, "{text}");
        }
        let run = "iVBORw0KGgo".repeat(4_000);
        let file = format!(r#""data":"{run}""#);
        assert!(sixths(&file) < 6 * PICTURE + 40);
        let document = format!(r#""media_type":"application/pdf",{file}"#);
        assert!(sixths(&document) > 6 * run.len() as u64);
    }

    #[test]
    fn input_that_is_kept_is_as_dear_as_its_keeping() {
        let hour = r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#;
        for (mark, dearest) in [("", 3_000_000), (MARKED, 3_750_000), (hour, 6_000_000)] {
            let prompt = prompt("s", &[message("one", mark)]);
            assert_eq!(prompt.dearest(&PRICE), Usd(dearest), "{mark}");
        }
    }

    #[test]
    fn only_the_last_ends_are_remembered() {
        let all: Vec<_> = (0..3 * ENDS).map(|n| message(&n.to_string(), "")).collect();
        assert_eq!(prompt("s", &all).messages.ends.len(), ENDS);
    }
}
