//! What can go wrong with the store.

use std::path::PathBuf;

use crate::domain::ids::TurnId;

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process holds it.
    #[error("the store at {} is in use: the bot is alive and works with it; stop the bot first", .0.display())]
    InUse(PathBuf),
    /// A newer program wrote it.
    #[error(
        "the store holds {place} of version {found}, and this program knows {known} at most: use the newer program again"
    )]
    Future {
        /// What was found.
        place: String,
        /// Its version.
        found: u64,
        /// The newest version known here.
        known: u8,
    },
    /// Its files are not what they should be.
    #[error(
        "the store is damaged: {0}; restore the directory from a backup, or import an export into a new one"
    )]
    Damaged(String),
    /// A record cannot be read. Nothing is put in its place.
    #[error(
        "the record {key:?} in {tree} is unreadable: {why}; `innkeeper store check` lists all such records"
    )]
    Unreadable {
        /// The tree.
        tree: &'static str,
        /// The key.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// A value that cannot be written.
    #[error("a value for {tree} cannot be written: {why}")]
    Unwritable {
        /// The tree.
        tree: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The disk failed, or has no room left.
    #[error("the store's disk failed: {0}")]
    Disk(#[from] std::io::Error),
    /// There is no money held for the turn, and none was booked.
    #[error("no money is held for turn {0}, so nothing can be booked on it")]
    NoHold(TurnId),
    /// The turn was booked already, so nothing can be held for it any more.
    #[error("turn {0} is settled already")]
    Settled(TurnId),
    /// No name for a new account could be found.
    #[error("no free account name was found for {0}")]
    NoAccount(String),
    /// An import wants an empty place.
    #[error("the store at {} is not empty: import into a new directory", .0.display())]
    NotEmpty(PathBuf),
    /// A line of an import is wrong.
    #[error("line {line} cannot be imported: {why}")]
    Line {
        /// Which, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

impl From<sled::Error> for StoreError {
    fn from(error: sled::Error) -> StoreError {
        match error {
            sled::Error::Io(error) => StoreError::Disk(error),
            other => StoreError::Damaged(other.to_string()),
        }
    }
}
