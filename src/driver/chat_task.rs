//! One task per running chat: it takes the chat's requests one after the other, in the order in which they were written.

use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::mpsc;

use crate::domain::chat::Chat;
use crate::domain::ids::ThreadId;
use crate::domain::turn_record::{Stage, TurnRecord};

use super::house::House;
use super::hub::Letter;
use super::run_turn::{self, Left};
use super::threads;

/// Works off a chat's requests until none is left, then ends.
pub async fn run(house: Arc<House>, thread: ThreadId, mut letters: mpsc::Receiver<Letter>) {
    loop {
        match work_off(&house, thread, &mut letters).await {
            Ok(Left::Nothing) => {}
            Ok(Left::ForNextStart) => return house.hub.forget(thread),
            Err(error) => {
                tracing::error!(%thread, error = format!("{error:#}"), "a chat's task ends with an error");
                return house.hub.forget(thread);
            }
        }
        match house.hub.retire(thread, &mut letters) {
            Ok(()) => return,
            Err(letter) => tracing::trace!(?letter, "a letter came as the task was about to end"),
        }
    }
}

async fn work_off(
    house: &Arc<House>,
    thread: ThreadId,
    letters: &mut mpsc::Receiver<Letter>,
) -> anyhow::Result<Left> {
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
