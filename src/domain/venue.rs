//! Places, and whether one is ours.

use serde::{Deserialize, Serialize};

use super::ids::{ChannelId, GuildId};
use super::rules::Rules;

/// What kind of place a message stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlaceKind {
    /// A text or announcement channel: a mention opens a thread.
    Text,
    /// A thread or a forum post: a mention is continued in place.
    Thread,
    /// A voice or stage chat, where threads do not exist.
    Other,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The server.
    pub guild: GuildId,
    /// The channel or thread.
    pub channel: ChannelId,
    /// The channel or forum that a thread hangs in.
    pub parent: Option<ChannelId>,
    /// What it is.
    pub kind: PlaceKind,
}

/// Returns whether the bot listens here: a configured server, and a configured channel or a thread of one.
pub fn is_ours(rules: &Rules, place: &Place) -> bool {
    rules.guilds.contains(&place.guild)
        && (rules.channels.is_empty()
            || rules
                .channels
                .contains(&place.parent.unwrap_or(place.channel)))
}
