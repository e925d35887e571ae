//! What goes on beside the measured work.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use iolane_store::data::Value;
use iolane_store::{Direction, Durability, Error, RowChange, StoreOptions};

use super::ration::Ration;
use super::run::ending;
use super::table::TABLE;
use super::work::{Work, key};
use crate::args::store_bench::Beside;
use crate::sys::nice::be_nice;
use crate::workload::offsets::Random;

/// Rows of one transaction.
const ROWS_PER_TRANSACTION: u64 = 100;
/// Rows that are changed for checkpoints to have something to do also when
/// nothing else is changed: they stay in memory.
const CHECKPOINT_ROWS: u64 = 2000;
/// Between two transactions that change them, so that each changes once a
/// second, about. Far more often, and a scan beside it does nothing but go
/// through undo records for what was there when it began.
const CHECKPOINT_PAUSE: Duration =
    Duration::from_millis(1000 * ROWS_PER_TRANSACTION / CHECKPOINT_ROWS);
/// From the begin of a checkpoint to that of the next, or until it is done if
/// that is later: so a run has as many as it has seconds, on any disk that can
/// write what was changed.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// Longest sleep between checkpoints, so that the end of a run is seen.
const CHECKPOINT_NAP: Duration = Duration::from_millis(20);
/// Rows that are counted at once.
const COUNTED: u64 = 64;

/// Counts rows as they are read or changed.
pub struct Background<'a> {
    pub what: Beside,
    pub rows: &'a AtomicU64,
    /// Of all backgrounds.
    pub all: &'a AtomicU64,
    /// Of a processor, at most.
    pub cpu_share: Option<f64>,
}

impl Background<'_> {
    /// Until the run is over. With little of a processor, whatever the I/O
    /// policy: it is I/O that is compared.
    pub fn run(&self, work: &Work<'_>, options: &StoreOptions) -> Result<(), Error> {
        be_nice();
        let ration = Ration::new(self.cpu_share);
        let rest = || ration.keep(&|| work.is_over());
        match self.what {
            Beside::Scan => until_over(work, || self.scan(work, &rest)),
            Beside::Backup => until_over(work, || self.backup(work, options, &rest)),
            Beside::Checkpoint => self.checkpoints(work, &rest),
            Beside::Update => until_over(work, || self.update(work, &rest)),
        }
    }

    fn count(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.all.fetch_add(rows, Ordering::Relaxed);
    }

    /// So many rows were read: counts them by the few, and rests after those.
    fn has_read(&self, rows: u64, rest: &dyn Fn()) {
        if rows.is_multiple_of(COUNTED) {
            self.count(COUNTED);
            rest();
        }
    }

    fn scan(&self, work: &Work<'_>, rest: &dyn Fn()) -> Result<(), Error> {
        let mut transaction = work.store.begin_bulk();
        let mut rows = 0;
        for row in transaction.range(TABLE, .., Direction::Forward)? {
            row?;
            rows += 1;
            self.has_read(rows, rest);
            if work.is_over() {
                break;
            }
        }
        self.count(rows % COUNTED);
        Ok(())
    }

    fn backup(
        &self,
        work: &Work<'_>,
        options: &StoreOptions,
        rest: &dyn Fn(),
    ) -> Result<(), Error> {
        let path = work.table.place.backup_path();
        let mut options = options.clone();
        options.durability = Durability::Lazy;
        let rows = Cell::new(0);
        let go_on = || {
            rows.set(rows.get() + 1);
            self.has_read(rows.get(), rest);
            !work.is_over()
        };
        match work.store.backup_while(&path, &options, &go_on) {
            // What there was of it is removed.
            Err(Error::Stopped) => return Ok(()),
            other => other?,
        };
        self.count(rows.get() % COUNTED);
        // What stays is removed with the store.
        let _ = work.table.place.remove_backup(&|| work.is_over());
        Ok(())
    }

    /// Changes, and meanwhile checkpoints. One cannot be cut short: the run ends
    /// when it has.
    fn checkpoints(&self, work: &Work<'_>, rest: &dyn Fn()) -> Result<(), Error> {
        thread::scope(|scope| {
            let taking = scope.spawn(|| {
                be_nice();
                let taken = take_checkpoints(work);
                // Or the changes would go on.
                ending(work, taken)
            });
            let changed = ending(work, until_over(work, || self.change_some(work, rest)));
            let taken = taking.join();
            changed.and(taken.expect("it panics on nothing"))
        })
    }

    fn change_some(&self, work: &Work<'_>, rest: &dyn Fn()) -> Result<(), Error> {
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
        rest();
        thread::sleep(CHECKPOINT_PAUSE);
        Ok(())
    }

    fn update(&self, work: &Work<'_>, rest: &dyn Fn()) -> Result<(), Error> {
        let version = work.version.fetch_add(1, Ordering::Relaxed);
        let rows = work.table.rows();
        for first in (0..rows).step_by(ROWS_PER_TRANSACTION as usize) {
            let ids: Vec<u64> = (first..rows.min(first + ROWS_PER_TRANSACTION)).collect();
            self.change(work, &ids, version)?;
            rest();
            if work.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// Gives up where somebody else was first: another round follows.
    fn change(&self, work: &Work<'_>, ids: &[u64], version: u64) -> Result<(), Error> {
        let mut transaction = work.store.begin_bulk();
        let keys: Vec<_> = ids.iter().map(|&id| key(id)).collect();
        let changed = transaction.change_many(TABLE, &keys, |found| match found[0] {
            Value::Integer(id) => RowChange::Update(work.table.row(id as u64, version)),
            _ => RowChange::Keep,
        });
        match changed {
            Err(Error::WriteConflict { .. } | Error::Lock(_)) => return Ok(()),
            other => other?,
        };
        transaction.commit_with(Durability::Lazy)?;
        self.count(ids.len() as u64);
        Ok(())
    }
}

fn until_over(work: &Work<'_>, mut one: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    while !work.is_over() {
        one()?;
    }
    Ok(())
}

fn take_checkpoints(work: &Work<'_>) -> Result<(), Error> {
    let mut due = Instant::now() + CHECKPOINT_INTERVAL;
    while !work.is_over() {
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::sleep(left.min(CHECKPOINT_NAP));
            continue;
        }
        due = Instant::now() + CHECKPOINT_INTERVAL;
        work.store.checkpoint()?;
    }
    Ok(())
}
