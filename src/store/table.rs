//! One tree whose keys are text and whose records are of one type.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sled::transaction::{ConflictableTransactionError, TransactionError, TransactionalTree};
use tokio_util::sync::CancellationToken;

use super::error::StoreError;
use super::record::{decode, encode, unreadable};

/// What ends a transaction early.
pub(super) type Abort = ConflictableTransactionError<StoreError>;

/// Ends a transaction with an error of ours.
pub(super) fn abort(error: StoreError) -> Abort {
    ConflictableTransactionError::Abort(error)
}

/// Learns of a disk that fails. sled never forgets such an error, not even when there is room again: nothing can be written
/// any more before the store is opened anew.
#[derive(Clone, Debug, Default)]
pub(super) struct Health(CancellationToken);

impl Health {
    /// Waits until the disk has failed.
    pub(super) async fn gone(&self) {
        self.0.cancelled().await;
    }

    /// Returns whether the disk has failed.
    pub(super) fn is_gone(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Takes note of how a write ended.
    pub(super) fn heed<T>(&self, written: sled::Result<T>) -> Result<T, StoreError> {
        written.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: sled::Error) -> StoreError {
        self.0.cancel();
        error.into()
    }
}

/// Returns an id as a key that sorts by number.
pub(super) fn id_key(id: u64) -> String {
    format!("{id:020}")
}

/// A tree with records of type `T`.
#[derive(Debug)]
pub(super) struct Table<T> {
    name: &'static str,
    pub(super) tree: sled::Tree,
    pub(super) health: Health,
    /// Gives the key that a record must have; `None` where the record does not tell.
    key_of: Option<fn(&T) -> String>,
}

impl<T: Serialize + DeserializeOwned> Table<T> {
    /// Opens the tree of that name, making it if need be; its records tell nothing of their keys.
    pub(super) fn open(
        (db, health): (&sled::Db, &Health),
        name: &'static str,
    ) -> Result<Table<T>, StoreError> {
        Ok(Table {
            name,
            tree: db.open_tree(name)?,
            health: health.clone(),
            key_of: None,
        })
    }

    /// Opens the tree of that name, whose records tell their keys.
    pub(super) fn keyed(
        db: (&sled::Db, &Health),
        name: &'static str,
        key_of: fn(&T) -> String,
    ) -> Result<Table<T>, StoreError> {
        Ok(Table {
            key_of: Some(key_of),
            ..Table::open(db, name)?
        })
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<T>, StoreError> {
        self.tree
            .get(key)?
            .map(|bytes| decode(self.name, key.as_bytes(), &bytes))
            .transpose()
    }

    pub(super) fn put(&self, key: &str, value: &T) -> Result<(), StoreError> {
        let bytes = self.encode(value)?;
        self.health.heed(self.tree.insert(key, bytes)).map(drop)
    }

    /// Removes a record unread, and returns whether there was one.
    pub(super) fn remove(&self, key: &str) -> Result<bool, StoreError> {
        let removed = self.health.heed(self.tree.remove(key))?;
        Ok(removed.is_some())
    }

    /// Returns the error that ended a transaction.
    pub(super) fn ended(&self, error: TransactionError<StoreError>) -> StoreError {
        match error {
            TransactionError::Abort(error) => error,
            TransactionError::Storage(error) => self.health.failed(error),
        }
    }

    /// Goes through all records whose keys begin with `prefix`, in the order of keys; from both ends.
    pub(super) fn under(
        &self,
        prefix: &str,
    ) -> impl DoubleEndedIterator<Item = Result<(String, T), StoreError>> + use<T> {
        let name = self.name;
        self.tree.scan_prefix(prefix).map(move |pair| {
            let (key, bytes) = pair?;
            let text = std::str::from_utf8(&key)
                .map_err(|_| unreadable(name, &key, "its key is no text"))?
                .to_owned();
            Ok((text, decode(name, &key, &bytes)?))
        })
    }

    /// Returns all records whose keys begin with `prefix`, in the order of keys.
    pub(super) fn values(&self, prefix: &str) -> Result<Vec<T>, StoreError> {
        self.under(prefix)
            .map(|pair| pair.map(|(_, value)| value))
            .collect()
    }

    pub(super) fn encode(&self, value: &T) -> Result<Vec<u8>, StoreError> {
        encode(self.name, value)
    }

    /// Reads within a transaction.
    pub(super) fn get_in(&self, tree: &TransactionalTree, key: &str) -> Result<Option<T>, Abort> {
        tree.get(key)?
            .map(|bytes| decode(self.name, key.as_bytes(), &bytes))
            .transpose()
            .map_err(abort)
    }

    /// Writes within a transaction.
    pub(super) fn put_in(
        &self,
        tree: &TransactionalTree,
        key: &str,
        value: &T,
    ) -> Result<(), Abort> {
        tree.insert(key, self.encode(value).map_err(abort)?)?;
        Ok(())
    }
}

/// A table whatever its records are: for what goes through all of them alike.
pub(super) trait AnyTable {
    /// Returns its name.
    fn name(&self) -> &'static str;

    /// Returns its tree.
    fn tree(&self) -> &sled::Tree;

    /// Returns an error if these bytes are no record of this table.
    fn examine(&self, key: &[u8], bytes: &[u8]) -> Result<(), StoreError>;
}

impl<T: Serialize + DeserializeOwned> AnyTable for Table<T> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn tree(&self) -> &sled::Tree {
        &self.tree
    }

    fn examine(&self, key: &[u8], bytes: &[u8]) -> Result<(), StoreError> {
        let value = decode::<T>(self.name, key, bytes)?;
        match self.key_of.map(|key_of| key_of(&value)) {
            Some(right) if right.as_bytes() != key => Err(unreadable(
                self.name,
                key,
                format!("it belongs under {right:?}"),
            )),
            _ => Ok(()),
        }
    }
}
