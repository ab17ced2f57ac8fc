//! Threads and channels: opening, archiving, joining, renaming, deleting.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Channel, Draft, Id, Kind, Message, Reference, Thread, World, intent};

/// What an update of a thread or channel changes; None leaves as it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct PlaceChange {
    pub(crate) name: Option<String>,
    pub(crate) archived: Option<bool>,
    pub(crate) locked: Option<bool>,
    pub(crate) auto_archive: Option<u64>,
}

impl World {
    /// Opens a thread on a message; its id is the message's.
    pub(crate) fn open_thread_on(
        &mut self,
        channel: Id,
        message: Id,
        owner: Id,
        name: &str,
        auto_archive: u64,
    ) -> Id {
        if let Some(starter) = self
            .channels
            .get_mut(&channel)
            .and_then(|place| place.messages.get_mut(&message))
        {
            starter.flags |= Message::HAS_THREAD;
        }
        let kind = match self.channels.get(&channel).map(|place| place.kind) {
            Some(Kind::Announcement) => Kind::AnnouncementThread,
            _ => Kind::PublicThread,
        };
        self.open_thread(message, channel, kind, owner, name, auto_archive);
        self.tell_message("MESSAGE_UPDATE", channel, message);
        let reference = Reference {
            channel,
            message: Some(message),
            forward: false,
        };
        self.post(
            message,
            Draft {
                kind: 21,
                reference: Some(reference),
                ..Draft::text(owner, "")
            },
        );
        message
    }

    /// Opens a thread without a message.
    pub(crate) fn open_thread_alone(
        &mut self,
        channel: Id,
        kind: Kind,
        owner: Id,
        name: &str,
        auto_archive: u64,
    ) -> Id {
        let id = self.clock.fresh_id();
        self.open_thread(id, channel, kind, owner, name, auto_archive);
        if kind == Kind::PublicThread
            && self
                .channels
                .get(&channel)
                .is_some_and(|place| place.kind == Kind::Text)
        {
            let reference = Reference {
                channel: id,
                message: None,
                forward: false,
            };
            self.post(
                channel,
                Draft {
                    kind: 18,
                    reference: Some(reference),
                    ..Draft::text(owner, name)
                },
            );
        }
        id
    }

    fn open_thread(
        &mut self,
        id: Id,
        parent: Id,
        kind: Kind,
        owner: Id,
        name: &str,
        auto_archive: u64,
    ) {
        let now = self.clock.now_ms();
        let guild = self.channels.get(&parent).and_then(|place| place.guild);
        let thread = Thread {
            owner,
            archived: false,
            locked: false,
            archive_ms: now,
            auto_archive,
            members: BTreeMap::from([(owner, now)]),
        };
        let place = Channel {
            parent: Some(parent),
            thread: Some(thread),
            ..Channel::new(id, guild, kind, name)
        };
        let mut data = self.show_channel(&place);
        data["newly_created"] = json!(true);
        self.channels.insert(id, place);
        self.tell("THREAD_CREATE", data, intent::GUILDS, id);
    }

    /// Adds somebody to a thread, if it is one and they are on the server.
    pub(crate) fn join_thread(&mut self, channel: Id, user: Id) {
        let now = self.clock.now_ms();
        let known = self
            .guild_of(channel)
            .is_some_and(|guild| guild.members.contains_key(&user));
        let Some(thread) = self
            .channels
            .get_mut(&channel)
            .and_then(|place| place.thread.as_mut())
        else {
            return;
        };
        if known && !thread.members.contains_key(&user) {
            thread.members.insert(user, now);
            self.tell_membership(channel, user, true);
            // To a private thread the bot comes as to a new one.
            if user == self.bot.id
                && let Some(place) = self.channels.get(&channel)
                && place.kind == Kind::PrivateThread
            {
                let data = self.show_channel(place);
                self.tell("THREAD_CREATE", data, intent::GUILDS, channel);
            }
        }
    }

    /// Takes somebody out of a thread.
    pub(crate) fn leave_thread(&mut self, channel: Id, user: Id) {
        let thread = self
            .channels
            .get_mut(&channel)
            .and_then(|place| place.thread.as_mut());
        if thread.is_some_and(|thread| thread.members.remove(&user).is_some()) {
            self.tell_membership(channel, user, false);
        }
    }

    fn tell_membership(&mut self, channel: Id, user: Id, added: bool) {
        let Some(place) = self.channels.get(&channel) else {
            return;
        };
        let count = place
            .thread
            .as_ref()
            .map_or(0, |thread| thread.members.len());
        let mut data = json!({ "id": channel.to_string(), "member_count": count.min(50) });
        if added {
            let mut member = self.show_thread_member(place, user).unwrap_or_default();
            if let Some(shown) = self
                .guild_of(channel)
                .and_then(|guild| self.show_member(guild, user))
            {
                member["member"] = shown;
            }
            data["added_members"] = json!([member]);
        } else {
            data["removed_member_ids"] = json!([user.to_string()]);
        }
        self.add_guild_id(channel, &mut data);
        let intents = if user == self.bot.id {
            intent::GUILDS
        } else {
            intent::GUILD_MEMBERS
        };
        self.tell("THREAD_MEMBERS_UPDATE", data, intents, channel);
    }

    /// Archives a thread or brings it back; tells everybody if that changes anything.
    pub(crate) fn set_archived(&mut self, channel: Id, archived: bool) {
        let thread = self
            .channels
            .get(&channel)
            .and_then(|place| place.thread.as_ref());
        if thread.is_some_and(|thread| thread.archived != archived) {
            self.change_place(
                channel,
                PlaceChange {
                    archived: Some(archived),
                    ..PlaceChange::default()
                },
            );
        }
    }

    /// Changes a thread or channel and tells everybody.
    pub(crate) fn change_place(&mut self, channel: Id, change: PlaceChange) {
        let now = self.clock.now_ms();
        let Some(place) = self.channels.get_mut(&channel) else {
            return;
        };
        if let Some(name) = change.name {
            place.name = name;
        }
        if let Some(thread) = &mut place.thread {
            thread.archive_ms = if change.archived.is_some() {
                now
            } else {
                thread.archive_ms
            };
            thread.archived = change.archived.unwrap_or(thread.archived);
            thread.locked = change.locked.unwrap_or(thread.locked);
            thread.auto_archive = change.auto_archive.unwrap_or(thread.auto_archive);
        }
        let name = if place.thread.is_some() {
            "THREAD_UPDATE"
        } else {
            "CHANNEL_UPDATE"
        };
        if let Some(place) = self.channels.get(&channel) {
            let data = self.show_channel(place);
            self.tell(name, data, intent::GUILDS, channel);
        }
    }

    /// Deletes a thread or channel (with its threads) and tells everybody.
    pub(crate) fn delete_place(&mut self, channel: Id) {
        let inner: Vec<Id> = self
            .channels
            .values()
            .filter(|place| place.parent == Some(channel))
            .map(|place| place.id)
            .collect();
        for thread in inner {
            self.delete_place(thread);
        }
        let Some(place) = self.channels.get(&channel) else {
            return;
        };
        let (name, data) = match &place.thread {
            Some(_) => {
                let mut data = json!({ "id": channel.to_string(), "type": place.kind.number() });
                data["parent_id"] = json!(place.parent.map(|parent| parent.to_string()));
                self.add_guild_id(channel, &mut data);
                ("THREAD_DELETE", data)
            }
            None => ("CHANNEL_DELETE", self.show_channel(place)),
        };
        self.tell(name, data, intent::GUILDS, channel);
        self.channels.remove(&channel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_its_starters_id_and_speaking_in_it_brings_it_back() {
        let mut world = World::demo();
        let (general, ada) = (
            world.channel_id("general").unwrap(),
            world.member_id("ada").unwrap(),
        );
        let starter = world.post(general, Draft::text(ada, "x"));
        let thread = world.open_thread_on(general, starter, ada, "a thread", 1440);
        assert_eq!(thread, starter);
        world.set_archived(thread, true);
        world.post(thread, Draft::text(ada, "y"));
        assert!(!world.channels[&thread].thread.as_ref().unwrap().archived);
        let names: Vec<&str> = world.outbox.iter().map(|news| news.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "MESSAGE_CREATE",
                "THREAD_CREATE",
                "MESSAGE_UPDATE",
                "MESSAGE_CREATE",
                "THREAD_UPDATE",
                "THREAD_UPDATE",
                "MESSAGE_CREATE"
            ]
        );
    }

    #[test]
    fn deleting_a_channel_deletes_its_threads_first() {
        let mut world = World::demo();
        let (general, ada) = (
            world.channel_id("general").unwrap(),
            world.member_id("ada").unwrap(),
        );
        let starter = world.post(general, Draft::text(ada, "x"));
        world.open_thread_on(general, starter, ada, "a thread", 1440);
        world.outbox.clear();
        world.delete_place(general);
        let names: Vec<&str> = world.outbox.iter().map(|news| news.name.as_str()).collect();
        assert_eq!(names, ["THREAD_DELETE", "CHANNEL_DELETE"]);
        assert!(!world.channels.contains_key(&starter));
    }
}
