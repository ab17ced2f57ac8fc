//! The body of a message that is created, edited or given in answer: read and checked as strictly
//! as Discord does.

use serde_json::{Value, json};

use super::{Upload, snowflake};
use crate::standin::clock::Id;
use crate::standin::refused::{self, Refused};
use crate::standin::world::{Allowed, Change, Draft, Message, NewFile};

/// Flags that a bot may set on a new message: SUPPRESS_EMBEDS, SUPPRESS_NOTIFICATIONS, voice,
/// Components V2.
const SETTABLE: u64 = 1 << 2 | 1 << 12 | 1 << 13 | Message::COMPONENTS_V2;

/// A message's body; None stands for what it does not name.
#[derive(Debug, Clone)]
pub(super) struct Body {
    pub(super) content: Option<String>,
    pub(super) embeds: Option<Vec<Value>>,
    pub(super) components: Option<Vec<Value>>,
    pub(super) allowed: Option<Allowed>,
    pub(super) flags: Option<u64>,
    /// The stored attachments that an edit keeps.
    pub(super) keep: Option<Vec<Id>>,
    pub(super) files: Vec<NewFile>,
    pub(super) nonce: Option<Value>,
    pub(super) enforce_nonce: bool,
    pub(super) reference: Value,
}

impl Body {
    /// Reads a body and its files. `upload_limit` is in bytes and holds for each file.
    pub(super) fn read(
        body: &Value,
        uploads: &[Upload],
        upload_limit: usize,
    ) -> Result<Body, Refused> {
        if !body.is_object() {
            return Err(refused::INVALID_JSON.into());
        }
        let flags = read_flags(body)?;
        let v2 = flags.unwrap_or(0) & Message::COMPONENTS_V2 != 0;
        let (keep, files) = read_files(body, uploads, upload_limit)?;
        let read = Body {
            content: read_content(body)?,
            embeds: list(body, "embeds")?.map(read_embeds).transpose()?,
            components: list(body, "components")?
                .map(|rows| read_components(rows, v2))
                .transpose()?,
            allowed: body
                .get("allowed_mentions")
                .filter(|given| !given.is_null())
                .map(Allowed::read)
                .transpose()?,
            flags,
            keep,
            files,
            nonce: read_nonce(body)?,
            enforce_nonce: body["enforce_nonce"].as_bool().unwrap_or(false),
            reference: body["message_reference"].clone(),
        };
        if v2
            && read
                .content
                .as_deref()
                .is_some_and(|content| !content.is_empty())
        {
            let message =
                "The 'content' field cannot be used when using MessageFlags.IS_COMPONENTS_V2";
            return Err(Refused::field(
                &["content"],
                "MESSAGE_CANNOT_USE_LEGACY_FIELDS_WITH_COMPONENTS_V2",
                message,
            ));
        }
        Ok(read)
    }

    /// Refuses a message without anything to show.
    pub(super) fn need_something(&self) -> Result<(), Refused> {
        let some = |list: &Option<Vec<Value>>| list.as_ref().is_some_and(|list| !list.is_empty());
        let text = self
            .content
            .as_deref()
            .is_some_and(|content| !content.is_empty());
        let shown = text || some(&self.embeds) || some(&self.components) || !self.files.is_empty();
        if shown {
            Ok(())
        } else {
            Err(refused::EMPTY_MESSAGE.into())
        }
    }

    /// Makes a new message of the body.
    pub(super) fn draft(self, author: Id, default: Allowed) -> Draft {
        Draft {
            embeds: self.embeds.unwrap_or_default(),
            components: self.components.unwrap_or_default(),
            flags: self.flags.unwrap_or(0) & (SETTABLE | Message::EPHEMERAL),
            allowed: self.allowed.unwrap_or(default),
            files: self.files,
            nonce: self.nonce,
            ..Draft::text(author, &self.content.unwrap_or_default())
        }
    }

    /// Makes a change of a message of the body.
    pub(super) fn change(self, message: &Message, default: Allowed) -> Result<Change, Refused> {
        let blank = self.content.as_ref().unwrap_or(&message.content).is_empty();
        let empty =
            |new: &Option<Vec<Value>>, old: &Vec<Value>| new.as_ref().unwrap_or(old).is_empty();
        let kept = self
            .keep
            .as_ref()
            .map_or(message.attachments.len(), Vec::len)
            + self.files.len();
        if blank
            && kept == 0
            && empty(&self.embeds, &message.embeds)
            && empty(&self.components, &message.components)
        {
            return Err(refused::EMPTY_MESSAGE.into());
        }
        if kept > 10 {
            return Err(refused::TOO_MANY_FILES.into());
        }
        // Of the flags an edit may change SUPPRESS_EMBEDS both ways, and set Components V2 for
        // good.
        let flags = self
            .flags
            .map(|flags| message.flags & !(1 << 2) | flags & (1 << 2 | Message::COMPONENTS_V2));
        Ok(Change {
            content: self.content,
            embeds: self.embeds,
            components: self.components,
            flags,
            allowed: Some(self.allowed.unwrap_or(default)),
            keep: self.keep,
            files: self.files,
        })
    }
}

fn read_content(body: &Value) -> Result<Option<String>, Refused> {
    let content = match &body["content"] {
        Value::Null => return Ok(body.get("content").map(|_| String::new())),
        Value::String(content) => content,
        _ => {
            return Err(Refused::field(
                &["content"],
                "STRING_TYPE_CONVERT",
                "Could not interpret as string.",
            ));
        }
    };
    if content.chars().count() > 2000 {
        let message = "Must be 2000 or fewer in length.";
        return Err(Refused::field(
            &["content"],
            "BASE_TYPE_MAX_LENGTH",
            message,
        ));
    }
    // Blank edges are not kept, as on the real one.
    Ok(Some(content.trim().to_owned()))
}

fn read_flags(body: &Value) -> Result<Option<u64>, Refused> {
    match &body["flags"] {
        Value::Null => Ok(None),
        flags => {
            let refused = || Refused::field(&["flags"], "NUMBER_TYPE_COERCE", "Value is not int.");
            flags.as_u64().map(Some).ok_or_else(refused)
        }
    }
}

fn read_nonce(body: &Value) -> Result<Option<Value>, Refused> {
    match &body["nonce"] {
        Value::Null => Ok(None),
        Value::String(nonce) if nonce.chars().count() > 25 => {
            let message = "Must be 25 or fewer in length.";
            Err(Refused::field(&["nonce"], "BASE_TYPE_MAX_LENGTH", message))
        }
        nonce @ (Value::String(_) | Value::Number(_)) => Ok(Some(nonce.clone())),
        _ => Err(Refused::field(
            &["nonce"],
            "STRING_TYPE_CONVERT",
            "Could not interpret as string or int.",
        )),
    }
}

fn list<'a>(body: &'a Value, key: &str) -> Result<Option<&'a [Value]>, Refused> {
    match &body[key] {
        Value::Null => Ok(body.get(key).map(|_| [].as_slice())),
        Value::Array(list) => Ok(Some(list)),
        _ => Err(Refused::field(
            &[key],
            "LIST_TYPE_CONVERT",
            "Only iterables may be used in a ListType",
        )),
    }
}

/// Sorts `attachments` and the uploaded files into what is kept and what is new.
fn read_files(
    body: &Value,
    uploads: &[Upload],
    limit: usize,
) -> Result<(Option<Vec<Id>>, Vec<NewFile>), Refused> {
    let listed = list(body, "attachments")?;
    let files = uploads.iter().enumerate().map(|(index, upload)| {
        let number = upload
            .field
            .strip_prefix("files[")
            .and_then(|rest| rest.strip_suffix(']'));
        let number = number.map_or_else(|| index.to_string(), str::to_owned);
        let entry = listed
            .unwrap_or_default()
            .iter()
            .find(|entry| text_of(&entry["id"]) == number);
        read_file(upload, &number, entry.unwrap_or(&Value::Null), limit)
    });
    let files = files.collect::<Result<Vec<NewFile>, Refused>>()?;
    let keep = listed
        .map(|entries| read_kept(entries, uploads.len()))
        .transpose()?;
    if files.len() + keep.as_ref().map_or(0, Vec::len) > 10 {
        return Err(refused::TOO_MANY_FILES.into());
    }
    Ok((keep, files))
}

/// Reads one uploaded file with what `attachments` says about it.
fn read_file(
    upload: &Upload,
    number: &str,
    entry: &Value,
    limit: usize,
) -> Result<NewFile, Refused> {
    let name = entry["filename"].as_str().unwrap_or(&upload.name);
    if name.is_empty() || name.chars().count() > 1024 {
        return Err(Refused::length(
            &["attachments", number, "filename"],
            1,
            1024,
        ));
    }
    let description = entry["description"].as_str();
    if description.is_some_and(|description| description.chars().count() > 1024) {
        return Err(Refused::length(
            &["attachments", number, "description"],
            0,
            1024,
        ));
    }
    if upload.bytes.len() > limit {
        return Err(refused::TOO_LARGE.into());
    }
    Ok(NewFile {
        name: name.to_owned(),
        bytes: upload.bytes.clone(),
        description: description.map(str::to_owned),
        voice_seconds: None,
    })
}

/// Returns the ids of stored attachments out of a list that names new ones by their small numbers.
fn read_kept(entries: &[Value], uploads: usize) -> Result<Vec<Id>, Refused> {
    let ids = entries
        .iter()
        .map(|entry| snowflake(&text_of(&entry["id"])))
        .collect::<Result<Vec<Id>, _>>()?;
    let unknown = ids
        .iter()
        .find(|id| **id < 1_000_000 && **id >= uploads as u64);
    if let Some(id) = unknown {
        let message = "The attachment's file was not uploaded.";
        return Err(Refused::field(
            &["attachments", &id.to_string()],
            "ATTACHMENT_NOT_FOUND",
            message,
        ));
    }
    Ok(ids.into_iter().filter(|id| *id >= 1_000_000).collect())
}

fn text_of(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}

fn read_embeds(embeds: &[Value]) -> Result<Vec<Value>, Refused> {
    if embeds.len() > 10 {
        return Err(Refused::field(
            &["embeds"],
            "BASE_TYPE_MAX_LENGTH",
            "Must be 10 or fewer in length.",
        ));
    }
    let mut sum = 0;
    for (index, embed) in embeds.iter().enumerate() {
        sum += embed_size(embed, &index.to_string())?;
    }
    if sum > 6000 {
        let message = "Embed size exceeds maximum size of 6000";
        return Err(Refused::field(
            &["embeds"],
            "MAX_EMBED_SIZE_EXCEEDED",
            message,
        ));
    }
    let shown = embeds.iter().map(|embed| {
        let mut shown = embed.clone();
        shown["type"] = json!("rich");
        shown
    });
    Ok(shown.collect())
}

/// Checks an embed's lengths and returns the characters that count for the sum.
fn embed_size(embed: &Value, index: &str) -> Result<usize, Refused> {
    const LONGEST: [(&str, usize); 4] = [
        ("/title", 256),
        ("/description", 4096),
        ("/footer/text", 2048),
        ("/author/name", 256),
    ];
    let mut size = 0;
    for (path, most) in LONGEST {
        if trimmed_length(embed, path) > most {
            return Err(Refused::length(
                &["embeds", index, path.trim_start_matches('/')],
                0,
                most,
            ));
        }
        size += trimmed_length(embed, path);
    }
    let fields = embed["fields"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    if fields.len() > 25 {
        return Err(Refused::length(&["embeds", index, "fields"], 0, 25));
    }
    for field in fields {
        for (path, most) in [("/name", 256), ("/value", 1024)] {
            let length = trimmed_length(field, path);
            if !(1..=most).contains(&length) {
                return Err(Refused::length(
                    &["embeds", index, "fields", &path[1..]],
                    1,
                    most,
                ));
            }
            size += length;
        }
    }
    Ok(size)
}

fn trimmed_length(value: &Value, path: &str) -> usize {
    value
        .pointer(path)
        .and_then(Value::as_str)
        .map_or(0, |text| text.trim().chars().count())
}

/// Checks components and gives each the number that Discord gives it.
fn read_components(rows: &[Value], v2: bool) -> Result<Vec<Value>, Refused> {
    let mut rows = rows.to_vec();
    let mut checked = Components {
        next_id: 0,
        custom_ids: vec![],
        v2,
    };
    if !v2 && rows.len() > 5 {
        return Err(Refused::field(
            &["components"],
            "BASE_TYPE_MAX_LENGTH",
            "Must be 5 or fewer in length.",
        ));
    }
    for (index, row) in rows.iter_mut().enumerate() {
        if !v2 && row["type"] != 1 {
            let message = "Value of field \"type\" must be one of (1,).";
            return Err(Refused::field(
                &["components", &index.to_string()],
                "UNION_TYPE_CHOICES",
                message,
            ));
        }
        checked.visit(row, &format!("{index}"))?;
    }
    if checked.next_id > 40 {
        return Err(Refused::field(
            &["components"],
            "COMPONENT_MAX_TOTAL_COMPONENTS_EXCEEDED",
            "At most 40 components.",
        ));
    }
    Ok(rows)
}

struct Components {
    next_id: u64,
    custom_ids: Vec<String>,
    v2: bool,
}

impl Components {
    fn visit(&mut self, component: &mut Value, at: &str) -> Result<(), Refused> {
        if !component.is_object() {
            return Err(Refused::field(
                &["components", at],
                "MODEL_TYPE_CONVERT",
                "Only dictionaries may be used.",
            ));
        }
        self.next_id += 1;
        component["id"] = json!(self.next_id);
        let refused = |key: &str, code: &str, text: &str| {
            Err(Refused::field(&["components", at, key], code, text))
        };
        match component["type"].as_u64() {
            Some(1) => self.visit_row(component, at)?,
            Some(2) => self.visit_button(component, at)?,
            Some(3..=8) => {
                self.note_custom_id(component, at)?;
                self.visit_menu(component, at)?;
            }
            Some(9..=17) if self.v2 => self.visit_inner(component, at)?,
            _ => {
                return refused(
                    "type",
                    "BASE_TYPE_CHOICES",
                    "This component type cannot be used here.",
                );
            }
        }
        Ok(())
    }

    fn visit_row(&mut self, row: &mut Value, at: &str) -> Result<(), Refused> {
        let inner = row["components"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let menus = inner.iter().filter(|each| each["type"] != 2).count();
        if inner.is_empty() || inner.len() > 5 || menus > 0 && inner.len() > 1 {
            return Err(Refused::length(
                &["components", at, "components"],
                1,
                if menus > 0 { 1 } else { 5 },
            ));
        }
        self.visit_inner(row, at)
    }

    fn visit_inner(&mut self, component: &mut Value, at: &str) -> Result<(), Refused> {
        if let Some(inner) = component
            .get_mut("components")
            .and_then(Value::as_array_mut)
        {
            for (index, inner) in inner.iter_mut().enumerate() {
                self.visit(inner, &format!("{at}.{index}"))?;
            }
        }
        Ok(())
    }

    fn visit_button(&mut self, button: &Value, at: &str) -> Result<(), Refused> {
        let style = button["style"].as_u64().unwrap_or(0);
        if button["label"]
            .as_str()
            .is_some_and(|label| label.chars().count() > 80)
        {
            return Err(Refused::length(&["components", at, "label"], 0, 80));
        }
        if button["label"].as_str().is_none_or(str::is_empty) && button["emoji"].is_null() {
            let message = "A button needs a label or an emoji.";
            return Err(Refused::field(
                &["components", at],
                "BUTTON_COMPONENT_INVALID",
                message,
            ));
        }
        match style {
            1..=4 => self.note_custom_id(button, at),
            5 if button["url"].is_string() && button["custom_id"].is_null() => Ok(()),
            5 => Err(Refused::field(
                &["components", at, "url"],
                "BASE_TYPE_REQUIRED",
                "A link button needs a url alone.",
            )),
            _ => Err(Refused::field(
                &["components", at, "style"],
                "BASE_TYPE_CHOICES",
                "Value must be one of (1, 2, 3, 4, 5).",
            )),
        }
    }

    fn visit_menu(&mut self, menu: &mut Value, at: &str) -> Result<(), Refused> {
        let options = menu["options"].as_array().map_or(0, Vec::len);
        if menu["type"] == 3 && !(1..=25).contains(&options) {
            return Err(Refused::length(&["components", at, "options"], 1, 25));
        }
        for key in ["min_values", "max_values"] {
            if menu[key].is_null() {
                menu[key] = json!(1);
            }
        }
        Ok(())
    }

    fn note_custom_id(&mut self, component: &Value, at: &str) -> Result<(), Refused> {
        let custom_id = component["custom_id"].as_str().unwrap_or_default();
        if !(1..=100).contains(&custom_id.chars().count()) {
            return Err(Refused::length(&["components", at, "custom_id"], 1, 100));
        }
        if self.custom_ids.iter().any(|known| known == custom_id) {
            let message = "Component custom id cannot be duplicated";
            return Err(Refused::field(
                &["components", at, "custom_id"],
                "COMPONENT_CUSTOM_ID_DUPLICATED",
                message,
            ));
        }
        self.custom_ids.push(custom_id.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn button(custom_id: &str) -> Value {
        json!({"type": 2, "style": 2, "label": "x", "custom_id": custom_id})
    }

    fn row(inner: Vec<Value>) -> Value {
        json!({"type": 1, "components": inner})
    }

    #[test]
    fn a_body_that_discord_refuses_is_refused() {
        let five = (0..5).map(|n| button(&n.to_string())).collect::<Vec<_>>();
        let six = (0..6).map(|n| button(&n.to_string())).collect::<Vec<_>>();
        for bad in [
            json!({"content": "😀".repeat(2001)}),
            json!({"content": 7}),
            json!({"content": "x", "nonce": "n".repeat(26)}),
            json!({"components": vec![row(vec![button("a")]); 6]}),
            json!({"components": [row(vec![button("a"), button("a")])]}),
            json!({"components": [row(vec![button("a")]), row(vec![button("a")])]}),
            json!({"components": [row(vec![button(&"c".repeat(101))])]}),
            json!({"components": [row(vec![button("")])]}),
            json!({"components": [row(vec![])]}),
            json!({"components": [row(six)]}),
            json!({"components": [button("a")]}),
            json!({"content": "x", "flags": 1 << 15}),
            json!({"embeds": [{"description": "d".repeat(4097)}]}),
            json!({"embeds": [{"description": "d".repeat(4000)}, {"description": "d".repeat(2001)}]}),
        ] {
            let refused = Body::read(&bad, &[], 10).expect_err(&bad.to_string());
            assert_eq!(refused.code, 50035, "{bad}");
        }
        for good in [
            json!({"content": "😀".repeat(2000)}),
            json!({"components": [row(five)]}),
        ] {
            assert!(Body::read(&good, &[], 10).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_blank_message_is_empty() {
        for blank in [
            json!({}),
            json!({"content": " \n\t "}),
            json!({"content": ""}),
            json!({"embeds": []}),
        ] {
            let body = Body::read(&blank, &[], 10).unwrap();
            assert_eq!(body.need_something().unwrap_err().code, 50006, "{blank}");
        }
    }

    #[test]
    fn files_are_limited_in_size_and_number() {
        let upload = |n: usize, size: usize| Upload {
            field: format!("files[{n}]"),
            name: "f".into(),
            bytes: Bytes::from(vec![0; size]),
        };
        let read = |uploads: Vec<Upload>| {
            Body::read(&json!({}), &uploads, 10).map(|body| body.files.len())
        };
        assert_eq!(read(vec![upload(0, 10)]), Ok(1));
        assert_eq!(read(vec![upload(0, 11)]).unwrap_err().code, 40005);
        assert_eq!(
            read((0..11).map(|n| upload(n, 1)).collect())
                .unwrap_err()
                .code,
            30015
        );
        let unmatched = json!({"attachments": [{"id": 1, "filename": "x"}]});
        assert_eq!(
            Body::read(&unmatched, &[upload(0, 1)], 10)
                .unwrap_err()
                .code,
            50035
        );
    }
}
