//! Sends the parts of an answer, in order, until each has arrived or its absence is explained.
//!
//! A part is stored before it is sent and marked as soon as it arrived, so that a restart sends only what is missing.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::chat::Chat;
use crate::domain::ids::MessageId;
use crate::domain::turn_record::{Part, Sent, TurnRecord};
use crate::present::notice;
use crate::sandbox::SandboxError;
use crate::store::StoreError;

use super::deliver;
use super::house::House;
use super::ports::{Nonce, Ours, Post, SurfaceError, Upload};

/// The longest wait before Discord is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Sends what has not arrived yet. Returns when nothing is left to send.
pub async fn deliver(
    house: &Arc<House>,
    chat: &Chat,
    record: &mut TurnRecord,
) -> Result<(), StoreError> {
    for index in 0..record.parts.len() {
        let sent = match record.parts[index].sent {
            Sent::Yes(_) | Sent::GivenUp => continue,
            Sent::No => {
                // From here on it may have arrived without our knowing.
                record.parts[index].sent = Sent::Trying;
                keep(house, record).await?;
                send(house, chat, record, index).await
            }
            Sent::Trying => match arrived(house, chat, record, index).await {
                Some(message) => Sent::Yes(message),
                None => send(house, chat, record, index).await,
            },
        };
        record.parts[index].sent = sent;
        keep(house, record).await?;
    }
    Ok(())
}

async fn keep(house: &House, record: &TurnRecord) -> Result<(), StoreError> {
    house.store.put_turn(record)?;
    house.store.flush().await
}

/// Looks whether the part that was on its way when an earlier process ended, or an answer was lost, has arrived. The platform forgets nonces within
/// minutes and may change texts: but with one request on its way in a thread, an own message that is newer than all that is
/// known to have arrived, and of the same make, is that part.
async fn arrived(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
    index: usize,
) -> Option<MessageId> {
    let known = record.parts.iter().filter_map(|part| match part.sent {
        Sent::Yes(message) => Some(message),
        _ => None,
    });
    let after = known
        .chain(record.live)
        .chain(record.request.message)
        .max()?;
    let reply_to = reply_to(chat, record, index);
    let mut wait = Duration::from_secs(1);
    loop {
        match house.ports.surface.ours_after(chat.place, after).await {
            Ok(ours) => {
                let requests = shown_requests(house, chat);
                let same = |message: &&Ours| {
                    !message.silent
                        && message.buttons.is_empty()
                        // A reply to a message that was deleted stands alone.
                        && (message.reply_to.is_none() || message.reply_to == reply_to)
                        && !requests.contains(&message.id)
                };
                return ours.iter().find(same).map(|message| message.id);
            }
            Err(SurfaceError::Away(_)) => {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            // What stands there cannot be seen for now.
            Err(SurfaceError::Forbidden(_)) if deliver::may_still_come(house, chat, record) => {
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            Err(_) => return None,
        }
    }
}

/// Messages of ours that show what somebody asked by a command: no part of any answer.
fn shown_requests(house: &House, chat: &Chat) -> Vec<MessageId> {
    let open = house.store.open_turns(chat.thread).unwrap_or_default();
    open.iter()
        .filter_map(|turn| turn.request.message)
        .collect()
}

/// The first part replies to the request, where a reply can reach it.
fn reply_to(chat: &Chat, record: &TurnRecord, index: usize) -> Option<MessageId> {
    record
        .request
        .message
        .filter(|_| index == 0 && !deliver::hangs_on(chat, record))
}

async fn send(house: &Arc<House>, chat: &Chat, record: &TurnRecord, index: usize) -> Sent {
    let mut part = record.parts[index].clone();
    let nonce = Nonce::of(record.id, &format!("a{index}"));
    let mut wait = Duration::from_secs(1);
    let mut held_up = false;
    loop {
        let (files, missing) = fetch(house, chat, &part).await;
        let post = Post {
            text: with_lines(&part.text, &missing),
            reply_to: reply_to(chat, record, index),
            ping: Some(record.request.author.member).filter(|_| index == 0),
            files,
            ..Post::default()
        };
        if post.text.trim().is_empty() && post.files.is_empty() {
            return Sent::GivenUp;
        }
        match house
            .ports
            .surface
            .post(chat.place, post, nonce.clone())
            .await
        {
            Ok(message) => return Sent::Yes(message),
            Err(SurfaceError::Away(why)) => {
                tracing::warn!(turn = %record.id, %why, "an answer waits for discord");
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
                // It may have been taken, and its answer lost so long ago that the nonce is forgotten.
                if let Some(message) = arrived(house, chat, record, index).await {
                    return Sent::Yes(message);
                }
            }
            Err(SurfaceError::TooLarge) if !part.files.is_empty() => {
                part = without_files(&part, "Discord says they are too large")
            }
            Err(SurfaceError::Forbidden(right)) if !part.files.is_empty() => {
                part = without_files(&part, &format!("I need the permission {right} here"));
            }
            Err(SurfaceError::Forbidden(right)) if deliver::may_still_come(house, chat, record) => {
                if !std::mem::replace(&mut held_up, true) {
                    deliver::held_up(house, chat, record, &right).await;
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
                // It was not for the files alone.
                part = record.parts[index].clone();
            }
            Err(SurfaceError::Filtered) if part.text != notice::FILTERED => {
                part = Part {
                    text: notice::FILTERED.to_owned(),
                    files: Vec::new(),
                    sent: Sent::No,
                };
            }
            Err(error) => {
                tracing::error!(turn = %record.id, %error, "a part of an answer cannot be delivered");
                explain_in_parent(house, chat, record).await;
                return Sent::GivenUp;
            }
        }
    }
}

/// Says in the channel above that an answer exists which its thread does not take.
async fn explain_in_parent(house: &House, chat: &Chat, record: &TurnRecord) {
    let Some(parent) = chat.parent.filter(|parent| *parent != chat.place) else {
        return;
    };
    let post = Post {
        text: notice::answer_undeliverable(record.request.author.member, chat.thread),
        ping: Some(record.request.author.member),
        ..Post::default()
    };
    // Said once for all parts of the answer: the nonce is the same for each.
    if let Err(error) = house
        .ports
        .surface
        .post(parent, post, Nonce::of(record.id, "u"))
        .await
    {
        tracing::error!(turn = %record.id, %error, "nor can its absence be explained");
    }
}

/// Reads the files of a part out of the sandbox; those that cannot be read any more are named.
async fn fetch(house: &House, chat: &Chat, part: &Part) -> (Vec<Upload>, Vec<String>) {
    let mut uploads = Vec::new();
    let mut missing = Vec::new();
    for file in &part.files {
        // What was found may have grown since; more than was planned for does not fit the message.
        let most = usize::try_from(file.size).unwrap_or(usize::MAX);
        match read(house, chat, &file.path, most).await {
            Ok(bytes) => uploads.push(Upload {
                name: file.name.clone(),
                bytes,
            }),
            Err(error) => {
                tracing::warn!(file = %file.path, %error, "a produced file cannot be read");
                missing.push(notice::file_not_sent(
                    &file.name,
                    "it cannot be read any more",
                ));
            }
        }
    }
    (uploads, missing)
}

async fn read(
    house: &House,
    chat: &Chat,
    path: &str,
    most: usize,
) -> Result<bytes::Bytes, SandboxError> {
    let mut wait = Duration::from_secs(1);
    loop {
        match house.ports.sandbox.get(&chat.account, path, most).await {
            Err(SandboxError::Away(_)) if wait <= LONGEST_WAIT => {
                tokio::time::sleep(wait).await;
                wait *= 2;
            }
            result => return result,
        }
    }
}

fn without_files(part: &Part, why: &str) -> Part {
    let lines: Vec<String> = part
        .files
        .iter()
        .map(|file| notice::file_not_sent(&file.name, why))
        .collect();
    Part {
        text: with_lines(&part.text, &lines),
        files: Vec::new(),
        sent: Sent::No,
    }
}

/// Adds lines to a text; a text with no room left keeps its own words.
fn with_lines(text: &str, lines: &[String]) -> String {
    let mut all = text.to_owned();
    for line in lines {
        if all.chars().count() + line.chars().count() < crate::present::page::LIMIT {
            if !all.is_empty() {
                all.push('\n');
            }
            all.push_str(line);
        }
    }
    all
}
