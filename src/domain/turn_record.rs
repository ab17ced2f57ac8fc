//! The record of a turn: what must survive a restart, step by step.

use serde::{Deserialize, Serialize};

use super::grant::Level;
use super::ids::{MemberId, MessageId, SessionId, Slug, ThreadId, TurnId};
use super::money::Usd;
use super::request::Request;
use super::time::{Moment, Month};

/// How far a turn has come. Each stage is on disk before what follows from it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Recorded; waits for its turn in the chat.
    Waiting,
    /// Admitted and its money held; the sandbox knows nothing of it yet.
    Held,
    /// The start was given, or is about to be: the sandbox must be looked at before anything is started again.
    Started,
    /// Its end is known, and is booked next if it is not yet; parts of the answer may still have to be sent.
    Settled {
        /// What it cost.
        cost: Usd,
        /// Whether the cost is an estimate.
        estimated: bool,
    },
    /// Everything was said. Nothing is left to do.
    Done,
}

/// Whether one part of an answer has reached people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sent {
    /// Not sent.
    No,
    /// About to be sent, or sent: whether it arrived has to be looked up.
    Trying,
    /// The message it is.
    Yes(MessageId),
    /// It cannot be sent; why was said in its place.
    GivenUp,
}

/// A produced file that belongs to a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutFile {
    /// Absolute path in the sandbox.
    pub path: String,
    /// The name people see.
    pub name: String,
    /// Bytes when it was found.
    pub size: u64,
}

/// One message of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its text, at most 2000 code points; may be empty where there are files.
    pub text: String,
    /// Files that hang on it.
    pub files: Vec<OutFile>,
    /// Whether it arrived.
    pub sent: Sent,
}

/// One turn: one request up to its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// The id of the message or interaction that asked.
    pub id: TurnId,
    /// The chat.
    pub thread: ThreadId,
    /// What was asked.
    pub request: Request,
    /// How far it has come.
    pub stage: Stage,
    /// Admitted for this project (the chat's first).
    pub project: Slug,
    /// The author's level at the start.
    pub level: Level,
    /// The author holds `ship` and the turn runs at `chat`: not everybody who spoke or was quoted in the chat holds it.
    #[serde(default)]
    pub ship_withheld: bool,
    /// The chat's other projects that count in this turn, with the author's level on each: at least `chat`.
    #[serde(default)]
    pub extras: Vec<(Slug, Level)>,
    /// The model it runs with.
    pub model: String,
    /// The model families that it may use, sub-agents included; `None`: every one (owners).
    #[serde(default)]
    pub families: Option<Vec<String>>,
    /// What is held for it.
    pub hold: Usd,
    /// The month that pays: that of its start.
    pub month: Option<Month>,
    /// When it started.
    pub started_at: Option<Moment>,
    /// The session it runs in.
    pub session: Option<SessionId>,
    /// Whether that session is resumed or made.
    pub resumes: bool,
    /// Which run of the turn: a session that could not be resumed is replaced once, in a second run.
    #[serde(default)]
    pub attempt: u8,
    /// It waits where people see it: a live message may have been made before its start.
    #[serde(default)]
    pub shown: bool,
    /// The live message.
    pub live: Option<MessageId>,
    /// How much of the stream was shown already (bytes): only to notice that the file shrank.
    pub seen: u64,
    /// Who asked to stop it.
    pub stopped_by: Option<MemberId>,
    /// The answer, part by part, once known.
    pub parts: Vec<Part>,
    /// What the receipt will say, once known.
    pub receipt: Option<String>,
    /// Whether people are offered to ask the same again: it could not be done, or not be continued.
    #[serde(default)]
    pub retry: bool,
}
