//! Bringing everything written so far onto the disk, once for all who wait.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Mutex;

use super::error::StoreError;
use super::open::Store;

/// The queue of those who wait for the disk.
#[derive(Debug, Default)]
pub(super) struct Flusher {
    /// How many have asked.
    asked: AtomicU64,
    /// How many of them are served. Whoever holds it writes; the others wait for it, which is the purpose of the lock.
    served: Mutex<u64>,
}

impl Store {
    /// Brings everything that was written before this call onto the disk.
    ///
    /// Those who wait while one flush runs are served together by the next one.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let flusher = &self.inner.flusher;
        let ticket = flusher.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut served = flusher.served.lock().await;
        if *served >= ticket {
            return Ok(());
        }
        // Whoever has a ticket by now has written before: this flush is theirs too.
        let tickets = flusher.asked.load(Ordering::SeqCst);
        let store = self.clone();
        tokio::task::spawn_blocking(move || store.inner.db.flush())
            .await
            .map_err(|error| StoreError::Disk(std::io::Error::other(error)))??;
        *served = tickets;
        Ok(())
    }

    /// Brings everything onto the disk and waits for it in place: for tools that have no runtime.
    pub fn flush_here(&self) -> Result<(), StoreError> {
        self.inner.db.flush()?;
        Ok(())
    }
}
