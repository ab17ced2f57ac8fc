//! The names of things. Discord's ids become these at the border and stay these.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::time::Moment;

/// Milliseconds between 1970 and Discord's epoch, 2015-01-01 (Discord reference, "Snowflakes").
const DISCORD_EPOCH_MS: i64 = 1_420_070_400_000;

macro_rules! snowflake {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// Returns the least id that Discord can make at this moment.
            pub fn at(moment: Moment) -> $name {
                $name(u64::try_from(moment.0.saturating_sub(DISCORD_EPOCH_MS)).unwrap_or(0) << 22)
            }

            /// Returns when Discord made this id.
            pub fn made_at(self) -> Moment {
                Moment(i64::try_from(self.0 >> 22).unwrap_or(i64::MAX - DISCORD_EPOCH_MS) + DISCORD_EPOCH_MS)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

snowflake!(
    /// A person on the server.
    MemberId,
    /// A Discord server.
    GuildId,
    /// A channel of any kind, threads included.
    ChannelId,
    /// A thread that holds a chat; also the chat's name. Equal to the id of the message it hangs on, where there is one.
    ThreadId,
    /// A message.
    MessageId,
    /// A Discord role.
    RoleId,
    /// One use of a slash command, button, menu or modal.
    InteractionId,
    /// A file attached to a message.
    AttachmentId,
    /// One turn: the id of the message or interaction that asked for it, so that a replay names the same turn.
    TurnId,
);

impl ThreadId {
    /// Returns the thread as the channel that it is on Discord.
    pub fn channel(self) -> ChannelId {
        ChannelId(self.0)
    }
}

/// A project's short name: 1 to 32 of `a-z`, `0-9`, `-`, beginning with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Slug(String);

impl Slug {
    /// Returns the slug's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no slug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no project slug: use 1 to 32 of a-z, 0-9 and -, beginning with a letter or digit"
)]
pub struct NotASlug(pub String);

impl FromStr for Slug {
    type Err = NotASlug;

    fn from_str(text: &str) -> Result<Self, NotASlug> {
        let fits = (1..=32).contains(&text.len())
            && !text.starts_with('-')
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotASlug(text.to_owned()))
        }
    }
}

impl TryFrom<String> for Slug {
    type Error = NotASlug;

    fn try_from(text: String) -> Result<Self, NotASlug> {
        text.parse()
    }
}

impl From<Slug> for String {
    fn from(slug: Slug) -> Self {
        slug.0
    }
}

impl fmt::Display for Slug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The sandbox user that a chat runs as: up to eight characters of `a-z0-9`, a letter first.
///
/// Configured, or minted by the bot with eight characters; never made from a Discord id: open-terminal keeps only the first eight letters and digits of
/// what it is sent, so two people could share one (measured, 0.14.5).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccountId(pub String);

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The agent's own name of a conversation, a UUID chosen by the bot (`--session-id`, `--resume`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub String);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
