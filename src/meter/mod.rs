//! The provider's proxy: it keeps the key outside the sandbox, counts what each turn really uses, and stops a turn
//! whose hold is used up.
//!
//! Each turn gets a path and a token of its own, good from [`Meter::open`] to [`Meter::close`], across restarts of the
//! bot. A request passes only if its model is one that the turn may use and has a price, if it asks for nothing whose
//! price is not known, and if it fits into what is left of the hold.
//!
//! It must never let the provider's key into the sandbox, a log or an error; never forward a request that could cost
//! something before that possible cost was stored by whoever listens to [`MeterEvent`]; never hold a whole answer.
//!
//! # What a turn can exceed its hold by
//!
//! The provider tells what an answer's input cost only when the answer begins, and what its output cost only when it
//! ends. So before a request leaves, money is set aside for it: its input as it is reckoned from its text, at the price of
//! input that is in no cache ([`Ask::input_cost`]), its web searches, and the shortest useful answer; all of the answer if
//! that is not streamed. It is let in only if that fits beside what the turn's other requests have used and set aside,
//! and `max_tokens` is lowered to what is left then. One that would fit beside fewer others is told to come back, one that
//! would not is refused for good. When what is used and set aside passes the hold, all open answers are cut.
//!
//! **A turn that has one request open at a time exceeds its hold by nothing**, if each input is as reckoned. Otherwise it
//! does at most by the following, for each request that is open when the hold is used up (at most [`SEATS`]):
//!
//! 1. Input beyond what was reckoned: nothing for text that has three letters, or two figures or signs, to a token (English
//!    has four letters and more); twice as much again at the very worst, where every single byte is a token. Pages that a web search reads are input too and
//!    stand in no request: searching must be asked for with a bound, and is not among the agent's tools by default.
//! 2. What the provider's cache lost. A beginning that this turn's own answers showed to be in the cache is reckoned at the
//!    price of reading it from there for four minutes; the provider keeps it for at least five. Should it not, that
//!    beginning costs its full price.
//! 3. Where several answers are open: output that the provider made and that no stream has shown yet, such as thinking
//!    that it hides, at most what was left when that request was let in.
//!
//! Beyond that stand only answers that broke off on the provider's side: they are charged at what was seen of them, as an
//! estimate.

mod account;
mod answer;
mod ask;
mod forward;
mod leases;
mod passage;
mod price;
mod prompt;
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
