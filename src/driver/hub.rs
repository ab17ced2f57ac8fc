//! Thread → running chat.
//!
//! A chat has at most one task, and its requests lie in the store: a letter here only tells the task to look. So nothing is
//! lost when a task ends just as a letter arrives, and nothing runs twice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use crate::domain::ids::{ThreadId, TurnId};

use super::chat_task;
use super::house::House;

/// Letters that wait for one chat; a further one is dropped, since each only says "look".
const LETTERS: usize = 64;

/// What a chat's task is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Letter {
    /// The store has something new for it: a request, a change of one, a wish that its turn be stopped.
    Look,
    /// What this turn holds is used up.
    Limit {
        /// Which turn.
        turn: TurnId,
    },
    /// Grants or guests changed: a running turn whose author no longer passes the gate stops.
    Recheck,
    /// The thread is gone.
    Gone,
}

/// The running chats.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    chats: Arc<Mutex<HashMap<ThreadId, mpsc::Sender<Letter>>>>,
}

impl Hub {
    /// Tells the chat's task, starting one if none runs.
    pub fn tell(&self, house: &Arc<House>, thread: ThreadId, letter: Letter) {
        let mut chats = self.lock();
        if let Some(task) = chats.get(&thread) {
            if let Err(mpsc::error::TrySendError::Full(letter)) = task.try_send(letter) {
                tracing::warn!(%thread, ?letter, "too many letters wait for a chat");
            }
            return;
        }
        if house.cancel.is_cancelled() {
            return;
        }
        let (sender, letters) = mpsc::channel(LETTERS);
        let _ = sender.try_send(letter);
        chats.insert(thread, sender);
        house
            .tracker
            .spawn(chat_task::run(house.clone(), thread, letters));
    }

    /// Tells every running chat.
    pub fn tell_all(&self, letter: &Letter) {
        for task in self.lock().values() {
            let _ = task.try_send(letter.clone());
        }
    }

    /// Returns whether a task runs for this chat.
    pub fn runs(&self, thread: ThreadId) -> bool {
        self.lock().contains_key(&thread)
    }

    /// Lets a task go, unless a letter waits for it.
    pub(super) fn retire(
        &self,
        thread: ThreadId,
        letters: &mut mpsc::Receiver<Letter>,
    ) -> Result<(), Letter> {
        let mut chats = self.lock();
        match letters.try_recv() {
            Ok(letter) => Err(letter),
            Err(_) => {
                chats.remove(&thread);
                Ok(())
            }
        }
    }

    /// Forgets a task that ended with an error.
    pub(super) fn forget(&self, thread: ThreadId) {
        self.lock().remove(&thread);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ThreadId, mpsc::Sender<Letter>>> {
        // A panic while the lock was held cannot leave the map half changed.
        self.chats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
