//! Threads, posts and channels.

use serde_json::Value;

use super::{actor, message, need, place, speak, text};
use crate::standin::clock::Id;
use crate::standin::own::Reason;
use crate::standin::permissions as may;
use crate::standin::shared::State;
use crate::standin::world::{Kind, PlaceChange};

/// Minutes after which a new thread leaves the list.
const AUTO_ARCHIVE: u64 = 4320;

fn name(action: &Value) -> Result<String, Reason> {
    let name = text(action, "name")?.trim();
    let fits = (1..=100).contains(&name.chars().count());
    if fits {
        Ok(name.to_owned())
    } else {
        Err(Reason::new(400, "a name has 1 to 100 characters"))
    }
}

/// Opens a thread, on a message or alone.
pub(super) fn thread(state: &mut State, action: &Value) -> Result<Id, Reason> {
    const SENTENCE: &str = "you do not have permission to create threads in this channel";
    let user = actor(state, action)?;
    let name = name(action)?;
    if action["message"].is_null() {
        let place = place(state, action, user)?;
        need_thread_parent(state, place)?;
        let private = action["private"].as_bool().unwrap_or(false);
        let (kind, permission) = match private {
            true => (Kind::PrivateThread, may::CREATE_PRIVATE_THREADS),
            false => (Kind::PublicThread, may::CREATE_PUBLIC_THREADS),
        };
        need(state, user, place, permission, SENTENCE)?;
        return Ok(state
            .world
            .open_thread_alone(place, kind, user, &name, AUTO_ARCHIVE));
    }
    let starter = message(state, action, "message", user)?;
    let (channel, starter) = (starter.channel, starter.id);
    need_thread_parent(state, channel)?;
    need(state, user, channel, may::CREATE_PUBLIC_THREADS, SENTENCE)?;
    if state.world.channels.contains_key(&starter) {
        return Err(Reason::new(400, "this message has a thread already"));
    }
    Ok(state
        .world
        .open_thread_on(channel, starter, user, &name, AUTO_ARCHIVE))
}

fn need_thread_parent(state: &State, channel: Id) -> Result<(), Reason> {
    match state.world.channels.get(&channel).map(|place| place.kind) {
        Some(Kind::Text | Kind::Announcement) => Ok(()),
        _ => Err(Reason::new(400, "threads cannot be created here")),
    }
}

/// Opens a post in a forum.
pub(super) fn post(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let forum = place(state, action, user)?;
    if state.world.channels.get(&forum).map(|place| place.kind) != Some(Kind::Forum) {
        return Err(Reason::new(400, "posts can be made in forums alone"));
    }
    need(
        state,
        user,
        forum,
        may::SEND_MESSAGES,
        "you do not have permission to create posts in this channel",
    )?;
    let name = name(action)?;
    let draft = speak::draft(state, action, user, forum)?;
    if draft.content.is_empty() && draft.files.is_empty() {
        return Err(Reason::new(400, "an empty message cannot be sent"));
    }
    let thread =
        state
            .world
            .open_thread_alone(forum, Kind::PublicThread, user, &name, AUTO_ARCHIVE);
    state.world.post_as(thread, thread, draft);
    Ok(thread)
}

/// Archives, locks or renames a thread or brings it back; renames a channel.
pub(super) fn change(state: &mut State, verb: &str, action: &Value) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let id = place(state, action, user)?;
    if !may_change(state, verb, user, id)? {
        return Err(Reason::new(
            403,
            "you do not have permission to do that here",
        ));
    }
    let mut change = PlaceChange::default();
    match verb {
        "archive" => change.archived = Some(true),
        "unarchive" => change.archived = Some(false),
        "lock" => change.locked = Some(true),
        "unlock" => change.locked = Some(false),
        _ => change.name = Some(name(action)?),
    }
    state.world.change_place(id, change);
    Ok(id)
}

fn may_change(state: &State, verb: &str, user: Id, id: Id) -> Result<bool, Reason> {
    let permissions = state.world.permissions(user, id);
    let Some(thread) = state
        .world
        .channels
        .get(&id)
        .and_then(|place| place.thread.as_ref())
    else {
        return match verb {
            "rename" => Ok(permissions & may::MANAGE_CHANNELS != 0),
            _ => Err(Reason::new(400, "only threads can be archived and locked")),
        };
    };
    let manages = permissions & may::MANAGE_THREADS != 0;
    let speaks = permissions & may::SEND_MESSAGES_IN_THREADS != 0;
    Ok(match verb {
        "archive" | "rename" => manages || thread.owner == user && !thread.locked,
        "unarchive" => manages || speaks && !thread.locked,
        _ => manages,
    })
}

/// Deletes a thread or channel.
pub(super) fn delete(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let id = place(state, action, user)?;
    let is_thread = state
        .world
        .channels
        .get(&id)
        .is_some_and(|place| place.thread.is_some());
    let permission = if is_thread {
        may::MANAGE_THREADS
    } else {
        may::MANAGE_CHANNELS
    };
    need(
        state,
        user,
        id,
        permission,
        "you do not have permission to delete this",
    )?;
    state.world.delete_place(id);
    Ok(id)
}
