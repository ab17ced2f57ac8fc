//! The time and the ids of the stand-in's world.
//!
//! The room knows no other room, so it has a clock of its own; nothing else in it asks for the
//! time. Ids always follow the real time, because clients judge an interaction by the age of its
//! id. What the world itself judges (the age of a message, the life of an interaction) follows the
//! world's time, which a test may move forward.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Milliseconds since 1970 at which Discord's ids begin (2015-01-01).
const DISCORD_EPOCH_MS: u64 = 1_420_070_400_000;

/// An id as Discord makes them: time in the upper 42 bits.
pub(crate) type Id = u64;

/// Gives the world's time and fresh ids.
#[derive(Debug, Clone)]
pub(crate) struct Clock {
    moved: Duration,
    last_id: Id,
    /// Which of the machine's stand-ins this is, in bits 12 to 21 of its ids, where Discord's own have worker and process:
    /// two stand-ins at work in the same millisecond give different ids.
    worker: Id,
}

impl Default for Clock {
    fn default() -> Clock {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        Clock {
            moved: Duration::ZERO,
            last_id: 0,
            worker: (u64::from(std::process::id()) * 37 + made) % 1024,
        }
    }
}

impl Clock {
    /// Returns the world's time in milliseconds since 1970: the real time and whatever it was moved
    /// by.
    pub(crate) fn now_ms(&self) -> u64 {
        wall_ms() + u64::try_from(self.moved.as_millis()).unwrap_or(u64::MAX / 2)
    }

    /// Moves the world's time forward.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.moved += by;
    }

    /// Returns an id that is greater than every id before.
    pub(crate) fn fresh_id(&mut self) -> Id {
        let by_time = wall_ms().saturating_sub(DISCORD_EPOCH_MS) << 22 | self.worker << 12;
        self.last_id = by_time.max(self.last_id + 1);
        self.last_id
    }

    /// Returns an id as it would have been made so many minutes ago.
    pub(crate) fn id_of(&self, minutes_ago: u64) -> Id {
        let then = wall_ms().saturating_sub(minutes_ago.saturating_mul(60_000));
        then.saturating_sub(DISCORD_EPOCH_MS) << 22
    }
}

/// Returns the present instant, by which limits and waits are measured.
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Returns the real time in milliseconds since 1970.
pub(crate) fn wall_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default()
}

/// Returns the moment (milliseconds since 1970) at which an id was made.
pub(crate) fn made_at_ms(id: Id) -> u64 {
    (id >> 22) + DISCORD_EPOCH_MS
}

/// Writes a moment (milliseconds since 1970) as Discord does.
pub(crate) fn rfc3339(ms: u64) -> String {
    let moment = i64::try_from(ms)
        .ok()
        .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    moment
        .unwrap_or_default()
        .strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00")
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_even_within_one_millisecond() {
        let mut clock = Clock::default();
        let ids: Vec<Id> = (0..1000).map(|_| clock.fresh_id()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn an_id_tells_the_real_time_although_the_world_was_moved() {
        let mut clock = Clock::default();
        clock.advance(Duration::from_secs(7200));
        let id = clock.fresh_id();
        assert!(made_at_ms(id).abs_diff(wall_ms()) < 60_000);
        assert!(clock.now_ms() - wall_ms() >= 7_100_000);
    }

    #[test]
    fn a_moment_is_written_as_discord_writes_it() {
        assert_eq!(
            rfc3339(1_700_000_000_123),
            "2023-11-14T22:13:20.123000+00:00"
        );
    }
}
