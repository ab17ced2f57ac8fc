//! What comes in from the platform, in our types. Bots, webhooks and foreign servers never get this far.

use crate::domain::chat::Listen;
use crate::domain::guest::Person;
use crate::domain::ids::{ChannelId, GuildId, InteractionId, MessageId, ThreadId};
use crate::domain::request::{Attachment, Quote};
use crate::domain::venue::Place;

/// A message somebody wrote (Discord types 0 and 19 only).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundMessage {
    /// Its id.
    pub id: MessageId,
    /// Where it stands.
    pub place: Place,
    /// Who wrote it, with the roles it carried.
    pub author: Person,
    /// Its text, without the bot's mention (user mention, old form, managed role).
    pub text: String,
    /// Whether it mentions the bot: typed, by the bot's managed role, or by a reply that pings.
    pub addressed: bool,
    /// Whether it mentions another person, or replies to somebody else without mentioning the bot.
    pub for_others: bool,
    /// Whether Discord withheld the content (Message Content intent missing): an addressed message with nothing in it.
    pub withheld: bool,
    /// Files.
    pub attachments: Vec<Attachment>,
    /// What it replies to (not the bot's own messages) and what it forwards.
    pub quotes: Vec<Quote>,
    /// Stickers, polls, voice messages: one description each.
    pub described: Vec<String>,
}

/// What the gateway reports, beside interactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inbound {
    /// A message was written.
    Message(InboundMessage),
    /// A message's text was changed by its author (not a link preview).
    Edited {
        /// Which.
        message: MessageId,
        /// In which channel or thread.
        channel: ChannelId,
        /// The new text, without the bot's mention.
        text: String,
    },
    /// Messages were deleted.
    Deleted {
        /// Which.
        messages: Vec<MessageId>,
        /// In which channel or thread.
        channel: ChannelId,
    },
    /// A thread, or the channel it hangs in, is gone.
    Gone {
        /// The thread or channel.
        channel: ChannelId,
    },
    /// The bot belongs to this server no longer.
    Removed {
        /// The server.
        guild: GuildId,
    },
    /// A new gateway session began: what happened meanwhile is unknown.
    NewSession,
}

/// `/ask`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundAsk {
    /// The interaction.
    pub id: InteractionId,
    /// Where it was used.
    pub place: Place,
    /// By whom.
    pub author: Person,
    /// The project's slug as typed; not validated by Discord.
    pub project: String,
    /// The words.
    pub prompt: String,
    /// A model, if one was named.
    pub model: Option<String>,
    /// A file, if one was given.
    pub file: Option<Attachment>,
}

/// A button was pressed, or something chosen of a menu. `custom_id`s are those of `ports::Button` and `ports::Choice`; a forged one is refused by the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundPress {
    /// The interaction.
    pub id: InteractionId,
    /// The server.
    pub guild: GuildId,
    /// Where the message stands.
    pub channel: ChannelId,
    /// The message that carries the button.
    pub message: MessageId,
    /// Who pressed.
    pub by: Person,
    /// The button's or the menu's id as it came.
    pub custom_id: String,
    /// What was chosen of a menu, as it came; empty for a button.
    pub values: Vec<String>,
}

/// A command about the chat of the thread it is used in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundChat {
    /// The interaction.
    pub id: InteractionId,
    /// Where it was used.
    pub place: Place,
    /// By whom.
    pub by: Person,
    /// What is wanted.
    pub want: ChatWant,
}

/// What somebody wants of a chat. Names are as typed; Discord validates none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatWant {
    /// `/new`: a new conversation in the same thread.
    New,
    /// `/fork`: another thread with the same projects.
    Fork,
    /// `/model`: another model.
    Model(String),
    /// `/listen`: which messages count as requests.
    Listen(Listen),
    /// `/add-project`: one more project.
    AddProject(String),
    /// `/details` of the newest turn.
    Details,
}

/// `/stop`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboundStop {
    /// The interaction.
    pub id: InteractionId,
    /// The thread it was used in.
    pub thread: ThreadId,
    /// By whom.
    pub by: Person,
}

/// What is said to the one person who used a command or a button.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// At most 2000 code points.
    pub text: String,
    /// Files that only they see.
    pub files: Vec<super::ports::Upload>,
    /// Buttons that only they see.
    pub buttons: Vec<super::ports::Button>,
}

impl From<String> for Reply {
    fn from(text: String) -> Reply {
        Reply {
            text,
            ..Reply::default()
        }
    }
}
