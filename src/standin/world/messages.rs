//! Posting, editing, deleting messages and reacting to them. Whether somebody may do so is for the
//! caller to ask.

use bytes::Bytes;
use serde_json::{Value, json};

use super::text::{Mentioned, mentions_in};
use super::{Allowed, Attachment, Id, Message, Reaction, Reference, World, emoji_of, intent};
use crate::standin::permissions as may;

/// A file that comes with a message.
#[derive(Debug, Clone)]
pub(crate) struct NewFile {
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
    pub(crate) description: Option<String>,
    /// Seconds, for a voice message.
    pub(crate) voice_seconds: Option<f64>,
}

/// A message that is about to be posted.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) author: Id,
    pub(crate) kind: u8,
    pub(crate) content: String,
    pub(crate) embeds: Vec<Value>,
    pub(crate) components: Vec<Value>,
    pub(crate) flags: u64,
    pub(crate) allowed: Allowed,
    pub(crate) reference: Option<Reference>,
    pub(crate) files: Vec<NewFile>,
    pub(crate) nonce: Option<Value>,
    pub(crate) interaction: Option<Value>,
    pub(crate) snapshot: Option<Value>,
    pub(crate) stickers: Vec<Value>,
    pub(crate) poll: Option<Value>,
    pub(crate) only_for: Option<Id>,
}

impl Draft {
    /// Returns a plain text by somebody.
    pub(crate) fn text(author: Id, content: &str) -> Draft {
        Draft {
            author,
            kind: 0,
            content: content.to_owned(),
            embeds: vec![],
            components: vec![],
            flags: 0,
            allowed: Allowed::everything(),
            reference: None,
            files: vec![],
            nonce: None,
            interaction: None,
            snapshot: None,
            stickers: vec![],
            poll: None,
            only_for: None,
        }
    }
}

/// What an edit changes; None leaves as it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Change {
    pub(crate) content: Option<String>,
    pub(crate) embeds: Option<Vec<Value>>,
    pub(crate) components: Option<Vec<Value>>,
    pub(crate) flags: Option<u64>,
    pub(crate) allowed: Option<Allowed>,
    /// The attachments to keep; new files are added.
    pub(crate) keep: Option<Vec<Id>>,
    pub(crate) files: Vec<NewFile>,
}

impl World {
    /// Posts a message and tells everybody. Un-archives the thread. Returns the message's id.
    pub(crate) fn post(&mut self, channel: Id, draft: Draft) -> Id {
        let id = self.clock.fresh_id();
        self.post_as(id, channel, draft);
        id
    }

    /// Posts a message under a given id.
    pub(crate) fn post_as(&mut self, id: Id, channel: Id, draft: Draft) {
        let born_ms = self.clock.now_ms();
        let attachments = self.store_files(draft.files);
        let mut message = Message {
            id,
            channel,
            author: draft.author,
            kind: draft.kind,
            content: draft.content,
            born_ms,
            edited_ms: None,
            edits: 0,
            deleted: false,
            reference: draft.reference,
            attachments,
            embeds: draft.embeds,
            components: draft.components,
            flags: draft.flags,
            mentions: vec![],
            mention_roles: vec![],
            mention_everyone: false,
            pings: vec![],
            reactions: vec![],
            nonce: draft.nonce,
            interaction: draft.interaction,
            snapshot: draft.snapshot,
            stickers: draft.stickers,
            poll: draft.poll,
            only_for: draft.only_for,
        };
        self.note_mentions(&mut message, &draft.allowed);
        if message.only_for.is_none() {
            self.set_archived(channel, false);
            self.join_mentioned(&message);
        }
        // Whoever is mentioned in a private thread is in it by now, and sees it.
        message.pings = self.notified(&message);
        if let Some(place) = self.channels.get_mut(&channel) {
            place.messages.insert(id, message);
        }
        self.tell_message("MESSAGE_CREATE", channel, id);
    }

    /// Tells everybody about a message; an ephemeral one is told to nobody but the page.
    pub(crate) fn tell_message(&mut self, name: &str, channel: Id, id: Id) {
        let Some(message) = self.message(channel, id) else {
            return;
        };
        let data = self.show_message_event(message);
        let secret = message.only_for.is_some();
        self.tell(name, data, self.message_intent(channel), channel);
        if secret && let Some(news) = self.outbox.last_mut() {
            news.for_bot = false;
        }
    }

    fn store_files(&mut self, files: Vec<NewFile>) -> Vec<Attachment> {
        files
            .into_iter()
            .map(|file| self.store_file(file))
            .collect()
    }

    /// Keeps a file, to be found by its link, and returns what is told about it.
    pub(crate) fn store_file(&mut self, file: NewFile) -> Attachment {
        let id = self.clock.fresh_id();
        let name = cleansed(&file.name);
        let size = file.bytes.len();
        self.files.insert(id, file.bytes);
        Attachment {
            id,
            size,
            content_type: content_type(&name).map(str::to_owned),
            description: file.description,
            voice_seconds: file.voice_seconds,
            name,
        }
    }

    /// Fills in whom the text mentions, as far as it may.
    fn note_mentions(&self, message: &mut Message, allowed: &Allowed) {
        let Mentioned {
            users,
            roles,
            everyone,
        } = mentions_in(&message.content);
        let known = |user: &Id| self.users.contains_key(user) && allowed.users.admits(*user);
        message.mentions = users.into_iter().filter(known).collect();
        message.mention_roles = roles
            .into_iter()
            .filter(|role| allowed.roles.admits(*role))
            .collect();
        let may_all =
            self.permissions(message.author, message.channel) & may::MENTION_EVERYONE != 0;
        message.mention_everyone = everyone && allowed.everyone && may_all;
        if message.kind == 19
            && allowed.replied_user
            && let Some(reference) = message.reference
            && let Some(target) = reference
                .message
                .and_then(|id| self.message(reference.channel, id))
            && !message.mentions.contains(&target.author)
        {
            message.mentions.push(target.author);
        }
    }

    /// Returns whom a new message notifies: whoever is mentioned in one way or another and sees the
    /// place.
    fn notified(&self, message: &Message) -> Vec<Id> {
        let Some(guild) = self.guild_of(message.channel) else {
            return message.mentions.clone();
        };
        let may_all =
            self.permissions(message.author, message.channel) & may::MENTION_EVERYONE != 0;
        let pinging: Vec<Id> = guild
            .roles
            .iter()
            .filter(|role| role.mentionable || role.bot.is_some() || may_all)
            .map(|role| role.id)
            .filter(|role| message.mention_roles.contains(role))
            .collect();
        let reached = |(user, member): &(&Id, &super::Member)| {
            let by_role = member.roles.iter().any(|role| pinging.contains(role));
            message.mentions.contains(user) || by_role || message.mention_everyone
        };
        let reached = guild.members.iter().filter(reached).map(|(user, _)| *user);
        reached
            .filter(|user| *user != message.author && self.sees(*user, message.channel))
            .collect()
    }

    /// Adds people who are mentioned in a thread to it, as Discord does.
    fn join_mentioned(&mut self, message: &Message) {
        for user in message.mentions.iter().copied().chain([message.author]) {
            self.join_thread(message.channel, user);
        }
    }

    /// Changes a message and tells everybody. Nobody is notified by an edit.
    pub(crate) fn edit(&mut self, channel: Id, id: Id, change: Change) {
        let added = self.store_files(change.files);
        let now = self.clock.now_ms();
        let Some(mut message) = self.message(channel, id).cloned() else {
            return;
        };
        if let Some(keep) = change.keep {
            message.attachments.retain(|file| keep.contains(&file.id));
        }
        message.attachments.extend(added);
        message.content = change.content.unwrap_or(message.content);
        message.embeds = change.embeds.unwrap_or(message.embeds);
        message.components = change.components.unwrap_or(message.components);
        // The first content of a promised answer is its birth, not an edit.
        if message.flags & Message::LOADING == 0 {
            message.edits += 1;
            message.edited_ms = Some(now);
        }
        message.flags = change.flags.unwrap_or(message.flags) & !Message::LOADING;
        self.note_mentions(
            &mut message,
            &change.allowed.unwrap_or_else(Allowed::everything),
        );
        if let Some(place) = self.channels.get_mut(&channel) {
            place.messages.insert(id, message);
        }
        self.tell_message("MESSAGE_UPDATE", channel, id);
    }

    /// Deletes a message and tells everybody.
    pub(crate) fn delete_message(&mut self, channel: Id, id: Id) {
        if self.mark_deleted(channel, id) {
            let mut data = json!({ "id": id.to_string(), "channel_id": channel.to_string() });
            self.add_guild_id(channel, &mut data);
            self.tell(
                "MESSAGE_DELETE",
                data,
                self.message_intent(channel),
                channel,
            );
        }
    }

    /// Deletes several messages at once and tells everybody.
    pub(crate) fn delete_messages(&mut self, channel: Id, ids: &[Id]) {
        let gone: Vec<String> = ids
            .iter()
            .filter(|id| self.mark_deleted(channel, **id))
            .map(Id::to_string)
            .collect();
        let mut data = json!({ "ids": gone, "channel_id": channel.to_string() });
        self.add_guild_id(channel, &mut data);
        self.tell(
            "MESSAGE_DELETE_BULK",
            data,
            self.message_intent(channel),
            channel,
        );
    }

    /// Marks a message as gone; false if it was gone already. An ephemeral one leaves without a
    /// word.
    fn mark_deleted(&mut self, channel: Id, id: Id) -> bool {
        let place = self.channels.get_mut(&channel);
        let Some(message) = place.and_then(|place| place.messages.get_mut(&id)) else {
            return false;
        };
        !std::mem::replace(&mut message.deleted, true) && message.only_for.is_none()
    }

    /// Adds the server's id to an event's data, where the place has one.
    pub(crate) fn add_guild_id(&self, channel: Id, data: &mut Value) {
        if let Some(guild) = self.guild_of(channel) {
            data["guild_id"] = json!(guild.id.to_string());
        }
    }

    /// Puts somebody's reaction under a message, or takes it away; tells everybody if that changed
    /// anything.
    pub(crate) fn react(&mut self, channel: Id, id: Id, user: Id, emoji: &str, present: bool) {
        let place = self.channels.get_mut(&channel);
        let Some(message) = place.and_then(|place| place.messages.get_mut(&id)) else {
            return;
        };
        let author = message.author;
        if !change_reaction(&mut message.reactions, user, emoji, present) {
            return;
        }
        let name = if present {
            "MESSAGE_REACTION_ADD"
        } else {
            "MESSAGE_REACTION_REMOVE"
        };
        let mut data = json!({
            "user_id": user.to_string(), "channel_id": channel.to_string(), "message_id": id.to_string(),
            "emoji": emoji_of(emoji), "burst": false, "type": 0, "message_author_id": author.to_string(),
        });
        self.add_guild_id(channel, &mut data);
        if present
            && let Some(member) = self
                .guild_of(channel)
                .and_then(|guild| self.show_member(guild, user))
        {
            data["member"] = member;
        }
        let intents = match self.guild_of(channel) {
            Some(_) => intent::GUILD_MESSAGE_REACTIONS,
            None => intent::DIRECT_MESSAGE_REACTIONS,
        };
        self.tell(name, data, intents, channel);
    }
}

fn change_reaction(reactions: &mut Vec<Reaction>, user: Id, emoji: &str, present: bool) -> bool {
    let place = reactions
        .iter()
        .position(|reaction| reaction.emoji == emoji);
    match (place, present) {
        (Some(place), true) if reactions[place].users.contains(&user) => false,
        (Some(place), true) => {
            reactions[place].users.push(user);
            true
        }
        (None, true) => {
            reactions.push(Reaction {
                emoji: emoji.to_owned(),
                users: vec![user],
            });
            true
        }
        (Some(place), false) if reactions[place].users.contains(&user) => {
            reactions[place].users.retain(|each| *each != user);
            reactions.retain(|reaction| !reaction.users.is_empty());
            true
        }
        (_, false) => false,
    }
}

/// Returns a file's name as Discord stores it: spaces become `_`, what is not plain ASCII goes.
fn cleansed(name: &str) -> String {
    let base = name
        .rsplit(['/', '\\'])
        .next()
        .unwrap_or_default()
        .replace(' ', "_");
    let kept: String = base
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "_.-".contains(*c))
        .collect();
    match kept.trim_start_matches(['.', '_']) {
        "" => "unknown".to_owned(),
        kept => kept.to_owned(),
    }
}

/// Returns the content type that belongs to a file's ending.
pub(crate) fn content_type(name: &str) -> Option<&'static str> {
    const TYPES: &[(&str, &str)] = &[
        ("png", "image/png"),
        ("jpg", "image/jpeg"),
        ("jpeg", "image/jpeg"),
        ("gif", "image/gif"),
        ("webp", "image/webp"),
        ("txt", "text/plain; charset=utf-8"),
        ("md", "text/markdown; charset=utf-8"),
        ("csv", "text/csv; charset=utf-8"),
        ("json", "application/json"),
        ("pdf", "application/pdf"),
        ("zip", "application/zip"),
        ("ogg", "audio/ogg"),
    ];
    let ending = name.rsplit_once('.')?.1.to_ascii_lowercase();
    TYPES
        .iter()
        .find(|(known, _)| *known == ending)
        .map(|(_, content_type)| *content_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demo() -> (World, Id, Id, Id) {
        let world = World::demo();
        let (general, ada, ben) = (
            world.channel_id("general"),
            world.member_id("ada"),
            world.member_id("ben"),
        );
        (world, general.unwrap(), ada.unwrap(), ben.unwrap())
    }

    #[test]
    fn a_message_notifies_whom_it_may() {
        let (mut world, general, ada, ben) = demo();
        let bot = world.bot_id();
        let text = format!("<@{ben}> @everyone <@{bot}>");
        let id = world.post(
            general,
            Draft {
                allowed: Allowed::users_only(),
                ..Draft::text(ada, &text)
            },
        );
        let message = world.message(general, id).unwrap();
        assert_eq!(message.pings, vec![ben, bot]);
        assert!(!message.mention_everyone);
        let loud = world.post(general, Draft::text(ada, &text));
        assert_eq!(world.message(general, loud).unwrap().pings.len(), 4);
    }

    #[test]
    fn an_edit_notifies_nobody_and_appends_files_to_those_it_keeps() {
        let (mut world, general, ada, ben) = demo();
        let file = |name: &str| NewFile {
            name: name.into(),
            bytes: Bytes::new(),
            description: None,
            voice_seconds: None,
        };
        let id = world.post(
            general,
            Draft {
                files: vec![file("a.txt"), file("b.txt")],
                ..Draft::text(ada, "x")
            },
        );
        let kept = world.message(general, id).unwrap().attachments[1].id;
        let content = Some(format!("<@{ben}>"));
        world.edit(
            general,
            id,
            Change {
                content,
                keep: Some(vec![kept]),
                files: vec![file("c.txt")],
                ..Change::default()
            },
        );
        let message = world.message(general, id).unwrap();
        let names: Vec<&str> = message
            .attachments
            .iter()
            .map(|file| file.name.as_str())
            .collect();
        assert_eq!(names, ["b.txt", "c.txt"]);
        assert_eq!(
            (
                message.mentions.clone(),
                message.pings.clone(),
                message.edits
            ),
            (vec![ben], vec![], 1)
        );
    }

    #[test]
    fn a_censored_message_has_no_content_unless_it_mentions_the_bot() {
        let (mut world, general, ada, _) = demo();
        let bot = world.bot_id();
        for (text, seen) in [
            ("secret".to_owned(), ""),
            (format!("<@{bot}> hi"), "<@1213398211451555840> hi"),
        ] {
            let id = world.post(general, Draft::text(ada, &text));
            let mut shown = world.show_message(world.message(general, id).unwrap());
            world.censor(&mut shown);
            assert_eq!(shown["content"], seen);
        }
    }

    #[test]
    fn file_names_are_cleansed_as_discord_does() {
        for (given, stored) in [
            ("a b.txt", "a_b.txt"),
            ("../.env", "env"),
            ("[x](y).png", "xy.png"),
            ("日本", "unknown"),
        ] {
            assert_eq!(cleansed(given), stored);
        }
    }
}
