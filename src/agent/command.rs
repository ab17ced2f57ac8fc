//! What the CLI is told when it starts: its flags and its environment.
//!
//! Never a secret and never a word that people wrote: flags show in every process list.
//!
//! Measured with CLI 2.1.197: `--tools`, `--disallowedTools`, `--add-dir` take every argument up to the next flag, so each is
//! followed by one; no prompt stands on the command line.

use crate::domain::ids::SessionId;

use super::rules::AgentRules;

/// The tool by which the agent asks people.
pub const ASK_TOOL: &str = "AskUserQuestion";

/// The tool that runs commands.
pub const SHELL_TOOL: &str = "Bash";

/// The environment variable that marks every process of a run.
pub const RUN_MARK: &str = "INNKEEPER_RUN";

/// The mode a run must report in its `init`: what the rules do not open is asked or denied, never done.
pub fn permission_mode(rules: &AgentRules) -> &'static str {
    if rules.questions {
        "default"
    } else {
        "dontAsk"
    }
}

/// How commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// Inside the CLI's own sandbox, which was probed for this account.
    Confined,
    /// With all that the account may do: only where the owner switched confinement off.
    Open,
}

/// One start of the CLI.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// How agents of this house are run.
    pub rules: &'a AgentRules,
    /// Alias or id of the model.
    pub model: &'a str,
    /// The conversation.
    pub session: &'a SessionId,
    /// Whether the conversation exists already.
    pub resumes: bool,
    /// How commands run; where not at all, the tool is not given.
    pub shell: Shell,
    /// Absolute path of the settings ([`super::scope_files::settings`]).
    pub settings: &'a str,
    /// Absolute path of the system prompt ([`super::scope_files::system_prompt`]).
    pub prompt: &'a str,
    /// Directories beside the workspace that it may change: outbox, further projects. Never the inbox: confined commands may
    /// write into every directory named here, whatever the rules say (measured); reading it takes only its rule.
    pub add_dirs: &'a [String],
    /// Directories of shared skills.
    pub plugin_dirs: &'a [String],
    /// What is denied whatever else is allowed ([`super::scope_files::denied`]): stated in the settings and again here,
    /// since one wrong type drops a whole settings file without a word (measured).
    pub denied: &'a [String],
}

/// Returns the arguments of the CLI, the program itself left out.
pub fn flags(launch: &Launch<'_>) -> Vec<String> {
    let mut flags: Vec<String> = [
        "--print",
        "--output-format",
        "stream-json",
        "--verbose",
        "--input-format",
        "stream-json",
        "--include-partial-messages",
        "--replay-user-messages",
        "--permission-mode",
        permission_mode(launch.rules),
    ]
    .map(str::to_owned)
    .into();
    if launch.rules.questions {
        flags.extend(pair("--permission-prompt-tool", "stdio"));
    }
    flags.extend(pair("--setting-sources", ""));
    flags.push("--strict-mcp-config".to_owned());
    list(&mut flags, "--tools", &[tools(launch).join(",")]);
    list(&mut flags, "--disallowedTools", launch.denied);
    list(&mut flags, "--add-dir", launch.add_dirs);
    for directory in launch.plugin_dirs {
        flags.extend(pair("--plugin-dir", directory));
    }
    flags.extend(pair("--settings", launch.settings));
    flags.extend(pair("--append-system-prompt-file", launch.prompt));
    flags.extend(pair("--model", launch.model));
    flags.extend(pair("--max-turns", &launch.rules.max_turns.to_string()));
    let session = if launch.resumes {
        "--resume"
    } else {
        "--session-id"
    };
    flags.extend(pair(session, &launch.session.0));
    flags
}

fn pair(flag: &str, value: &str) -> [String; 2] {
    [flag.to_owned(), value.to_owned()]
}

fn list(flags: &mut Vec<String>, flag: &str, values: &[String]) {
    if !values.is_empty() {
        flags.push(flag.to_owned());
        flags.extend(values.iter().cloned());
    }
}

/// The tools of this start. The empty list would mean none at all, which is what it says then (measured).
fn tools(launch: &Launch<'_>) -> Vec<String> {
    launch
        .rules
        .tools
        .iter()
        .filter(|tool| launch.rules.questions || *tool != ASK_TOOL)
        .cloned()
        .collect()
}

/// The places and names that the environment of a run tells.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// How agents of this house are run.
    pub rules: &'a AgentRules,
    /// Alias or id of the model: sub-agents get no other (measured: they may otherwise choose a larger one).
    pub model: &'a str,
    /// The CLI's own directory of this chat.
    pub config_dir: &'a str,
    /// The chat's directory for temporary files.
    pub tmp_dir: &'a str,
    /// The mark by which every process of the run is found.
    pub mark: &'a str,
}

/// What is the same for every run: quiet, offline but for the provider, nothing in the background, no memory beside the
/// session, no `git` run by the CLI itself (a hostile repository's settings would run code outside confinement, measured).
const FIXED: [(&str, &str); 15] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_BUG_COMMAND", "1"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
    ("CLAUDE_CODE_DISABLE_GIT_INSTRUCTIONS", "1"),
    // Ten by default, which takes three minutes to fail (measured). Six take about half a minute: long enough for a bot, and
    // with it the meter, that is started anew.
    ("CLAUDE_CODE_MAX_RETRIES", "6"),
    ("IS_SANDBOX", "1"),
    ("NO_COLOR", "1"),
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    // No display: a stray `plt.show()` must not end a script before it saves its figure.
    ("MPLBACKEND", "Agg"),
];

/// Returns the environment of a run, each name once.
///
/// No variable names a small model (`ANTHROPIC_SMALL_FAST_MODEL`, `ANTHROPIC_DEFAULT_HAIKU_MODEL`): with another provider
/// address than the CLI's own, which the meter is, its background calls then use the run's model, which the author may use;
/// an alias in either variable would go to the provider as it stands (measured, 2.1.197).
///
///  The owner's own come last and win, except over what the run is found by.
pub fn environment(surroundings: &Surroundings<'_>) -> Vec<(String, String)> {
    let own = [
        ("CLAUDE_CONFIG_DIR", surroundings.config_dir),
        (RUN_MARK, surroundings.mark),
    ];
    let usual = [
        ("TMPDIR", surroundings.tmp_dir),
        ("CLAUDE_CODE_SUBAGENT_MODEL", surroundings.model),
    ];
    let owners = &surroundings.rules.env;
    let mut environment: Vec<(String, String)> = own.iter().map(owned).collect();
    environment.extend(
        FIXED
            .iter()
            .chain(&usual)
            .filter(|(name, _)| !owners.iter().any(|(theirs, _)| theirs == name))
            .map(owned),
    );
    environment.extend(
        owners
            .iter()
            .filter(|(name, _)| !own.iter().any(|(ours, _)| ours == name))
            .cloned(),
    );
    environment
}

fn owned((name, value): &(&str, &str)) -> (String, String) {
    ((*name).to_owned(), (*value).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules() -> AgentRules {
        AgentRules {
            command: "claude".to_owned(),
            tools: ["Read", "Bash", ASK_TOOL].map(str::to_owned).into(),
            max_turns: 30,
            confine: true,
            questions: true,
            deny_read: Vec::new(),
            system_prompt: None,
            env: Vec::new(),
        }
    }

    fn launch<'a>(
        rules: &'a AgentRules,
        session: &'a SessionId,
        lists: &'a [Vec<String>; 3],
    ) -> Launch<'a> {
        Launch {
            rules,
            model: "haiku",
            session,
            resumes: false,
            shell: Shell::Confined,
            settings: "/h/settings.json",
            prompt: "/h/prompt.md",
            add_dirs: &lists[0],
            plugin_dirs: &lists[1],
            denied: &lists[2],
        }
    }

    #[test]
    fn the_cli_is_told_exactly_this() {
        let (rules, session) = (rules(), SessionId("5f0c".to_owned()));
        let lists = [
            vec!["/io/in".to_owned(), "/io/out".to_owned()],
            vec!["/skills".to_owned()],
            vec!["Read(~/.ssh/**)".to_owned()],
        ];
        insta::assert_snapshot!(flags(&launch(&rules, &session, &lists)).join("|"), @"--print|--output-format|stream-json|--verbose|--input-format|stream-json|--include-partial-messages|--replay-user-messages|--permission-mode|default|--permission-prompt-tool|stdio|--setting-sources||--strict-mcp-config|--tools|Read,Bash,AskUserQuestion|--disallowedTools|Read(~/.ssh/**)|--add-dir|/io/in|/io/out|--plugin-dir|/skills|--settings|/h/settings.json|--append-system-prompt-file|/h/prompt.md|--model|haiku|--max-turns|30|--session-id|5f0c");
    }

    #[test]
    fn without_questions_their_tool_is_not_given_and_nothing_is_asked() {
        let mut rules = rules();
        rules.questions = false;
        let (session, lists) = (SessionId("5f0c".to_owned()), Default::default());
        let launch = Launch {
            resumes: true,
            ..launch(&rules, &session, &lists)
        };
        insta::assert_snapshot!(flags(&launch)[8..].join("|"), @"--permission-mode|dontAsk|--setting-sources||--strict-mcp-config|--tools|Read,Bash|--settings|/h/settings.json|--append-system-prompt-file|/h/prompt.md|--model|haiku|--max-turns|30|--resume|5f0c");
    }

    #[test]
    fn the_owners_environment_comes_last_and_wins_but_over_the_mark() {
        let mut rules = rules();
        rules.env = [("TERM", "xterm"), ("HOUSE", "1"), (RUN_MARK, "x")]
            .iter()
            .map(owned)
            .collect();
        let found = environment(&Surroundings {
            rules: &rules,
            model: "haiku",
            config_dir: "/h/config",
            tmp_dir: "/h/tmp",
            mark: "turn-7",
        });
        let all = |name: &str| -> Vec<&str> {
            let found = found.iter().filter(|(n, _)| n == name);
            found.map(|(_, value)| value.as_str()).collect()
        };
        assert_eq!(all("TERM"), ["xterm"]);
        assert_eq!(all(RUN_MARK), ["turn-7"]);
        assert_eq!(all("CLAUDE_CONFIG_DIR"), ["/h/config"]);
        assert_eq!(all("CLAUDE_CODE_SUBAGENT_MODEL"), ["haiku"]);
        assert_eq!(found.last(), Some(&("HOUSE".to_owned(), "1".to_owned())));
    }
}
