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
        if self.is_broken() {
            return Err(broken());
        }
        // Whoever has a ticket by now has written before: this flush is theirs too.
        let tickets = flusher.asked.load(Ordering::SeqCst);
        let store = self.clone();
        let flushing =
            tokio::task::spawn_blocking(move || store.inner.health.heed(store.inner.db.flush()));
        // sled waits for ever for a write that broke off in another thread.
        tokio::select! {
            flushed = flushing => {
                flushed.map_err(|error| StoreError::Disk(std::io::Error::other(error)))??;
            }
            () = self.until_broken() => {
                return Err(broken());
            }
        }
        *served = tickets;
        Ok(())
    }

    /// Brings everything onto the disk and waits for it in place: for tools that have no runtime.
    pub fn flush_here(&self) -> Result<(), StoreError> {
        self.inner.health.heed(self.inner.db.flush()).map(drop)
    }
}

fn broken() -> StoreError {
    StoreError::Disk(std::io::Error::other("an earlier write failed"))
}
