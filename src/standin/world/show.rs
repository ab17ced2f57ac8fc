//! Discord's JSON forms of what is in the world.

use serde_json::{Value, json};

use super::{Attachment, Channel, Guild, Id, Kind, Member, Message, Role, User, World};
use crate::standin::clock::{made_at_ms, rfc3339};

impl User {
    /// Returns the account as Discord shows it.
    pub(crate) fn show(&self) -> Value {
        json!({
            "id": self.id.to_string(), "username": self.name, "discriminator": "0", "global_name": null, "avatar": null,
            "bot": self.bot, "public_flags": 0, "flags": 0, "primary_guild": null, "avatar_decoration_data": null,
        })
    }
}

impl Member {
    /// Returns the membership as Discord shows it, without the account.
    pub(crate) fn show(&self) -> Value {
        let roles: Vec<String> = self.roles.iter().map(Id::to_string).collect();
        json!({
            "nick": self.nick, "roles": roles, "joined_at": rfc3339(self.joined_ms), "premium_since": null,
            "deaf": false, "mute": false, "flags": 0, "pending": false, "avatar": null, "banner": null,
            "communication_disabled_until": null,
        })
    }
}

impl Role {
    fn show(&self, position: usize) -> Value {
        let mut shown = json!({
            "id": self.id.to_string(), "name": self.name, "permissions": self.permissions.to_string(),
            "position": position, "color": 0, "hoist": false, "managed": self.bot.is_some(),
            "colors": { "primary_color": 0, "secondary_color": null, "tertiary_color": null },
            "mentionable": self.mentionable, "icon": null, "unicode_emoji": null, "flags": 0,
        });
        if let Some(bot) = self.bot {
            shown["tags"] = json!({ "bot_id": bot.to_string() });
        }
        shown
    }
}

impl Guild {
    /// Returns the roles as Discord shows them.
    pub(crate) fn show_roles(&self) -> Vec<Value> {
        self.roles
            .iter()
            .enumerate()
            .map(|(position, role)| role.show(position))
            .collect()
    }

    /// Returns the server as `GET /guilds/{id}` shows it.
    pub(crate) fn show(&self) -> Value {
        json!({
            "id": self.id.to_string(), "name": self.name, "icon": null, "description": null, "home_header": null,
            "splash": null, "discovery_splash": null, "features": [], "banner": null,
            "owner_id": self.owner.to_string(), "application_id": null, "region": "deprecated",
            "afk_channel_id": null, "afk_timeout": 300, "system_channel_id": null, "system_channel_flags": 0,
            "widget_enabled": false, "widget_channel_id": null, "verification_level": 0, "roles": self.show_roles(),
            "default_message_notifications": 0, "mfa_level": 0, "explicit_content_filter": 0, "max_presences": null,
            "max_members": 500_000, "max_stage_video_channel_users": 50, "max_video_channel_users": 25,
            "vanity_url_code": null, "premium_tier": self.premium_tier, "premium_subscription_count": 0,
            "preferred_locale": "en-US", "rules_channel_id": null, "safety_alerts_channel_id": null,
            "public_updates_channel_id": null, "premium_progress_bar_enabled": false, "nsfw": false, "nsfw_level": 0,
            "emojis": [], "stickers": [], "incidents_data": null,
        })
    }
}

impl Attachment {
    /// Returns the attachment as Discord shows it.
    pub(crate) fn show(&self, base_url: &str, channel: Id) -> Value {
        let url = format!("{base_url}/attachments/{channel}/{}/{}", self.id, self.name);
        let mut shown = json!({
            "id": self.id.to_string(), "filename": self.name, "size": self.size, "url": url, "proxy_url": url,
        });
        if let Some(content_type) = &self.content_type {
            shown["content_type"] = json!(content_type);
        }
        if let Some(description) = &self.description {
            shown["description"] = json!(description);
        }
        if let Some(seconds) = self.voice_seconds {
            shown["duration_secs"] = json!(seconds);
            shown["waveform"] = json!("AAAA");
        }
        shown
    }
}

/// Returns an emoji's JSON form from `name` or `name:id`.
pub(crate) fn emoji_of(text: &str) -> Value {
    match text.rsplit_once(':') {
        Some((name, id)) if id.parse::<Id>().is_ok() => json!({ "id": id, "name": name }),
        _ => json!({ "id": null, "name": text }),
    }
}

impl World {
    /// Returns an account as Discord shows it; a placeholder for one that is gone.
    pub(crate) fn show_user(&self, user: Id) -> Value {
        let gone = || {
            User {
                id: user,
                name: "Deleted User".to_owned(),
                bot: false,
            }
            .show()
        };
        self.users.get(&user).map_or_else(gone, User::show)
    }

    /// Returns a membership with its account.
    pub(crate) fn show_member(&self, guild: &Guild, user: Id) -> Option<Value> {
        let mut shown = guild.members.get(&user)?.show();
        shown["user"] = self.show_user(user);
        Some(shown)
    }

    /// Returns the bot's own account as `GET /users/@me` shows it.
    pub(crate) fn show_me(&self) -> Value {
        let mut me = self.show_user(self.bot.id);
        me["mfa_enabled"] = json!(true);
        me["locale"] = json!("en-US");
        me["verified"] = json!(true);
        me["email"] = Value::Null;
        me
    }

    /// Returns the bot's application.
    pub(crate) fn show_application(&self) -> Value {
        // The owner of the first server is taken for the owner of the application.
        let owner = self.guilds.values().next().map_or(0, |guild| guild.owner);
        let granted = self.bot.privileged & super::intent::MESSAGE_CONTENT != 0;
        let flags = if granted { 1 << 19 } else { 0 };
        json!({
            "id": self.bot.id.to_string(), "name": self.name_of(self.bot.id), "icon": null, "description": "",
            "type": null, "verify_key": "0".repeat(64), "flags": flags, "flags_new": flags.to_string(),
            "redirect_uris": [], "interactions_endpoint_url": null, "role_connections_verification_url": null,
            "owner": self.show_user(owner), "approximate_guild_count": self.guilds.len(),
            "approximate_user_install_count": 0, "approximate_user_authorization_count": 0,
            "explicit_content_filter": 0, "team": null, "eligible_oauth2_scopes": [], "bot_public": false,
            "bot_require_code_grant": false, "bot": self.show_user(self.bot.id),
        })
    }

    /// Returns a channel or thread as Discord shows it to the bot.
    pub(crate) fn show_channel(&self, channel: &Channel) -> Value {
        let id = |id: Option<Id>| id.map(|id| id.to_string());
        let mut shown = json!({
            "id": channel.id.to_string(), "type": channel.kind.number(), "flags": 0,
            "last_message_id": id(channel.last_message()),
        });
        let Some(guild) = channel.guild else {
            let others = channel
                .recipients
                .iter()
                .filter(|user| **user != self.bot.id);
            shown["recipients"] = others.map(|user| self.show_user(*user)).collect();
            return shown;
        };
        shown["guild_id"] = json!(guild.to_string());
        shown["name"] = json!(channel.name);
        shown["parent_id"] = json!(id(channel.parent));
        shown["rate_limit_per_user"] = json!(0);
        match &channel.thread {
            Some(_) => self.show_thread_part(channel, &mut shown),
            None => show_channel_part(channel, &mut shown),
        }
        shown
    }

    fn show_thread_part(&self, channel: &Channel, shown: &mut Value) {
        let Some(thread) = &channel.thread else {
            return;
        };
        let messages = channel
            .messages
            .values()
            .filter(|message| message.kind != 21 && message.only_for.is_none());
        let sent = messages.clone().count();
        shown["owner_id"] = json!(thread.owner.to_string());
        shown["message_count"] = json!(messages.filter(|message| !message.deleted).count());
        shown["total_message_sent"] = json!(sent);
        shown["member_count"] = json!(thread.members.len().min(50));
        shown["thread_metadata"] = json!({
            "archived": thread.archived, "locked": thread.locked, "auto_archive_duration": thread.auto_archive,
            "archive_timestamp": rfc3339(thread.archive_ms), "create_timestamp": rfc3339(made_at_ms(channel.id)),
        });
        if channel.kind == Kind::PrivateThread {
            shown["thread_metadata"]["invitable"] = json!(true);
        }
        if let Some(member) = self.show_thread_member(channel, self.bot.id) {
            shown["member"] = member;
        }
    }

    /// Returns the membership of a thread.
    pub(crate) fn show_thread_member(&self, channel: &Channel, user: Id) -> Option<Value> {
        let joined = channel.thread.as_ref()?.members.get(&user)?;
        Some(json!({
            "id": channel.id.to_string(), "user_id": user.to_string(), "join_timestamp": rfc3339(*joined), "flags": 0,
        }))
    }

    /// Returns a message as Discord shows it by REST.
    pub(crate) fn show_message(&self, message: &Message) -> Value {
        let mut shown = self.show_message_alone(message);
        if message.kind == 19
            && let Some(reference) = message.reference
            && let Some(id) = reference.message
        {
            let target = self.message(reference.channel, id);
            shown["referenced_message"] =
                target.map_or(Value::Null, |target| self.show_message_alone(target));
        }
        if message.kind == 21
            && let Some(reference) = message.reference
            && let Some(target) = reference
                .message
                .and_then(|id| self.message(reference.channel, id))
        {
            shown["referenced_message"] = self.show_message_alone(target);
        }
        shown
    }

    fn show_message_alone(&self, message: &Message) -> Value {
        let ids = |ids: &[Id]| ids.iter().map(Id::to_string).collect::<Vec<String>>();
        let attachments = message
            .attachments
            .iter()
            .map(|file| file.show(&self.base_url, message.channel));
        let mut shown = json!({
            "id": message.id.to_string(), "channel_id": message.channel.to_string(), "type": message.kind,
            "author": self.show_user(message.author), "content": message.content, "tts": false, "pinned": false,
            "timestamp": rfc3339(made_at_ms(message.id)), "edited_timestamp": message.edited_ms.map(rfc3339),
            "mentions": message.mentions.iter().map(|user| self.show_user(*user)).collect::<Vec<Value>>(),
            "mention_roles": ids(&message.mention_roles), "mention_everyone": message.mention_everyone,
            "attachments": attachments.collect::<Vec<Value>>(), "embeds": message.embeds, "flags": message.flags,
            "components": message.components,
        });
        self.show_message_extras(message, &mut shown);
        shown
    }

    fn show_message_extras(&self, message: &Message, shown: &mut Value) {
        if !message.reactions.is_empty() {
            shown["reactions"] = message
                .reactions
                .iter()
                .map(|reaction| self.show_reaction(reaction))
                .collect();
        }
        if let Some(nonce) = &message.nonce {
            shown["nonce"] = nonce.clone();
        }
        if let Some(reference) = message.reference {
            let guild = self
                .guild_of(reference.channel)
                .map(|guild| guild.id.to_string());
            let kind = u8::from(reference.forward);
            shown["message_reference"] =
                json!({ "type": kind, "channel_id": reference.channel.to_string() });
            if let Some(id) = reference.message {
                shown["message_reference"]["message_id"] = json!(id.to_string());
            }
            if let Some(guild) = guild {
                shown["message_reference"]["guild_id"] = json!(guild);
            }
        }
        if let Some(interaction) = &message.interaction {
            shown["interaction_metadata"] = interaction.clone();
            shown["application_id"] = json!(self.bot.id.to_string());
            shown["webhook_id"] = json!(self.bot.id.to_string());
        }
        if let Some(snapshot) = &message.snapshot {
            shown["message_snapshots"] = json!([{ "message": snapshot }]);
        }
        if !message.stickers.is_empty() {
            shown["sticker_items"] = json!(message.stickers);
        }
        if let Some(poll) = &message.poll {
            shown["poll"] = poll.clone();
        }
        if message.flags & Message::HAS_THREAD != 0
            && let Some(thread) = self.channels.get(&message.id)
        {
            shown["thread"] = self.show_channel(thread);
        }
    }

    fn show_reaction(&self, reaction: &super::Reaction) -> Value {
        let count = reaction.users.len();
        json!({
            "emoji": emoji_of(&reaction.emoji), "count": count, "count_details": { "burst": 0, "normal": count },
            "burst_colors": [], "me_burst": false, "me": reaction.users.contains(&self.bot.id),
        })
    }

    /// Returns a message as the gateway tells it: with server and membership.
    pub(crate) fn show_message_event(&self, message: &Message) -> Value {
        let mut shown = self.show_message(message);
        let Some(channel) = self.channels.get(&message.channel) else {
            return shown;
        };
        shown["channel_type"] = json!(channel.kind.number());
        let Some(guild) = channel.guild.and_then(|guild| self.guilds.get(&guild)) else {
            return shown;
        };
        shown["guild_id"] = json!(guild.id.to_string());
        if let Some(member) = guild.members.get(&message.author) {
            shown["member"] = member.show();
        }
        if let Some(mentions) = shown["mentions"].as_array_mut() {
            for (user, shown) in message.mentions.iter().zip(mentions) {
                if let Some(member) = guild.members.get(user) {
                    shown["member"] = member.show();
                }
            }
        }
        shown
    }

    /// Returns what the gateway tells about a server after the login: everything that the bot sees
    /// of it.
    pub(crate) fn show_guild_create(&self, guild: &Guild, all_members: bool) -> Value {
        let mut shown = guild.show();
        let visible = || {
            self.channels
                .values()
                .filter(|place| place.guild == Some(guild.id) && self.sees(self.bot.id, place.id))
        };
        let threads =
            visible().filter(|place| place.thread.as_ref().is_some_and(|thread| !thread.archived));
        let channels = visible().filter(|place| place.thread.is_none());
        let members = guild
            .members
            .keys()
            .filter(|user| all_members || **user == self.bot.id);
        let joined = guild
            .members
            .get(&self.bot.id)
            .map_or(0, |member| member.joined_ms);
        shown["joined_at"] = json!(rfc3339(joined));
        shown["large"] = json!(false);
        shown["unavailable"] = json!(false);
        shown["member_count"] = json!(guild.members.len());
        shown["voice_states"] = json!([]);
        shown["members"] = members
            .filter_map(|user| self.show_member(guild, *user))
            .collect();
        shown["channels"] = channels.map(|place| self.show_channel(place)).collect();
        shown["threads"] = threads.map(|place| self.show_channel(place)).collect();
        shown["presences"] = json!([]);
        shown["stage_instances"] = json!([]);
        shown["guild_scheduled_events"] = json!([]);
        shown["soundboard_sounds"] = json!([]);
        shown
    }

    /// Takes from a shown message what an application without the Message Content intent does not
    /// get.
    pub(crate) fn censor(&self, shown: &mut Value) {
        let bot = self.bot.id.to_string();
        let mentions_bot = shown["mentions"]
            .as_array()
            .is_some_and(|users| users.iter().any(|user| user["id"] == bot));
        let direct = shown["channel_id"]
            .as_str()
            .and_then(|id| id.parse().ok())
            .is_some_and(|id: Id| {
                self.channels
                    .get(&id)
                    .is_some_and(|channel| channel.guild.is_none())
            });
        if shown["author"]["id"] != bot && !mentions_bot && !direct {
            shown["content"] = json!("");
            for list in ["embeds", "attachments", "components"] {
                shown[list] = json!([]);
            }
            if let Some(fields) = shown.as_object_mut() {
                fields.remove("poll");
                fields.remove("message_snapshots");
            }
        }
        if shown["referenced_message"].is_object() {
            self.censor(&mut shown["referenced_message"]);
        }
    }
}

fn show_channel_part(channel: &Channel, shown: &mut Value) {
    let overwrites = channel.overwrites.iter().map(|overwrite| {
        json!({
            "id": overwrite.id.to_string(), "type": u8::from(overwrite.for_member),
            "allow": overwrite.allow.to_string(), "deny": overwrite.deny.to_string(),
        })
    });
    shown["permission_overwrites"] = overwrites.collect();
    shown["position"] = json!(channel.position);
    shown["nsfw"] = json!(false);
    shown["topic"] = Value::Null;
    if channel.kind == Kind::Voice {
        shown["bitrate"] = json!(64_000);
        shown["user_limit"] = json!(0);
    }
    if channel.kind == Kind::Forum {
        shown["available_tags"] = json!([]);
        shown["default_reaction_emoji"] = Value::Null;
        shown["default_sort_order"] = Value::Null;
        shown["default_forum_layout"] = json!(0);
    }
}
