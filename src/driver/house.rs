//! What all parts of the driver share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::rules::AgentRules;
use crate::domain::ids::Slug;
use crate::domain::project::Catalogue;
use crate::domain::rules::Rules;
use crate::domain::time::Moment;
use crate::domain::turn_record::Stage;
use crate::meter::Prices;
use crate::present::secrets::scrub;
use crate::store::Store;
use crate::turn::facts::Secrets;

use super::hub::Hub;
use super::live_message::Crowd;
use super::newest::Newest;
use super::ports::Ports;
use super::produced::Produced;
use super::provider::Provider;
use super::skills::Skills;
use super::slots::Slots;
use super::turn_directory::{Run, TurnDirectory};

/// The whole house, built once by `app`.
#[derive(Debug)]
pub struct House {
    /// The world outside.
    pub ports: Ports,
    /// Everything that survives.
    pub store: Store,
    /// The configured rules.
    pub rules: Arc<Rules>,
    /// The configured projects.
    pub catalogue: Arc<Catalogue>,
    /// How agents are run.
    pub agent: AgentRules,
    /// Where the sandbox's accounts keep a scratch workspace, with `{chat}` for the chat's id.
    pub workdir: String,
    /// Whether a chat runs as its project's account or as its owner's.
    pub account_by: AccountBy,
    /// How agents reach the model provider.
    pub provider: Provider,
    /// What tokens cost, where nobody counts them.
    pub prices: Prices,
    /// Credentials of projects for turns at `ship`.
    pub ship_env: HashMap<Slug, Vec<(String, SecretString)>>,
    /// Skills that every agent gets.
    pub skills: Skills,
    /// How long the sandbox keeps what belongs to turns and chats that are over.
    pub keep: Duration,
    /// Runs in the sandbox.
    pub turns: TurnDirectory,
    /// Finds what runs made.
    pub produced: Produced,
    /// Texts that must never be shown.
    pub secrets: Secrets,
    /// Running chats.
    pub hub: Hub,
    /// Places for running turns.
    pub slots: Slots,
    /// Live messages.
    pub crowd: Crowd,
    /// The newest roles of the authors of running turns.
    pub newest: Newest,
    /// Every task belongs to it.
    pub tracker: TaskTracker,
    /// Cancelled when the house closes: no new turns, running ones are left to the next start.
    pub cancel: CancellationToken,
}

/// The border between sandbox accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountBy {
    /// One account per project.
    Project,
    /// One account per guest.
    Guest,
}

impl House {
    /// Returns the present moment.
    pub fn now(&self) -> Moment {
        self.ports.clock.now()
    }

    /// Returns `text` without anything that must never be shown. Run over whole texts, before they are cut into pages.
    pub fn scrub(&self, text: &str) -> String {
        scrub(text, &self.secrets.0)
    }

    /// Returns whether the account of `run` has no other run that could still be going on.
    pub fn is_alone(&self, run: &Run) -> bool {
        let Ok(others) = self.store.unfinished() else {
            return false;
        };
        others.iter().filter(|record| record.id != run.turn && record.stage != Stage::Waiting).all(|record| {
            // Not known means not alone: nothing of anybody else is ever ended by mistake.
            matches!(self.store.chat(record.thread), Ok(Some(chat)) if chat.account != run.account)
        })
    }
}
