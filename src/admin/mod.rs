//! What the commands about access and money do, in plain types.
//!
//! Each use case checks by itself whether the person may use it, whatever the platform shows to whom; changes are in
//! the audit log and on disk before anybody is told. Nothing here knows the platform's library, and nothing here is
//! trusted because it was offered as a choice.

mod complete;
mod grants;
mod money;
mod office;

#[cfg(test)]
mod tests;

pub use grants::Revoked;
pub use office::Office;
