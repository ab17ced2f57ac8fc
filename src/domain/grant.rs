//! Grants, and what the one gate answers: a [`Permit`] or a [`Refusal`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::guest::Person;
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

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::View => "view",
            Level::Chat => "chat",
            Level::Ship => "ship",
        })
    }
}

/// Why a text is no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no level: use view, chat or ship")]
pub struct NotALevel(pub String);

impl FromStr for Level {
    type Err = NotALevel;

    fn from_str(text: &str) -> Result<Self, NotALevel> {
        match text.trim().to_ascii_lowercase().as_str() {
            "view" => Ok(Level::View),
            "chat" => Ok(Level::Chat),
            "ship" => Ok(Level::Ship),
            _ => Err(NotALevel(text.to_owned())),
        }
    }
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

impl Grant {
    /// Returns whether this person holds it, by themselves or by a role.
    pub fn is_held_by(&self, person: &Person) -> bool {
        match self.subject {
            Subject::Member(member) => member == person.member,
            Subject::Role(role) => person.roles.contains(&role),
        }
    }

    /// Returns whether it still counts at `now`; at its very end it does not.
    pub fn is_live(&self, now: Moment) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// The proof that one request was admitted. Only [`super::budget::admit`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    pub(super) member: MemberId,
    pub(super) project: Slug,
    pub(super) level: Level,
    pub(super) model: String,
    pub(super) families: Option<Vec<String>>,
    pub(super) cap: Usd,
    pub(super) guest_budget: Option<Usd>,
    pub(super) project_budget: Option<Usd>,
    pub(super) month: Month,
    pub(super) resets: Moment,
}

impl Permit {
    /// Returns who was admitted, and pays.
    pub fn member(&self) -> MemberId {
        self.member
    }

    /// Returns the project that the turn runs in.
    pub fn project(&self) -> &Slug {
        &self.project
    }

    /// Returns the level that the person holds there, which can be more than was needed.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Returns the model to run with: an alias or a pinned id, in lower case.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the model families that the turn may use; `None`: any, for owners.
    pub fn families(&self) -> Option<&[String]> {
        self.families.as_deref()
    }

    /// Returns the most that the turn may cost, as things stood when it was admitted; what was only held did not count.
    pub fn cap(&self) -> Usd {
        self.cap
    }

    /// Returns the person's budget of the month; `None`: without limit, for owners.
    pub fn guest_budget(&self) -> Option<Usd> {
        self.guest_budget
    }

    /// Returns the project's budget of the month; `None`: without limit.
    pub fn project_budget(&self) -> Option<Usd> {
        self.project_budget
    }

    /// Returns the month that pays.
    pub fn month(&self) -> Month {
        self.month
    }

    /// Returns when the next month begins.
    pub fn resets(&self) -> Moment {
        self.resets
    }
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
        /// Spent this month.
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
    /// What is left of a budget is held for running turns.
    Held {
        /// The project whose budget it is; `None`: the guest's own.
        project: Option<Slug>,
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
    /// Only the turn's author, the chat's owner and admins may stop a turn.
    NotYourTurn,
    /// Only the chat's owner and admins may change how a chat works.
    NotYourChat,
    /// An admin stopped new turns; the reason that was given, which may be blank.
    Paused(String),
    /// The person is not on the server any more.
    LeftServer,
}
