//! From the end of a turn to the last word about it: the answer's parts, then the receipt.

use crate::agent::safe_text::strip_tags;
use crate::domain::chat::Chat;
use crate::domain::ids::ChannelId;
use crate::domain::turn_record::{Part, Sent, Stage, TurnRecord};
use crate::present;
use crate::store::StoreError;
use crate::turn::collect::{self, DeliveryLimits, Plan};
use crate::turn::end::End;
use crate::turn::machine::Turn;

use super::house::House;
use super::outbox;
use super::ports::{Button, Post, SurfaceError};
use super::run_turn::Left;

/// Decides what will be said, and notes it in the record: from then on it only has to be sent.
pub fn plan(house: &House, chat: &Chat, turn: &Turn, record: &mut TurnRecord) {
    let per_file = house
        .rules
        .limits
        .download
        .min(house.ports.surface.file_limit(chat.guild));
    let limits = DeliveryLimits::for_files_of(per_file);
    let plan = collect::plan(&turn.collected().files, &limits);
    record.parts = parts(chat, turn, &plan);
    if hangs_on(chat, record) || !is_theirs(record) {
        call_by_name(record);
    }
    record.retry = can_be_retried(turn);
    record.receipt = record.live.map(|_| present::live::receipt(turn));
}

/// Returns whether it is worth asking the same again: it was not refused, not stopped by people, and not answered.
fn can_be_retried(turn: &Turn) -> bool {
    matches!(
        turn.end(),
        Some(End::NotStarted(_) | End::SandboxLost | End::Early { .. } | End::Failed(_))
    )
}

/// Returns whether the request is the message that its thread hangs on: it stands in the channel above, and Discord takes no
/// reply across channels.
pub fn hangs_on(chat: &Chat, record: &TurnRecord) -> bool {
    chat.place == chat.thread.channel()
        && record
            .request
            .message
            .is_some_and(|message| message.0 == chat.thread.0)
}

/// Returns the channel in which the request's message stands.
pub fn channel_of_request(chat: &Chat, record: &TurnRecord) -> ChannelId {
    chat.parent
        .filter(|_| hangs_on(chat, record))
        .unwrap_or(chat.place)
}

/// Returns whether the message that is replied to is the asker's own; a request by command is shown in one of ours.
fn is_theirs(record: &TurnRecord) -> bool {
    record
        .request
        .message
        .is_some_and(|message| message.0 == record.id.0)
}

/// Names the asker at the head of the answer, since without a reply nothing else would notify them.
fn call_by_name(record: &mut TurnRecord) {
    let name = format!("<@{}>", record.request.author.member);
    match record.parts.first_mut() {
        Some(first) if first.text.chars().count() + name.chars().count() < present::page::LIMIT => {
            first.text = format!("{name}\n{}", first.text).trim_end().to_owned();
        }
        Some(_) => record.parts.insert(
            0,
            Part {
                text: name,
                files: Vec::new(),
                sent: Sent::No,
            },
        ),
        None => {}
    }
}

/// Returns the answer's messages. The chat's word, by which speakers are told apart, shows in none of them.
fn parts(chat: &Chat, turn: &Turn, plan: &Plan) -> Vec<Part> {
    let mut parts = present::answer::parts(turn, plan);
    for part in &mut parts {
        part.text = strip_tags(&part.text, &chat.word);
    }
    parts
}

/// Sends the answer, then turns the live message into the receipt.
pub async fn all(house: &House, chat: &Chat, record: &mut TurnRecord) -> Result<(), StoreError> {
    if !chat.closed {
        outbox::deliver(house, chat, record).await?;
        show_receipt(house, chat, record).await;
    }
    Ok(())
}

async fn show_receipt(house: &House, chat: &Chat, record: &TurnRecord) {
    let (Some(message), Some(receipt)) = (record.live, record.receipt.clone()) else {
        return;
    };
    let retry = record.retry.then_some(Button::Retry(record.id));
    let buttons = std::iter::once(Button::Details(record.id))
        .chain(retry)
        .collect();
    let post = Post {
        text: receipt,
        buttons,
        silent: true,
        ..Post::default()
    };
    match house.ports.surface.edit(chat.place, message, post).await {
        // Somebody deleted it: the answer is there, and nothing shows a turn that seems to run.
        Ok(()) | Err(SurfaceError::MessageGone | SurfaceError::ChannelGone) => {}
        Err(error) => tracing::warn!(turn = %record.id, %error, "the receipt could not be shown"),
    }
}

/// Goes on with an answer of which an earlier process had sent a part.
pub async fn rest(house: &House, chat: &Chat, mut record: TurnRecord) -> anyhow::Result<Left> {
    tokio::select! {
        () = house.cancel.cancelled() => return Ok(Left::ForNextStart),
        done = all(house, chat, &mut record) => done?,
    }
    record.stage = Stage::Done;
    house.store.put_turn(&record)?;
    house.store.flush().await?;
    Ok(Left::Nothing)
}
