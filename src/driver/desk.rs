//! Where everything that people do arrives: what counts as a request is decided here, the gate is asked, and what was admitted
//! goes to its chat.
//!
//! Nothing here waits for a turn or for Discord: requests are stored and handed over, notices are said by tasks of their own.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::agent::prompt::QUOTE;
use crate::domain::chat::{Chat, Listen, Opening};
use crate::domain::grant::{Level, Permit, Refusal};
use crate::domain::guest::Person;
use crate::domain::ids::{ChannelId, MemberId, MessageId, ThreadId, TurnId};
use crate::domain::request::{Quote, Request, Undecided};
use crate::domain::turn_record::{Stage, TurnRecord};
use crate::domain::venue::{self, Place, PlaceKind};
use crate::present::notice;
use crate::store::StoreError;

use super::catch_up;
use super::chat_commands;
use super::claims::Claims;
use super::context::{self, Context, Remark};
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
use super::shown;
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
        for waiting in self.house.store.unshown()? {
            self.look_for(waiting);
        }
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
        match AssertUnwindSafe(self.take_in(inbound)).catch_unwind().await {
            Ok(Ok(())) => {}
            // Nothing was let in: a request that could not be stored is a request that was not taken.
            Ok(Err(error)) => tracing::error!(%error, "could not take in what happened"),
            // Whoever reports goes on, so that the next arrival is heard.
            Err(_) => tracing::error!("could not take in what happened: a panic"),
        }
    }

    async fn take_in(&self, inbound: Inbound) -> Result<(), StoreError> {
        match inbound {
            Inbound::Message(message) => self.message(message).await,
            Inbound::Edited {
                message,
                channel,
                text,
            } => self.edited(message, channel, &text).await,
            Inbound::Deleted { messages, channel } => self.deleted(&messages, channel).await,
            Inbound::Gone { channel } => {
                self.gone(|chat| chat.place == channel || chat.parent == Some(channel))
                    .await
            }
            Inbound::Removed { guild } => self.gone(|chat| chat.guild == guild).await,
            Inbound::NewSession => self.catch_up(),
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
                    .note(ThreadId(message.place.channel.0), remark(message));
                Ok(())
            }
            Meaning::Request if catch_up::is_too_old(house, age) => {
                self.too_old(&message, chat.as_ref()).await
            }
            Meaning::Request => self.requested(message, chat).await,
        }
    }

    /// Returns whether something was made of this message already, in this process or an earlier one.
    fn is_known(&self, message: MessageId) -> Result<bool, StoreError> {
        Ok(self.house.store.was_seen(message.0)?
            || self.house.store.turn(TurnId(message.0))?.is_some()
            || self.house.store.undecided(TurnId(message.0))?.is_some())
    }

    /// Reads what was missed while nobody listened, beside everything else.
    fn catch_up(&self) -> Result<(), StoreError> {
        let reading = self.readings.fetch_add(1, Ordering::SeqCst) + 1;
        let after = catch_up::begin(&self.house)?;
        let desk = self.clone();
        self.house.tracker.spawn(async move {
            // From where is read must outlive this process, whatever else it comes to.
            if let Err(error) = desk.house.store.flush().await {
                tracing::error!(%error, "could not note from where is read");
            }
            let missed = tokio::select! {
                () = desk.house.cancel.cancelled() => return,
                missed = desk.house.ports.surface.missed(after) => missed,
            };
            let read = missed.len();
            for message in missed {
                desk.inbound(Inbound::Message(message)).await;
            }
            tracing::info!(read, "caught up with what was said meanwhile");
            // A newer reading began at the same place or before, and ends later.
            if desk.readings.load(Ordering::SeqCst) == reading
                && let Err(error) = catch_up::end(&desk.house)
            {
                tracing::error!(%error, "could not note what was read");
            }
        });
        Ok(())
    }

    /// Tells somebody who would have been let in, for all that they asked here meanwhile together.
    async fn too_old(
        &self,
        message: &InboundMessage,
        chat: Option<&Chat>,
    ) -> Result<(), StoreError> {
        let (house, author, place) = (&self.house, &message.author, &message.place);
        let limit = catch_up::limit(house);
        // Whatever is too old after a later absence was written when this one was over.
        let once = format!("too-old/{}/{}", author.member, place.channel);
        if gate::may_ask(house, author, chat, place)?
            && house.store.once(&once, house.now(), limit)?
        {
            self.notice(place.channel, Some(message.id), notice::too_old(limit))?;
        }
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
        let thread = gate::thread_of(&request, &place, turn);
        let chat = match chat {
            Some(chat) => Some(chat),
            // Looked for anew: while the request was shown, or its author chose, somebody else may have begun one.
            None => house.store.chat(thread)?.filter(|chat| !chat.closed),
        };
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
                match house.store.begin_chat(&chat)? {
                    None => chat,
                    Some(other) => return self.take(request, Some(other), place, turn, project),
                }
            }
        };
        request.context = self.remarks(&chat)?;
        let record = new_record(&chat, request, turn, &permit);
        house.store.put_turn(&record)?;
        Ok(Ok(record))
    }

    /// Takes what holders said in a chat since its last request, as far as they still hold its project.
    fn remarks(&self, chat: &Chat) -> Result<Vec<Quote>, StoreError> {
        let mut quotes = Vec::new();
        for remark in self.context.take(chat.thread) {
            let level = gate::level(&self.house, &remark.author, &chat.projects[0])?;
            if level >= Some(Level::Chat) {
                quotes.push(remark.quote());
            }
        }
        Ok(quotes)
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

    async fn edited(
        &self,
        message: MessageId,
        channel: ChannelId,
        text: &str,
    ) -> Result<(), StoreError> {
        let changed = self
            .house
            .store
            .revise_waiting(TurnId(message.0), |record| {
                record.request.text = text.to_owned();
            })?;
        let mut undecided = self.house.store.undecided(TurnId(message.0))?;
        if let Some(undecided) = &mut undecided {
            undecided.request.text = text.to_owned();
            self.house.store.put_undecided(undecided)?;
        }
        let quoted = self.revise_remark(channel, message, text)?;
        let requests = changed
            .iter()
            .map(|waiting| &waiting.request)
            .chain(undecided.iter().map(|waiting| &waiting.request));
        let empty = requests.clone().any(Request::is_empty);
        let known = quoted || requests.count() > 0;
        if empty {
            // Nothing is left to work on: that is as good as taking it back.
            let surface = &self.house.ports.surface;
            surface.unreact(channel, message, notice::WAITING_MARK);
            return self.deleted(&[message], channel).await;
        }
        if known {
            self.house.store.flush().await?;
        }
        Ok(())
    }

    /// Lets what became of a remark count, also for requests that wait to be asked with it. Returns whether there was one.
    fn revise_remark(
        &self,
        channel: ChannelId,
        message: MessageId,
        text: &str,
    ) -> Result<bool, StoreError> {
        let thread = ThreadId(channel.0);
        self.context.revise(thread, message, text);
        let (text, mut changed) = (context::kept_of(text), false);
        for waiting in self.house.store.open_turns(thread)? {
            let quotes = &waiting.request.context;
            if quotes.iter().any(|quote| quote.message == Some(message)) {
                let revised = self.house.store.revise_waiting(waiting.id, |record| {
                    record.request.revise_context(message, &text);
                })?;
                changed |= revised.is_some();
            }
        }
        Ok(changed)
    }

    async fn deleted(&self, messages: &[MessageId], channel: ChannelId) -> Result<(), StoreError> {
        for message in messages {
            self.house.store.forget_undecided(TurnId(message.0))?;
            self.revise_remark(channel, *message, "")?;
            let taken_back = self
                .house
                .store
                .revise_waiting(TurnId(message.0), take_back)?;
            if let Some(record) = taken_back {
                self.house
                    .hub
                    .tell(&self.house, record.thread, Letter::Look);
            }
        }
        self.house.store.flush().await
    }

    /// Closes the chats whose places are gone.
    async fn gone(&self, is_there: impl Fn(&Chat) -> bool) -> Result<(), StoreError> {
        for chat in self.house.store.chats()? {
            if !chat.closed && is_there(&chat) {
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
        let chat = self.chat_at(&ask.place)?;
        let turn = TurnId(ask.id.0);
        let request = Request {
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
            return Ok(self.refused(&request.author, &refusal)?);
        }
        if let Some(refusal) = self.does_not_fit(&request, chat.as_ref())? {
            return Ok(self.refused(&request.author, &refusal)?);
        }
        // A chat needs a message to hang on; in a thread the request is shown as well, since the others cannot see a command.
        let waiting = Undecided {
            turn,
            request,
            place: ask.place,
            at: house.now(),
            project: Some(ask.project),
        };
        house.store.put_undecided(&waiting)?;
        house.store.flush().await?;
        match shown::show(house, &waiting).await {
            Ok(message) => Ok(self.shown(waiting, message).await?),
            Err(SurfaceError::Away(why)) => {
                tracing::warn!(%why, "whether an /ask is shown is not known");
                self.look_for(waiting);
                Ok(Reply::from(notice::asked_in_doubt()))
            }
            Err(error) => {
                tracing::warn!(%error, "an /ask cannot be shown");
                house.store.forget_undecided(turn)?;
                let permission = match &error {
                    SurfaceError::Forbidden(right) => Some(right.as_str()),
                    _ => None,
                };
                Ok(Reply::from(notice::cannot_say(permission)))
            }
        }
    }

    /// Makes a turn of a request by command that people see now.
    async fn shown(&self, waiting: Undecided, message: MessageId) -> Result<Reply, StoreError> {
        let house = &self.house;
        let Undecided { turn, place, .. } = waiting;
        let request = Request {
            message: Some(message),
            ..waiting.request
        };
        let chat = self.chat_at(&place)?;
        let project = waiting.project.as_deref();
        let taken = self.take(request.clone(), chat, place, turn, project)?;
        house.store.forget_undecided(turn)?;
        match taken {
            Ok(record) => {
                house.store.flush().await?;
                self.hand_over(&record);
                Ok(Reply::from(notice::asked(record.thread)))
            }
            Err(refusal) => {
                self.take_down(place.channel, message);
                self.refused(&request.author, &refusal)
            }
        }
    }

    /// Finds out, beside everything else, whether a request by command was shown. If so it is served, else it is forgotten: its
    /// author saw that the command failed.
    fn look_for(&self, waiting: Undecided) {
        let desk = self.clone();
        self.house.tracker.spawn(async move {
            if let Err(error) = desk.find_shown(waiting).await {
                tracing::error!(%error, "could not take an /ask that was shown");
            }
        });
    }

    async fn find_shown(&self, waiting: Undecided) -> Result<(), StoreError> {
        let store = &self.house.store;
        if store.turn(waiting.turn)?.is_some() {
            return store.forget_undecided(waiting.turn).map(drop);
        }
        let Ok(found) = shown::find(&self.house, &waiting).await else {
            return Ok(());
        };
        let age = self.house.now().since(waiting.at);
        match found {
            Some(message) if catch_up::is_too_old(&self.house, age) => {
                self.take_down(waiting.place.channel, message);
            }
            Some(message) => return self.shown(waiting, message).await.map(drop),
            None => {}
        }
        store.forget_undecided(waiting.turn).map(drop)
    }

    /// Removes a message that shows a request of which nothing became.
    fn take_down(&self, channel: ChannelId, message: MessageId) {
        let house = self.house.clone();
        self.house.tracker.spawn(async move {
            if let Err(error) = house.ports.surface.delete(channel, message).await {
                tracing::warn!(%channel, %error, "a request that was refused stays to be seen");
            }
        });
    }

    /// Returns the chat of a place, if it is one's thread.
    fn chat_at(&self, place: &Place) -> Result<Option<Chat>, StoreError> {
        Ok(match place.kind {
            PlaceKind::Thread => self
                .house
                .store
                .chat(ThreadId(place.channel.0))?
                .filter(|chat| !chat.closed),
            PlaceKind::Text | PlaceKind::Other => None,
        })
    }

    fn refused(&self, person: &Person, refusal: &Refusal) -> Result<Reply, StoreError> {
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
        // Of two who press at once one is served.
        let Some(_claim) = self.claims.take(turn.0) else {
            return Ok(Reply::from(notice::seen_already()));
        };
        if !house.store.first_sight(press.id.0, house.now())? {
            return Ok(Reply::from(notice::seen_already()));
        }
        // Taken first: what follows has a button of its own if it fails as well.
        let record = house.store.take_retry(turn)?;
        let chat = match &record {
            Some(record) => house.store.chat(record.thread)?.filter(|chat| !chat.closed),
            None => None,
        };
        let (Some(mut record), Some(chat)) = (record, chat) else {
            return Ok(Reply::from(notice::nothing_to_retry()));
        };
        let place = Place {
            guild: chat.guild,
            channel: chat.place,
            parent: chat.parent,
            kind: PlaceKind::Thread,
        };
        let request = asked_again(&record.request, &press.by);
        let taken = self.take(request, Some(chat), place, TurnId(press.id.0), None);
        if !matches!(taken, Ok(Ok(_))) {
            record.retry = true;
            house.store.put_turn(&record)?;
        }
        match taken? {
            Ok(again) => {
                house.store.flush().await?;
                self.hand_over(&again);
                Ok(Reply::from(notice::trying_again()))
            }
            Err(refusal) => Ok(self.refused(&press.by, &refusal)?),
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
        let open = self.open_in(thread.channel())?;
        let theirs = open
            .iter()
            .find(|(record, owner)| may_stop(&self.house, record, *owner, by));
        match theirs.or(open.first()) {
            Some((record, _)) => self.stop_turn(record.id, by).await,
            None => Ok(Reply::from(notice::nothing_is_running())),
        }
    }

    /// Returns what can be stopped in a place, with the owners of its chats: what runs, then what waits. A chat without a thread
    /// is not alone in its channel.
    fn open_in(
        &self,
        channel: ChannelId,
    ) -> Result<Vec<(TurnRecord, Option<MemberId>)>, StoreError> {
        let mut open = Vec::new();
        for record in self.house.store.unfinished()? {
            let chat = self.house.store.chat(record.thread)?;
            let here = record.thread.channel() == channel
                || chat.as_ref().is_some_and(|chat| chat.place == channel);
            if here && !matches!(record.stage, Stage::Settled { .. }) {
                open.push((record, chat.map(|chat| chat.owner)));
            }
        }
        open.sort_by_key(|(record, _)| (record.stage == Stage::Waiting, record.id));
        Ok(open)
    }

    async fn stop_turn(&self, turn: TurnId, by: &Person) -> anyhow::Result<Reply> {
        let house = &self.house;
        let Some(record) = house
            .store
            .turn(turn)?
            .filter(|record| !matches!(record.stage, Stage::Settled { .. } | Stage::Done))
        else {
            return Ok(Reply::from(notice::nothing_is_running()));
        };
        let owner = house.store.chat(record.thread)?.map(|chat| chat.owner);
        if !may_stop(house, &record, owner, by) {
            return Ok(self.refused(by, &Refusal::NotYourTurn)?);
        }
        let Some(wished) = house.store.wish_stop(turn, by.member)? else {
            return Ok(Reply::from(notice::nothing_is_running()));
        };
        // On disk before anybody is told: a wish outlives whoever is to carry it out.
        house.store.flush().await?;
        house.hub.tell(house, record.thread, Letter::Look);
        Ok(Reply::from(match wished.stage {
            Stage::Waiting | Stage::Done => notice::taken_back(),
            _ => notice::stopping(),
        }))
    }

    /// Lets a request go on that waited for its author to choose a project.
    async fn choose(&self, turn: TurnId, press: &InboundPress) -> anyhow::Result<Reply> {
        // Of two choices made at once one takes it.
        let Some(_claim) = self.claims.take(turn.0) else {
            return Ok(Reply::from(notice::seen_already()));
        };
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
                self.house.store.forget_undecided(turn)?;
                which_project::close(&self.house, &record, press).await?;
                self.hand_over(&record);
                Ok(Reply::from(notice::asked(record.thread)))
            }
            // It still waits: for another choice, or for what stood in the way.
            Err(refusal) => Ok(self.refused(&request.author, &refusal)?),
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

/// Takes a waiting request back. One that people see waiting ends as a stopped turn does, so that they see that as well.
fn take_back(record: &mut TurnRecord) {
    if record.shown {
        record.stopped_by = Some(record.request.author.member);
    } else {
        record.stage = Stage::Done;
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
            // Of a message: that of its chat or its channel, which the configuration no longer has.
            | Refusal::UnknownProject { .. }
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
        Refusal::UnknownProject { .. } => "project",
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

/// Returns what somebody asks who lets a request be tried again. Another's words stay another's: they are quoted.
fn asked_again(request: &Request, by: &Person) -> Request {
    let mut again = Request {
        author: by.clone(),
        ..request.clone()
    };
    let first = &request.author;
    if first.member != by.member {
        again.text = notice::asks_again(&first.name);
        let letters: Vec<char> = request.text.chars().collect();
        let quotes = letters.chunks(QUOTE).map(|piece| Quote {
            author: Some(first.name.clone()),
            by: Some(first.member),
            text: piece.iter().collect(),
            message: None,
        });
        again.quotes = quotes.chain(request.quotes.iter().cloned()).collect();
    }
    again
}

fn remark(message: InboundMessage) -> Remark {
    Remark {
        message: message.id,
        author: message.author,
        text: message.text,
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
        shown: false,
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

#[cfg(test)]
mod tests;
