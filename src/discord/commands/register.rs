//! Tells Discord which commands there are. What stands there already is compared first: a server takes two hundred new
//! commands a day and no more. A failure keeps nobody from using the commands that stand there.

use std::convert::Infallible;

use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::domain::ids::GuildId;

use super::super::rest::{Call, Major, Rest, RestError};
use super::super::wire;
use super::Front;

/// Registers the commands with each of the servers, and with them alone: the same name in both scopes shows twice.
pub(super) async fn register(
    rest: &Rest,
    application: u64,
    guilds: &[GuildId],
    commands: &[poise::Command<Front, Infallible>],
) {
    let wanted: Vec<Value> = commands
        .iter()
        .filter_map(poise::Command::create_as_slash_command)
        .filter_map(|command| serde_json::to_value(command).ok())
        .map(as_described)
        .collect();
    let everywhere = format!("applications/{application}/commands");
    log(settle(rest, everywhere, &[]).await);
    for guild in guilds {
        let path = format!("applications/{application}/guilds/{guild}/commands");
        log(settle(rest, path, &wanted).await);
    }
}

/// Writes permissions as a number, as Discord's description has them; the SDK writes a text.
fn as_described(mut command: Value) -> Value {
    if let Some(permissions) = wire::id(&command["default_member_permissions"]) {
        command["default_member_permissions"] = json!(permissions);
    }
    command
}

fn log(settled: Result<(), RestError>) {
    if let Err(error) = settled {
        tracing::warn!(%error, "the commands could not be registered; the bot goes on without");
    }
}

/// Makes one scope hold the wanted commands and no others.
async fn settle(rest: &Rest, path: String, wanted: &[Value]) -> Result<(), RestError> {
    let read = Call::new("read commands", Method::GET, path.clone(), Major::Account);
    let present: Vec<Value> = rest.ask(read).await?;
    if same(&present, wanted) {
        return Ok(());
    }
    let write = Call::new("write commands", Method::PUT, path, Major::Account);
    rest.send(write.json(&wanted)).await?;
    Ok(())
}

/// Returns whether two lists hold the same commands, whatever Discord adds to them.
fn same(present: &[Value], wanted: &[Value]) -> bool {
    let sorted = |commands: &[Value]| {
        let mut commands: Vec<Value> = commands.iter().map(essence).collect();
        commands.sort_by_key(|command| command["name"].to_string());
        commands
    };
    sorted(present) == sorted(wanted)
}

/// Returns what makes up a command or an option, with Discord's defaults where nothing is said.
fn essence(raw: &Value) -> Value {
    let mut kept = Map::new();
    for key in ["name", "description"] {
        kept.insert(key.to_owned(), json!(wire::text(&raw[key])));
    }
    kept.insert("type".to_owned(), json!(raw["type"].as_u64().unwrap_or(1)));
    for key in ["required", "autocomplete"] {
        let set = raw[key].as_bool().unwrap_or(false);
        kept.insert(key.to_owned(), json!(set));
    }
    let permissions = wire::id(&raw["default_member_permissions"]);
    kept.insert("default_member_permissions".to_owned(), json!(permissions));
    let choices = wire::list(&raw["choices"]).iter();
    let choices: Vec<Value> = choices
        .map(|choice| json!([choice["name"], choice["value"]]))
        .collect();
    kept.insert("choices".to_owned(), json!(choices));
    let options = wire::list(&raw["options"]).iter();
    let options: Vec<Value> = options.map(essence).collect();
    kept.insert("options".to_owned(), json!(options));
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Vec<Value> {
        super::super::slash::all()
            .iter()
            .map(|command| serde_json::to_value(command.create_as_slash_command()).unwrap())
            .collect()
    }

    /// Returns a command as Discord gives it back.
    fn returned(command: &Value) -> Value {
        let mut command = command.clone();
        command["id"] = json!("1");
        command["application_id"] = json!("2");
        command["version"] = json!("3");
        command["nsfw"] = json!(false);
        command["name_localizations"] = Value::Null;
        if let Some(options) = command["options"].as_array_mut() {
            for option in options {
                if option["required"] == false {
                    option.as_object_mut().unwrap().remove("required");
                }
            }
        }
        command
    }

    #[test]
    fn what_stands_there_already_is_not_written_again() {
        let mut present: Vec<Value> = wanted().iter().map(returned).collect();
        present.reverse();
        assert!(same(&present, &wanted()));
    }

    #[test]
    fn any_difference_is_written() {
        let changes: [fn(&mut Vec<Value>); 4] = [
            |present| drop(present.pop()),
            |present| present.push(json!({"name": "old", "description": "gone", "type": 1})),
            |present| present[0]["description"] = json!("another"),
            |present| present[0]["options"][0]["autocomplete"] = json!(false),
        ];
        for change in changes {
            let mut present: Vec<Value> = wanted().iter().map(returned).collect();
            change(&mut present);
            assert!(!same(&present, &wanted()));
        }
    }
}
