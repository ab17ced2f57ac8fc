//! Innkeeper: a Discord bot that lets a server's people work with a coding agent, within granted projects and monthly budgets.
//!
//! # The rooms
//!
//! ```text
//! main ──► app ──► everything (builds it; nothing else does)
//!
//! discord ──► admin ──► driver ──► present ──► turn ──► agent ──► domain
//!                          ├──► store ─────────────────────────────┤
//!                          ├──► sandbox ───────────────────────────┤
//!                          └──► meter ─────────────────────────────┘
//! standin: alone
//! ```
//!
//! [`domain`], [`agent`], [`turn`] and [`present`] decide and word; they do no input or output and ask no clock. [`store`],
//! [`sandbox`] and [`meter`] serve the [`driver`], which does what was decided. [`discord`] alone names the SDK. `tests/layers.rs`
//! keeps the arrows.
//!
//! # The road of a message
//!
//! 1. A gateway event becomes an [`Inbound`](driver::inbound::Inbound) in our types; bots and foreign places end here.
//! 2. [`driver::desk`] decides whether it is a request, asks the [gate](domain::budget::admit) and stores request and chat. A
//!    [`Refusal`](domain::grant::Refusal) becomes a notice, and the road ends; otherwise there is a
//!    [`Permit`](domain::grant::Permit), which nothing else can make.
//! 3. [`driver::hub`] finds or starts the chat's task; [`driver::chat_task`] takes one request after the other, in the order of
//!    their ids.
//! 4. [`driver::run_turn`] waits for a place, passes the gate again, holds the money, and starts. Everything that happens becomes
//!    an [`Event`](turn::event::Event) for [`turn::machine`], whose [`Effect`](turn::effect::Effect)s it carries out; what must
//!    survive is on disk before the next.
//! 5. [`driver::launch`] prepares and starts the run; [`driver::follower`] reads its stream: bytes → [`agent::lines`] →
//!    [`agent::decode`] → events. After a restart the turn is rebuilt from the first byte.
//! 6. After each event the newest [`present::live`] goes to [`driver::live_message`], which edits at its pace.
//! 7. The end: files are looked for, the cost is booked, the answer's parts are stored ([`driver::deliver`]) and sent
//!    ([`driver::outbox`]), and the live message becomes the receipt.
//! 8. The next request, or the task ends.
//!
//! # Two walkthroughs
//!
//! *Ask.* Ada writes `@innkeeper plot data.csv`. `discord::inbound` → `Desk::inbound` → `gate::admit` → `Store::put_turn` (waiting)
//! → `Hub::tell` → `threads::open` → `run_turn::run`: `Hold` → `Start` → `launch::launch` → `follower::follow` → … `Result` → `Collect`
//! → `Settle` → `Deliver` → `Finish`.
//!
//! *Stop.* Ada presses **Stop**. `Desk::press` asks whether she may, notes it, and writes a letter to the chat's task →
//! `Event::StopRequested` → `Interrupt`, and after five seconds `Kill`; the turn is over when the process is gone, not before.
//!
//! # What always holds
//!
//! - Nothing runs without a permit and money held on disk; whatever the end, the hold becomes the real cost, once per turn.
//! - What somebody was told is on disk before they are told.
//! - A chat runs one turn at a time, also across restarts; a turn's run is started once.
//! - Every message of ours names exactly whom it may notify, and carries a nonce.
//! - Nothing that somebody without a grant wrote reaches the agent, except as a holder's quotation.
//! - No secret is written into a log, an error or a message, and the provider's key never enters the sandbox.

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
