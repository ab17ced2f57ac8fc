//! Sandbox accounts: minted once, unique, never made again from anybody's id.

use crate::domain::ids::AccountId;

use super::error::StoreError;
use super::open::Store;
use super::table::{Abort, abort};

/// How often a name is minted before giving up; one of 2·10¹² is taken rarely.
const MINTS: usize = 64;

impl Store {
    /// Returns the account for a kind of use (`project/site`), minting one at the first time.
    ///
    /// A name that is taken, or that is not eight of `a-z0-9` with a letter first, is minted anew.
    pub fn account(
        &self,
        kind: &str,
        mut mint: impl FnMut() -> String,
    ) -> Result<AccountId, StoreError> {
        let candidates: Vec<String> = match self.inner.accounts.get(&for_key(kind))? {
            Some(known) => return Ok(AccountId(known)),
            None => std::iter::repeat_with(&mut mint)
                .take(MINTS)
                .filter(|name| is_well_formed(name))
                .collect(),
        };
        let accounts = &self.inner.accounts;
        accounts
            .tree
            .transaction(|tx| -> Result<AccountId, Abort> {
                // Somebody else may have minted one meanwhile.
                if let Some(known) = accounts.get_in(tx, &for_key(kind))? {
                    return Ok(AccountId(known));
                }
                for name in &candidates {
                    if accounts.get_in(tx, &id_key(name))?.is_none() {
                        accounts.put_in(tx, &id_key(name), &kind.to_owned())?;
                        accounts.put_in(tx, &for_key(kind), name)?;
                        return Ok(AccountId(name.clone()));
                    }
                }
                Err(abort(StoreError::NoAccount(kind.to_owned())))
            })
            .map_err(|error| accounts.ended(error))
    }

    /// Returns the account for a kind of use, if one was minted.
    pub fn known_account(&self, kind: &str) -> Result<Option<AccountId>, StoreError> {
        Ok(self.inner.accounts.get(&for_key(kind))?.map(AccountId))
    }
}

/// Returns the key of a kind's account.
pub(super) fn for_key(kind: &str) -> String {
    format!("for/{kind}")
}

/// Returns the key of an account's kind.
pub(super) fn id_key(name: &str) -> String {
    format!("id/{name}")
}

fn is_well_formed(name: &str) -> bool {
    name.len() == 8
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}
