//! `POST /standin/act`: what people do, with the refusals that Discord's clients would show them.
//!
//! A person can do here what a real client lets them do, and nothing else; only `raw`, `join`,
//! `leave`, `roles` and `nick` are the world's own hand.
//!
//! Every action has `as` (a name or id) and `do`. Beyond `in`, `text`, `files`, `message` and
//! `name` the verbs take: `say` `reply_to`, `ping` (true) and `minutes_ago` (0; older ids than the
//! newest are given only so) · `delete` `messages` for several at
//! once · `react` and `unreact` `emoji` · `thread` `private` (false) · `poll` `question` and
//! `answers` · `choose` `values` and `menu` (a custom id; the first menu where absent) · `archive`,
//! `unarchive`, `lock`, `unlock` · `roles` `roles` · `nick` `nick` · `join` and `leave` `guild`
//! (the first server where absent). A command's name has its subcommands behind spaces; a file
//! among its options is `{"name", "base64"}`.
//!
//! `command`, `press`, `choose` and `submit` wait for the first answer three seconds, as clients
//! do, and for a promised one fifteen. After a bot has only said that it heard, a message that
//! follows within two seconds counts as the answer.

mod interact;
mod options;
mod people;
mod places;
mod speak;

use serde_json::{Value, json};

use super::clock::Id;
use super::own::Reason;
use super::permissions as may;
use super::shared::{Core, State};
use super::world::{Message, News};

/// Does one thing and answers when it is done; what a bot must answer is awaited.
pub(crate) async fn act(core: &Core, action: &Value) -> Result<Value, Reason> {
    match text(action, "do")? {
        "command" => {
            interact::finish(core, core.with(|state| interact::command(state, action))?).await
        }
        "press" => interact::finish(core, core.with(|state| interact::press(state, action))?).await,
        "choose" => {
            interact::finish(core, core.with(|state| interact::choose(state, action))?).await
        }
        "submit" => {
            interact::finish(core, core.with(|state| interact::submit(state, action))?).await
        }
        "complete" => {
            interact::finish(core, core.with(|state| interact::complete(state, action))?).await
        }
        verb => core
            .with(|state| at_once(state, verb, action))
            .map(|id| match id {
                Some(id) => json!({ "ok": true, "id": id.to_string() }),
                None => json!({ "ok": true }),
            }),
    }
}

fn at_once(state: &mut State, verb: &str, action: &Value) -> Result<Option<Id>, Reason> {
    match verb {
        "say" => speak::say(state, action).map(Some),
        "edit" => speak::edit(state, action).map(Some),
        "delete" => speak::delete(state, action).map(|()| None),
        "react" => speak::react(state, action, true).map(Some),
        "unreact" => speak::react(state, action, false).map(Some),
        "sticker" => speak::sticker(state, action).map(Some),
        "voice" => speak::voice(state, action).map(Some),
        "forward" => speak::forward(state, action).map(Some),
        "poll" => speak::poll(state, action).map(Some),
        "thread" => places::thread(state, action).map(Some),
        "post" => places::post(state, action).map(Some),
        "archive" | "unarchive" | "lock" | "unlock" | "rename" => {
            places::change(state, verb, action).map(Some)
        }
        "delete-thread" | "delete-channel" => places::delete(state, action).map(Some),
        "roles" => people::roles(state, action).map(Some),
        "nick" => people::nick(state, action).map(Some),
        "join" => people::join(state, action).map(Some),
        "leave" => people::leave(state, action).map(Some),
        "raw" => raw(state, action).map(|()| None),
        _ => Err(Reason::new(400, format!("nobody can {verb:?} here"))),
    }
}

/// Sends an event of any kind to the bot's clients.
fn raw(state: &mut State, action: &Value) -> Result<(), Reason> {
    let name = text(action, "event")?.to_owned();
    let data = action
        .get("data")
        .cloned()
        .ok_or_else(|| Reason::new(400, "`data` is missing"))?;
    state.world.outbox.push(News {
        name,
        data,
        intents: 0,
        for_bot: true,
    });
    Ok(())
}

/// Reads a text of an action.
fn text<'a>(action: &'a Value, key: &str) -> Result<&'a str, Reason> {
    action[key]
        .as_str()
        .ok_or_else(|| Reason::new(400, format!("`{key}` is missing or not a text")))
}

/// Reads an id of an action.
fn id(action: &Value, key: &str) -> Result<Id, Reason> {
    let id = action[key]
        .as_str()
        .and_then(|id| id.parse().ok())
        .or_else(|| action[key].as_u64());
    id.ok_or_else(|| Reason::new(400, format!("`{key}` is missing or not an id")))
}

/// Finds the person who acts.
fn actor(state: &State, action: &Value) -> Result<Id, Reason> {
    let name = text(action, "as")?;
    state
        .world
        .find_user(name)
        .ok_or_else(|| Reason::new(404, format!("there is nobody named {name:?}")))
}

/// Finds the place that an action names, which the actor must see; `@name` opens direct messages.
fn place(state: &mut State, action: &Value, user: Id) -> Result<Id, Reason> {
    let name = text(action, "in")?;
    let unknown = || Reason::new(404, format!("there is no channel or thread {name:?}"));
    let place = match name.strip_prefix('@') {
        Some(other) => {
            let other = state.world.find_user(other).ok_or_else(unknown)?;
            Some(state.world.direct_messages(user, other))
        }
        None => state.world.find_place(name),
    };
    let place = place.ok_or_else(unknown)?;
    need_sight(state, user, place)?;
    Ok(place)
}

fn need_sight(state: &State, user: Id, place: Id) -> Result<(), Reason> {
    if state.world.sees(user, place) {
        Ok(())
    } else {
        Err(Reason::new(403, "you do not have access to this channel"))
    }
}

/// Finds the message that an action names, which the actor must see.
fn message<'a>(
    state: &'a State,
    action: &Value,
    key: &str,
    user: Id,
) -> Result<&'a Message, Reason> {
    let wanted = id(action, key)?;
    let unknown = || Reason::new(404, "this message does not exist any more");
    let (place, wanted) = state.world.find_message(wanted).ok_or_else(unknown)?;
    need_sight(state, user, place)?;
    let message = state.world.message(place, wanted).ok_or_else(unknown)?;
    if message.only_for.is_some_and(|only| only != user) {
        Err(unknown())
    } else {
        Ok(message)
    }
}

/// Demands a permission, with the sentence for whoever lacks it.
fn need(state: &State, user: Id, place: Id, permission: u64, sentence: &str) -> Result<(), Reason> {
    let has = state.world.permissions(user, place) & permission == permission;
    if has {
        Ok(())
    } else {
        Err(Reason::new(403, sentence))
    }
}

/// Demands that somebody may speak in a place.
fn need_speech(state: &State, user: Id, place: Id) -> Result<(), Reason> {
    const SENTENCE: &str = "you do not have permission to send messages in this channel";
    let Some(channel) = state.world.channels.get(&place) else {
        return Err(Reason::new(404, "unknown channel"));
    };
    match &channel.thread {
        Some(thread) => {
            need(state, user, place, may::SEND_MESSAGES_IN_THREADS, SENTENCE)?;
            let manages = state.world.permissions(user, place) & may::MANAGE_THREADS != 0;
            if thread.locked && !manages {
                Err(Reason::new(403, "this thread is locked"))
            } else {
                Ok(())
            }
        }
        None => need(state, user, place, may::SEND_MESSAGES, SENTENCE),
    }
}
