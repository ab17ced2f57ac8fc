//! The stand-in's world as lines that a person can read.

use std::fmt::Write as _;

use serde_json::Value;

/// Returns all channels and threads with their messages, as people see them.
pub(super) fn of(world: &Value) -> String {
    let mut text = String::new();
    for channel in list(&world["guilds"][0], "channels") {
        let _ = writeln!(text, "#{}", channel["name"].as_str().unwrap_or_default());
        messages(&mut text, channel, "  ");
        for thread in list(channel, "threads") {
            let _ = writeln!(text, "  ↳ {}", thread["name"].as_str().unwrap_or_default());
            messages(&mut text, thread, "    ");
        }
    }
    text
}

fn messages(text: &mut String, place: &Value, indent: &str) {
    for message in
        list(place, "messages").filter(|message| message["deleted"] != true && !is_empty(message))
    {
        let author = message["author"].as_str().unwrap_or_default();
        let content = message["content"].as_str().unwrap_or_default();
        let mut lines = content.lines();
        let _ = writeln!(
            text,
            "{indent}{author}: {}",
            lines.next().unwrap_or_default()
        );
        for line in lines {
            let _ = writeln!(text, "{indent}  {line}");
        }
        for file in list(message, "attachments") {
            let _ = writeln!(
                text,
                "{indent}  📎 {} ({} bytes)",
                file["name"].as_str().unwrap_or_default(),
                file["size"].as_u64().unwrap_or_default()
            );
        }
    }
}

/// Returns whether a message shows nothing, as Discord's own in a new thread.
pub(super) fn is_empty(message: &Value) -> bool {
    message["content"] == "" && list(message, "attachments").next().is_none()
}

/// Returns the elements of a list in a JSON object; none if it is no list.
pub(super) fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value[key].as_array().into_iter().flatten()
}
