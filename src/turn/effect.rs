//! What a turn wants done, in the imperative.

use crate::domain::money::Usd;
use crate::domain::time::Moment;

/// A timer's name. Scheduling one again replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The live message's clock moves.
    Tick,
    /// Looks whether the turn has been silent for too long.
    Silence,
    /// The turn has run for as long as it may.
    WallClock,
    /// The process was asked to end and has not.
    StopGrace,
    /// The result is there and the process is not gone.
    ResultGrace,
    /// The sandbox has been away for as long as is waited.
    AwayLimit,
}

/// Something to be done. Effects of one answer are carried out in their order; what must survive is stored before the next.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Pass the gate again and hold the money → `Held` or `Refused`.
    Hold,
    /// Prepare workspace and inbox, start the run, follow it → `Started` or `NotStarted`, then `Agent`…, `Ended`.
    Start,
    /// Leave off preparing, and undo what was half done → `CalledOff`. Where the run exists already, `Started` comes all the
    /// same.
    CallOff,
    /// Show the newest live message.
    ShowLive,
    /// Append one line to what the agent is told.
    Say {
        /// Appended only if no line of that id is there.
        id: String,
        /// One line of JSON.
        line: String,
    },
    /// Answer a request for permission with no.
    Deny {
        /// The request that is answered.
        request_id: String,
        /// Why, in words for the agent.
        reason: String,
    },
    /// Ask the agent to end what it is doing, politely: it still reports its result.
    Interrupt,
    /// Tell the agent that nothing more comes: the process ends after its turn.
    CloseInput,
    /// Kill whatever is left of the run → `Killed` (and `Ended`).
    Kill,
    /// Fire `timer` at `at`.
    Schedule {
        /// Which.
        timer: Timer,
        /// When.
        at: Moment,
    },
    /// Look for what the turn made → `Collected`.
    Collect,
    /// Book the cost and release the hold → `Settled`.
    Settle {
        /// What to book.
        cost: Usd,
        /// Whether it is an estimate.
        estimated: bool,
    },
    /// Store the parts of the answer (`present::answer`), send them, then the receipt → `Delivered`.
    Deliver,
    /// The session was not usable: give the chat a new one.
    RenewSession,
    /// The session exists already: it is to be resumed, in another run.
    ResumeSession,
    /// The session can be resumed from now on.
    KeepSession,
    /// Tell the admins, once per hour and kind.
    Alarm(String),
    /// Nothing is left to do for this turn.
    Finish,
}
