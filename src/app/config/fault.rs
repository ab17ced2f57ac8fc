//! What is wrong with a configuration, each in one sentence: where, which key, what is expected.

use std::fmt;
use std::path::Path;

use figment::Figment;
use figment::error::{Actual, Kind};
use figment::value::Value;

use super::{ENVIRONMENT, sections, variable_of_path};

/// One thing that is wrong with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file or the variable that has to be changed.
    pub origin: String,
    /// Section and key, such as `limits.running`; empty where the file as a whole is meant.
    pub key: String,
    /// What is wrong and what is expected, fit to follow the key. Never holds a secret.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.is_empty() {
            true => write!(f, "{}: {}", self.origin, self.what),
            false => write!(f, "{}: {} {}", self.origin, self.key, self.what),
        }
    }
}

/// All that one look at a configuration found wrong; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Faults(pub Vec<Fault>);

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Faults {
        Faults(vec![fault])
    }
}

impl Fault {
    /// Makes a fault of a file as a whole.
    pub(super) fn file(file: &Path, what: impl Into<String>) -> Fault {
        Fault {
            origin: file.display().to_string(),
            key: String::new(),
            what: what.into(),
        }
    }

    /// Makes a fault of a file that cannot be read as TOML. The parser quotes the line, and the line may hold a
    /// secret: only the place and the reason are kept.
    pub(super) fn unread(file: &Path, error: &figment::Error) -> Fault {
        let text = error.kind.to_string();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let what = match lines.as_slice() {
            [place, .., reason] => format!("{}: {}", place.trim(), reason.trim()),
            [only] => format!("cannot be read: {}", only.trim()),
            [] => "cannot be read".to_owned(),
        };
        Fault::file(file, what)
    }

    /// Makes a fault of one key.
    pub(super) fn key(
        path: &[&str],
        what: impl Into<String>,
        figment: &Figment,
        file: &Path,
    ) -> Fault {
        Fault {
            origin: origin(path, figment, file),
            key: shown_path(path),
            what: what.into(),
        }
    }

    /// Makes the fault of a key that has to be given and is not: it belongs into the file, or into its variable.
    pub(super) fn missing(path: &[&str], what: &str, file: &Path) -> Fault {
        let absent = match file.exists() {
            true => "",
            false => " (which does not exist)",
        };
        Fault {
            origin: format!("{}{absent}", file.display()),
            key: shown_path(path),
            what: format!(
                "is missing: give {what} here or as {}",
                variable_of_path(path)
            ),
        }
    }

    /// Makes a fault of what serde says about a section.
    pub(super) fn shape(
        section: &str,
        error: &figment::Error,
        figment: &Figment,
        file: &Path,
    ) -> Fault {
        let mut path: Vec<&str> = vec![section];
        path.extend(error.path.iter().map(String::as_str));
        let what = match &error.kind {
            // Here the path ends with the unknown key already; a missing one has to be put there.
            Kind::UnknownField(name, known) => unknown_key(section, name, known),
            Kind::MissingField(name) => {
                path.push(name);
                "is missing".to_owned()
            }
            Kind::UnknownVariant(word, known) => {
                format!("must be {}, not {word:?}", one_of(known))
            }
            Kind::InvalidType(actual, expected) | Kind::InvalidValue(actual, expected) => {
                let secret = path.iter().any(|part| is_secret(part));
                format!(
                    "must be {}, not {}",
                    expectation(expected, section),
                    shown(actual, secret)
                )
            }
            other => other.to_string(),
        };
        Fault::key(&path, what, figment, file)
    }
}

/// Returns the fault of a section that does not exist.
pub(super) fn unknown_section(name: &str, figment: &Figment, file: &Path) -> Option<Fault> {
    let all = sections::all();
    if all.iter().any(|(section, _)| *section == name) {
        return None;
    }
    let names: Vec<&str> = all.iter().map(|(section, _)| *section).collect();
    let what = match home_of(name, "") {
        Some(section) => format!("stands outside of its section: move it under [{section}]"),
        None => match nearest(name, &names) {
            Some(near) => format!("is no section: do you mean [{near}]?"),
            None => format!("is no section: there are {}", names.join(", ")),
        },
    };
    // A variable is named whole: its section alone is no variable.
    let inner = figment.find_value(name).ok().and_then(Value::into_dict);
    let first = inner.and_then(|dict| dict.into_keys().next());
    let path: Vec<&str> = std::iter::once(name).chain(first.as_deref()).collect();
    Some(Fault {
        origin: origin(&path, figment, file),
        key: name.to_owned(),
        what,
    })
}

/// Returns the fault of a variable that would be a key's if it had one more underscore: it says nothing as it is, and
/// its owner would not notice.
pub(super) fn single_underscore(name: &str) -> Option<Fault> {
    let (section, key) = sections::all()
        .into_iter()
        .flat_map(|(section, keys)| keys.iter().map(move |key| (section, *key)))
        .find(|(section, key)| name == variable_of_path(&[section, key]).replace("__", "_"))?;
    Some(Fault {
        origin: name.to_owned(),
        key: format!("{section}.{key}"),
        what: format!(
            "is not given by this: write {}",
            variable_of_path(&[section, key])
        ),
    })
}

fn unknown_key(section: &str, name: &str, known: &[&str]) -> String {
    if let Some(near) = nearest(name, known) {
        format!("is no key: do you mean {near}?")
    } else if let Some(home) = home_of(name, section) {
        format!("is no key of this section: it belongs under [{home}]")
    } else {
        format!("is no key: [{section}] has {}", known.join(", "))
    }
}

/// Returns the section, other than `here`, that has a key of exactly this name.
fn home_of(name: &str, here: &str) -> Option<&'static str> {
    sections::all()
        .into_iter()
        .find(|(section, keys)| *section != here && keys.contains(&name))
        .map(|(section, _)| section)
}

/// Returns the word that is probably meant.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|known| (strsim::normalized_damerau_levenshtein(word, known), *known))
        .filter(|(likeness, _)| *likeness >= 0.6)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known)
}

/// Lists words to choose from.
fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
    quoted.join(" or ")
}

/// Says what serde expects in words for people.
fn expectation(expected: &str, section: &str) -> String {
    match expected {
        "a string" | "string" => "a text".to_owned(),
        "path string" => "a path".to_owned(),
        "a sequence" if section == "project" => {
            "a list of tables in the file, each begun by [[project]]".to_owned()
        }
        "a sequence" => format!("a list of tables in the file, each begun by [[{section}.price]]"),
        "a map" => "a table".to_owned(),
        table if table.starts_with("struct ") => "a table of keys".to_owned(),
        other => other.to_owned(),
    }
}

/// Says what was found instead; of a secret only its kind.
fn shown(actual: &Actual, secret: bool) -> String {
    match actual {
        Actual::Str(_) if secret => "a text".to_owned(),
        Actual::Unsigned(_) | Actual::Signed(_) | Actual::Float(_) if secret => {
            "a number".to_owned()
        }
        Actual::Str(text) => format!("{text:?}"),
        Actual::Unsigned(number) => number.to_string(),
        Actual::Signed(number) => number.to_string(),
        Actual::Float(number) => number.to_string(),
        Actual::Bool(truth) => truth.to_string(),
        Actual::Seq => "a list".to_owned(),
        Actual::Map => "a table".to_owned(),
        other => other.to_string(),
    }
}

/// Returns whether values under this key may be secrets; `agent.env` is one whole such place.
fn is_secret(part: &str) -> bool {
    matches!(part, "token" | "api_key" | "oauth_token" | "env")
}

/// Writes a path as people would: `limits.running`, `project number 2, slug`.
fn shown_path(path: &[&str]) -> String {
    let mut text = String::new();
    for part in path {
        match part.parse::<usize>() {
            Ok(index) => text.push_str(&format!(" number {},", index + 1)),
            Err(_) if text.ends_with(',') => text.push_str(&format!(" {part}")),
            Err(_) if text.is_empty() => text.push_str(part),
            Err(_) => text.push_str(&format!(".{part}")),
        }
    }
    text.trim_end_matches(',').to_owned()
}

/// Returns the file or variable that the value at `path` came from, or from which its nearest surroundings came.
fn origin(path: &[&str], figment: &Figment, file: &Path) -> String {
    let metadata = (1..=path.len())
        .rev()
        .find_map(|length| Some((length, figment.find_metadata(&path[..length].join("."))?)));
    match metadata {
        Some((length, metadata)) if metadata.name == ENVIRONMENT => {
            variable_of_path(&path[..length])
        }
        _ => file.display().to_string(),
    }
}
