//! A strict stand-in for Discord on one port: REST, gateway, attachments, a page, and routes to act
//! as people.
//!
//! It is for trying and testing a bot without Discord. It checks what the real one checks (lengths,
//! permissions, rate limits, the three seconds and fifteen minutes of interactions, intents) and
//! can misbehave as the real one sometimes does. It knows no other room of this crate, and it must
//! never reach out: it only answers.
//!
//! # World files
//!
//! [`World::from_json`] reads JSON of this form; what has a default may be left out, unknown fields
//! are refused:
//!
//! ```json
//! {
//!   "bot": { "name": "innkeeper", "id": "12…", "token": "…", "message_content": true, "guild_members": false },
//!   "guilds": [{
//!     "name": "Demo", "id": "12…", "owner": "olga", "premium_tier": 0, "upload_limit": 10485760,
//!     "everyone": ["VIEW_CHANNEL"], "bot_permissions": ["VIEW_CHANNEL"], "has_bot": true,
//!     "roles": [{ "name": "staff", "id": "12…", "permissions": ["MANAGE_GUILD"], "mentionable": false }],
//!     "members": [{ "name": "olga", "id": "12…", "nick": "Olga", "roles": ["staff"], "bot": false }],
//!     "channels": [{ "name": "general", "id": "12…", "kind": "text",
//!                    "overwrites": [{ "role": "@everyone", "allow": [], "deny": ["SEND_MESSAGES"] }] }]
//!   }]
//! }
//! ```
//!
//! Ids are decimal numbers in quotes and are made up where absent. `everyone` and `bot_permissions`
//! default to what Discord gives everybody and to what the bot's invitation asks for. `kind` is
//! text (the default), announcement, forum, voice or category; an overwrite names a `role` or a
//! `member`. `message_content` and `guild_members` are the portal's switches for the privileged
//! intents. The same member name on two servers is the same person.
//!
//! # Faults
//!
//! `POST /standin/faults` takes one rule or a list; `GET` lists those that still hold, with the
//! counts of 429s, gateway connections and logins; `DELETE` ends them all.
//!
//! * `{"on": "PATCH /channels/*/messages/*", …}` is for REST requests and for `/attachments/…`; `*`
//!   stands for one step of the path, or for any method, `**` at the end for any rest. With
//!   `status` the request is answered so and has no effect; `code`, `message`, `retry_after`
//!   (seconds), `global`, `scope` shape the answer, `body` replaces it, `text` makes it something
//!   else than JSON. `delay_ms` waits first. `lose_reply` cuts the connection after the effect,
//!   `hang_up` before it. `times` bounds how often; without it the rule stays. With `every` 2 only each
//!   second request that fits is meant.
//! * `{"gateway": "drop"}`, `"close"` (`code`), `"reconnect"`, `"invalid-session"` (`resumable`)
//!   strike all connections at once; `"forget"` makes resuming impossible; `"refuse"` (`seconds`)
//!   drops and then refuses connections.
//! * `{"gateway": "duplicate"}`, `"shuffle"`, `"unparsable"`, `"lose"` are for the next `times`
//!   events (1; shuffle 2), or the next of one `event`; `"silent-heartbeat"` leaves the next
//!   `times` heartbeats, or all, unanswered.
//! * `{"advance_seconds": 3600}` moves the world's time, so that messages grow old and interactions
//!   expire.

mod act;
mod clock;
mod door;
mod faults;
mod files;
mod gateway;
mod limits;
mod own;
mod permissions;
mod refused;
mod rest;
mod server;
mod shared;
mod world;

pub use server::Standin;
pub use world::{World, WorldError};
