//! Stories: the whole bot in one process against the stand-in for Discord, with a scripted agent in a local sandbox.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail loudly"
)]

#[path = "../house/mod.rs"]
mod house;

mod answers;
mod arriving;
mod asking;
mod budgets;
mod failing;
mod office;
mod places;
mod projects;
mod restarting;
mod stopping;
mod waiting;
