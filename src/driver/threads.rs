//! Opens the thread of a new chat.
//!
//! The chat is stored before, under the id that the thread will have (a thread on a message has the message's id), so a crash
//! in between is mended by asking again: Discord answers 160004 and the thread that is there is taken.

use std::time::Duration;

use anyhow::Context as _;

use crate::domain::chat::{Chat, Listen};
use crate::domain::ids::ThreadId;
use crate::domain::turn_record::TurnRecord;
use crate::present::notice;

use super::house::House;
use super::ports::{Nonce, Post, SurfaceError};
use super::run_turn;

/// The longest wait before Discord is asked again.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Opens the chat's thread and stores where it is. Where none can be, the chat goes on in the channel; where nothing can be
/// said at all, its turn is ended and `None` comes back.
pub async fn open(house: &House, chat: Chat, record: &TurnRecord) -> anyhow::Result<Option<Chat>> {
    let Some(opening) = chat.opening else {
        return Ok(Some(chat));
    };
    let name = notice::thread_name(&house.scrub(&record.request.text));
    let mut wait = Duration::from_secs(1);
    let mut name = name.as_str();
    let chat = loop {
        match house
            .ports
            .surface
            .open_thread(opening.channel, opening.message, name)
            .await
        {
            Ok(thread) => break keep(house, &chat, |chat| chat.place = thread.channel())?,
            Err(SurfaceError::Away(why)) => {
                tracing::warn!(thread = %chat.thread, %why, "a thread waits for discord");
                tokio::select! {
                    () = house.cancel.cancelled() => return Ok(None),
                    () = tokio::time::sleep(wait) => wait = (wait * 2).min(LONGEST_WAIT),
                }
            }
            Err(SurfaceError::Filtered) if name != notice::PLAIN_THREAD_NAME => {
                name = notice::PLAIN_THREAD_NAME
            }
            Err(SurfaceError::NoThreads) => break keep(house, &chat, stay_in_place)?,
            Err(SurfaceError::Forbidden(right)) => {
                explain(house, &chat, record, &right).await;
                break keep(house, &chat, stay_in_place)?;
            }
            Err(SurfaceError::MessageGone) => {
                // The request is withdrawn. A thread that an earlier process had opened on it stays without it, and people may
                // be writing there; where there is none, nobody ever can.
                let thread = ThreadId(opening.message.0);
                keep(house, &chat, |chat| chat.place = thread.channel())?;
                run_turn::drop_unheard(house, record).await?;
                return Ok(None);
            }
            Err(error) => {
                tracing::warn!(thread = %chat.thread, %error, "no thread can be opened");
                keep(house, &chat, |chat| chat.closed = true)?;
                run_turn::drop_unheard(house, record).await?;
                return Ok(None);
            }
        }
    };
    house
        .store
        .flush()
        .await
        .context("could not store the chat")?;
    Ok(Some(chat))
}

/// Notes what became of the opening. Everything else stays as people have made it meanwhile: Discord may have been away for
/// long.
fn keep(house: &House, chat: &Chat, outcome: impl Fn(&mut Chat)) -> anyhow::Result<Chat> {
    let kept = house.store.revise_chat(chat.thread, |chat| {
        outcome(chat);
        chat.opening = None;
    });
    kept.context("could not store the chat")?
        .context("the chat is not in the store")
}

/// Without a thread there is nothing that could be listened to but replies and mentions.
fn stay_in_place(chat: &mut Chat) {
    chat.listen = Listen::Mentions;
}

async fn explain(house: &House, chat: &Chat, record: &TurnRecord, right: &str) {
    let post = Post {
        text: notice::no_thread(right),
        reply_to: record.request.message,
        ..Post::default()
    };
    if let Err(error) = house
        .ports
        .surface
        .post(chat.place, post, Nonce::of(record.id, "t"))
        .await
    {
        tracing::warn!(thread = %chat.thread, %error, "nor can it be explained");
    }
}
