//! What the house knows about people, projects, money and time.
//!
//! Nothing here waits, reads a clock, touches a disk or knows Discord: plain values and the decisions over them.

pub mod audit;
pub mod budget;
pub mod chat;
pub mod grant;
pub mod guest;
pub mod ids;
pub mod ledger;
pub mod model;
pub mod money;
pub mod project;
pub mod request;
pub mod rules;
pub mod said;
pub mod text;
pub mod time;
pub mod turn_record;
pub mod venue;

#[cfg(test)]
pub(crate) mod samples;
