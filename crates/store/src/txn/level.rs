//! How urgent a transaction's requests are, from one statement to the next.

use super::Transaction;
use super::locks::TrxLocks;
use crate::backing::Backing;
use crate::policy::Role;
use crate::stream::Hurry;

impl<B: Backing> Transaction<'_, B> {
    /// Whether what it does from here on is work that
    /// [nobody waits for](crate::Store::begin_bulk). Ranges that it has begun to read
    /// go on as they were.
    pub fn set_bulk(&mut self, bulk: bool) {
        self.role = if bulk { Role::Bulk } else { Role::Read };
        if bulk && self.hurry.is_none() {
            let hurry = Hurry::default();
            if let Some(writer) = &mut self.writer {
                writer.locks.set_hurry(hurry.clone());
            }
            self.hurry = Some(hurry);
        }
    }
}

impl TrxLocks<'_> {
    /// From now on `hurry` is raised when somebody waits for them; at once where
    /// somebody does already.
    fn set_hurry(&mut self, hurry: Hurry) {
        self.hurry_with(hurry.clone());
        // Whoever begins to wait after this look finds it.
        if self.is_waited_for() {
            hurry.raise();
        }
    }
}
