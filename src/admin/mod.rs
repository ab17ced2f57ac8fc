//! What the commands about access and money do, in plain types.
//!
//! Each use case checks by itself whether the person may use it, whatever the platform shows to whom; changes are in
//! the audit log and on disk before anybody is told. Nothing here knows the platform's library, and nothing here is
//! trusted because it was offered as a choice.

mod access;
mod act;
mod complete;
mod grants;
mod money;
mod office;
mod people;
mod spend;
mod status;

#[cfg(test)]
mod doors;
#[cfg(test)]
mod tests;

pub use act::Act;
pub use grants::Revoked;
pub use office::Office;
