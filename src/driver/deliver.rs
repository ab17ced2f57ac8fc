//! From the end of a turn to the last word about it: the answer's parts, then the receipt.

use std::sync::Arc;
use std::time::Duration;

use crate::agent::safe_text::strip_tags;
use crate::domain::chat::Chat;
use crate::domain::ids::ChannelId;
use crate::domain::money::Usd;
use crate::domain::turn_record::{Part, Sent, Stage, TurnRecord};
use crate::present;
use crate::present::notice;
use crate::store::StoreError;
use crate::turn::collect::{self, DeliveryLimits, Plan};
use crate::turn::end::End;
use crate::turn::event::Found;
use crate::turn::machine::Turn;

use super::alarm;
use super::house::House;
use super::live_message::Last;
use super::outbox;
use super::ports::{Button, Nonce, Post, SurfaceError};
use super::resume;
use super::run_turn::Left;

/// The longest wait before Discord is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// After this time nobody waits for an answer any more.
const OLDEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Decides what will be said, and notes it in the record: from then on it only has to be sent.
///
/// The receipt is for a live message that was made; where one only may have been made, it is looked for.
pub fn plan(house: &House, chat: &Chat, turn: &Turn, record: &mut TurnRecord, live: Last) {
    record.live = live.message;
    let per_file = house
        .rules
        .limits
        .download
        .min(house.ports.surface.file_limit(chat.guild));
    let limits = DeliveryLimits::for_files_of(per_file);
    let named = |file: &Found| Found {
        shown: house.scrub(&file.shown),
        ..file.clone()
    };
    let files: Vec<Found> = turn.collected().files.iter().map(named).collect();
    let plan = collect::plan(&files, &limits);
    record.parts = parts(chat, turn, &plan);
    if hangs_on(chat, record) || !is_theirs(record) {
        call_by_name(record);
    }
    record.retry = can_be_retried(turn);
    let shown = live.message.is_some() || live.in_doubt;
    record.receipt = shown.then(|| present::live::receipt(turn));
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
    chat.on_message
        && chat.place == chat.thread.channel()
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
pub async fn all(
    house: &Arc<House>,
    chat: &Chat,
    record: &mut TurnRecord,
) -> Result<(), StoreError> {
    if !chat.closed {
        outbox::deliver(house, chat, record).await?;
        show_receipt(house, chat, record).await;
    }
    Ok(())
}

async fn show_receipt(house: &Arc<House>, chat: &Chat, record: &TurnRecord) {
    let Some(post) = receipt(record) else {
        return;
    };
    let mut wait = Duration::from_secs(1);
    let mut held_up = false;
    // Until it is shown the message seems to work, so this does not give up.
    loop {
        match try_receipt(house, chat, record, &post).await {
            Ok(()) => return,
            Err(SurfaceError::Away(why)) => {
                tracing::warn!(turn = %record.id, %why, "a receipt waits for discord");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            Err(SurfaceError::Forbidden(right)) if may_still_come(house, chat, record) => {
                if !std::mem::replace(&mut held_up, true) {
                    tell_of_right(house, chat, &right);
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            Err(error) => {
                tracing::warn!(turn = %record.id, %error, "the receipt cannot be shown");
                return;
            }
        }
    }
}

/// Returns what the live message becomes.
fn receipt(record: &TurnRecord) -> Option<Post> {
    let text = record.receipt.clone()?;
    let retry = record.retry.then_some(Button::Retry(record.id));
    let buttons = std::iter::once(Button::Details(record.id))
        .chain(retry)
        .collect();
    Some(Post {
        text,
        buttons,
        silent: true,
        ..Post::default()
    })
}

/// Returns whether it is worth waiting for a permission that what is left of this turn needs.
pub fn may_still_come(house: &House, chat: &Chat, record: &TurnRecord) -> bool {
    let began = record.started_at.unwrap_or(record.id.made_at());
    let is_closed = || matches!(house.store.chat(chat.thread), Ok(Some(chat)) if chat.closed);
    house.now().since(began) < OLDEST && !is_closed()
}

/// Says that an answer cannot be written for want of a permission: to the admins, and to its asker in the channel above. The
/// live message ends meanwhile, where that is allowed.
pub async fn held_up(house: &Arc<House>, chat: &Chat, record: &TurnRecord, right: &str) {
    tell_of_right(house, chat, right);
    if let Some(receipt) = receipt(record)
        && let Err(error) = try_receipt(house, chat, record, &receipt).await
    {
        tracing::debug!(turn = %record.id, %error, "nor can its receipt be shown yet");
    }
    let once = format!("held-up/{}", record.id);
    let is_new = house.store.once(&once, house.now(), OLDEST);
    let parent = chat.parent.filter(|parent| *parent != chat.place);
    let (Some(parent), Ok(true)) = (parent, is_new) else {
        return;
    };
    let asker = record.request.author.member;
    let post = Post {
        text: notice::answer_waits(asker, chat.thread, right),
        ping: Some(asker),
        ..Post::default()
    };
    let nonce = Nonce::of(record.id, "w");
    if let Err(error) = house.ports.surface.post(parent, post, nonce).await {
        tracing::warn!(turn = %record.id, %error, "nor can that be said in the channel above");
    }
}

fn tell_of_right(house: &Arc<House>, chat: &Chat, right: &str) {
    alarm::tell_admins(house, &notice::place_closed(chat.place, right));
}

async fn try_receipt(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    post: &Post,
) -> Result<(), SurfaceError> {
    let surface = house.ports.surface.as_ref();
    let live = match record.live {
        Some(message) => Some(message),
        None => resume::unnoted(surface, chat, record).await?,
    };
    let Some(message) = live else {
        return Ok(());
    };
    match surface.edit(chat.place, message, post.clone()).await {
        // Deleted, or so old that it takes no edit: the answer is there, and nothing may seem to run.
        Err(SurfaceError::MessageGone) => surface.delete(chat.place, message).await,
        shown => shown,
    }
}

/// Books what a turn cost, as its record says. The ledger is keyed by the turn: a second booking of it does nothing.
pub fn book(house: &House, record: &TurnRecord) -> Result<(), StoreError> {
    let Stage::Settled { cost, estimated } = record.stage else {
        return Ok(());
    };
    if house.store.held(record.id)?.is_none() {
        return Ok(());
    }
    // What ran is known for sure, or an estimate; what did not run is neither.
    if estimated || cost > Usd::ZERO {
        house
            .store
            .settle(record.id, cost, estimated, house.now())?;
    } else {
        house.store.release(record.id)?;
    }
    Ok(())
}

/// Goes on with a turn whose end an earlier process had noted: the rest of the books, of the answer, and the receipt.
pub async fn rest(house: &Arc<House>, chat: &Chat, mut record: TurnRecord) -> anyhow::Result<Left> {
    book(house, &record)?;
    tokio::select! {
        () = house.cancel.cancelled() => return Ok(Left::ForNextStart),
        done = all(house, chat, &mut record) => done?,
    }
    record.stage = Stage::Done;
    house.store.forget_counted(record.id)?;
    house.store.put_turn(&record)?;
    house.store.flush().await?;
    Ok(Left::Nothing)
}
