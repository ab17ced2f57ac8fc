//! The answers to interactions: the callback, and the webhook that follows it.

use serde_json::{Value, json};

use super::body::Body;
use super::messages::upload_limit;
use super::{Answer, Call, NOTHING, ok, snowflake, switched_on};
use crate::standin::clock::Id;
use crate::standin::refused::{self, Refused};
use crate::standin::shared::State;
use crate::standin::world::{Allowed, Interaction, Message, Progress};

/// Takes the first answer to an interaction.
pub(super) fn callback(state: &mut State, call: &Call, id: &str, token: &str) -> Answer {
    let id = snowflake(id)?;
    let now = state.world.clock.now_ms();
    let found = state
        .world
        .interactions
        .get(&id)
        .filter(|interaction| interaction.token == token);
    let interaction = found.ok_or(refused::UNKNOWN_INTERACTION)?.clone();
    if interaction.progress != Progress::Waiting {
        return Err(refused::ALREADY_ACKNOWLEDGED.into());
    }
    if !interaction.awaits_first_answer(now) {
        return Err(refused::UNKNOWN_INTERACTION.into());
    }
    let kind = call.body["type"].as_u64().unwrap_or(0);
    let data = &call.body["data"];
    match (kind, interaction.asked.kind) {
        (4, 2 | 3 | 5) => reply(state, call, &interaction, data)?,
        (5, 2 | 3 | 5) => promise(state, &interaction, data),
        (6, 3) | (6, 5) if interaction.asked.message.is_some() => {
            settle(state, id, Progress::Heard, interaction.asked.message);
        }
        (7, 3) | (7, 5) if interaction.asked.message.is_some() => {
            update(state, call, &interaction, data)?
        }
        (8, 4) => settle(state, id, Progress::Choices(read_choices(data)?), None),
        (9, 2 | 3) => settle(state, id, Progress::Modal(read_modal(data)?), None),
        _ => {
            let message = "This type cannot answer this interaction.";
            return Err(Refused::field(&["type"], "BASE_TYPE_CHOICES", message));
        }
    }
    if switched_on(call, "with_response") {
        return ok(show_callback(state, id, kind));
    }
    NOTHING
}

fn settle(state: &mut State, id: Id, progress: Progress, original: Option<Id>) {
    if let Some(interaction) = state.world.interactions.get_mut(&id) {
        interaction.progress = progress;
        interaction.original = original.or(interaction.original);
    }
}

fn reply(
    state: &mut State,
    call: &Call,
    interaction: &Interaction,
    data: &Value,
) -> Result<(), Refused> {
    let body = Body::read(
        data,
        &call.files,
        upload_limit(state, interaction.asked.channel),
    )?;
    body.need_something()?;
    let draft = body.draft(state.world.bot.id, Allowed::users_only());
    let message = state.world.post_answer(interaction.id, draft);
    settle(state, interaction.id, Progress::Replied, message);
    Ok(())
}

fn promise(state: &mut State, interaction: &Interaction, data: &Value) {
    let ephemeral = data["flags"].as_u64().unwrap_or(0) & Message::EPHEMERAL;
    let mut draft = crate::standin::world::Draft::text(state.world.bot.id, "");
    draft.flags = Message::LOADING | ephemeral;
    let message = state.world.post_answer(interaction.id, draft);
    settle(state, interaction.id, Progress::Deferred, message);
}

fn update(
    state: &mut State,
    call: &Call,
    interaction: &Interaction,
    data: &Value,
) -> Result<(), Refused> {
    let channel = interaction.asked.channel;
    let target = interaction
        .asked
        .message
        .and_then(|message| state.world.message(channel, message));
    let target = target.ok_or(refused::UNKNOWN_MESSAGE)?;
    let body = Body::read(data, &call.files, upload_limit(state, channel))?;
    let (id, change) = (target.id, body.change(target, Allowed::users_only())?);
    state.world.edit(channel, id, change);
    settle(state, interaction.id, Progress::Updated, Some(id));
    Ok(())
}

fn read_choices(data: &Value) -> Result<Value, Refused> {
    let choices = data["choices"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if choices.len() > 25 {
        return Err(Refused::length(&["data", "choices"], 0, 25));
    }
    for (index, choice) in choices.iter().enumerate() {
        let at = index.to_string();
        let name = choice["name"].as_str().unwrap_or_default().chars().count();
        if !(1..=100).contains(&name) {
            return Err(Refused::length(&["data", "choices", &at, "name"], 1, 100));
        }
        if choice["value"]
            .as_str()
            .is_some_and(|value| value.chars().count() > 100)
        {
            return Err(Refused::length(&["data", "choices", &at, "value"], 0, 100));
        }
    }
    Ok(json!(choices))
}

fn read_modal(data: &Value) -> Result<Value, Refused> {
    let length = |value: &Value| value.as_str().unwrap_or_default().chars().count();
    if !(1..=100).contains(&length(&data["custom_id"])) {
        return Err(Refused::length(&["data", "custom_id"], 1, 100));
    }
    if !(1..=45).contains(&length(&data["title"])) {
        return Err(Refused::length(&["data", "title"], 1, 45));
    }
    let rows = data["components"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if !(1..=5).contains(&rows.len()) {
        return Err(Refused::length(&["data", "components"], 1, 5));
    }
    for (index, row) in rows.iter().enumerate() {
        let input = &row["components"][0];
        let at = index.to_string();
        if row["type"] == 1 && !(1..=100).contains(&length(&input["custom_id"])) {
            return Err(Refused::length(
                &["data", "components", &at, "custom_id"],
                1,
                100,
            ));
        }
        if row["type"] == 1 && !(1..=45).contains(&length(&input["label"])) {
            return Err(Refused::length(
                &["data", "components", &at, "label"],
                1,
                45,
            ));
        }
    }
    Ok(data.clone())
}

fn show_callback(state: &State, id: Id, kind: u64) -> Value {
    let Some(interaction) = state.world.interactions.get(&id) else {
        return Value::Null;
    };
    let mut shown =
        json!({ "interaction": { "id": id.to_string(), "type": interaction.asked.kind } });
    let message = interaction
        .original
        .and_then(|message| state.world.message(interaction.asked.channel, message));
    if let Some(message) = message {
        shown["interaction"]["response_message_id"] = json!(message.id.to_string());
        shown["interaction"]["response_message_loading"] =
            json!(message.flags & Message::LOADING != 0);
        shown["interaction"]["response_message_ephemeral"] = json!(message.only_for.is_some());
        if matches!(kind, 4 | 5 | 7) {
            shown["resource"] =
                json!({ "type": kind, "message": state.world.show_message(message) });
        }
    }
    shown
}

/// Answers requests to an interaction's webhook.
pub(super) fn webhook(
    state: &mut State,
    call: &Call,
    (application, token): (&str, &str),
    rest: &[&str],
) -> Answer {
    if snowflake(application)? != state.world.bot.id {
        return Err(refused::UNKNOWN_WEBHOOK.into());
    }
    let interaction = state
        .world
        .interaction_by_token(token)
        .ok_or(refused::INVALID_TOKEN)?
        .clone();
    if !interaction.is_alive(state.world.clock.now_ms()) {
        return Err(refused::INVALID_TOKEN.into());
    }
    if interaction.progress == Progress::Waiting {
        return Err(refused::UNKNOWN_WEBHOOK.into());
    }
    match (call.method.as_str(), rest) {
        ("POST", []) => follow_up(state, call, &interaction),
        (method, ["messages", id]) => {
            let message = own_message(&interaction, id)?;
            match method {
                "GET" => ok(show(state, &interaction, message)?),
                "PATCH" => edit(state, call, &interaction, message),
                "DELETE" => delete(state, &interaction, message),
                _ => Err(refused::METHOD_NOT_ALLOWED.into()),
            }
        }
        _ => Err(refused::NOT_FOUND.into()),
    }
}

/// Finds a message of the interaction: the first answer or one that followed.
fn own_message(interaction: &Interaction, id: &str) -> Result<Id, Refused> {
    if id == "@original" {
        return interaction.original.ok_or(refused::UNKNOWN_MESSAGE.into());
    }
    let id = snowflake(id)?;
    let own = interaction.original == Some(id) || interaction.follow_ups.contains(&id);
    if own {
        Ok(id)
    } else {
        Err(refused::UNKNOWN_MESSAGE.into())
    }
}

fn show(state: &State, interaction: &Interaction, id: Id) -> Result<Value, Refused> {
    let message = state
        .world
        .message(interaction.asked.channel, id)
        .ok_or(refused::UNKNOWN_MESSAGE)?;
    Ok(state.world.show_message(message))
}

fn follow_up(state: &mut State, call: &Call, interaction: &Interaction) -> Answer {
    // The first message after a promise is the promised one.
    if let (Progress::Deferred, Some(original)) = (&interaction.progress, interaction.original) {
        return edit(state, call, interaction, original);
    }
    let body = Body::read(
        &call.body,
        &call.files,
        upload_limit(state, interaction.asked.channel),
    )?;
    body.need_something()?;
    let draft = body.draft(state.world.bot.id, Allowed::users_only());
    let id = state
        .world
        .post_answer(interaction.id, draft)
        .ok_or(refused::UNKNOWN_WEBHOOK)?;
    if let Some(interaction) = state.world.interactions.get_mut(&interaction.id) {
        interaction.follow_ups.push(id);
    }
    ok(show(state, interaction, id)?)
}

fn edit(state: &mut State, call: &Call, interaction: &Interaction, id: Id) -> Answer {
    let channel = interaction.asked.channel;
    let message = state
        .world
        .message(channel, id)
        .ok_or(refused::UNKNOWN_MESSAGE)?;
    let body = Body::read(&call.body, &call.files, upload_limit(state, channel))?;
    let change = body.change(message, Allowed::users_only())?;
    state.world.edit(channel, id, change);
    let shown = show(state, interaction, id)?;
    match (&interaction.progress, interaction.original == Some(id)) {
        (Progress::Deferred, true) => settle(state, interaction.id, Progress::Replied, None),
        (Progress::Heard, true) => settle(state, interaction.id, Progress::Updated, None),
        _ => {}
    }
    ok(shown)
}

fn delete(state: &mut State, interaction: &Interaction, id: Id) -> Answer {
    let channel = interaction.asked.channel;
    state
        .world
        .message(channel, id)
        .ok_or(refused::UNKNOWN_MESSAGE)?;
    state.world.delete_message(channel, id);
    if interaction.progress == Progress::Deferred {
        settle(state, interaction.id, Progress::Replied, None);
    }
    NOTHING
}
