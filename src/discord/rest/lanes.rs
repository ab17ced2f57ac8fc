//! One queue for each channel, server and the bot itself: one call in flight, and none before its limit allows it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::call::Major;

/// Lanes above which those that nothing waits in are looked for.
const TIDY_ABOVE: usize = 256;

/// The longest wait for a limit that may not be the call's own.
const SHARED_WAIT: Duration = Duration::from_secs(10);

/// All queues. Those that are idle are dropped, so that their number follows the work and not the years.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    lanes: Mutex<HashMap<Major, Arc<Lane>>>,
    /// Discord's name of the limit that a call falls under, learned from its answers: calls that share one wait for it together.
    buckets: Mutex<HashMap<&'static str, String>>,
}

/// One queue.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Held while a call is on the wire.
    pub(super) flight: tokio::sync::Mutex<()>,
    turns: Mutex<HashMap<&'static str, Arc<tokio::sync::Mutex<()>>>>,
    ready: Mutex<HashMap<String, Instant>>,
}

impl Lane {
    /// Returns what calls of one name stand in line for, so that they keep their order while a limit lasts without
    /// holding up calls that fall under other limits (renaming a thread may have to wait for ten minutes).
    pub(super) fn turn(&self, name: &'static str) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(turns.entry(name).or_default())
    }

    fn is_resting(&self, now: Instant) -> bool {
        let ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.values().all(|at| *at <= now)
    }
}

/// A call's place in a queue. The last one who leaves takes the queue away, unless a limit has to be remembered.
#[derive(Debug)]
pub(super) struct Standing<'a> {
    lanes: &'a Lanes,
    major: Major,
    pub(super) lane: Arc<Lane>,
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        let lanes = &self.lanes.lanes;
        let mut lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
        // Two: the map's and this one.
        if Arc::strong_count(&self.lane) == 2 && self.lane.is_resting(Instant::now()) {
            lanes.remove(&self.major);
        }
    }
}

impl Lanes {
    /// Goes and stands in the queue of `major`, until what is returned is dropped.
    pub(super) fn enter(&self, major: Major) -> Standing<'_> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() >= TIDY_ABOVE && !lanes.contains_key(&major) {
            let now = Instant::now();
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1 || !lane.is_resting(now));
        }
        Standing {
            lanes: self,
            major,
            lane: Arc::clone(lanes.entry(major).or_default()),
        }
    }

    /// Returns how many calls stand in the queue of `major`.
    pub(super) fn waiting(&self, major: Major) -> usize {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes
            .get(&major)
            .map_or(0, |lane| Arc::strong_count(lane) - 1)
    }

    /// Returns when a call of this name may leave. As long as nothing is known of its limit, it may share any of those
    /// that are used up, and waits for them, unless that would take long.
    pub(super) fn ready_at(&self, lane: &Lane, name: &'static str) -> Option<Instant> {
        let key = self.key(name);
        let is_known = key != name;
        let ready = lane.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let own = ready.get(&key).copied();
        if is_known {
            return own;
        }
        let soon = Instant::now() + SHARED_WAIT;
        let shared = ready.values().copied().filter(|at| *at <= soon);
        shared.chain(own).max()
    }

    /// Remembers which limit a call of this name falls under.
    pub(super) fn learn(&self, name: &'static str, bucket: &str) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.get(name).is_none_or(|known| known != bucket) {
            buckets.insert(name, bucket.to_owned());
        }
    }

    /// Lets no call under the limit of this name leave before `until`.
    pub(super) fn hold(&self, lane: &Lane, name: &'static str, until: Instant) {
        let key = self.key(name);
        let mut ready = lane.ready.lock().unwrap_or_else(PoisonError::into_inner);
        ready.insert(key, until);
    }

    fn key(&self, name: &'static str) -> String {
        let buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets
            .get(name)
            .cloned()
            .unwrap_or_else(|| name.to_owned())
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lanes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }
}
