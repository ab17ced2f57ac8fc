//! What holders said in a chat's thread without asking: quoted with the next request, bounded, kept in memory only.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::ids::ThreadId;
use crate::domain::request::Quote;

/// Remarks kept of one chat; the oldest goes first.
const REMARKS: usize = 10;

/// Code points kept of one remark.
const LENGTH: usize = 1000;

/// Chats of which anything is kept; beyond it the one goes in which nothing was said for longest.
const CHATS: usize = 1000;

/// The remarks of all chats.
#[derive(Clone, Debug, Default)]
pub struct Context(Arc<Mutex<Remarks>>);

#[derive(Debug, Default)]
struct Remarks {
    /// Remarks so far: tells which chat's last one is the oldest.
    count: u64,
    chats: HashMap<ThreadId, Chat>,
}

#[derive(Debug, Default)]
struct Chat {
    last: u64,
    remarks: VecDeque<Quote>,
}

impl Context {
    /// Keeps a remark.
    pub fn note(&self, thread: ThreadId, mut quote: Quote) {
        quote.text = quote.text.chars().take(LENGTH).collect();
        if quote.text.trim().is_empty() {
            return;
        }
        let mut all = self.lock();
        all.count += 1;
        let last = all.count;
        let chat = all.chats.entry(thread).or_default();
        chat.last = last;
        if chat.remarks.len() == REMARKS {
            chat.remarks.pop_front();
        }
        chat.remarks.push_back(quote);
        if all.chats.len() > CHATS {
            let oldest = all.chats.iter().min_by_key(|(_, chat)| chat.last);
            if let Some(oldest) = oldest.map(|(thread, _)| *thread) {
                all.chats.remove(&oldest);
            }
        }
    }

    /// Takes the remarks made since the last request.
    pub fn take(&self, thread: ThreadId) -> Vec<Quote> {
        let taken = self.lock().chats.remove(&thread);
        taken.map_or_else(Vec::new, |chat| chat.remarks.into())
    }

    /// Forgets a chat that ended.
    pub fn forget(&self, thread: ThreadId) {
        self.lock().chats.remove(&thread);
    }

    fn lock(&self) -> MutexGuard<'_, Remarks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remark(text: &str) -> Quote {
        Quote {
            author: Some("ada".to_owned()),
            text: text.to_owned(),
        }
    }

    #[test]
    fn the_newest_remarks_are_kept_and_taken_once() {
        let context = Context::default();
        for number in 0..REMARKS + 3 {
            context.note(ThreadId(1), remark(&number.to_string()));
        }
        let taken = context.take(ThreadId(1));
        assert_eq!(taken.len(), REMARKS);
        assert_eq!(taken[0].text, "3");
        assert!(context.take(ThreadId(1)).is_empty());
    }

    #[test]
    fn a_remark_is_bounded_and_blank_ones_are_not_kept() {
        let context = Context::default();
        context.note(ThreadId(1), remark(&"é".repeat(LENGTH + 5)));
        context.note(ThreadId(1), remark("  \n"));
        let taken = context.take(ThreadId(1));
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].text.chars().count(), LENGTH);
    }

    #[test]
    fn beyond_the_limit_the_chat_goes_in_which_nothing_was_said_for_longest() {
        let context = Context::default();
        for number in 0..CHATS as u64 {
            context.note(ThreadId(number), remark("x"));
        }
        context.note(ThreadId(0), remark("y"));
        context.note(ThreadId(u64::MAX), remark("new"));
        assert!(context.take(ThreadId(1)).is_empty());
        assert_eq!(context.take(ThreadId(0)).len(), 2);
        assert_eq!(context.take(ThreadId(u64::MAX)).len(), 1);
    }
}
