//! Discord: the only room that names the SDK.
//!
//! - [`rest`] asks Discord, [`Outbound`] speaks through it and is the driver's [`Surface`](crate::driver::ports::Surface);
//! - the gateway listens on a runtime of its own, and hands over in order;
//! - `inbound` turns what was heard into our own types, `commands` does it for slash commands and buttons.
//!
//! Nothing is decided here about what anybody may do. It must never contact another host than the configured one and
//! the gateway that it announces (files: Discord's own file servers), never let an address with a token or somebody's
//! text into a log, and never say anything without naming whom it may notify.

mod bodies;
mod catch_up;
mod commands;
#[cfg(test)]
mod fake;
mod faults;
mod fetch;
mod gateway;
mod handlers;
mod inbound;
mod listener;
mod names;
mod outbound;
mod places;
pub mod rest;
mod serve;
#[cfg(test)]
mod tests;
mod wire;

pub use handlers::{
    ActCall, Answering, Caller, Choice, Completing, Completion, GrantCall, Handlers, OfficeCalls,
    RevokeCall,
};
pub use outbound::Outbound;
pub use reqwest::Url;
pub use rest::{BadSettings, RestError};
pub use serve::{Discord, DiscordSettings, Fatal, own_id};
