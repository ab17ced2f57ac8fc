//! What the driver needs of the world outside: the platform that people see.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::domain::grant::Level;
use crate::domain::ids::{ChannelId, GuildId, MemberId, MessageId, RoleId, Slug, ThreadId, TurnId};
use crate::domain::request::Attachment;
use crate::sandbox::Sandbox;

use super::clock::Clock;
use super::inbound::InboundMessage;

/// A button on one of our messages. Its `custom_id` carries all that is to be known, so that it works after restarts;
/// whoever presses is asked at the gate as if nothing had been offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Button {
    /// Stops this turn.
    Stop(TurnId),
    /// Gives every step of this turn as a file that only the presser sees.
    Details(TurnId),
    /// Asks once more what this turn was asked.
    Retry(TurnId),
    /// Asks the admins for access: to this project, or to whichever they choose.
    Ask(Option<Slug>),
    /// Answers somebody who asked for access.
    Decide(Decide),
}

/// An admin's answer to somebody who asked for access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decide {
    /// Who asked.
    pub member: MemberId,
    /// Where they are told.
    pub channel: ChannelId,
    /// To which project; not known for a no to somebody who named none.
    pub project: Option<Slug>,
    /// What they get; `None`: nothing.
    pub level: Option<Level>,
}

/// What stands in a `custom_id` in place of a project that is not known. No slug begins so.
const NO_PROJECT: &str = "-";

impl Button {
    /// Returns the `custom_id`: version, action, and what it is about; at most 100 characters.
    pub fn id(&self) -> String {
        match self {
            Button::Stop(turn) => format!("1:stop:{turn}"),
            Button::Details(turn) => format!("1:details:{turn}"),
            Button::Retry(turn) => format!("1:retry:{turn}"),
            Button::Ask(project) => format!("1:access:{}", written(project.as_ref())),
            Button::Decide(decide) => format!(
                "1:decide:{}:{}:{}:{}",
                decide
                    .level
                    .map_or("no".to_owned(), |level| level.to_string()),
                decide.member,
                decide.channel,
                written(decide.project.as_ref())
            ),
        }
    }

    /// Returns the button that this `custom_id` names, if it is one of ours.
    pub fn from_id(id: &str) -> Option<Button> {
        let (action, rest) = id.strip_prefix("1:")?.split_once(':')?;
        match action {
            "stop" => Some(Button::Stop(TurnId(rest.parse().ok()?))),
            "details" => Some(Button::Details(TurnId(rest.parse().ok()?))),
            "retry" => Some(Button::Retry(TurnId(rest.parse().ok()?))),
            "access" => Some(Button::Ask(read(rest)?)),
            "decide" => {
                let [level, member, channel, project] =
                    <[&str; 4]>::try_from(rest.split(':').collect::<Vec<_>>()).ok()?;
                Some(Button::Decide(Decide {
                    member: MemberId(member.parse().ok()?),
                    channel: ChannelId(channel.parse().ok()?),
                    project: read(project)?,
                    level: match level {
                        "no" => None,
                        level => Some(level.parse().ok()?),
                    },
                }))
            }
            _ => None,
        }
    }

    /// Returns what is written on it.
    pub fn label(&self) -> &'static str {
        match self {
            Button::Stop(_) => "Stop",
            Button::Details(_) => "Details",
            Button::Retry(_) => "Retry",
            Button::Ask(_) => "Ask for access",
            Button::Decide(decide) => match decide.level {
                Some(Level::View) => "Grant view",
                Some(Level::Chat) => "Grant chat",
                Some(Level::Ship) => "Grant ship",
                None => "No",
            },
        }
    }
}

fn written(project: Option<&Slug>) -> &str {
    project.map_or(NO_PROJECT, Slug::as_str)
}

/// Returns the project that was written; `None`: it is none of ours.
fn read(text: &str) -> Option<Option<Slug>> {
    match text {
        NO_PROJECT => Some(None),
        slug => slug.parse().ok().map(Some),
    }
}

/// What is decided by choosing from a menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The project of a request that waits for it; only its author may choose.
    Project(TurnId),
    /// The project that somebody who asked for access is to get; only admins may choose.
    Access {
        /// Who asked.
        member: MemberId,
        /// Where they are told.
        channel: ChannelId,
    },
}

impl Choice {
    /// Returns the `custom_id` of its menu.
    pub fn id(self) -> String {
        match self {
            Choice::Project(turn) => format!("1:project:{turn}"),
            Choice::Access { member, channel } => format!("1:which:{member}:{channel}"),
        }
    }

    /// Returns the choice that this `custom_id` names, if it is one of ours.
    pub fn from_id(id: &str) -> Option<Choice> {
        let (action, rest) = id.strip_prefix("1:")?.split_once(':')?;
        match action {
            "project" => Some(Choice::Project(TurnId(rest.parse().ok()?))),
            "which" => {
                let (member, channel) = rest.split_once(':')?;
                Some(Choice::Access {
                    member: MemberId(member.parse().ok()?),
                    channel: ChannelId(channel.parse().ok()?),
                })
            }
            _ => None,
        }
    }
}

/// A menu on one of our messages, of which one thing is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Menu {
    /// What is chosen.
    pub choice: Choice,
    /// What can be chosen: what people read, and the value that comes back. At most 25 are shown.
    pub options: Vec<(String, String)>,
}

/// A file to be attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its name; the surface cleans it for the platform.
    pub name: String,
    /// Its bytes.
    pub bytes: Bytes,
}

/// One message of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Post {
    /// At most 2000 code points; blank only where there are files.
    pub text: String,
    /// What it replies to; a reply to a message that is gone is sent without reference.
    pub reply_to: Option<MessageId>,
    /// The one person whom it may notify, by the text or as the author of what it replies to. Nobody else is ever notified,
    /// whatever the text says.
    pub ping: Option<MemberId>,
    /// Buttons, in one row.
    pub buttons: Vec<Button>,
    /// A menu, above the buttons.
    pub menu: Option<Menu>,
    /// At most ten, each within [`Surface::file_limit`], together within 25 MiB.
    pub files: Vec<Upload>,
    /// No notification sound (live messages).
    pub silent: bool,
}

/// What the thing to be said wants of the platform's memory: the same nonce never makes two messages within minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nonce(pub String);

impl Nonce {
    /// Returns the nonce of one message of a turn; at most 25 characters (Discord's limit).
    pub fn of(turn: TurnId, what: &str) -> Nonce {
        let mut text = format!("{}{what}", to_base36(turn.0));
        text.truncate(25);
        Nonce(text)
    }
}

fn to_base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit((number % 36) as u32, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

/// One of our messages, as the platform shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ours {
    /// Its id.
    pub id: MessageId,
    /// What it replies to.
    pub reply_to: Option<MessageId>,
    /// Its text. The platform may have changed it.
    pub text: String,
    /// Whether it was sent without a sound, as live messages are.
    pub silent: bool,
    /// The ids of its menu and its buttons.
    pub buttons: Vec<String>,
}

/// Why something could not be said. The surface has already waited, retried and degraded where that is right
/// (`429`, `5xx`, un-archiving a thread, a reply without history).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SurfaceError {
    /// The platform is away: try again later.
    #[error("discord cannot be reached: {0}")]
    Away(String),
    /// The message is gone (10008) or may not be edited any more (30046).
    #[error("the message is gone")]
    MessageGone,
    /// The channel or thread is gone (10003, 10004).
    #[error("the channel is gone")]
    ChannelGone,
    /// The bot may not do that here; the permission that is missing, as Discord's settings call it.
    #[error("the permission {0:?} is missing")]
    Forbidden(String),
    /// The thread is locked (160005).
    #[error("the thread is locked")]
    Locked,
    /// Too large (40005, 413): the learned limit was lowered.
    #[error("the file is too large")]
    TooLarge,
    /// No thread can be made in this kind of place, or too many are active (50024, 160006).
    #[error("no thread can be opened here")]
    NoThreads,
    /// AutoMod or a link filter refused the text (200000, 240000).
    #[error("a filter of the server refused the text")]
    Filtered,
    /// Anything else: a fault of ours, not worth another try.
    #[error("discord refused: {0}")]
    Refused(String),
}

/// The platform that people see. Every call has a deadline of its own and is queued behind the other calls of its channel.
#[async_trait]
pub trait Surface: Send + Sync + std::fmt::Debug {
    /// Opens a thread on a message, or finds the one that hangs there already (160004).
    async fn open_thread(
        &self,
        channel: ChannelId,
        message: MessageId,
        name: &str,
    ) -> Result<ThreadId, SurfaceError>;

    /// Says something. Sent again after faults: the nonce keeps it single.
    async fn post(
        &self,
        channel: ChannelId,
        post: Post,
        nonce: Nonce,
    ) -> Result<MessageId, SurfaceError>;

    /// Returns our own messages in a channel that are newer than `after`, oldest first, at most a hundred: to find out after a
    /// restart whether something that was on its way had arrived.
    async fn ours_after(
        &self,
        channel: ChannelId,
        after: MessageId,
    ) -> Result<Vec<Ours>, SurfaceError>;

    /// Replaces text and buttons of one of our messages; its files stay. Never notifies anybody.
    async fn edit(
        &self,
        channel: ChannelId,
        message: MessageId,
        post: Post,
    ) -> Result<(), SurfaceError>;

    /// Deletes one of our messages; one that is gone is no error.
    async fn delete(&self, channel: ChannelId, message: MessageId) -> Result<(), SurfaceError>;

    /// Returns what people wrote after this id in the places that the bot sees, oldest first, bounded in number: what was
    /// missed while nobody listened. What was heard already is among it.
    async fn missed(&self, after: MessageId) -> Vec<InboundMessage>;

    /// Puts a reaction on a message. Decoration: fire and forget, dropped under pressure.
    fn react(&self, channel: ChannelId, message: MessageId, emoji: &'static str);

    /// Takes our reaction away again, likewise.
    fn unreact(&self, channel: ChannelId, message: MessageId, emoji: &'static str);

    /// Bytes that one attached file may have on this server.
    fn file_limit(&self, guild: GuildId) -> u64;

    /// Fetches a file of a request, from the platform's own addresses only, without redirects; more than `most` bytes is
    /// [`SurfaceError::TooLarge`]. An expired address is refreshed by reading its message again (`channel`).
    async fn fetch(
        &self,
        channel: ChannelId,
        attachment: &Attachment,
        most: u64,
    ) -> Result<Bytes, SurfaceError>;

    /// Returns the roles of a member now; `None` if they have left the server.
    async fn roles(
        &self,
        guild: GuildId,
        member: MemberId,
    ) -> Result<Option<Vec<RoleId>>, SurfaceError>;
}

/// The driver's three ports.
#[derive(Clone, Debug)]
pub struct Ports {
    /// What people see.
    pub surface: Arc<dyn Surface>,
    /// Where turns run.
    pub sandbox: Arc<dyn Sandbox>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_button_is_about_comes_back_from_its_id() {
        let longest = Slug::try_from("a".repeat(32)).unwrap();
        let (member, channel) = (MemberId(u64::MAX), ChannelId(u64::MAX));
        let decide = |project: Option<&Slug>, level| {
            Button::Decide(Decide {
                member,
                channel,
                project: project.cloned(),
                level,
            })
        };
        let table = [
            Button::Stop(TurnId(u64::MAX)),
            Button::Details(TurnId(1)),
            Button::Retry(TurnId(1)),
            Button::Ask(Some(longest.clone())),
            Button::Ask(None),
            decide(Some(&longest), Some(Level::View)),
            decide(Some(&longest), Some(Level::Chat)),
            decide(Some(&longest), Some(Level::Ship)),
            decide(Some(&longest), None),
            decide(None, None),
        ];
        for button in table {
            let id = button.id();
            assert!(id.len() <= 100, "{id}");
            assert_eq!(Button::from_id(&id), Some(button));
            assert_eq!(Choice::from_id(&id), None);
        }
        for choice in [
            Choice::Project(TurnId(u64::MAX)),
            Choice::Access { member, channel },
        ] {
            let id = choice.id();
            assert!(id.len() <= 100, "{id}");
            assert_eq!(Choice::from_id(&id), Some(choice));
            assert_eq!(Button::from_id(&id), None);
        }
    }

    #[test]
    fn an_id_that_is_not_ours_names_nothing() {
        let table = [
            "",
            "1:",
            "0:stop:1",
            "1:stop:x",
            "1:access:",
            "1:access:UPPER",
            "1:decide:chat:1:2",
            "1:decide:all:1:2:site",
            "1:decide:chat:1:2:site:more",
            "1:which:1",
            "1:project:-1",
        ];
        for id in table {
            assert_eq!(Button::from_id(id), None, "{id}");
            assert_eq!(Choice::from_id(id), None, "{id}");
        }
    }
}
