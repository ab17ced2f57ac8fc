//! Thread → running chat.
//!
//! A chat has at most one task, and its requests lie in the store: most letters here only tell the task to look. So nothing is
//! lost when a task ends just as a letter arrives, and nothing runs twice.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::ids::{ThreadId, TurnId};

use super::chat_task;
use super::house::House;

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

/// The letters that wait for one chat. None is ever lost; one that waits already is not added again, since it would say
/// nothing new, so there are never many.
#[derive(Clone, Debug, Default)]
pub struct Letters(Arc<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    letters: Mutex<VecDeque<Letter>>,
    added: Notify,
}

impl Letters {
    /// Waits for the next letter. Nothing is lost when the waiting is given up.
    pub async fn next(&self) -> Letter {
        loop {
            if let Some(letter) = self.lock().pop_front() {
                return letter;
            }
            self.0.added.notified().await;
        }
    }

    fn add(&self, letter: Letter) {
        let mut letters = self.lock();
        if !letters.contains(&letter) {
            letters.push_back(letter);
            self.0.added.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Letter>> {
        self.0
            .letters
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running chats.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    chats: Arc<Mutex<HashMap<ThreadId, Letters>>>,
}

impl Hub {
    /// Tells the chat's task, starting one if none runs.
    pub fn tell(&self, house: &Arc<House>, thread: ThreadId, letter: Letter) {
        let mut chats = self.lock();
        if let Some(letters) = chats.get(&thread) {
            return letters.add(letter);
        }
        if house.cancel.is_cancelled() {
            return;
        }
        let letters = Letters::default();
        letters.add(letter);
        chats.insert(thread, letters.clone());
        house
            .tracker
            .spawn(chat_task::run(house.clone(), thread, letters));
    }

    /// Tells every running chat.
    pub fn tell_all(&self, letter: &Letter) {
        for letters in self.lock().values() {
            letters.add(letter.clone());
        }
    }

    /// Returns whether a task runs for this chat.
    pub fn runs(&self, thread: ThreadId) -> bool {
        self.lock().contains_key(&thread)
    }

    /// Lets a task go, unless a letter waits for it, which is given back: whatever it says lies in the store.
    pub(super) fn retire(&self, thread: ThreadId) -> Result<(), Letter> {
        let mut chats = self.lock();
        match chats.get(&thread).and_then(|it| it.lock().pop_front()) {
            Some(letter) => Err(letter),
            None => {
                chats.remove(&thread);
                Ok(())
            }
        }
    }

    /// Forgets a task that ends although something may be left to do.
    pub(super) fn forget(&self, thread: ThreadId) {
        self.lock().remove(&thread);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, Letters>> {
        // A panic while the lock was held cannot leave the map half changed.
        self.chats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_letter_is_lost_however_many_are_written_and_none_waits_twice() {
        let letters = Letters::default();
        for _ in 0..1000 {
            letters.add(Letter::Recheck);
            letters.add(Letter::Look);
        }
        let turn = TurnId(1);
        letters.add(Letter::Limit { turn });
        letters.add(Letter::Gone);
        letters.add(Letter::Recheck);
        let all = [
            Letter::Recheck,
            Letter::Look,
            Letter::Limit { turn },
            Letter::Gone,
        ];
        for letter in all {
            assert_eq!(letters.next().await, letter);
        }
        assert!(letters.lock().is_empty());
        letters.add(Letter::Look);
        assert_eq!(letters.next().await, Letter::Look);
    }

    #[tokio::test]
    async fn whoever_waits_for_a_letter_is_woken_by_it() {
        let letters = Letters::default();
        let waiting = tokio::spawn({
            let letters = letters.clone();
            async move { letters.next().await }
        });
        tokio::task::yield_now().await;
        letters.add(Letter::Gone);
        assert_eq!(waiting.await.unwrap(), Letter::Gone);
    }
}
