//! Messages that are kept until they arrived.

use crate::domain::said::Pending;

use super::error::StoreError;
use super::open::Store;

impl Store {
    /// Returns everything that has not arrived.
    pub fn pending(&self) -> Result<Vec<Pending>, StoreError> {
        self.inner.pending.values("")
    }

    /// Returns whether a message of this nonce has not arrived.
    pub fn is_pending(&self, nonce: &str) -> Result<bool, StoreError> {
        Ok(self.inner.pending.tree.contains_key(nonce)?)
    }

    /// Keeps a message until [`Store::arrived`].
    pub fn put_pending(&self, pending: &Pending) -> Result<(), StoreError> {
        self.inner.pending.put(&pending.nonce, pending)
    }

    /// Forgets a message that arrived, or that never can.
    pub fn arrived(&self, nonce: &str) -> Result<(), StoreError> {
        self.inner.pending.remove(nonce).map(drop)
    }
}
