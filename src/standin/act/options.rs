//! The options of a command: names and words of an action become what a client would send.

use serde_json::{Value, json};

use super::speak::read_file;
use crate::standin::clock::Id;
use crate::standin::own::Reason;
use crate::standin::shared::State;

/// What is sent for a command: its options, and the people, places and files that they name.
#[derive(Debug)]
pub(super) struct Options<'a> {
    state: &'a mut State,
    channel: Id,
    /// The option that is being completed; the others may then be half filled.
    focused: Option<&'a str>,
    resolved: Value,
}

impl<'a> Options<'a> {
    pub(super) fn new(state: &'a mut State, channel: Id, focused: Option<&'a str>) -> Options<'a> {
        Options {
            state,
            channel,
            focused,
            resolved: json!({}),
        }
    }

    /// Makes the `data` of a command's interaction. `words` are the steps to the subcommand.
    pub(super) fn data(
        mut self,
        command: &Value,
        words: &[&str],
        given: &Value,
    ) -> Result<Value, Reason> {
        let options = self.level(&command["options"], words, given)?;
        let mut data = json!({
            "id": command["id"], "name": command["name"], "type": 1, "options": options, "resolved": self.resolved,
        });
        if !command["guild_id"].is_null() {
            data["guild_id"] = command["guild_id"].clone();
        }
        Ok(data)
    }

    fn level(
        &mut self,
        defined: &Value,
        words: &[&str],
        given: &Value,
    ) -> Result<Vec<Value>, Reason> {
        let defined = defined.as_array().map(Vec::as_slice).unwrap_or_default();
        let is_group = |option: &Value| matches!(option["type"].as_u64(), Some(1 | 2));
        match words {
            [word, rest @ ..] => {
                let chosen = defined
                    .iter()
                    .find(|option| is_group(option) && option["name"] == *word);
                let chosen = chosen
                    .ok_or_else(|| Reason::new(404, format!("there is no subcommand {word:?}")))?;
                let inner = self.level(&chosen["options"], rest, given)?;
                Ok(vec![
                    json!({ "name": chosen["name"], "type": chosen["type"], "options": inner }),
                ])
            }
            [] if defined.iter().any(is_group) => {
                Err(Reason::new(400, "this command needs a subcommand"))
            }
            [] => self.values(defined, given),
        }
    }

    fn values(&mut self, defined: &[Value], given: &Value) -> Result<Vec<Value>, Reason> {
        let empty = serde_json::Map::new();
        let given = given.as_object().unwrap_or(&empty);
        if let Some(name) = given
            .keys()
            .find(|name| !defined.iter().any(|option| option["name"] == name.as_str()))
        {
            return Err(Reason::new(
                400,
                format!("this command has no option {name:?}"),
            ));
        }
        let mut sent = Vec::new();
        for option in defined {
            let name = option["name"].as_str().unwrap_or_default();
            match (given.get(name), self.focused) {
                (Some(value), Some(focused)) => {
                    let value = if option["type"] == 3 {
                        value.clone()
                    } else {
                        self.resolve(option, value)?
                    };
                    let mut entry = json!({ "name": name, "type": option["type"], "value": value });
                    if focused == name {
                        entry["focused"] = json!(true);
                    }
                    sent.push(entry);
                }
                (Some(value), None) => {
                    let value = self.resolve(option, value)?;
                    sent.push(json!({ "name": name, "type": option["type"], "value": value }));
                }
                (None, Some(focused)) if focused == name => {
                    sent.push(json!({ "name": name, "type": option["type"], "value": "", "focused": true }));
                }
                (None, None) if option["required"] == true => {
                    return Err(Reason::new(400, format!("the option {name:?} is required")));
                }
                (None, _) => {}
            }
        }
        Ok(sent)
    }

    fn resolve(&mut self, option: &Value, value: &Value) -> Result<Value, Reason> {
        let wrong = |expected: &str| {
            let name = option["name"].as_str().unwrap_or_default();
            Reason::new(
                400,
                format!("the option {name:?} must be {expected}, it is {value}"),
            )
        };
        // Clients show a choice's name and send its value.
        if let Some(value) = named_choice(option, value) {
            return Ok(value);
        }
        let text = value.as_str();
        match option["type"].as_u64() {
            // Whoever types 5 into a text has typed a text.
            Some(3) if value.is_number() => self.text(option, &value.to_string()),
            Some(3) => self.text(option, text.ok_or_else(|| wrong("a text"))?),
            Some(4) => {
                let number = value.as_i64().or(text.and_then(|text| text.parse().ok()));
                check_choice(
                    option,
                    json!(number.ok_or_else(|| wrong("a whole number"))?),
                )
            }
            Some(10) => {
                let number = value.as_f64().or(text.and_then(|text| text.parse().ok()));
                check_choice(option, json!(number.ok_or_else(|| wrong("a number"))?))
            }
            Some(5) => value
                .as_bool()
                .map(|value| json!(value))
                .ok_or_else(|| wrong("true or false")),
            Some(6) => text
                .and_then(|name| self.user(name))
                .ok_or_else(|| wrong("a member's name")),
            Some(7) => text
                .and_then(|name| self.place(name))
                .ok_or_else(|| wrong("a channel's name")),
            Some(8) => text
                .and_then(|name| self.role(name))
                .ok_or_else(|| wrong("a role's name")),
            Some(9) => text
                .and_then(|name| self.user(name).or_else(|| self.role(name)))
                .ok_or_else(|| wrong("a member or role")),
            Some(11) => self.file(value),
            _ => Err(wrong("of a kind that this stand-in knows")),
        }
    }

    fn text(&self, option: &Value, text: &str) -> Result<Value, Reason> {
        let text = self.state.world.with_mentions(text);
        let length = text.chars().count() as u64;
        let (least, most) = (
            option["min_length"].as_u64().unwrap_or(0),
            option["max_length"].as_u64().unwrap_or(6000),
        );
        if !(least..=most).contains(&length) {
            let name = option["name"].as_str().unwrap_or_default();
            return Err(Reason::new(
                400,
                format!("the option {name:?} must have {least} to {most} characters"),
            ));
        }
        check_choice(option, json!(text))
    }

    /// Notes an entry of `resolved` and returns its id.
    fn note(&mut self, sort: &str, id: Id, shown: Value) -> Value {
        let key = id.to_string();
        self.resolved[sort][&key] = shown;
        json!(key)
    }

    fn user(&mut self, name: &str) -> Option<Value> {
        let world = &self.state.world;
        let id = world.find_user(name)?;
        let shown = world.show_user(id);
        let member = world
            .guild_of(self.channel)
            .and_then(|guild| guild.members.get(&id))
            .map(|member| member.show());
        if let Some(mut member) = member {
            member["permissions"] = json!(world.permissions(id, self.channel).to_string());
            // A client sends memberships without what stands beside them.
            if let Some(fields) = member.as_object_mut() {
                fields.retain(|key, _| !matches!(key.as_str(), "deaf" | "mute"));
            }
            self.note("members", id, member);
        }
        Some(self.note("users", id, shown))
    }

    fn place(&mut self, name: &str) -> Option<Value> {
        let world = &self.state.world;
        let id = world.find_place(name)?;
        let mut shown = world
            .channels
            .get(&id)
            .map(|place| world.show_channel(place))?;
        shown["permissions"] = json!("0");
        Some(self.note("channels", id, shown))
    }

    fn role(&mut self, name: &str) -> Option<Value> {
        let name = name.trim_start_matches("@&");
        let guild = self.state.world.guild_of(self.channel)?;
        let by_id = guild
            .roles
            .iter()
            .position(|role| role.name == name || role.id.to_string() == name)?;
        let (id, shown) = (guild.roles[by_id].id, guild.show_roles()[by_id].clone());
        Some(self.note("roles", id, shown))
    }

    fn file(&mut self, value: &Value) -> Result<Value, Reason> {
        let limit = self
            .state
            .world
            .guild_of(self.channel)
            .map_or(10 * 1024 * 1024, |guild| guild.upload_limit);
        let file = read_file(value, limit)?;
        let attachment = self.state.world.store_file(file);
        let mut shown = attachment.show(&self.state.world.base_url, self.channel);
        shown["ephemeral"] = json!(true);
        Ok(self.note("attachments", attachment.id, shown))
    }
}

/// Returns the value of the fixed choice that has this name.
fn named_choice(option: &Value, name: &Value) -> Option<Value> {
    let mut choices = option["choices"].as_array()?.iter();
    choices
        .find(|choice| choice["name"] == *name)
        .map(|choice| choice["value"].clone())
}

/// Refuses a value that is none of the option's fixed choices; a choice's name stands for its
/// value.
fn check_choice(option: &Value, value: Value) -> Result<Value, Reason> {
    let choices = option["choices"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if choices.is_empty() {
        return Ok(value);
    }
    let chosen = choices
        .iter()
        .find(|choice| choice["value"] == value || choice["name"] == value);
    chosen.map(|choice| choice["value"].clone()).ok_or_else(|| {
        let name = option["name"].as_str().unwrap_or_default();
        Reason::new(400, format!("the option {name:?} has no choice {value}"))
    })
}
