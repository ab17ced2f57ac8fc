//! Requests that wait until their authors have said which project they are about.

use crate::domain::ids::TurnId;
use crate::domain::request::Pending;
use crate::domain::time::Moment;

use super::error::StoreError;
use super::open::Store;
use super::table::id_key;

impl Store {
    /// Returns a request that waits for its project.
    pub fn pending(&self, turn: TurnId) -> Result<Option<Pending>, StoreError> {
        self.inner.pending.get(&id_key(turn.0))
    }

    /// Keeps a request that waits for its project.
    pub fn put_pending(&self, pending: &Pending) -> Result<(), StoreError> {
        self.inner.pending.put(&id_key(pending.turn.0), pending)
    }

    /// Forgets a request that waited for its project. Returns whether it was there: of two callers, one has it.
    pub fn forget_pending(&self, turn: TurnId) -> Result<bool, StoreError> {
        Ok(self.inner.pending.tree.remove(id_key(turn.0))?.is_some())
    }

    /// Forgets all requests that have waited since before this moment.
    pub fn forget_pending_before(&self, before: Moment) -> Result<(), StoreError> {
        for pending in self.inner.pending.values("")? {
            if pending.at < before {
                self.forget_pending(pending.turn)?;
            }
        }
        Ok(())
    }
}
