//! Who sits behind the commands, and what they all share.

use std::sync::Arc;

use crate::domain::audit::AuditEntry;
use crate::domain::budget::Facts;
use crate::domain::grant::Grant;
use crate::domain::guest::{Guest, Person};
use crate::domain::project::Catalogue;
use crate::domain::rules::Rules;
use crate::domain::time::{Moment, Month};
use crate::driver::clock::Clock;
use crate::driver::house::House;
use crate::driver::inbound::Reply;
use crate::present::{notice, office as say};
use crate::sandbox::Sandbox;
use crate::store::{Store, StoreError};

/// The use cases behind commands about access and money.
#[derive(Clone, Debug)]
pub struct Office {
    /// The records.
    pub store: Store,
    /// The configured rules.
    pub rules: Arc<Rules>,
    /// The configured projects.
    pub catalogue: Arc<Catalogue>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// What people see, and the tasks that say things.
    pub house: Arc<House>,
    /// Where turns run: only asked how it is.
    pub sandbox: Arc<dyn Sandbox>,
}

/// What the store knows about a person.
pub(super) struct Known {
    pub(super) guest: Guest,
    pub(super) grants: Vec<Grant>,
}

impl Office {
    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    pub(super) fn month(&self) -> Month {
        Month::of(self.now(), &self.rules.zone)
    }

    pub(super) fn is_admin(&self, person: &Person) -> bool {
        self.rules.is_admin(person.member, &person.roles)
    }

    pub(super) fn known(&self, person: &Person) -> Result<Known, StoreError> {
        Ok(Known {
            guest: self.store.guest(person.member)?,
            grants: self.store.grants_for(person.member, &person.roles)?,
        })
    }

    pub(super) fn facts<'a>(&'a self, person: &'a Person, known: &'a Known) -> Facts<'a> {
        Facts {
            rules: &self.rules,
            catalogue: &self.catalogue,
            person,
            guest: &known.guest,
            grants: &known.grants,
            now: self.now(),
        }
    }

    /// Writes down what an admin does, before it is done: nothing can be changed unnoticed.
    pub(super) fn note(
        &self,
        by: &Person,
        what: String,
        before: Option<String>,
        after: Option<String>,
    ) -> Result<(), StoreError> {
        self.store.audit(&AuditEntry {
            at: self.now(),
            by: by.member,
            what,
            before,
            after,
        })
    }

    /// Brings a change to the disk, then gives what is to be said about it.
    pub(super) async fn saved(&self, text: String) -> String {
        match self.store.flush().await {
            Ok(()) => text,
            Err(error) => {
                tracing::error!(%error, "could not bring a change to the disk");
                say::not_saved()
            }
        }
    }
}

/// Gives what is to be said; a broken store is logged here, and never opens anything.
pub(super) fn told(text: Result<String, StoreError>) -> String {
    text.unwrap_or_else(|error| {
        tracing::error!(%error, "could not work with the store");
        notice::broken()
    })
}

/// The same for an answer that holds more than words.
pub(super) fn answered(reply: Result<Reply, StoreError>) -> Reply {
    reply.unwrap_or_else(|error| Reply::from(told(Err(error))))
}
