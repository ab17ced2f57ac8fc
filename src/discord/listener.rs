//! Hears the gateway: learns places, drops what is not ours, and hands over what is, in order.
//!
//! A message from a channel that nobody has told of waits until Discord was asked for it, and whatever comes after it in
//! that channel waits behind it. Nothing else ever waits here.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use serenity::all::{Context, Event, ShardManager};
use tokio::task::{self, JoinSet};
use tokio::time::Instant;

use crate::domain::ids::{ChannelId, GuildId, MessageId};
use crate::domain::rules::Rules;
use crate::domain::venue::Place;
use crate::driver::inbound::Inbound;

use super::catch_up::at_last;
use super::commands::Switchboard;
use super::handlers::Handlers;
use super::inbound::{self, Source};
use super::places::Places;
use super::rest::{Call, Major, Rest, RestError};
use super::wire;

/// Edited messages whose last edit is remembered, to tell a new edit from a link preview.
const EDITS: usize = 1024;

/// What may wait behind one message; more is dropped, as if it had been written while nobody listened.
const HELD: usize = 1000;

/// How long a new session waits for its servers before it is reported.
const BEGINNING: Duration = Duration::from_secs(10);

/// Hears everything.
pub(super) struct Listener {
    rest: Rest,
    places: Arc<Places>,
    rules: Arc<Rules>,
    handlers: Handlers,
    switchboard: Arc<Switchboard>,
    /// What waits behind a message whose channel or author is being asked for.
    held: HashMap<ChannelId, VecDeque<Piece>>,
    questions: JoinSet<Found>,
    /// The channel that each question is about.
    asked: HashMap<task::Id, ChannelId>,
    edits: BTreeMap<MessageId, i64>,
    beginning: Option<Beginning>,
    renewals: Arc<AtomicU64>,
}

/// Something of one channel, in its order.
#[derive(Debug)]
enum Piece {
    Message(Value),
    Ready(Inbound),
}

/// What a question about a message's author and place gave.
type Found = Result<(Value, Place), RestError>;

/// A session that has begun, but has not told everything yet.
struct Beginning {
    /// Configured servers that are still to come.
    awaited: HashSet<GuildId>,
    /// When no more is waited for: during an outage some never come.
    until: Instant,
}

impl Listener {
    pub(super) fn new(
        rest: Rest,
        places: Arc<Places>,
        rules: Arc<Rules>,
        handlers: Handlers,
    ) -> Listener {
        let switchboard = Switchboard::new(
            rest.clone(),
            Arc::clone(&places),
            Arc::clone(&rules),
            handlers.clone(),
        );
        Listener {
            rest,
            places,
            rules,
            handlers,
            switchboard: Arc::new(switchboard),
            held: HashMap::new(),
            questions: JoinSet::new(),
            asked: HashMap::new(),
            edits: BTreeMap::new(),
            beginning: None,
            renewals: Arc::default(),
        }
    }

    /// Returns the count of sessions that were begun.
    pub(super) fn renewals(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.renewals)
    }

    /// Takes one event.
    pub(super) fn hear(&mut self, context: Context, event: Event, manager: &Arc<ShardManager>) {
        match event {
            Event::InteractionCreate(event) => {
                self.switchboard
                    .ring(context, Arc::clone(manager), event.interaction);
            }
            // The SDK could not read it. What is read here, is read more leniently.
            Event::Unknown(event) => self.hear_unread(&event.kind, &event.value),
            event => {
                if let Ok(mut written) = serde_json::to_value(&event) {
                    let raw = written["d"].take();
                    self.report(wire::text(&written["t"]), &raw);
                }
            }
        }
    }

    fn hear_unread(&mut self, kind: &str, raw: &Value) {
        if is_of_use(kind) {
            tracing::warn!(kind, "the SDK could not read an event");
            metrics::counter!("innkeeper_discord_unread_events_total", "kind" => kind.to_owned())
                .increment(1);
        }
        match kind {
            "INTERACTION_CREATE" => self.switchboard.apologise(raw),
            _ => self.report(kind, raw),
        }
    }

    /// Takes what the gateway reports.
    pub(super) fn report(&mut self, kind: &str, raw: &Value) {
        if kind == "READY" {
            return self.begin_session(raw);
        }
        let guild_field = match kind {
            "GUILD_CREATE" | "GUILD_DELETE" => &raw["id"],
            _ => &raw["guild_id"],
        };
        let Some(guild) = wire::id(guild_field).map(GuildId) else {
            return;
        };
        if !self.rules.guilds.contains(&guild) {
            return;
        }
        match kind {
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => {
                if let Some(source) = inbound::source(raw) {
                    self.message_event(kind, source, raw);
                }
            }
            "GUILD_CREATE" => {
                self.places.learn_guild(raw);
                self.settle(guild);
            }
            "GUILD_DELETE" if raw["unavailable"].as_bool() != Some(true) => {
                self.places.forget_guild(guild);
                (self.handlers.inbound)(Inbound::Removed { guild });
            }
            "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" => {
                self.places.learn_role(guild, &raw["role"]);
            }
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
                self.places.learn_channel(raw, Some(guild));
            }
            "THREAD_LIST_SYNC" => {
                for thread in wire::list(&raw["threads"]) {
                    self.places.learn_channel(thread, Some(guild));
                }
            }
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                if let Some(channel) = wire::id(&raw["id"]).map(ChannelId) {
                    self.places.forget_channel(channel);
                    self.accept(channel, Piece::Ready(Inbound::Gone { channel }));
                }
            }
            _ => {}
        }
    }

    fn begin_session(&mut self, raw: &Value) {
        if let Some(user) = wire::id(&raw["user"]["id"]) {
            self.places.be(user);
        }
        if let Some(application) = wire::id(&raw["application"]["id"]) {
            self.switchboard.register(application);
        }
        self.renewals.fetch_add(1, Ordering::Relaxed);
        let guilds = wire::list(&raw["guilds"]).iter();
        let guilds = guilds.filter_map(|guild| wire::id(&guild["id"]).map(GuildId));
        let beginning = Beginning {
            awaited: guilds.filter(|id| self.rules.guilds.contains(id)).collect(),
            until: Instant::now() + BEGINNING,
        };
        let servers = match beginning.awaited.len() {
            1 => "1 server".to_owned(),
            number => format!("{number} servers"),
        };
        tracing::info!(
            "serving {servers} as {}",
            wire::text(&raw["user"]["username"])
        );
        self.beginning = Some(beginning);
        self.report_beginning();
    }

    /// Takes note that a server has told what it holds.
    fn settle(&mut self, guild: GuildId) {
        if let Some(beginning) = &mut self.beginning {
            beginning.awaited.remove(&guild);
            self.report_beginning();
        }
    }

    /// Reports a new session once every server has told what it holds, since only then is known where something was missed.
    fn report_beginning(&mut self) {
        let is_over = |beginning: &mut Beginning| {
            beginning.awaited.is_empty() || beginning.until <= Instant::now()
        };
        if self.beginning.take_if(is_over).is_some() {
            (self.handlers.inbound)(Inbound::NewSession);
        }
    }

    fn message_event(&mut self, kind: &str, source: Source, raw: &Value) {
        let channel = source.channel;
        let me = self.places.myself(source.guild);
        let deleted = |messages: Vec<MessageId>| Inbound::Deleted { messages, channel };
        let piece = match kind {
            // Without an author it is not judged yet: Discord is asked for the message.
            "MESSAGE_CREATE" => (raw["author"].is_null() || inbound::is_from_a_person(raw, me))
                .then(|| Piece::Message(raw.clone())),
            "MESSAGE_UPDATE" => self.edit(source, raw).map(Piece::Ready),
            "MESSAGE_DELETE" => {
                wire::id(&raw["id"]).map(|id| Piece::Ready(deleted(vec![MessageId(id)])))
            }
            _ => {
                let ids = wire::ids(&raw["ids"]).map(MessageId).collect();
                Some(Piece::Ready(deleted(ids)))
            }
        };
        if let Some(piece) = piece {
            self.accept(channel, piece);
        }
    }

    fn edit(&mut self, source: Source, raw: &Value) -> Option<Inbound> {
        let me = self.places.myself(source.guild);
        // Discord sends the whole message; one without an author is judged by whoever knows the message.
        if raw["author"].is_object() && !inbound::is_from_a_person(raw, me) {
            return None;
        }
        let message = MessageId(wire::id(&raw["id"])?);
        let (at, text) = inbound::edited(raw, me)?;
        let last = self.edits.insert(message, at);
        if self.edits.len() > EDITS {
            self.edits.pop_first();
        }
        last.is_none_or(|last| at > last)
            .then_some(Inbound::Edited {
                message,
                channel: source.channel,
                text,
            })
    }

    /// Hands a piece over, or lets it wait behind what waits already in its channel.
    fn accept(&mut self, channel: ChannelId, piece: Piece) {
        if let Some(waiting) = self.held.get_mut(&channel) {
            if waiting.len() < HELD {
                waiting.push_back(piece);
            } else {
                tracing::error!(%channel, "a message was lost: too much waits in its channel");
            }
        } else if let Some(message) = self.hand_over(channel, piece) {
            self.held.insert(channel, VecDeque::new());
            self.question(channel, message);
        }
    }

    /// Hands a piece over; a message about which something has to be asked first comes back.
    fn hand_over(&mut self, channel: ChannelId, piece: Piece) -> Option<Value> {
        let raw = match piece {
            Piece::Ready(inbound) => {
                (self.handlers.inbound)(inbound);
                return None;
            }
            Piece::Message(raw) => raw,
        };
        let place = self.places.find(channel);
        match place {
            Some(place) if raw["author"].is_object() && raw["member"].is_object() => {
                self.deliver(&raw, place);
                None
            }
            _ => Some(raw),
        }
    }

    fn deliver(&self, raw: &Value, place: Place) {
        let me = self.places.myself(place.guild);
        if !self.rules.guilds.contains(&place.guild) || !inbound::is_from_a_person(raw, me) {
            return;
        }
        if let Some(message) = inbound::message(raw, me, place) {
            self.switchboard.note_time(message.id.made_at());
            (self.handlers.inbound)(Inbound::Message(message));
        }
    }

    fn question(&mut self, channel: ChannelId, raw: Value) {
        let (rest, places) = (self.rest.clone(), Arc::clone(&self.places));
        let question =
            async move { at_last(|| complete(&rest, &places, channel, raw.clone())).await };
        let task = self.questions.spawn(question);
        self.asked.insert(task.id(), channel);
    }

    /// Waits for the answer to a question, and hands over what waited for it; or for the end of a session's beginning.
    /// Waits for ever while there is neither.
    pub(super) async fn pump(&mut self) {
        let until = self.beginning.as_ref().map(|beginning| beginning.until);
        let over = async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(ended) = self.questions.join_next_with_id() => self.answered(ended),
            () = over => self.report_beginning(),
        }
    }

    /// Takes the end of a question: what waited for it goes on, whatever came of it.
    fn answered(&mut self, ended: Result<(task::Id, Found), task::JoinError>) {
        let id = match ended {
            Ok((id, found)) => {
                match found {
                    Ok((raw, place)) => self.deliver(&raw, place),
                    Err(error) => {
                        tracing::error!(%error, "a message was lost: its channel is unknown");
                    }
                }
                id
            }
            Err(error) => {
                tracing::error!(%error, "a message was lost: the question about it broke off");
                error.id()
            }
        };
        if let Some(channel) = self.asked.remove(&id) {
            self.resume(channel);
        }
    }

    fn resume(&mut self, channel: ChannelId) {
        let mut waiting = self.held.remove(&channel).unwrap_or_default();
        while let Some(piece) = waiting.pop_front() {
            if let Some(message) = self.hand_over(channel, piece) {
                self.held.insert(channel, waiting);
                self.question(channel, message);
                return;
            }
        }
    }

    /// Lets what was begun come to its end, for a moment.
    pub(super) async fn finish(self) {
        self.switchboard.finish().await;
    }
}

/// Returns whether an event of this kind would have been used.
fn is_of_use(kind: &str) -> bool {
    [
        "MESSAGE_",
        "INTERACTION_",
        "THREAD_",
        "CHANNEL_",
        "GUILD_CREATE",
        "READY",
    ]
    .iter()
    .any(|prefix| kind.starts_with(prefix))
}

/// Asks for what a message lacks: its author, the author's roles, the place it stands in. An author who is no member any
/// more has no roles.
async fn complete(
    rest: &Rest,
    places: &Places,
    channel: ChannelId,
    mut raw: Value,
) -> Result<(Value, Place), RestError> {
    let place = match places.find(channel) {
        Some(place) => place,
        None => ask_place(rest, places, channel).await?,
    };
    if !raw["author"].is_object() {
        let id = wire::id(&raw["id"]).unwrap_or(0);
        let path = format!("channels/{channel}/messages/{id}");
        let call = Call::new("read message", Method::GET, path, Major::Channel(channel));
        raw = rest.ask(call).await?;
    }
    if !raw["member"].is_object()
        && let Some(user) = wire::id(&raw["author"]["id"])
    {
        raw["member"] = ask_member(rest, place.guild, user).await?;
    }
    Ok((raw, place))
}

/// Asks for a member; somebody who has left is nothing.
pub(super) async fn ask_member(rest: &Rest, guild: GuildId, user: u64) -> Result<Value, RestError> {
    let path = format!("guilds/{guild}/members/{user}");
    let call = Call::new("read member", Method::GET, path, Major::Guild(guild));
    match rest.ask(call).await {
        Err(error @ RestError::Away { .. }) => Err(error),
        answer => Ok(answer.unwrap_or_default()),
    }
}

async fn ask_place(rest: &Rest, places: &Places, channel: ChannelId) -> Result<Place, RestError> {
    let path = format!("channels/{channel}");
    let call = Call::new("read channel", Method::GET, path, Major::Channel(channel));
    let raw: Value = rest.ask(call).await?;
    places.learn_channel(&raw, None).ok_or(RestError::Refused {
        call: "read channel",
        status: 200,
        code: 0,
        message: "the answer describes no channel of a server".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{listener, quiet};
    use super::*;

    #[tokio::test]
    async fn a_question_that_breaks_off_leaves_its_channel_open() {
        let calls = quiet();
        let mut listener = listener(&calls);
        let channel = ChannelId(6);
        listener.held.insert(channel, VecDeque::new());
        let task = listener.questions.spawn(async { panic!("a question") });
        listener.asked.insert(task.id(), channel);
        listener.accept(channel, Piece::Ready(Inbound::Gone { channel }));
        assert!(calls.lines().is_empty());
        listener.pump().await;
        assert_eq!(calls.lines(), ["gone 6"]);
        assert!(listener.held.is_empty() && listener.asked.is_empty());
    }

    #[tokio::test]
    async fn what_waits_in_a_channel_is_bounded() {
        let mut listener = listener(&quiet());
        let channel = ChannelId(6);
        listener.held.insert(channel, VecDeque::new());
        for _ in 0..2 * HELD {
            listener.accept(channel, Piece::Ready(Inbound::Gone { channel }));
        }
        assert_eq!(listener.held[&channel].len(), HELD);
    }
}
