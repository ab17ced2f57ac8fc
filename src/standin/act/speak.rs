//! Messages: saying, changing, deleting, reacting, and the rarer sorts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{actor, id, message, need, need_speech, place, text};
use crate::standin::clock::{Id, rfc3339};
use crate::standin::own::Reason;
use crate::standin::permissions as may;
use crate::standin::shared::State;
use crate::standin::world::{Change, Draft, Kind, NewFile, Reference};

/// Writes a message.
pub(super) fn say(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let place = place(state, action, user)?;
    let draft = draft(state, action, user, place)?;
    if draft.content.trim().is_empty() && draft.files.is_empty() {
        return Err(Reason::new(400, "an empty message cannot be sent"));
    }
    match action["minutes_ago"].as_u64() {
        None => post(state, user, place, draft),
        Some(minutes) => {
            need_speech(state, user, place)?;
            let id = state.world.clock.id_of(minutes);
            state.world.post_as(id, place, draft);
            Ok(id)
        }
    }
}

/// Posts what somebody wrote, if they may speak there.
fn post(state: &mut State, user: Id, place: Id, draft: Draft) -> Result<Id, Reason> {
    let kind = state.world.channels.get(&place).map(|channel| channel.kind);
    if matches!(kind, Some(Kind::Category | Kind::Forum)) {
        return Err(Reason::new(
            400,
            "messages cannot be written here; a forum takes posts",
        ));
    }
    need_speech(state, user, place)?;
    Ok(state.world.post(place, draft))
}

/// Makes a message of an action's text, files and reply.
pub(super) fn draft(state: &State, action: &Value, user: Id, place: Id) -> Result<Draft, Reason> {
    let content = content(state, action["text"].as_str().unwrap_or_default())?;
    let mut draft = Draft {
        files: files(state, action, user, place)?,
        ..Draft::text(user, &content)
    };
    if !action["reply_to"].is_null() {
        let target = message(state, action, "reply_to", user)?;
        if target.channel != place {
            return Err(Reason::new(
                400,
                "a reply goes to the channel of the message",
            ));
        }
        draft.reference = Some(Reference {
            channel: place,
            message: Some(target.id),
            forward: false,
        });
        draft.kind = 19;
        draft.allowed.replied_user = action["ping"].as_bool().unwrap_or(true);
    }
    Ok(draft)
}

fn content(state: &State, text: &str) -> Result<String, Reason> {
    let content = state.world.with_mentions(text).trim().to_owned();
    let length = content.chars().count();
    if length > 2000 {
        return Err(Reason::new(
            400,
            format!("your message is too long: {length} of 2000 characters"),
        ));
    }
    Ok(content)
}

fn files(state: &State, action: &Value, user: Id, place: Id) -> Result<Vec<NewFile>, Reason> {
    let listed = action["files"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if listed.len() > 10 {
        return Err(Reason::new(400, "at most 10 files go with a message"));
    }
    if !listed.is_empty() {
        need(
            state,
            user,
            place,
            may::ATTACH_FILES,
            "you do not have permission to attach files",
        )?;
    }
    let limit = state
        .world
        .guild_of(place)
        .map_or(10 * 1024 * 1024, |guild| guild.upload_limit);
    listed.iter().map(|file| read_file(file, limit)).collect()
}

/// Reads `{"name", "base64"}`; the limit is in bytes.
pub(super) fn read_file(file: &Value, limit: usize) -> Result<NewFile, Reason> {
    let name = text(file, "name")?.to_owned();
    let bytes = STANDARD.decode(text(file, "base64")?);
    let bytes = bytes.map_err(|_| Reason::new(400, format!("the file {name:?} is not base64")))?;
    if bytes.len() > limit {
        return Err(Reason::new(
            400,
            format!("the file {name:?} is too large, {limit} bytes are the limit"),
        ));
    }
    Ok(NewFile {
        name,
        bytes: Bytes::from(bytes),
        description: None,
        voice_seconds: None,
    })
}

/// Changes one's own message.
pub(super) fn edit(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let target = message(state, action, "message", user)?;
    let (channel, id) = (target.channel, target.id);
    if target.author != user {
        return Err(Reason::new(403, "only one's own messages can be edited"));
    }
    let content = Some(content(state, text(action, "text")?)?);
    state.world.edit(
        channel,
        id,
        Change {
            content,
            ..Change::default()
        },
    );
    Ok(id)
}

/// Deletes a message, or several at once as a moderating bot would.
pub(super) fn delete(state: &mut State, action: &Value) -> Result<(), Reason> {
    const SENTENCE: &str = "you do not have permission to delete this message";
    let user = actor(state, action)?;
    if let Some(listed) = action["messages"].as_array() {
        let ids = listed
            .iter()
            .map(|each| id(&json!({ "message": each }), "message"))
            .collect::<Result<Vec<Id>, _>>()?;
        let first = ids.first().and_then(|id| state.world.find_message(*id));
        let (channel, _) = first.ok_or_else(|| Reason::new(404, "there is no such message"))?;
        need(state, user, channel, may::MANAGE_MESSAGES, SENTENCE)?;
        state.world.delete_messages(channel, &ids);
        return Ok(());
    }
    let target = message(state, action, "message", user)?;
    let (channel, id) = (target.channel, target.id);
    if target.author != user && target.only_for != Some(user) {
        need(state, user, channel, may::MANAGE_MESSAGES, SENTENCE)?;
    }
    state.world.delete_message(channel, id);
    Ok(())
}

/// Puts a reaction under a message, or takes it away.
pub(super) fn react(state: &mut State, action: &Value, present: bool) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let emoji = text(action, "emoji")?.to_owned();
    let target = message(state, action, "message", user)?;
    let (channel, id) = (target.channel, target.id);
    need_open(state, channel)?;
    if present
        && !target
            .reactions
            .iter()
            .any(|reaction| reaction.emoji == emoji)
    {
        need(
            state,
            user,
            channel,
            may::ADD_REACTIONS,
            "you do not have permission to add reactions",
        )?;
    }
    state.world.react(channel, id, user, &emoji, present);
    Ok(id)
}

/// Refuses what an archived thread does not allow.
pub(super) fn need_open(state: &State, channel: Id) -> Result<(), Reason> {
    let thread = state
        .world
        .channels
        .get(&channel)
        .and_then(|place| place.thread.as_ref());
    let archived = thread.is_some_and(|thread| thread.archived);
    if archived {
        Err(Reason::new(400, "this thread is archived"))
    } else {
        Ok(())
    }
}

/// Sends a sticker.
pub(super) fn sticker(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let place = place(state, action, user)?;
    let name = action["name"].as_str().unwrap_or("Wave");
    let sticker = json!({ "id": "749054660769218631", "name": name, "format_type": 1 });
    post(
        state,
        user,
        place,
        Draft {
            stickers: vec![sticker],
            ..Draft::text(user, "")
        },
    )
}

/// Sends a voice message.
pub(super) fn voice(state: &mut State, action: &Value) -> Result<Id, Reason> {
    const VOICE: u64 = 1 << 13;
    let user = actor(state, action)?;
    let place = place(state, action, user)?;
    let file = NewFile {
        name: "voice-message.ogg".to_owned(),
        bytes: Bytes::from_static(b"OggS"),
        description: None,
        voice_seconds: Some(2.5),
    };
    post(
        state,
        user,
        place,
        Draft {
            files: vec![file],
            flags: VOICE,
            ..Draft::text(user, "")
        },
    )
}

/// Forwards a message to another place.
pub(super) fn forward(state: &mut State, action: &Value) -> Result<Id, Reason> {
    const HAS_SNAPSHOT: u64 = 1 << 14;
    let user = actor(state, action)?;
    let place = place(state, action, user)?;
    let target = message(state, action, "message", user)?;
    let shown = state.world.show_message(target);
    let mut snapshot = json!({});
    for key in [
        "type",
        "content",
        "embeds",
        "attachments",
        "timestamp",
        "edited_timestamp",
        "flags",
        "mentions",
        "mention_roles",
        "components",
        "sticker_items",
    ] {
        if let Some(value) = shown.get(key) {
            snapshot[key] = value.clone();
        }
    }
    let reference = Some(Reference {
        channel: target.channel,
        message: Some(target.id),
        forward: true,
    });
    let draft = Draft {
        reference,
        snapshot: Some(snapshot),
        flags: HAS_SNAPSHOT,
        ..Draft::text(user, "")
    };
    post(state, user, place, draft)
}

/// Starts a poll.
pub(super) fn poll(state: &mut State, action: &Value) -> Result<Id, Reason> {
    let user = actor(state, action)?;
    let place = place(state, action, user)?;
    need(
        state,
        user,
        place,
        may::SEND_POLLS,
        "you do not have permission to create polls",
    )?;
    let answers = action["answers"]
        .as_array()
        .cloned()
        .unwrap_or_else(|| vec![json!("yes"), json!("no")]);
    let answers = answers
        .iter()
        .enumerate()
        .map(|(index, answer)| json!({ "answer_id": index + 1, "poll_media": { "text": answer } }));
    let poll = json!({
        "question": { "text": text(action, "question")? }, "answers": answers.collect::<Vec<Value>>(),
        "expiry": rfc3339(state.world.clock.now_ms() + 86_400_000), "allow_multiselect": false, "layout_type": 1,
        "results": { "is_finalized": false, "answer_counts": [] },
    });
    post(
        state,
        user,
        place,
        Draft {
            poll: Some(poll),
            ..Draft::text(user, "")
        },
    )
}
