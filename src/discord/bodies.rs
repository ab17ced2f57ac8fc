//! The bodies of everything that the bot says. Each one names whom it may notify: what is not named, Discord decides,
//! and Discord's own rule is that every mention in the text notifies.

use serde_json::{Value, json};
use serenity::all::{
    ButtonStyle, CreateActionRow, CreateAllowedMentions, CreateButton, CreateInteractionResponse,
    CreateInteractionResponseMessage, CreateMessage, CreateSelectMenu, CreateSelectMenuKind,
    CreateSelectMenuOption, EditInteractionResponse, EditMessage, EditThread, MessageFlags,
    MessageReference, MessageReferenceKind, UserId,
};

use crate::domain::ids::{ChannelId, MemberId, MessageId};
use crate::driver::ports::{Button, Menu, Nonce, Post, Upload};
use crate::present::notice;

/// Code points of one message (resources/message).
const LONGEST_TEXT: usize = 2000;

/// Code points of a thread's name (resources/channel).
const LONGEST_NAME: usize = 100;

/// How much of a post is sent, after Discord has refused it as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// As it was given.
    Whole,
    /// Without being a reply.
    Unattached,
    /// Text and files alone.
    Plain,
}

/// Returns the body of a new message.
pub(super) fn create(channel: ChannelId, post: &Post, nonce: &Nonce, shape: Shape) -> Value {
    let mut flags = MessageFlags::SUPPRESS_EMBEDS;
    flags.set(MessageFlags::SUPPRESS_NOTIFICATIONS, post.silent);
    let target = post.reply_to.filter(|_| shape == Shape::Whole);
    // Being replied to notifies only where this is said; to be among the users is not enough.
    let by_reply = target.is_some() && post.ping.is_some_and(|member| !names(post, member));
    let mut message = CreateMessage::new()
        .content(cut(&calling(post, target), LONGEST_TEXT))
        .allowed_mentions(notifying(post.ping).replied_user(by_reply))
        .nonce(serenity::all::Nonce::String(nonce.0.clone()))
        .enforce_nonce(true)
        .flags(flags);
    if let Some(target) = target {
        message = message.reference_message(reply(channel, target));
    }
    let rows = rows(&post.buttons, post.menu.as_ref());
    if shape != Shape::Plain && !rows.is_empty() {
        message = message.components(rows);
    }
    let mut body = value(&message);
    body["attachments"] = listed(&post.files);
    body
}

/// Returns the text; one that cannot be the reply it was meant to be names the person whom the reply would have notified.
fn calling(post: &Post, target: Option<MessageId>) -> String {
    match post.ping {
        Some(member) if post.reply_to.is_some() && target.is_none() && !names(post, member) => {
            let named = format!("<@{member}> {}", post.text);
            if named.chars().count() <= LONGEST_TEXT {
                named.trim_end().to_owned()
            } else {
                post.text.clone()
            }
        }
        _ => post.text.clone(),
    }
}

/// Returns whether the text begins with the person's name; anywhere else it may be part of code, which notifies nobody.
fn names(post: &Post, member: MemberId) -> bool {
    post.text.starts_with(&format!("<@{member}>"))
}

/// Returns the body of an edit. It names no attachments, so that all of them stay, and notifies nobody.
pub(super) fn edit(post: &Post) -> Value {
    value(
        &EditMessage::new()
            .content(cut(&post.text, LONGEST_TEXT))
            .allowed_mentions(notifying(None))
            .components(rows(&post.buttons, post.menu.as_ref())),
    )
}

/// Returns the body of a thread on a message.
pub(super) fn thread(name: &str) -> Value {
    let line = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let name = if line.is_empty() {
        NEUTRAL_NAME.to_owned()
    } else {
        cut(&line, LONGEST_NAME)
    };
    json!({ "name": name, "auto_archive_duration": 1440 })
}

/// A thread's name that no filter objects to.
pub(super) const NEUTRAL_NAME: &str = "Chat";

/// Returns the body that brings an archived thread back.
pub(super) fn reopen() -> Value {
    value(&EditThread::new().archived(false))
}

/// Returns the callback that says "thinking" to one person: the answer follows as an edit.
pub(super) fn defer() -> Value {
    let message = CreateInteractionResponseMessage::new()
        .ephemeral(true)
        .allowed_mentions(notifying(None));
    value(&CreateInteractionResponse::Defer(message))
}

/// Returns the callback that says something to one person at once.
pub(super) fn tell(text: &str) -> Value {
    let message = CreateInteractionResponseMessage::new()
        .content(cut(text, LONGEST_TEXT))
        .ephemeral(true)
        .allowed_mentions(notifying(None));
    value(&CreateInteractionResponse::Message(message))
}

/// Returns the edit that replaces "thinking" by the answer.
pub(super) fn answer(text: &str, files: &[Upload], buttons: &[Button]) -> Value {
    let mut body = value(
        &EditInteractionResponse::new()
            .content(cut(text, LONGEST_TEXT))
            .allowed_mentions(notifying(None))
            .components(rows(buttons, None)),
    );
    body["attachments"] = listed(files);
    body
}

/// Returns the callback that completes an option.
pub(super) fn choices(response: serenity::all::CreateAutocompleteResponse) -> Value {
    value(&CreateInteractionResponse::Autocomplete(response))
}

/// Allows the one person to be notified by the text, and nobody else.
fn notifying(ping: Option<MemberId>) -> CreateAllowedMentions {
    CreateAllowedMentions::new()
        .users(ping.map(|member| UserId::new(member.0.max(1))))
        .replied_user(false)
}

fn reply(channel: ChannelId, target: MessageId) -> MessageReference {
    let channel = serenity::all::ChannelId::new(channel.0.max(1));
    MessageReference::new(MessageReferenceKind::Default, channel)
        .message_id(serenity::all::MessageId::new(target.0.max(1)))
        .fail_if_not_exists(false)
}

/// Choices of one menu, and code points of one of them (components/reference).
const MOST_OPTIONS: usize = 25;
const LONGEST_OPTION: usize = 100;

fn rows(buttons: &[Button], menu: Option<&Menu>) -> Vec<CreateActionRow> {
    let menu = menu.filter(|menu| !menu.options.is_empty()).map(select);
    let buttons = (!buttons.is_empty())
        .then(|| CreateActionRow::Buttons(buttons.iter().map(button).collect()));
    menu.into_iter().chain(buttons).collect()
}

fn button(button: &Button) -> CreateButton {
    let style = match button {
        Button::Stop(_) => ButtonStyle::Danger,
        Button::Details(_) | Button::Retry(_) | Button::Decide(_) => ButtonStyle::Secondary,
        Button::Ask(_) => ButtonStyle::Primary,
    };
    CreateButton::new(button.id())
        .label(button.label())
        .style(style)
}

fn select(menu: &Menu) -> CreateActionRow {
    let options = menu.options.iter().take(MOST_OPTIONS);
    let options = options.map(|(label, value)| {
        CreateSelectMenuOption::new(cut(label, LONGEST_OPTION), cut(value, LONGEST_OPTION))
    });
    let kind = CreateSelectMenuKind::String {
        options: options.collect(),
    };
    CreateActionRow::SelectMenu(
        CreateSelectMenu::new(menu.choice.id(), kind).placeholder(notice::choose_project()),
    )
}

/// Lists the files that come with a form, as Discord wants them to be announced.
fn listed(files: &[Upload]) -> Value {
    let files = files.iter().enumerate();
    files
        .map(|(id, file)| json!({ "id": id.to_string(), "filename": file.name }))
        .collect()
}

/// Returns the first `most` code points.
fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// Writes a builder. It holds strings and numbers alone, for which writing cannot fail.
fn value(builder: &impl serde::Serialize) -> Value {
    serde_json::to_value(builder).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::TurnId;

    fn post(ping: Option<MemberId>) -> Post {
        Post {
            text: "@everyone <@5> <@&6>".to_owned(),
            reply_to: Some(MessageId(8)),
            ping,
            buttons: vec![Button::Stop(TurnId(1)), Button::Details(TurnId(1))],
            ..Post::default()
        }
    }

    #[test]
    fn every_body_says_whom_it_may_notify() {
        let nobody = json!({"parse": [], "users": [], "roles": [], "replied_user": false});
        let ada = json!({"parse": [], "users": ["7"], "roles": [], "replied_user": false});
        let replied = json!({"parse": [], "users": ["7"], "roles": [], "replied_user": true});
        let nonce = Nonce("n".to_owned());
        let made = |ping, shape| create(ChannelId(2), &post(ping), &nonce, shape);
        let table = [
            (made(None, Shape::Whole), &nobody),
            (made(Some(MemberId(7)), Shape::Whole), &replied),
            (made(Some(MemberId(7)), Shape::Unattached), &ada),
            (made(Some(MemberId(7)), Shape::Plain), &ada),
            (edit(&post(Some(MemberId(7)))), &nobody),
            (defer()["data"].clone(), &nobody),
            (tell("@everyone")["data"].clone(), &nobody),
            (answer("@everyone", &[], &[]), &nobody),
        ];
        for (body, expected) in table {
            assert_eq!(body["allowed_mentions"], *expected, "{body}");
        }
    }

    #[test]
    fn a_reply_that_cannot_be_one_names_whom_it_would_have_notified() {
        let nonce = Nonce("n".to_owned());
        let text = |ping, reply_to, shape| {
            let text = "x".to_owned();
            let post = Post {
                text,
                ping,
                reply_to,
                ..Post::default()
            };
            create(ChannelId(2), &post, &nonce, shape)["content"].clone()
        };
        let (ada, target) = (Some(MemberId(7)), Some(MessageId(8)));
        assert_eq!(text(ada, target, Shape::Whole), "x");
        assert_eq!(text(ada, target, Shape::Unattached), "<@7> x");
        assert_eq!(text(ada, None, Shape::Plain), "x");
        assert_eq!(text(None, target, Shape::Plain), "x");
        // Named in the text: the reply itself notifies nobody, whoever wrote what is replied to.
        let text = "<@7> x".to_owned();
        let post = Post {
            text,
            ping: ada,
            reply_to: target,
            ..Post::default()
        };
        for shape in [Shape::Whole, Shape::Unattached] {
            let body = create(ChannelId(2), &post, &nonce, shape);
            assert_eq!(body["content"], "<@7> x");
            assert_eq!(body["allowed_mentions"]["replied_user"], false);
        }
    }

    #[test]
    fn a_new_message_is_protected_by_its_nonce_and_shows_no_previews() {
        let nonce = Nonce("abc".to_owned());
        let mut post = post(None);
        let body = create(ChannelId(2), &post, &nonce, Shape::Whole);
        assert_eq!(body["nonce"], "abc");
        assert_eq!(body["enforce_nonce"], true);
        assert_eq!(body["flags"], 1 << 2);
        post.silent = true;
        let body = create(ChannelId(2), &post, &nonce, Shape::Whole);
        assert_eq!(body["flags"], 1 << 2 | 1 << 12);
    }

    #[test]
    fn shapes_leave_out_what_was_refused() {
        let nonce = Nonce("n".to_owned());
        let shown = |shape| {
            let body = create(ChannelId(2), &post(None), &nonce, shape);
            (
                body.get("message_reference").is_some(),
                body.get("components").is_some(),
            )
        };
        assert_eq!(shown(Shape::Whole), (true, true));
        assert_eq!(shown(Shape::Unattached), (false, true));
        assert_eq!(shown(Shape::Plain), (false, false));
    }

    #[test]
    fn a_reply_to_a_message_that_is_gone_is_still_sent() {
        let body = create(
            ChannelId(2),
            &post(None),
            &Nonce("n".to_owned()),
            Shape::Whole,
        );
        assert_eq!(body["message_reference"]["message_id"], "8");
        assert_eq!(body["message_reference"]["fail_if_not_exists"], false);
    }

    #[test]
    fn an_edit_keeps_the_files_and_takes_away_buttons_that_are_not_named() {
        let body = edit(&Post {
            text: "done".to_owned(),
            ..Post::default()
        });
        assert!(body.get("attachments").is_none());
        assert_eq!(body["components"], json!([]));
    }

    #[test]
    fn lengths_are_counted_in_code_points() {
        let long = Post {
            text: "😀".repeat(2001),
            ..Post::default()
        };
        let body = create(ChannelId(2), &long, &Nonce("n".to_owned()), Shape::Whole);
        assert_eq!(body["content"].as_str().unwrap().chars().count(), 2000);
        let named = |name: &str| thread(name)["name"].as_str().unwrap().to_owned();
        assert_eq!(named(&"é".repeat(300)).chars().count(), 100);
        assert_eq!(named("\n\n"), "Chat");
        assert_eq!(named("a\nb"), "a b");
    }
}
