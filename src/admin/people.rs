//! `/projects` and `/guest`.

use crate::domain::budget::{budget_of, level_of, visible_projects};
use crate::domain::grant::Level;
use crate::domain::guest::Person;
use crate::domain::ids::MemberId;
use crate::domain::model::{choose, families_of};
use crate::present::office_people::{self as words, AboutGuest, ProjectLine};
use crate::store::StoreError;

use super::office::{Office, told};

/// Families that one guest can be given.
const MOST_FAMILIES: usize = 10;

/// Characters of one family's name.
const LONGEST_FAMILY: usize = 60;

impl Office {
    /// Lists the projects that a person may see, and how their month stands.
    pub(super) fn projects(&self, by: &Person) -> Result<String, StoreError> {
        let known = self.known(by)?;
        let facts = self.facts(by, &known);
        let budgets = self.catalogue.with_budgets(&self.store.project_budgets()?);
        let mut lines = Vec::new();
        for project in visible_projects(&facts) {
            lines.push(ProjectLine {
                slug: &project.slug,
                title: &project.title,
                level: level_of(&facts, &project.slug).unwrap_or(Level::View),
                spent: self.store.project_total(&project.slug, self.month())?.spent,
                budget: budgets.get(&project.slug).and_then(|it| it.budget),
            });
        }
        Ok(words::projects(&lines))
    }

    /// Tells admins what is kept about a guest. Grants of roles are not among it: roles are known when somebody speaks.
    pub(super) fn guest(&self, member: MemberId) -> Result<String, StoreError> {
        let person = Person {
            member,
            name: String::new(),
            roles: Vec::new(),
        };
        let known = self.known(&person)?;
        let month = self.month();
        Ok(words::guest(&AboutGuest {
            member,
            is_owner: self.rules.is_owner(member),
            suspended: known.guest.suspended,
            grants: &known.grants,
            models: &families_of(known.guest.models.as_deref(), &self.rules.models),
            own_models: known.guest.models.is_some(),
            budget: budget_of(&self.facts(&person, &known)),
            own_budget: known.guest.budget.is_some(),
            month: self.store.guest_total(member, month)?,
            resets: month.ends_at(&self.rules.zone),
            last_refusal: self.store.last_refusal(member)?.as_ref(),
            now: self.now(),
        }))
    }

    /// Suspends a guest or lets them in again.
    pub(super) async fn suspend(&self, by: &Person, member: MemberId, suspended: bool) -> String {
        if self.rules.is_owner(member) {
            return words::owners_stay();
        }
        let state = |suspended: bool| if suspended { "suspended" } else { "active" };
        let what = if suspended { "suspend" } else { "restore" };
        let changed = self.store.guest(member).and_then(|guest| {
            let before = guest.suspended;
            if before == suspended {
                return Ok(words::nothing_changed(member, state(before)));
            }
            self.note(
                by,
                format!("{what} member {member}"),
                Some(state(before).to_owned()),
                Some(state(suspended).to_owned()),
            )?;
            self.store
                .revise_guest(member, |guest| guest.suspended = suspended)?;
            Ok(words::suspended(member, suspended))
        });
        match changed {
            Ok(text) => self.saved(text).await,
            Err(error) => told(Err(error)),
        }
    }

    /// Sets the families that a guest may use; `None`, or a blank: the configured ones.
    pub(super) async fn set_models(
        &self,
        by: &Person,
        member: MemberId,
        models: Option<&str>,
    ) -> String {
        let models = match families(models.unwrap_or_default()) {
            Ok(models) => models,
            Err(wrong) => return words::no_family(&wrong),
        };
        let known = &self.rules.families;
        let is_unknown = |name: &&String| choose(Some(name), known).is_none();
        if let Some(wrong) = models.iter().flatten().find(is_unknown) {
            return words::unknown_family(wrong, known);
        }
        let changed = self.store.guest(member).and_then(|guest| {
            let before = guest.models.clone();
            self.note(
                by,
                format!("models member {member}"),
                before.as_ref().map(|models| models.join(" ")),
                models.as_ref().map(|models| models.join(" ")),
            )?;
            let text = words::models_set(
                member,
                &families_of(before.as_deref(), &self.rules.models),
                &families_of(models.as_deref(), &self.rules.models),
            );
            self.store
                .revise_guest(member, |guest| guest.models.clone_from(&models))?;
            Ok(text)
        });
        match changed {
            Ok(text) => self.saved(text).await,
            Err(error) => told(Err(error)),
        }
    }
}

/// Returns the families that a text names, each once; nothing for a blank one; or what can be none.
fn families(text: &str) -> Result<Option<Vec<String>>, String> {
    let mut families: Vec<String> = Vec::new();
    for name in text.split([' ', ',', ';']).filter(|name| !name.is_empty()) {
        let name = name.to_ascii_lowercase();
        let fits = name.len() <= LONGEST_FAMILY
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        if !fits || families.len() == MOST_FAMILIES {
            return Err(name);
        }
        if !families.contains(&name) {
            families.push(name);
        }
    }
    Ok((!families.is_empty()).then_some(families))
}
