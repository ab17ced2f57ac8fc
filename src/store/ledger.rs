//! Money: held before a turn, booked after it, summed by month.
//!
//! Each movement is one transaction over holds, ledger and totals, keyed by the turn. What is left is read from the
//! totals, which cost the same however long the ledger is.

use sled::Transactional;
use sled::transaction::TransactionalTree;

use crate::domain::budget::left;
use crate::domain::grant::{Permit, Refusal};
use crate::domain::ids::{MemberId, Slug, TurnId};
use crate::domain::ledger::{Entry, Hold, Tally, Usage};
use crate::domain::money::Usd;
use crate::domain::time::{Moment, Month};

use super::error::StoreError;
use super::open::{Inner, Store};
use super::record::unreadable;
use super::table::{Abort, abort, id_key};

/// Which ledger entries are wanted; `None` is any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryFilter {
    /// Paid by this month.
    pub month: Option<Month>,
    /// Paid by this guest.
    pub member: Option<MemberId>,
    /// Counted against this project.
    pub project: Option<Slug>,
}

impl EntryFilter {
    fn takes(&self, entry: &Entry) -> bool {
        self.month.is_none_or(|month| month == entry.month)
            && self.member.is_none_or(|member| member == entry.member)
            && self
                .project
                .as_ref()
                .is_none_or(|slug| *slug == entry.project)
    }
}

/// Returns the keys of the three sums that money of a member in a project counts in: guest, project, both.
pub(super) fn total_keys(member: MemberId, project: &Slug, month: Month) -> [String; 3] {
    [
        guest_key(member, month),
        project_key(project, month),
        format!("{}{project}", both_prefix(member, month)),
    ]
}

fn guest_key(member: MemberId, month: Month) -> String {
    format!("{month}/guest/{}", id_key(member.0))
}

fn project_key(project: &Slug, month: Month) -> String {
    format!("{month}/project/{project}")
}

fn both_prefix(member: MemberId, month: Month) -> String {
    format!("{month}/both/{}/", id_key(member.0))
}

/// The three trees within a transaction.
struct Books<'a> {
    inner: &'a Inner,
    holds: &'a TransactionalTree,
    ledger: &'a TransactionalTree,
    totals: &'a TransactionalTree,
}

impl Books<'_> {
    fn hold(&self, turn: TurnId) -> Result<Option<Hold>, Abort> {
        self.inner.holds.get_in(self.holds, &id_key(turn.0))
    }

    fn is_settled(&self, turn: TurnId) -> Result<bool, Abort> {
        Ok(self.ledger.get(id_key(turn.0).as_str())?.is_some())
    }

    fn tally(&self, key: &str) -> Result<Tally, Abort> {
        let tally = self.inner.totals.get_in(self.totals, key)?;
        Ok(tally.unwrap_or_default())
    }

    fn usage(&self, permit: &Permit) -> Result<Usage, Abort> {
        let [guest, project, _] = total_keys(permit.member(), permit.project(), permit.month());
        Ok(Usage {
            guest: self.tally(&guest)?,
            project: self.tally(&project)?,
        })
    }

    /// Changes the three sums that a hold counts in.
    fn change(&self, hold: &Hold, change: impl Fn(&mut Tally)) -> Result<(), Abort> {
        for key in total_keys(hold.member, &hold.project, hold.month) {
            let mut tally = self.tally(&key)?;
            change(&mut tally);
            self.inner.totals.put_in(self.totals, &key, &tally)?;
        }
        Ok(())
    }

    fn put_hold(&self, hold: &Hold) -> Result<(), Abort> {
        self.inner
            .holds
            .put_in(self.holds, &id_key(hold.turn.0), hold)?;
        self.change(hold, |tally| tally.held = tally.held + hold.amount)
    }

    /// Gives back what is held.
    fn free(&self, hold: &Hold) -> Result<(), Abort> {
        self.holds.remove(id_key(hold.turn.0).as_str())?;
        self.change(hold, |tally| tally.held = tally.held.less(hold.amount))
    }

    fn book(&self, hold: &Hold, entry: &Entry) -> Result<(), Abort> {
        let key = id_key(entry.turn.0);
        self.inner.ledger.put_in(self.ledger, &key, entry)?;
        self.change(hold, |tally| tally.spent = tally.spent + entry.cost)
    }
}

impl Store {
    /// Returns how the month stands for a guest and a project.
    pub fn usage(
        &self,
        member: MemberId,
        project: &Slug,
        month: Month,
    ) -> Result<Usage, StoreError> {
        Ok(Usage {
            guest: self.guest_total(member, month)?,
            project: self.project_total(project, month)?,
        })
    }

    /// Returns a guest's month, all projects together.
    pub fn guest_total(&self, member: MemberId, month: Month) -> Result<Tally, StoreError> {
        self.total(&guest_key(member, month))
    }

    /// Returns a project's month, all people together.
    pub fn project_total(&self, project: &Slug, month: Month) -> Result<Tally, StoreError> {
        self.total(&project_key(project, month))
    }

    fn total(&self, key: &str) -> Result<Tally, StoreError> {
        Ok(self.inner.totals.get(key)?.unwrap_or_default())
    }

    /// Holds money for a turn: the least of the permit's cap and what is left at this moment, which is returned.
    ///
    /// Concurrent holds never exceed a budget together. The hold of a turn that is asked for again stays as it is; if
    /// the same turn is now to be paid otherwise (by another month), the old hold is given back first.
    pub fn hold(
        &self,
        turn: TurnId,
        permit: &Permit,
        at: Moment,
    ) -> Result<Result<Usd, Refusal>, StoreError> {
        self.with_books(|books| {
            if books.is_settled(turn)? {
                return Err(abort(StoreError::Settled(turn)));
            }
            if let Some(old) = books.hold(turn)? {
                if is_for(&old, permit) {
                    return Ok(Ok(old.amount));
                }
                books.free(&old)?;
            }
            let usage = books.usage(permit)?;
            let budgets = (permit.guest_budget(), permit.project_budget());
            let amount = match left(permit.cap(), budgets, &usage) {
                Ok(amount) => amount,
                Err(who) => {
                    return Ok(Err(who.refusal(permit.project(), &usage, permit.resets())));
                }
            };
            books.put_hold(&Hold {
                turn,
                member: permit.member(),
                project: permit.project().clone(),
                month: permit.month(),
                amount,
                at,
            })?;
            Ok(Ok(amount))
        })
    }

    /// Books what a turn cost, in place of what is held for it. Returns whether this call did it: the second does nothing.
    ///
    /// The month that held pays, whenever the turn ends. A cost above the hold is booked in full.
    pub fn settle(
        &self,
        turn: TurnId,
        cost: Usd,
        estimated: bool,
        at: Moment,
    ) -> Result<bool, StoreError> {
        self.with_books(|books| {
            if books.is_settled(turn)? {
                return Ok(false);
            }
            let hold = books
                .hold(turn)?
                .ok_or_else(|| abort(StoreError::NoHold(turn)))?;
            books.free(&hold)?;
            let entry = Entry {
                turn,
                member: hold.member,
                project: hold.project.clone(),
                month: hold.month,
                cost,
                estimated,
                at,
            };
            books.book(&hold, &entry)?;
            Ok(true)
        })
    }

    /// Gives back what is held for a turn that never ran. Returns whether anything was held.
    pub fn release(&self, turn: TurnId) -> Result<bool, StoreError> {
        self.with_books(|books| match books.hold(turn)? {
            Some(hold) => books.free(&hold).map(|()| true),
            None => Ok(false),
        })
    }

    /// Returns what is held for a turn.
    pub fn held(&self, turn: TurnId) -> Result<Option<Hold>, StoreError> {
        self.inner.holds.get(&id_key(turn.0))
    }

    /// Returns everything that is held, so that a start can look for turns that are gone.
    pub fn holds(&self) -> Result<Vec<Hold>, StoreError> {
        self.inner.holds.values("")
    }

    /// Returns what was booked for a turn.
    pub fn entry(&self, turn: TurnId) -> Result<Option<Entry>, StoreError> {
        self.inner.ledger.get(&id_key(turn.0))
    }

    /// Returns ledger entries in the order of their turns.
    pub fn entries(&self, filter: &EntryFilter) -> Result<Vec<Entry>, StoreError> {
        let mut entries = self.inner.ledger.values("")?;
        entries.retain(|entry| filter.takes(entry));
        Ok(entries)
    }

    /// Returns a guest's month, project by project.
    pub fn spent_by_project(
        &self,
        member: MemberId,
        month: Month,
    ) -> Result<Vec<(Slug, Tally)>, StoreError> {
        let prefix = both_prefix(member, month);
        self.inner
            .totals
            .under(&prefix)
            .map(|pair| {
                let (key, tally) = pair?;
                let slug = key
                    .strip_prefix(&prefix)
                    .unwrap_or_default()
                    .parse()
                    .map_err(|error| unreadable("totals", key.as_bytes(), error))?;
                Ok((slug, tally))
            })
            .collect()
    }

    fn with_books<R>(
        &self,
        action: impl Fn(&Books<'_>) -> Result<R, Abort>,
    ) -> Result<R, StoreError> {
        let inner = &*self.inner;
        (&inner.holds.tree, &inner.ledger.tree, &inner.totals.tree)
            .transaction(|(holds, ledger, totals)| {
                action(&Books {
                    inner,
                    holds,
                    ledger,
                    totals,
                })
            })
            .map_err(|error| inner.ledger.ended(error))
    }
}

/// Returns whether a hold is what this permit would be held for.
fn is_for(hold: &Hold, permit: &Permit) -> bool {
    hold.member == permit.member()
        && hold.project == *permit.project()
        && hold.month == permit.month()
}
