//! What the house keeps about a person.

use serde::{Deserialize, Serialize};

use super::ids::{MemberId, RoleId};
use super::money::Usd;

/// A person as a message or an interaction shows them, roles read from that same event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// Who it is: the only thing that decides anything.
    pub member: MemberId,
    /// The name that others see. Chosen by the person, so never trusted and never a key.
    pub name: String,
    /// The roles held at that moment.
    pub roles: Vec<RoleId>,
}

/// What the house keeps about a person, beside their grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guest {
    /// Who it is.
    pub member: MemberId,
    /// Model families this guest may use; `None`: the configured ones.
    pub models: Option<Vec<String>>,
    /// Monthly budget; `None`: the configured default for new guests. Zero means none at all.
    pub budget: Option<Usd>,
    /// A suspended guest may do nothing, whatever was granted.
    pub suspended: bool,
}

impl Guest {
    /// Returns what is kept about somebody of whom nothing is kept yet.
    pub fn new(member: MemberId) -> Guest {
        Guest {
            member,
            models: None,
            budget: None,
            suspended: false,
        }
    }
}
