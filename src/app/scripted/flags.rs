//! The arguments that the scripted agent takes: exactly those that the bot gives the real one.

use std::path::PathBuf;

/// What the flags say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    /// `--permission-mode`.
    pub(super) mode: String,
    /// Whether questions are asked on the stream (`--permission-prompt-tool stdio`).
    pub(super) asks: bool,
    /// `--tools`.
    pub(super) tools: Vec<String>,
    /// `--model`.
    pub(super) model: String,
    /// `--max-turns`: calls of the model in one turn.
    pub(super) max_turns: u32,
    /// `--session-id` or `--resume`.
    pub(super) session: String,
    /// Whether it was `--resume`.
    pub(super) resumes: bool,
}

/// Flags that stand alone, each of them required.
const ALONE: [&str; 5] = [
    "--print",
    "--verbose",
    "--include-partial-messages",
    "--replay-user-messages",
    "--strict-mcp-config",
];

/// Flags with one value.
const ONE: [&str; 12] = [
    "--output-format",
    "--input-format",
    "--permission-mode",
    "--permission-prompt-tool",
    "--setting-sources",
    "--tools",
    "--plugin-dir",
    "--settings",
    "--append-system-prompt-file",
    "--model",
    "--max-turns",
    "--session-id",
];

/// Flags with one value or more.
const SEVERAL: [&str; 2] = ["--disallowedTools", "--add-dir"];

/// Reads the arguments, or says which one is wrong.
pub(super) fn read(args: &[String]) -> Result<Given, String> {
    let mut given = Given::default();
    let mut seen: Vec<&str> = Vec::new();
    let mut rest = args;
    while let Some((flag, after)) = rest.split_first() {
        let known = |all: &[&str]| all.contains(&flag.as_str());
        let count = if known(&ALONE) {
            0
        } else if known(&ONE) || flag == "--resume" {
            1
        } else if known(&SEVERAL) {
            after
                .iter()
                .take_while(|arg| !arg.starts_with("--"))
                .count()
                .max(1)
        } else {
            return Err(format!("unknown option '{flag}'"));
        };
        let values = after
            .get(..count)
            .ok_or_else(|| format!("option '{flag}' argument missing"))?;
        take(&mut given, flag, values)?;
        seen.push(flag);
        rest = &after[count..];
    }
    complete(&given, &seen)?;
    Ok(given)
}

fn take(given: &mut Given, flag: &str, values: &[String]) -> Result<(), String> {
    let value = values.first().map_or("", String::as_str);
    match flag {
        _ if ALONE.contains(&flag) => {}
        "--output-format" | "--input-format" => same(flag, value, "stream-json")?,
        "--permission-prompt-tool" => {
            same(flag, value, "stdio")?;
            given.asks = true;
        }
        "--setting-sources" => same(flag, value, "")?,
        "--permission-mode" if ["default", "dontAsk"].contains(&value) => {
            given.mode = value.to_owned()
        }
        "--tools" => {
            given.tools = value
                .split(',')
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect()
        }
        "--disallowedTools" | "--add-dir" | "--plugin-dir" => {}
        "--settings" => settings(value)?,
        "--append-system-prompt-file" => {
            contents(value)?;
        }
        "--model" if !value.is_empty() => given.model = value.to_owned(),
        "--max-turns" => {
            given.max_turns = value
                .parse()
                .map_err(|_| format!("option '--max-turns' takes a number, not {value:?}"))?;
        }
        "--session-id" | "--resume" => {
            uuid::Uuid::parse_str(value)
                .map_err(|_| format!("option '{flag}' takes a UUID, not {value:?}"))?;
            given.session = value.to_owned();
            given.resumes = flag == "--resume";
        }
        _ => return Err(format!("option '{flag}' argument {value:?} is invalid")),
    }
    Ok(())
}

fn same(flag: &str, value: &str, expected: &str) -> Result<(), String> {
    if value == expected {
        Ok(())
    } else {
        Err(format!(
            "option '{flag}' must be {expected:?}, not {value:?}"
        ))
    }
}

fn contents(path: &str) -> Result<String, String> {
    std::fs::read_to_string(PathBuf::from(path))
        .map_err(|error| format!("cannot read {path}: {error}"))
}

/// The real program drops settings it cannot read without a word; here that is a failure, so that no test passes on it.
fn settings(path: &str) -> Result<(), String> {
    let text = contents(path)?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| format!("settings {path} are no JSON: {error}"))?;
    let rules = |kind: &str| value["permissions"][kind].as_array().is_some();
    if rules("allow") && rules("deny") {
        Ok(())
    } else {
        Err(format!(
            "settings {path} have no permissions.allow and permissions.deny"
        ))
    }
}

fn complete(given: &Given, seen: &[&str]) -> Result<(), String> {
    let optional = ["--permission-prompt-tool", "--plugin-dir", "--session-id"];
    let required = ALONE
        .iter()
        .chain(&ONE)
        .filter(|flag| !optional.contains(flag));
    for flag in required {
        if !seen.contains(flag) {
            return Err(format!("option '{flag}' is missing"));
        }
    }
    if given.session.is_empty() {
        return Err("option '--session-id' or '--resume' is missing".to_owned());
    }
    if given.asks != (given.mode == "default") {
        return Err(
            "'--permission-prompt-tool stdio' belongs to the permission mode 'default'".to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::command::{Launch, Shell, flags};
    use crate::agent::rules::AgentRules;
    use crate::domain::ids::SessionId;

    fn with_flags(questions: bool, check: impl Fn(Vec<String>)) {
        let folder = tempfile::tempdir().unwrap();
        let settings = folder.path().join("settings.json");
        std::fs::write(&settings, r#"{"permissions":{"allow":[],"deny":[]}}"#).unwrap();
        let rules = AgentRules {
            command: "innkeeper".to_owned(),
            tools: ["Read", "Bash", "Agent"].map(str::to_owned).into(),
            max_turns: 7,
            confine: true,
            questions,
            deny_read: Vec::new(),
            system_prompt: None,
            env: Vec::new(),
        };
        let lists = ["/a", "/b"].map(str::to_owned);
        check(flags(&Launch {
            rules: &rules,
            model: "haiku",
            session: &SessionId("11111111-2222-4333-8444-555555555555".to_owned()),
            resumes: !questions,
            shell: Shell::Open,
            settings: settings.to_str().unwrap(),
            prompt: settings.to_str().unwrap(),
            add_dirs: &lists,
            plugin_dirs: &lists,
            denied: &["Read(~/.ssh/**)".to_owned()],
        }));
    }

    #[test]
    fn the_flags_that_the_bot_gives_are_taken() {
        for questions in [true, false] {
            with_flags(questions, |args| {
                let given = read(&args).unwrap();
                assert_eq!(given.asks, questions);
                assert_eq!(given.resumes, !questions);
                assert_eq!(given.max_turns, 7);
                assert_eq!(given.tools, ["Read", "Bash", "Agent"]);
                assert_eq!(given.session, "11111111-2222-4333-8444-555555555555");
            });
        }
    }

    #[test]
    fn other_flags_and_missing_ones_are_refused() {
        with_flags(true, |args| {
            for flag in ["--dangerously-skip-permissions", "--fork-session", "prompt"] {
                let more = [&[flag.to_owned()], args.as_slice()].concat();
                assert!(read(&more).is_err(), "{flag}");
            }
            for (at, flag) in args.iter().enumerate() {
                let optional = ["--disallowedTools", "--add-dir", "--plugin-dir"];
                if flag.starts_with("--") && !optional.contains(&flag.as_str()) {
                    let mut fewer = args.clone();
                    fewer.remove(at);
                    assert!(read(&fewer).is_err(), "without {flag}");
                }
            }
        });
    }
}
