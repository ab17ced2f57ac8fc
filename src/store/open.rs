//! Opening the store, and what it consists of.

use std::os::unix::fs::DirBuilderExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::domain::audit::{AuditEntry, LastRefusal};
use crate::domain::chat::Chat;
use crate::domain::grant::Grant;
use crate::domain::guest::Guest;
use crate::domain::ledger::{Counted, Entry, Hold, Tally};
use crate::domain::request::Undecided;
use crate::domain::said::Pending;
use crate::domain::time::Moment;
use crate::domain::turn_record::TurnRecord;

use super::error::StoreError;
use super::flush::Flusher;
use super::grants;
use super::record::future;
use super::table::{AnyTable, Health, Table, id_key};
use super::upgrade::VERSION;

/// Memory that sled may use for pages.
const CACHE_BYTES: u64 = 16 * 1024 * 1024;
/// A process that is being restarted can hold the lock for a moment longer.
const LOCK_TRIES: usize = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);
/// The key, in sled's default tree, of the store's version.
const VERSION_KEY: &str = "version";
/// A file beside sled's own that says that there is a store. sled takes a data file whose head is damaged for a new one
/// (measured, 0.34.7): with this file there, an empty database is known to be a loss.
const MARKER: &str = "innkeeper-store";

/// The store. Cheap to clone; all clones are the same store.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) db: sled::Db,
    pub(super) flusher: Flusher,
    pub(super) health: Health,
    /// Where the marker lies.
    marker: PathBuf,
    pub(super) guests: Table<Guest>,
    pub(super) grants: Table<Grant>,
    pub(super) chats: Table<Chat>,
    pub(super) turns: Table<TurnRecord>,
    /// `thread/turn` of every turn that is not done: an index over `turns`.
    pub(super) unfinished: Table<()>,
    /// When an id was first seen.
    pub(super) intake: Table<Moment>,
    /// Until when something need not be said again.
    pub(super) said: Table<Moment>,
    pub(super) holds: Table<Hold>,
    pub(super) ledger: Table<Entry>,
    /// Sums over `holds` and `ledger`, by month.
    pub(super) totals: Table<Tally>,
    /// `for/kind` → account and `id/account` → kind.
    pub(super) accounts: Table<String>,
    pub(super) audit: Table<AuditEntry>,
    pub(super) refusals: Table<LastRefusal>,
    /// What the meter counted for turns that are not done.
    pub(super) counts: Table<Counted>,
    /// Messages that have not arrived yet, beside answers.
    pub(super) pending: Table<Pending>,
    /// Single facts about the house, by name.
    pub(super) facts: Table<String>,
    /// Requests whose project is still to be chosen.
    pub(super) undecided: Table<Undecided>,
}

impl Store {
    /// Opens the store in a directory, which is made if it is not there (for the owner's eyes only).
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let store = Store::open_unmarked(path)?;
        match store.version()? {
            Some(VERSION) => store.mark()?,
            Some(found) if found > VERSION => {
                return Err(future("records".to_owned(), u64::from(found)));
            }
            Some(found) => {
                return Err(StoreError::Damaged(format!(
                    "there never was a version {found}"
                )));
            }
            None if !store.is_empty() => {
                return Err(damaged(
                    "it has records and no version, as an import leaves it that did not come to its end",
                ));
            }
            None if path.join(MARKER).exists() => {
                return Err(damaged("its records are gone"));
            }
            None => store.mark()?,
        }
        Ok(store)
    }

    /// Opens the store without looking at its version.
    pub(super) fn open_unmarked(path: &Path) -> Result<Store, StoreError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)?;
        let opened = open_patiently(path)?;
        let health = Health::default();
        let db = (&opened, &health);
        Ok(Store {
            inner: Arc::new(Inner {
                guests: Table::keyed(db, "guests", |guest: &Guest| id_key(guest.member.0))?,
                grants: Table::keyed(db, "grants", |grant: &Grant| {
                    grants::key(grant.subject, &grant.project)
                })?,
                chats: Table::keyed(db, "chats", |chat: &Chat| id_key(chat.thread.0))?,
                turns: Table::keyed(db, "turns", |turn: &TurnRecord| id_key(turn.id.0))?,
                unfinished: Table::open(db, "unfinished")?,
                intake: Table::open(db, "intake")?,
                said: Table::open(db, "said")?,
                holds: Table::keyed(db, "holds", |hold: &Hold| id_key(hold.turn.0))?,
                ledger: Table::keyed(db, "ledger", |entry: &Entry| id_key(entry.turn.0))?,
                totals: Table::open(db, "totals")?,
                accounts: Table::open(db, "accounts")?,
                audit: Table::open(db, "audit")?,
                refusals: Table::open(db, "refusals")?,
                counts: Table::keyed(db, "counts", |counted: &Counted| id_key(counted.turn.0))?,
                pending: Table::keyed(db, "pending", |pending: &Pending| pending.nonce.clone())?,
                facts: Table::open(db, "facts")?,
                undecided: Table::keyed(db, "undecided", |undecided: &Undecided| {
                    id_key(undecided.turn.0)
                })?,
                flusher: Flusher::default(),
                marker: path.join(MARKER),
                health: health.clone(),
                db: opened.clone(),
            }),
        })
    }

    /// Returns the bytes that the store takes on the disk.
    pub fn size(&self) -> Result<u64, StoreError> {
        Ok(self.inner.db.size_on_disk()?)
    }

    /// Waits until the disk has failed, if it ever does: then nothing can be kept any more before the store is opened anew.
    pub async fn until_broken(&self) {
        self.inner.health.gone().await;
    }

    /// Returns whether the disk has failed.
    pub fn is_broken(&self) -> bool {
        self.inner.health.is_gone()
    }

    /// Writes down that the store is there and whole, in its records first.
    pub(super) fn mark(&self) -> Result<(), StoreError> {
        self.inner.db.insert(VERSION_KEY, &[VERSION])?;
        self.flush_here()?;
        if !self.inner.marker.exists() {
            std::fs::write(
                &self.inner.marker,
                "This directory is a store of Innkeeper.\n",
            )?;
        }
        Ok(())
    }

    /// Takes the version away, for as long as the store is not whole.
    pub(super) fn unmark(&self) -> Result<(), StoreError> {
        self.inner.db.remove(VERSION_KEY)?;
        self.flush_here()
    }

    /// Returns the version; `None` for a new store and for one that is not whole.
    fn version(&self) -> Result<Option<u8>, StoreError> {
        match self.inner.db.get(VERSION_KEY)? {
            None => Ok(None),
            Some(bytes) => match bytes.as_ref() {
                [version] => Ok(Some(*version)),
                _ => Err(damaged("its version is unreadable")),
            },
        }
    }

    /// Returns whether there is no record at all.
    pub(super) fn is_empty(&self) -> bool {
        let db = &self.inner.db;
        db.tree_names()
            .iter()
            .filter(|name| name.as_ref() != b"__sled__default")
            .all(|name| db.open_tree(name).is_ok_and(|tree| tree.is_empty()))
    }
}

impl Inner {
    /// Returns the tables from which everything else follows.
    pub(super) fn primary(&self) -> [&dyn AnyTable; 15] {
        [
            &self.guests,
            &self.grants,
            &self.chats,
            &self.turns,
            &self.intake,
            &self.said,
            &self.holds,
            &self.ledger,
            &self.accounts,
            &self.audit,
            &self.refusals,
            &self.counts,
            &self.pending,
            &self.facts,
            &self.undecided,
        ]
    }

    /// Returns the tables that follow from the others.
    pub(super) fn derived(&self) -> [&dyn AnyTable; 2] {
        [&self.unfinished, &self.totals]
    }
}

fn damaged(why: &str) -> StoreError {
    StoreError::Damaged(why.to_owned())
}

fn open_patiently(path: &Path) -> Result<sled::Db, StoreError> {
    let mut tries = 1;
    loop {
        match open_once(path) {
            Err(StoreError::Disk(error)) if is_lock(&error) => {
                if tries == LOCK_TRIES {
                    return Err(StoreError::InUse(path.to_owned()));
                }
            }
            other => return other,
        }
        tries += 1;
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Opens the database. sled panics on some kinds of damage instead of returning an error.
fn open_once(path: &Path) -> Result<sled::Db, StoreError> {
    let config = sled::Config::new()
        .path(path)
        .cache_capacity(CACHE_BYTES)
        .flush_every_ms(None);
    catch_unwind(AssertUnwindSafe(|| config.open()))
        .map_err(|_| StoreError::Damaged(format!("{} cannot be read", path.display())))?
        .map_err(StoreError::from)
}

/// Returns whether the error is sled's for a lock held by somebody else; it has no kind of its own.
fn is_lock(error: &std::io::Error) -> bool {
    error.to_string().contains("could not acquire lock")
}
