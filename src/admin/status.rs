//! `/status`, `/pause`, `/resume`, `/audit`.

use std::time::Duration;

use crate::domain::guest::Person;
use crate::domain::ids::GuildId;
use crate::domain::turn_record::Stage;
use crate::present::office_people::{self as words, Status, Wellness};
use crate::sandbox::Confinement;
use crate::store::StoreError;

use super::office::{Office, told};

/// How long each part may take to tell how it is.
const PATIENCE: Duration = Duration::from_secs(8);

/// Entries of the audit log that are read for one message.
const ENTRIES: usize = 40;

/// Code points that are kept of a reason.
const REASON: usize = 300;

impl Office {
    /// Tells admins how the house is.
    pub(super) async fn status(&self, by: &Person, guild: GuildId) -> String {
        let (discord, sandbox) = tokio::join!(self.discord(by, guild), self.sandbox());
        told(self.counted(discord, sandbox))
    }

    fn counted(&self, discord: Wellness, sandbox: Wellness) -> Result<String, StoreError> {
        let open = self.store.unfinished()?;
        let waiting = open.iter().filter(|turn| turn.stage == Stage::Waiting);
        let waiting = waiting.count();
        Ok(words::status(&Status {
            running: open.len() - waiting,
            waiting,
            most_running: self.rules.limits.running,
            paused: self.store.paused()?.as_deref(),
            discord,
            sandbox,
            version: env!("CARGO_PKG_VERSION"),
            store_bytes: self.store.size()?,
        }))
    }

    async fn discord(&self, by: &Person, guild: GuildId) -> Wellness {
        let began = self.now();
        match tokio::time::timeout(PATIENCE, self.house.ports.surface.roles(guild, by.member)).await
        {
            Ok(Ok(_)) => Wellness::Well(Some(self.now().since(began))),
            Ok(Err(error)) => Wellness::Unwell(error.to_string()),
            Err(_) => Wellness::Unwell("it does not answer in time".to_owned()),
        }
    }

    /// Asks the sandbox about the account of the newest chat: to ask about none would make one.
    async fn sandbox(&self) -> Wellness {
        let account = match self.store.chats() {
            Ok(chats) => chats.last().map(|chat| chat.account.clone()),
            Err(error) => {
                tracing::error!(%error, "could not read the chats");
                return Wellness::Unwell("my records cannot be read".to_owned());
            }
        };
        let Some(account) = account else {
            return Wellness::Unused;
        };
        let began = self.now();
        match tokio::time::timeout(PATIENCE, self.sandbox.probe(&account)).await {
            Ok(Ok(probe)) => match probe.confinement {
                Confinement::Works => Wellness::Well(Some(self.now().since(began))),
                Confinement::Missing(why) => {
                    Wellness::Unwell(format!("commands cannot be confined: {why}"))
                }
            },
            Ok(Err(error)) => Wellness::Unwell(error.to_string()),
            Err(_) => Wellness::Unwell("it does not answer in time".to_owned()),
        }
    }

    /// Pauses new turns for a reason, or lets them start again.
    pub(super) async fn pause(&self, by: &Person, why: Option<&str>) -> String {
        let why: Option<String> = why.map(|why| why.chars().take(REASON).collect());
        let state = |why: Option<&String>| why.map(|why| format!("paused: {why}"));
        let changed = self.store.paused().and_then(|before| {
            let what = if why.is_some() { "pause" } else { "resume" };
            self.note(
                by,
                what.to_owned(),
                state(before.as_ref()),
                state(why.as_ref()),
            )?;
            self.store.pause(why.as_deref())?;
            Ok(words::paused(why.as_deref(), before.is_some()))
        });
        match changed {
            Ok(text) => self.saved(text).await,
            Err(error) => told(Err(error)),
        }
    }

    /// Tells admins what admins did, newest first.
    pub(super) fn audit(&self) -> Result<String, StoreError> {
        Ok(words::audit(&self.store.audits(ENTRIES)?))
    }
}
