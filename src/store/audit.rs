//! What admins did.

use crate::domain::audit::AuditEntry;

use super::error::StoreError;
use super::open::Store;

impl Store {
    /// Keeps what an admin did. Entries are never changed or removed.
    pub fn audit(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        // Several entries can have the same moment.
        let key = format!(
            "{:020}/{:020}",
            entry.at.0.max(0),
            self.inner.db.generate_id()?
        );
        self.inner.audit.put(&key, entry)
    }

    /// Returns the newest entries, newest first.
    pub fn audits(&self, limit: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.inner
            .audit
            .under("")
            .rev()
            .take(limit)
            .map(|pair| pair.map(|(_, entry)| entry))
            .collect()
    }
}
