//! The stand-in for Discord, seen from outside.

#![cfg(feature = "standin")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what the tests share fails the test that uses it"
)]

#[path = "standin/clients.rs"]
mod clients;
#[path = "standin/events.rs"]
mod events;
#[path = "standin/faults.rs"]
mod faults;
#[path = "standin/gateway.rs"]
mod gateway;
#[path = "standin/house.rs"]
mod house;
#[path = "standin/own.rs"]
mod own;
#[path = "standin/rest.rs"]
mod rest;
