//! Reads a run's stream to its end, whatever happens to the sandbox meanwhile.

use std::time::Duration;

use tokio::sync::mpsc;

use crate::agent;
use crate::agent::decode::decode;
use crate::agent::lines::Lines;
use crate::sandbox::SandboxError;
use crate::turn::event::Event;

use super::slots::Slot;
use super::turn_directory::{CHUNK, Run, RunState, TurnDirectory};

/// Bytes of one line that are kept; a longer one is summarised.
const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// The longest wait before a sandbox that is away is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// What the tasks of a turn report to it.
#[derive(Debug)]
pub enum News {
    /// Something happened.
    Event(Event),
    /// The turn may run now.
    Slot(Slot),
    /// The stream was read as far as it goes for now.
    CaughtUp,
    /// The stream was read up to `offset`, and said this.
    Read {
        /// Bytes from the start of the stream.
        offset: u64,
        /// Its events, in order.
        events: Vec<agent::event::Event>,
    },
}

/// Repeats what is safe to repeat for as long as the sandbox is away, and says so. Every other result ends it.
pub async fn while_away<T, F>(
    news: &mpsc::Sender<News>,
    mut attempt: impl FnMut() -> F,
) -> Result<T, SandboxError>
where
    F: Future<Output = Result<T, SandboxError>>,
{
    let mut wait = Duration::from_secs(1);
    let mut away = false;
    loop {
        match attempt().await {
            Err(SandboxError::Away(why)) => {
                if !away {
                    tracing::warn!(%why, "the sandbox is away");
                    let _ = news.send(News::Event(Event::Away)).await;
                    away = true;
                }
                tokio::time::sleep(wait).await;
                wait = (wait * 2).min(LONGEST_WAIT);
            }
            result => {
                if away {
                    let _ = news.send(News::Event(Event::Back)).await;
                }
                return result;
            }
        }
    }
}

/// Follows `run` from its first byte until it has ended and everything was read.
///
/// `seen`: how much an earlier process had read; a stream that is shorter was changed by somebody.
pub async fn follow(turns: &TurnDirectory, run: Run, seen: u64, news: mpsc::Sender<News>) {
    let mut lines = Lines::new(LONGEST_LINE);
    let mut offset = 0;
    let mut caught_up = false;
    let end = loop {
        let chunk = match while_away(&news, || turns.follow(&run, offset)).await {
            Ok(chunk) => chunk,
            Err(error) => {
                tracing::error!(turn = %run.turn, %error, "could not follow the run");
                // The bytes stay where they are; only a sandbox that answers nonsense for good ends here.
                break Event::Ended(None);
            }
        };
        if chunk.shrank {
            break Event::Shrank;
        }
        offset = chunk.offset;
        let events: Vec<_> = lines.push(&chunk.bytes).iter().flat_map(decode).collect();
        if news.send(News::Read { offset, events }).await.is_err() {
            return;
        }
        if !caught_up && chunk.state == RunState::Running && chunk.bytes.len() < CHUNK {
            caught_up = true;
            let _ = news.send(News::CaughtUp).await;
        }
        match chunk.state {
            RunState::Running => {}
            RunState::Ended(_) | RunState::Absent if offset < seen => break Event::Shrank,
            RunState::Ended(code) => break Event::Ended(code),
            RunState::Absent => break Event::Ended(None),
        }
    };
    if !matches!(end, Event::Ended(Some(0)) | Event::Shrank)
        && let Ok(complaint) = while_away(&news, || turns.complaint(&run)).await
    {
        let _ = news.send(News::Event(Event::Complained(complaint))).await;
    }
    let rest: Vec<_> = lines.finish().iter().flat_map(decode).collect();
    let _ = news
        .send(News::Read {
            offset,
            events: rest,
        })
        .await;
    let _ = news.send(News::Event(end)).await;
}
