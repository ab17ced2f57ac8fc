//! The stand-in's world as a story looks at it.

use std::fmt::Write as _;

use serde_json::Value;

/// The whole world at one moment.
pub(crate) struct View(pub(crate) Value);

impl View {
    /// Returns a channel by its name or a thread by its id.
    pub(crate) fn place(&self, name: &str) -> Option<Place> {
        self.places()
            .find(|place| place["id"] == name || place["name"] == name)
            .map(|place| Place(place.clone()))
    }

    fn channels(&self) -> impl Iterator<Item = &Value> {
        list(&self.0["guilds"][0], "channels")
    }

    fn places(&self) -> impl Iterator<Item = &Value> {
        self.channels()
            .flat_map(|channel| std::iter::once(channel).chain(list(channel, "threads")))
    }

    /// Returns a member's id.
    pub(crate) fn member(&self, name: &str) -> Option<u64> {
        list(&self.0["guilds"][0], "members")
            .find(|member| member["name"] == name)
            .and_then(|member| member["id"].as_str()?.parse().ok())
    }

    /// Returns a message, wherever it is.
    pub(crate) fn message(&self, id: &str) -> Option<Message> {
        self.places()
            .flat_map(|place| list(place, "messages"))
            .find(|message| message["id"] == id)
            .map(|message| Message(message.clone()))
    }

    /// Returns how many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.channels()
            .map(|channel| list(channel, "threads").count())
            .sum()
    }

    /// Tells whether the bot has registered its commands.
    pub(crate) fn has_commands(&self) -> bool {
        list(&self.0, "commands").next().is_some()
    }

    /// Returns the live messages that seem to work, wherever they are.
    pub(crate) fn working(&self) -> Vec<String> {
        self.places()
            .filter_map(|place| Place(place.clone()).live())
            .map(|live| live.text().to_owned())
            .collect()
    }

    /// Returns everything that people see.
    pub(crate) fn transcript(&self) -> String {
        let mut text = String::new();
        for channel in self.channels() {
            let _ = writeln!(text, "#{}", channel["name"].as_str().unwrap_or_default());
            write_messages(&mut text, channel, "  ");
            for thread in list(channel, "threads") {
                let state: String = ["archived", "locked"]
                    .iter()
                    .filter(|key| thread[**key] == true)
                    .map(|key| format!(" ({key})"))
                    .collect();
                let name = thread["name"].as_str().unwrap_or_default();
                let _ = writeln!(text, "  ↳ {name}{state}");
                write_messages(&mut text, thread, "    ");
            }
        }
        text
    }
}

fn write_messages(text: &mut String, place: &Value, indent: &str) {
    for message in list(place, "messages").map(|message| Message(message.clone())) {
        let mut marks = String::new();
        if message.is_deleted() {
            marks += " (deleted)";
        }
        if message.is_private() {
            marks += " (to one person)";
        }
        if !message.pings().is_empty() {
            let _ = write!(marks, " (pings {})", message.pings().join(", "));
        }
        for file in message.files() {
            let _ = write!(marks, " [{file}]");
        }
        for button in message.buttons() {
            let _ = write!(marks, " <{button}>");
        }
        let mut lines = message.text().lines();
        let first = lines.next().unwrap_or_default();
        let _ = writeln!(text, "{indent}{}: {first}{marks}", message.author());
        for line in lines {
            let _ = writeln!(text, "{indent}  {line}");
        }
    }
}

/// A channel or thread at one moment.
pub(crate) struct Place(pub(crate) Value);

impl Place {
    /// Returns its name.
    pub(crate) fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// Returns all messages that are still there, oldest first.
    pub(crate) fn messages(&self) -> Vec<Message> {
        list(&self.0, "messages")
            .map(|message| Message(message.clone()))
            .filter(|message| !message.is_deleted() && !message.is_private())
            .collect()
    }

    /// Returns the bot's messages that everybody sees; the system's own, which show nothing, are none.
    pub(crate) fn bots(&self) -> Vec<Message> {
        let all = self.messages().into_iter();
        all.filter(|message| message.author() == "innkeeper")
            .filter(|message| !message.text().is_empty() || !message.files().is_empty())
            .collect()
    }

    /// Returns the live message of a running turn.
    pub(crate) fn live(&self) -> Option<Message> {
        self.bots()
            .into_iter()
            .find(|message| message.buttons().contains(&"Stop".to_owned()))
    }

    /// Returns the receipts of turns that are over.
    pub(crate) fn receipts(&self) -> Vec<Message> {
        let all = self.bots().into_iter();
        all.filter(|message| message.buttons().contains(&"Details".to_owned()))
            .collect()
    }

    /// Returns what the bot said beside live messages and receipts.
    pub(crate) fn answers(&self) -> Vec<Message> {
        let all = self.bots().into_iter();
        all.filter(|message| message.buttons().is_empty()).collect()
    }
}

/// A message at one moment.
#[derive(Debug)]
pub(crate) struct Message(pub(crate) Value);

impl Message {
    /// Returns its id.
    pub(crate) fn id(&self) -> &str {
        self.0["id"].as_str().unwrap_or_default()
    }

    /// Returns who wrote it.
    pub(crate) fn author(&self) -> &str {
        self.0["author"].as_str().unwrap_or_default()
    }

    /// Returns its words.
    pub(crate) fn text(&self) -> &str {
        self.0["content"].as_str().unwrap_or_default()
    }

    /// Returns whom it notified.
    pub(crate) fn pings(&self) -> Vec<String> {
        texts(&self.0, "pings")
    }

    /// Returns the names of its files.
    pub(crate) fn files(&self) -> Vec<String> {
        list(&self.0, "attachments")
            .filter_map(|file| file["name"].as_str().map(str::to_owned))
            .collect()
    }

    /// Returns the labels of its buttons.
    pub(crate) fn buttons(&self) -> Vec<String> {
        list(&self.0, "components")
            .flat_map(|row| list(row, "components"))
            .filter_map(|button| button["label"].as_str().map(str::to_owned))
            .collect()
    }

    /// Returns the emoji under it.
    pub(crate) fn reactions(&self) -> Vec<String> {
        list(&self.0, "reactions")
            .filter_map(|reaction| reaction["emoji"].as_str().map(str::to_owned))
            .collect()
    }

    /// Returns the message that it replies to.
    pub(crate) fn reply_to(&self) -> Option<String> {
        self.0["reply_to"].as_str().map(str::to_owned)
    }

    /// Returns how often it was edited.
    pub(crate) fn edits(&self) -> u64 {
        self.0["edits"].as_u64().unwrap_or_default()
    }

    /// Tells whether only one person sees it.
    pub(crate) fn is_private(&self) -> bool {
        self.0["only_for"].is_string()
    }

    /// Tells whether it is gone.
    pub(crate) fn is_deleted(&self) -> bool {
        self.0["deleted"] == true
    }
}

fn texts(value: &Value, key: &str) -> Vec<String> {
    list(value, key)
        .filter_map(|text| text.as_str().map(str::to_owned))
        .collect()
}

/// Returns the elements of a list in a JSON object; none if it is no list.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value[key].as_array().into_iter().flatten()
}
