//! The coding agent's language: what it is told, and what it says. Pure: bytes and values in, values out.
//!
//! Nothing here starts a process, waits, or reads a clock, a file or the environment.

pub mod command;
pub mod decode;
pub mod event;
pub mod lines;
pub mod prompt;
pub mod rules;
pub mod safe_text;
pub mod scope_files;
mod wire;
