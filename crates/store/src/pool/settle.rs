//! The end of a pool.

use super::Pool;

impl Pool {
    /// Withdraws the reads that nobody has awaited, or waits for them. The
    /// engine holds their memory till then, and a store that is opened next in
    /// the same arena needs it. Nobody uses the pool any more.
    pub(crate) fn settle(&self) {
        let orphans = std::mem::take(&mut *self.orphans.lock());
        for reading in self.table.readings().into_iter().chain(orphans) {
            if let Some(under_way) = reading.take_if(|_| true)
                && let Err(under_way) = under_way.cancel()
            {
                drop(under_way.wait());
            }
        }
    }
}
