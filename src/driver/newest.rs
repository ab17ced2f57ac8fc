//! The newest roles of the authors of running turns: read from the platform at a turn's start and every minute after.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;

use crate::domain::guest::Person;
use crate::domain::ids::{GuildId, RoleId, TurnId};
use crate::domain::turn_record::{Stage, TurnRecord};
use crate::store::StoreError;

use super::house::House;

/// How long the platform may take to tell somebody's roles.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of the authors of running turns beyond what their requests carried.
#[derive(Clone, Debug, Default)]
pub struct Newest(Arc<Mutex<HashMap<TurnId, Option<Vec<RoleId>>>>>);

impl Newest {
    /// Returns the author of a turn with the newest roles known; `None`: they left the server.
    pub fn of(&self, record: &TurnRecord) -> Option<Person> {
        let author = &record.request.author;
        match self.lock().get(&record.id) {
            None => Some(author.clone()),
            Some(None) => None,
            Some(Some(roles)) => Some(Person {
                roles: roles.clone(),
                ..author.clone()
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TurnId, Option<Vec<RoleId>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a person with the roles held now; `None`: they left the server. While the platform does not tell, what the
/// request carried counts: it is asked again within a minute.
pub async fn person(house: &House, guild: GuildId, person: &Person) -> Option<Person> {
    let asked = house.ports.surface.roles(guild, person.member);
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(roles)) => roles.map(|roles| Person {
            roles,
            ..person.clone()
        }),
        Ok(Err(error)) => {
            tracing::warn!(member = %person.member, %error, "somebody's roles cannot be read");
            Some(person.clone())
        }
        Err(_) => {
            tracing::warn!(member = %person.member, "somebody's roles cannot be read in time");
            Some(person.clone())
        }
    }
}

/// Reads the roles of the authors of all running turns.
pub async fn read_again(house: &House) -> Result<(), StoreError> {
    let mut running = house.store.unfinished()?;
    running.retain(|record| matches!(record.stage, Stage::Held | Stage::Started));
    let read = join_all(running.iter().map(|record| read_one(house, record))).await;
    *house.newest.lock() = read.into_iter().flatten().collect();
    Ok(())
}

async fn read_one(house: &House, record: &TurnRecord) -> Option<(TurnId, Option<Vec<RoleId>>)> {
    let chat = match house.store.chat(record.thread) {
        Ok(chat) => chat?,
        Err(error) => {
            tracing::error!(turn = %record.id, %error, "could not read a turn's chat");
            return None;
        }
    };
    let now = person(house, chat.guild, &record.request.author).await;
    Some((record.id, now.map(|person| person.roles)))
}
