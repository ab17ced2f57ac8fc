//! `/channels/{id}/messages…` and typing.

use serde_json::{Value, json};

use super::body::Body;
use super::{
    Answer, Call, NOTHING, can, need, need_speech, need_unarchived, number, ok, only, seen,
    snowflake,
};
use crate::standin::clock::{Id, instant};
use crate::standin::limits;
use crate::standin::permissions as may;
use crate::standin::refused::{self, Refused};
use crate::standin::shared::State;
use crate::standin::world::{Allowed, Kind, Message, Reference, intent};

/// Milliseconds for which a nonce is remembered, after which an edit is of an old message, and for
/// bulk deletes.
const NONCE_MS: u64 = 3 * 60 * 1000;
const OLD_MS: u64 = 60 * 60 * 1000;
const TOO_OLD_MS: u64 = 14 * 24 * 60 * 60 * 1000;

/// Answers requests about a channel's messages.
pub(super) fn answer(state: &mut State, call: &Call, channel: Id, rest: &[&str]) -> Answer {
    match (call.method.as_str(), rest) {
        ("GET", []) => list(state, call, channel),
        ("POST", []) => create(state, call, channel),
        ("POST", ["bulk-delete"]) => bulk_delete(state, call, channel),
        ("GET", [id]) => read(state, channel, snowflake(id)?),
        ("PATCH", [id]) => edit(state, call, channel, snowflake(id)?),
        ("DELETE", [id]) => delete(state, channel, snowflake(id)?),
        ("POST", [id, "threads"]) => {
            super::channels::open_thread_on(state, call, channel, snowflake(id)?)
        }
        (_, [id, "reactions", emoji, user]) => {
            react(state, call, (channel, snowflake(id)?), emoji, user)
        }
        (_, [_, "threads"]) => only("POST", call, || NOTHING),
        (_, []) | (_, [_]) => Err(refused::METHOD_NOT_ALLOWED.into()),
        _ => Err(refused::NOT_FOUND.into()),
    }
}

/// Finds a message that REST shows: there, and not for one person alone.
pub(super) fn shown(state: &State, channel: Id, id: Id) -> Result<&Message, Refused> {
    let message = state
        .world
        .message(channel, id)
        .filter(|message| message.only_for.is_none());
    message.ok_or(refused::UNKNOWN_MESSAGE.into())
}

/// Returns a message's JSON as the bot may read it.
fn show(state: &State, message: &Message) -> Value {
    let mut shown = state.world.show_message(message);
    if state.world.bot.privileged & intent::MESSAGE_CONTENT == 0 {
        state.world.censor(&mut shown);
    }
    shown
}

fn list(state: &State, call: &Call, channel: Id) -> Answer {
    let place = seen(state, channel)?;
    let limit = number(call, "limit", 1, 100, 50)?;
    if !can(state, channel, may::READ_MESSAGE_HISTORY) {
        return ok(json!([]));
    }
    let bound = |key: &str| call.query.get(key).map(|id| snowflake(id)).transpose();
    let messages: Vec<&Message> = place
        .messages
        .values()
        .filter(|message| !message.deleted && message.only_for.is_none())
        .collect();
    let (older, newer): (Vec<_>, Vec<_>) =
        match (bound("around")?, bound("after")?, bound("before")?) {
            (Some(id), _, _) => {
                let (older, newer): (Vec<_>, Vec<_>) =
                    messages.into_iter().partition(|message| message.id < id);
                let older = newest(older, limit / 2);
                let newer = newer.into_iter().take(limit - older.len()).collect();
                (older, newer)
            }
            (_, Some(id), _) => (
                vec![],
                messages
                    .into_iter()
                    .filter(|message| message.id > id)
                    .take(limit)
                    .collect(),
            ),
            (_, _, before) => {
                let before = before.unwrap_or(Id::MAX);
                (
                    newest(
                        messages
                            .into_iter()
                            .filter(|message| message.id < before)
                            .collect(),
                        limit,
                    ),
                    vec![],
                )
            }
        };
    let found = older.into_iter().chain(newer).rev();
    ok(found.map(|message| show(state, message)).collect())
}

/// Returns the last few of a list.
fn newest(messages: Vec<&Message>, count: usize) -> Vec<&Message> {
    let from = messages.len().saturating_sub(count);
    messages[from..].to_vec()
}

fn read(state: &State, channel: Id, id: Id) -> Answer {
    seen(state, channel)?;
    need(state, channel, may::READ_MESSAGE_HISTORY)?;
    ok(show(state, shown(state, channel, id)?))
}

fn create(state: &mut State, call: &Call, channel: Id) -> Answer {
    let place = seen(state, channel)?;
    match place.kind {
        Kind::Category => return Err(refused::NOT_A_TEXT_CHANNEL.into()),
        Kind::Forum => return Err(refused::WRONG_TYPE_FOR_FORUM.into()),
        _ => need_speech(state, place)?,
    }
    let body = Body::read(&call.body, &call.files, upload_limit(state, channel))?;
    body.need_something()?;
    need_for_body(state, channel, &body)?;
    if let Some(earlier) = same_nonce(state, channel, &body) {
        return ok(show(state, shown(state, channel, earlier)?));
    }
    let reference = read_reference(state, channel, &body.reference)?;
    let mut draft = body.draft(state.world.bot.id, Allowed::everything());
    draft.flags &= !Message::EPHEMERAL;
    draft.reference = reference;
    draft.kind = if reference.is_some() { 19 } else { 0 };
    let id = state.world.post(channel, draft);
    ok(show(state, shown(state, channel, id)?))
}

/// Returns the bytes that a file may have in a channel.
pub(super) fn upload_limit(state: &State, channel: Id) -> usize {
    state
        .world
        .guild_of(channel)
        .map_or(10 * 1024 * 1024, |guild| guild.upload_limit)
}

/// Demands the permissions that files and embeds need.
fn need_for_body(state: &State, channel: Id, body: &Body) -> Result<(), Refused> {
    if !body.files.is_empty() {
        need(state, channel, may::ATTACH_FILES)?;
    }
    if body
        .embeds
        .as_ref()
        .is_some_and(|embeds| !embeds.is_empty())
    {
        need(state, channel, may::EMBED_LINKS)?;
    }
    Ok(())
}

/// Finds the message that was posted with the same nonce lately.
fn same_nonce(state: &State, channel: Id, body: &Body) -> Option<Id> {
    let nonce = body.nonce.as_ref().filter(|_| body.enforce_nonce)?;
    let since = state.world.clock.now_ms().saturating_sub(NONCE_MS);
    let mine =
        |message: &&Message| message.author == state.world.bot.id && message.born_ms >= since;
    let mut messages = state.world.channels.get(&channel)?.messages.values().rev();
    messages
        .find(|message| mine(message) && message.nonce.as_ref() == Some(nonce))
        .map(|message| message.id)
}

fn read_reference(
    state: &State,
    channel: Id,
    reference: &Value,
) -> Result<Option<Reference>, Refused> {
    if reference.is_null() {
        return Ok(None);
    }
    if reference["type"].as_u64().unwrap_or(0) != 0 {
        let message = "Only replies can be made here.";
        return Err(Refused::field(
            &["message_reference", "type"],
            "BASE_TYPE_CHOICES",
            message,
        ));
    }
    if !can(state, channel, may::READ_MESSAGE_HISTORY) {
        return Err(refused::REPLY_WITHOUT_HISTORY.into());
    }
    let id = match &reference["message_id"] {
        Value::Number(id) => id.as_u64().unwrap_or_default(),
        id => snowflake(id.as_str().unwrap_or_default())?,
    };
    let elsewhere = reference["channel_id"]
        .as_str()
        .is_some_and(|given| given != channel.to_string());
    let refused = |code, text: &str| Err(Refused::field(&["message_reference"], code, text));
    match state.world.message(channel, id).filter(|_| !elsewhere) {
        Some(target) if !matches!(target.kind, 0 | 19 | 20 | 23) => refused(
            "REPLIES_CANNOT_REPLY_TO_SYSTEM_MESSAGE",
            "Cannot reply to a system message",
        ),
        Some(_) => Ok(Some(Reference {
            channel,
            message: Some(id),
            forward: false,
        })),
        None if reference["fail_if_not_exists"] == false => Ok(None),
        None => refused("REPLIES_UNKNOWN_MESSAGE", "Unknown message"),
    }
}

fn edit(state: &mut State, call: &Call, channel: Id, id: Id) -> Answer {
    need_unarchived(seen(state, channel)?)?;
    let message = shown(state, channel, id)?;
    if message.author != state.world.bot.id {
        return Err(refused::FOREIGN_MESSAGE.into());
    }
    if !matches!(message.kind, 0 | 19 | 20) {
        return Err(refused::SYSTEM_MESSAGE.into());
    }
    let old = state.world.clock.now_ms().saturating_sub(message.born_ms) > OLD_MS;
    let body = Body::read(&call.body, &call.files, upload_limit(state, channel))?;
    need_for_body(state, channel, &body)?;
    let change = body.change(message, Allowed::everything())?;
    if old {
        count_old_edit(state, channel)?;
    }
    state.world.edit(channel, id, change);
    ok(show(state, shown(state, channel, id)?))
}

/// Counts an edit of a message that is older than an hour.
fn count_old_edit(state: &mut State, channel: Id) -> Result<(), Refused> {
    let taken = state
        .limits
        .take_one(limits::OLD_EDIT, &channel.to_string(), instant());
    taken.map(|_| ()).map_err(|over| Refused {
        status: 429,
        code: 30046,
        message: "Maximum number of edits to messages older than 1 hour reached. Try again later"
            .to_owned(),
        errors: None,
        retry_after: Some(over.standing.reset_after.as_secs_f64()),
    })
}

fn delete(state: &mut State, channel: Id, id: Id) -> Answer {
    seen(state, channel)?;
    let message = shown(state, channel, id)?;
    if message.author != state.world.bot.id {
        need(state, channel, may::MANAGE_MESSAGES)?;
    }
    state.world.delete_message(channel, id);
    NOTHING
}

fn bulk_delete(state: &mut State, call: &Call, channel: Id) -> Answer {
    seen(state, channel)?;
    need(state, channel, may::MANAGE_MESSAGES)?;
    let listed = call.body["messages"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if !(2..=100).contains(&listed.len()) {
        return Err(refused::BULK_DELETE_COUNT.into());
    }
    let ids = listed
        .iter()
        .map(|id| snowflake(id.as_str().unwrap_or_default()))
        .collect::<Result<Vec<Id>, _>>()?;
    let now = state.world.clock.now_ms();
    let too_old = |id: &Id| {
        state
            .world
            .message(channel, *id)
            .is_some_and(|message| now.saturating_sub(message.born_ms) > TOO_OLD_MS)
    };
    if ids.iter().any(too_old) {
        return Err(refused::BULK_DELETE_AGE.into());
    }
    state.world.delete_messages(channel, &ids);
    NOTHING
}

fn react(
    state: &mut State,
    call: &Call,
    (channel, id): (Id, Id),
    emoji: &str,
    user: &str,
) -> Answer {
    let place = seen(state, channel)?;
    need_unarchived(place)?;
    let message = shown(state, channel, id)?;
    let known = message
        .reactions
        .iter()
        .any(|reaction| reaction.emoji == emoji);
    let bot = state.world.bot.id;
    let user = if user == "@me" { bot } else { snowflake(user)? };
    match call.method.as_str() {
        "PUT" if user == bot => {
            need(state, channel, may::READ_MESSAGE_HISTORY)?;
            if !known {
                need(state, channel, may::ADD_REACTIONS)?;
            }
            if !is_emoji(emoji) {
                return Err(refused::UNKNOWN_EMOJI.into());
            }
            if !known && message.reactions.len() >= 20 {
                return Err(refused::TOO_MANY_REACTIONS.into());
            }
            state.world.react(channel, id, bot, emoji, true);
            NOTHING
        }
        "DELETE" => {
            if user != bot {
                need(state, channel, may::MANAGE_MESSAGES)?;
            }
            state.world.react(channel, id, user, emoji, false);
            NOTHING
        }
        _ => Err(refused::METHOD_NOT_ALLOWED.into()),
    }
}

/// Tells whether a text is taken for an emoji: a short one outside ASCII, a keycap, or `name:id` of
/// an own one.
fn is_emoji(text: &str) -> bool {
    let custom = text
        .rsplit_once(':')
        .is_some_and(|(name, id)| !name.is_empty() && id.parse::<Id>().is_ok());
    custom
        || !text.is_empty() && text.chars().count() <= 16 && text.chars().any(|c| c as u32 > 0xA8)
}

/// Answers the request that shows the bot typing.
pub(super) fn typing(state: &State, call: &Call, channel: Id) -> Answer {
    only("POST", call, || {
        let place = seen(state, channel)?;
        need_speech(state, place)?;
        need_unarchived(place)?;
        NOTHING
    })
}
