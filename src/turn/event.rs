//! What happens to a turn, in the past tense.

use crate::agent;
use crate::domain::grant::Refusal;
use crate::domain::ids::MemberId;
use crate::domain::money::Usd;

use super::effect::Timer;

/// Something that happened to a running turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// All places for running turns are taken: it waits for one before the gate is asked.
    NoPlace,
    /// The gate was passed again and the money is held, on disk.
    Held(Usd),
    /// It runs at `chat` although its author holds `ship`: not everybody in its company does. Comes before `Held`.
    ShipWithheld,
    /// The gate said no at the start.
    Refused(Refusal),
    /// The run exists in the sandbox; its stream is being followed.
    Started,
    /// The run could not be started, and will not be.
    NotStarted(Trouble),
    /// The preparing was left off: there is no run, and there will be none.
    CalledOff,
    /// The sandbox cannot be reached; the run, if there is one, goes on without us.
    Away,
    /// The sandbox is back.
    Back,
    /// The agent's stream said something.
    Agent(agent::event::Event),
    /// A message of the turn's author is to join the running turn. It counts as taken once the stream echoes its id.
    Steered {
        /// The id that it is fed with.
        id: String,
        /// One line of JSON.
        line: String,
    },
    /// The line of this id could not be given to the agent, and will not be.
    NotSaid(String),
    /// What the turn has cost up to now, as the meter counted it. Beats whatever the agent reports.
    Metered {
        /// The amount.
        cost: Usd,
        /// Whether a part of it is not known for sure.
        estimated: bool,
    },
    /// What the answers of the provider cost whose cost no result told. Comes before `Settled`, where nobody counts.
    Priced(Usd),
    /// The tail of what the process wrote beside its stream; comes before `Ended`, where the exit code is not 0.
    Complained(String),
    /// The process is gone and its stream was read to the end. `None`: it ended without leaving its exit code.
    Ended(Option<i32>),
    /// The stream became shorter than what was read of it: somebody changed it.
    Shrank,
    /// Somebody wants it stopped; whether they may was decided before.
    StopRequested(Stop),
    /// A timer fired. One that was replaced meanwhile changes nothing.
    TimerFired(Timer),
    /// Nothing of the run is left in the sandbox.
    Killed,
    /// What the turn made was looked for.
    Collected(Collected),
    /// The ledger has it.
    Settled,
    /// All parts of the answer arrived or were given up, each for a reason that people were told.
    Delivered,
}

/// Why a turn is to be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A person pressed Stop or wrote `/stop`.
    By(MemberId),
    /// It ran longer than allowed.
    TimeUp,
    /// It was silent longer than allowed.
    Silent,
    /// What was held, this much, is used up.
    Limit(Usd),
    /// The thread is gone: nobody can read the answer.
    ThreadGone,
    /// The author's grant was taken, or the author suspended.
    Revoked,
    /// The agent runs under another permission mode than was asked for.
    WrongMode,
    /// The stream was tampered with.
    Tampered,
}

/// What kept a run from starting, or ended it from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The sandbox did not answer for longer than allowed.
    SandboxAway,
    /// The sandbox refuses the bot's key.
    SandboxRefused,
    /// The agent's program is not there.
    AgentMissing,
    /// The project's directory is missing or not writable.
    Workspace(String),
    /// A file of the request could not be brought in.
    Attachment {
        /// Its name.
        name: String,
        /// Why, fit for people.
        why: String,
    },
    /// Confinement does not work for this account, and is required.
    NotConfined(String),
    /// No room left in the sandbox.
    Full,
    /// The run was there once and is gone with all that it left.
    Lost,
    /// Anything else; the text goes to the log, not to people.
    Other(String),
}

/// A produced file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Absolute path in the sandbox.
    pub path: String,
    /// Path as people should see it, relative to the workspace or outbox.
    pub shown: String,
    /// Bytes.
    pub size: u64,
}

/// What the search after a turn gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Regular files with one link, in the order in which they should appear.
    pub files: Vec<Found>,
    /// Whether the search stopped at its bound, so that there may be more.
    pub more: bool,
    /// The search failed; why, for the log.
    pub failed: Option<String>,
}
