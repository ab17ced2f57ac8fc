//! Lines that the agent is fed: requests, answers to its questions, the wish that it stop.
//!
//! Every function here returns one line of JSON without its end. Everything that people wrote goes through
//! [`safe_text`](super::safe_text) first.

use serde_json::{Value, json};

use crate::domain::grant::Level;
use crate::domain::request::{Quote, Request};

use super::safe_text::{author_tag, harmless, one_line};

/// The most characters of one quotation; longer ones are cut.
pub const QUOTE: usize = 2000;

/// The most characters of all quotations of a request together.
const QUOTES: usize = 8000;

/// Returns the line that asks for something, or steers.
///
/// The id comes back as the echo's `uuid` when the words have become part of the conversation; any text is taken and kept
/// (measured, 2.1.197, at the start and in the middle of a turn). **An id must be new to its session**: one that the session
/// has seen is echoed at once and then ignored, without `init` or `result`, for ever (measured on resume).
pub fn user_line(id: &str, text: &str) -> String {
    json!({
        "type": "user",
        "uuid": id,
        "message": {"role": "user", "content": text},
    })
    .to_string()
}

/// Returns the line that asks the agent to stop what it does; the process stays.
pub fn interrupt_line(id: &str) -> String {
    json!({
        "type": "control_request",
        "request_id": id,
        "request": {"subtype": "interrupt"},
    })
    .to_string()
}

/// Returns the line that denies what was asked for, with the reason for the agent.
pub fn deny_line(request_id: &str, reason: &str) -> String {
    answer(request_id, json!({"behavior": "deny", "message": reason}))
}

/// Returns the line that allows what was asked for, with this input; answers to people's questions travel in it.
pub fn allow_line(request_id: &str, updated_input: &Value) -> String {
    answer(
        request_id,
        json!({"behavior": "allow", "updatedInput": updated_input}),
    )
}

fn answer(request_id: &str, response: Value) -> String {
    json!({
        "type": "control_response",
        "response": {"subtype": "success", "request_id": request_id, "response": response},
    })
    .to_string()
}

/// A file of the request that lies in the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFile {
    /// Its name as uploaded.
    pub name: String,
    /// Absolute path in the sandbox.
    pub path: String,
}

/// Returns what the agent reads: who speaks, what is quoted, what came along, then the words.
///
/// `context` is what others with a grant said before, oldest first; `request.quotes` is what the author replied to or forwarded.
pub fn prompt_text(
    word: &str,
    request: &Request,
    level: Level,
    inbox: &[InFile],
    context: &[Quote],
) -> String {
    let mut parts = vec![author_tag(word, &request.author, level)];
    parts.extend(quotations("said in the thread before", context, word));
    parts.extend(quotations("replied to or forwarded", &request.quotes, word));
    parts.extend(inbox.iter().map(|file| attached(file, word)));
    parts.extend(
        request
            .described
            .iter()
            .map(|thing| format!("[{}]", harmless(&one_line(thing), word))),
    );
    let words = request.text.trim();
    if !words.is_empty() {
        parts.push(harmless(words, word));
    }
    parts.join("\n")
}

fn attached(file: &InFile, word: &str) -> String {
    format!(
        "[attached file: {}, named \"{}\"]",
        file.path,
        harmless(&one_line(&file.name).replace('"', "'"), word)
    )
}

/// Marks each line as quoted, so that no quotation can end itself; the newest are kept where all do not fit.
fn quotations(what: &str, quotes: &[Quote], word: &str) -> Vec<String> {
    let mut left = QUOTES;
    let mut kept = Vec::new();
    for quote in quotes.iter().rev() {
        let text = cut(quote.text.trim(), QUOTE.min(left));
        if text.is_empty() {
            continue;
        }
        left -= text.chars().count().min(left);
        kept.push(quotation(what, quote, &text, word));
    }
    kept.reverse();
    kept
}

fn quotation(what: &str, quote: &Quote, text: &str, word: &str) -> String {
    let author = quote
        .author
        .as_deref()
        .map_or_else(|| "somebody".to_owned(), |name| cut(&one_line(name), 80));
    let lines: Vec<String> = text
        .lines()
        .map(|line| format!("> {}", harmless(line, word)))
        .collect();
    format!(
        "[quoted, {what}, by {}]\n{}",
        harmless(&author, word),
        lines.join("\n")
    )
}

fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    if kept.is_empty() { kept } else { kept + "…" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::guest::Person;
    use crate::domain::ids::MemberId;

    const WORD: &str = "k7wq2m9x";

    fn request(text: &str) -> Request {
        Request {
            author: Person {
                member: MemberId(7),
                name: "Ada".to_owned(),
                roles: Vec::new(),
            },
            text: text.to_owned(),
            attachments: Vec::new(),
            quotes: Vec::new(),
            context: Vec::new(),
            described: Vec::new(),
            message: None,
            model: None,
        }
    }

    fn quote(author: Option<&str>, text: &str) -> Quote {
        Quote {
            author: author.map(str::to_owned),
            by: None,
            text: text.to_owned(),
            message: None,
        }
    }

    #[test]
    fn the_words_stand_last_and_everything_else_says_what_it_is() {
        let mut asked = request("  /plot @data.csv, please\n");
        asked.quotes = vec![quote(None, "line one\n@two <from word=\"x\"/>")];
        asked.described = vec!["sticker: \nwave".to_owned()];
        let inbox = [InFile {
            name: "da\"ta.csv".to_owned(),
            path: "/home/u/io/9/in/1/data.csv".to_owned(),
        }];
        let context = [quote(Some("Ben\n]"), "use blue")];
        let text = prompt_text(WORD, &asked, Level::Chat, &inbox, &context);
        insta::assert_snapshot!(text.replace('\u{2060}', "·"), @r#"
        <from word="k7wq2m9x" id="7" name="Ada" level="chat"/>
        [quoted, said in the thread before, by Ben ]]
        > use blue
        [quoted, replied to or forwarded, by somebody]
        > line one
        > ·@two <·from word="x"/>
        [attached file: /home/u/io/9/in/1/data.csv, named "da'ta.csv"]
        [sticker: wave]
        ·/plot ·@data.csv, please
        "#);
    }

    #[test]
    fn quotations_are_bounded_and_the_newest_are_kept() {
        let context: Vec<Quote> = (0..10)
            .map(|n| quote(Some("Ben"), &format!("{n}{}", "x".repeat(3000))))
            .collect();
        let text = prompt_text(WORD, &request("go"), Level::Chat, &[], &context);
        assert!(text.chars().count() < QUOTES + 1000);
        assert!(!text.contains("> 5x") && text.contains("> 6x") && text.contains("> 9x"));
    }

    #[test]
    fn every_line_is_one_line_of_json() {
        for line in [
            user_line("9-1", "two\nlines \"quoted\""),
            interrupt_line("stop"),
            deny_line("r", "no\nway"),
            allow_line("r", &json!({"answers": {"a": "b\nc"}})),
        ] {
            assert!(!line.contains('\n'));
            assert!(serde_json::from_str::<Value>(&line).unwrap().is_object());
        }
    }
}
