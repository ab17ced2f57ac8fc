//! What is known about a turn before it runs.

use std::fmt;
use std::time::Duration;

use crate::domain::ids::{MemberId, Slug, TurnId};
use crate::domain::time::Moment;

/// Texts that must never be shown. Prints nothing of them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secrets(pub Vec<String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

/// The limits of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// The longest it may run.
    pub turn_time: Duration,
    /// The longest it may be silent while no tool is open.
    pub silence: Duration,
    /// How long the process may take to end by itself, after its result or after it was asked to stop.
    pub grace: Duration,
}

/// What is known about a turn before it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnFacts {
    /// Which turn.
    pub id: TurnId,
    /// Who asked, and pays.
    pub author: MemberId,
    /// The model as it was asked for.
    pub model: String,
    /// The project it runs in.
    pub project: Slug,
    /// What people call the project.
    pub title: String,
    /// The permission mode that the agent must report.
    pub mode: String,
    /// Whether the chat's session is resumed or made.
    pub resumes: bool,
    /// Its limits.
    pub limits: TurnLimits,
    /// When it began; a turn that is rebuilt after a restart keeps its beginning.
    pub at: Moment,
    /// What must never be shown of it: configured keys and credentials that the run could print. The turn's own token is not
    /// among them: it opens the meter for this turn alone, and nothing once the turn is over.
    pub secrets: Secrets,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_print_themselves() {
        let secrets = Secrets(vec!["hunter2".into()]);
        assert_eq!(format!("{secrets:?}"), "Secrets(1)");
    }
}
