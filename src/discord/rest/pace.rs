//! The limit for the whole bot, and the count of refusals that gets an address banned.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Calls that may leave at once after a pause.
const BURST: u32 = 10;

/// Spaces the calls of the whole bot.
#[derive(Debug)]
pub(super) struct Pace {
    spacing: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the next call would leave if none were let through early.
    due: Instant,
    /// Discord wants no call before this.
    paused_until: Instant,
}

impl Pace {
    /// Returns a pace of so many calls a second.
    pub(super) fn new(per_second: u32) -> Pace {
        let now = Instant::now();
        Pace {
            spacing: Duration::from_secs(1) / per_second.max(1),
            state: Mutex::new(State {
                due: now,
                paused_until: now,
            }),
        }
    }

    /// Waits until one more call may leave.
    pub(super) async fn pass(&self) {
        let mut at = self.reserve(Instant::now());
        while Instant::now() < at {
            tokio::time::sleep_until(at).await;
            // A pause may have begun meanwhile.
            at = self.paused_until();
        }
    }

    fn reserve(&self, now: Instant) -> Instant {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let due = state.due.max(now);
        state.due = due + self.spacing;
        let early = self.spacing * (BURST - 1);
        due.checked_sub(early)
            .map_or(now, |at| at.max(now))
            .max(state.paused_until)
    }

    /// Lets nothing through before `until`.
    pub(super) fn pause(&self, until: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.paused_until = state.paused_until.max(until);
    }

    pub(super) fn paused_until(&self) -> Instant {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .paused_until
    }
}

/// Minutes over which refusals are counted.
const WINDOW_MINUTES: usize = 10;

/// Counts answers of 401, 403 and 429: ten thousand within ten minutes get the address banned (topics/rate-limits).
#[derive(Debug)]
pub(super) struct Tally {
    began: Instant,
    minutes: Mutex<[(u64, u32); WINDOW_MINUTES]>,
}

impl Tally {
    /// Refusals within ten minutes from which on a warning is logged.
    pub(super) const MANY: u32 = 1_000;
    /// Refusals within ten minutes from which on decoration is left out.
    pub(super) const TOO_MANY: u32 = 5_000;

    pub(super) fn new() -> Tally {
        Tally {
            began: Instant::now(),
            minutes: Mutex::new([(0, 0); WINDOW_MINUTES]),
        }
    }

    /// Counts one and returns how many there are now.
    pub(super) fn count(&self, now: Instant) -> u32 {
        let minute = self.minute(now);
        {
            let mut minutes = self.minutes.lock().unwrap_or_else(PoisonError::into_inner);
            let slot = &mut minutes[minute as usize % WINDOW_MINUTES];
            if slot.0 == minute {
                slot.1 += 1;
            } else {
                *slot = (minute, 1);
            }
        }
        self.total(now)
    }

    /// Returns how many there were within the last ten minutes.
    pub(super) fn total(&self, now: Instant) -> u32 {
        let minute = self.minute(now);
        self.minutes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .filter(|(at, _)| minute.saturating_sub(*at) < WINDOW_MINUTES as u64)
            .map(|(_, count)| count)
            .sum()
    }

    fn minute(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_secs() / 60
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn no_second_lets_more_through_than_burst_and_rate() {
        let pace = Pace::new(30);
        let mut left = Vec::new();
        for _ in 0..200 {
            pace.pass().await;
            left.push(Instant::now());
        }
        for window in left.windows(41) {
            assert!(window[40] - window[0] >= Duration::from_millis(990));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_holds_those_who_wait_already() {
        let pace = Pace::new(1);
        let begin = Instant::now();
        for _ in 0..BURST {
            pace.pass().await;
        }
        let late = async {
            pace.pass().await;
            Instant::now() - begin
        };
        let pause = async { pace.pause(begin + Duration::from_secs(60)) };
        assert_eq!(tokio::join!(late, pause).0, Duration::from_secs(60));
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_forgotten_after_ten_minutes() {
        let tally = Tally::new();
        let now = Instant::now();
        assert_eq!(tally.count(now), 1);
        assert_eq!(tally.count(now + Duration::from_secs(300)), 2);
        assert_eq!(tally.total(now + Duration::from_secs(601)), 1);
        assert_eq!(tally.count(now + Duration::from_secs(1201)), 1);
    }
}
