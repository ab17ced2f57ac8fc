//! Innkeeper: a Discord bot that lets a server's people work with a coding agent.

pub mod admin;
pub mod agent;
pub mod app;
pub mod discord;
pub mod domain;
pub mod driver;
pub mod meter;
pub mod present;
pub mod sandbox;
#[cfg(feature = "standin")]
pub mod standin;
pub mod store;
pub mod turn;
