//! From what Discord reports about messages to our own words. Pure: nothing here asks anybody anything.

use serde_json::Value;

use crate::domain::guest::Person;
use crate::domain::ids::{AttachmentId, ChannelId, GuildId, MemberId, MessageId, RoleId};
use crate::domain::request::{Attachment, Quote};
use crate::domain::venue::Place;
use crate::driver::inbound::InboundMessage;

use super::places::Myself;
use super::wire;

/// `IS_VOICE_MESSAGE` among a message's flags (resources/message).
const VOICE: u64 = 1 << 13;

/// The kind of reference that a forward has (resources/message).
const FORWARD: u64 = 1;

/// Where something happened, read before anything else of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) guild: GuildId,
    pub(super) channel: ChannelId,
}

/// Returns where an event happened; `None` in private conversations.
pub(super) fn source(raw: &Value) -> Option<Source> {
    Some(Source {
        guild: GuildId(wire::id(&raw["guild_id"])?),
        channel: ChannelId(wire::id(&raw["channel_id"])?),
    })
}

/// Returns whether a message is something that a person wrote: an ordinary message or a reply, by neither bot nor webhook.
pub(super) fn is_from_a_person(raw: &Value, me: Myself) -> bool {
    let author = &raw["author"];
    matches!(raw["type"].as_u64(), Some(0 | 19))
        && raw["webhook_id"].is_null()
        && author["bot"].as_bool() != Some(true)
        && wire::id(&author["id"]).is_some_and(|id| id != me.user)
}

/// Turns a message into ours; `None` if it has no id or no author.
pub(super) fn message(raw: &Value, me: Myself, place: Place) -> Option<InboundMessage> {
    let id = MessageId(wire::id(&raw["id"])?);
    let author = person(&raw["author"], &raw["member"])?;
    let content = wire::text(&raw["content"]);
    let addressed = mentions(raw, me);
    let replied = reply_target(raw);
    let others = wire::list(&raw["mentions"]).iter();
    let mentions_others = others
        .filter_map(|user| wire::id(&user["id"]))
        .any(|user| user != me.user && user != author.member.0);
    let replies_to_other = replied
        .and_then(|target| wire::id(&target["author"]["id"]))
        .is_some_and(|user| user != me.user && user != author.member.0);
    let attachments = attachments(raw, id, me);
    let quotes = quotes(raw, me);
    let described = described(raw);
    let nothing = content.is_empty()
        && attachments.is_empty()
        && quotes.is_empty()
        && described.is_empty()
        && wire::list(&raw["embeds"]).is_empty();
    Some(InboundMessage {
        id,
        place,
        text: without_mention(content, me),
        addressed,
        for_others: mentions_others || (replies_to_other && !addressed),
        withheld: addressed && nothing,
        attachments,
        quotes,
        described,
        author,
    })
}

/// Returns the moment of an author's edit (milliseconds since 1970) and the new text; `None` for link previews and other
/// changes that are not the author's.
pub(super) fn edited(raw: &Value, me: Myself) -> Option<(i64, String)> {
    let at: jiff::Timestamp = raw["edited_timestamp"].as_str()?.parse().ok()?;
    let content = raw["content"].as_str()?;
    Some((at.as_millisecond(), without_mention(content, me)))
}

/// Returns a person, by the name that the server shows.
pub(super) fn person(user: &Value, member: &Value) -> Option<Person> {
    let names = [&member["nick"], &user["global_name"], &user["username"]];
    let name = names.into_iter().find_map(Value::as_str);
    Some(Person {
        member: MemberId(wire::id(&user["id"])?),
        name: name.unwrap_or("somebody").to_owned(),
        roles: wire::ids(&member["roles"]).map(RoleId).collect(),
    })
}

/// Returns whether a message mentions the bot: typed or by a reply that pings, both of which stand in `mentions`, or by
/// the bot's own role, which Discord's picker offers and which stands nowhere else.
fn mentions(raw: &Value, me: Myself) -> bool {
    let mut users = wire::list(&raw["mentions"]).iter();
    users.any(|user| wire::id(&user["id"]) == Some(me.user))
        || me
            .role
            .is_some_and(|role| wire::ids(&raw["mention_roles"]).any(|id| id == role))
}

/// Takes the bot's mention out of a text, in both forms and as its role.
fn without_mention(text: &str, me: Myself) -> String {
    let mut text = text.to_owned();
    let role = me.role.map(|role| format!("<@&{role}>"));
    let forms = [format!("<@{}>", me.user), format!("<@!{}>", me.user)];
    for form in forms.into_iter().chain(role) {
        text = text.replace(&format!("{form} "), "").replace(&form, "");
    }
    text.trim().to_owned()
}

/// Returns the message that this one replies to, if it is a reply and that message can be read.
fn reply_target(raw: &Value) -> Option<&Value> {
    let is_reply = raw["message_reference"]["type"].as_u64().unwrap_or(0) != FORWARD;
    Some(&raw["referenced_message"]).filter(|target| is_reply && target.is_object())
}

/// Returns the message that is quoted by replying: the bot's own words the agent knows already.
fn quoted_reply(raw: &Value, me: Myself) -> Option<&Value> {
    reply_target(raw).filter(|target| wire::id(&target["author"]["id"]) != Some(me.user))
}

fn snapshots(raw: &Value) -> impl Iterator<Item = &Value> {
    wire::list(&raw["message_snapshots"])
        .iter()
        .map(|snapshot| &snapshot["message"])
}

fn quotes(raw: &Value, me: Myself) -> Vec<Quote> {
    let reply = quoted_reply(raw, me).map(|target| {
        let author = person(&target["author"], &Value::Null);
        Quote {
            by: author.as_ref().map(|author| author.member),
            author: author.map(|author| author.name),
            text: quoted_text(target),
            message: None,
        }
    });
    let forwards = snapshots(raw).map(|message| Quote {
        author: None,
        by: None,
        text: quoted_text(message),
        message: None,
    });
    reply
        .into_iter()
        .chain(forwards)
        .filter(|quote| !quote.text.is_empty())
        .collect()
}

/// Returns the words of a quoted message, and what it holds beside them.
fn quoted_text(raw: &Value) -> String {
    let content = wire::text(&raw["content"]).trim();
    let names = wire::list(&raw["attachments"]).iter();
    let files = names.map(|file| format!("[file: {}]", wire::text(&file["filename"])));
    let words = Some(content.to_owned()).filter(|words| !words.is_empty());
    let lines: Vec<String> = words
        .into_iter()
        .chain(files)
        .chain(described(raw))
        .collect();
    lines.join("\n")
}

/// Returns the files of a message, of what it forwards and of what it replies to.
fn attachments(raw: &Value, id: MessageId, me: Myself) -> Vec<Attachment> {
    let own = wire::list(&raw["attachments"]).iter();
    let forwarded = snapshots(raw).flat_map(|message| wire::list(&message["attachments"]));
    let mut files: Vec<Attachment> = own
        .chain(forwarded)
        .filter_map(|file| attachment(file, Some(id)))
        .collect();
    if let Some(target) = quoted_reply(raw, me) {
        let message = wire::id(&target["id"]).map(MessageId);
        let quoted = wire::list(&target["attachments"]).iter();
        files.extend(quoted.filter_map(|file| attachment(file, message)));
    }
    files
}

/// Returns one file; `message` is what it hangs on.
pub(super) fn attachment(raw: &Value, message: Option<MessageId>) -> Option<Attachment> {
    Some(Attachment {
        id: AttachmentId(wire::id(&raw["id"])?),
        message,
        name: wire::text(&raw["filename"]).to_owned(),
        size: raw["size"].as_u64().unwrap_or(0),
        url: raw["url"].as_str()?.to_owned(),
    })
}

/// Describes what has no text of its own.
fn described(raw: &Value) -> Vec<String> {
    let stickers = wire::list(&raw["sticker_items"]).iter();
    let mut described: Vec<String> = stickers
        .map(|sticker| format!("a sticker named {:?}", wire::text(&sticker["name"])))
        .collect();
    if raw["poll"].is_object() {
        described.push(poll(&raw["poll"]));
    }
    if raw["flags"].as_u64().unwrap_or(0) & VOICE != 0 {
        described.push("a voice message".to_owned());
    }
    described
}

fn poll(raw: &Value) -> String {
    let answers = wire::list(&raw["answers"]).iter();
    let answers: Vec<String> = answers
        .map(|answer| format!("{:?}", wire::text(&answer["poll_media"]["text"])))
        .collect();
    let question = wire::text(&raw["question"]["text"]);
    format!("a poll: {question:?}, answers {}", answers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::venue::PlaceKind;
    use serde_json::json;

    const ME: Myself = Myself {
        user: 99,
        role: Some(88),
    };

    const PLACE: Place = Place {
        guild: GuildId(1),
        channel: ChannelId(2),
        parent: None,
        kind: PlaceKind::Text,
    };

    /// Returns a message of Ada's with some fields replaced.
    fn raw(changes: Value) -> Value {
        let mut raw = json!({
            "id": "10", "channel_id": "2", "guild_id": "1", "type": 0, "content": "hello",
            "author": {"id": "7", "username": "ada", "global_name": "Ada"},
            "member": {"nick": null, "roles": ["5", "6"]},
            "mentions": [], "mention_roles": [], "attachments": [], "embeds": [],
        });
        for (key, value) in changes.as_object().unwrap() {
            raw[key] = value.clone();
        }
        raw
    }

    fn heard(changes: Value) -> InboundMessage {
        message(&raw(changes), ME, PLACE).unwrap()
    }

    #[test]
    fn only_what_a_person_wrote_is_heard() {
        let table = [
            (json!({}), true),
            (json!({"type": 19}), true),
            (json!({"type": 4}), false),
            (json!({"type": 6}), false),
            (json!({"type": 7}), false),
            (json!({"type": 18}), false),
            (json!({"type": 21}), false),
            (json!({"type": 46}), false),
            (json!({"type": 300}), false),
            (json!({"author": {"id": "7", "bot": true}}), false),
            (json!({"author": {"id": "99"}}), false),
            (json!({"author": null}), false),
            (json!({"webhook_id": "7"}), false),
        ];
        for (changes, expected) in table {
            assert_eq!(
                is_from_a_person(&raw(changes.clone()), ME),
                expected,
                "{changes}"
            );
        }
    }

    #[test]
    fn a_mention_is_the_bots_user_or_its_own_role_and_nothing_else() {
        let table = [
            (json!({"mentions": [{"id": "99"}]}), true),
            (json!({"mention_roles": ["88"]}), true),
            (json!({"mentions": [{"id": "98"}]}), false),
            (json!({"mention_roles": ["87"]}), false),
            (json!({"mention_everyone": true}), false),
            (json!({"content": "<@99> in a quotation only"}), false),
            (
                json!({"message_snapshots": [{"message": {"content": "<@99>", "mentions": [{"id": "99"}]}}]}),
                false,
            ),
        ];
        for (changes, expected) in table {
            assert_eq!(heard(changes.clone()).addressed, expected, "{changes}");
        }
    }

    #[test]
    fn every_form_of_the_mention_is_taken_out_of_the_text() {
        let table = [
            ("<@99> plot it", "plot it"),
            ("<@!99> plot it", "plot it"),
            ("<@&88> plot it", "plot it"),
            ("plot <@99> it", "plot it"),
            ("plot it <@99>", "plot it"),
            ("<@99>, plot it", ", plot it"),
            ("<@98> plot <@&87>", "<@98> plot <@&87>"),
            ("<@99>", ""),
        ];
        for (content, expected) in table {
            assert_eq!(heard(json!({"content": content})).text, expected);
        }
    }

    #[test]
    fn words_for_somebody_else_are_told_apart() {
        let ben = json!({"id": "11", "author": {"id": "8", "username": "ben"}, "content": "hm"});
        let bot = json!({"id": "11", "author": {"id": "99", "username": "innkeeper"}});
        let own = json!({"id": "11", "author": {"id": "7", "username": "ada"}});
        let table = [
            (json!({}), false),
            (json!({"mentions": [{"id": "8"}]}), true),
            (json!({"mentions": [{"id": "99"}]}), false),
            (json!({"type": 19, "referenced_message": ben}), true),
            (
                json!({"type": 19, "referenced_message": ben, "mentions": [{"id": "99"}]}),
                false,
            ),
            (json!({"type": 19, "referenced_message": bot}), false),
            (json!({"type": 19, "referenced_message": own}), false),
            (json!({"type": 19, "referenced_message": null}), false),
        ];
        for (changes, expected) in table {
            assert_eq!(heard(changes.clone()).for_others, expected, "{changes}");
        }
    }

    #[test]
    fn a_reply_quotes_others_but_not_the_bot() {
        let target = |author: &str| {
            json!({"type": 19, "referenced_message": {
                "id": "11", "author": {"id": author, "username": "ben"}, "content": "the numbers",
                "attachments": [{"id": "20", "filename": "n.csv", "size": 3, "url": "https://x/n.csv"}]}})
        };
        let quoting = heard(target("8"));
        assert_eq!(
            quoting.quotes,
            [Quote {
                author: Some("ben".to_owned()),
                by: Some(MemberId(8)),
                text: "the numbers\n[file: n.csv]".to_owned(),
                message: None,
            }]
        );
        assert_eq!(quoting.attachments[0].message, Some(MessageId(11)));
        let own = heard(target("99"));
        assert!(own.quotes.is_empty() && own.attachments.is_empty());
    }

    #[test]
    fn a_forward_is_a_quotation_with_its_files() {
        let forward = heard(json!({
            "content": "", "message_reference": {"type": 1, "message_id": "3", "channel_id": "4"},
            "message_snapshots": [{"message": {"content": "see this", "attachments": [
                {"id": "21", "filename": "a.txt", "size": 5, "url": "https://x/a.txt"}]}}],
        }));
        assert_eq!(
            (&forward.quotes[0].author, forward.quotes[0].by),
            (&None, None)
        );
        assert_eq!(forward.quotes[0].text, "see this\n[file: a.txt]");
        assert_eq!(forward.attachments[0].message, Some(MessageId(10)));
        assert!(!forward.for_others);
    }

    #[test]
    fn things_without_text_are_described() {
        let described = |changes| heard(changes).described;
        assert_eq!(
            described(json!({"content": "", "sticker_items": [{"id": "1", "name": "Wave"}]})),
            ["a sticker named \"Wave\""]
        );
        assert_eq!(
            described(
                json!({"content": "", "poll": {"question": {"text": "Tea?"}, "answers": [
                {"poll_media": {"text": "Yes"}}, {"poll_media": {"text": "No"}}]}})
            ),
            ["a poll: \"Tea?\", answers \"Yes\", \"No\""]
        );
        assert_eq!(
            described(json!({"content": "", "flags": 8192})),
            ["a voice message"]
        );
    }

    #[test]
    fn an_addressed_message_with_nothing_in_it_was_withheld() {
        let me = json!([{"id": "99"}]);
        let table = [
            (json!({"content": "", "mentions": me}), true),
            (json!({"content": "<@99>", "mentions": me}), false),
            (json!({"content": ""}), false),
            (
                json!({"content": "", "mentions": me, "sticker_items": [{"name": "Wave"}]}),
                false,
            ),
        ];
        for (changes, expected) in table {
            assert_eq!(heard(changes.clone()).withheld, expected, "{changes}");
        }
    }

    #[test]
    fn a_person_has_the_servers_name_for_them_and_the_events_roles() {
        let author = heard(json!({"member": {"nick": "Countess", "roles": ["5", "x"]}})).author;
        assert_eq!(author.member, MemberId(7));
        assert_eq!(author.name, "Countess");
        assert_eq!(author.roles, [RoleId(5)]);
        assert_eq!(heard(json!({"member": null})).author.name, "Ada");
    }

    #[test]
    fn only_an_authors_change_is_an_edit() {
        let at = "2026-01-01T00:00:01.500000+00:00";
        let edit = |changes| edited(&raw(changes), ME);
        assert_eq!(
            edit(json!({"edited_timestamp": at, "content": "<@99> again"})),
            Some((1_767_225_601_500, "again".to_owned()))
        );
        assert_eq!(edit(json!({"edited_timestamp": null})), None);
        assert_eq!(edit(json!({"edited_timestamp": at, "content": null})), None);
    }
}
