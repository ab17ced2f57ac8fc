//! How old an interaction is. Its id tells when Discord made it, by Discord's clock; ours may differ.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::domain::time::Moment;
use crate::driver::clock::{Clock, SystemClock, TokioClock};

/// The age from which on an interaction is left alone: it can hardly be acknowledged within Discord's three seconds, and
/// is probably a replay.
pub(super) const STALE: Duration = Duration::from_millis(2500);

/// Tells ages by the quickest arrival so far, so that a clock that is some seconds wrong makes nothing look old; and by
/// a clock that nobody sets, so that setting the machine's makes nothing look old either.
#[derive(Debug)]
pub(super) struct Ages {
    clock: TokioClock,
    /// The least difference between arrival and id, in milliseconds.
    least: AtomicI64,
}

impl Default for Ages {
    fn default() -> Ages {
        Ages {
            clock: TokioClock::starting_at(SystemClock.now()),
            least: AtomicI64::new(i64::MAX),
        }
    }
}

impl Ages {
    /// Returns how long ago something was made that has just arrived.
    pub(super) fn of(&self, made: Moment) -> Duration {
        self.at(made, self.clock.now())
    }

    fn at(&self, made: Moment, now: Moment) -> Duration {
        let lag = now.0.saturating_sub(made.0);
        let least = self.least.fetch_min(lag, Ordering::Relaxed).min(lag);
        Duration::from_millis(u64::try_from(lag.saturating_sub(least)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_right_whatever_our_clock_says() {
        for skew in [-5_000, 0, 5_000] {
            let ages = Ages::default();
            let age = |made: i64, arrived: i64| ages.at(Moment(made), Moment(arrived + skew));
            assert_eq!(age(1_000, 1_100).as_millis(), 0);
            assert_eq!(age(2_000, 5_000).as_millis(), 2_900);
            assert_eq!(age(9_000, 9_050).as_millis(), 0);
            assert_eq!(age(9_500, 12_550).as_millis(), 3_000);
        }
    }
}
