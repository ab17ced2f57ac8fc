//! The stand-in's world as lines that a person can read.

use std::fmt::Write as _;

use jiff::Timestamp;
use regex::Regex;
use serde_json::Value;

/// Returns all channels and threads with their messages, as people see them.
pub(super) fn of(world: &Value) -> String {
    let names = Names::of(world);
    let mut text = String::new();
    for channel in list(&world["guilds"][0], "channels") {
        let _ = writeln!(text, "#{}", channel["name"].as_str().unwrap_or_default());
        messages(&mut text, channel, "  ", &names);
        for thread in list(channel, "threads") {
            let _ = writeln!(text, "  ↳ {}", thread["name"].as_str().unwrap_or_default());
            messages(&mut text, thread, "    ", &names);
        }
    }
    text
}

/// Who is meant by an id.
pub(super) struct Names(Vec<(String, String)>);

impl Names {
    /// Takes the names of a world's people and roles.
    pub(super) fn of(world: &Value) -> Names {
        let of = |key: &'static str, sign: &'static str| {
            list(&world["guilds"][0], key).map(move |named| {
                let word = |field: &'static str| named[field].as_str().unwrap_or_default();
                (
                    format!("<@{sign}{}>", word("id")),
                    format!("@{}", word("name")),
                )
            })
        };
        Names(of("members", "").chain(of("roles", "&")).collect())
    }

    /// Returns a text as Discord's client shows it: with names and moments in the place of Discord's own marks.
    pub(super) fn shown(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (mark, name) in &self.0 {
            text = text.replace(mark, name);
        }
        let Ok(moment) = Regex::new(r"<t:(\d+)(?::\w)?>") else {
            return text;
        };
        let date = |found: &regex::Captures<'_>| {
            let seconds = found[1].parse().ok();
            let at = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
            at.map_or_else(
                || found[0].to_owned(),
                |at| at.strftime("%-d %B %Y, %H:%M UTC").to_string(),
            )
        };
        moment.replace_all(&text, date).into_owned()
    }
}

fn messages(text: &mut String, place: &Value, indent: &str, names: &Names) {
    for message in
        list(place, "messages").filter(|message| message["deleted"] != true && !is_empty(message))
    {
        let author = message["author"].as_str().unwrap_or_default();
        let content = names.shown(message["content"].as_str().unwrap_or_default());
        let only = message["only_for"]
            .as_str()
            .map_or(String::new(), |who| format!(" (only {who} sees this)"));
        let mut lines = content.lines();
        let _ = writeln!(
            text,
            "{indent}{author}{only}: {}",
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_transcript_reads_as_people_see_it() {
        let message = |content: &str, only: Value| json!({"author": "innkeeper", "content": content, "deleted": false, "attachments": [], "only_for": only});
        let world = json!({"guilds": [{
            "members": [{"id": "20", "name": "ada"}],
            "roles": [{"id": "30", "name": "crew"}],
            "channels": [{"name": "data", "threads": [], "messages": [
                message("<@20>, ask <@&30> or <@99>", Value::Null),
                message("starts anew <t:1796083200:R>.\n<t:x>", json!("ada")),
            ]}],
        }]});
        insta::assert_snapshot!(of(&world), @r"
        #data
          innkeeper: @ada, ask @crew or <@99>
          innkeeper (only ada sees this): starts anew 1 December 2026, 00:00 UTC.
            <t:x>
        ");
    }
}
