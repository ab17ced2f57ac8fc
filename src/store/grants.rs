//! Grants: at most one for each subject and project.

use crate::domain::grant::{Grant, Subject};
use crate::domain::ids::{MemberId, RoleId, Slug};

use super::error::StoreError;
use super::open::Store;
use super::table::id_key;

/// Returns what all keys of a subject's grants begin with.
fn prefix(subject: Subject) -> String {
    match subject {
        Subject::Member(member) => format!("member/{}/", id_key(member.0)),
        Subject::Role(role) => format!("role/{}/", id_key(role.0)),
    }
}

/// Returns the key of one grant.
pub(super) fn key(subject: Subject, project: &Slug) -> String {
    format!("{}{project}", prefix(subject))
}

impl Store {
    /// Gives a grant, in place of one that the subject held on the project.
    pub fn give(&self, grant: &Grant) -> Result<(), StoreError> {
        let key = key(grant.subject, &grant.project);
        self.inner.grants.put(&key, grant)
    }

    /// Returns the grant of a subject on a project, expired or not.
    pub fn grant(&self, subject: Subject, project: &Slug) -> Result<Option<Grant>, StoreError> {
        self.inner.grants.get(&key(subject, project))
    }

    /// Takes a grant away and returns whether there was one. It is not read: rights must go even if their record is damaged.
    pub fn revoke(&self, subject: Subject, project: &Slug) -> Result<bool, StoreError> {
        self.inner.grants.remove(&key(subject, project))
    }

    /// Returns the grants of a member and of these roles, expired ones included.
    pub fn grants_for(&self, member: MemberId, roles: &[RoleId]) -> Result<Vec<Grant>, StoreError> {
        let mut grants = self.inner.grants.values(&prefix(Subject::Member(member)))?;
        for role in roles {
            grants.extend(self.inner.grants.values(&prefix(Subject::Role(*role)))?);
        }
        Ok(grants)
    }

    /// Returns all grants, members' first, then roles'.
    pub fn grants(&self) -> Result<Vec<Grant>, StoreError> {
        self.inner.grants.values("")
    }
}
