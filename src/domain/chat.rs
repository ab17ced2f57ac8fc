//! One thread and the one conversation with the agent that it holds.

use serde::{Deserialize, Serialize};

use super::guest::Person;
use super::ids::{AccountId, ChannelId, GuildId, MemberId, MessageId, SessionId, Slug, ThreadId};
use super::time::Moment;

/// Which messages in the thread count as requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Listen {
    /// Every message of people who hold `chat`: the start in threads that the bot opened.
    All,
    /// Only messages that mention the bot: the start in people's own threads.
    Mentions,
}

/// The agent's session of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// Whether a run with it got far enough that it can be resumed; before that it is created anew under the same id.
    pub begun: bool,
}

/// A thread that is still to be opened. Its id is known before: that of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// The channel.
    pub channel: ChannelId,
    /// The message that it will hang on.
    pub message: MessageId,
}

/// One thread ↔ one agent conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chat {
    /// The thread, which is the chat's name. In a place where no thread could be opened: the id of the asking message.
    pub thread: ThreadId,
    /// Where its messages go: the thread itself, or the channel where no thread could be opened.
    pub place: ChannelId,
    /// The thread still has to be opened: on this message.
    #[serde(default)]
    pub opening: Option<Opening>,
    /// Whether the thread was opened on the message that asked first, which then stands in the channel above. (A forum post's
    /// first message has the thread's id as well, and stands inside.)
    #[serde(default)]
    pub on_message: bool,
    /// The text channel or forum that the thread hangs in.
    pub parent: Option<ChannelId>,
    /// The server.
    pub guild: GuildId,
    /// Who opened it.
    pub owner: MemberId,
    /// Where it runs first, then the extra projects; never empty.
    pub projects: Vec<Slug>,
    /// The model it uses: an alias or a pinned id.
    pub model: String,
    /// The agent's conversation.
    pub session: Session,
    /// The sandbox user it runs as; fixed for the chat's life, since a session can only be resumed by the account that made it.
    pub account: AccountId,
    /// The workspace's path in the sandbox (`~/…` or absolute); fixed likewise.
    pub workdir: String,
    /// The random word in this chat's author tags, so that no file and no tool output can forge a speaker.
    pub word: String,
    /// Which messages count.
    pub listen: Listen,
    /// Everybody whose words the agent has heard in it, their own or as a quotation, with the roles they had then: a turn is
    /// worth `ship` only among people who all hold it.
    #[serde(default)]
    pub speakers: Vec<Person>,
    /// The agent has also heard words of which nobody knows who wrote them, such as a forwarded message.
    #[serde(default)]
    pub heard_unknown: bool,
    /// When it began.
    pub opened_at: Moment,
    /// When it ended (thread deleted): nothing runs in it any more.
    pub closed: bool,
}
