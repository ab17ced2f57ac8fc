//! The whole store as text: JSON lines, one record a line.
//!
//! Only what cannot be derived is written; indexes and sums are made anew by an import.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::ledger::Tally;
use crate::domain::turn_record::Stage;

use super::error::StoreError;
use super::ledger::total_keys;
use super::open::Store;
use super::record::{decode_value, encode, future};
use super::turns::index_key;
use super::upgrade::{VERSION, upgrade};

/// One record of a dump.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    v: u64,
    tree: String,
    key: String,
    value: Value,
}

impl Store {
    /// Writes every record as a line of JSON. Returns how many.
    ///
    /// A record that cannot be read ends the export with an error that names it.
    pub fn export(&self, mut to: impl Write) -> Result<usize, StoreError> {
        let mut count = 0;
        for table in self.inner.primary() {
            for pair in table.tree() {
                let (key, bytes) = pair?;
                table.examine(&key, &bytes)?;
                let line = Line {
                    v: u64::from(VERSION),
                    tree: table.name().to_owned(),
                    key: String::from_utf8_lossy(&key).into_owned(),
                    value: decode_value(table.name(), &key, &bytes)?,
                };
                serde_json::to_writer(&mut to, &line).map_err(std::io::Error::from)?;
                to.write_all(b"\n")?;
                count += 1;
            }
        }
        to.flush()?;
        Ok(count)
    }

    /// Makes a store at `path` from an export; there must be none, or an empty one. Returns the number of records.
    ///
    /// After an error the place is as empty as it was. An import that is killed leaves a store that does not open.
    pub fn import(path: &Path, from: impl BufRead) -> Result<usize, StoreError> {
        let store = Store::open_unmarked(path)?;
        if !store.is_empty() {
            return Err(StoreError::NotEmpty(path.to_owned()));
        }
        store.unmark()?;
        let taken = store.take_lines(from).and_then(|count| {
            store.derive()?;
            Ok(count)
        });
        if taken.is_err() {
            store.clear()?;
        }
        store.mark()?;
        taken
    }

    fn take_lines(&self, from: impl BufRead) -> Result<usize, StoreError> {
        let mut count = 0;
        for (index, line) in from.lines().enumerate() {
            let line = line?;
            if line.trim().is_empty() {
                continue;
            }
            self.take_line(index + 1, &line)?;
            count += 1;
        }
        Ok(count)
    }

    fn take_line(&self, number: usize, line: &str) -> Result<(), StoreError> {
        let wrong = |why: String| StoreError::Line { line: number, why };
        let line: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let version = u8::try_from(line.v)
            .ok()
            .filter(|version| *version <= VERSION)
            .ok_or_else(|| future(format!("line {number}"), line.v))?;
        let tables = self.inner.primary();
        let table = tables
            .iter()
            .find(|table| table.name() == line.tree)
            .ok_or_else(|| wrong(format!("there is no tree {:?}", line.tree)))?;
        let value = upgrade(table.name(), version, line.value)
            .ok_or_else(|| wrong(format!("there never was a version {version}")))?;
        let bytes = encode(table.name(), &value)?;
        table
            .examine(line.key.as_bytes(), &bytes)
            .map_err(|error| wrong(error.to_string()))?;
        match table.tree().insert(&line.key, bytes)? {
            None => Ok(()),
            Some(_) => Err(wrong(format!("{:?} is there twice", line.key))),
        }
    }

    /// Makes indexes and sums from the records.
    fn derive(&self) -> Result<(), StoreError> {
        for turn in self.inner.turns.values("")? {
            if turn.stage != Stage::Done {
                self.inner.unfinished.put(&index_key(&turn), &())?;
            }
        }
        for (key, tally) in self.sums()? {
            self.inner.totals.put(&key, &tally)?;
        }
        Ok(())
    }

    /// Returns what the totals must be, from holds and ledger.
    pub(super) fn sums(&self) -> Result<BTreeMap<String, Tally>, StoreError> {
        let mut sums: BTreeMap<String, Tally> = BTreeMap::new();
        for entry in self.inner.ledger.values("")? {
            for key in total_keys(entry.member, &entry.project, entry.month) {
                let sum = sums.entry(key).or_default();
                sum.spent = sum.spent + entry.cost;
            }
        }
        for hold in self.inner.holds.values("")? {
            for key in total_keys(hold.member, &hold.project, hold.month) {
                let sum = sums.entry(key).or_default();
                sum.held = sum.held + hold.amount;
            }
        }
        Ok(sums)
    }

    fn clear(&self) -> Result<(), StoreError> {
        for table in self.inner.primary().into_iter().chain(self.inner.derived()) {
            table.tree().clear()?;
        }
        Ok(())
    }
}
