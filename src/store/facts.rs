//! Single facts about the house that must survive, by name.

use super::error::StoreError;
use super::open::Store;

impl Store {
    /// Returns the fact of that name.
    pub fn fact(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.inner.facts.get(name)
    }

    /// Keeps a fact.
    pub fn put_fact(&self, name: &str, value: &str) -> Result<(), StoreError> {
        self.inner.facts.put(name, &value.to_owned())
    }
}
