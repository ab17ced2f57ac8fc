//! The program: arguments, configuration, what was asked for, exit code. See [`innkeeper::app`].

use std::process::ExitCode;

use clap::Parser as _;

use innkeeper::app::cli::Cli;
use innkeeper::app::commands;

fn main() -> ExitCode {
    commands::execute(Cli::parse().into_command())
}
