//! Ids that are being worked on at this moment, so that two arrivals of one never meet.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ids being worked on.
#[derive(Clone, Debug, Default)]
pub struct Claims(Arc<Mutex<HashSet<u64>>>);

/// An id that is being worked on; given back when dropped.
#[derive(Debug)]
pub struct Claim {
    claims: Claims,
    id: u64,
}

impl Claims {
    /// Takes an id, unless somebody works on it.
    pub fn take(&self, id: u64) -> Option<Claim> {
        self.lock().insert(id).then(|| Claim {
            claims: self.clone(),
            id,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_held_by_one_at_a_time() {
        let claims = Claims::default();
        let first = claims.take(7);
        assert!(first.is_some());
        assert!(claims.take(7).is_none());
        assert!(claims.take(8).is_some());
        drop(first);
        assert!(claims.take(7).is_some());
    }
}
