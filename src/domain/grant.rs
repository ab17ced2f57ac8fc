//! Grants, and the one gate.

use serde::{Deserialize, Serialize};

use super::ids::{MemberId, RoleId, Slug};
use super::money::Usd;
use super::time::{Moment, Month};

/// What a grant allows; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// See the project in lists, its usage, its details.
    View,
    /// Run turns; the agent may edit and commit locally.
    Chat,
    /// Also push and deploy.
    Ship,
}

/// Who holds a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// One person.
    Member(MemberId),
    /// Everybody with a Discord role.
    Role(RoleId),
}

/// (member or role) × project × level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Who holds it.
    pub subject: Subject,
    /// On what.
    pub project: Slug,
    /// How much.
    pub level: Level,
    /// Who gave it.
    pub by: MemberId,
    /// When.
    pub at: Moment,
    /// Until when; `None`: until it is revoked.
    pub until: Option<Moment>,
}

/// The proof that one request was admitted. Only [`super::budget::admit`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    pub(super) member: MemberId,
    pub(super) project: Slug,
    pub(super) level: Level,
    pub(super) model: String,
    pub(super) cap: Usd,
    pub(super) guest_budget: Option<Usd>,
    pub(super) project_budget: Option<Usd>,
    pub(super) month: Month,
}

/// Why a request was not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No grant on this project (or on any: `project` is `None`).
    NoGrant {
        /// The project that was asked for.
        project: Option<Slug>,
        /// What would have been needed.
        need: Level,
        /// What the person holds.
        holds: Option<Level>,
    },
    /// The grant ran out.
    Expired {
        /// The project.
        project: Slug,
        /// When.
        at: Moment,
    },
    /// The guest is suspended.
    Suspended,
    /// No project of that name, as far as this person can see.
    UnknownProject {
        /// What was written.
        asked: String,
        /// Those the person may run turns in.
        choices: Vec<Slug>,
    },
    /// The chat works in another project than was named.
    OtherProject {
        /// Where the chat works.
        chat: Slug,
    },
    /// Several projects are possible and nothing says which.
    WhichProject {
        /// Those the person may run turns in.
        choices: Vec<Slug>,
    },
    /// The model is not among the allowed ones.
    Model {
        /// What was asked for.
        asked: String,
        /// Allowed families.
        allowed: Vec<String>,
    },
    /// The guest's month is used up.
    GuestBudget {
        /// Spent and held this month.
        used: Usd,
        /// The budget; zero means that none was given at all.
        budget: Usd,
        /// When the next month begins.
        resets: Moment,
    },
    /// The project's month is used up.
    ProjectBudget {
        /// The project.
        project: Slug,
        /// When the next month begins.
        resets: Moment,
    },
    /// The request holds nothing to work on.
    Empty,
    /// Too many requests wait in this chat.
    QueueFull {
        /// How many may wait.
        depth: usize,
    },
    /// A file is larger than may be taken in.
    TooLarge {
        /// Its name.
        name: String,
        /// Bytes.
        size: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// The sandbox account has no working confinement and the person is no owner.
    NotConfined,
    /// Only admins may do this.
    AdminsOnly,
    /// Only the turn's author, the chat's owner and admins may stop a turn.
    NotYourTurn,
}
