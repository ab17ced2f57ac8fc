//! Where a turn can stand.

use crate::domain::time::Moment;

use super::end::End;
use super::event::Stop;

/// Which start of the agent this is. Each remedy is tried once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The first.
    First,
    /// The session could not be resumed: this is a new one.
    Renewed,
    /// The session existed already: it is resumed.
    Resumed,
}

/// How far the leaving of a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It is expected to go by itself.
    Waiting,
    /// It is being killed.
    Killing,
    /// It is gone; the rest of its stream is awaited.
    Gone,
}

/// The steps after a turn's end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// Files are looked for.
    Collecting,
    /// The cost is booked.
    Settling,
    /// The answer is sent.
    Delivering,
    /// Nothing is left to do.
    Over,
}

/// Where a turn stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The gate is asked.
    Admitting {
        /// All places for running turns are taken.
        waits: bool,
    },
    /// The run is being prepared.
    Starting {
        /// A stop that came meanwhile.
        stop: Option<Stop>,
    },
    /// The agent works.
    Running,
    /// The agent was asked to stop.
    Stopping {
        /// Why.
        why: Stop,
        /// How far that is.
        leaving: Leaving,
        /// When patience ends.
        until: Moment,
    },
    /// The result is there, the process is not gone.
    Ending {
        /// How far that is.
        leaving: Leaving,
        /// When patience ends.
        until: Moment,
    },
    /// The end is known.
    Closing {
        /// How far what follows from it is.
        stage: Closing,
        /// It.
        end: End,
        /// When it came.
        at: Moment,
    },
}
