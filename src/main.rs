//! The program: arguments, configuration, what was asked for, exit code. See [`innkeeper::app`].

use std::process::ExitCode;

use clap::Parser as _;

use innkeeper::app::cli::Cli;
use innkeeper::app::commands;

fn main() -> ExitCode {
    let command = Cli::parse().into_command();
    commands::execute(command.unwrap_or_else(|error| error.exit()))
}
