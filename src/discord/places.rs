//! What the gateway has told about the configured servers: which channel is what, which role is the bot's own, how
//! large files may be. Nothing here is trusted to be complete: a channel that is not known is asked for.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::domain::ids::{ChannelId, GuildId, MessageId};
use crate::domain::venue::{Place, PlaceKind};

use super::wire;

/// Bytes of one file where a server has no better limit (reference, "Uploading Files").
pub(super) const LEAST_FILE_LIMIT: u64 = 10 * MIB;

const MIB: u64 = 1024 * 1024;

/// Who the bot is on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Myself {
    /// The bot's user.
    pub(super) user: u64,
    /// The role that Discord made for it there, which people mention as if it were the bot.
    pub(super) role: Option<u64>,
}

/// The map; shared by everything that hears or speaks.
#[derive(Debug, Default)]
pub(super) struct Places {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    user: u64,
    roles: HashMap<GuildId, u64>,
    limits: HashMap<GuildId, u64>,
    places: HashMap<ChannelId, Place>,
    newest: HashMap<ChannelId, MessageId>,
}

impl Known {
    fn forget(&mut self, gone: impl Fn(&Place) -> bool) {
        self.places.retain(|_, place| !gone(place));
        let places = &self.places;
        self.newest
            .retain(|channel, _| places.contains_key(channel));
    }
}

impl Places {
    /// Learns which user the bot is.
    pub(super) fn be(&self, user: u64) {
        self.known().user = user;
    }

    /// Returns which user the bot is.
    pub(super) fn me(&self) -> u64 {
        self.known().user
    }

    /// Returns who the bot is on this server.
    pub(super) fn myself(&self, guild: GuildId) -> Myself {
        let known = self.known();
        Myself {
            user: known.user,
            role: known.roles.get(&guild).copied(),
        }
    }

    /// Learns a server from `GUILD_CREATE`: its channels, active threads, the bot's role and the size of files.
    pub(super) fn learn_guild(&self, raw: &Value) {
        let Some(guild) = wire::id(&raw["id"]).map(GuildId) else {
            return;
        };
        let channels = wire::list(&raw["channels"]).iter();
        for channel in channels.chain(wire::list(&raw["threads"])) {
            self.learn_channel(channel, Some(guild));
            let newest = wire::id(&channel["last_message_id"]).map(MessageId);
            if let (Some(channel), Some(newest)) = (wire::id(&channel["id"]), newest) {
                self.known().newest.insert(ChannelId(channel), newest);
            }
        }
        for role in wire::list(&raw["roles"]) {
            self.learn_role(guild, role);
        }
        self.known().limits.insert(guild, file_limit(raw));
    }

    /// Learns a role, if it is the bot's own.
    pub(super) fn learn_role(&self, guild: GuildId, raw: &Value) {
        let mut known = self.known();
        if known.user != 0
            && wire::id(&raw["tags"]["bot_id"]) == Some(known.user)
            && let Some(role) = wire::id(&raw["id"])
        {
            known.roles.insert(guild, role);
        }
    }

    /// Learns a channel or thread and returns its place; an archived thread is forgotten, since nothing happens there.
    pub(super) fn learn_channel(&self, raw: &Value, guild: Option<GuildId>) -> Option<Place> {
        let place = place(raw, guild)?;
        let archived = raw["thread_metadata"]["archived"].as_bool() == Some(true);
        if archived {
            self.known().forget(|known| known.channel == place.channel);
        } else {
            self.known().places.insert(place.channel, place);
        }
        Some(place)
    }

    /// Forgets a channel or thread, and the threads that hang in it.
    pub(super) fn forget_channel(&self, channel: ChannelId) {
        self.known()
            .forget(|place| place.channel == channel || place.parent == Some(channel));
    }

    /// Forgets a server that the bot was taken from.
    pub(super) fn forget_guild(&self, guild: GuildId) {
        let mut known = self.known();
        known.roles.remove(&guild);
        known.limits.remove(&guild);
        known.forget(|place| place.guild == guild);
    }

    /// Returns the place of a channel, if it is known.
    pub(super) fn find(&self, channel: ChannelId) -> Option<Place> {
        self.known().places.get(&channel).copied()
    }

    /// Returns the places where, when the last session began, something newer than `after` stood.
    pub(super) fn with_news(&self, after: MessageId) -> Vec<Place> {
        let known = self.known();
        let news = known.newest.iter().filter(|(_, newest)| **newest > after);
        news.filter_map(|(channel, _)| known.places.get(channel).copied())
            .collect()
    }

    /// Returns the bytes that one file may have on a server.
    pub(super) fn file_limit(&self, guild: GuildId) -> u64 {
        let known = self.known();
        known
            .limits
            .get(&guild)
            .copied()
            .unwrap_or(LEAST_FILE_LIMIT)
    }

    /// Learns from a refusal that files of this size are too large for the server of that channel.
    pub(super) fn lower_file_limit(&self, channel: ChannelId, refused: u64) {
        let mut known = self.known();
        let Some(guild) = known.places.get(&channel).map(|place| place.guild) else {
            return;
        };
        let lower = match refused {
            size if size > LEAST_FILE_LIMIT => LEAST_FILE_LIMIT,
            size => size.saturating_sub(1),
        };
        let limit = known.limits.entry(guild).or_insert(LEAST_FILE_LIMIT);
        *limit = lower.min(*limit);
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the place that a channel object describes. The parent of a channel is a category, which is no place.
pub(super) fn place(raw: &Value, guild: Option<GuildId>) -> Option<Place> {
    let kind = match raw["type"].as_u64()? {
        0 | 5 => PlaceKind::Text,
        10..=12 => PlaceKind::Thread,
        _ => PlaceKind::Other,
    };
    let parent = wire::id(&raw["parent_id"]).map(ChannelId);
    Some(Place {
        guild: wire::id(&raw["guild_id"]).map(GuildId).or(guild)?,
        channel: ChannelId(wire::id(&raw["id"])?),
        parent: parent.filter(|_| kind == PlaceKind::Thread),
        kind,
    })
}

/// Returns the bytes that one file may have, by the server's boosts.
fn file_limit(raw: &Value) -> u64 {
    let has = |name: &str| {
        let features = wire::list(&raw["features"]);
        features.iter().any(|feature| feature == name)
    };
    let by_tier = match raw["premium_tier"].as_u64() {
        Some(2) => 50 * MIB,
        Some(3) => 100 * MIB,
        _ => LEAST_FILE_LIMIT,
    };
    let by_feature = if has("MAX_FILE_SIZE_100_MB") {
        100 * MIB
    } else if has("MAX_FILE_SIZE_50_MB") {
        50 * MIB
    } else {
        LEAST_FILE_LIMIT
    };
    by_tier.max(by_feature)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn learned() -> Places {
        let places = Places::default();
        places.be(99);
        places.learn_guild(&json!({
            "id": "1", "premium_tier": 2, "features": [],
            "channels": [{"id": "2", "type": 0, "parent_id": "9"}, {"id": "3", "type": 15}, {"id": "4", "type": 2}],
            "threads": [{"id": "5", "type": 11, "parent_id": "2"}, {"id": "6", "type": 11, "parent_id": "3"}],
            "roles": [{"id": "1"}, {"id": "7", "tags": {"bot_id": "98"}}, {"id": "8", "tags": {"bot_id": "99"}}],
        }));
        places
    }

    #[test]
    fn a_server_tells_its_places_and_the_bots_own_role() {
        let places = learned();
        let found = |id| {
            let place = places.find(ChannelId(id)).unwrap();
            (place.kind, place.parent)
        };
        assert_eq!(found(2), (PlaceKind::Text, None));
        assert_eq!(found(4), (PlaceKind::Other, None));
        assert_eq!(found(5), (PlaceKind::Thread, Some(ChannelId(2))));
        assert_eq!(found(6), (PlaceKind::Thread, Some(ChannelId(3))));
        let role = Some(8);
        assert_eq!(places.myself(GuildId(1)), Myself { user: 99, role });
        assert_eq!(places.myself(GuildId(2)).role, None);
    }

    #[test]
    fn a_channel_goes_with_its_threads() {
        let places = learned();
        places.forget_channel(ChannelId(2));
        let left: Vec<bool> = [2, 4, 5, 6]
            .map(|id| places.find(ChannelId(id)).is_some())
            .to_vec();
        assert_eq!(left, [false, true, false, true]);
    }

    #[test]
    fn an_archived_thread_is_forgotten_and_an_active_one_learned_again() {
        let places = learned();
        let thread = |archived: bool| {
            json!({"id": "5", "type": 11, "parent_id": "2", "guild_id": "1",
                   "thread_metadata": {"archived": archived}})
        };
        places.learn_channel(&thread(true), None);
        assert_eq!(places.find(ChannelId(5)), None);
        places.learn_channel(&thread(false), None);
        assert!(places.find(ChannelId(5)).is_some());
    }

    #[test]
    fn the_file_limit_follows_the_server_and_what_it_refuses() {
        let places = learned();
        assert_eq!(places.file_limit(GuildId(1)), 50 * MIB);
        assert_eq!(places.file_limit(GuildId(2)), 10 * MIB);
        places.lower_file_limit(ChannelId(5), 30 * MIB);
        assert_eq!(places.file_limit(GuildId(1)), 10 * MIB);
        places.lower_file_limit(ChannelId(5), 9 * MIB);
        assert_eq!(places.file_limit(GuildId(1)), 9 * MIB - 1);
        places.lower_file_limit(ChannelId(5), 20 * MIB);
        assert_eq!(places.file_limit(GuildId(1)), 9 * MIB - 1);
    }
}
