//! `/applications/{id}…/commands`: what the application registers.

use serde_json::{Value, json};

use super::{Answer, Call, NOTHING, ok, snowflake};
use crate::standin::clock::Id;
use crate::standin::refused::{self, Refused};
use crate::standin::shared::State;
use crate::standin::world::Command;

/// Answers requests about the application's commands, global or of one server.
pub(super) fn answer(state: &mut State, call: &Call, application: &str, rest: &[&str]) -> Answer {
    if snowflake(application)? != state.world.bot.id {
        return Err(refused::MISSING_ACCESS.into());
    }
    let (guild, rest) = match rest {
        ["guilds", guild, rest @ ..] => (Some(snowflake(guild)?), rest),
        rest => (None, rest),
    };
    if guild.is_some_and(|guild| !state.world.guilds.contains_key(&guild)) {
        return Err(refused::MISSING_ACCESS.into());
    }
    match (call.method.as_str(), rest) {
        ("GET", ["commands"]) => ok(show_all(state, guild)),
        ("PUT", ["commands"]) => overwrite(state, guild, &call.body),
        ("POST", ["commands"]) => create(state, guild, &call.body),
        ("GET", ["commands", id]) => ok(find(state, guild, id)?.definition.clone()),
        ("PATCH", ["commands", id]) => {
            let mut definition = find(state, guild, id)?.definition.clone();
            merge(&mut definition, &call.body);
            check(&definition, 0)?;
            let (_, definition) = register(state, guild, &definition);
            ok(definition)
        }
        ("DELETE", ["commands", id]) => {
            let id = find(state, guild, id)?.id;
            state.world.commands.retain(|command| command.id != id);
            NOTHING
        }
        (_, ["commands"] | ["commands", _]) => Err(refused::METHOD_NOT_ALLOWED.into()),
        _ => Err(refused::NOT_FOUND.into()),
    }
}

fn show_all(state: &State, guild: Option<Id>) -> Value {
    let commands = state
        .world
        .commands
        .iter()
        .filter(|command| command.guild == guild);
    commands.map(|command| command.definition.clone()).collect()
}

fn find<'a>(state: &'a State, guild: Option<Id>, id: &str) -> Result<&'a Command, Refused> {
    let id = snowflake(id)?;
    let found = state
        .world
        .commands
        .iter()
        .find(|command| command.guild == guild && command.id == id);
    found.ok_or(refused::UNKNOWN_COMMAND.into())
}

fn merge(definition: &mut Value, change: &Value) {
    for (key, value) in change.as_object().into_iter().flatten() {
        definition[key] = value.clone();
    }
}

fn overwrite(state: &mut State, guild: Option<Id>, body: &Value) -> Answer {
    let listed = body.as_array().ok_or(refused::INVALID_JSON)?;
    for (index, command) in listed.iter().enumerate() {
        check(command, index)?;
        let same =
            |other: &&Value| other["name"] == command["name"] && kind(other) == kind(command);
        if listed.iter().filter(same).count() > 1 {
            let message = "Application command names must be unique";
            return Err(Refused::field(
                &[&index.to_string(), "name"],
                "APPLICATION_COMMANDS_DUPLICATE_NAME",
                message,
            ));
        }
    }
    if listed.iter().filter(|command| kind(command) == 1).count() > 100 {
        return Err(Refused::field(
            &[],
            "APPLICATION_COMMANDS_TOO_MANY",
            "Maximum number of application commands reached (100).",
        ));
    }
    let kept: Vec<Id> = listed
        .iter()
        .map(|command| register(state, guild, command).0)
        .collect();
    state
        .world
        .commands
        .retain(|command| command.guild != guild || kept.contains(&command.id));
    ok(show_all(state, guild))
}

fn create(state: &mut State, guild: Option<Id>, body: &Value) -> Answer {
    check(body, 0)?;
    let before = state.world.commands.len();
    let (_, definition) = register(state, guild, body);
    Ok((
        if state.world.commands.len() > before {
            201
        } else {
            200
        },
        Some(definition),
    ))
}

/// Takes out of options what says nothing: Discord shows none of it, at any depth.
fn leave_out_nothing(options: &mut Value) {
    for option in options.as_array_mut().into_iter().flatten() {
        if let Some(fields) = option.as_object_mut() {
            fields.retain(|_, value| {
                !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty())
            });
        }
        leave_out_nothing(&mut option["options"]);
        if option["options"].is_null()
            && let Some(fields) = option.as_object_mut()
        {
            fields.remove("options");
        }
    }
}

/// Keeps a command, in place of one with the same name, and returns its id and its full form.
fn register(state: &mut State, guild: Option<Id>, given: &Value) -> (Id, Value) {
    let same = |command: &&mut Command| {
        command.guild == guild
            && command.definition["name"] == given["name"]
            && kind(&command.definition) == kind(given)
    };
    let version = state.world.clock.fresh_id();
    let bot = state.world.bot.id;
    let known = state.world.commands.iter_mut().find(same);
    let id = known.as_ref().map_or(version, |command| command.id);
    let mut definition = given.clone();
    leave_out_nothing(&mut definition["options"]);
    for (key, default) in [
        ("default_member_permissions", Value::Null),
        ("description", json!("")),
        ("nsfw", json!(false)),
        ("contexts", Value::Null),
        ("integration_types", json!([0])),
    ] {
        if definition[key].is_null() {
            definition[key] = default;
        }
    }
    // It may be given as a number; it is shown as a text.
    if let Some(bits) = definition["default_member_permissions"].as_u64() {
        definition["default_member_permissions"] = json!(bits.to_string());
    }
    definition["id"] = json!(id.to_string());
    definition["application_id"] = json!(bot.to_string());
    definition["version"] = json!(version.to_string());
    definition["type"] = json!(kind(given));
    if let Some(guild) = guild {
        definition["guild_id"] = json!(guild.to_string());
    }
    match known {
        Some(command) => command.definition = definition.clone(),
        None => state.world.commands.push(Command {
            id,
            guild,
            definition: definition.clone(),
        }),
    }
    (id, definition)
}

fn kind(command: &Value) -> u64 {
    command["type"].as_u64().unwrap_or(1)
}

fn check(command: &Value, index: usize) -> Result<(), Refused> {
    let at = index.to_string();
    check_name(&command["name"], &[&at, "name"], kind(command) == 1)?;
    if kind(command) == 1 {
        check_description(&command["description"], &[&at, "description"])?;
        check_options(&command["options"], &at)?;
    }
    let size = text_size(command);
    if size > 8000 {
        let message = format!("Command exceeds maximum size (8000), it has {size}");
        return Err(Refused::field(
            &[&at],
            "APPLICATION_COMMAND_TOO_LARGE",
            message,
        ));
    }
    Ok(())
}

fn check_name(name: &Value, path: &[&str], strict: bool) -> Result<(), Refused> {
    let name = name.as_str().unwrap_or_default();
    if !(1..=32).contains(&name.chars().count()) {
        return Err(Refused::length(path, 1, 32));
    }
    let allowed = |c: char| c.is_alphanumeric() && !c.is_uppercase() || "-_'".contains(c);
    if strict && !name.chars().all(allowed) {
        let message = "String value did not match validation regex.";
        return Err(Refused::field(path, "STRING_TYPE_REGEX", message));
    }
    Ok(())
}

fn check_description(description: &Value, path: &[&str]) -> Result<(), Refused> {
    let length = description.as_str().unwrap_or_default().chars().count();
    if (1..=100).contains(&length) {
        Ok(())
    } else {
        Err(Refused::length(path, 1, 100))
    }
}

fn check_options(options: &Value, at: &str) -> Result<(), Refused> {
    let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
    if options.len() > 25 {
        return Err(Refused::length(&[at, "options"], 0, 25));
    }
    for (index, option) in options.iter().enumerate() {
        let number = index.to_string();
        let path = |key| [at, "options", number.as_str(), key];
        check_name(&option["name"], &path("name"), true)?;
        check_description(&option["description"], &path("description"))?;
        if options[..index]
            .iter()
            .any(|other| other["name"] == option["name"])
        {
            let (code, text) = (
                "APPLICATION_COMMAND_OPTIONS_NAME_ALREADY_EXISTS",
                "Option name already exists",
            );
            return Err(Refused::field(&path("name"), code, text));
        }
        let optional_before = options[..index]
            .iter()
            .any(|other| other["required"] != true);
        if option["required"] == true && optional_before {
            let text = "Required options must be placed before non-required options";
            return Err(Refused::field(
                &path("required"),
                "APPLICATION_COMMAND_OPTIONS_REQUIRED_INVALID",
                text,
            ));
        }
        match option["type"].as_u64() {
            Some(1 | 2) => check_options(&option["options"], at)?,
            Some(3..=11) => check_choices(option, &path("choices"))?,
            _ => {
                return Err(Refused::field(
                    &path("type"),
                    "BASE_TYPE_CHOICES",
                    "Value must be one of 1 to 11.",
                ));
            }
        }
    }
    Ok(())
}

fn check_choices(option: &Value, path: &[&str]) -> Result<(), Refused> {
    let choices = option["choices"].as_array().map_or(0, Vec::len);
    if choices > 25 || choices > 0 && option["autocomplete"] == true {
        let text = "At most 25 choices, and none with autocomplete.";
        return Err(Refused::field(path, "BASE_TYPE_BAD_LENGTH", text));
    }
    Ok(())
}

/// Returns the characters of all names, descriptions and values of a command.
fn text_size(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match (key.as_str(), value) {
                ("name" | "description" | "value", Value::String(text)) => text.chars().count(),
                (_, value) => text_size(value),
            })
            .sum(),
        Value::Array(list) => list.iter().map(text_size).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_discord_refuses_are_refused() {
        let good = json!({"name": "ask", "description": "d", "options": [
            {"type": 3, "name": "project", "description": "d", "required": true, "autocomplete": true},
            {"type": 3, "name": "model", "description": "d"},
        ]});
        assert!(check(&good, 0).is_ok());
        let changed = |pointer: &str, value: Value| {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).unwrap() = value;
            bad
        };
        for bad in [
            changed("/name", json!("Ask")),
            changed("/name", json!("a b")),
            changed("/name", json!("n".repeat(33))),
            changed("/description", json!("")),
            changed("/description", json!("d".repeat(101))),
            changed("/options/0/required", json!(false))
                .as_object()
                .map(|bad| {
                    let mut bad = Value::Object(bad.clone());
                    bad["options"][1]["required"] = json!(true);
                    bad
                })
                .unwrap(),
            changed("/options/1/name", json!("project")),
            changed("/options/1/type", json!(12)),
        ] {
            assert_eq!(check(&bad, 0).expect_err(&bad.to_string()).code, 50035);
        }
    }
}
