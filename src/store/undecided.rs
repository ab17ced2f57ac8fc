//! Requests that wait until their authors have said which project they are about.

use crate::domain::ids::TurnId;
use crate::domain::request::Undecided;
use crate::domain::time::Moment;

use super::error::StoreError;
use super::open::Store;
use super::table::id_key;

impl Store {
    /// Returns a request that waits for its project.
    pub fn undecided(&self, turn: TurnId) -> Result<Option<Undecided>, StoreError> {
        self.inner.undecided.get(&id_key(turn.0))
    }

    /// Keeps a request that waits for its project.
    pub fn put_undecided(&self, undecided: &Undecided) -> Result<(), StoreError> {
        self.inner
            .undecided
            .put(&id_key(undecided.turn.0), undecided)
    }

    /// Forgets a request that waited for its project. Returns whether it was there: of two callers, one has it.
    pub fn forget_undecided(&self, turn: TurnId) -> Result<bool, StoreError> {
        self.inner.undecided.remove(&id_key(turn.0))
    }

    /// Forgets all requests that have waited since before this moment.
    pub fn forget_undecided_before(&self, before: Moment) -> Result<(), StoreError> {
        for undecided in self.inner.undecided.values("")? {
            if undecided.at < before {
                self.forget_undecided(undecided.turn)?;
            }
        }
        Ok(())
    }
}
