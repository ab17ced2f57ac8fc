//! What holders said in a chat's thread without asking: quoted with the next request, bounded, kept in memory only.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::ids::ThreadId;
use crate::domain::request::Quote;

/// Remarks kept of one chat; the oldest goes first.
const REMARKS: usize = 10;

/// Code points kept of one remark.
const LENGTH: usize = 1000;

/// Chats of which anything is kept; beyond it nothing new is begun until some are asked or forgotten.
const CHATS: usize = 1000;

/// The remarks of all chats.
#[derive(Clone, Debug, Default)]
pub struct Context(Arc<Mutex<HashMap<ThreadId, VecDeque<Quote>>>>);

impl Context {
    /// Keeps a remark.
    pub fn note(&self, thread: ThreadId, mut quote: Quote) {
        quote.text = quote.text.chars().take(LENGTH).collect();
        let mut chats = self.lock();
        if quote.text.trim().is_empty() || (chats.len() >= CHATS && !chats.contains_key(&thread)) {
            return;
        }
        let remarks = chats.entry(thread).or_default();
        if remarks.len() == REMARKS {
            remarks.pop_front();
        }
        remarks.push_back(quote);
    }

    /// Takes the remarks made since the last request.
    pub fn take(&self, thread: ThreadId) -> Vec<Quote> {
        self.lock()
            .remove(&thread)
            .map(Vec::from)
            .unwrap_or_default()
    }

    /// Forgets a chat that ended.
    pub fn forget(&self, thread: ThreadId) {
        self.lock().remove(&thread);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, VecDeque<Quote>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remark(text: &str) -> Quote {
        Quote {
            author: Some("ada".to_owned()),
            by: None,
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
}
