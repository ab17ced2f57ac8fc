//! What the scripted agent does when a request holds no directives: a small, honest show of a turn.

use std::path::Path;
use std::time::Duration;

use super::script::Directive;

/// Words that ask for a picture.
const PICTURE: [&str; 6] = ["plot", "chart", "graph", "draw", "diagram", "picture"];

/// How long a step of the show takes, so that people can see it.
const STEP: Duration = Duration::from_millis(900);

/// Data for a picture when nobody gave any.
const MADE_UP: &str = "week,visitors\n1,120\n2,180\n3,150\n4,240\n5,310\n6,280\n7,390\n8,420\n";

/// A request, taken apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// Who speaks, from the author tag.
    pub(super) speaker: Option<String>,
    /// Paths of attached files.
    pub(super) files: Vec<String>,
    /// The words alone.
    pub(super) words: String,
}

/// Takes a prompt apart into its tag, its notes and its words.
pub(super) fn understand(prompt: &str) -> Asked {
    let mut asked = Asked::default();
    let mut words = Vec::new();
    for line in prompt.lines() {
        if let Some(tag) = line.strip_prefix("<from ") {
            asked.speaker = attribute(tag, "name");
        } else if let Some(rest) = line.strip_prefix("[attached file: ") {
            asked
                .files
                .extend(rest.split(", named ").next().map(str::to_owned));
        } else if !line.starts_with("[quoted, ") && !line.starts_with("> ") {
            words.push(line);
        }
    }
    asked.words = words.join("\n").trim().to_owned();
    asked
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    let decoded = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&#96;", "`"),
        ("&amp;", "&"),
    ]
    .iter()
    .fold(value.to_owned(), |text, (from, to)| text.replace(from, to));
    Some(decoded)
}

/// Returns what to do for a request. `count` is how many requests the conversation has had, this one included.
pub(super) fn tell(asked: &Asked, count: usize) -> Vec<Directive> {
    let words = asked.words.to_lowercase();
    if PICTURE.iter().any(|word| words.contains(word)) {
        return picture(asked);
    }
    let speaker = asked.speaker.as_deref().unwrap_or("somebody");
    let files = match asked.files.len() {
        0 => String::new(),
        1 => " You attached one file.".to_owned(),
        many => format!(" You attached {many} files."),
    };
    let which = match count {
        1 => "the first request".to_owned(),
        count => format!("request number {count}"),
    };
    vec![
        Directive::Think,
        Directive::Sleep(STEP),
        Directive::Say(format!(
            "Hello {speaker}, this is {which} in this conversation. You wrote: “{}”.{files}",
            shortened(&asked.words)
        )),
    ]
}

fn picture(asked: &Asked) -> Vec<Directive> {
    let given = asked.files.iter().find(|path| {
        Path::new(path)
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("csv"))
    });
    let source = given.map_or("data.csv", String::as_str);
    let first = match given {
        Some(path) => Directive::Read(path.clone()),
        None => Directive::Write {
            path: source.to_owned(),
            text: MADE_UP.to_owned(),
        },
    };
    let quoted = source.replace('\'', "'\\''");
    let closing = match given {
        Some(path) => format!("Here is the plot of `{}`.", file_name(path)),
        None => "Here is a plot. No data was attached, so I made some up.".to_owned(),
    };
    vec![
        Directive::Say("I look at the data first.".to_owned()),
        first,
        Directive::Sleep(STEP),
        Directive::Bash(format!("wc -l < '{quoted}'")),
        Directive::Sleep(STEP),
        Directive::Png("plot.png".to_owned()),
        Directive::Sleep(STEP),
        Directive::Say(closing),
    ]
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn shortened(words: &str) -> String {
    if words.chars().count() <= 300 {
        return words.to_owned();
    }
    words.chars().take(299).collect::<String>() + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::prompt::{InFile, prompt_text};
    use crate::domain::grant::Level;
    use crate::domain::guest::Person;
    use crate::domain::ids::MemberId;
    use crate::domain::request::{Quote, Request};

    fn asked(text: &str, file: &str) -> Asked {
        let request = Request {
            author: Person {
                member: MemberId(7),
                name: "Ada \"the <first>\"".to_owned(),
                roles: Vec::new(),
            },
            text: text.to_owned(),
            attachments: Vec::new(),
            context: Vec::new(),
            quotes: vec![Quote {
                author: None,
                by: None,
                text: "draw nothing".to_owned(),
                message: None,
            }],
            described: Vec::new(),
            message: None,
            model: None,
        };
        let files = [InFile {
            name: "x".to_owned(),
            path: file.to_owned(),
        }];
        understand(&prompt_text("k7wq2m9x", &request, Level::Chat, &files, &[]))
    }

    #[test]
    fn a_prompt_of_the_bot_is_understood() {
        assert_eq!(
            asked("hello\nthere", "/io/in/1/a.txt"),
            Asked {
                speaker: Some("Ada \"the <first>\"".to_owned()),
                files: vec!["/io/in/1/a.txt".to_owned()],
                words: "hello\nthere".to_owned(),
            }
        );
    }

    #[test]
    fn an_answer_names_the_speaker_the_words_and_the_count() {
        let told = tell(&asked("hello", "/a.txt"), 2);
        assert_eq!(
            told.last(),
            Some(&Directive::Say(
                "Hello Ada \"the <first>\", this is request number 2 in this conversation. You wrote: “hello”. You attached one file."
                    .to_owned()
            ))
        );
    }

    #[test]
    fn a_plot_reads_the_attached_table_or_makes_one_up() {
        let told = tell(&asked("Plot it", "/io/in/1/sales.CSV"), 1);
        assert!(told.contains(&Directive::Read("/io/in/1/sales.CSV".to_owned())));
        let told = tell(&asked("a chart, please", "/io/in/1/a.txt"), 1);
        assert!(
            told.iter()
                .any(|one| matches!(one, Directive::Write { path, .. } if path == "data.csv"))
        );
        assert!(told.contains(&Directive::Png("plot.png".to_owned())));
    }
}
