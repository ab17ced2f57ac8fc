//! From the end of a turn to the last word about it: the answer's parts, then the receipt.

use crate::agent::safe_text::strip_tags;
use crate::domain::chat::Chat;
use crate::domain::turn_record::{OutFile, Part, Sent, Stage, TurnRecord};
use crate::present;
use crate::store::StoreError;
use crate::turn::collect::{self, DeliveryLimits, Plan};
use crate::turn::machine::Turn;

use super::house::House;
use super::outbox;
use super::ports::{Button, Post, SurfaceError};
use super::run_turn::Left;

/// Decides what will be said, and notes it in the record: from then on it only has to be sent.
pub fn plan(house: &House, chat: &Chat, turn: &Turn, record: &mut TurnRecord) {
    let per_file = house.rules.limits.download.min(house.ports.surface.file_limit(chat.guild));
    let limits = DeliveryLimits::for_files_of(per_file);
    let plan = collect::plan(&turn.collected().files, &limits);
    record.parts = parts(chat, turn, plan);
    record.receipt = record.live.map(|_| present::live::receipt(turn));
}

fn parts(chat: &Chat, turn: &Turn, plan: Plan) -> Vec<Part> {
    let mut pages: Vec<String> =
        present::answer::answer(turn).iter().map(|page| strip_tags(page, &chat.word)).collect();
    if let Some(left_out) = present::notice::left_out(&plan, turn.collected()) {
        present::answer::add_behind(&mut pages, &left_out);
    }
    let mut parts: Vec<Part> = pages.into_iter().map(|text| part(text, Vec::new())).collect();
    for files in plan.batches {
        match parts.last_mut() {
            // The first files hang on the last page of the text.
            Some(last) if last.files.is_empty() => last.files = files,
            _ => parts.push(part(String::new(), files)),
        }
    }
    parts
}

fn part(text: String, files: Vec<OutFile>) -> Part {
    Part { text, files, sent: Sent::No }
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
    let (Some(message), Some(receipt)) = (record.live, record.receipt.clone()) else { return };
    let post = Post { text: receipt, buttons: vec![Button::Details(record.id)], silent: true, ..Post::default() };
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
