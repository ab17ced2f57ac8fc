//! What the meter counted for turns that are not done.

use crate::domain::ids::TurnId;
use crate::domain::ledger::Counted;

use super::error::StoreError;
use super::open::Store;
use super::table::id_key;

impl Store {
    /// Returns what the meter counted for a turn.
    pub fn counted(&self, turn: TurnId) -> Result<Option<Counted>, StoreError> {
        self.inner.counts.get(&id_key(turn.0))
    }

    /// Keeps what the meter counted for a turn.
    pub fn put_counted(&self, counted: &Counted) -> Result<(), StoreError> {
        self.inner.counts.put(&id_key(counted.turn.0), counted)
    }

    /// Forgets what the meter counted for a turn: the ledger has it.
    pub fn forget_counted(&self, turn: TurnId) -> Result<(), StoreError> {
        self.inner.counts.remove(&id_key(turn.0)).map(drop)
    }
}
