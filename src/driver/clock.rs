//! The one place that reads the time.

use std::time::SystemTime;

use crate::domain::time::Moment;

/// Tells what time it is.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the present moment.
    fn now(&self) -> Moment;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Moment(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// A clock that starts where it is told and then goes with tokio's, which a test can pause and move.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Moment,
    began: tokio::time::Instant,
}

impl TokioClock {
    /// Returns a clock that shows `start` now.
    pub fn starting_at(start: Moment) -> TokioClock {
        TokioClock {
            start,
            began: tokio::time::Instant::now(),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Moment {
        self.start + self.began.elapsed()
    }
}
