//! Does what the pure part decided: the road of a message from the gate to the answer.
//!
//! `desk` takes in, asks the gate and stores; `hub` finds or starts the chat's task; `chat_task` takes one request after the
//! other; `run_turn` drives one turn; `launch`, `follower` and `turn_directory` talk to the sandbox; `live_message`, `deliver`
//! and `outbox` talk to people. Nothing in here decides what a pure room could decide.

pub mod alarm;
pub mod catch_up;
pub mod chat_commands;
pub mod chat_task;
pub mod claims;
pub mod clock;
pub mod context;
pub mod deliver;
pub mod desk;
pub mod details;
pub mod estimate;
pub mod follower;
pub mod fork;
pub mod gate;
pub mod house;
pub mod hub;
pub mod inbound;
pub mod inbox;
pub mod joining;
pub mod launch;
pub mod live_message;
pub mod newest;
pub mod notices;
pub mod outbox;
pub mod ports;
pub mod produced;
pub mod provider;
pub mod resume;
pub mod run_turn;
pub mod scope;
mod shown;
pub mod skills;
pub mod slots;
pub mod sweep;
pub mod threads;
pub mod turn_directory;
pub mod warnings;
pub mod which_project;

#[cfg(test)]
pub(crate) mod fakes;
#[cfg(test)]
mod tests;
