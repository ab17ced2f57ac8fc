//! The scripted agent: a program that takes the flags and speaks the stream of the real one, without any provider.
//!
//! The demo runs on it, and so do the stories under `tests/`. It does what the request's own text says (see
//! `script.rs`), truly: files are written, commands run, pictures drawn. It must never speak to the network, and never be
//! more forgiving than the real program in what it accepts.

mod bash;
mod flags;
mod input;
mod perform;
mod picture;
mod script;
mod session;
mod stream;
mod tale;

use std::process::ExitCode;

/// Runs the scripted agent with these arguments, the program's name left out, until its input ends.
pub fn main(args: Vec<String>) -> ExitCode {
    let given = match flags::read(&args) {
        Ok(given) => given,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    ExitCode::from(perform::run(given))
}
