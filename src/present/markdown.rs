//! The agent's Markdown made into Discord's dialect. What both understand stays as it was written.
//!
//! Discord knows no tables, images, HTML, rules, deep headings, task lists, indented code, entities, nor fences in lists.

use std::ops::Range;
use std::sync::LazyLock;

use pulldown_cmark::{
    CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, OffsetIter, Options, Parser, Tag, TagEnd,
};
use regex::Regex;
use unicode_segmentation::UnicodeSegmentation;

use super::plain::escape;

/// Columns that a code block shows without wrapping on a desktop; wider tables become lists.
const TABLE_WIDTH: usize = 100;
const RULE: &str = "──────────";

/// Tags that are mark-up and no text. Others, such as `<String>`, are the agent's words.
static TAGS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?is)<!--.*?-->|<(?P<close>/?)(?P<name>a|abbr|article|aside|b|big|blockquote|body|br|center|cite|code|col|dd|del|details|div|dl|dt|em|font|footer|h[1-6]|head|header|hr|html|i|img|ins|kbd|li|main|mark|nav|ol|p|pre|q|s|samp|section|small|span|strike|strong|sub|summary|sup|table|tbody|td|tfoot|th|thead|tr|tt|u|ul|var)(?P<rest>(?:\s[^<>]*)?)/?>"#,
    )
    .ok()
});
static ADDRESS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(?i)(?:href|src)\s*=\s*["']?(https?://[^\s"'<>]+)"#).ok());
/// A label that reads as an address.
static LOOKS_LIKE_ADDRESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)://|\bwww\.|^\s*[a-z0-9\-]+(?:\.[a-z0-9\-]+)*\.[a-z]{2,24}(?:[/:?#]|\s*$)")
        .ok()
});

/// Returns the text in Discord's dialect.
pub fn to_discord(text: &str) -> String {
    let source = text.replace("\r\n", "\n");
    let options = Options::ENABLE_TABLES | Options::ENABLE_TASKLISTS;
    let mut rewriter = Rewriter {
        source: &source,
        edits: Vec::new(),
        lists: 0,
        open_address: None,
    };
    let mut events = Parser::new_ext(&source, options).into_offset_iter();
    while let Some((event, range)) = events.next() {
        rewriter.rewrite(event, range, &mut events);
    }
    rewriter.apply()
}

struct Rewriter<'a> {
    source: &'a str,
    edits: Vec<(Range<usize>, String)>,
    lists: usize,
    open_address: Option<String>,
}

type Events<'a> = OffsetIter<'a, pulldown_cmark::DefaultBrokenLinkCallback>;

impl<'a> Rewriter<'a> {
    fn rewrite(&mut self, event: Event<'a>, range: Range<usize>, events: &mut Events<'a>) {
        match event {
            Event::Start(Tag::Table(_)) => self.table(range, events),
            Event::Start(Tag::CodeBlock(kind)) => self.code_block(&kind, range, events),
            Event::Start(Tag::Image { dest_url, .. }) => {
                let alt = words(events);
                let shown = shown_link(&alt, &dest_url, true).unwrap_or_default();
                self.edit(range, shown);
            }
            Event::Start(Tag::Link {
                link_type,
                dest_url,
                ..
            }) => self.link(link_type, &dest_url, range, events),
            Event::Start(Tag::Heading { level, .. }) => self.heading(level, range),
            Event::Start(Tag::HtmlBlock) | Event::InlineHtml(_) => self.html(range),
            Event::Start(Tag::List(_)) => self.lists += 1,
            Event::End(TagEnd::List(_)) => self.lists = self.lists.saturating_sub(1),
            Event::Rule => {
                let range = self.trimmed(range);
                self.edit(range, RULE.to_owned());
            }
            Event::TaskListMarker(done) => {
                self.edit(range, if done { "☑" } else { "☐" }.to_owned());
            }
            Event::HardBreak if self.source[range.clone()].starts_with('\\') => {
                self.edit(range.start..range.start + 1, String::new());
            }
            Event::Code(code) if self.source[range.clone()].contains("```") => {
                self.edit(range, format!("`{}`", code.replace('`', "'")));
            }
            Event::Text(_) if self.source[range.clone()].contains("```") => {
                // No fence for the agent, but one for Discord, which takes them in the middle of a line as well.
                let shown = self.source[range.clone()].replace("```", r"\`\`\`");
                self.edit(range, shown);
            }
            Event::Text(text) if is_entity(&self.source[range.clone()]) => {
                self.edit(range, decoded(&text));
            }
            _ => {}
        }
    }

    fn edit(&mut self, range: Range<usize>, text: String) {
        self.edits.push((range, text));
    }

    fn apply(mut self) -> String {
        self.edits
            .sort_by_key(|(range, _)| (range.start, range.end));
        let mut result = String::with_capacity(self.source.len());
        let mut at = 0;
        for (range, text) in self.edits {
            if range.start < at {
                continue;
            }
            result.push_str(&self.source[at..range.start]);
            result.push_str(&text);
            at = range.end;
        }
        result.push_str(&self.source[at..]);
        result
    }

    /// Returns the range without line breaks and blanks at its end.
    fn trimmed(&self, range: Range<usize>) -> Range<usize> {
        let kept = self.source[range.clone()].trim_end().len();
        range.start..range.start + kept
    }

    /// Replaces a block by lines that begin at the margin, or behind the marks of the quotation they stand in.
    fn replace_block(&mut self, range: Range<usize>, block: &str) {
        let range = self.trimmed(range);
        let line_start = self.source[..range.start]
            .rfind('\n')
            .map_or(0, |at| at + 1);
        let prefix = &self.source[line_start..range.start];
        if prefix.trim().is_empty() {
            self.edit(line_start..range.end, block.to_owned());
        } else if prefix.chars().all(|c| matches!(c, '>' | ' ')) {
            let joined = block.replace('\n', &format!("\n{prefix}"));
            self.edit(range, joined);
        } else {
            self.edit(range, format!("\n{block}"));
        }
    }

    fn code_block(
        &mut self,
        kind: &CodeBlockKind<'_>,
        range: Range<usize>,
        events: &mut Events<'a>,
    ) {
        let mut code = String::new();
        for (event, _) in events.by_ref() {
            match event {
                Event::Text(text) => code.push_str(&text),
                Event::End(TagEnd::CodeBlock) => break,
                _ => {}
            }
        }
        let info = match kind {
            CodeBlockKind::Fenced(info) => info.as_ref(),
            CodeBlockKind::Indented => "",
        };
        if !self.is_discords_own(range.clone(), info, &code) {
            let block = fenced(&language(info), &code);
            self.replace_block(range, &block);
        }
    }

    fn is_discords_own(&self, range: Range<usize>, info: &str, code: &str) -> bool {
        let raw = self.source[range.clone()].trim_end();
        let at_margin = range.start == 0 || self.source[..range.start].ends_with('\n');
        at_margin
            && self.lists == 0
            && raw.starts_with("```")
            && !raw.starts_with("````")
            && raw.ends_with("\n```")
            && info == language(info)
            && !code.contains("```")
            && !code.trim().is_empty()
    }

    fn heading(&mut self, level: HeadingLevel, range: Range<usize>) {
        let range = self.trimmed(range);
        let raw = &self.source[range.clone()];
        let (start, end) = if raw.starts_with('#') {
            let text = raw.trim_start_matches('#').trim_start();
            let start = raw.len() - text.len();
            let bare = text.trim_end_matches('#');
            let closed = bare.is_empty() || bare.ends_with([' ', '\t']);
            let kept = if closed { bare.trim_end() } else { text };
            (start, start + kept.len())
        } else {
            let end = raw.rfind('\n').unwrap_or(raw.len());
            (0, raw[..end].trim_end().len())
        };
        let text = &raw[start..end];
        let (before, after) = match level {
            HeadingLevel::H1 => ("# ", ""),
            HeadingLevel::H2 => ("## ", ""),
            HeadingLevel::H3 => ("### ", ""),
            _ if text.is_empty() || text.contains("**") => ("", ""),
            _ => ("**", "**"),
        };
        let (text_start, text_end) = (range.start + start, range.start + end);
        self.edit(range.start..text_start, before.to_owned());
        self.edit(text_end..range.end, after.to_owned());
    }

    fn link(&mut self, kind: LinkType, dest: &str, range: Range<usize>, events: &mut Events<'a>) {
        let label = words(events);
        if matches!(kind, LinkType::Autolink | LinkType::Email) {
            return;
        }
        if let Some(shown) = shown_link(&label, dest, kind != LinkType::Inline) {
            self.edit(range, shown);
        }
    }

    fn html(&mut self, range: Range<usize>) {
        let Some(tags) = &*TAGS else { return };
        let source = self.source;
        for found in tags.captures_iter(&source[range.clone()]) {
            let Some(whole) = found.get(0) else { continue };
            let name = found
                .name("name")
                .map(|name| name.as_str().to_ascii_lowercase())
                .unwrap_or_default();
            let closes = found.name("close").is_some_and(|close| !close.is_empty());
            let rest = found.name("rest").map_or("", |rest| rest.as_str());
            let text = self.shown_tag(&name, closes, rest);
            self.edit(range.start + whole.start()..range.start + whole.end(), text);
        }
    }

    fn shown_tag(&mut self, name: &str, closes: bool, rest: &str) -> String {
        match (name, closes) {
            ("br", _) => "\n".to_owned(),
            ("hr", _) => RULE.to_owned(),
            ("b" | "strong", _) => "**".to_owned(),
            ("i" | "em", _) => "*".to_owned(),
            ("s" | "del" | "strike", _) => "~~".to_owned(),
            ("u" | "ins", _) => "__".to_owned(),
            ("code" | "kbd" | "samp" | "tt", _) => "`".to_owned(),
            ("img", _) => address(rest)
                .map(|to| format!("<{to}>"))
                .unwrap_or_default(),
            ("a", false) => {
                self.open_address = address(rest);
                String::new()
            }
            ("a", true) => match self.open_address.take() {
                Some(to) => format!(" (<{to}>)"),
                None => String::new(),
            },
            _ => String::new(),
        }
    }

    fn table(&mut self, range: Range<usize>, events: &mut Events<'a>) {
        let mut rows: Vec<Vec<String>> = Vec::new();
        while let Some((event, _)) = events.next() {
            match event {
                Event::Start(Tag::TableHead | Tag::TableRow) => rows.push(Vec::new()),
                Event::Start(Tag::TableCell) => {
                    let cell = words(events);
                    if let Some(row) = rows.last_mut() {
                        row.push(cell.replace("```", "'''"));
                    }
                }
                Event::End(TagEnd::Table) => break,
                _ => {}
            }
        }
        let block = table_block(&rows);
        self.replace_block(range, &block);
    }
}

/// Returns what the tag that was just opened holds, as plain words, and moves behind its end.
fn words(events: &mut Events<'_>) -> String {
    let mut text = String::new();
    let mut depth = 0_usize;
    for (event, _) in events.by_ref() {
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) if depth == 0 => break,
            Event::End(_) => depth -= 1,
            Event::Text(part) | Event::Code(part) => text.push_str(&part),
            Event::SoftBreak | Event::HardBreak => text.push(' '),
            Event::InlineHtml(tag) if tag.starts_with("<br") => text.push(' '),
            _ => {}
        }
    }
    text.trim().to_owned()
}

/// Returns how a link is shown; `None` where it may stay as it was written. A label that reads as an address is shown
/// beside the real one.
fn shown_link(label: &str, dest: &str, is_rewritten: bool) -> Option<String> {
    let is_web = dest.starts_with("https://") || dest.starts_with("http://");
    let quoted = label.replace('`', "'");
    if !is_web {
        return Some(if label.is_empty() || label == dest {
            format!("`{}`", dest.replace('`', "'"))
        } else if dest.starts_with('#') || dest.is_empty() {
            label.to_owned()
        } else {
            format!("{label} (`{}`)", dest.replace('`', "'"))
        });
    }
    let bare = |address: &str| {
        let address = address
            .trim_start_matches("https://")
            .trim_start_matches("http://");
        address.trim_end_matches('/').to_owned()
    };
    let reads_as_address = matches!(&*LOOKS_LIKE_ADDRESS, Some(address) if address.is_match(label));
    if label.is_empty() || bare(label) == bare(dest) {
        Some(format!("<{dest}>"))
    } else if reads_as_address {
        Some(format!("`{quoted}` (<{dest}>)"))
    } else if is_rewritten || dest.contains([' ', '(', ')']) {
        let dest = dest
            .replace(' ', "%20")
            .replace('(', "%28")
            .replace(')', "%29");
        let label = label.replace(['[', ']'], "");
        Some(format!("[{label}]({dest})"))
    } else {
        None
    }
}

fn address(attributes: &str) -> Option<String> {
    let found = ADDRESS.as_ref()?.captures(attributes)?;
    Some(found.get(1)?.as_str().to_owned())
}

fn is_entity(raw: &str) -> bool {
    raw.len() > 2 && raw.starts_with('&') && raw.ends_with(';')
}

fn decoded(text: &CowStr<'_>) -> String {
    text.chars()
        .flat_map(|c| match c {
            '\u{a0}' => vec![' '],
            '<' | '>' | '*' | '_' | '`' | '~' | '|' | '[' | ']' => vec!['\\', c],
            c => vec![c],
        })
        .collect()
}

/// Returns the first word of a fence's info string if Discord could take it for a language.
fn language(info: &str) -> String {
    let word = info.split([' ', ',', '{', '\t']).next().unwrap_or_default();
    let fits = word.len() <= 30
        && word
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_+-.#".contains(&b));
    if fits { word.to_owned() } else { String::new() }
}

/// Returns a code block; a fence inside it would end it, so those get a mark that cannot be seen. No code, no block.
fn fenced(language: &str, code: &str) -> String {
    let code = code.trim_end().replace("```", "`\u{200b}`\u{200b}`");
    if code.is_empty() {
        String::new()
    } else {
        format!("```{language}\n{code}\n```")
    }
}

fn table_block(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width(cell)).max().unwrap_or_default()
        })
        .collect();
    if widths.iter().sum::<usize>() + 3 * columns > TABLE_WIDTH {
        return table_list(rows);
    }
    let mut lines: Vec<String> = rows.iter().map(|row| aligned(row, &widths)).collect();
    let line: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    if !lines.is_empty() {
        lines.insert(1, line.join("─┼─"));
    }
    format!("```\n{}\n```", lines.join("\n"))
}

fn aligned(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = widths
        .iter()
        .enumerate()
        .map(|(column, wide)| {
            let cell = row.get(column).map_or("", String::as_str);
            format!("{cell}{}", " ".repeat(wide.saturating_sub(width(cell))))
        })
        .collect();
    cells.join(" │ ").trim_end().to_owned()
}

/// A table too wide for a code block: one item a row, each cell behind its column's name.
fn table_list(rows: &[Vec<String>]) -> String {
    let Some((head, body)) = rows.split_first() else {
        return String::new();
    };
    let item = |row: &Vec<String>| {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .filter(|(_, cell)| !cell.is_empty())
            .map(|(column, cell)| match head.get(column) {
                Some(name) if !name.is_empty() => {
                    format!("**{}:** {}", escape(name), escape(cell))
                }
                _ => escape(cell),
            })
            .collect();
        format!("- {}", cells.join(" · "))
    };
    let items: Vec<String> = body.iter().map(item).collect();
    items.join("\n")
}

/// Returns columns in a monospaced font: East Asian characters and emoji take two.
fn width(text: &str) -> usize {
    text.graphemes(true)
        .map(|grapheme| match grapheme.chars().next() {
            Some('\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}') => 2,
            Some('\u{f900}'..='\u{faff}' | '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}') => 2,
            Some('\u{1f300}'..='\u{1faff}' | '\u{20000}'..='\u{3fffd}') => 2,
            _ => 1,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_discord_understands_stays_as_it_was_written() {
        let texts = [
            "Hello *there*, **you** and __you__ ~~not~~ ||spoiler|| `code <b>`.",
            "# One\n## Two\n### Three\n-# small",
            "- a\n  - b\n    1. c\n* d",
            "> quoted\n> more\n\n>>> the rest",
            "```rust\nlet a = \"<br>\"; // | a | b |\n```",
            "<@123> <@&5> <#9> <t:1700000000:R> <:blob:42> </ask:1>",
            "[docs](https://a.example/b) and <https://c.example> and https://d.example/x_y_z",
            "a < b && c > d, Vec<String>, 2 * 3 * 4, snake_case_name",
            "line one  \nline two",
            r"escaped \* and \_",
        ];
        for text in texts {
            assert_eq!(to_discord(text), text);
        }
    }

    #[test]
    fn a_table_becomes_an_aligned_block() {
        let table = "Sales:\n\n| Month | Sum |\n|---|---:|\n| January | 5 |\n| 二月 | `a|b` |\n| May |\n\nEnd.";
        insta::assert_snapshot!(to_discord(table), @r"
        Sales:

        ```
        Month   │ Sum
        ────────┼────
        January │ 5
        二月    │ `a
        May     │
        ```

        End.
        ");
    }

    #[test]
    fn a_wide_table_becomes_a_list() {
        let long = "word ".repeat(25);
        let table = format!("| Name | Text |\n|---|---|\n| a | {long}|\n| b | short |");
        insta::assert_snapshot!(to_discord(&table), @r"
        - **Name:** a · **Text:** word word word word word word word word word word word word word word word word word word word word word word word word word
        - **Name:** b · **Text:** short
        ");
    }

    #[test]
    fn a_table_inside_a_fence_is_left_alone() {
        let text = "```\n| a | b |\n|---|---|\n| 1 | 2 |\n```";
        assert_eq!(to_discord(text), text);
    }

    #[test]
    fn images_and_odd_links_show_where_they_lead() {
        let cases = [
            (
                "![A plot](https://a.example/p.png)",
                "[A plot](https://a.example/p.png)",
            ),
            ("![](https://a.example/p.png)", "<https://a.example/p.png>"),
            ("![plot](plot.png)", "plot (`plot.png`)"),
            ("![plot.png](plot.png)", "`plot.png`"),
            ("[main](src/main.rs)", "main (`src/main.rs`)"),
            ("[below](#below)", "below"),
            (
                "[a][r]\n\n[r]: https://a.example",
                "[a](https://a.example)\n\n[r]: https://a.example",
            ),
            (
                "[https://bank.example](https://evil.example)",
                "`https://bank.example` (<https://evil.example>)",
            ),
            (
                "[bank.example/login](https://evil.example)",
                "`bank.example/login` (<https://evil.example>)",
            ),
            (
                "[https://a.example](https://a.example/)",
                "<https://a.example/>",
            ),
            (
                "[**bold** docs](https://a.example)",
                "[**bold** docs](https://a.example)",
            ),
        ];
        for (text, shown) in cases {
            assert_eq!(to_discord(text), shown, "{text}");
        }
    }

    #[test]
    fn html_is_taken_out_but_words_in_angles_stay() {
        let cases = [
            ("one<br>two", "one\ntwo"),
            (
                "a <b>bold</b> <i>word</i> <kbd>x</kbd>",
                "a **bold** *word* `x`",
            ),
            (
                "see <a href=\"https://a.example\">this</a>.",
                "see this (<https://a.example>).",
            ),
            (
                "<details>\n<summary>More</summary>\n\nText\n\n</details>",
                "\nMore\n\nText\n\n",
            ),
            ("a <!-- hidden --> b", "a  b"),
            ("an Option<String> and <T>", "an Option<String> and <T>"),
        ];
        for (text, shown) in cases {
            assert_eq!(to_discord(text), shown, "{text}");
        }
    }

    #[test]
    fn headings_rules_tasks_breaks_and_entities_are_put_into_the_dialect() {
        let cases = [
            ("#### Deep", "**Deep**"),
            ("##### Deep **er** #####", "Deep **er**"),
            ("## Closed ##", "## Closed"),
            ("Title\n=====\n\nx", "# Title\n\nx"),
            ("Title\n---", "## Title"),
            ("a\n\n---\n\nb", "a\n\n──────────\n\nb"),
            ("- [ ] open\n- [x] done", "- ☐ open\n- ☑ done"),
            ("one\\\ntwo", "one\ntwo"),
            ("see ```a\nb``` there", "see `a b` there"),
            ("see ``` there", r"see \`\`\` there"),
            ("a&nbsp;&lt;b&gt; &amp; c", "a \\<b\\> & c"),
        ];
        for (text, shown) in cases {
            assert_eq!(to_discord(text), shown, "{text}");
        }
    }

    #[test]
    fn code_in_lists_is_unnested() {
        let text = "1. First:\n\n   ```python title=\"x\"\n   def f():\n       pass\n   ```\n\n2. Second:\n   ```\n   x\n   ```\n- ```js\n  y\n  ```";
        insta::assert_snapshot!(to_discord(text), @r"
        1. First:

        ```python
        def f():
            pass
        ```

        2. Second:
        ```
        x
        ```
        - 
        ```js
        y
        ```
        ");
    }

    #[test]
    fn every_kind_of_code_block_becomes_discords() {
        let cases = [
            ("~~~sh\nls\n~~~", "```sh\nls\n```"),
            ("    indented\n      more", "```\nindented\n  more\n```"),
            ("````md\n```x\n````", "```md\n`\u{200b}`\u{200b}`x\n```"),
            ("```py\nnever closed", "```py\nnever closed\n```"),
            ("```rust,ignore\nx\n```", "```rust\nx\n```"),
            ("> ```\n> a\n> b\n> ```", "> ```\n> a\n> b\n> ```"),
            ("a\n```\n\n```\nb", "a\n\nb"),
        ];
        for (text, shown) in cases {
            assert_eq!(to_discord(text), shown, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "(\\PC|[-#>|`*_~\\[\\]()<!\n ]|<br>|</a>|\\| a \\| b \\|\n\\|---\\|---\\|\n|```|    |- |1\\. ){0,80}") {
            let _ = to_discord(&text);
        }

        #[test]
        fn plain_words_stay_as_they_are(text in "[A-Za-z0-9,.!? ]{0,200}") {
            prop_assume!(!text.starts_with("    "));
            prop_assert_eq!(to_discord(&text), text);
        }
    }
}
