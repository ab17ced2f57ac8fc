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

/// Chats of which anything is kept; beyond it the one goes in which nothing was said for longest.
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
            by: Some(self.author.member),
            text: self.text,
            message: Some(self.message),
        }
    }
}

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
    remarks: VecDeque<Remark>,
}

impl Context {
    /// Keeps a remark.
    pub fn note(&self, thread: ThreadId, mut remark: Remark) {
        remark.text = kept_of(&remark.text);
        if is_blank(&remark.text) {
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
        chat.remarks.push_back(remark);
        if all.chats.len() > CHATS {
            let oldest = all.chats.iter().min_by_key(|(_, chat)| chat.last);
            if let Some(oldest) = oldest.map(|(thread, _)| *thread) {
                all.chats.remove(&oldest);
            }
        }
    }

    /// Takes the remarks made since the last request.
    pub fn take(&self, thread: ThreadId) -> Vec<Remark> {
        let taken = self.lock().chats.remove(&thread);
        taken.map_or_else(Vec::new, |chat| chat.remarks.into())
    }

    /// Follows what became of a message that may be a remark; with nothing in its text it is gone.
    pub fn revise(&self, thread: ThreadId, message: MessageId, text: &str) {
        if let Some(chat) = self.lock().chats.get_mut(&thread) {
            let said = chat.remarks.iter_mut();
            for remark in said.filter(|it| it.message == message) {
                remark.text = kept_of(text);
            }
            chat.remarks.retain(|remark| !is_blank(&remark.text));
        }
    }

    /// Forgets a chat that ended.
    pub fn forget(&self, thread: ThreadId) {
        self.lock().chats.remove(&thread);
    }

    fn lock(&self) -> MutexGuard<'_, Remarks> {
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
    fn beyond_the_limit_the_chat_goes_in_which_nothing_was_said_for_longest() {
        let context = Context::default();
        for number in 0..CHATS as u64 {
            context.note(ThreadId(number), remark(1, "x"));
        }
        context.note(ThreadId(0), remark(2, "y"));
        context.note(ThreadId(u64::MAX), remark(3, "new"));
        assert!(context.take(ThreadId(1)).is_empty());
        assert_eq!(context.take(ThreadId(0)).len(), 2);
        assert_eq!(context.take(ThreadId(u64::MAX)).len(), 1);
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
