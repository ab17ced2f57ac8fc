//! Discord's REST interface: one request in, one answer out.
//!
//! The order is the real one's: rate limits, then the token, then the route, then permissions, then
//! the body.

mod body;
mod channels;
mod commands;
mod guilds;
mod interactions;
mod messages;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Value, json};

use super::clock::Id;
use super::permissions as may;
use super::refused::{self, Refused};
use super::shared::State;
use super::world::Channel;

/// An uploaded file.
#[derive(Debug, Clone)]
pub(crate) struct Upload {
    /// The form's field, such as `files[0]`.
    pub(crate) field: String,
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
}

/// A request as the routes read it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    /// The path's steps, decoded, without `/api/v10`.
    pub(crate) path: Vec<String>,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) authorization: Option<String>,
    /// The JSON body or the form's `payload_json`; null where there is none.
    pub(crate) body: Value,
    pub(crate) files: Vec<Upload>,
}

/// An answer: status and body.
pub(crate) type Answer = Result<(u16, Option<Value>), Refused>;

/// Answers 200 with a body.
fn ok(body: Value) -> Answer {
    Ok((200, Some(body)))
}

/// Answers 204.
const NOTHING: Answer = Ok((204, None));

/// Does what a request asks for.
pub(crate) fn answer(state: &mut State, call: &Call) -> Answer {
    let path: Vec<&str> = call.path.iter().map(String::as_str).collect();
    if let ["interactions", id, token, "callback"] = path[..] {
        return only("POST", call, || {
            interactions::callback(state, call, id, token)
        });
    }
    if let ["webhooks", application, token, ref rest @ ..] = path[..] {
        return interactions::webhook(state, call, (application, token), rest);
    }
    if path == ["gateway"] {
        return ok(json!({ "url": super::gateway::gateway_url(&state.world) }));
    }
    if call.authorization.as_deref() != Some(&format!("Bot {}", state.world.bot.token)) {
        return Err(refused::UNAUTHORIZED.into());
    }
    match path[..] {
        ["channels", channel, ref rest @ ..] => channels::answer(state, call, channel, rest),
        ["guilds", guild, ref rest @ ..] => guilds::answer(state, call, guild, rest),
        ["applications", application, ref rest @ ..] if application != "@me" => {
            commands::answer(state, call, application, rest)
        }
        _ => about_me(state, call, &path),
    }
}

fn about_me(state: &mut State, call: &Call, path: &[&str]) -> Answer {
    match (call.method.as_str(), path) {
        ("GET", ["users", "@me"]) => ok(state.world.show_me()),
        ("GET", ["users", user]) => {
            let id = snowflake(user)?;
            state
                .world
                .users
                .get(&id)
                .map(|user| user.show())
                .ok_or(refused::UNKNOWN_USER.into())
                .and_then(ok)
        }
        ("GET", ["users", "@me", "guilds"]) => {
            let bot = state.world.bot.id;
            let joined = state
                .world
                .guilds
                .values()
                .filter(|guild| guild.members.contains_key(&bot));
            ok(joined.map(|guild| guilds::show_short(guild, bot)).collect())
        }
        ("POST", ["users", "@me", "channels"]) => {
            let recipient = snowflake(call.body["recipient_id"].as_str().unwrap_or_default())?;
            state
                .world
                .users
                .get(&recipient)
                .ok_or(refused::UNKNOWN_USER)?;
            let channel = state.world.direct_messages(state.world.bot.id, recipient);
            ok(state
                .world
                .channels
                .get(&channel)
                .map(|channel| state.world.show_channel(channel))
                .unwrap_or_default())
        }
        ("GET", ["applications", "@me"] | ["oauth2", "applications", "@me"]) => {
            ok(state.world.show_application())
        }
        ("GET", ["gateway", "bot"]) => ok(json!({
            "url": super::gateway::gateway_url(&state.world), "shards": 1,
            "session_start_limit": state.gateway.session_start_limit(),
        })),
        _ => Err(refused::NOT_FOUND.into()),
    }
}

/// Refuses all methods but one.
fn only(method: &str, call: &Call, answer: impl FnOnce() -> Answer) -> Answer {
    if call.method == method {
        answer()
    } else {
        Err(refused::METHOD_NOT_ALLOWED.into())
    }
}

/// Reads an id from a path or a body.
fn snowflake(text: &str) -> Result<Id, Refused> {
    let message = format!("Value \"{text}\" is not snowflake.");
    text.parse()
        .map_err(|_| Refused::field(&["id"], "NUMBER_TYPE_COERCE", message))
}

/// Reads a whole number of the query.
fn number(
    call: &Call,
    key: &str,
    least: usize,
    most: usize,
    default: usize,
) -> Result<usize, Refused> {
    let Some(text) = call.query.get(key) else {
        return Ok(default);
    };
    let message = format!("int value should be between {least} and {most}.");
    let number = text
        .parse()
        .ok()
        .filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| Refused::field(&[key], "NUMBER_TYPE_MIN", message))
}

/// Tells whether a switch of the query is on.
fn switched_on(call: &Call, key: &str) -> bool {
    call.query
        .get(key)
        .is_some_and(|value| matches!(value.as_str(), "true" | "True" | "1"))
}

/// Finds a channel that the bot sees.
fn seen(state: &State, channel: Id) -> Result<&Channel, Refused> {
    let place = state
        .world
        .channels
        .get(&channel)
        .ok_or(refused::UNKNOWN_CHANNEL)?;
    if state.world.sees(state.world.bot.id, channel) {
        Ok(place)
    } else {
        Err(refused::MISSING_ACCESS.into())
    }
}

/// Tells whether the bot has all of these permissions in a channel.
fn can(state: &State, channel: Id, permissions: u64) -> bool {
    state.world.permissions(state.world.bot.id, channel) & permissions == permissions
}

/// Demands permissions of the bot in a channel.
fn need(state: &State, channel: Id, permissions: u64) -> Result<(), Refused> {
    if can(state, channel, permissions) {
        Ok(())
    } else {
        Err(refused::MISSING_PERMISSIONS.into())
    }
}

/// Demands that the bot may speak in a place, by the rules of channels or threads.
fn need_speech(state: &State, place: &Channel) -> Result<(), Refused> {
    match &place.thread {
        Some(thread) => {
            need(state, place.id, may::SEND_MESSAGES_IN_THREADS)?;
            if thread.locked && !can(state, place.id, may::MANAGE_THREADS) {
                return Err(refused::THREAD_LOCKED.into());
            }
            Ok(())
        }
        None => need(state, place.id, may::SEND_MESSAGES),
    }
}

/// Refuses what an archived thread does not allow.
fn need_unarchived(place: &Channel) -> Result<(), Refused> {
    match &place.thread {
        Some(thread) if thread.archived => Err(refused::ARCHIVED.into()),
        _ => Ok(()),
    }
}
