//! Chats, by their threads.

use crate::domain::chat::Chat;
use crate::domain::ids::ThreadId;

use super::error::StoreError;
use super::open::Store;
use super::table::{Abort, id_key};

impl Store {
    /// Returns the chat of a thread.
    pub fn chat(&self, thread: ThreadId) -> Result<Option<Chat>, StoreError> {
        self.inner.chats.get(&id_key(thread.0))
    }

    /// Keeps a chat.
    pub fn put_chat(&self, chat: &Chat) -> Result<(), StoreError> {
        self.inner.chats.put(&id_key(chat.thread.0), chat)
    }

    /// Keeps the chat that a thread begins with. Where the thread has one already that is not closed, that one stays and is
    /// returned: of two that begin at once, both go on in the same.
    pub fn begin_chat(&self, chat: &Chat) -> Result<Option<Chat>, StoreError> {
        let chats = &self.inner.chats;
        let key = id_key(chat.thread.0);
        chats
            .tree
            .transaction(|tx| -> Result<Option<Chat>, Abort> {
                let kept = chats.get_in(tx, &key)?.filter(|kept| !kept.closed);
                if kept.is_none() {
                    chats.put_in(tx, &key, chat)?;
                }
                Ok(kept)
            })
            .map_err(|error| chats.ended(error))
    }

    /// Returns all chats, oldest first.
    pub fn chats(&self) -> Result<Vec<Chat>, StoreError> {
        self.inner.chats.values("")
    }

    /// Changes a chat as it is kept at this moment, so that two changes at once both count. Returns what is now kept.
    pub fn revise_chat(
        &self,
        thread: ThreadId,
        change: impl Fn(&mut Chat),
    ) -> Result<Option<Chat>, StoreError> {
        let chats = &self.inner.chats;
        let key = id_key(thread.0);
        chats
            .tree
            .transaction(|tx| -> Result<Option<Chat>, Abort> {
                let Some(mut chat) = chats.get_in(tx, &key)? else {
                    return Ok(None);
                };
                change(&mut chat);
                chats.put_in(tx, &key, &chat)?;
                Ok(Some(chat))
            })
            .map_err(|error| chats.ended(error))
    }
}
