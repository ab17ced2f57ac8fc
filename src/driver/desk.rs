//! Where everything that people do arrives: what counts as a request is decided here, the gate is asked, and what was admitted
//! goes to its chat.
//!
//! Nothing here waits for a turn or for Discord: requests are stored and handed over, notices are said by tasks of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::domain::chat::{Chat, Listen, Opening};
use crate::domain::grant::{Level, Permit, Refusal};
use crate::domain::guest::Person;
use crate::domain::ids::{ChannelId, MemberId, MessageId, ThreadId, TurnId};
use crate::domain::request::{Quote, Request};
use crate::domain::turn_record::{Stage, TurnRecord};
use crate::domain::venue::{self, Place, PlaceKind};
use crate::present::notice;
use crate::store::StoreError;

use super::catch_up;
use super::chat_commands;
use super::claims::Claims;
use super::context::Context;
use super::details;
use super::gate;
use super::house::House;
use super::hub::Letter;
use super::inbound::{
    Inbound, InboundAsk, InboundChat, InboundMessage, InboundPress, InboundStop, Reply,
};
use super::newest;
use super::notices;
use super::ports::{Button, Choice, Nonce, Post, SurfaceError};
use super::which_project;

/// A person is told the same refusal once in this time and place.
const REFUSAL_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// How often roles and grants are looked at again for the authors of running turns (an expired one ends the turn).
const ROLES_EVERY: Duration = Duration::from_secs(60);

/// The desk.
#[derive(Clone, Debug)]
pub struct Desk {
    house: Arc<House>,
    context: Context,
    claims: Claims,
    /// How often missed messages were begun to be read.
    readings: Arc<AtomicU64>,
}

/// What a message is to us.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    /// Somebody asks for a turn.
    Request,
    /// A holder said something that is no request: quoted with the next one.
    Context,
    /// None of our business.
    Nothing,
}

impl Desk {
    /// Opens the desk of `house`.
    pub fn new(house: Arc<House>) -> Desk {
        Desk {
            house,
            context: Context::default(),
            claims: Claims::default(),
            readings: Arc::default(),
        }
    }

    /// Wakes every chat in which an earlier process left something undone.
    pub fn pick_up(&self) -> Result<usize, StoreError> {
        notices::say_the_rest(&self.house)?;
        let unfinished = self.house.store.unfinished()?;
        for record in &unfinished {
            if record.stage == Stage::Waiting {
                // Held in the last moment of an earlier process; whoever starts it holds anew.
                self.house.store.release(record.id)?;
            }
        }
        let mut threads: Vec<ThreadId> = unfinished.iter().map(|record| record.thread).collect();
        threads.sort_unstable();
        threads.dedup();
        for thread in &threads {
            self.house.hub.tell(&self.house, *thread, Letter::Look);
        }
        Ok(threads.len())
    }

    /// Takes in what the gateway reports. To be called in the order of arrival.
    pub async fn inbound(&self, inbound: Inbound) {
        let outcome = match inbound {
            Inbound::Message(message) => self.message(message).await,
            Inbound::Edited { message, text, .. } => self.edited(message, &text).await,
            Inbound::Deleted { messages, .. } => self.deleted(&messages).await,
            Inbound::Gone { channel } => self.gone(channel).await,
            Inbound::NewSession => self.catch_up(),
        };
        if let Err(error) = outcome {
            // Nothing was let in: a request that could not be stored is a request that was not taken.
            tracing::error!(%error, "could not take in what happened");
        }
    }

    async fn message(&self, message: InboundMessage) -> Result<(), StoreError> {
        let house = &self.house;
        if !venue::is_ours(&house.rules, &message.place) {
            return Ok(());
        }
        // One arrival at a time: what was missed is read again while new messages come in.
        let Some(_claim) = self.claims.take(message.id.0) else {
            return Ok(());
        };
        let age = house.now().since(message.id.made_at());
        if age > catch_up::OLDEST || self.is_known(message.id)? {
            return Ok(());
        }
        catch_up::note(house, message.id)?;
        let chat = house
            .store
            .chat(ThreadId(message.place.channel.0))?
            .filter(|chat| !chat.closed);
        let level = match &chat {
            Some(chat) => gate::level(house, &message.author, &chat.projects[0])?,
            None => None,
        };
        match meaning(&message, chat.as_ref(), level) {
            Meaning::Nothing => Ok(()),
            Meaning::Context => {
                self.context
                    .note(ThreadId(message.place.channel.0), quote(&message));
                Ok(())
            }
            Meaning::Request if catch_up::is_too_old(house, age) => self.too_old(&message).await,
            Meaning::Request => self.requested(message, chat).await,
        }
    }

    /// Returns whether something was made of this message already, in this process or an earlier one.
    fn is_known(&self, message: MessageId) -> Result<bool, StoreError> {
        Ok(self.house.store.was_seen(message.0)?
            || self.house.store.turn(TurnId(message.0))?.is_some())
    }

    /// Reads what was missed while nobody listened, beside everything else.
    fn catch_up(&self) -> Result<(), StoreError> {
        let reading = self.readings.fetch_add(1, Ordering::SeqCst) + 1;
        let after = catch_up::begin(&self.house)?;
        let desk = self.clone();
        self.house.tracker.spawn(async move {
            let missed = tokio::select! {
                () = desk.house.cancel.cancelled() => return,
                missed = desk.house.ports.surface.missed(after) => missed,
            };
            for message in missed {
                desk.inbound(Inbound::Message(message)).await;
            }
            // A newer reading began at the same place or before, and ends later.
            if desk.readings.load(Ordering::SeqCst) == reading
                && let Err(error) = catch_up::end(&desk.house)
            {
                tracing::error!(%error, "could not note what was read");
            }
        });
        Ok(())
    }

    async fn too_old(&self, message: &InboundMessage) -> Result<(), StoreError> {
        self.notice(
            message.place.channel,
            Some(message.id),
            notice::too_old(self.house.rules.limits.catch_up),
        )?;
        self.seen(message.id).await
    }

    /// Notes that everything that follows from a message is in the store, and puts it on disk.
    async fn seen(&self, message: MessageId) -> Result<(), StoreError> {
        self.house.store.first_sight(message.0, self.house.now())?;
        self.house.store.flush().await
    }

    async fn requested(
        &self,
        message: InboundMessage,
        chat: Option<Chat>,
    ) -> Result<(), StoreError> {
        let (place, id) = (message.place, message.id);
        if message.withheld {
            self.notice(place.channel, Some(id), notice::withheld())?;
            return self.seen(id).await;
        }
        let request = request_of(message);
        match self.take(request.clone(), chat, place, TurnId(id.0), None)? {
            Ok(record) => {
                self.seen(id).await?;
                self.hand_over(&record);
                Ok(())
            }
            Err(Refusal::WhichProject { choices }) => {
                which_project::ask(&self.house, request, place, TurnId(id.0), &choices)?;
                self.seen(id).await
            }
            Err(refusal) => {
                self.refuse(&request.author, place.channel, Some(id), &refusal)?;
                self.seen(id).await
            }
        }
    }

    /// Passes the gate and stores the request with its chat, or says why not. Nothing runs before that is on disk.
    fn take(
        &self,
        mut request: Request,
        chat: Option<Chat>,
        place: Place,
        turn: TurnId,
        project: Option<&str>,
    ) -> Result<Result<TurnRecord, Refusal>, StoreError> {
        let house = &self.house;
        let permit = match gate::admit(house, &request, chat.as_ref(), &place, project)? {
            Ok(permit) => permit,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if let Some(refusal) = self.does_not_fit(&request, chat.as_ref())? {
            return Ok(Err(refusal));
        }
        let chat = match chat {
            Some(chat) => chat,
            None => {
                let chat = gate::new_chat(house, &request, &place, turn, &permit)?;
                house.store.put_chat(&chat)?;
                chat
            }
        };
        request.context = self.context.take(chat.thread);
        let record = new_record(&chat, request, turn, &permit);
        house.store.put_turn(&record)?;
        Ok(Ok(record))
    }

    fn does_not_fit(
        &self,
        request: &Request,
        chat: Option<&Chat>,
    ) -> Result<Option<Refusal>, StoreError> {
        let limits = &self.house.rules.limits;
        if request.is_empty() {
            return Ok(Some(Refusal::Empty));
        }
        if let Some(refusal) = gate::too_large(request, limits.upload) {
            return Ok(Some(refusal));
        }
        let waiting = match chat {
            Some(chat) => self
                .house
                .store
                .open_turns(chat.thread)?
                .iter()
                .filter(|turn| turn.stage == Stage::Waiting)
                .count(),
            None => 0,
        };
        Ok(
            (waiting >= limits.queue_depth).then_some(Refusal::QueueFull {
                depth: limits.queue_depth,
            }),
        )
    }

    fn hand_over(&self, record: &TurnRecord) {
        let busy = self.house.hub.runs(record.thread);
        if let (true, Some(message)) = (busy, record.request.message) {
            self.house
                .ports
                .surface
                .react(record.thread.channel(), message, notice::WAITING_MARK);
        }
        self.house
            .hub
            .tell(&self.house, record.thread, Letter::Look);
    }

    /// Says why a request was refused: each reason once a day to each person in each place, unless they ask by command.
    fn refuse(
        &self,
        person: &Person,
        channel: ChannelId,
        message: Option<MessageId>,
        refusal: &Refusal,
    ) -> Result<(), StoreError> {
        let house = &self.house;
        let text = notice::refusal(refusal);
        house
            .store
            .note_refusal(person.member, &text, house.now())?;
        let once = format!("refusal/{}/{channel}/{}", person.member, kind_of(refusal));
        if says_once(refusal) && !house.store.once(&once, house.now(), REFUSAL_EVERY)? {
            return Ok(());
        }
        self.say(channel, message, text, asking(house, refusal))
    }

    /// Lets a notice be said; it is kept until it arrived.
    fn notice(
        &self,
        channel: ChannelId,
        reply_to: Option<MessageId>,
        text: String,
    ) -> Result<(), StoreError> {
        self.say(channel, reply_to, text, Vec::new())
    }

    fn say(
        &self,
        channel: ChannelId,
        reply_to: Option<MessageId>,
        text: String,
        buttons: Vec<Button>,
    ) -> Result<(), StoreError> {
        let about = TurnId(reply_to.map_or(0, |message| message.0));
        let post = Post {
            text,
            reply_to,
            buttons,
            ..Post::default()
        };
        notices::say(&self.house, channel, &post, Nonce::of(about, "n"))
    }

    async fn edited(&self, message: MessageId, text: &str) -> Result<(), StoreError> {
        let changed = self
            .house
            .store
            .revise_waiting(TurnId(message.0), |record| {
                record.request.text = text.to_owned();
            })?;
        let undecided = self.house.store.undecided(TurnId(message.0))?;
        if let Some(mut undecided) = undecided.clone() {
            undecided.request.text = text.to_owned();
            self.house.store.put_undecided(&undecided)?;
        }
        if changed.is_some() || undecided.is_some() {
            self.house.store.flush().await?;
        }
        Ok(())
    }

    async fn deleted(&self, messages: &[MessageId]) -> Result<(), StoreError> {
        for message in messages {
            self.house.store.forget_undecided(TurnId(message.0))?;
            let taken_back = self
                .house
                .store
                .revise_waiting(TurnId(message.0), |record| record.stage = Stage::Done)?;
            if let Some(record) = taken_back {
                self.house
                    .hub
                    .tell(&self.house, record.thread, Letter::Look);
            }
        }
        self.house.store.flush().await
    }

    async fn gone(&self, channel: ChannelId) -> Result<(), StoreError> {
        for chat in self.house.store.chats()? {
            if !chat.closed && (chat.place == channel || chat.parent == Some(channel)) {
                self.house
                    .store
                    .revise_chat(chat.thread, |chat| chat.closed = true)?;
                self.context.forget(chat.thread);
                if self.house.hub.runs(chat.thread) {
                    self.house.hub.tell(&self.house, chat.thread, Letter::Gone);
                }
            }
        }
        self.house.store.flush().await
    }

    /// `/ask`.
    pub async fn ask(&self, ask: InboundAsk) -> Reply {
        match self.asked(ask).await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "could not take an /ask");
                Reply::from(notice::broken())
            }
        }
    }

    async fn asked(&self, ask: InboundAsk) -> anyhow::Result<Reply> {
        let house = &self.house;
        if !venue::is_ours(&house.rules, &ask.place) {
            return Ok(Reply::from(notice::not_here()));
        }
        if !house.store.first_sight(ask.id.0, house.now())? {
            return Ok(Reply::from(notice::seen_already()));
        }
        let chat = match ask.place.kind {
            PlaceKind::Thread => house
                .store
                .chat(ThreadId(ask.place.channel.0))?
                .filter(|chat| !chat.closed),
            PlaceKind::Text | PlaceKind::Other => None,
        };
        let turn = TurnId(ask.id.0);
        let mut request = Request {
            author: ask.author,
            text: ask.prompt,
            attachments: ask.file.into_iter().collect(),
            quotes: Vec::new(),
            context: Vec::new(),
            described: Vec::new(),
            message: None,
            model: ask.model,
        };
        // Asked before anything is posted, so that a refusal stays between the bot and the person.
        if let Err(refusal) = gate::admit(
            house,
            &request,
            chat.as_ref(),
            &ask.place,
            Some(&ask.project),
        )? {
            return self.refused(&request.author, &refusal);
        }
        if let Some(refusal) = self.does_not_fit(&request, chat.as_ref())? {
            return self.refused(&request.author, &refusal);
        }
        // A chat needs a message to hang on; in a thread the request is shown as well, since the others cannot see a command.
        let post = Post {
            text: notice::asks(request.author.member, &ask.project, &request.text),
            ..Post::default()
        };
        let shown = match house
            .ports
            .surface
            .post(ask.place.channel, post, Nonce::of(turn, "q"))
            .await
        {
            Ok(message) => message,
            Err(SurfaceError::Forbidden(right)) => {
                return Ok(Reply::from(notice::cannot_say(Some(&right))));
            }
            Err(error) => {
                tracing::warn!(%error, "an /ask cannot be shown");
                return Ok(Reply::from(notice::cannot_say(None)));
            }
        };
        request.message = Some(shown);
        match self.take(request.clone(), chat, ask.place, turn, Some(&ask.project))? {
            Ok(record) => {
                house.store.flush().await?;
                self.hand_over(&record);
                Ok(Reply::from(notice::asked(record.thread)))
            }
            Err(refusal) => self.refused(&request.author, &refusal),
        }
    }

    fn refused(&self, person: &Person, refusal: &Refusal) -> anyhow::Result<Reply> {
        let text = notice::refusal(refusal);
        self.house
            .store
            .note_refusal(person.member, &text, self.house.now())?;
        Ok(Reply {
            text,
            buttons: asking(&self.house, refusal),
            ..Reply::default()
        })
    }

    /// A button.
    pub async fn press(&self, press: InboundPress) -> Reply {
        if !self.house.rules.guilds.contains(&press.guild) {
            return Reply::from(notice::not_here());
        }
        let done = match (
            Button::from_id(&press.custom_id),
            Choice::from_id(&press.custom_id),
        ) {
            (Some(Button::Stop(turn)), _) => self.stop_turn(turn, &press.by).await,
            (Some(Button::Details(turn)), _) => details::of(&self.house, turn, &press.by).await,
            (Some(Button::Retry(turn)), _) => self.retry(turn, &press).await,
            (_, Some(Choice::Project(turn))) => self.choose(turn, &press).await,
            // Access is asked for and decided on in the office.
            (Some(Button::Ask(_) | Button::Decide(_)), _)
            | (_, Some(Choice::Access { .. }))
            | (None, None) => Ok(Reply::from(notice::unknown_button())),
        };
        done.unwrap_or_else(|error| {
            tracing::error!(
                error = format!("{error:#}"),
                "could not do what a button wants"
            );
            Reply::from(notice::broken())
        })
    }

    /// Asks once more what a turn was asked that could not be done; the presser pays.
    async fn retry(&self, turn: TurnId, press: &InboundPress) -> anyhow::Result<Reply> {
        let house = &self.house;
        let record = house
            .store
            .turn(turn)?
            .filter(|record| record.retry && record.stage == Stage::Done);
        let chat = match &record {
            Some(record) => house.store.chat(record.thread)?.filter(|chat| !chat.closed),
            None => None,
        };
        let (Some(mut record), Some(chat)) = (record, chat) else {
            return Ok(Reply::from(notice::nothing_to_retry()));
        };
        if !house.store.first_sight(press.id.0, house.now())? {
            return Ok(Reply::from(notice::seen_already()));
        }
        let place = Place {
            guild: chat.guild,
            channel: chat.place,
            parent: chat.parent,
            kind: PlaceKind::Thread,
        };
        let request = Request {
            author: press.by.clone(),
            ..record.request.clone()
        };
        match self.take(request, Some(chat), place, TurnId(press.id.0), None)? {
            Ok(again) => {
                // Pressed once: what follows has a button of its own if it fails as well.
                record.retry = false;
                house.store.put_turn(&record)?;
                house.store.flush().await?;
                self.hand_over(&again);
                Ok(Reply::from(notice::trying_again()))
            }
            Err(refusal) => self.refused(&press.by, &refusal),
        }
    }

    /// `/stop`.
    pub async fn stop(&self, stop: InboundStop) -> Reply {
        match self.stop_running(stop.thread, &stop.by).await {
            Ok(reply) => reply,
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "could not stop a turn");
                Reply::from(notice::broken())
            }
        }
    }

    async fn stop_running(&self, thread: ThreadId, by: &Person) -> anyhow::Result<Reply> {
        let open = self.house.store.open_turns(thread)?;
        let running = open
            .iter()
            .find(|record| record.stage != Stage::Waiting)
            .or(open.first());
        match running {
            Some(record) => self.stop_turn(record.id, by).await,
            None => Ok(Reply::from(notice::nothing_is_running())),
        }
    }

    async fn stop_turn(&self, turn: TurnId, by: &Person) -> anyhow::Result<Reply> {
        let house = &self.house;
        let Some(record) = house
            .store
            .turn(turn)?
            .filter(|record| record.stage != Stage::Done)
        else {
            return Ok(Reply::from(notice::nothing_is_running()));
        };
        let owner = house.store.chat(record.thread)?.map(|chat| chat.owner);
        if !may_stop(house, &record, owner, by) {
            return self.refused(by, &Refusal::NotYourTurn);
        }
        let waiting = house.store.revise_waiting(turn, |record| {
            record.stage = Stage::Done;
            record.stopped_by = Some(by.member);
        })?;
        house.store.flush().await?;
        if waiting.is_some() {
            house.hub.tell(house, record.thread, Letter::Look);
            return Ok(Reply::from(notice::taken_back()));
        }
        house.hub.tell(
            house,
            record.thread,
            Letter::Stop {
                turn: Some(turn),
                by: by.member,
            },
        );
        Ok(Reply::from(notice::stopping()))
    }

    /// Lets a request go on that waited for its author to choose a project.
    async fn choose(&self, turn: TurnId, press: &InboundPress) -> anyhow::Result<Reply> {
        let undecided = match which_project::chosen(&self.house, turn, press)? {
            Ok(undecided) => undecided,
            Err(text) => return Ok(Reply::from(text)),
        };
        let author = Person {
            // Those that the choice carries are newer than those of the request.
            roles: press.by.roles.clone(),
            ..undecided.request.author.clone()
        };
        let request = Request {
            author,
            ..undecided.request.clone()
        };
        let project = press.values.first().map(String::as_str);
        match self.take(request.clone(), None, undecided.place, turn, project)? {
            Ok(record) => {
                which_project::close(&self.house, &record, press).await?;
                self.hand_over(&record);
                Ok(Reply::from(notice::asked(record.thread)))
            }
            Err(refusal) => self.refused(&request.author, &refusal),
        }
    }

    /// A command about a chat.
    pub async fn chat_command(&self, call: InboundChat) -> Reply {
        chat_commands::carry_out(&self.house, call).await
    }

    /// Looks again whether the authors of running turns still may.
    pub fn recheck(&self) {
        self.house.hub.tell_all(&Letter::Recheck);
    }

    /// Looks every minute whether those who have turns running still may, until the house closes.
    pub async fn watch_roles(self) {
        let mut ticks = tokio::time::interval(ROLES_EVERY);
        loop {
            tokio::select! {
                () = self.house.cancel.cancelled() => return,
                _ = ticks.tick() => self.recheck_roles().await,
            }
        }
    }

    /// Reads the roles of the authors of running turns again, then looks whether they still may.
    async fn recheck_roles(&self) {
        if let Err(error) = newest::read_again(&self.house).await {
            tracing::error!(%error, "could not look whose turns are running");
        }
        self.recheck();
    }
}

fn may_stop(house: &House, record: &TurnRecord, owner: Option<MemberId>, by: &Person) -> bool {
    record.request.author.member == by.member
        || owner == Some(by.member)
        || house.rules.is_admin(by.member, &by.roles)
}

/// What counts as a request: `product.md`, in one place.
fn meaning(message: &InboundMessage, chat: Option<&Chat>, level: Option<Level>) -> Meaning {
    if message.addressed {
        return Meaning::Request;
    }
    let Some(chat) = chat else {
        return Meaning::Nothing;
    };
    let holds = level >= Some(Level::Chat);
    match (chat.listen, holds, message.for_others) {
        (Listen::All, true, false) => Meaning::Request,
        // Somebody without a grant talks in a thread that takes every message for a request: told once why not.
        (Listen::All, false, false) => Meaning::Request,
        (_, true, _) => Meaning::Context,
        (_, false, _) => Meaning::Nothing,
    }
}

/// A refusal that a person could meet with every message is said once; one that answers what they just did, each time.
fn says_once(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::NoGrant { .. }
            | Refusal::Expired { .. }
            | Refusal::Suspended
            | Refusal::NotConfined
    )
}

/// Returns the button by which somebody without a grant can ask for one, where there is a place to ask in.
fn asking(house: &House, refusal: &Refusal) -> Vec<Button> {
    match refusal {
        Refusal::NoGrant { project, .. } if house.rules.admin_channel.is_some() => {
            vec![Button::Ask(project.clone())]
        }
        _ => Vec::new(),
    }
}

fn kind_of(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::NoGrant { .. } => "grant",
        Refusal::Expired { .. } => "expired",
        Refusal::Suspended => "suspended",
        _ => "other",
    }
}

fn request_of(message: InboundMessage) -> Request {
    Request {
        author: message.author,
        text: message.text,
        attachments: message.attachments,
        quotes: message.quotes,
        context: Vec::new(),
        described: message.described,
        message: Some(message.id),
        model: None,
    }
}

fn quote(message: &InboundMessage) -> Quote {
    Quote {
        author: Some(message.author.name.clone()),
        by: Some(message.author.member),
        text: message.text.clone(),
    }
}

fn new_record(chat: &Chat, request: Request, turn: TurnId, permit: &Permit) -> TurnRecord {
    TurnRecord {
        id: turn,
        thread: chat.thread,
        request,
        stage: Stage::Waiting,
        project: permit.project().clone(),
        level: permit.level(),
        ship_withheld: false,
        extras: Vec::new(),
        model: permit.model().to_owned(),
        families: None,
        hold: crate::domain::money::Usd::ZERO,
        month: None,
        started_at: None,
        session: None,
        resumes: false,
        attempt: 0,
        live: None,
        seen: 0,
        stopped_by: None,
        parts: Vec::new(),
        receipt: None,
        retry: false,
    }
}

/// Returns where a chat opened by this request has its thread still to be opened.
pub(super) fn opening(place: &Place, request: &Request) -> Option<Opening> {
    match (place.kind, request.message) {
        (PlaceKind::Text, Some(message)) => Some(Opening {
            channel: place.channel,
            message,
        }),
        _ => None,
    }
}
