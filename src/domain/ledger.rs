//! Money that runs: what is held, what was spent, and the sums over both.

use serde::{Deserialize, Serialize};

use super::ids::{MemberId, Slug, TurnId};
use super::money::Usd;
use super::time::{Moment, Month};

/// How an agent is told that what was held for its turn is used up; by these words its failure is known again.
pub const LIMIT_REACHED: &str = "the limit of this turn is used up";

/// Money reserved for one turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The turn.
    pub turn: TurnId,
    /// Who pays.
    pub member: MemberId,
    /// The project that it counts against.
    pub project: Slug,
    /// The month that pays: that of the turn's start.
    pub month: Month,
    /// How much is reserved.
    pub amount: Usd,
    /// Since when.
    pub at: Moment,
}

/// What one turn really cost. Written once per turn and never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The turn.
    pub turn: TurnId,
    /// Who paid.
    pub member: MemberId,
    /// The project that it counted against.
    pub project: Slug,
    /// The month that paid.
    pub month: Month,
    /// How much.
    pub cost: Usd,
    /// Whether the amount is an estimate.
    pub estimated: bool,
    /// When it was booked.
    pub at: Moment,
}

/// One sum of a month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Spent: the sum of ledger entries.
    pub spent: Usd,
    /// Held for turns that are not settled yet.
    pub held: Usd,
}

impl Tally {
    /// Returns what is gone from a budget: spent or held.
    pub fn used(self) -> Usd {
        self.spent + self.held
    }

    /// Returns the sum as it would be if every running turn cost nothing.
    pub fn without_holds(self) -> Tally {
        Tally {
            held: Usd::ZERO,
            ..self
        }
    }
}

/// How the month stands for one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What the guest has used, in all projects together.
    pub guest: Tally,
    /// What the project has used, by all people together.
    pub project: Tally,
}

/// What the meter has counted for a turn that is not done, so that a restart goes on counting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// The turn.
    pub turn: TurnId,
    /// The token by which the turn's agent reaches the meter: good for nothing else, and for no longer than the turn.
    pub token: String,
    /// What its ended requests cost.
    pub spent: Usd,
    /// The most that its open requests can cost: charged, as an estimate, if their end was not seen.
    pub open_worst: Usd,
    /// Whether `spent` holds an estimate.
    pub estimated: bool,
}
