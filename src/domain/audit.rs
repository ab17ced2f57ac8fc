//! What admins did, kept for good.

use serde::{Deserialize, Serialize};

use super::ids::MemberId;
use super::time::Moment;

/// One thing that an admin did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// When.
    pub at: Moment,
    /// Who did it.
    pub by: MemberId,
    /// What was done, to whom or what: `grant member 5 site`.
    pub what: String,
    /// How it was before; `None`: there was nothing.
    pub before: Option<String>,
    /// How it is now; `None`: there is nothing any more.
    pub after: Option<String>,
}

/// The last thing that somebody was refused, for `/me`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRefusal {
    /// What they were told.
    pub text: String,
    /// When.
    pub at: Moment,
}
