//! Every step of a turn, read again from the stream that it left in the sandbox: nothing of it is stored twice.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::agent::decode::decode;
use crate::agent::lines::Lines;
use crate::domain::chat::Chat;
use crate::domain::grant::{Level, Refusal};
use crate::domain::guest::Person;
use crate::domain::ids::TurnId;
use crate::domain::turn_record::{Stage, TurnRecord};
use crate::present;
use crate::present::notice;
use crate::sandbox::SandboxError;
use crate::turn::event::Event;
use crate::turn::machine::Turn;

use super::gate;
use super::house::House;
use super::inbound::Reply;
use super::launch;
use super::ports::Upload;
use super::turn_directory::RunState;

/// Bytes of a stream that are read for its details.
const LONGEST_STREAM: u64 = 64 * 1024 * 1024;

/// Bytes of one line that are kept.
const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// How long the sandbox may take: an interaction can be answered for fifteen minutes, but nobody waits that long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the details of a turn for somebody who holds `view` on all projects of its chat.
pub async fn of(house: &Arc<House>, turn: TurnId, by: &Person) -> anyhow::Result<Reply> {
    let Some(record) = house.store.turn(turn)? else {
        return Ok(Reply::from(notice::details_gone()));
    };
    let Some(chat) = house.store.chat(record.thread)? else {
        return Ok(Reply::from(notice::details_gone()));
    };
    for project in &chat.projects {
        let holds = gate::level(house, by, project)?;
        if holds < Some(Level::View) {
            let refusal = Refusal::NoGrant {
                project: Some(project.clone()),
                need: Level::View,
                holds,
            };
            return Ok(Reply::from(notice::refusal(&refusal)));
        }
    }
    match tokio::time::timeout(PATIENCE, rebuild(house, &chat, &record)).await {
        Ok(Ok(Some(mut turn))) => {
            if let Some(booked) = house.store.entry(record.id)? {
                let (cost, estimated) = (booked.cost, booked.estimated);
                turn.handle(Event::Metered { cost, estimated }, booked.at);
            }
            Ok(file(house, &turn))
        }
        Ok(Ok(None)) => Ok(Reply::from(notice::details_gone())),
        Ok(Err(error)) => {
            tracing::warn!(turn = %record.id, %error, "the details of a turn cannot be read");
            Ok(Reply::from(notice::no_details_now()))
        }
        Err(_) => Ok(Reply::from(notice::no_details_now())),
    }
}

/// Reads a turn again, as far as it has come; `None`: the sandbox keeps nothing of it any more.
async fn rebuild(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
) -> Result<Option<Turn>, SandboxError> {
    let at = record.started_at.unwrap_or_else(|| house.now());
    let mut turn = Turn::new(gate::facts_of(house, chat, record), at);
    turn.handle(Event::Held(record.hold), at);
    turn.handle(Event::Started, at);
    let run = launch::run_of(chat, record);
    let (mut lines, mut offset) = (Lines::new(LONGEST_LINE), 0);
    while offset < LONGEST_STREAM {
        let chunk = house.turns.read(&run, offset).await?;
        if chunk.state == RunState::Absent && record.stage == Stage::Done {
            return Ok(None);
        }
        for event in lines.push(&chunk.bytes).iter().flat_map(decode) {
            turn.handle(Event::Agent(event), at);
        }
        if chunk.offset <= offset {
            break;
        }
        offset = chunk.offset;
    }
    Ok(Some(turn))
}

fn file(house: &House, turn: &Turn) -> Reply {
    let details = house.scrub(&present::details::details(turn));
    Reply {
        text: notice::here_are_details(),
        files: vec![Upload {
            name: "details.md".to_owned(),
            bytes: Bytes::from(details),
        }],
        buttons: Vec::new(),
    }
}
