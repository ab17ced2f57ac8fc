//! How many turns run at once: in all, and of one guest.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::ids::MemberId;

/// The places for running turns.
#[derive(Clone, Debug)]
pub struct Slots {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    all: usize,
    each: usize,
    taken: Mutex<HashMap<MemberId, usize>>,
    freed: Notify,
}

/// One place, given back when dropped.
#[derive(Debug)]
pub struct Slot {
    shared: Arc<Shared>,
    member: MemberId,
}

impl Slots {
    /// Makes `all` places, `each` of which one guest may hold.
    pub fn new(all: usize, each: usize) -> Slots {
        let shared = Shared {
            all,
            each,
            taken: Mutex::default(),
            freed: Notify::new(),
        };
        Slots {
            shared: Arc::new(shared),
        }
    }

    /// Takes a place if there is one.
    pub fn take(&self, member: MemberId) -> Option<Slot> {
        let mut taken = self.shared.lock();
        let running: usize = taken.values().sum();
        let own = taken.get(&member).copied().unwrap_or(0);
        if running >= self.shared.all || own >= self.shared.each {
            return None;
        }
        taken.insert(member, own + 1);
        Some(Slot {
            shared: self.shared.clone(),
            member,
        })
    }

    /// Waits for a place.
    pub async fn wait(&self, member: MemberId) -> Slot {
        loop {
            let freed = self.shared.freed.notified();
            tokio::pin!(freed);
            // Registered before looking, so that a place freed in between is not missed.
            freed.as_mut().enable();
            if let Some(slot) = self.take(member) {
                return slot;
            }
            freed.await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, HashMap<MemberId, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.shared.lock();
        if let Some(own) = taken.get_mut(&self.member) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.member);
            }
        }
        drop(taken);
        self.shared.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: MemberId = MemberId(1);
    const BEN: MemberId = MemberId(2);

    #[test]
    fn a_guest_holds_no_more_than_his_share() {
        let slots = Slots::new(3, 1);
        let first = slots.take(ADA);
        assert!(first.is_some());
        assert!(slots.take(ADA).is_none());
        assert!(slots.take(BEN).is_some());
        drop(first);
        assert!(slots.take(ADA).is_some());
    }

    #[test]
    fn all_together_hold_no_more_than_there_are() {
        let slots = Slots::new(1, 5);
        let _first = slots.take(ADA);
        assert!(slots.take(BEN).is_none());
    }

    #[tokio::test]
    async fn who_waits_gets_the_freed_place() {
        let slots = Slots::new(1, 1);
        let first = slots.take(ADA);
        let waiting = tokio::spawn({
            let slots = slots.clone();
            async move { slots.wait(BEN).await.member }
        });
        tokio::task::yield_now().await;
        drop(first);
        assert_eq!(waiting.await.ok(), Some(BEN));
    }
}
