//! People: finding them and places by name, direct messages, roles, names, coming and going.

use serde_json::{Value, json};

use super::{Channel, Id, Kind, Member, User, World, intent};

impl World {
    /// Finds an account by name or id.
    pub(crate) fn find_user(&self, text: &str) -> Option<Id> {
        let text = text.trim_start_matches('@');
        let by_id = || text.parse().ok().filter(|id| self.users.contains_key(id));
        self.member_id(text).or_else(by_id)
    }

    /// Finds a channel or thread by name or id; of several with the same name the newest.
    pub(crate) fn find_place(&self, text: &str) -> Option<Id> {
        let text = text.trim_start_matches('#');
        let by_id = text
            .parse()
            .ok()
            .filter(|id| self.channels.contains_key(id));
        by_id.or_else(|| {
            self.channels
                .values()
                .rev()
                .find(|place| place.name == text)
                .map(|place| place.id)
        })
    }

    /// Finds a message by id, wherever it is.
    pub(crate) fn find_message(&self, id: Id) -> Option<(Id, Id)> {
        let place = self
            .channels
            .values()
            .find(|place| place.messages.contains_key(&id))?;
        Some((place.id, id))
    }

    /// Returns the direct messages of two accounts, opened where they are new.
    pub(crate) fn direct_messages(&mut self, one: Id, other: Id) -> Id {
        let both =
            |place: &&Channel| place.recipients.contains(&one) && place.recipients.contains(&other);
        if let Some(place) = self.channels.values().find(both) {
            return place.id;
        }
        let id = self.clock.fresh_id();
        let name = format!("{} and {}", self.name_of(one), self.name_of(other));
        let place = Channel {
            recipients: vec![one, other],
            ..Channel::new(id, None, Kind::Direct, &name)
        };
        self.channels.insert(id, place);
        id
    }

    /// Writes the mentions of a text as Discord's clients send them: `@name` and `@&role` become
    /// ids.
    pub(crate) fn with_mentions(&self, text: &str) -> String {
        let roles = self
            .guilds
            .values()
            .flat_map(|guild| &guild.roles)
            .filter(|role| !role.name.starts_with('@'));
        let roles = roles.map(|role| (format!("@&{}", role.name), format!("<@&{}>", role.id)));
        let users = self
            .users
            .values()
            .map(|user| (format!("@{}", user.name), format!("<@{}>", user.id)));
        let mut names: Vec<(String, String)> = roles.chain(users).collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let mut written = String::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let ends = |length: usize| {
                !rest[length..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
            };
            match names
                .iter()
                .find(|(name, _)| rest.starts_with(name.as_str()) && ends(name.len()))
            {
                Some((name, id)) => {
                    written.push_str(id);
                    rest = &rest[name.len()..];
                }
                None => {
                    written.push(next);
                    rest = &rest[next.len_utf8()..];
                }
            }
        }
        written
    }

    /// Changes a membership and tells everybody.
    pub(crate) fn change_member(&mut self, guild: Id, user: Id, change: impl FnOnce(&mut Member)) {
        let Some(member) = self
            .guilds
            .get_mut(&guild)
            .and_then(|guild| guild.members.get_mut(&user))
        else {
            return;
        };
        change(member);
        let data = self.member_data(guild, user);
        // The bot is told of its own changes without the intent.
        let intents = if user == self.bot.id {
            0
        } else {
            intent::GUILD_MEMBERS
        };
        self.tell_guild("GUILD_MEMBER_UPDATE", data, intents, guild);
    }

    /// Brings somebody onto a server, as a new account if the name is new, and tells everybody.
    pub(crate) fn join_guild(&mut self, guild: Id, name: &str) -> Id {
        let id = self
            .find_user(name)
            .unwrap_or_else(|| self.clock.fresh_id());
        self.users.entry(id).or_insert_with(|| User {
            id,
            name: name.to_owned(),
            bot: false,
        });
        let joined_ms = self.clock.now_ms();
        if let Some(guild) = self.guilds.get_mut(&guild) {
            guild.members.entry(id).or_insert(Member {
                nick: None,
                roles: vec![],
                joined_ms,
            });
        }
        if id == self.bot.id {
            let data = self
                .guilds
                .get(&guild)
                .map(|guild| self.show_guild_create(guild, false));
            self.tell_guild(
                "GUILD_CREATE",
                data.unwrap_or_default(),
                intent::GUILDS,
                guild,
            );
        } else {
            let data = self.member_data(guild, id);
            self.tell_guild("GUILD_MEMBER_ADD", data, intent::GUILD_MEMBERS, guild);
        }
        id
    }

    /// Takes somebody off a server and tells everybody.
    pub(crate) fn leave_guild(&mut self, guild: Id, user: Id) {
        if user == self.bot.id {
            let data = json!({ "id": guild.to_string() });
            self.tell_guild("GUILD_DELETE", data, intent::GUILDS, guild);
        }
        if let Some(guild) = self.guilds.get_mut(&guild) {
            guild.members.remove(&user);
        }
        let data = json!({ "guild_id": guild.to_string(), "user": self.show_user(user) });
        self.tell_guild("GUILD_MEMBER_REMOVE", data, intent::GUILD_MEMBERS, guild);
    }

    fn member_data(&self, guild: Id, user: Id) -> Value {
        let shown = self
            .guilds
            .get(&guild)
            .and_then(|guild| self.show_member(guild, user));
        let mut data = shown.unwrap_or_else(|| json!({}));
        data["guild_id"] = json!(guild.to_string());
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_after_an_at_sign_become_mentions_where_the_name_ends() {
        let mut world = World::demo();
        let (ada, guild) = (world.member_id("ada").unwrap(), world.guild_id());
        let adam = world.join_guild(guild, "adam");
        let role = world.role_id("innkeeper").unwrap();
        let written = world.with_mentions("@ada, @adam @adaman @&innkeeper a@b é");
        assert_eq!(
            written,
            format!("<@{ada}>, <@{adam}> @adaman <@&{role}> a@b é")
        );
    }

    proptest::proptest! {
        #[test]
        fn a_text_without_names_stays_as_it_is(text in "[^@]{0,80}") {
            proptest::prop_assert_eq!(World::demo().with_mentions(&text), text);
        }

        #[test]
        fn any_text_is_written_and_read(text in ".{0,80}", at in 0usize..4) {
            let marks = ["@", "@&", "<@", "`"];
            let written = World::demo().with_mentions(&format!("{}{text}{}ada", marks[at], marks[at]));
            crate::standin::world::text::mentions_in(&written);
        }
    }
}
