//! The command line: what can be said to the program, and the codes that it ends with.
//!
//! Both are fixed for scripts and supervisors outside of this project.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use secrecy::SecretString;

use crate::discord::own_id;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is done.
    Done,
    /// Something failed.
    Failed,
    /// Arguments or configuration cannot be used.
    Unusable,
    /// Discord refuses the token or the intents: starting again does not help, and a supervisor must not try.
    DiscordRefuses,
    /// The store is in use by another process, or damaged.
    Store,
}

impl Exit {
    /// Returns the process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            // Also what clap ends with.
            Exit::Unusable => 2,
            Exit::DiscordRefuses => 3,
            Exit::Store => 4,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Lets a Discord server's people work with a coding agent, within granted projects and monthly budgets.
#[derive(Debug, Parser)]
#[command(name = "innkeeper", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    config: ConfigArgs,
}

impl Cli {
    /// Returns what is to be done: serving, where nothing else was said. The configuration may be named before the command
    /// as well as after it.
    pub fn into_command(self) -> Result<Command, clap::Error> {
        let Some(mut command) = self.command else {
            return Ok(Command::Run(self.config));
        };
        let Some(file) = self.config.config else {
            return Ok(command);
        };
        let taken = match &mut command {
            Command::Run(args) | Command::Invite(args) => &mut args.config,
            Command::Check(args) => &mut args.config.config,
            Command::Store(args) => &mut args.config,
            _ => {
                let what = "this command takes no --config";
                return Err(Cli::command().error(ErrorKind::ArgumentConflict, what));
            }
        };
        taken.get_or_insert(file);
        Ok(command)
    }
}

/// What can be done.
#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Serve Discord (the default command)
    Run(ConfigArgs),
    /// Examine configuration, store, sandbox, agent and Discord, and say how to mend what is wrong
    Check(CheckArgs),
    /// Print the address that invites the bot, with exactly the permissions it needs
    Invite(ConfigArgs),
    /// Show everything on this machine: a stand-in for Discord, its page, a local sandbox and the bot
    #[cfg(feature = "standin")]
    Demo(DemoArgs),
    /// Run the stand-in for Discord alone, for any client
    #[cfg(feature = "standin")]
    Standin(StandinArgs),
    /// Carry the store out of or into a file, or examine it, while no bot runs
    Store(StoreArgs),
    /// Play the coding agent, for the demo and the tests.
    #[command(hide = true, disable_help_flag = true)]
    ScriptedAgent {
        /// What the agent's program was given, word by word.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// Which configuration.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigArgs {
    /// The configuration [default: config/innkeeper.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What `check` is given.
#[derive(Args, Debug, PartialEq, Eq)]
pub struct CheckArgs {
    /// Which configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
}

/// What `demo` is given.
#[derive(Args, Debug, PartialEq, Eq)]
pub struct DemoArgs {
    /// Where the page is served; port 0 lets the machine choose
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = address)]
    pub listen: SocketAddr,
    /// Keep what the demo stores in this directory [default: one that is removed at the end]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Who answers
    #[arg(long, value_enum, default_value_t = DemoAgent::Scripted)]
    pub agent: DemoAgent,
    /// Play the built-in story, print what people saw, and end
    #[arg(long)]
    pub once: bool,
}

/// Who answers in the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DemoAgent {
    /// A scripted agent, which needs no account anywhere
    Scripted,
    /// The real Claude Code CLI
    Claude,
}

/// What `standin` is given.
#[derive(Args, Debug, PartialEq, Eq)]
pub struct StandinArgs {
    /// Where to listen, for example 127.0.0.1:7800
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub listen: SocketAddr,
    /// The servers, channels and people to begin with, as JSON [default: the demo's]
    #[arg(long, value_name = "FILE")]
    pub world: Option<PathBuf>,
}

/// What `store` is given.
#[derive(Args, Debug, PartialEq, Eq)]
pub struct StoreArgs {
    /// The configuration [default: config/innkeeper.toml, if it exists]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// What to do with the store.
    #[command(subcommand)]
    pub verb: StoreVerb,
}

/// What can be done with the store.
#[derive(Debug, PartialEq, Eq, Subcommand)]
pub enum StoreVerb {
    /// Write every record as a line of JSON
    Export {
        /// Where to; - is standard output
        file: PathBuf,
    },
    /// Read records into an empty store
    Import {
        /// Where from; - is standard input
        file: PathBuf,
    },
    /// Look whether all records can be read and fit together
    Check,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "give an address and a port, for example 127.0.0.1:7800".to_owned())
}

/// What the bot may do on a server: see channels, speak in them and in threads, open public threads, attach files,
/// embed links, read the history, add reactions. Never more.
const PERMISSIONS: u64 = 309_237_763_136;

/// Returns the address that invites the bot, or `None` if this is no bot's token.
///
/// An application's id is its bot's id, for every application made since 2016.
pub fn invite(token: &SecretString) -> Option<String> {
    let id = own_id(token)?;
    Some(format!(
        "https://discord.com/oauth2/authorize?client_id={id}&scope=bot%20applications.commands\
         &integration_type=0&permissions={PERMISSIONS}"
    ))
}

/// Says that what is given at this place invites nobody.
pub fn no_token(place: &str) -> String {
    format!("{place} is no bot's token: copy it from the Developer Portal, page Bot")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        let words = std::iter::once("innkeeper").chain(line.split_whitespace());
        Cli::try_parse_from(words).and_then(Cli::into_command)
    }

    fn config(file: &str) -> ConfigArgs {
        ConfigArgs {
            config: Some(PathBuf::from(file)),
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nothing_said_means_serving() {
        assert_eq!(parse("").unwrap(), Command::Run(ConfigArgs::default()));
        assert_eq!(parse("--config a").unwrap(), Command::Run(config("a")));
        assert_eq!(parse("run --config a").unwrap(), Command::Run(config("a")));
    }

    #[test]
    fn every_command_is_understood_as_documented() {
        let check = CheckArgs {
            config: config("a"),
            json: true,
        };
        assert_eq!(
            parse("check --config a --json").unwrap(),
            Command::Check(check)
        );
        assert_eq!(
            parse("invite --config a").unwrap(),
            Command::Invite(config("a"))
        );
        assert_eq!(
            parse("--config a invite").unwrap(),
            Command::Invite(config("a"))
        );
        let store = |file: Option<&str>, verb| {
            Command::Store(StoreArgs {
                config: file.map(PathBuf::from),
                verb,
            })
        };
        let file = PathBuf::from("-");
        assert_eq!(
            parse("store --config a export -").unwrap(),
            store(Some("a"), StoreVerb::Export { file: file.clone() })
        );
        assert_eq!(
            parse("store import - --config a").unwrap(),
            store(Some("a"), StoreVerb::Import { file })
        );
        assert_eq!(parse("store check").unwrap(), store(None, StoreVerb::Check));
        assert_eq!(
            parse("--config a store check").unwrap(),
            store(Some("a"), StoreVerb::Check)
        );
    }

    #[cfg(feature = "standin")]
    #[test]
    fn the_stand_in_s_commands_are_understood_as_documented() {
        let once = parse("demo --once --agent claude --data d --listen 127.0.0.1:8080").unwrap();
        let expected = DemoArgs {
            listen: "127.0.0.1:8080".parse().unwrap(),
            data: Some(PathBuf::from("d")),
            agent: DemoAgent::Claude,
            once: true,
        };
        assert_eq!(once, Command::Demo(expected));
        assert!(matches!(
            parse("demo"),
            Ok(Command::Demo(DemoArgs {
                agent: DemoAgent::Scripted,
                once: false,
                ..
            }))
        ));
        assert!(matches!(
            parse("standin --listen 127.0.0.1:1"),
            Ok(Command::Standin(_))
        ));
        assert!(parse("standin").is_err());
        assert!(parse("--config a demo").is_err());
        let odd = parse("standin --listen 99").unwrap_err().to_string();
        assert!(odd.contains("for example 127.0.0.1:7800"), "{odd}");
    }

    #[test]
    fn the_scripted_agent_gets_its_words_as_they_are() {
        let words = [
            "--print",
            "--help",
            "-",
            "--setting-sources",
            "",
            "--config",
            "x",
            "--",
            "run",
        ];
        let line = ["innkeeper", "scripted-agent"].into_iter().chain(words);
        let command = Cli::try_parse_from(line).unwrap().into_command().unwrap();
        let words = words.map(str::to_owned).to_vec();
        assert_eq!(command, Command::ScriptedAgent { words });
    }

    #[test]
    fn what_is_not_understood_ends_with_2() {
        for line in [
            "serve",
            "--json",
            "check extra",
            "store",
            "store export",
            "demo --agent other",
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(
                error.exit_code(),
                i32::from(Exit::Unusable.code()),
                "{line}"
            );
        }
    }

    #[test]
    fn the_invite_names_the_application_and_exactly_the_permissions() {
        let token = SecretString::from("MTE1NjI3ODkwMTIzNDU2Nzg5MA.x.y");
        assert_eq!(
            invite(&token).unwrap(),
            "https://discord.com/oauth2/authorize?client_id=1156278901234567890\
             &scope=bot%20applications.commands&integration_type=0&permissions=309237763136"
        );
    }

    #[test]
    fn what_is_no_token_invites_nobody() {
        for text in ["", "x", "x.y.z", "YWJj.y.z", "!.y.z"].map(SecretString::from) {
            assert_eq!(invite(&text), None);
        }
    }
}
