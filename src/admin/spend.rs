//! `/usage` and `/spend`: the month in numbers and as a picture.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::domain::budget::budget_of;
use crate::domain::guest::Person;
use crate::domain::ids::{MemberId, Slug};
use crate::domain::ledger::Entry;
use crate::domain::money::Usd;
use crate::domain::time::Month;
use crate::driver::inbound::Reply;
use crate::driver::ports::Upload;
use crate::present::office::{self as say, MonthOfUse};
use crate::present::office_chart::{self, Days};
use crate::present::office_people::{self as words, Spent};
use crate::store::{EntryFilter, StoreError};

use super::office::{Office, answered};

impl Office {
    /// Tells a person what they used this month.
    pub fn usage(&self, person: &Person) -> Reply {
        answered(self.used_by(person))
    }

    fn used_by(&self, person: &Person) -> Result<Reply, StoreError> {
        let known = self.known(person)?;
        let month = self.month();
        let entries = self.store.entries(&EntryFilter {
            month: Some(month),
            member: Some(person.member),
            project: None,
        })?;
        let text = say::usage(&MonthOfUse {
            month,
            projects: &self.store.spent_by_project(person.member, month)?,
            total: self.store.guest_total(person.member, month)?,
            estimated: entries.iter().any(|entry| entry.estimated),
            budget: budget_of(&self.facts(person, &known)),
            resets: month.ends_at(&self.rules.zone),
        });
        Ok(self.with_picture(text, month, &entries))
    }

    /// Tells admins what everybody used.
    pub(super) fn spend(
        &self,
        member: Option<MemberId>,
        project: Option<&str>,
        month: Option<&str>,
    ) -> Result<Reply, StoreError> {
        let month = match month.map(str::parse::<Month>) {
            None => self.month(),
            Some(Ok(month)) => month,
            Some(Err(wrong)) => return Ok(Reply::from(words::no_month(&wrong.0))),
        };
        // A project that left the catalogue was paid for all the same.
        let project = match project.map(|name| name.trim().to_lowercase().parse::<Slug>()) {
            None => None,
            Some(Ok(slug)) => Some(slug),
            Some(Err(wrong)) => return Ok(Reply::from(words::no_slug(&wrong.0))),
        };
        let entries = self.store.entries(&EntryFilter {
            month: Some(month),
            member,
            project: project.clone(),
        })?;
        let held = self.store.holds()?.into_iter().filter(|hold| {
            hold.month == month
                && member.is_none_or(|member| hold.member == member)
                && project.as_ref().is_none_or(|slug| hold.project == *slug)
        });
        let text = words::spent(&Spent {
            month,
            total: entries.iter().map(|entry| entry.cost).sum(),
            estimated: entries.iter().any(|entry| entry.estimated),
            held: held.map(|hold| hold.amount).sum(),
            turns: entries.len(),
            guests: &sums(&entries, |entry| entry.member),
            projects: &sums(&entries, |entry| entry.project.clone()),
        });
        Ok(self.with_picture(text, month, &entries))
    }

    /// Hangs the month's picture on a text, if there is anything to be seen. A picture that fails is left out.
    fn with_picture(&self, text: String, month: Month, entries: &[Entry]) -> Reply {
        let mut reply = Reply::from(text);
        if entries.iter().all(|entry| entry.cost == Usd::ZERO) {
            return reply;
        }
        match office_chart::png(&self.by_day(month, entries)) {
            Ok(bytes) => reply.files.push(Upload {
                name: format!("usage-{month}.png"),
                bytes: Bytes::from(bytes),
            }),
            Err(error) => tracing::error!(%error, "the month could not be drawn"),
        }
        reply
    }

    fn by_day(&self, month: Month, entries: &[Entry]) -> Days {
        let mut projects: BTreeMap<String, Vec<Usd>> = BTreeMap::new();
        for entry in entries {
            let days = projects
                .entry(entry.project.to_string())
                .or_insert_with(|| vec![Usd::ZERO; usize::from(month.days())]);
            let day = usize::from(month.day_of(entry.at, &self.rules.zone)) - 1;
            if let Some(sum) = days.get_mut(day) {
                *sum = *sum + entry.cost;
            }
        }
        Days {
            month,
            projects: projects.into_iter().collect(),
        }
    }
}

/// Returns the sums by one side of the entries, the largest first.
fn sums<K: Ord>(entries: &[Entry], side: impl Fn(&Entry) -> K) -> Vec<(K, Usd)> {
    let mut sums: BTreeMap<K, Usd> = BTreeMap::new();
    for entry in entries {
        let sum = sums.entry(side(entry)).or_default();
        *sum = *sum + entry.cost;
    }
    let mut sums: Vec<(K, Usd)> = sums.into_iter().collect();
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(*sum));
    sums
}
