//! A whole house in memory, under a clock that the test moves; only the store is real, in a temporary folder.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::rules::AgentRules;
use crate::domain::grant::{Level, Subject};
use crate::domain::guest::Guest;
use crate::domain::ids::{ChannelId, MemberId, MessageId, ThreadId, TurnId};
use crate::domain::project::Catalogue;
use crate::domain::rules::Rules;
use crate::domain::samples::{ADA, GUILD, grant, person, project, rules, usd};
use crate::domain::time::Moment;
use crate::domain::turn_record::TurnRecord;
use crate::domain::venue::{Place, PlaceKind};
use crate::meter::Prices;
use crate::store::Store;
use crate::turn::facts::Secrets;

use super::super::clock::{Clock, TokioClock};
use super::super::desk::Desk;
use super::super::house::{AccountBy, House};
use super::super::hub::Hub;
use super::super::inbound::{Inbound, InboundMessage};
use super::super::live_message::Crowd;
use super::super::newest::Newest;
use super::super::ports::Ports;
use super::super::produced::Produced;
use super::super::provider::Provider;
use super::super::slots::Slots;
use super::super::turn_directory::TurnDirectory;
use super::{FakeSandbox, FakeSurface};

/// The channel in which people ask.
pub(in crate::driver) const DATA: ChannelId = ChannelId(600);

/// A house with its surface and its sandbox.
#[derive(Debug)]
pub(in crate::driver) struct Lodge {
    pub(in crate::driver) house: Arc<House>,
    pub(in crate::driver) desk: Desk,
    pub(in crate::driver) surface: FakeSurface,
    pub(in crate::driver) sandbox: FakeSandbox,
    clock: Arc<dyn Clock>,
    folder: Arc<tempfile::TempDir>,
    serial: u64,
}

impl Lodge {
    /// Opens a house in which Ada holds `chat` on `site` and five dollars a month.
    pub(in crate::driver) async fn open() -> Lodge {
        Lodge::with(rules()).await
    }

    /// Opens it under other rules.
    pub(in crate::driver) async fn with(rules: Rules) -> Lodge {
        Lodge::kept(rules, AccountBy::Project, agent()).await
    }

    /// Opens it with an account for each guest, and without confinement where it is not needed.
    pub(in crate::driver) async fn by_guest() -> Lodge {
        let agent = AgentRules {
            confine: false,
            ..agent()
        };
        Lodge::kept(rules(), AccountBy::Guest, agent).await
    }

    async fn kept(rules: Rules, account_by: AccountBy, agent: AgentRules) -> Lodge {
        let clock: Arc<dyn Clock> = Arc::new(TokioClock::starting_at(Moment(1_800_000_000_000)));
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let store = Store::open(&folder.path().join("store")).expect("a store");
        store
            .put_guest(&Guest {
                budget: Some(usd(5.0)),
                ..Guest::new(ADA)
            })
            .expect("a guest");
        store
            .give(&grant(Subject::Member(ADA), "site", Level::Chat, None))
            .expect("a grant");
        let (surface, sandbox) = (FakeSurface::new(clock.clone()), FakeSandbox::new());
        let kept = (account_by, agent);
        Lodge::build(rules, kept, store, surface, sandbox, clock, folder)
    }

    fn build(
        rules: Rules,
        (account_by, agent): (AccountBy, AgentRules),
        store: Store,
        surface: FakeSurface,
        sandbox: FakeSandbox,
        clock: Arc<dyn Clock>,
        folder: Arc<tempfile::TempDir>,
    ) -> Lodge {
        let port: Arc<dyn crate::sandbox::Sandbox> = Arc::new(sandbox.clone());
        let house = Arc::new(House {
            ports: Ports {
                surface: Arc::new(surface.clone()),
                sandbox: port.clone(),
                clock: clock.clone(),
            },
            store,
            slots: Slots::new(rules.limits.running, rules.limits.running_per_guest),
            rules: Arc::new(rules),
            catalogue: Arc::new(Catalogue(vec![project("site")])),
            agent,
            workdir: "~/chat-{chat}".to_owned(),
            account_by,
            provider: Provider::Own,
            prices: Prices::default(),
            ship_env: std::collections::HashMap::new(),
            skills: super::super::skills::Skills::default(),
            keep: std::time::Duration::from_secs(30 * 24 * 60 * 60),
            turns: TurnDirectory::new(port.clone()),
            produced: Produced::new(port),
            secrets: Secrets(vec!["very-secret-key".to_owned()]),
            hub: Hub::default(),
            crowd: Crowd::default(),
            newest: Newest::default(),
            tracker: TaskTracker::new(),
            cancel: CancellationToken::new(),
        });
        Lodge {
            desk: Desk::new(house.clone()),
            house,
            surface,
            sandbox,
            clock,
            folder,
            serial: 0,
        }
    }

    /// Closes the house in order and opens it anew over the same store, surface and sandbox.
    pub(in crate::driver) async fn reopen(self) -> Lodge {
        self.house.cancel.cancel();
        self.house.tracker.close();
        self.house.tracker.wait().await;
        let rules = (*self.house.rules).clone();
        let store = self.house.store.clone();
        let kept = (self.house.account_by, self.house.agent.clone());
        let mut lodge = Lodge::build(
            rules,
            kept,
            store,
            self.surface,
            self.sandbox,
            self.clock,
            self.folder,
        );
        lodge.serial = self.serial;
        lodge.desk.pick_up().expect("the store reads");
        lodge
    }

    /// Ada mentions the bot in the channel.
    pub(in crate::driver) async fn asks(&mut self, text: &str) -> TurnId {
        let message = self.message(ADA, text, None);
        let id = message.id;
        self.desk.inbound(Inbound::Message(message)).await;
        TurnId(id.0)
    }

    /// Somebody writes in a chat's thread without a mention.
    pub(in crate::driver) async fn says(
        &mut self,
        member: MemberId,
        thread: TurnId,
        text: &str,
    ) -> TurnId {
        let mut message = self.message(member, text, Some(ThreadId(thread.0)));
        message.addressed = false;
        let id = message.id;
        self.desk.inbound(Inbound::Message(message)).await;
        TurnId(id.0)
    }

    /// Returns a message as the platform would report it now.
    pub(in crate::driver) fn message(
        &mut self,
        by: MemberId,
        text: &str,
        thread: Option<ThreadId>,
    ) -> InboundMessage {
        self.serial += 1;
        InboundMessage {
            id: MessageId(MessageId::at(self.house.now()).0 + 1000 + self.serial),
            place: match thread {
                None => Place {
                    guild: GUILD,
                    channel: DATA,
                    parent: None,
                    kind: PlaceKind::Text,
                },
                Some(thread) => Place {
                    guild: GUILD,
                    channel: thread.channel(),
                    parent: Some(DATA),
                    kind: PlaceKind::Thread,
                },
            },
            author: person(by, &[]),
            text: text.to_owned(),
            addressed: true,
            for_others: false,
            withheld: false,
            attachments: Vec::new(),
            quotes: Vec::new(),
            described: Vec::new(),
        }
    }

    /// Returns a turn's record.
    pub(in crate::driver) fn turn(&self, turn: TurnId) -> Option<TurnRecord> {
        self.house.store.turn(turn).expect("the store reads")
    }
}

fn agent() -> AgentRules {
    AgentRules {
        command: "claude".to_owned(),
        tools: vec!["Bash".to_owned()],
        max_turns: 30,
        confine: true,
        questions: true,
        deny_read: Vec::new(),
        system_prompt: None,
        env: Vec::new(),
    }
}
