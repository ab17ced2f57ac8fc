//! One task per running chat: it takes the chat's requests one after the other, in the order in which they were written.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::FutureExt as _;

use crate::domain::chat::Chat;
use crate::domain::ids::ThreadId;
use crate::domain::turn_record::{Stage, TurnRecord};

use super::house::House;
use super::hub::Letters;
use super::run_turn::{self, Left};
use super::threads;

/// How long is waited after a failure before the chat is looked at again, at first and at most.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Works off a chat's requests until none is left, then ends. After a failure it goes on as after a restart, from what lies in
/// the store: people must not have to write again for a turn that seems to run.
pub async fn run(house: Arc<House>, thread: ThreadId, letters: Letters) {
    let mut wait = FIRST_WAIT;
    loop {
        match attempt(&house, thread, &letters).await {
            Ok(Left::Nothing) => wait = FIRST_WAIT,
            Ok(Left::ForNextStart) => return house.hub.forget(thread),
            Err(error) => {
                tracing::error!(%thread, error = format!("{error:#}"), "a chat's task failed and looks again");
                tokio::select! {
                    () = house.cancel.cancelled() => return house.hub.forget(thread),
                    () = tokio::time::sleep(wait) => wait = (wait * 2).min(LONGEST_WAIT),
                }
                continue;
            }
        }
        match house.hub.retire(thread) {
            Ok(()) => return,
            Err(letter) => tracing::trace!(?letter, "a letter came as the task was about to end"),
        }
    }
}

/// Works off the requests. A panic is a failure like any other: nothing of it outlives the turn that it ended.
async fn attempt(house: &Arc<House>, thread: ThreadId, letters: &Letters) -> anyhow::Result<Left> {
    AssertUnwindSafe(work_off(house, thread, letters))
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(anyhow::anyhow!("the task panicked")))
}

async fn work_off(house: &Arc<House>, thread: ThreadId, letters: &Letters) -> anyhow::Result<Left> {
    while let Some(record) = next(house, thread)? {
        if house.cancel.is_cancelled() {
            return Ok(Left::ForNextStart);
        }
        let Some(chat) = house
            .store
            .chat(thread)
            .context("could not read the chat")?
        else {
            anyhow::bail!(
                "turn {} belongs to a chat that is not in the store",
                record.id
            );
        };
        let Some(chat) = opened(house, chat, &record).await? else {
            continue;
        };
        let left = run_turn::run(house, chat, record, letters).await?;
        if left == Left::ForNextStart {
            return Ok(left);
        }
    }
    Ok(Left::Nothing)
}

/// Returns the turn to work on: one that was begun before the rest, which wait by their ids.
fn next(house: &House, thread: ThreadId) -> anyhow::Result<Option<TurnRecord>> {
    let open = house
        .store
        .open_turns(thread)
        .context("could not read the chat's turns")?;
    let begun = open
        .iter()
        .find(|record| record.stage != Stage::Waiting)
        .cloned();
    Ok(begun.or_else(|| open.into_iter().next()))
}

/// Makes sure that the chat has its thread. `None`: it has none and cannot have one; its turns were ended.
async fn opened(
    house: &Arc<House>,
    chat: Chat,
    record: &TurnRecord,
) -> anyhow::Result<Option<Chat>> {
    if chat.closed && record.stage == Stage::Waiting {
        run_turn::drop_unheard(house, record).await?;
        return Ok(None);
    }
    if chat.opening.is_none() {
        return Ok(Some(chat));
    }
    threads::open(house, chat, record).await
}
