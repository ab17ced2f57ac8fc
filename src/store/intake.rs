//! What was already seen and already said.

use std::time::Duration;

use crate::domain::time::Moment;

use super::error::StoreError;
use super::open::Store;
use super::table::{Abort, Table, id_key};

impl Store {
    /// Returns whether this id of a message or an interaction is seen for the first time; true only once.
    pub fn first_sight(&self, id: u64, now: Moment) -> Result<bool, StoreError> {
        let intake = &self.inner.intake;
        let (key, value) = (id_key(id), intake.encode(&now)?);
        let swapped = intake
            .tree
            .compare_and_swap(key, None::<&[u8]>, Some(value));
        Ok(intake.health.heed(swapped)?.is_ok())
    }

    /// Returns whether this id was seen.
    pub fn was_seen(&self, id: u64) -> Result<bool, StoreError> {
        Ok(self.inner.intake.tree.contains_key(id_key(id))?)
    }

    /// Returns whether something is to be said now: true at most once in `every`, for each key.
    pub fn once(&self, key: &str, now: Moment, every: Duration) -> Result<bool, StoreError> {
        let said = &self.inner.said;
        said.tree
            .transaction(|tx| -> Result<bool, Abort> {
                if said.get_in(tx, key)?.is_some_and(|until| now < until) {
                    return Ok(false);
                }
                said.put_in(tx, key, &(now + every))?;
                Ok(true)
            })
            .map_err(|error| said.ended(error))
    }

    /// Changes from when on something may be said again.
    pub fn put_once(&self, key: &str, from: Moment) -> Result<(), StoreError> {
        self.inner.said.put(key, &from)
    }

    /// Forgets ids seen before this moment, and what could have been said again before it. Returns how many.
    pub fn forget_intake_before(&self, before: Moment) -> Result<usize, StoreError> {
        Ok(forget(&self.inner.intake, before)? + forget(&self.inner.said, before)?)
    }
}

fn forget(table: &Table<Moment>, before: Moment) -> Result<usize, StoreError> {
    let mut old = sled::Batch::default();
    let mut count = 0;
    for pair in table.under("") {
        let (key, at) = pair?;
        if at < before {
            old.remove(key.as_str());
            count += 1;
        }
    }
    table.health.heed(table.tree.apply_batch(old))?;
    Ok(count)
}
