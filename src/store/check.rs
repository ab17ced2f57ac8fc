//! Whether everything in the store fits together.

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::ledger::Tally;
use crate::domain::money::Usd;
use crate::domain::turn_record::{Stage, TurnRecord};

use super::accounts::{for_key, id_key};
use super::error::StoreError;
use super::open::Store;
use super::turns::index_key;

impl Store {
    /// Examines all records and how they fit together. Returns a sentence for each fault; none is good.
    pub fn check(&self) -> Vec<String> {
        let unreadable = self.check_records();
        if !unreadable.is_empty() {
            // Whatever rests on them would only repeat the fault.
            return unreadable;
        }
        let parts = [
            self.check_totals(),
            self.check_turns(),
            self.check_holds(),
            self.check_accounts(),
        ];
        parts
            .into_iter()
            .flat_map(|part| part.unwrap_or_else(|error| vec![error.to_string()]))
            .collect()
    }

    fn check_records(&self) -> Vec<String> {
        let tables = self.inner.primary().into_iter().chain(self.inner.derived());
        tables
            .flat_map(|table| {
                table.tree().iter().filter_map(|pair| {
                    pair.map_err(StoreError::from)
                        .and_then(|(key, bytes)| table.examine(&key, &bytes))
                        .err()
                        .map(|error| error.to_string())
                })
            })
            .collect()
    }

    fn check_totals(&self) -> Result<Vec<String>, StoreError> {
        let right = self.sums()?;
        let mut kept = BTreeMap::new();
        for pair in self.inner.totals.under("") {
            let (key, tally) = pair?;
            kept.insert(key, tally);
        }
        let keys: BTreeSet<&String> = right.keys().chain(kept.keys()).collect();
        Ok(keys
            .into_iter()
            .filter_map(|key| {
                let (right, kept) = (sum_of(&right, key), sum_of(&kept, key));
                (right != kept).then(|| {
                    format!(
                        "the total {key} says {} spent and {} held, but ledger and holds say {} and {}",
                        kept.spent, kept.held, right.spent, right.held
                    )
                })
            })
            .collect())
    }

    fn check_turns(&self) -> Result<Vec<String>, StoreError> {
        let mut faults = Vec::new();
        let mut index = BTreeSet::new();
        for turn in self.inner.turns.values("")? {
            if self.chat(turn.thread)?.is_none() {
                faults.push(format!(
                    "turn {} belongs to the chat {}, which is missing",
                    turn.id, turn.thread
                ));
            }
            if turn.stage != Stage::Done {
                index.insert(index_key(&turn));
            }
            faults.extend(self.check_money_of(&turn)?);
        }
        let mut kept = BTreeSet::new();
        for pair in self.inner.unfinished.under("") {
            kept.insert(pair?.0);
        }
        faults.extend(index.symmetric_difference(&kept).map(|key| {
            format!("the index of unfinished turns and the turns disagree about {key}")
        }));
        Ok(faults)
    }

    fn check_money_of(&self, turn: &TurnRecord) -> Result<Option<String>, StoreError> {
        let held = self.held(turn.id)?.is_some();
        let booked = self.entry(turn.id)?;
        Ok(match &turn.stage {
            Stage::Held | Stage::Started if !held && booked.is_none() => Some(format!(
                "turn {} runs, but no money is held for it",
                turn.id
            )),
            Stage::Settled { cost, .. }
                if booked.map_or(Usd::ZERO, |entry| entry.cost) != *cost =>
            {
                Some(format!(
                    "turn {} cost {cost}, but the ledger says otherwise",
                    turn.id
                ))
            }
            _ => None,
        })
    }

    fn check_holds(&self) -> Result<Vec<String>, StoreError> {
        let mut faults = Vec::new();
        for hold in self.holds()? {
            let turn = self.turn(hold.turn)?;
            if turn.is_none_or(|turn| turn.stage == Stage::Done) {
                faults.push(format!(
                    "{} is held for turn {}, which is not unfinished",
                    hold.amount, hold.turn
                ));
            }
            if self.entry(hold.turn)?.is_some() {
                faults.push(format!(
                    "turn {} is settled and still holds money",
                    hold.turn
                ));
            }
        }
        Ok(faults)
    }

    fn check_accounts(&self) -> Result<Vec<String>, StoreError> {
        let mut faults = Vec::new();
        for pair in self.inner.accounts.under("") {
            let (key, value) = pair?;
            let (other, wanted) = match key.split_once('/') {
                Some(("for", kind)) => (id_key(&value), kind.to_owned()),
                Some((_, name)) => (for_key(&value), name.to_owned()),
                None => (String::new(), String::new()),
            };
            if self.inner.accounts.get(&other)?.as_ref() != Some(&wanted) {
                faults.push(format!(
                    "the account record {key} has no counterpart {other}"
                ));
            }
        }
        Ok(faults)
    }
}

fn sum_of(sums: &BTreeMap<String, Tally>, key: &str) -> Tally {
    sums.get(key).copied().unwrap_or_default()
}
