//! What goes on beside the measured work.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use iolane_store::{Direction, Durability, Error, StoreOptions};

use super::table::TABLE;
use super::work::Work;
use crate::args::store_bench::Beside;
use crate::sys::nice::be_nice;
use crate::workload::offsets::Random;

/// Rows of one transaction.
const ROWS_PER_TRANSACTION: u64 = 100;
/// Rows that are changed to fill the log: they stay in memory, so that the log
/// and not reading sets the pace.
const CHECKPOINT_ROWS: u64 = 2000;
/// Between two transactions that fill the log, so that they do not take all of
/// a processor.
const CHECKPOINT_PAUSE: Duration = Duration::from_millis(1);
/// Between two looks at whether the run is over.
const LOOK: u64 = 64;

/// Counts rows as they are read or changed.
pub struct Background<'a> {
    pub what: Beside,
    pub rows: &'a AtomicU64,
    /// Of all backgrounds.
    pub all: &'a AtomicU64,
}

impl Background<'_> {
    /// Until the run is over. With little of a processor, whatever the I/O
    /// policy: it is I/O that is compared.
    pub fn run(&self, work: &Work<'_>, options: &StoreOptions) -> Result<(), Error> {
        be_nice();
        while !work.is_over() {
            match self.what {
                Beside::Scan => self.scan(work)?,
                Beside::Backup => self.backup(work, options)?,
                Beside::Checkpoint => self.checkpoint(work)?,
                Beside::Update => self.update(work)?,
            }
        }
        Ok(())
    }

    fn count(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.all.fetch_add(rows, Ordering::Relaxed);
    }

    fn scan(&self, work: &Work<'_>) -> Result<(), Error> {
        let mut transaction = work.store.begin_bulk();
        let mut rows = 0;
        for row in transaction.range(TABLE, .., Direction::Forward)? {
            row?;
            rows += 1;
            if rows % LOOK == 0 {
                self.count(LOOK);
                if work.is_over() {
                    return Ok(());
                }
            }
        }
        self.count(rows % LOOK);
        Ok(())
    }

    /// A backup cannot be cut short: the run ends when it has.
    fn backup(&self, work: &Work<'_>, options: &StoreOptions) -> Result<(), Error> {
        let path = work.table.backup_path();
        let mut options = options.clone();
        options.durability = Durability::Lazy;
        let copied = work.store.backup(&path, &options)?;
        self.count(copied);
        // What stays is removed with the store.
        let _ = std::fs::remove_dir_all(path);
        Ok(())
    }

    fn checkpoint(&self, work: &Work<'_>) -> Result<(), Error> {
        let rows = work.table.rows().min(CHECKPOINT_ROWS);
        // The last rows: nobody else prefers them.
        let first = work.table.rows() - rows;
        let mut random = Random::new(work.seed, u64::MAX);
        let version = work.version.fetch_add(1, Ordering::Relaxed);
        let ids = (0..ROWS_PER_TRANSACTION).map(|_| first + random.next() % rows);
        let mut ids: Vec<u64> = ids.collect();
        ids.sort_unstable();
        ids.dedup();
        self.change(work, &ids, version)?;
        thread::sleep(CHECKPOINT_PAUSE);
        Ok(())
    }

    fn update(&self, work: &Work<'_>) -> Result<(), Error> {
        let version = work.version.fetch_add(1, Ordering::Relaxed);
        let rows = work.table.rows();
        for first in (0..rows).step_by(ROWS_PER_TRANSACTION as usize) {
            let ids: Vec<u64> = (first..rows.min(first + ROWS_PER_TRANSACTION)).collect();
            self.change(work, &ids, version)?;
            if work.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Gives up where somebody else was first: another round follows.
    fn change(&self, work: &Work<'_>, ids: &[u64], version: u64) -> Result<(), Error> {
        let mut transaction = work.store.begin_bulk();
        for &id in ids {
            match transaction.update(TABLE, work.table.row(id, version)) {
                Err(Error::WriteConflict { .. } | Error::Lock(_)) => return Ok(()),
                other => other?,
            };
        }
        transaction.commit_with(Durability::Lazy)?;
        self.count(ids.len() as u64);
        Ok(())
    }
}
