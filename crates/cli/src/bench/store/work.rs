//! The measured work: one thread's part of each experiment.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use iolane_store::data::{Row, Value};
use iolane_store::{Direction, Durability, Error, RowChange, Store};

use super::table::{INDEX, TABLE, Table};
use super::timeline::{Diary, Pulse};
use crate::args::store_bench::Experiment;
use crate::sys::timer_slack::set_timer_slack_ns;
use crate::workload::offsets::Random;

/// Rows of one transaction of a change of all rows.
const ROWS_PER_TRANSACTION: u64 = 1000;
/// Rows of a scan for which the clock is looked at once: for each, it and what is
/// noted would be a sixth of what the scan takes.
const ROWS_PER_LOOK: u32 = 8;
/// Rows that commits change: few, so that they stay in memory and nothing but
/// the log is waited for.
const COMMIT_ROWS: u64 = 1000;
/// A transaction that was in another's way is tried again so often.
const TRIES_MAX: u32 = 100;
/// Longest sleep of a pacing thread, so that the end of a run is seen.
const NAP_MAX: Duration = Duration::from_millis(20);
/// The kernel may wake a pacing thread so late on purpose.
const TIMER_SLACK_NS: u32 = 1000;

/// The moments at which transactions should begin, for whichever thread is free
/// first: one waits only while all threads are busy.
pub struct Arrivals {
    first: Instant,
    per_second: f64,
    taken: AtomicU64,
}

impl Arrivals {
    /// From now on.
    pub fn new(per_second: f64) -> Self {
        Self {
            first: Instant::now(),
            per_second,
            taken: AtomicU64::new(0),
        }
    }

    /// Takes the next one.
    fn take(&self) -> (u64, Instant) {
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        let since = Duration::from_secs_f64(number as f64 / self.per_second);
        (number, self.first + since)
    }
}

/// What the threads of a run share.
pub struct Work<'a> {
    pub store: &'a Store,
    pub table: &'a Table,
    pub experiment: Experiment,
    pub threads: u64,
    /// Otherwise one transaction follows the other.
    pub arrivals: Option<Arrivals>,
    pub range_rows: u64,
    pub seed: u64,
    pub pulse: Pulse,
    /// From here on it is measured.
    pub measuring: AtomicBool,
    pub ended: AtomicBool,
    /// Rows changed get it as their version.
    pub version: AtomicU64,
}

impl Work<'_> {
    pub fn is_over(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Enters an operation that has just ended. Returns the time: a second look at
    /// the clock for each of a million rows a second would be a good part of what
    /// they take.
    fn record(&self, diary: &mut Diary, began: Instant) -> Instant {
        self.record_all(1, diary, began)
    }

    /// The same for several that followed each other.
    fn record_all(&self, operations: u32, diary: &mut Diary, began: Instant) -> Instant {
        let now = Instant::now();
        if self.measuring.load(Ordering::Relaxed) {
            diary.record(operations, began, now, &self.pulse);
        }
        now
    }

    /// A thread's part, until the run is over or there is nothing left to do.
    pub fn run(&self, thread: u64, diary: &mut Diary) -> Result<(), Error> {
        match self.experiment {
            Experiment::Scan => self.scan(thread, diary),
            Experiment::Range => self.range(thread, diary),
            Experiment::Update => self.update(thread, diary),
            Experiment::Commit | Experiment::Oltp => self.transactions(thread, diary),
        }
    }

    /// This thread's part of the rows.
    fn part(&self, thread: u64) -> std::ops::Range<u64> {
        let at = |thread| self.table.rows() * thread / self.threads;
        at(thread)..at(thread + 1)
    }

    fn scan(&self, thread: u64, diary: &mut Diary) -> Result<(), Error> {
        let part = self.part(thread);
        let (from, to) = (key(part.start), key(part.end));
        let mut transaction = self.store.begin();
        let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let began = Instant::now();
        let rows = transaction.range(TABLE, bounds, Direction::Forward)?;
        self.read(rows, ROWS_PER_LOOK, began, diary)
    }

    fn range(&self, thread: u64, diary: &mut Diary) -> Result<(), Error> {
        // Ranges of threads and of seeds lie apart.
        let mut random = Random::new(self.seed, thread);
        let first = [Value::Integer((random.next() >> 2) as i64)];
        let mut transaction = self.store.begin();
        let bounds = (Bound::Included(&first[..]), Bound::Unbounded);
        let rows = transaction.range_by(TABLE, INDEX, bounds, Direction::Forward)?;
        let rows = rows.take(self.range_rows as usize);
        self.read(rows, 1, Instant::now(), diary)
    }

    /// Reads rows until they or the run end, and looks at the clock after each
    /// `per_look` of them; the first is waited for since `began`.
    fn read(
        &self,
        rows: impl Iterator<Item = Result<Row, Error>>,
        per_look: u32,
        mut began: Instant,
        diary: &mut Diary,
    ) -> Result<(), Error> {
        let mut since_look = 0;
        for row in rows {
            row?;
            since_look += 1;
            if since_look == per_look {
                since_look = 0;
                began = self.record_all(per_look, diary, began);
                if self.is_over() {
                    return Ok(());
                }
            }
        }
        if since_look > 0 {
            self.record_all(since_look, diary, began);
        }
        Ok(())
    }

    fn update(&self, thread: u64, diary: &mut Diary) -> Result<(), Error> {
        let version = self.version.fetch_add(1, Ordering::Relaxed);
        let part = self.part(thread);
        for first in part.clone().step_by(ROWS_PER_TRANSACTION as usize) {
            let mut transaction = self.store.begin();
            let last = part.end.min(first + ROWS_PER_TRANSACTION);
            let (from, to) = (key(first), key(last));
            let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
            let mut rows = (first..last).map(|id| self.table.row(id, version));
            let mut began = Instant::now();
            transaction.change_range(TABLE, bounds, |_| {
                began = self.record(diary, began);
                rows.next().map_or(RowChange::Keep, RowChange::Update)
            })?;
            transaction.commit_with(Durability::Lazy)?;
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// One after the other, or each at its moment.
    fn transactions(&self, thread: u64, diary: &mut Diary) -> Result<(), Error> {
        let mut random = Random::new(self.seed, 1 + thread);
        if self.arrivals.is_some() {
            set_timer_slack_ns(TIMER_SLACK_NS);
        }
        for own in 0.. {
            let (number, began) = match &self.arrivals {
                None => (own, Instant::now()),
                Some(arrivals) => arrivals.take(),
            };
            if !self.sleep_until(began) {
                return Ok(());
            }
            self.transaction(number, &mut random)?;
            self.record(diary, began);
        }
        Ok(())
    }

    /// `false`: the run is over.
    fn sleep_until(&self, due: Instant) -> bool {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if self.is_over() || left.is_zero() {
                return !self.is_over();
            }
            thread::sleep(left.min(NAP_MAX));
        }
    }

    fn transaction(&self, number: u64, random: &mut Random) -> Result<(), Error> {
        let rows = self.table.rows();
        if self.experiment == Experiment::Commit {
            return self.change(random.next() % rows.min(COMMIT_ROWS), number);
        }
        let id = random.next() % rows;
        if number.is_multiple_of(2) {
            self.store
                .begin()
                .get(TABLE, &[Value::Integer(id as i64)])?;
            return Ok(());
        }
        self.change(id, number)
    }

    /// Another thread may have been first, which is no failure.
    fn change(&self, id: u64, number: u64) -> Result<(), Error> {
        let row = self.table.row(id, number);
        for _ in 1..TRIES_MAX {
            match self.change_once(row.clone()) {
                Err(Error::WriteConflict { .. } | Error::Lock(_)) => {}
                other => return other,
            }
        }
        self.change_once(row)
    }

    fn change_once(&self, row: iolane_store::data::Row) -> Result<(), Error> {
        let mut transaction = self.store.begin();
        transaction.update(TABLE, row)?;
        transaction.commit()
    }
}

pub fn key(id: u64) -> Vec<Value> {
    vec![Value::Integer(id as i64)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whichever thread asks: none has moments of its own, for which another that
    /// is free could not stand in.
    #[test]
    fn arrivals_come_one_after_the_other_for_all_threads() {
        let arrivals = Arrivals::new(1000.0);
        let taken = thread::scope(|scope| {
            let take = || (0..500).map(|_| arrivals.take()).collect::<Vec<_>>();
            let threads = [scope.spawn(take), scope.spawn(take)];
            let mut taken = threads.map(|one| one.join().unwrap()).concat();
            taken.sort_unstable();
            taken
        });
        for (place, &(number, due)) in taken.iter().enumerate() {
            assert_eq!(number, place as u64);
            assert_eq!((due - arrivals.first).as_millis(), place as u128);
        }
    }
}
