//! Requests that are no turns yet: they wait for their authors to say which project they are about, or to be shown.

use crate::domain::ids::TurnId;
use crate::domain::request::Undecided;
use crate::domain::time::Moment;

use super::error::StoreError;
use super::open::Store;
use super::table::id_key;

impl Store {
    /// Returns a request that is no turn yet.
    pub fn undecided(&self, turn: TurnId) -> Result<Option<Undecided>, StoreError> {
        self.inner.undecided.get(&id_key(turn.0))
    }

    /// Keeps a request that is no turn yet.
    pub fn put_undecided(&self, undecided: &Undecided) -> Result<(), StoreError> {
        self.inner
            .undecided
            .put(&id_key(undecided.turn.0), undecided)
    }

    /// Forgets a request that is a turn now, or never will be. Returns whether it was there: of two callers, one has it.
    pub fn forget_undecided(&self, turn: TurnId) -> Result<bool, StoreError> {
        self.inner.undecided.remove(&id_key(turn.0))
    }

    /// Returns the requests by command that were to be shown and are no turns yet.
    pub fn unshown(&self) -> Result<Vec<Undecided>, StoreError> {
        let mut all = self.inner.undecided.values("")?;
        all.retain(|undecided| undecided.project.is_some());
        Ok(all)
    }

    /// Forgets all requests that have waited for their project since before this moment.
    pub fn forget_undecided_before(&self, before: Moment) -> Result<(), StoreError> {
        for undecided in self.inner.undecided.values("")? {
            if undecided.at < before && undecided.project.is_none() {
                self.forget_undecided(undecided.turn)?;
            }
        }
        Ok(())
    }
}
