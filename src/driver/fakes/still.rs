//! A house in which nothing ever runs.

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::rules::AgentRules;
use crate::domain::project::Catalogue;
use crate::domain::rules::Rules;
use crate::sandbox::Sandbox;
use crate::sandbox::local::{Local, LocalOptions};
use crate::store::Store;
use crate::turn::facts::Secrets;

use super::super::house::{AccountBy, House};
use super::super::hub::Hub;
use super::super::live_message::Crowd;
use super::super::newest::Newest;
use super::super::ports::Ports;
use super::super::produced::Produced;
use super::super::provider::Provider;
use super::super::slots::Slots;
use super::super::turn_directory::TurnDirectory;
use super::FakeSurface;

/// Returns a house over these parts in which no turn ever gets a place to run: what is let in waits in the store.
pub(crate) fn house(
    surface: &FakeSurface,
    store: &Store,
    rules: Rules,
    catalogue: Catalogue,
    homes: &Path,
) -> Arc<House> {
    let options = LocalOptions {
        writable: Vec::new(),
        readable: Vec::new(),
    };
    let sandbox: Arc<dyn Sandbox> = Arc::new(Local::new(homes.to_owned(), options).unwrap());
    Arc::new(House {
        ports: Ports {
            surface: Arc::new(surface.clone()),
            sandbox: sandbox.clone(),
            clock: surface.clock(),
        },
        store: store.clone(),
        rules: Arc::new(rules),
        catalogue: Arc::new(catalogue),
        agent: AgentRules {
            command: "agent".to_owned(),
            tools: Vec::new(),
            max_turns: 1,
            confine: true,
            questions: false,
            deny_read: Vec::new(),
            system_prompt: None,
            env: Vec::new(),
        },
        workdir: "~/chat-{chat}".to_owned(),
        account_by: AccountBy::Project,
        provider: Provider::Own,
        ship_env: std::collections::HashMap::new(),
        skills: super::super::skills::Skills::default(),
        keep: std::time::Duration::from_secs(30 * 24 * 60 * 60),
        turns: TurnDirectory::new(sandbox.clone()),
        produced: Produced::new(sandbox),
        secrets: Secrets::default(),
        hub: Hub::default(),
        slots: Slots::new(0, 0),
        crowd: Crowd::default(),
        newest: Newest::default(),
        tracker: TaskTracker::new(),
        cancel: CancellationToken::new(),
    })
}
