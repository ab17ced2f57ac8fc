//! `/channels/{id}…`: channels, threads and their members.

use serde_json::{Value, json};

use super::body::Body;
use super::{
    Answer, Call, NOTHING, can, messages, need, need_unarchived, number, ok, seen, snowflake,
};
use crate::standin::clock::{Id, instant, rfc3339};
use crate::standin::limits;
use crate::standin::permissions as may;
use crate::standin::refused::{self, Refused};
use crate::standin::shared::State;
use crate::standin::world::{Allowed, Channel, Kind, PlaceChange};

/// Answers requests about a channel.
pub(super) fn answer(state: &mut State, call: &Call, channel: &str, rest: &[&str]) -> Answer {
    let id = snowflake(channel)?;
    match (call.method.as_str(), rest) {
        (_, ["messages", rest @ ..]) => messages::answer(state, call, id, rest),
        (_, ["typing"]) => messages::typing(state, call, id),
        ("GET", []) => ok(state.world.show_channel(seen(state, id)?)),
        ("PATCH", []) => change(state, call, id),
        ("DELETE", []) => delete(state, id),
        ("POST", ["threads"]) => open_thread(state, call, id),
        ("GET", ["threads", "archived", "public"]) => archived(state, call, id),
        (_, ["thread-members", rest @ ..]) => members(state, call, id, rest),
        (_, [] | ["threads"]) => Err(refused::METHOD_NOT_ALLOWED.into()),
        _ => Err(refused::NOT_FOUND.into()),
    }
}

/// Reads a name of 1 to 100 characters.
fn read_name(body: &Value) -> Result<String, Refused> {
    let name = body["name"].as_str().unwrap_or_default().trim();
    if (1..=100).contains(&name.chars().count()) {
        Ok(name.to_owned())
    } else {
        Err(Refused::length(&["name"], 1, 100))
    }
}

/// Reads the minutes after which a thread leaves the list.
fn read_auto_archive(body: &Value) -> Result<Option<u64>, Refused> {
    match (
        body["auto_archive_duration"].is_null(),
        body["auto_archive_duration"].as_u64(),
    ) {
        (true, _) => Ok(None),
        (_, Some(minutes @ (60 | 1440 | 4320 | 10080))) => Ok(Some(minutes)),
        _ => {
            let message = "Value must be one of (60, 1440, 4320, 10080).";
            Err(Refused::field(
                &["auto_archive_duration"],
                "BASE_TYPE_CHOICES",
                message,
            ))
        }
    }
}

fn change(state: &mut State, call: &Call, id: Id) -> Answer {
    let place = seen(state, id)?;
    let body = &call.body;
    let change = PlaceChange {
        name: if body["name"].is_null() {
            None
        } else {
            Some(read_name(body)?)
        },
        archived: body["archived"].as_bool(),
        locked: body["locked"].as_bool(),
        auto_archive: read_auto_archive(body)?,
    };
    match &place.thread {
        Some(_) => need_for_thread(state, place, &change)?,
        None => need(state, id, may::MANAGE_CHANNELS)?,
    }
    if change.name.as_ref().is_some_and(|name| *name != place.name) {
        count_rename(state, id)?;
    }
    state.world.change_place(id, change);
    ok(state.world.show_channel(seen(state, id)?))
}

/// Demands what a change of a thread needs.
fn need_for_thread(state: &State, place: &Channel, change: &PlaceChange) -> Result<(), Refused> {
    let Some(thread) = &place.thread else {
        return Ok(());
    };
    let manages = can(state, place.id, may::MANAGE_THREADS);
    let owns = thread.owner == state.world.bot.id;
    if thread.archived && change.archived != Some(false) {
        return Err(refused::ARCHIVED.into());
    }
    if thread.locked && !manages {
        return Err(refused::THREAD_LOCKED.into());
    }
    let only_returns =
        change.archived == Some(false) && change.name.is_none() && change.auto_archive.is_none();
    let may_return = only_returns && can(state, place.id, may::SEND_MESSAGES_IN_THREADS);
    let allowed = manages || change.locked.is_none() && (owns || may_return);
    if allowed {
        Ok(())
    } else {
        Err(refused::MISSING_PERMISSIONS.into())
    }
}

/// Counts a new name.
fn count_rename(state: &mut State, id: Id) -> Result<(), Refused> {
    let taken = state
        .limits
        .take_one(limits::RENAME, &id.to_string(), instant());
    taken.map(|_| ()).map_err(|over| Refused {
        status: 429,
        code: 0,
        message: "You are being rate limited.".to_owned(),
        errors: None,
        retry_after: Some(over.standing.reset_after.as_secs_f64()),
    })
}

fn delete(state: &mut State, id: Id) -> Answer {
    let place = seen(state, id)?;
    let shown = state.world.show_channel(place);
    need(
        state,
        id,
        if place.thread.is_some() {
            may::MANAGE_THREADS
        } else {
            may::MANAGE_CHANNELS
        },
    )?;
    state.world.delete_place(id);
    ok(shown)
}

/// Opens a thread on a message.
pub(super) fn open_thread_on(state: &mut State, call: &Call, channel: Id, message: Id) -> Answer {
    let place = seen(state, channel)?;
    if !matches!(place.kind, Kind::Text | Kind::Announcement) {
        return Err(refused::WRONG_CHANNEL_TYPE.into());
    }
    need(state, channel, may::CREATE_PUBLIC_THREADS)?;
    messages::shown(state, channel, message)?;
    let name = read_name(&call.body)?;
    let auto_archive = read_auto_archive(&call.body)?.unwrap_or(4320);
    if state.world.channels.contains_key(&message) {
        return Err(refused::THREAD_EXISTS.into());
    }
    let thread =
        state
            .world
            .open_thread_on(channel, message, state.world.bot.id, &name, auto_archive);
    Ok((201, Some(state.world.show_channel(seen(state, thread)?))))
}

fn open_thread(state: &mut State, call: &Call, channel: Id) -> Answer {
    let place = seen(state, channel)?;
    let kind = place.kind;
    let name = read_name(&call.body)?;
    let auto_archive = read_auto_archive(&call.body)?.unwrap_or(4320);
    let bot = state.world.bot.id;
    let thread = match (kind, call.body["type"].as_u64()) {
        (Kind::Forum, _) => {
            need(state, channel, may::SEND_MESSAGES)?;
            let body = Body::read(
                &call.body["message"],
                &call.files,
                messages::upload_limit(state, channel),
            )?;
            body.need_something()?;
            let draft = body.draft(bot, Allowed::everything());
            let thread = state.world.open_thread_alone(
                channel,
                Kind::PublicThread,
                bot,
                &name,
                auto_archive,
            );
            // The first message of a post has the post's id.
            state.world.post_as(thread, thread, draft);
            thread
        }
        (Kind::Text, Some(11)) => {
            need(state, channel, may::CREATE_PUBLIC_THREADS)?;
            state
                .world
                .open_thread_alone(channel, Kind::PublicThread, bot, &name, auto_archive)
        }
        (Kind::Text, Some(12) | None) => {
            need(state, channel, may::CREATE_PRIVATE_THREADS)?;
            state
                .world
                .open_thread_alone(channel, Kind::PrivateThread, bot, &name, auto_archive)
        }
        _ => return Err(refused::WRONG_CHANNEL_TYPE.into()),
    };
    Ok((201, Some(state.world.show_channel(seen(state, thread)?))))
}

fn archived(state: &State, call: &Call, id: Id) -> Answer {
    let limit = number(call, "limit", 2, 100, 50)?;
    let place = seen(state, id)?;
    need(state, id, may::READ_MESSAGE_HISTORY)?;
    let before = call.query.get("before").cloned();
    let mut threads: Vec<(u64, &Channel)> = (state.world.channels.values())
        .filter(|thread| thread.parent == Some(place.id) && thread.kind != Kind::PrivateThread)
        .filter_map(|place| {
            Some((
                place
                    .thread
                    .as_ref()
                    .filter(|thread| thread.archived)?
                    .archive_ms,
                place,
            ))
        })
        .filter(|(archived, _)| {
            before
                .as_ref()
                .is_none_or(|before| rfc3339(*archived) < *before)
        })
        .collect();
    threads.sort_by_key(|(archived, _)| std::cmp::Reverse(*archived));
    let has_more = threads.len() > limit;
    let threads: Vec<&Channel> = threads
        .into_iter()
        .take(limit)
        .map(|(_, place)| place)
        .collect();
    ok(show_threads(state, &threads, has_more))
}

/// Returns a list of threads as Discord shows it.
pub(super) fn show_threads(state: &State, threads: &[&Channel], has_more: bool) -> Value {
    let members = threads
        .iter()
        .filter_map(|place| state.world.show_thread_member(place, state.world.bot.id));
    json!({
        "threads": threads.iter().map(|place| state.world.show_channel(place)).collect::<Vec<Value>>(),
        "members": members.collect::<Vec<Value>>(),
        "has_more": has_more,
    })
}

fn members(state: &mut State, call: &Call, id: Id, rest: &[&str]) -> Answer {
    let place = seen(state, id)?;
    let thread = place.thread.as_ref().ok_or(refused::WRONG_CHANNEL_TYPE)?;
    let bot = state.world.bot.id;
    match (call.method.as_str(), rest) {
        ("GET", []) => {
            let shown = thread
                .members
                .keys()
                .filter_map(|user| state.world.show_thread_member(place, *user));
            ok(shown.collect())
        }
        ("GET", [user]) => {
            let user = if *user == "@me" {
                bot
            } else {
                snowflake(user)?
            };
            state
                .world
                .show_thread_member(place, user)
                .ok_or(refused::UNKNOWN_MEMBER.into())
                .and_then(ok)
        }
        ("PUT", [user]) => {
            need_unarchived(place)?;
            let user = if *user == "@me" {
                bot
            } else {
                snowflake(user)?
            };
            if user != bot {
                need(state, id, may::SEND_MESSAGES_IN_THREADS)?;
            }
            state.world.join_thread(id, user);
            NOTHING
        }
        ("DELETE", [user]) => {
            need_unarchived(place)?;
            let user = if *user == "@me" {
                bot
            } else {
                snowflake(user)?
            };
            if user != bot {
                need(state, id, may::MANAGE_THREADS)?;
            }
            state.world.leave_thread(id, user);
            NOTHING
        }
        _ => Err(refused::METHOD_NOT_ALLOWED.into()),
    }
}
