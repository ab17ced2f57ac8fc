//! How old an interaction is. Its id tells when Discord made it, by Discord's clock; ours may differ.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::domain::time::Moment;
use crate::driver::clock::{Clock, SystemClock, TokioClock};

/// The age from which on an interaction is left alone: it can hardly be acknowledged within Discord's three seconds, and
/// is probably a replay.
pub(super) const STALE: Duration = Duration::from_millis(2500);

/// How long a quickest arrival counts, at least: an hour of clocks that run apart is far less than [`STALE`].
const COUNTS: i64 = 60 * 60 * 1000;

/// Tells ages by the quickest arrival of the last hour or two, so that a clock that is some seconds wrong makes nothing
/// look old, and one that runs a little fast does not either; and by a clock that nobody sets, so that setting the
/// machine's makes nothing look old.
#[derive(Debug)]
pub(super) struct Ages {
    clock: TokioClock,
    quickest: Mutex<Quickest>,
}

/// The least differences between arrival and id, in milliseconds.
#[derive(Debug)]
struct Quickest {
    /// When the current hour began.
    since: i64,
    current: i64,
    before: i64,
}

impl Default for Ages {
    fn default() -> Ages {
        Ages {
            clock: TokioClock::starting_at(SystemClock.now()),
            quickest: Mutex::new(Quickest {
                since: 0,
                current: i64::MAX,
                before: i64::MAX,
            }),
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
        let mut quickest = self.quickest.lock().unwrap_or_else(PoisonError::into_inner);
        let least = quickest.with(lag, now.0);
        Duration::from_millis(u64::try_from(lag.saturating_sub(least)).unwrap_or(0))
    }
}

impl Quickest {
    /// Takes note of an arrival, and returns the least difference of those that count, this one included.
    fn with(&mut self, lag: i64, now: i64) -> i64 {
        let passed = now.saturating_sub(self.since);
        if passed >= COUNTS {
            self.before = if passed < 2 * COUNTS {
                self.current
            } else {
                i64::MAX
            };
            self.current = i64::MAX;
            self.since = now;
        }
        self.current = self.current.min(lag);
        self.current.min(self.before)
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

    #[test]
    fn a_clock_that_runs_fast_makes_nothing_look_old() {
        const HOUR: i64 = 60 * 60 * 1000;
        let ages = Ages::default();
        // A fast clock gains a second in an hour, an absurdly bad one; something arrives every ten minutes for a week.
        for tenth in 0..(7 * 24 * 6) {
            let made = tenth * HOUR / 6;
            let arrived = made + made / 3_600 + 100;
            let age = ages.at(Moment(made), Moment(arrived));
            assert!(age < STALE, "{age:?} after {tenth} arrivals");
        }
        let made = 7 * 24 * HOUR;
        let late = ages.at(Moment(made), Moment(made + made / 3_600 + 10_100));
        assert!(late > STALE, "{late:?}");
    }

    #[test]
    fn a_quiet_night_makes_nothing_look_old() {
        let ages = Ages::default();
        ages.at(Moment(0), Moment(100));
        let made = 10 * 60 * 60 * 1000;
        let age = ages.at(Moment(made), Moment(made + 5_000));
        assert_eq!(age.as_millis(), 0);
    }
}
