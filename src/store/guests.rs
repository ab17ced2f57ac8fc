//! What is kept about people.

use crate::domain::audit::LastRefusal;
use crate::domain::guest::Guest;
use crate::domain::ids::MemberId;
use crate::domain::time::Moment;

use super::error::StoreError;
use super::open::Store;
use super::table::{Abort, id_key};

impl Store {
    /// Returns what is kept about a person, which for a new one is nothing.
    pub fn guest(&self, member: MemberId) -> Result<Guest, StoreError> {
        let kept = self.inner.guests.get(&id_key(member.0))?;
        Ok(kept.unwrap_or_else(|| Guest::new(member)))
    }

    /// Keeps this about a person.
    pub fn put_guest(&self, guest: &Guest) -> Result<(), StoreError> {
        self.inner.guests.put(&id_key(guest.member.0), guest)
    }

    /// Changes what is kept about a person, and nothing else of it.
    pub fn revise_guest(
        &self,
        member: MemberId,
        change: impl Fn(&mut Guest),
    ) -> Result<(), StoreError> {
        let guests = &self.inner.guests;
        let key = id_key(member.0);
        guests
            .tree
            .transaction(|tx| -> Result<(), Abort> {
                let kept = guests.get_in(tx, &key)?;
                let mut guest = kept.unwrap_or_else(|| Guest::new(member));
                change(&mut guest);
                guests.put_in(tx, &key, &guest)
            })
            .map_err(|error| guests.ended(error))
    }

    /// Returns everybody about whom something is kept.
    pub fn guests(&self) -> Result<Vec<Guest>, StoreError> {
        self.inner.guests.values("")
    }

    /// Remembers what somebody was refused, in place of what was remembered before.
    pub fn note_refusal(&self, member: MemberId, text: &str, at: Moment) -> Result<(), StoreError> {
        let text = text.to_owned();
        self.inner
            .refusals
            .put(&id_key(member.0), &LastRefusal { text, at })
    }

    /// Returns what somebody was refused last.
    pub fn last_refusal(&self, member: MemberId) -> Result<Option<LastRefusal>, StoreError> {
        self.inner.refusals.get(&id_key(member.0))
    }
}
