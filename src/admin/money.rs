//! `/me`, `/usage`, and the budget of a guest.

use crate::domain::budget::budget_of;
use crate::domain::guest::{Guest, Person};
use crate::domain::ids::MemberId;
use crate::domain::model::families_of;
use crate::domain::money::Usd;
use crate::present::office::{self as say, Me, MonthOfUse, Rank};
use crate::store::StoreError;

use super::office::{Office, told};

/// The largest budget that can be set, in dollars.
const MOST_DOLLARS: f64 = 1_000_000.0;

impl Office {
    /// Tells a person what they may do, what is left this month, and why they were refused last.
    pub fn me(&self, person: &Person) -> String {
        told(self.about(person))
    }

    /// Tells a person what they used this month.
    pub fn usage(&self, person: &Person) -> String {
        told(self.used_by(person))
    }

    /// Sets what a guest may spend each month, in dollars; 0 is nothing at all.
    pub async fn set_budget(&self, by: &Person, member: MemberId, dollars: f64) -> String {
        if !self.is_admin(by) {
            return say::admins_only();
        }
        if !(0.0..=MOST_DOLLARS).contains(&dollars) {
            return say::unknown_amount();
        }
        match self.change_budget(by, member, Usd::from_dollars(dollars)) {
            Ok(text) => self.saved(text).await,
            Err(error) => told(Err(error)),
        }
    }

    fn about(&self, person: &Person) -> Result<String, StoreError> {
        let known = self.known(person)?;
        let month = self.month();
        let last_refusal = self.store.last_refusal(person.member)?;
        Ok(say::me(&Me {
            rank: self.rank_of(person),
            suspended: known.guest.suspended,
            grants: &known.grants,
            models: &families_of(known.guest.models.as_deref(), &self.rules.models),
            budget: budget_of(&self.facts(person, &known)),
            month: self.store.guest_total(person.member, month)?,
            resets: month.ends_at(&self.rules.zone),
            last_refusal: last_refusal.as_ref(),
            now: self.now(),
        }))
    }

    fn used_by(&self, person: &Person) -> Result<String, StoreError> {
        let known = self.known(person)?;
        let month = self.month();
        Ok(say::usage(&MonthOfUse {
            month,
            projects: &self.store.spent_by_project(person.member, month)?,
            total: self.store.guest_total(person.member, month)?,
            budget: budget_of(&self.facts(person, &known)),
            resets: month.ends_at(&self.rules.zone),
        }))
    }

    fn rank_of(&self, person: &Person) -> Rank {
        if self.rules.is_owner(person.member) {
            Rank::Owner
        } else if self.is_admin(person) {
            Rank::Admin
        } else {
            Rank::Guest
        }
    }

    fn change_budget(
        &self,
        by: &Person,
        member: MemberId,
        amount: Usd,
    ) -> Result<String, StoreError> {
        let guest = self.store.guest(member)?;
        self.note(
            by,
            format!("budget member {member}"),
            guest.budget.map(|budget| budget.to_string()),
            Some(amount.to_string()),
        )?;
        let before = guest.budget;
        self.store.put_guest(&Guest {
            budget: Some(amount),
            ..guest
        })?;
        Ok(say::budget_set(member, before, amount))
    }
}
