//! The provider's proxy: it keeps the key outside the sandbox, counts what each turn really uses, and stops a turn
//! whose hold is used up.
//!
//! Each turn gets a path and a token of its own, good from [`Meter::open`] to [`Meter::close`], across restarts of the
//! bot. A request passes only if its model is one that the turn may use and has a price, if it asks for nothing whose
//! price is not known, and if its least cost fits into what is left of the hold.
//!
//! It must never let the provider's key into the sandbox, a log or an error; never forward a request that could cost
//! something before that possible cost was stored by whoever listens to [`MeterEvent`]; never hold a whole answer.
//!
//! # What a turn can exceed its hold by
//!
//! The provider tells what an answer's input cost only when the answer begins, and what its output cost only when it
//! ends. Both are bounded before the request leaves: the input is at least [`Ask::least_input`] and at most
//! [`Ask::most_input`] tokens, and `max_tokens` is lowered so that the output fits into what is left of the hold. When
//! the count passes the hold, all open answers of the turn are cut. So a turn exceeds its hold at most by, for each
//! request that is open at that moment (at most [`SEATS`]): the input that it had beyond the least, its web searches
//! (each [`WEB_SEARCH`], at most [`MOST_SEARCHES`]), and, where several are open, the output that the
//! provider made and that no stream has shown yet, which is at most what was left when that request was let in.
//! A turn that never has two requests open at once exceeds it by one request's input and searches alone. Beyond that
//! stand only answers that broke off on the provider's side: they are charged at what was seen of them, as an estimate.

mod account;
mod answer;
mod ask;
mod forward;
mod leases;
mod passage;
mod price;
mod refusal;
mod serve;
mod stream;
mod token;
mod usage;

pub use account::{Charge, Closed};
pub use ask::{Ask, MOST_SEARCHES, NotAsked};
pub use forward::{Greeting, greet};
pub use leases::{Lease, Meter, MeterError, MeterEvent, Opened, SEATS, Settings};
pub use price::{Cost, Price, Prices, WEB_SEARCH};
pub use usage::Usage;
