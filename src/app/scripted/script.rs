//! The little language by which a request steers the scripted agent: one directive a line, anywhere in the text.
//!
//! | line | what the agent does |
//! | --- | --- |
//! | `!say TEXT` | says it; the last one is the answer |
//! | `!think` | thinks |
//! | `!step NAME INPUT [for SECONDS] [fails]` | a tool call that does nothing; INPUT is JSON or words |
//! | `!bash COMMAND` | really runs it with `sh`, in a session of its own |
//! | `!write PATH TEXT`, `!read PATH`, `!png PATH` | really writes or reads a file, draws a picture |
//! | `!tasks a; b; c` | keeps a task list and finishes it |
//! | `!ask QUESTION \| OPTION \| OPTION` | asks people and says what they chose |
//! | `!ask-permission TOOL` | asks whether it may use a tool |
//! | `!cost USD` | costs that much more |
//! | `!sleep SECONDS`, `!wait-for FILE` | waits |
//! | `!long N` | answers with N characters |
//! | `!silent` | says nothing more and goes on for ever |
//! | `!stubborn` | does not listen to interrupts any more |
//! | `!error TEXT` | ends with an error as the provider's errors look |
//! | `!no-result`, `!die` | ends without a result, with code 0 or 1 |
//! | `!raw LINE`, `!garbage` | writes a line of its own making, or bytes that are none |
//! | `!linger SECONDS` | stays that long after its result |
//!
//! In TEXT, the two characters `\n` are a line end.

use std::time::Duration;

use serde_json::{Value, json};

use crate::domain::money::Usd;

/// The longest that one directive may take.
const LONGEST: f64 = 86_400.0;

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Directive {
    Say(String),
    Think,
    Step {
        name: String,
        input: Value,
        time: Duration,
        fails: bool,
    },
    Bash(String),
    Write {
        path: String,
        text: String,
    },
    Read(String),
    Png(String),
    Tasks(Vec<String>),
    Ask {
        question: String,
        options: Vec<String>,
    },
    AskPermission(String),
    Cost(Usd),
    Sleep(Duration),
    WaitFor(String),
    Long(usize),
    Silent,
    Stubborn,
    Error(String),
    NoResult,
    Die,
    Raw(String),
    Garbage,
    Linger(Duration),
}

/// Returns the directives of a text, in their order. What is no directive, or a broken one, is just words.
pub(super) fn read(text: &str) -> Vec<Directive> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Directive> {
    let directive = line.trim().strip_prefix('!')?;
    let (name, rest) = directive
        .split_once(char::is_whitespace)
        .unwrap_or((directive, ""));
    let rest = rest.trim();
    let words = || (!rest.is_empty()).then(|| rest.to_owned());
    let text = || words().map(|words| lines(&words));
    Some(match name {
        "say" => Directive::Say(text()?),
        "think" => Directive::Think,
        "step" => step(rest)?,
        "bash" => Directive::Bash(words()?),
        "write" => {
            let (path, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            Directive::Write {
                path: Some(path).filter(|path| !path.is_empty())?.to_owned(),
                text: lines(text),
            }
        }
        "read" => Directive::Read(words()?),
        "png" => Directive::Png(words()?),
        "tasks" => Directive::Tasks(list(rest, ';')?),
        "ask" => ask(rest)?,
        "ask-permission" => Directive::AskPermission(words()?),
        "cost" => Directive::Cost(Usd::from_dollars(rest.parse().ok()?)),
        "sleep" => Directive::Sleep(seconds(rest)?),
        "wait-for" => Directive::WaitFor(words()?),
        "long" => Directive::Long(rest.parse().ok()?),
        "silent" => Directive::Silent,
        "stubborn" => Directive::Stubborn,
        "error" => Directive::Error(text()?),
        "no-result" => Directive::NoResult,
        "die" => Directive::Die,
        "raw" => Directive::Raw(words()?),
        "garbage" => Directive::Garbage,
        "linger" => Directive::Linger(seconds(rest)?),
        _ => return None,
    })
}

fn lines(text: &str) -> String {
    text.replace("\\n", "\n")
}

fn step(rest: &str) -> Option<Directive> {
    let (name, mut input) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let fails = input == "fails" || input.ends_with(" fails");
    if fails {
        input = input.strip_suffix("fails")?.trim_end();
    }
    let mut time = Duration::ZERO;
    let timed = input.strip_prefix("for ").map(|number| ("", number));
    if let Some((before, number)) = input.rsplit_once(" for ").or(timed)
        && let Some(found) = seconds(number)
    {
        (input, time) = (before, found);
    }
    let input = match serde_json::from_str(input.trim()) {
        Ok(value @ Value::Object(_)) => value,
        _ => json!({ subject(name): input.trim() }),
    };
    (!name.is_empty()).then(|| Directive::Step {
        name: name.to_owned(),
        input,
        time,
        fails,
    })
}

/// The field of a tool's input that says what it is about, as the real tools name it.
fn subject(tool: &str) -> &'static str {
    match tool {
        "Bash" => "command",
        "Read" | "Write" | "Edit" => "file_path",
        "WebFetch" => "url",
        "WebSearch" => "query",
        "Skill" => "skill",
        _ => "description",
    }
}

fn ask(rest: &str) -> Option<Directive> {
    let mut parts = list(rest, '|')?;
    let question = parts.remove(0);
    Some(Directive::Ask {
        question,
        options: parts,
    })
}

/// Returns the parts that are not empty; at least one.
fn list(text: &str, between: char) -> Option<Vec<String>> {
    let parts: Vec<String> = text
        .split(between)
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
        .collect();
    (!parts.is_empty()).then_some(parts)
}

fn seconds(text: &str) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    (0.0..=LONGEST)
        .contains(&number)
        .then(|| Duration::from_secs_f64(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_found_anywhere_and_everything_else_is_words() {
        let text = "<from word=\"x\"/>\nplease\n  !say Hello\\nthere\n!important\n> !die\n!sleep x\n!long 5\n!write a.txt b c\n";
        assert_eq!(
            read(text),
            [
                Directive::Say("Hello\nthere".to_owned()),
                Directive::Long(5),
                Directive::Write {
                    path: "a.txt".to_owned(),
                    text: "b c".to_owned()
                },
            ]
        );
    }

    #[test]
    fn a_step_has_an_input_a_time_and_an_end() {
        for (rest, input, seconds, fails) in [
            (
                "Bash ls -l for 2 fails",
                json!({"command": "ls -l"}),
                2.0,
                true,
            ),
            (
                "Bash sleep for now",
                json!({"command": "sleep for now"}),
                0.0,
                false,
            ),
            (
                "Grep {\"pattern\": \"a b\"} for 0.5",
                json!({"pattern": "a b"}),
                0.5,
                false,
            ),
            ("Read a.txt fails", json!({"file_path": "a.txt"}), 0.0, true),
            ("Agent for 1", json!({"description": ""}), 1.0, false),
            ("Skill", json!({"skill": ""}), 0.0, false),
        ] {
            let Some(Directive::Step {
                input: found,
                time,
                fails: failed,
                ..
            }) = step(rest)
            else {
                panic!("{rest}");
            };
            assert_eq!(
                (found, time.as_secs_f64(), failed),
                (input, seconds, fails),
                "{rest}"
            );
        }
    }

    #[test]
    fn a_question_has_options() {
        assert_eq!(
            read("!ask Which colour? | Red | Blue"),
            [Directive::Ask {
                question: "Which colour?".to_owned(),
                options: vec!["Red".to_owned(), "Blue".to_owned()]
            }]
        );
    }
}
