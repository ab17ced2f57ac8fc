//! The whole world as `GET /standin/world` tells it.

use serde_json::{Value, json};

use super::{Channel, Guild, Id, Message, World, emoji_of};

impl World {
    /// Returns the world as people see it: servers, channels, threads, messages (deleted ones
    /// included, marked).
    pub(crate) fn view(&self) -> Value {
        let direct = self.channels.values().filter(|place| place.guild.is_none());
        let guilds: Vec<Value> = self
            .guilds
            .values()
            .map(|guild| self.view_guild(guild))
            .collect();
        let commands = self.commands.iter().map(|command| {
            let mut shown = command.definition.clone();
            shown["guild_id"] = json!(command.guild.map(|guild| guild.to_string()));
            shown
        });
        json!({
            "guilds": guilds,
            "direct": direct.map(|place| self.view_channel(place)).collect::<Vec<Value>>(),
            "commands": commands.collect::<Vec<Value>>(),
            "bot": { "id": self.bot.id.to_string(), "name": self.name_of(self.bot.id) },
            "suggestion": self.suggestion,
        })
    }

    fn view_guild(&self, guild: &Guild) -> Value {
        let roles = guild.roles.iter().map(|role| {
            json!({ "id": role.id.to_string(), "name": role.name, "permissions": role.permissions.to_string() })
        });
        let mut channels: Vec<&Channel> = self
            .channels
            .values()
            .filter(|place| place.guild == Some(guild.id) && place.thread.is_none())
            .collect();
        channels.sort_by_key(|place| (place.position, place.id));
        let members = guild.members.iter().map(|(id, member)| {
            let roles = guild.roles.iter().filter(|role| member.roles.contains(&role.id));
            let bot = self.users.get(id).is_some_and(|user| user.bot);
            json!({
                "id": id.to_string(), "name": self.name_of(*id), "nick": member.nick, "bot": bot,
                "owner": *id == guild.owner, "roles": roles.map(|role| role.name.as_str()).collect::<Vec<&str>>(),
            })
        });
        json!({
            "id": guild.id.to_string(), "name": guild.name, "roles": roles.collect::<Vec<Value>>(),
            "channels": channels.into_iter().map(|place| self.view_channel(place)).collect::<Vec<Value>>(),
            "members": members.collect::<Vec<Value>>(),
        })
    }

    fn view_channel(&self, place: &Channel) -> Value {
        // The empty note with which a thread begins is seen by nobody: clients show the message
        // that it points to.
        let seen = place.messages.values().filter(|message| message.kind != 21);
        let messages: Vec<Value> = seen.map(|message| self.view_message(message)).collect();
        let mut shown = json!({
            "id": place.id.to_string(), "name": place.name, "kind": place.kind.word(), "messages": messages,
        });
        match &place.thread {
            Some(thread) => {
                shown["archived"] = json!(thread.archived);
                shown["locked"] = json!(thread.locked);
                shown["owner"] = json!(self.name_of(thread.owner));
                shown["members"] = thread
                    .members
                    .keys()
                    .map(|user| json!(self.name_of(*user)))
                    .collect();
            }
            None => {
                let threads = self
                    .channels
                    .values()
                    .filter(|thread| thread.parent == Some(place.id));
                shown["threads"] = threads.map(|thread| self.view_channel(thread)).collect();
            }
        }
        shown
    }

    /// Returns one message as people see it.
    pub(crate) fn view_message(&self, message: &Message) -> Value {
        let names = |users: &[Id]| {
            users
                .iter()
                .map(|user| self.name_of(*user))
                .collect::<Vec<String>>()
        };
        let attachments = message.attachments.iter().map(|file| {
            let url = file.show(&self.base_url, message.channel)["url"].clone();
            json!({ "id": file.id.to_string(), "name": file.name, "size": file.size, "url": url })
        });
        let reactions = message.reactions.iter().map(|reaction| {
            json!({ "emoji": emoji_of(&reaction.emoji)["name"], "users": names(&reaction.users) })
        });
        let reply_to = message
            .reference
            .filter(|_| message.kind == 19)
            .and_then(|reference| reference.message);
        json!({
            "id": message.id.to_string(), "author": self.name_of(message.author), "kind": message.kind,
            "content": message.content, "edits": message.edits, "deleted": message.deleted,
            "reply_to": reply_to.map(|id| id.to_string()), "components": message.components, "embeds": message.embeds,
            "attachments": attachments.collect::<Vec<Value>>(), "reactions": reactions.collect::<Vec<Value>>(),
            "pings": names(&message.pings), "flags": message.flags,
            "only_for": message.only_for.map(|user| self.name_of(user)),
        })
    }
}
