//! What must survive: people, grants, chats, turns, money, and what was already said.
//!
//! One sled database behind one narrow room. Everything is written at once and read back at once; it is on disk when
//! [`Store::flush`] has returned, which is what callers wait for before they tell anybody. Money moves in transactions
//! over all the trees concerned, so no crash leaves half of a booking.
//!
//! This room knows the domain alone. It never decides who may do what, never asks what time it is, and never replaces a
//! record that it cannot read by an empty one.

mod accounts;
mod audit;
mod chats;
mod check;
mod counts;
mod dump;
mod error;
mod facts;
mod flush;
mod grants;
mod guests;
mod intake;
mod ledger;
mod open;
mod pending;
mod record;
mod table;
mod turns;
mod undecided;
mod upgrade;

#[cfg(test)]
mod tests;

pub use error::StoreError;
pub use ledger::EntryFilter;
pub use open::Store;
