//! The state of the stand-in's world: people, servers, channels, messages, commands, interactions.
//!
//! Pure: it does no input or output and knows no connection. What clients must be told is put into
//! an outbox, which the owner of the world empties after each change.

mod file;
mod interactions;
mod messages;
mod people;
mod show;
mod text;
mod threads;
mod view;

pub use file::WorldError;
pub(crate) use interactions::{Asked, Interaction, Progress};
pub(crate) use messages::{Change, Draft, NewFile, content_type};
pub(crate) use show::emoji_of;
pub(crate) use text::Allowed;
pub(crate) use threads::PlaceChange;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::clock::{Clock, Id};

/// The bot's account.
#[derive(Debug, Clone)]
pub(crate) struct Bot {
    pub(crate) id: Id,
    pub(crate) token: String,
    /// The privileged intents that are switched on for the bot in the portal, as bits.
    pub(crate) privileged: u64,
}

/// An account; a person or a bot.
#[derive(Debug, Clone)]
pub(crate) struct User {
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) bot: bool,
}

/// A role of a server; the one whose id is the server's is everybody's.
#[derive(Debug, Clone)]
pub(crate) struct Role {
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) permissions: u64,
    pub(crate) mentionable: bool,
    /// The bot that the role came with, if it is a bot's own role.
    pub(crate) bot: Option<Id>,
}

/// A person on a server.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) nick: Option<String>,
    pub(crate) roles: Vec<Id>,
    /// Milliseconds since 1970.
    pub(crate) joined_ms: u64,
}

/// A server.
#[derive(Debug, Clone)]
pub(crate) struct Guild {
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) owner: Id,
    pub(crate) premium_tier: u8,
    /// Bytes that one attachment may have.
    pub(crate) upload_limit: usize,
    pub(crate) roles: Vec<Role>,
    pub(crate) members: BTreeMap<Id, Member>,
}

/// A permission overwrite of a channel for a role or a member.
#[derive(Debug, Clone)]
pub(crate) struct Overwrite {
    pub(crate) id: Id,
    pub(crate) for_member: bool,
    pub(crate) allow: u64,
    pub(crate) deny: u64,
}

/// What kind of place a channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Direct,
    Voice,
    Category,
    Announcement,
    AnnouncementThread,
    PublicThread,
    PrivateThread,
    Forum,
}

impl Kind {
    /// Returns Discord's number of the kind.
    pub(crate) fn number(self) -> u8 {
        match self {
            Kind::Text => 0,
            Kind::Direct => 1,
            Kind::Voice => 2,
            Kind::Category => 4,
            Kind::Announcement => 5,
            Kind::AnnouncementThread => 10,
            Kind::PublicThread => 11,
            Kind::PrivateThread => 12,
            Kind::Forum => 15,
        }
    }

    /// Returns the word for the kind in world files and in `/standin/world`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Direct => "direct",
            Kind::Voice => "voice",
            Kind::Category => "category",
            Kind::Announcement => "announcement",
            Kind::AnnouncementThread => "announcement-thread",
            Kind::PublicThread => "thread",
            Kind::PrivateThread => "private-thread",
            Kind::Forum => "forum",
        }
    }
}

/// A channel or a thread.
#[derive(Debug, Clone)]
pub(crate) struct Channel {
    pub(crate) id: Id,
    /// None for direct messages.
    pub(crate) guild: Option<Id>,
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) parent: Option<Id>,
    pub(crate) position: usize,
    pub(crate) overwrites: Vec<Overwrite>,
    /// Who takes part in direct messages.
    pub(crate) recipients: Vec<Id>,
    pub(crate) messages: BTreeMap<Id, Message>,
    pub(crate) thread: Option<Thread>,
}

impl Channel {
    /// Returns the newest message's id, deleted ones included, as Discord does.
    pub(crate) fn last_message(&self) -> Option<Id> {
        self.messages
            .values()
            .rev()
            .find(|message| message.only_for.is_none())
            .map(|message| message.id)
    }

    /// Returns a message that is still there.
    pub(crate) fn message(&self, id: Id) -> Option<&Message> {
        self.messages.get(&id).filter(|message| !message.deleted)
    }
}

/// What a thread has beyond a channel.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    pub(crate) owner: Id,
    pub(crate) archived: bool,
    pub(crate) locked: bool,
    /// Milliseconds since 1970 of the last change of `archived`.
    pub(crate) archive_ms: u64,
    /// Minutes.
    pub(crate) auto_archive: u64,
    /// Member and moment of joining in milliseconds since 1970.
    pub(crate) members: BTreeMap<Id, u64>,
}

/// A message.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) id: Id,
    pub(crate) channel: Id,
    pub(crate) author: Id,
    /// Discord's message type: 0 normal, 19 reply, 18 thread created, 21 thread starter, 20
    /// command's answer …
    pub(crate) kind: u8,
    pub(crate) content: String,
    /// The world's time in milliseconds since 1970.
    pub(crate) born_ms: u64,
    pub(crate) edited_ms: Option<u64>,
    pub(crate) edits: u32,
    pub(crate) deleted: bool,
    pub(crate) reference: Option<Reference>,
    pub(crate) attachments: Vec<Attachment>,
    pub(crate) embeds: Vec<Value>,
    pub(crate) components: Vec<Value>,
    pub(crate) flags: u64,
    pub(crate) mentions: Vec<Id>,
    pub(crate) mention_roles: Vec<Id>,
    pub(crate) mention_everyone: bool,
    /// Whom the message notified.
    pub(crate) pings: Vec<Id>,
    pub(crate) reactions: Vec<Reaction>,
    pub(crate) nonce: Option<Value>,
    /// The interaction that the message answers.
    pub(crate) interaction: Option<Value>,
    /// Discord's JSON of a forwarded message, of stickers and of a poll.
    pub(crate) snapshot: Option<Value>,
    pub(crate) stickers: Vec<Value>,
    pub(crate) poll: Option<Value>,
    /// The only person who sees the message, for an ephemeral one.
    pub(crate) only_for: Option<Id>,
}

impl Message {
    /// Set while the first answer to an interaction is awaited.
    pub(crate) const LOADING: u64 = 1 << 7;
    /// Seen only by the person who caused it.
    pub(crate) const EPHEMERAL: u64 = 1 << 6;
    /// Has a thread.
    pub(crate) const HAS_THREAD: u64 = 1 << 5;
    /// Made of components alone.
    pub(crate) const COMPONENTS_V2: u64 = 1 << 15;
}

/// Points to another message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reference {
    pub(crate) channel: Id,
    /// None for references to a channel (thread created).
    pub(crate) message: Option<Id>,
    pub(crate) forward: bool,
}

/// A file of a message.
#[derive(Debug, Clone)]
pub(crate) struct Attachment {
    pub(crate) id: Id,
    pub(crate) name: String,
    pub(crate) size: usize,
    pub(crate) content_type: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) voice_seconds: Option<f64>,
}

/// An emoji under a message and who put it there.
#[derive(Debug, Clone)]
pub(crate) struct Reaction {
    pub(crate) emoji: String,
    pub(crate) users: Vec<Id>,
}

/// A registered application command.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) id: Id,
    /// None for a global command.
    pub(crate) guild: Option<Id>,
    /// The definition as registered.
    pub(crate) definition: Value,
}

/// Something that clients are told.
#[derive(Debug, Clone)]
pub(crate) struct News {
    pub(crate) name: String,
    pub(crate) data: Value,
    /// The intent bits of which one is needed; 0 when none is.
    pub(crate) intents: u64,
    /// Whether the bot may see it at all.
    pub(crate) for_bot: bool,
}

/// The intents of the gateway, as far as events of this stand-in need them.
pub(crate) mod intent {
    pub(crate) const GUILDS: u64 = 1;
    pub(crate) const GUILD_MEMBERS: u64 = 1 << 1;
    pub(crate) const GUILD_PRESENCES: u64 = 1 << 8;
    pub(crate) const GUILD_MESSAGES: u64 = 1 << 9;
    pub(crate) const GUILD_MESSAGE_REACTIONS: u64 = 1 << 10;
    pub(crate) const DIRECT_MESSAGES: u64 = 1 << 12;
    pub(crate) const DIRECT_MESSAGE_REACTIONS: u64 = 1 << 13;
    pub(crate) const MESSAGE_CONTENT: u64 = 1 << 15;
    /// The intents that need a switch in the portal.
    pub(crate) const PRIVILEGED: u64 = GUILD_MEMBERS | GUILD_PRESENCES | MESSAGE_CONTENT;
    /// All intents that exist: 0 to 16, 20, 21, 24 and 25.
    pub(crate) const KNOWN: u64 = ((1 << 17) - 1) | (1 << 20) | (1 << 21) | (1 << 24) | (1 << 25);
}

/// The world that a stand-in shows: servers, people, channels, and what happened there.
#[derive(Debug, Clone)]
pub struct World {
    pub(crate) clock: Clock,
    pub(crate) bot: Bot,
    pub(crate) users: BTreeMap<Id, User>,
    pub(crate) guilds: BTreeMap<Id, Guild>,
    pub(crate) channels: BTreeMap<Id, Channel>,
    pub(crate) commands: Vec<Command>,
    pub(crate) interactions: BTreeMap<Id, Interaction>,
    /// The contents of attachments by their id.
    pub(crate) files: BTreeMap<Id, Bytes>,
    pub(crate) outbox: Vec<News>,
    /// The address under which attachments are found, such as `http://127.0.0.1:8000`.
    pub(crate) base_url: String,
    /// What the page begins with: `as` whom, `in` which channel, with which `text`; `null`: as whoever comes first.
    pub(crate) suggestion: Value,
}

impl World {
    /// Returns the world of the demo: server *Demo* with `general` and `data`; `olga` (owner),
    /// `ada`, `ben`, `cleo`; the bot `innkeeper` with the Message Content intent.
    pub fn demo() -> World {
        let mut world = file::demo();
        world.suggestion =
            json!({ "as": "ada", "in": "data", "text": "@innkeeper plot something" });
        world
    }

    /// Reads a world from the text of a world file. The format is told in the room's opening words.
    pub fn from_json(text: &str) -> Result<World, WorldError> {
        file::parse(text)
    }

    /// Returns the token with which the bot logs in.
    pub fn bot_token(&self) -> &str {
        &self.bot.token
    }

    /// Returns the bot's id, which is its application's as well.
    pub fn bot_id(&self) -> u64 {
        self.bot.id
    }

    /// Returns the id of the first server.
    pub fn guild_id(&self) -> u64 {
        // A world file without a server is refused, so there is always one.
        self.guilds.keys().next().copied().unwrap_or_default()
    }

    /// Returns the id of the account with this name.
    pub fn member_id(&self, name: &str) -> Option<u64> {
        self.users
            .values()
            .find(|user| user.name == name)
            .map(|user| user.id)
    }

    /// Returns the id of the first channel or thread with this name.
    pub fn channel_id(&self, name: &str) -> Option<u64> {
        self.channels
            .values()
            .find(|channel| channel.name == name)
            .map(|channel| channel.id)
    }

    /// Returns the id of the first role with this name.
    pub fn role_id(&self, name: &str) -> Option<u64> {
        let mut roles = self.guilds.values().flat_map(|guild| &guild.roles);
        roles.find(|role| role.name == name).map(|role| role.id)
    }

    /// Returns the account's name, or its id where it is unknown.
    pub(crate) fn name_of(&self, user: Id) -> String {
        self.users
            .get(&user)
            .map_or_else(|| user.to_string(), |user| user.name.clone())
    }

    /// Returns the server of a channel.
    pub(crate) fn guild_of(&self, channel: Id) -> Option<&Guild> {
        self.guilds.get(&self.channels.get(&channel)?.guild?)
    }

    /// Returns a message that is still there.
    pub(crate) fn message(&self, channel: Id, message: Id) -> Option<&Message> {
        self.channels.get(&channel)?.message(message)
    }

    /// Puts news about a place into the outbox, for whoever sees the place.
    pub(crate) fn tell(&mut self, name: &str, data: Value, intents: u64, channel: Id) {
        let for_bot = self.sees(self.bot.id, channel);
        self.outbox.push(News {
            name: name.to_owned(),
            data,
            intents,
            for_bot,
        });
    }

    /// Puts news about a server into the outbox.
    pub(crate) fn tell_guild(&mut self, name: &str, data: Value, intents: u64, guild: Id) {
        let for_bot = self
            .guilds
            .get(&guild)
            .is_some_and(|guild| guild.members.contains_key(&self.bot.id));
        self.outbox.push(News {
            name: name.to_owned(),
            data,
            intents,
            for_bot,
        });
    }

    /// Returns the intent that news about messages of a channel needs.
    pub(crate) fn message_intent(&self, channel: Id) -> u64 {
        match self.guild_of(channel) {
            Some(_) => intent::GUILD_MESSAGES,
            None => intent::DIRECT_MESSAGES,
        }
    }
}
