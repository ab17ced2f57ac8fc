//! Foreign text made harmless inside our own lines: one line, no mark-up, bounded, never cut inside a character.

use unicode_segmentation::UnicodeSegmentation;

pub use crate::domain::text::is_blank;
use crate::domain::text::is_invisible;

/// What cannot be seen, and may be part of an emoji.
const OF_EMOJI: [char; 2] = ['\u{200d}', '\u{fe0f}'];

/// Returns the text on one line, with single spaces and without what cannot be seen. Emoji stay whole.
pub fn one_line(text: &str) -> String {
    let visible: String = text
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c })
        .filter(|c| !is_invisible(*c) || OF_EMOJI.contains(c))
        .collect();
    let words: Vec<&str> = visible.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Returns at most `most` code points of the text, whole characters, `…` where something is missing.
pub fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut left = most.saturating_sub(1);
    for grapheme in text.graphemes(true) {
        let size = grapheme.chars().count();
        if size > left {
            break;
        }
        left -= size;
        kept.push_str(grapheme);
    }
    kept.truncate(kept.trim_end().len());
    kept.push('…');
    kept
}

/// Returns at most `most` code points of the text's end, beginning with a whole word where there is one.
pub fn cut_front(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let mut skipped = 0;
    let mut start = text.len();
    for (at, grapheme) in text.grapheme_indices(true) {
        if length - skipped < most {
            start = at;
            break;
        }
        skipped += grapheme.chars().count();
    }
    let tail = &text[start..];
    let word = tail
        .char_indices()
        .take(40)
        .find(|(_, c)| c.is_whitespace());
    let tail = word.map_or(tail, |(at, _)| &tail[at..]);
    format!("…{}", tail.trim_start())
}

/// Returns the text with Discord's mark-up escaped. An underscore inside a word is none.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inner = before.is_some_and(char::is_alphanumeric)
            && rest.peek().copied().is_some_and(char::is_alphanumeric);
        if matches!(c, '\\' | '*' | '~' | '`' | '|' | '<' | '>' | '[' | ']') || (c == '_' && !inner)
        {
            escaped.push('\\');
        }
        escaped.push(c);
        before = Some(c);
    }
    escaped
}

/// Returns the text as a code span on one line, at most `most` code points of it.
pub fn code(text: &str, most: usize) -> String {
    let line = cut(&one_line(text), most).replace('`', "'");
    if line.is_empty() {
        "` `".to_owned()
    } else {
        format!("`{line}`")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blank_is_what_nobody_can_see() {
        for text in [
            "",
            " \n",
            "\u{200b}",
            "\u{feff}\u{2060}\t",
            "\u{3164}",
            "\u{e0100}\u{fe0f}",
        ] {
            assert!(is_blank(text), "{text:?}");
        }
        assert!(!is_blank("\u{200b}."));
    }

    #[test]
    fn one_line_keeps_emoji_whole_and_drops_what_turns_the_text() {
        assert_eq!(
            one_line(" a\n\tb \u{202e}c\u{200b}d 👨‍👩‍👧 ❤\u{fe0f} "),
            "a b cd 👨‍👩‍👧 ❤\u{fe0f}"
        );
    }

    #[test]
    fn mark_up_is_escaped_but_names_with_underscores_stay_readable() {
        assert_eq!(escape("my_plot.py"), "my_plot.py");
        assert_eq!(
            escape("_a_ **b** <@1> [x](y) `c`"),
            r"\_a\_ \*\*b\*\* \<@1\> \[x\](y) \`c\`"
        );
    }

    #[test]
    fn a_code_span_cannot_be_left() {
        assert_eq!(code("a`b\nc", 20), "`a'b c`");
        assert_eq!(code("\n", 20), "` `");
    }

    proptest! {
        #[test]
        fn cuts_are_bounded_and_come_from_the_text(text in "(\\PC|👨‍👩‍👧|é| ){0,60}", most in 1..50usize) {
            let head = cut(&text, most);
            prop_assert!(head.chars().count() <= most);
            prop_assert!(text.starts_with(head.trim_end_matches('…')));
            let tail = cut_front(&text, most);
            prop_assert!(tail.chars().count() <= most);
            prop_assert!(text.ends_with(tail.trim_start_matches('…')));
        }
    }
}
