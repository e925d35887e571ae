//! The first failure after which a store cannot go on.

use crate::access::PagesError;
use std::sync::OnceLock;

/// Set once, by a failed write or sync of pages or log.
#[derive(Default)]
pub(crate) struct Failure(OnceLock<String>);

impl Failure {
    /// Notes a failure; the first one stays.
    pub(crate) fn set(&self, reason: String) {
        let _ = self.0.set(reason);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// # Errors
    /// [`PagesError::Failed`] once it has happened.
    pub(crate) fn check(&self) -> Result<(), PagesError> {
        match self.0.get() {
            None => Ok(()),
            Some(reason) => Err(PagesError::Failed {
                reason: reason.clone(),
            }),
        }
    }
}
