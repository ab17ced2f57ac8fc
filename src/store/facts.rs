//! Single facts about the house that must survive, by name.

use crate::domain::ids::Slug;
use crate::domain::money::Usd;

use super::error::StoreError;
use super::open::Store;
use super::record::unreadable;

/// The fact that tells why new turns are paused.
const PAUSED: &str = "paused";

/// What the names of facts about projects' budgets begin with.
const BUDGET: &str = "budget/";

impl Store {
    /// Returns the fact of that name.
    pub fn fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.inner.facts.get(name)
    }

    /// Keeps a fact.
    pub fn put_fact(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.inner.facts.put(name, &value.to_owned())
    }

    /// Returns why new turns are paused; `None` if they are not.
    pub fn paused(&self) -> Result<Option<String>, StoreError> {
        self.fact(PAUSED)
    }

    /// Pauses new turns for a reason, or lets them run again.
    pub fn pause(&self, why: Option<&str>) -> Result<(), StoreError> {
        match why {
            Some(why) => self.put_fact(PAUSED, why),
            None => self.forget_fact(PAUSED),
        }
    }

    /// Returns the monthly budgets of projects that were set by command, which count instead of the configured ones.
    pub fn project_budgets(&self) -> Result<Vec<(Slug, Usd)>, StoreError> {
        self.inner
            .facts
            .under(BUDGET)
            .map(|pair| {
                let (key, amount) = pair?;
                let slug = key.strip_prefix(BUDGET).unwrap_or_default().parse();
                match (slug, amount.parse()) {
                    (Ok(slug), Ok(amount)) => Ok((slug, Usd(amount))),
                    _ => Err(unreadable("facts", key.as_bytes(), "it is no budget")),
                }
            })
            .collect()
    }

    /// Sets a project's monthly budget; `None`: the configured one counts again.
    pub fn set_project_budget(
        &self,
        project: &Slug,
        budget: Option<Usd>,
    ) -> Result<(), StoreError> {
        let name = format!("{BUDGET}{project}");
        match budget {
            Some(budget) => self.put_fact(&name, &budget.0.to_string()),
            None => self.forget_fact(&name),
        }
    }

    fn forget_fact(&self, name: &str) -> Result<(), StoreError> {
        self.inner.facts.remove(name).map(drop)
    }
}
