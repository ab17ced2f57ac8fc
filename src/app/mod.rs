//! The program around the rooms: reads arguments and configuration, builds everything, and says how it ended.
//!
//! Only this room reads configuration files, the environment and the command line. It decides nothing that the rooms
//! below could decide, and it never prints a secret.

pub mod build;
pub mod check;
pub mod cli;
pub mod commands;
pub mod config;
#[cfg(feature = "standin")]
pub mod demo;
pub mod examine;
pub mod run;
pub mod scripted;
pub mod shared_skills;
pub mod telemetry;
