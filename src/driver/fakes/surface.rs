//! In-memory ports for the driver's tests: a surface that remembers what was said, and can be told to fail.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::rules::AgentRules;
use crate::domain::ids::{ChannelId, GuildId, MemberId, MessageId, RoleId, ThreadId};
use crate::domain::project::Catalogue;
use crate::domain::request::Attachment;
use crate::domain::rules::Rules;
use crate::domain::time::Moment;
use crate::meter::Prices;
use crate::sandbox::Sandbox;
use crate::sandbox::local::{Local, LocalOptions};
use crate::store::Store;
use crate::turn::facts::Secrets;

use super::super::clock::Clock;
use super::super::house::{AccountBy, House};
use super::super::hub::Hub;
use super::super::inbound::InboundMessage;
use super::super::live_message::Crowd;
use super::super::newest::Newest;
use super::super::ports::{Nonce, Ours, Ports, Post, Surface, SurfaceError};
use super::super::produced::Produced;
use super::super::provider::Provider;
use super::super::slots::Slots;
use super::super::turn_directory::TurnDirectory;

/// How long is waited for something, on the test's clock.
const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// One thing that the surface was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Thread {
        message: MessageId,
        name: String,
    },
    Post {
        channel: ChannelId,
        id: MessageId,
        post: Post,
        nonce: String,
    },
    Edit {
        message: MessageId,
        post: Post,
    },
    Delete {
        message: MessageId,
    },
}

#[derive(Debug)]
struct Memory {
    said: Vec<Said>,
    failures: VecDeque<(&'static str, SurfaceError)>,
    /// Verbs whose next call panics.
    broken: Vec<&'static str>,
    /// Posts that will arrive without their answers.
    losses: usize,
    /// How much of what was said is so old that its nonces are forgotten.
    forgotten: usize,
    /// Verbs that wait.
    held: HashSet<&'static str>,
    serial: u64,
    roles: HashMap<MemberId, Option<Vec<RoleId>>>,
}

/// A surface in memory. Message ids are made from the clock, as Discord makes them.
#[derive(Clone, Debug)]
pub(crate) struct FakeSurface {
    memory: Arc<Mutex<Memory>>,
    changed: watch::Sender<u64>,
    clock: Arc<dyn Clock>,
}

impl FakeSurface {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> FakeSurface {
        let memory = Memory {
            said: Vec::new(),
            failures: VecDeque::new(),
            broken: Vec::new(),
            losses: 0,
            forgotten: 0,
            held: HashSet::new(),
            serial: 0,
            roles: HashMap::new(),
        };
        FakeSurface {
            memory: Arc::new(Mutex::new(memory)),
            changed: watch::Sender::new(0),
            clock,
        }
    }

    /// Lets the next call of `verb` (`open_thread`, `post`, `edit`, `delete`) fail so.
    pub(crate) fn fails(&self, verb: &'static str, error: SurfaceError) {
        self.lock().failures.push_back((verb, error));
    }

    /// Lets the next call of `verb` panic.
    pub(crate) fn breaks(&self, verb: &'static str) {
        self.lock().broken.push(verb);
    }

    /// Lets the next post arrive and its answer be lost.
    pub(crate) fn loses_an_answer(&self) {
        self.lock().losses += 1;
    }

    /// Returns whether something is still to fail.
    pub(crate) fn has_failures(&self) -> bool {
        let memory = self.lock();
        memory.losses > 0 || !memory.failures.is_empty()
    }

    /// Forgets all nonces, as the platform does after some minutes.
    pub(crate) fn forgets_nonces(&self) {
        let mut memory = self.lock();
        memory.forgotten = memory.said.len();
    }

    /// Lets calls of `verb` (`roles`, `fetch`) wait until [`FakeSurface::lets_go`].
    pub(crate) fn holds(&self, verb: &'static str) {
        self.lock().held.insert(verb);
    }

    pub(crate) fn lets_go(&self, verb: &'static str) {
        self.lock().held.remove(verb);
        self.changed.send_modify(|count| *count += 1);
    }

    async fn pass(&self, verb: &'static str) {
        let mut changes = self.changed.subscribe();
        while self.lock().held.contains(verb) {
            changes.changed().await.expect("the surface lives");
        }
    }

    /// Lets a member have these roles from now on; `None`: they left the server.
    pub(crate) fn gives_roles(&self, member: MemberId, roles: Option<Vec<RoleId>>) {
        self.lock().roles.insert(member, roles);
    }

    pub(crate) fn said(&self) -> Vec<Said> {
        self.lock().said.clone()
    }

    /// Waits until what was said fits, for a day of the test's clock.
    pub(crate) async fn until(&self, fits: impl Fn(&[Said]) -> bool) -> Vec<Said> {
        let mut changes = self.changed.subscribe();
        let fitting = async {
            loop {
                let said = self.said();
                if fits(&said) {
                    return said;
                }
                changes.changed().await.expect("the surface lives");
            }
        };
        match tokio::time::timeout(DAY, fitting).await {
            Ok(said) => said,
            Err(_) => panic!("it was never said; what was: {:#?}", self.said()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failure(&self, verb: &str) -> Option<SurfaceError> {
        let mut memory = self.lock();
        if let Some(at) = memory.broken.iter().position(|broken| *broken == verb) {
            memory.broken.remove(at);
            panic!("{verb} is broken");
        }
        let at = memory
            .failures
            .iter()
            .position(|(failing, _)| *failing == verb)?;
        let (_, error) = memory.failures.remove(at)?;
        drop(memory);
        self.changed.send_modify(|count| *count += 1);
        Some(error)
    }

    fn note(&self, said: Said) {
        self.lock().said.push(said);
        self.changed.send_modify(|count| *count += 1);
    }

    fn next_id(&self) -> MessageId {
        let mut memory = self.lock();
        memory.serial += 1;
        let Moment(now) = self.clock.now();
        MessageId(
            (u64::try_from(now - 1_420_070_400_000).expect("after 2015") << 22) + memory.serial,
        )
    }
}

#[async_trait]
impl Surface for FakeSurface {
    async fn open_thread(
        &self,
        _: ChannelId,
        message: MessageId,
        name: &str,
    ) -> Result<ThreadId, SurfaceError> {
        if let Some(error) = self.failure("open_thread") {
            return Err(error);
        }
        self.note(Said::Thread {
            message,
            name: name.to_owned(),
        });
        Ok(ThreadId(message.0))
    }

    async fn post(
        &self,
        channel: ChannelId,
        post: Post,
        nonce: Nonce,
    ) -> Result<MessageId, SurfaceError> {
        if let Some(error) = self.failure("post") {
            return Err(error);
        }
        let forgotten = self.lock().forgotten;
        let remembered = self.said().into_iter().skip(forgotten);
        let known = remembered.into_iter().find_map(|said| match said {
            Said::Post { id, nonce: old, .. } if old == nonce.0 => Some(id),
            _ => None,
        });
        if let Some(id) = known {
            return Ok(id);
        }
        let id = self.next_id();
        self.note(Said::Post {
            channel,
            id,
            post,
            nonce: nonce.0,
        });
        let losses = self.lock().losses;
        self.lock().losses = losses.saturating_sub(1);
        match losses {
            0 => Ok(id),
            _ => Err(SurfaceError::Away("its answer was lost".to_owned())),
        }
    }

    async fn ours_after(
        &self,
        channel: ChannelId,
        after: MessageId,
    ) -> Result<Vec<Ours>, SurfaceError> {
        if let Some(error) = self.failure("ours_after") {
            return Err(error);
        }
        let said = self.said().into_iter().filter_map(|said| match said {
            Said::Post {
                channel: at,
                id,
                post,
                ..
            } if at == channel && id > after => Some(Ours {
                id,
                reply_to: post.reply_to,
                text: post.text,
                silent: post.silent,
                buttons: post
                    .menu
                    .iter()
                    .map(|menu| menu.choice.id())
                    .chain(post.buttons.iter().map(|button| button.id()))
                    .collect(),
            }),
            _ => None,
        });
        Ok(said.collect())
    }

    async fn missed(&self, _: MessageId) -> Vec<InboundMessage> {
        Vec::new()
    }

    async fn edit(&self, _: ChannelId, message: MessageId, post: Post) -> Result<(), SurfaceError> {
        if let Some(error) = self.failure("edit") {
            return Err(error);
        }
        self.note(Said::Edit { message, post });
        Ok(())
    }

    async fn delete(&self, _: ChannelId, message: MessageId) -> Result<(), SurfaceError> {
        if let Some(error) = self.failure("delete") {
            return Err(error);
        }
        self.note(Said::Delete { message });
        Ok(())
    }

    fn react(&self, _: ChannelId, _: MessageId, _: &'static str) {
        let _ = self.failure("react");
    }

    fn unreact(&self, _: ChannelId, _: MessageId, _: &'static str) {}

    fn file_limit(&self, _: GuildId) -> u64 {
        10 * 1024 * 1024
    }

    async fn fetch(
        &self,
        _: ChannelId,
        attachment: &Attachment,
        _: u64,
    ) -> Result<Bytes, SurfaceError> {
        self.pass("fetch").await;
        match self.failure("fetch") {
            Some(error) => Err(error),
            None => Ok(Bytes::from(attachment.name.clone())),
        }
    }

    async fn roles(
        &self,
        _: GuildId,
        member: MemberId,
    ) -> Result<Option<Vec<RoleId>>, SurfaceError> {
        self.pass("roles").await;
        if let Some(error) = self.failure("roles") {
            return Err(error);
        }
        let known = self.lock().roles.get(&member).cloned();
        Ok(known.unwrap_or(Some(Vec::new())))
    }
}

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
            clock: surface.clock.clone(),
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
        prices: Prices::default(),
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
