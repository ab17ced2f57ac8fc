//! Turns, and an index of those that are not done, so that old ones cost nothing.

use sled::Transactional;

use crate::domain::ids::{ThreadId, TurnId};
use crate::domain::turn_record::{Stage, TurnRecord};

use super::error::StoreError;
use super::open::Store;
use super::record::unreadable;
use super::table::id_key;

/// Returns the key of a turn in the index.
pub(super) fn index_key(turn: &TurnRecord) -> String {
    format!("{}/{}", id_key(turn.thread.0), id_key(turn.id.0))
}

impl Store {
    /// Returns the record of a turn.
    pub fn turn(&self, turn: TurnId) -> Result<Option<TurnRecord>, StoreError> {
        self.inner.turns.get(&id_key(turn.0))
    }

    /// Keeps a turn, whole or not at all.
    pub fn put_turn(&self, turn: &TurnRecord) -> Result<(), StoreError> {
        self.put_turns(std::slice::from_ref(turn))
    }

    /// Keeps several turns, all or none.
    pub fn put_turns(&self, all: &[TurnRecord]) -> Result<(), StoreError> {
        let (turns, unfinished) = (&self.inner.turns, &self.inner.unfinished);
        (&turns.tree, &unfinished.tree)
            .transaction(|(turns_tx, unfinished_tx)| {
                for turn in all {
                    turns.put_in(turns_tx, &id_key(turn.id.0), turn)?;
                    if turn.stage == Stage::Done {
                        unfinished_tx.remove(index_key(turn).as_str())?;
                    } else {
                        unfinished.put_in(unfinished_tx, &index_key(turn), &())?;
                    }
                }
                Ok(())
            })
            .map_err(|error| turns.ended(error))
    }

    /// Returns the newest turn of a chat, done or not. Newer turns of other chats are passed over, so an old chat costs more.
    pub fn newest_turn(&self, thread: ThreadId) -> Result<Option<TurnRecord>, StoreError> {
        for pair in self.inner.turns.under("").rev() {
            let (_, turn) = pair?;
            if turn.thread == thread {
                return Ok(Some(turn));
            }
        }
        Ok(None)
    }

    /// Returns the turns that wait in a chat, in the order in which they were asked for.
    pub fn waiting(&self, thread: ThreadId) -> Result<Vec<TurnRecord>, StoreError> {
        let mut turns = self.unfinished_under(&format!("{}/", id_key(thread.0)))?;
        turns.retain(|turn| turn.stage == Stage::Waiting);
        Ok(turns)
    }

    /// Returns the turns of a chat that are not done, in the order in which they were asked for.
    pub fn open_turns(&self, thread: ThreadId) -> Result<Vec<TurnRecord>, StoreError> {
        self.unfinished_under(&format!("{}/", id_key(thread.0)))
    }

    /// Changes a turn that waits; one that does not wait any more stays as it is. Returns what is now kept, if it was changed.
    pub fn revise_waiting(
        &self,
        turn: TurnId,
        change: impl Fn(&mut TurnRecord),
    ) -> Result<Option<TurnRecord>, StoreError> {
        let (turns, unfinished) = (&self.inner.turns, &self.inner.unfinished);
        (&turns.tree, &unfinished.tree)
            .transaction(|(turns_tx, unfinished_tx)| {
                let found = turns.get_in(turns_tx, &id_key(turn.0))?;
                let Some(mut record) = found.filter(|record| record.stage == Stage::Waiting) else {
                    return Ok(None);
                };
                change(&mut record);
                turns.put_in(turns_tx, &id_key(turn.0), &record)?;
                if record.stage == Stage::Done {
                    unfinished_tx.remove(index_key(&record).as_str())?;
                }
                Ok(Some(record))
            })
            .map_err(|error| turns.ended(error))
    }

    /// Returns all turns that are not done, by chat and in the order in which they were asked for.
    pub fn unfinished(&self) -> Result<Vec<TurnRecord>, StoreError> {
        self.unfinished_under("")
    }

    fn unfinished_under(&self, prefix: &str) -> Result<Vec<TurnRecord>, StoreError> {
        let mut turns = Vec::new();
        for pair in self.inner.unfinished.under(prefix) {
            let (key, ()) = pair?;
            let turn = key.split_once('/').map_or(key.as_str(), |(_, turn)| turn);
            // Index and turn are written together, so a turn that is missing was lost.
            let record = self
                .inner
                .turns
                .get(turn)?
                .ok_or_else(|| unreadable("turns", turn.as_bytes(), "it is missing"))?;
            turns.push(record);
        }
        Ok(turns)
    }
}
