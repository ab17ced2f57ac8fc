//! Chats, by their threads.

use crate::domain::chat::Chat;
use crate::domain::ids::ThreadId;

use super::error::StoreError;
use super::open::Store;
use super::table::id_key;

impl Store {
    /// Returns the chat of a thread.
    pub fn chat(&self, thread: ThreadId) -> Result<Option<Chat>, StoreError> {
        self.inner.chats.get(&id_key(thread.0))
    }

    /// Keeps a chat.
    pub fn put_chat(&self, chat: &Chat) -> Result<(), StoreError> {
        self.inner.chats.put(&id_key(chat.thread.0), chat)
    }

    /// Returns all chats, oldest first.
    pub fn chats(&self) -> Result<Vec<Chat>, StoreError> {
        self.inner.chats.values("")
    }
}
