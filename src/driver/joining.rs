//! Requests that do not get a turn of their own: those that one author wrote one after the other run as one turn, and the
//! author's next message joins the running turn while nobody else waits.

use anyhow::Context as _;

use crate::agent::prompt;
use crate::domain::chat::Chat;
use crate::domain::ids::TurnId;
use crate::domain::turn_record::{Stage, TurnRecord};
use crate::present::notice;

use super::house::House;

/// Returns the requests that the same author wrote right after `record`. One that people see waiting by itself stays so.
pub fn following(
    house: &House,
    chat: &Chat,
    record: &TurnRecord,
) -> anyhow::Result<Vec<TurnRecord>> {
    let open = house
        .store
        .open_turns(chat.thread)
        .context("could not read the chat's turns")?;
    let author = record.request.author.member;
    Ok(open
        .into_iter()
        .filter(|other| other.id > record.id && other.stage == Stage::Waiting)
        .take_while(|other| other.request.author.member == author && !other.shown)
        .collect())
}

/// Returns `record` with what `following` ask for as well.
pub fn merged(record: &TurnRecord, following: &[TurnRecord]) -> TurnRecord {
    let mut record = record.clone();
    for other in following {
        add(&mut record, other);
    }
    record
}

/// Returns requests as they are once they have ended with another.
pub fn ended(following: &[TurnRecord]) -> Vec<TurnRecord> {
    let mut ended = following.to_vec();
    for record in &mut ended {
        record.stage = Stage::Done;
    }
    ended
}

/// Shows that these requests wait no longer.
pub fn unmark(house: &House, chat: &Chat, ended: &[TurnRecord]) {
    let messages = ended.iter().filter_map(|record| record.request.message);
    for message in messages {
        house
            .ports
            .surface
            .unreact(chat.place, message, notice::WAITING_MARK);
    }
}

fn add(record: &mut TurnRecord, other: &TurnRecord) {
    let (into, from) = (&mut record.request, other.request.clone());
    for text in [&from.text]
        .into_iter()
        .filter(|text| !text.trim().is_empty())
    {
        if !into.text.trim().is_empty() {
            into.text.push_str("\n\n");
        }
        into.text.push_str(text);
    }
    into.attachments.extend(from.attachments);
    into.quotes.extend(from.quotes);
    into.context.extend(from.context);
    into.described.extend(from.described);
}

/// A message that is to join a running turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steer {
    /// The id that the agent echoes once it has taken the words.
    pub id: String,
    /// The line that it is fed with.
    pub line: String,
}

/// Returns the next message that may join `running`: its author's own, of words alone, while nobody else waits.
pub fn next_steer(
    house: &House,
    chat: &Chat,
    running: &TurnRecord,
) -> anyhow::Result<Option<Steer>> {
    let open = house
        .store
        .open_turns(chat.thread)
        .context("could not read the chat's turns")?;
    let waiting: Vec<TurnRecord> = open
        .into_iter()
        .filter(|turn| turn.stage == Stage::Waiting)
        .collect();
    let author = running.request.author.member;
    if waiting
        .iter()
        .any(|turn| turn.request.author.member != author)
    {
        return Ok(None);
    }
    let joins = |turn: &&TurnRecord| {
        let request = &turn.request;
        request.attachments.is_empty()
            && request.model.is_none()
            && !turn.shown
            // At which level a turn runs was decided without those who wrote that.
            && request.words_of_others().next().is_none()
    };
    Ok(waiting.first().filter(joins).map(|turn| {
        let text = prompt::prompt_text(
            &chat.word,
            &turn.request,
            running.level,
            &[],
            &turn.request.context,
        );
        let id = steer_id(turn.id);
        Steer {
            line: prompt::user_line(&id, &text),
            id,
        }
    }))
}

/// A line's id must be new to the agent's session, also if the same request runs as a turn of its own later.
fn steer_id(turn: TurnId) -> String {
    format!("{turn}.s")
}

/// Ends the request that the agent has just taken into the running turn, if this echo is of one.
pub async fn taken(house: &House, chat: &Chat, echo: &str) -> anyhow::Result<()> {
    let Some(turn) = echo
        .strip_suffix(".s")
        .and_then(|turn| turn.parse().ok())
        .map(TurnId)
    else {
        return Ok(());
    };
    let joined = house
        .store
        .revise_waiting(turn, |record| record.stage = Stage::Done)
        .context("could not store that a request joined a turn")?;
    if let Some(message) = joined.and_then(|record| record.request.message) {
        house
            .store
            .flush()
            .await
            .context("could not store that a request joined a turn")?;
        house
            .ports
            .surface
            .unreact(chat.place, message, notice::WAITING_MARK);
        house
            .ports
            .surface
            .react(chat.place, message, notice::JOINED_MARK);
    }
    Ok(())
}
