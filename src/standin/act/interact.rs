//! Commands, buttons, menus and forms, and waiting for what the bot answers.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::options::Options;
use super::speak::need_open;
use super::{actor, id, message, need, place, text};
use crate::standin::clock::{Id, instant};
use crate::standin::own::Reason;
use crate::standin::permissions as may;
use crate::standin::shared::{Core, State};
use crate::standin::world::{Asked, Message, Progress};

/// How long the first answer is awaited, a promised one, and more after "I heard".
const FIRST_ANSWER: Duration = Duration::from_secs(3);
const PROMISED_ANSWER: Duration = Duration::from_secs(15);
const AFTER_HEARD: Duration = Duration::from_secs(2);

/// Types a command.
pub(super) fn command(state: &mut State, action: &Value) -> Result<Id, Reason> {
    ask_command(state, action, 2, None)
}

/// Asks for suggestions for the option named by `focused`.
pub(super) fn complete(state: &mut State, action: &Value) -> Result<Id, Reason> {
    ask_command(state, action, 4, Some(text(action, "focused")?))
}

fn ask_command(
    state: &mut State,
    action: &Value,
    kind: u8,
    focused: Option<&str>,
) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let channel = place(state, action, user)?;
    need_open(state, channel)?;
    let sentence = "you do not have permission to use commands in this channel";
    need(
        state,
        user,
        channel,
        may::USE_APPLICATION_COMMANDS,
        sentence,
    )?;
    let words: Vec<&str> = text(action, "name")?
        .trim_start_matches('/')
        .split_whitespace()
        .collect();
    let (name, words) = words
        .split_first()
        .ok_or_else(|| Reason::new(400, "`name` is empty"))?;
    let command = find_command(state, channel, user, name)?;
    let data = Options::new(state, channel, focused).data(&command, words, &action["options"])?;
    Ok(state.world.ask(Asked {
        kind,
        user,
        channel,
        message: None,
        data,
    }))
}

/// Finds a registered command that this person is shown.
fn find_command(state: &State, channel: Id, user: Id, name: &str) -> Result<Value, Reason> {
    let guild = state.world.guild_of(channel).map(|guild| guild.id);
    let fits = |definition: &Value| definition["name"] == name && definition["type"] == 1;
    let mut commands = state
        .world
        .commands
        .iter()
        .filter(|command| fits(&command.definition));
    let found = (commands
        .clone()
        .find(|command| command.guild.is_some() && command.guild == guild))
    .or_else(|| commands.find(|command| command.guild.is_none()));
    let definition = found.map(|command| command.definition.clone());
    let definition =
        definition.ok_or_else(|| Reason::new(404, format!("there is no command /{name}")))?;
    let wanted = match &definition["default_member_permissions"] {
        Value::String(bits) => bits.parse().unwrap_or(0),
        bits => bits.as_u64().unwrap_or(u64::MAX),
    };
    let held = state
        .world
        .guilds
        .get(&guild.unwrap_or_default())
        .map_or(u64::MAX, |guild| guild.permissions(user));
    let shown = match wanted {
        u64::MAX => true,
        // "0" is shown to administrators alone.
        0 => held & may::ADMINISTRATOR != 0,
        wanted => held & wanted == wanted || held & may::ADMINISTRATOR != 0,
    };
    if shown {
        Ok(definition)
    } else {
        Err(Reason::new(
            403,
            format!("you are not shown the command /{name}"),
        ))
    }
}

/// Presses a button.
pub(super) fn press(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let wanted = text(action, "button")?;
    let target = message(state, action, "message", user)?;
    let button = components(target)
        .into_iter()
        .find(|each| each["type"] == 2 && names_button(each, wanted));
    let button =
        button.ok_or_else(|| Reason::new(404, format!("the message has no button {wanted:?}")))?;
    if button["style"] == 5 {
        return Err(Reason::new(400, "this button opens a link"));
    }
    let data = json!({ "custom_id": button["custom_id"], "component_type": 2, "id": button["id"] });
    ask_component(state, user, (target.channel, target.id), &button, data)
}

fn names_button(button: &Value, wanted: &str) -> bool {
    let label = button["label"].as_str().unwrap_or_default();
    let emoji = button["emoji"]["name"].as_str().unwrap_or_default();
    let both = format!("{emoji} {label}");
    button["custom_id"] == wanted || label == wanted || emoji == wanted || both.trim() == wanted
}

/// Chooses from a menu: the first of the message, or the one that `menu` names.
pub(super) fn choose(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let target = message(state, action, "message", user)?;
    let wanted = action["menu"].as_str();
    let is_menu = |each: &Value| {
        each["type"]
            .as_u64()
            .is_some_and(|kind| (3..=8).contains(&kind))
    };
    let mut found = components(target).into_iter().filter(is_menu);
    let menu = found.find(|menu| wanted.is_none_or(|wanted| menu["custom_id"] == wanted));
    let menu = menu.ok_or_else(|| Reason::new(404, "the message has no such menu"))?;
    let values = action["values"].as_array().cloned().unwrap_or_default();
    let (least, most) = (
        menu["min_values"].as_u64().unwrap_or(1),
        menu["max_values"].as_u64().unwrap_or(1),
    );
    if !(least..=most).contains(&(values.len() as u64)) {
        return Err(Reason::new(
            400,
            format!("{least} to {most} values must be chosen"),
        ));
    }
    let options = menu["options"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let value = |wanted: &Value| {
        let option = options
            .iter()
            .find(|option| option["value"] == *wanted || option["label"] == *wanted);
        option
            .map(|option| option["value"].clone())
            .ok_or_else(|| Reason::new(404, format!("there is no choice {wanted}")))
    };
    let values = if menu["type"] == 3 {
        values.iter().map(value).collect::<Result<Vec<_>, _>>()?
    } else {
        values
    };
    let data = json!({ "custom_id": menu["custom_id"], "component_type": menu["type"], "id": menu["id"], "values": values });
    ask_component(state, user, (target.channel, target.id), &menu, data)
}

/// Returns all buttons and menus of a message.
fn components(message: &Message) -> Vec<Value> {
    fn gather(component: &Value, found: &mut Vec<Value>) {
        found.push(component.clone());
        for inner in component["components"].as_array().into_iter().flatten() {
            gather(inner, found);
        }
        if component["accessory"].is_object() {
            gather(&component["accessory"], found);
        }
    }
    let mut found = Vec::new();
    message
        .components
        .iter()
        .for_each(|component| gather(component, &mut found));
    found
}

fn ask_component(
    state: &mut State,
    user: Id,
    (channel, id): (Id, Id),
    component: &Value,
    data: Value,
) -> Result<Id, Reason> {
    if component["disabled"] == true {
        return Err(Reason::new(400, "this is disabled and cannot be used"));
    }
    bring_back(state, user, channel)?;
    Ok(state.world.ask(Asked {
        kind: 3,
        user,
        channel,
        message: Some(id),
        data,
    }))
}

/// Un-archives a thread before a button in it is used, as clients do; they fail where it is locked.
fn bring_back(state: &mut State, user: Id, channel: Id) -> Result<(), Reason> {
    let thread = state
        .world
        .channels
        .get(&channel)
        .and_then(|place| place.thread.as_ref());
    if thread.is_some_and(|thread| thread.archived) {
        super::need_speech(state, user, channel)?;
        state.world.set_archived(channel, false);
    }
    Ok(())
}

/// Sends the form that an interaction brought up.
pub(super) fn submit(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let source = state.world.interactions.get(&id(action, "interaction")?);
    let source = source.filter(|source| source.asked.user == user);
    let (form, source) = match source.map(|source| (&source.progress, source)) {
        Some((Progress::Modal(form), source)) => (form, source),
        _ => return Err(Reason::new(404, "this interaction shows no form")),
    };
    let rows = form["components"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let rows = rows
        .iter()
        .map(|row| fill_row(row, &action["fields"]))
        .collect::<Result<Vec<Value>, _>>()?;
    let data = json!({ "custom_id": form["custom_id"], "components": rows });
    let asked = Asked {
        kind: 5,
        user,
        channel: source.asked.channel,
        message: source.asked.message,
        data,
    };
    Ok(state.world.ask(asked))
}

fn fill_row(row: &Value, fields: &Value) -> Result<Value, Reason> {
    let inputs = row["components"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let filled = inputs.iter().map(|input| {
        let name = input["custom_id"].as_str().unwrap_or_default();
        let label = input["label"].as_str().unwrap_or_default();
        let given = fields[name].as_str().or_else(|| fields[label].as_str());
        let value = given
            .or_else(|| input["value"].as_str())
            .unwrap_or_default();
        let length = value.chars().count() as u64;
        let most = input["max_length"].as_u64().unwrap_or(4000);
        let least = input["min_length"].as_u64().unwrap_or(0);
        if value.is_empty() && input["required"].as_bool().unwrap_or(true) {
            return Err(Reason::new(400, format!("the field {label:?} is required")));
        }
        if length > most || !value.is_empty() && length < least {
            return Err(Reason::new(
                400,
                format!("the field {label:?} must have {least} to {most} characters"),
            ));
        }
        Ok(json!({ "type": 4, "id": 1, "custom_id": name, "value": value }))
    });
    Ok(json!({ "type": 1, "id": 1, "components": filled.collect::<Result<Vec<Value>, Reason>>()? }))
}

/// What is seen of an answer at one moment.
enum Sight {
    Done(Value),
    /// Not yet; the time until which it is awaited, and what then is said.
    Open(Duration, Result<Value, Reason>),
}

/// Waits for what the bot answers to an interaction and tells it.
pub(super) async fn finish(core: &Core, interaction: Id) -> Result<Value, Reason> {
    let begin = Instant::from_std(instant());
    let mut changes = core.changes();
    let mut heard_at: Option<Instant> = None;
    loop {
        changes.mark_unchanged();
        let heard = core.look(|state| {
            state
                .world
                .interactions
                .get(&interaction)
                .map(|each| each.progress == Progress::Heard)
        });
        if heard == Some(true) {
            heard_at.get_or_insert_with(|| Instant::from_std(instant()));
        }
        match core.look(|state| sight(state, interaction)) {
            Sight::Done(answer) => return Ok(answer),
            Sight::Open(wait, otherwise) => {
                let deadline = heard_at.unwrap_or(begin) + wait;
                if tokio::time::timeout_at(deadline, changes.changed())
                    .await
                    .is_err()
                {
                    return otherwise;
                }
            }
        }
    }
}

fn sight(state: &State, id: Id) -> Sight {
    let Some(interaction) = state.world.interactions.get(&id) else {
        return Sight::Done(Value::Null);
    };
    let channel = interaction.asked.channel;
    let shown = |message: Option<Id>| {
        message
            .and_then(|id| state.world.message(channel, id))
            .map(|message| show(state, message))
    };
    let told = |reply: Option<Value>, modal: Value| json!({ "ok": true, "reply": reply, "modal": modal, "interaction": id.to_string() });
    match &interaction.progress {
        Progress::Waiting if interaction.asked.kind == 4 => Sight::Open(
            FIRST_ANSWER,
            Err(Reason::new(408, "loading options failed")),
        ),
        Progress::Waiting => Sight::Open(
            FIRST_ANSWER,
            Err(Reason::new(408, "the application did not respond")),
        ),
        Progress::Replied => Sight::Done(told(shown(interaction.original), Value::Null)),
        Progress::Deferred => Sight::Open(PROMISED_ANSWER, Ok(told(None, Value::Null))),
        Progress::Heard => match interaction.follow_ups.first() {
            Some(first) => Sight::Done(told(shown(Some(*first)), Value::Null)),
            None => Sight::Open(AFTER_HEARD, Ok(told(None, Value::Null))),
        },
        Progress::Updated => Sight::Done(told(None, Value::Null)),
        Progress::Choices(choices) => Sight::Done(json!({ "ok": true, "choices": choices })),
        Progress::Modal(form) => Sight::Done(told(None, form.clone())),
    }
}

fn show(state: &State, message: &Message) -> Value {
    let shown = state.world.view_message(message);
    json!({
        "id": shown["id"], "content": shown["content"], "ephemeral": message.only_for.is_some(),
        "files": shown["attachments"], "components": shown["components"], "embeds": shown["embeds"],
        "pings": shown["pings"],
    })
}
