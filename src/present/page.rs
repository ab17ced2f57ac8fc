//! Long text cut into messages: at most 2000 code points each, code fences closed and opened again, nothing torn.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;
use unicode_segmentation::UnicodeSegmentation;

use super::plain;

/// Code points of one message (Discord counts these, not bytes).
pub const LIMIT: usize = 2000;

const FENCE: &str = "```";
/// Code points of a fence's opening line; longer ones are no language.
const OPENING: usize = 60;

/// What must not be torn: `<…>` tokens, masked links, code spans.
static TOKENS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"<[^<>\s][^<>]{0,500}>|\[[^\[\]]{0,500}\]\([^()\s]{1,1000}\)|`[^`]+`").ok()
});

/// Splits text into messages. None of them is blank; text of which nothing can be seen gives none.
pub fn pages(text: &str) -> Vec<String> {
    split(text, LIMIT)
}

fn split(text: &str, limit: usize) -> Vec<String> {
    let mut paper = Paper {
        limit,
        done: Vec::new(),
        lines: Vec::new(),
        length: 0,
        fence: None,
        breaks: None,
    };
    for line in text.lines() {
        paper.write(line);
    }
    paper.finish();
    paper.done
}

/// The page that is being filled, and those that are full.
struct Paper {
    limit: usize,
    done: Vec<String>,
    lines: Vec<String>,
    /// Code points of the lines, each with a line break.
    length: usize,
    /// The fence that is open where the page ends now.
    fence: Option<Fence>,
    /// The last line before which a reader would break, in the second half of the page.
    breaks: Option<usize>,
}

/// An open fence.
struct Fence {
    /// The line that opens it again.
    again: String,
    /// The line that closes it.
    close: String,
}

impl Fence {
    /// Returns the code points that closing it adds.
    fn reserve(&self) -> usize {
        self.close.chars().count() + 1
    }
}

impl Paper {
    fn write(&mut self, line: &str) {
        match (&self.fence, line.find(FENCE)) {
            (None, Some(at)) if opens(line) => {
                let (fence, line) = opening(line, at);
                self.put(&line, fence.reserve(), true);
                self.fence = Some(fence);
            }
            (Some(fence), Some(at)) => {
                let (reserve, close) = (fence.reserve(), fence.close.clone());
                self.close_fence(line, at, reserve, close);
            }
            (Some(fence), None) => {
                let reserve = fence.reserve();
                self.put(line, reserve, false);
            }
            (None, _) => self.put(line, 0, false),
        }
    }

    fn close_fence(&mut self, line: &str, at: usize, reserve: usize, close: String) {
        let (code, rest) = (&line[..at], &line[at + FENCE.len()..]);
        if !code.trim_matches([' ', '>']).is_empty() {
            self.put(code, reserve, false);
        }
        if self.has_content() {
            self.push(close);
        } else {
            // Only the fence that was opened again stands here: an empty block is not worth a page.
            self.lines.clear();
            self.length = 0;
        }
        self.fence = None;
        if !rest.trim().is_empty() {
            self.write(rest.trim_start());
        }
    }

    /// Puts a line on the page, or what fits of it, and the rest on the next.
    fn put(&mut self, line: &str, reserve: usize, opens_fence: bool) {
        let mut rest = line;
        loop {
            let taken = self.length + reserve;
            if taken + rest.chars().count() <= self.limit {
                self.note_break(rest, opens_fence);
                self.push(rest.to_owned());
                return;
            }
            if self.has_content() {
                self.turn_over();
                continue;
            }
            let room = self.limit.saturating_sub(taken).max(1);
            let at = cut_point(rest, room, self.fence.is_some());
            self.push(rest[..at].to_owned());
            rest = &rest[at..];
            if self.fence.is_none() {
                rest = rest.trim_start();
            }
            self.turn_over();
        }
    }

    fn push(&mut self, line: String) {
        self.length += line.chars().count() + 1;
        self.lines.push(line);
    }

    fn has_content(&self) -> bool {
        let reopened = self.fence.as_ref().map(|fence| &fence.again);
        self.lines.len() > usize::from(reopened.is_some() && self.lines.first() == reopened)
    }

    fn note_break(&mut self, line: &str, opens_fence: bool) {
        let good = opens_fence || line.trim().is_empty() || line.starts_with('#');
        if good && self.fence.is_none() && self.length >= self.limit / 2 {
            self.breaks = Some(self.lines.len());
        }
    }

    /// Writes the last page, all of it.
    fn finish(&mut self) {
        self.breaks = None;
        self.turn_over();
    }

    /// Ends the page and begins the next with what belongs there.
    fn turn_over(&mut self) {
        let is_bare_opening = self.fence.is_some()
            && self.lines.len() > 1
            && self.lines.last().is_some_and(|line| opens(line));
        let at = match self.breaks.take() {
            Some(at) => Some(at),
            None => is_bare_opening.then(|| self.lines.len() - 1),
        };
        let mut next = at.map_or_else(Vec::new, |at| self.lines.split_off(at));
        if at.is_none()
            && let Some(fence) = &self.fence
        {
            self.lines.push(fence.close.clone());
            next.push(fence.again.clone());
        }
        let page = self.lines.join("\n");
        let page = page.trim_end().trim_start_matches('\n');
        if !shows_nothing(page) {
            self.done.push(page.to_owned());
        }
        self.length = next.iter().map(|line| line.chars().count() + 1).sum();
        self.lines = next;
    }
}

fn opens(line: &str) -> bool {
    let line = line.trim_start_matches([' ', '>']);
    line.strip_prefix(FENCE)
        .is_some_and(|info| !info.contains('`'))
}

/// Returns the fence that a line opens at `at`, and the line itself, shortened where it names no language.
fn opening(line: &str, at: usize) -> (Fence, String) {
    let (quote, info) = (&line[..at], &line[at + FENCE.len()..]);
    let language: String = info
        .trim()
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '+' | '-' | '.' | '#'))
        .take(30)
        .collect();
    let quote = if at > 10 { "" } else { quote };
    let fence = Fence {
        again: format!("{quote}{FENCE}{language}"),
        close: format!("{quote}{FENCE}"),
    };
    let line = if line.chars().count() > OPENING {
        fence.again.clone()
    } else {
        line.to_owned()
    };
    (fence, line)
}

fn shows_nothing(page: &str) -> bool {
    page.lines()
        .all(|line| plain::is_blank(line) || line.trim_start().starts_with(FENCE) && opens(line))
}

/// Returns the byte at which to cut a line so that at most `room` code points come before it.
fn cut_point(line: &str, room: usize, in_code: bool) -> usize {
    let end = line
        .char_indices()
        .nth(room)
        .map_or(line.len(), |(at, _)| at);
    let grapheme = line
        .grapheme_indices(true)
        .map(|(at, _)| at)
        .take_while(|at| *at <= end)
        .last()
        .filter(|at| *at > 0)
        .unwrap_or(end);
    if in_code || grapheme == line.len() {
        return grapheme;
    }
    let torn = tokens(line)
        .into_iter()
        .find(|token| token.start < grapheme && grapheme < token.end);
    match torn {
        Some(token) if token.start > 0 => token.start,
        Some(_) => grapheme,
        None => word_border(line, grapheme),
    }
}

fn tokens(line: &str) -> Vec<Range<usize>> {
    match &*TOKENS {
        Some(tokens) => tokens.find_iter(line).map(|found| found.range()).collect(),
        // The expression is fixed and a test uses it.
        None => Vec::new(),
    }
}

/// Returns the end of the last word before `at`, unless that wastes more than a quarter of the line, or tears a token.
fn word_border(line: &str, at: usize) -> usize {
    let tokens = tokens(line);
    line[..at]
        .char_indices()
        .rev()
        .take_while(|(border, _)| *border > at * 3 / 4)
        .find(|(border, c)| {
            c.is_whitespace()
                && !tokens
                    .iter()
                    .any(|token| token.start < *border && *border < token.end)
        })
        .map_or(at, |(border, _)| border)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn length(page: &str) -> usize {
        page.chars().count()
    }

    fn sound(pages: &[String], limit: usize) {
        for page in pages {
            assert!(length(page) <= limit, "{} code points", length(page));
            assert!(!plain::is_blank(page));
            let fences = page.lines().filter(|line| line.starts_with(FENCE)).count();
            assert_eq!(fences % 2, 0, "{page}");
        }
    }

    fn visible(text: &str) -> String {
        text.chars().filter(|c| !c.is_whitespace()).collect()
    }

    #[test]
    fn short_text_is_one_page_as_it_is() {
        assert_eq!(pages("Hello.\n\n- a\n  - b\n"), ["Hello.\n\n- a\n  - b"]);
    }

    #[test]
    fn text_of_which_nothing_can_be_seen_gives_no_page() {
        for text in [
            "",
            "\n\n",
            "\u{200b}",
            "```\n```",
            "```rust\n\n```",
            " \t\n \u{feff}",
        ] {
            assert_eq!(pages(text), Vec::<String>::new(), "{text:?}");
        }
        let padded = format!("{}{}", "x".repeat(2000), "\n".repeat(60));
        assert_eq!(pages(&padded).len(), 1);
    }

    #[test]
    fn the_limit_counts_code_points() {
        for unit in ["😀", "é", "語", "x"] {
            assert_eq!(pages(&unit.repeat(2000)).len(), 1);
            assert_eq!(pages(&unit.repeat(2001)).len(), 2);
        }
    }

    #[test]
    fn a_fence_is_closed_and_opened_again_with_its_language() {
        let code: Vec<String> = (0..500).map(|n| format!("let x{n} = {n};")).collect();
        let text = format!("Look:\n```rust\n{}\n```\nThat is all.", code.join("\n"));
        let pages = pages(&text);
        sound(&pages, LIMIT);
        assert!(pages.len() > 3);
        for page in &pages[1..] {
            assert!(page.starts_with("```rust\n"), "{}", &page[..20]);
        }
        let lines: Vec<&str> = pages
            .iter()
            .flat_map(|page| page.lines())
            .filter(|line| line.starts_with("let"))
            .collect();
        assert_eq!(lines, code);
    }

    #[test]
    fn fences_fit_with_every_line_they_add() {
        let long_info = format!("```{}\n{}```", "i".repeat(300), "a line\n".repeat(5000));
        let exact = format!("```\n{}\n```", "x".repeat(1990));
        let over = format!("```\n{}\n```\nafter", "x".repeat(1993));
        let trailing = format!("```\n{}\n``` done", "y\n".repeat(1200));
        for text in [&long_info, &exact, &over, &trailing] {
            let pages = pages(text);
            sound(&pages, LIMIT);
            for page in &pages {
                assert!(!page.contains("```\n```"), "an empty block");
            }
        }
        assert_eq!(pages(&exact).len(), 1);
        assert!(pages(&trailing).last().unwrap().ends_with("done"));
    }

    #[test]
    fn a_block_that_fits_the_next_page_is_kept_whole() {
        let text = format!(
            "{}\n```py\n{}```",
            "word ".repeat(300),
            "line\n".repeat(150)
        );
        let pages = pages(&text);
        sound(&pages, LIMIT);
        assert_eq!(pages.len(), 2);
        assert!(pages[1].starts_with("```py\nline"));
    }

    #[test]
    fn paragraphs_are_preferred_as_borders() {
        let text = format!(
            "{}\n\n{}\n{}",
            "a".repeat(1500),
            "b".repeat(400),
            "c".repeat(300)
        );
        let pages = pages(&text);
        assert_eq!(pages[0], "a".repeat(1500));
        assert!(pages[1].starts_with('b'));
    }

    #[test]
    fn nothing_is_cut_inside_a_character_a_token_or_a_link() {
        for unit in ["👨‍👩‍👧", "🇩🇪", "é", "e\u{301}\u{302}\u{303}"] {
            for lead in 1990..2000 {
                let text = format!("{}{}", "x".repeat(lead), unit.repeat(20));
                let pages = pages(&text);
                sound(&pages, LIMIT);
                assert!(pages[1].starts_with(unit), "{unit} after {lead}");
                assert_eq!(pages.concat(), text);
            }
        }
        for token in [
            "<@123456789012345678>",
            "[the docs](https://a.example/b)",
            "<t:1700000000:R>",
            "`some code`",
        ] {
            for lead in 1980..2000 {
                let text = format!("{} {token} end", "x".repeat(lead));
                let pages = pages(&text);
                sound(&pages, LIMIT);
                assert!(
                    pages.iter().any(|page| page.contains(token)),
                    "{token} after {lead}"
                );
            }
        }
    }

    #[test]
    fn a_character_longer_than_a_page_does_not_hang() {
        let text = format!("e{}", "\u{301}".repeat(5000));
        let pages = pages(&text);
        sound(&pages, LIMIT);
        assert_eq!(pages.concat(), text);
    }

    #[test]
    fn a_table_in_a_code_block_keeps_its_rows_whole() {
        let rows: Vec<String> = (0..60)
            .map(|n| format!("row {n:>3} | {} |", "cell ".repeat(12)))
            .collect();
        let pages = pages(&format!("```\n{}\n```", rows.join("\n")));
        sound(&pages, LIMIT);
        let kept: Vec<&str> = pages
            .iter()
            .flat_map(|page| page.lines())
            .filter(|line| line.starts_with("row"))
            .collect();
        assert_eq!(kept, rows);
    }

    proptest! {
        #[test]
        fn plain_text_is_split_without_loss(text in "(\\PC|[a-z ]{1,60}|\n|👨‍👩‍👧|<@12345>){0,120}") {
            prop_assume!(!text.contains(FENCE));
            let pages = split(&text, 200);
            for page in &pages {
                prop_assert!(length(page) <= 200);
                prop_assert!(!plain::is_blank(page));
            }
            let lost: String = visible(&text).chars().filter(|c| crate::domain::text::is_invisible(*c)).collect();
            if lost.is_empty() {
                prop_assert_eq!(visible(&pages.concat()), visible(&text));
            }
        }

        #[test]
        fn text_with_fences_is_always_balanced_and_bounded(
            parts in prop::collection::vec(prop_oneof![
                Just("```rust".to_owned()),
                Just("```".to_owned()),
                Just("> ```".to_owned()),
                Just(String::new()),
                "[a-z ]{1,300}",
                "\\PC{0,80}",
            ], 0..60),
        ) {
            for page in split(&parts.join("\n"), 300) {
                prop_assert!(length(&page) <= 300);
                prop_assert!(!plain::is_blank(&page));
                let mut open = false;
                for line in page.lines() {
                    open = match (open, line.contains(FENCE)) {
                        (true, true) => false,
                        (false, true) => opens(line),
                        (open, false) => open,
                    };
                }
                prop_assert!(!open, "{}", page);
            }
        }

        #[test]
        fn whatever_an_agent_writes_comes_out_balanced(
            parts in prop::collection::vec(prop_oneof![
                Just("```rust".to_owned()),
                Just("```".to_owned()),
                Just("~~~~".to_owned()),
                Just("> ```py".to_owned()),
                Just("> quoted".to_owned()),
                Just("- item".to_owned()),
                Just("   ```".to_owned()),
                Just("see ``` here".to_owned()),
                Just("| a | b |\n|---|---|\n| 1 | ``` |".to_owned()),
                Just(String::new()),
                "[a-z ]{1,300}",
            ], 0..60),
        ) {
            for page in split(&crate::present::markdown::to_discord(&parts.join("\n")), 300) {
                prop_assert!(length(&page) <= 300);
                prop_assert!(!plain::is_blank(&page));
                prop_assert_eq!(page.matches(FENCE).count() % 2, 0, "{}", page);
            }
        }
    }
}
