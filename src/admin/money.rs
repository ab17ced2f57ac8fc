//! `/me`, and the budgets of guests and projects.

use crate::domain::budget::budget_of;
use crate::domain::guest::Person;
use crate::domain::ids::{MemberId, Slug};
use crate::domain::model::families_of;
use crate::domain::money::Usd;
use crate::present::office::{self as say, Me, Rank};
use crate::present::office_people as words;
use crate::store::StoreError;

use super::office::{Office, told};

/// The largest budget that can be set, in dollars.
const MOST_DOLLARS: f64 = 1_000_000.0;

impl Office {
    /// Tells a person what they may do, what is left this month, and why they were refused last.
    pub fn me(&self, person: &Person) -> String {
        told(self.about(person))
    }

    /// Sets what a guest may spend each month, in dollars; 0 is nothing at all, `None` what is configured.
    pub async fn set_budget(&self, by: &Person, member: MemberId, dollars: Option<f64>) -> String {
        if !self.is_admin(by) {
            return say::admins_only();
        }
        let changed = match amount(dollars) {
            Ok(amount) => self.change_budget(by, member, amount),
            Err(text) => return text,
        };
        match changed {
            Ok(text) => self.saved(text).await,
            Err(error) => told(Err(error)),
        }
    }

    /// Sets what guests together may spend in a project each month, in dollars; `None` is what is configured.
    pub async fn set_project_budget(
        &self,
        by: &Person,
        project: &str,
        dollars: Option<f64>,
    ) -> String {
        if !self.is_admin(by) {
            return say::admins_only();
        }
        let (project, amount) = match (self.project_named(project), amount(dollars)) {
            (Ok(project), Ok(amount)) => (project, amount),
            (Err(text), _) | (_, Err(text)) => return text,
        };
        match self.change_project_budget(by, &project, amount) {
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
        amount: Option<Usd>,
    ) -> Result<String, StoreError> {
        let guest = self.store.guest(member)?;
        self.note(
            by,
            format!("budget member {member}"),
            guest.budget.map(|budget| budget.to_string()),
            amount.map(|amount| amount.to_string()),
        )?;
        let configured = self.rules.limits.budget;
        let before = guest.budget;
        self.store
            .revise_guest(member, |guest| guest.budget = amount)?;
        Ok(match amount {
            Some(amount) => say::budget_set(member, before, amount),
            None => words::budget_as_configured(member, before, configured),
        })
    }

    fn change_project_budget(
        &self,
        by: &Person,
        project: &Slug,
        amount: Option<Usd>,
    ) -> Result<String, StoreError> {
        let configured = self.catalogue.get(project).and_then(|it| it.budget);
        let set = self.store.project_budgets()?;
        let before = set.into_iter().find(|(slug, _)| slug == project);
        let before = before.map(|(_, budget)| budget);
        self.note(
            by,
            format!("budget project {project}"),
            before.map(|budget| budget.to_string()),
            amount.map(|amount| amount.to_string()),
        )?;
        self.store.set_project_budget(project, amount)?;
        Ok(words::project_budget_set(
            project,
            before.or(configured),
            amount.or(configured),
        ))
    }
}

/// Returns the amount that is meant, or what is said to one that cannot be.
fn amount(dollars: Option<f64>) -> Result<Option<Usd>, String> {
    match dollars {
        Some(dollars) if !(0.0..=MOST_DOLLARS).contains(&dollars) => Err(say::unknown_amount()),
        dollars => Ok(dollars.map(Usd::from_dollars)),
    }
}
