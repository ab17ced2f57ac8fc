//! The program: arguments, configuration, what was asked for, exit code. See [`innkeeper::app`].

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use innkeeper::app::check;
use innkeeper::app::cli::{self, CheckArgs, Cli, Command, ConfigArgs, Exit};
use innkeeper::app::config::{Config, Faults, Sources};

fn main() -> ExitCode {
    let exit = match Cli::parse().into_command() {
        Command::Check(args) => examine(args),
        Command::Invite(args) => invite(args).unwrap_or_else(|faults| unusable(&faults)),
        command => join(command),
    };
    exit.into()
}

/// Hands over what the other rooms do.
fn join(_command: Command) -> Exit {
    Exit::Failed
}

fn examine(args: CheckArgs) -> Exit {
    let sources = Sources::of_process(args.config.config);
    let findings = match Config::read(&sources).and_then(|config| config.settings()) {
        Ok(settings) => check::configuration(&settings),
        Err(faults) => check::broken_configuration(&faults),
    };
    let text = match args.json {
        true => check::to_json(&findings).unwrap_or_default(),
        false => check::to_text(&findings),
    };
    match say(&text) {
        Exit::Done => check::exit(&findings),
        exit => exit,
    }
}

fn invite(args: ConfigArgs) -> Result<Exit, Faults> {
    let token = Config::read(&Sources::of_process(args.config))?.token()?;
    Ok(match cli::invite(&token) {
        Some(address) => say(&format!("{address}\n")),
        None => {
            let what =
                "discord.token is no bot's token: copy it from the Developer Portal, page Bot";
            complain(what);
            Exit::Unusable
        }
    })
}

fn unusable(faults: &Faults) -> Exit {
    complain(&faults.to_string());
    Exit::Unusable
}

/// Writes to standard output; a reader that has gone away is a failure, not a panic.
fn say(text: &str) -> Exit {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Failed,
    }
}

/// Writes to standard error; when even that is gone, nobody is there to be told.
fn complain(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
