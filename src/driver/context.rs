//! What holders said in a chat's thread without asking: quoted with the next request, bounded, kept in memory only.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::domain::guest::Person;
use crate::domain::ids::{MessageId, ThreadId};
use crate::domain::request::Quote;
use crate::domain::text::is_blank;

/// Remarks kept of one chat; the oldest goes first.
const REMARKS: usize = 10;

/// Code points kept of one remark.
const LENGTH: usize = 1000;

/// Chats of which anything is kept; beyond it nothing new is begun until some are asked or forgotten.
const CHATS: usize = 1000;

/// One thing that a holder said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// In which message.
    pub message: MessageId,
    /// Who said it, with the roles it carried.
    pub author: Person,
    /// The words.
    pub text: String,
}

impl Remark {
    /// Returns the remark as it is quoted.
    pub fn quote(self) -> Quote {
        Quote {
            author: Some(self.author.name),
            text: self.text,
            message: Some(self.message),
        }
    }
}

/// The remarks of all chats.
#[derive(Clone, Debug, Default)]
pub struct Context(Arc<Mutex<HashMap<ThreadId, VecDeque<Remark>>>>);

impl Context {
    /// Keeps a remark.
    pub fn note(&self, thread: ThreadId, mut remark: Remark) {
        remark.text = kept_of(&remark.text);
        let mut chats = self.lock();
        if is_blank(&remark.text) || (chats.len() >= CHATS && !chats.contains_key(&thread)) {
            return;
        }
        let remarks = chats.entry(thread).or_default();
        if remarks.len() == REMARKS {
            remarks.pop_front();
        }
        remarks.push_back(remark);
    }

    /// Takes the remarks made since the last request.
    pub fn take(&self, thread: ThreadId) -> Vec<Remark> {
        self.lock()
            .remove(&thread)
            .map(Vec::from)
            .unwrap_or_default()
    }

    /// Follows what became of a message that may be a remark; with nothing in its text it is gone.
    pub fn revise(&self, thread: ThreadId, message: MessageId, text: &str) {
        if let Some(remarks) = self.lock().get_mut(&thread) {
            for remark in remarks.iter_mut().filter(|it| it.message == message) {
                remark.text = kept_of(text);
            }
            remarks.retain(|remark| !is_blank(&remark.text));
        }
    }

    /// Forgets a chat that ended.
    pub fn forget(&self, thread: ThreadId) {
        self.lock().remove(&thread);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, VecDeque<Remark>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what is kept of a remark's words.
pub fn kept_of(text: &str) -> String {
    text.chars().take(LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::samples::{ADA, person};

    fn remark(message: u64, text: &str) -> Remark {
        Remark {
            message: MessageId(message),
            author: person(ADA, &[]),
            text: text.to_owned(),
        }
    }

    #[test]
    fn the_newest_remarks_are_kept_and_taken_once() {
        let context = Context::default();
        for number in 0..REMARKS as u64 + 3 {
            context.note(ThreadId(1), remark(number, &number.to_string()));
        }
        let taken = context.take(ThreadId(1));
        assert_eq!(taken.len(), REMARKS);
        assert_eq!(taken[0].text, "3");
        assert!(context.take(ThreadId(1)).is_empty());
    }

    #[test]
    fn a_remark_is_bounded_and_blank_ones_are_not_kept() {
        let context = Context::default();
        context.note(ThreadId(1), remark(1, &"é".repeat(LENGTH + 5)));
        context.note(ThreadId(1), remark(2, "  \n\u{200b}"));
        let taken = context.take(ThreadId(1));
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].text.chars().count(), LENGTH);
    }

    #[test]
    fn a_remark_is_what_its_message_says_now() {
        let context = Context::default();
        for message in 1..=4 {
            context.note(ThreadId(1), remark(message, "my password"));
        }
        context.revise(ThreadId(1), MessageId(1), "");
        context.revise(ThreadId(1), MessageId(2), "use blue");
        context.revise(ThreadId(1), MessageId(3), " \u{200b}");
        context.revise(ThreadId(2), MessageId(4), "");
        let texts: Vec<String> = context
            .take(ThreadId(1))
            .into_iter()
            .map(|remark| remark.text)
            .collect();
        assert_eq!(texts, ["use blue", "my password"]);
    }
}
