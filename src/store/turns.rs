//! Turns, and an index of those that are not done, so that old ones cost nothing.

use sled::Transactional;
use sled::transaction::TransactionalTree;

use crate::domain::ids::{MemberId, ThreadId, TurnId};
use crate::domain::turn_record::{Stage, TurnRecord};

use super::error::StoreError;
use super::open::Store;
use super::record::unreadable;
use super::table::{Abort, Table, id_key};

/// Returns the key of a turn in the index.
pub(super) fn index_key(turn: &TurnRecord) -> String {
    format!("{}/{}", id_key(turn.thread.0), id_key(turn.id.0))
}

/// Turns and their index within a transaction.
struct Trees<'a> {
    turns: &'a Table<TurnRecord>,
    turns_tx: &'a TransactionalTree,
    unfinished: &'a Table<()>,
    unfinished_tx: &'a TransactionalTree,
}

impl Trees<'_> {
    fn get(&self, turn: TurnId) -> Result<Option<TurnRecord>, Abort> {
        self.turns.get_in(self.turns_tx, &id_key(turn.0))
    }

    fn put(&self, turn: &TurnRecord) -> Result<(), Abort> {
        let wished = self.get(turn.id)?.and_then(|kept| kept.stopped_by);
        let turn = &TurnRecord {
            stopped_by: turn.stopped_by.or(wished),
            ..turn.clone()
        };
        self.turns.put_in(self.turns_tx, &id_key(turn.id.0), turn)?;
        let index = index_key(turn);
        match turn.stage {
            Stage::Done => drop(self.unfinished_tx.remove(index.as_str())?),
            _ => self.unfinished.put_in(self.unfinished_tx, &index, &())?,
        }
        Ok(())
    }
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

    /// Keeps several turns, all or none. That somebody wants one stopped is never forgotten by this: whoever works on a turn
    /// may not know it yet.
    pub fn put_turns(&self, all: &[TurnRecord]) -> Result<(), StoreError> {
        self.with_turns(|trees| all.iter().try_for_each(|turn| trees.put(turn)))
    }

    /// Keeps `after` if the turns in the store are still those of `before`; else nothing is changed. Returns whether they were
    /// kept.
    pub fn replace_turns(
        &self,
        before: &[TurnRecord],
        after: &[TurnRecord],
    ) -> Result<bool, StoreError> {
        self.with_turns(|trees| {
            for turn in before {
                if trees.get(turn.id)?.as_ref() != Some(turn) {
                    return Ok(false);
                }
            }
            after.iter().try_for_each(|turn| trees.put(turn))?;
            Ok(true)
        })
    }

    /// Notes that somebody wants a turn stopped, whatever else happens to its record meanwhile. One that waits unseen is done at
    /// once. Returns what is now kept; `None`: there is nothing to be stopped any more.
    pub fn wish_stop(&self, turn: TurnId, by: MemberId) -> Result<Option<TurnRecord>, StoreError> {
        self.with_turns(|trees| {
            let Some(mut record) = trees.get(turn)? else {
                return Ok(None);
            };
            match record.stage {
                Stage::Settled { .. } | Stage::Done => return Ok(None),
                Stage::Waiting if !record.shown => record.stage = Stage::Done,
                Stage::Waiting | Stage::Held | Stage::Started => {}
            }
            record.stopped_by.get_or_insert(by);
            trees.put(&record)?;
            Ok(Some(record))
        })
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
        self.with_turns(|trees| {
            let found = trees.get(turn)?;
            let Some(mut record) = found.filter(|record| record.stage == Stage::Waiting) else {
                return Ok(None);
            };
            change(&mut record);
            trees.put(&record)?;
            Ok(Some(record))
        })
    }

    /// Changes turns and their index together.
    fn with_turns<T>(
        &self,
        change: impl Fn(&Trees<'_>) -> Result<T, Abort>,
    ) -> Result<T, StoreError> {
        let (turns, unfinished) = (&self.inner.turns, &self.inner.unfinished);
        (&turns.tree, &unfinished.tree)
            .transaction(|(turns_tx, unfinished_tx)| {
                change(&Trees {
                    turns,
                    turns_tx,
                    unfinished,
                    unfinished_tx,
                })
            })
            .map_err(|error| turns.ended(error))
    }

    /// Takes the right to try a turn again that is done; of two callers, one gets it.
    pub fn take_retry(&self, turn: TurnId) -> Result<Option<TurnRecord>, StoreError> {
        let (turns, key) = (&self.inner.turns, id_key(turn.0));
        turns
            .tree
            .transaction(|tx| -> Result<Option<TurnRecord>, Abort> {
                let found = turns.get_in(tx, &key)?;
                let may = |record: &TurnRecord| record.retry && record.stage == Stage::Done;
                let Some(mut record) = found.filter(may) else {
                    return Ok(None);
                };
                record.retry = false;
                turns.put_in(tx, &key, &record)?;
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
