//! Ranges of rows.

use super::pointers::{
    give, may_change_threads, object, object_mut, optional_text, put, slice, take, text, values,
};
use super::row::{iolane_row, iolane_value};
use super::store::iolane_store;
use super::transaction::{iolane_transaction, lock};
use crate::failure::{Failure, done, guarded};
use std::ffi::c_char;
use std::ops::{Bound, Range};
use std::sync::Arc;
use store::data::Value;
use store::{Cursor, Direction, ManyRows, Store};

/// Whether a range has an end, and whether that is in it.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum iolane_bound {
    /// It goes to the end of the index.
    IOLANE_UNBOUNDED = 0,
    /// With the bound: all rows that begin with its values.
    IOLANE_INCLUDED = 1,
    /// Without the bound: no row that begins with its values.
    IOLANE_EXCLUDED = 2,
}

/// Which rows, in which order. Bounds have values for the first columns of the
/// index, or all. Zeros mean all rows of the table in the order of its primary key.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct iolane_range {
    /// A secondary index; NULL for the primary key.
    pub index: *const c_char,
    /// Values of the lower bound.
    pub lower: *const iolane_value,
    /// Their number.
    pub lower_count: usize,
    /// Of enum iolane_bound.
    pub lower_bound: i32,
    /// Of enum iolane_bound.
    pub upper_bound: i32,
    /// Values of the upper bound.
    pub upper: *const iolane_value,
    /// Their number.
    pub upper_count: usize,
    /// 1: from the upper bound down.
    pub backward: i32,
    /// Of enum iolane_lock: whether each row is locked when it comes.
    pub lock: i32,
    /// Of enum iolane_when_locked.
    pub when_locked: i32,
    /// 1: with an index, and without locks, rows have its columns and those of the primary
    /// key only, all others are null. Mostly the rows need not be read then.
    pub only_keys: i32,
    /// 1: with locks, it is the first of several, which follow by iolane_cursor_go_on().
    pub one_of_many: i32,
}

/// How far a transaction has come in a range. For one thread at a time.
pub struct iolane_cursor {
    cursor: Cursor<'static>,
    /// Given up after it.
    _store: Arc<Store>,
}

const _: () = may_change_threads::<iolane_cursor>();

type Bounds = (Bound<Vec<Value>>, Bound<Vec<Value>>);

/// # Safety
/// The values of the bounds are there.
unsafe fn bounds(range: &iolane_range) -> Result<Bounds, Failure> {
    // SAFETY: the caller's promise.
    let get = |start, count| move || unsafe { values(start, count) };
    Ok((
        bound(range.lower_bound, get(range.lower, range.lower_count))?,
        bound(range.upper_bound, get(range.upper, range.upper_count))?,
    ))
}

/// A bound of enum iolane_bound; `get` gets its values, if it has some.
fn bound<T>(kind: i32, get: impl FnOnce() -> Result<T, Failure>) -> Result<Bound<T>, Failure> {
    match kind {
        0 => Ok(Bound::Unbounded),
        1 => get().map(Bound::Included),
        2 => get().map(Bound::Excluded),
        other => Err(Failure::argument(format!("there is no bound {other}"))),
    }
}

fn as_slices((lower, upper): &Bounds) -> (Bound<&[Value]>, Bound<&[Value]>) {
    let slice = Vec::as_slice;
    (lower.as_ref().map(slice), upper.as_ref().map(slice))
}

/// The bounds of many ranges, all values in one place.
struct ManyBounds {
    values: Vec<Value>,
    /// Of both bounds of each range.
    places: Vec<[Bound<Range<usize>>; 2]>,
}

impl ManyBounds {
    /// # Safety
    /// The values of the bounds are there.
    unsafe fn of(ranges: &[iolane_range]) -> Result<ManyBounds, Failure> {
        let mut all = ManyBounds {
            values: Vec::with_capacity(ranges.len()),
            places: Vec::with_capacity(ranges.len()),
        };
        for range in ranges {
            let mut one = None;
            // SAFETY: the caller's promise.
            let lower = bound(range.lower_bound, || unsafe {
                let place = all.add(range.lower, range.lower_count)?;
                Ok(one.insert(place).clone())
            })?;
            // Mostly a key: both bounds are the same values.
            let same = (range.upper, range.upper_count) == (range.lower, range.lower_count);
            let upper = bound(range.upper_bound, || match one.filter(|_| same) {
                Some(place) => Ok(place),
                // SAFETY: the caller's promise.
                None => unsafe { all.add(range.upper, range.upper_count) },
            })?;
            all.places.push([lower, upper]);
        }
        Ok(all)
    }

    /// # Safety
    /// As [`of`](Self::of).
    unsafe fn add(
        &mut self,
        start: *const iolane_value,
        count: usize,
    ) -> Result<Range<usize>, Failure> {
        let from = self.values.len();
        // SAFETY: the caller's promise.
        for value in unsafe { slice(start, count) }? {
            // SAFETY: the caller's promise.
            self.values.push(unsafe { value.get() }?);
        }
        Ok(from..self.values.len())
    }

    fn as_slices(&self) -> impl Iterator<Item = (Bound<&[Value]>, Bound<&[Value]>)> {
        let slice = |bound: &Bound<Range<usize>>| bound.clone().map(|place| &self.values[place]);
        self.places
            .iter()
            .map(move |[lower, upper]| (slice(lower), slice(upper)))
    }
}

fn direction(backward: i32) -> Direction {
    match backward {
        0 => Direction::Forward,
        _ => Direction::Backward,
    }
}

/// Makes a cursor before the first row of a range, to be freed by
/// iolane_cursor_free(), also after the transaction. Never blocks for long; fails with
/// IOLANE_STORE_ERROR_UNKNOWN_TABLE, _UNKNOWN_INDEX, _SCHEMA, _ENDED, _DAMAGED,
/// _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_cursor_open(
    transaction: *mut iolane_transaction,
    table: *const c_char,
    range: *const iolane_range,
    cursor: *mut *mut iolane_cursor,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        let range = object(range, "range")?;
        let index = optional_text(range.index, "index")?;
        let within = bounds(range)?;
        let opened = it.transaction.cursor(
            text(table, "table")?,
            index,
            as_slices(&within),
            direction(range.backward),
            lock(range.lock, range.when_locked)?,
        )?;
        let opened = match range.only_keys {
            0 => opened,
            _ => opened.only_keys(),
        };
        let opened = match range.one_of_many {
            0 => opened,
            _ => opened.one_of_many(),
        };
        give(
            cursor,
            iolane_cursor {
                cursor: opened,
                _store: Arc::clone(&it.store),
            },
        )
    })
}

/// Fills `row` with the next row of the range. Returns 1, or 0 behind the last.
/// `transaction` is the one that the cursor was made by; between two rows it can do
/// other things. Blocks while it waits for others or reads pages. Fails as
/// iolane_transaction_get(). For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_cursor_next(
    cursor: *mut iolane_cursor,
    transaction: *mut iolane_transaction,
    row: *mut iolane_row,
) -> i32 {
    // SAFETY: C's promise.
    guarded(|| unsafe {
        let (cursor, it) = of_one_store(cursor, transaction)?;
        let row = object_mut(row, "row")?;
        let found = row.fill_by(|row| Ok(cursor.cursor.next_in(&mut it.transaction, row)?));
        found.map(i32::from)
    })
}

/// Goes on with another range of the same index, which has no key in common with those
/// before; of `range` only the bounds and `backward` count. Where rows are locked, a row
/// that another transaction moves meanwhile from one of the ranges to another comes once,
/// in place of the one that was there if it is in a range that has passed. With NULL no
/// range follows: iolane_cursor_next() goes on with rows that have got another primary
/// key meanwhile, and were missed where they are. iolane_cursor_turn() forgets the ranges.
/// Never blocks for long; fails with IOLANE_STORE_ERROR_SCHEMA, _ENDED, _DAMAGED,
/// _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_cursor_go_on(
    cursor: *mut iolane_cursor,
    transaction: *mut iolane_transaction,
    range: *const iolane_range,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let (cursor, it) = of_one_store(cursor, transaction)?;
        let Some(range) = range.as_ref() else {
            cursor.cursor.end_ranges();
            return Ok(());
        };
        let within = bounds(range)?;
        let direction = direction(range.backward);
        let cursor = &mut cursor.cursor;
        cursor.go_on_with(&it.transaction, as_slices(&within), direction)?;
        Ok(())
    })
}

/// Goes on from the row that came last, up to the end of the index; with `backward` =
/// 1 down to its beginning. Before the first row it changes nothing. Never blocks;
/// fails with IOLANE_STORE_ERROR_ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_cursor_turn(
    cursor: *mut iolane_cursor,
    transaction: *mut iolane_transaction,
    backward: i32,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let (cursor, it) = of_one_store(cursor, transaction)?;
        cursor.cursor.turn(&it.transaction, direction(backward));
        Ok(())
    })
}

/// # Safety
/// Both are there, or NULL.
unsafe fn of_one_store<'a>(
    cursor: *mut iolane_cursor,
    transaction: *mut iolane_transaction,
) -> Result<(&'a mut iolane_cursor, &'a mut iolane_transaction), Failure> {
    // SAFETY: the caller's promise.
    let (cursor, it) = unsafe {
        let cursor = object_mut(cursor, "cursor")?;
        (cursor, object_mut(transaction, "transaction")?)
    };
    match Arc::ptr_eq(&cursor._store, &it.store) {
        true => Ok((cursor, it)),
        false => Err(Failure::argument(
            "cursor and transaction are of two stores",
        )),
    }
}

/// Frees it; NULL is allowed. Never blocks for long. For one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_cursor_free(cursor: *mut iolane_cursor) {
    if !cursor.is_null() {
        // SAFETY: C's promise.
        done(|| unsafe { take(cursor, "cursor") }.map(drop));
    }
}

/// How far a transaction has come in many ranges. For one thread at a time.
pub struct iolane_many {
    rows: ManyRows,
    /// Given up after it.
    store: Arc<Store>,
}

const _: () = may_change_threads::<iolane_many>();

/// Prepares to read the rows of many ranges, which come in the order of their keys if each
/// range is one primary key, and otherwise in no order; what is not in memory is read
/// together. The ranges are of one index, that of the first; only their
/// bounds count beside that. To be freed by iolane_many_free(), also after the
/// transaction. Never blocks for long; fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE,
/// _UNKNOWN_INDEX, _SCHEMA, _ENDED, _DAMAGED, _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_many_open(
    transaction: *mut iolane_transaction,
    table: *const c_char,
    ranges: *const iolane_range,
    count: usize,
    many: *mut *mut iolane_many,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        let ranges = slice(ranges, count)?;
        let index = ranges
            .first()
            .map(|range| optional_text(range.index, "index"));
        let within = ManyBounds::of(ranges)?;
        let within: Vec<_> = within.as_slices().collect();
        let table = text(table, "table")?;
        let index = index.transpose()?.flatten();
        let rows = it.transaction.many_ranges(table, index, &within)?;
        let store = Arc::clone(&it.store);
        give(many, iolane_many { rows, store })
    })
}

/// How many pages the calling thread has waited for so far, in all stores. Who reads one row
/// after the other does well to read the rest together (iolane_many_open()) once this grows.
/// Never blocks, and never fails. Thread-safe.
#[unsafe(no_mangle)]
pub extern "C" fn iolane_store_pages_awaited() -> u64 {
    store::pages_awaited()
}

/// Fills `row` with the next row, and `number` with that of its range, from 0. Returns
/// 1, or 0 behind the last. `transaction` is the one that it was made by; between two
/// rows it can do other things. Blocks while pages are read. Fails as
/// iolane_transaction_get(). For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_many_next(
    many: *mut iolane_many,
    transaction: *mut iolane_transaction,
    row: *mut iolane_row,
    number: *mut usize,
) -> i32 {
    // SAFETY: C's promise.
    guarded(|| unsafe {
        let many = object_mut(many, "many")?;
        let it = object_mut(transaction, "transaction")?;
        if !Arc::ptr_eq(&many.store, &it.store) {
            return Err(Failure::argument(
                "ranges and transaction are of two stores",
            ));
        }
        let row = object_mut(row, "row")?;
        let mut of = None;
        let is_there = row.fill_by(|row| {
            of = many.rows.next_in(&mut it.transaction, row)?;
            Ok(of.is_some())
        })?;
        of.map_or(Ok(()), |of| put(number, of))?;
        Ok(i32::from(is_there))
    })
}

/// Frees it; NULL is allowed. Never blocks for long. For one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_many_free(many: *mut iolane_many) {
    if !many.is_null() {
        // SAFETY: C's promise.
        done(|| unsafe { take(many, "many") }.map(drop));
    }
}

/// How many rows a range has, or entries of its index: exact within a leaf, otherwise
/// about. Reads the pages on the way to both ends, which blocks. Fails with
/// IOLANE_STORE_ERROR_UNKNOWN_TABLE, _UNKNOWN_INDEX, _SCHEMA, _DAMAGED, _PAGES,
/// _ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_estimate(
    store: *const iolane_store,
    table: *const c_char,
    range: *const iolane_range,
    rows: *mut u64,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let range = object(range, "range")?;
        let index = optional_text(range.index, "index")?;
        let within = bounds(range)?;
        let store = &object(store, "store")?.0;
        let table = text(table, "table")?;
        put(
            rows,
            store.estimate_range(table, index, as_slices(&within))?,
        )
    })
}

/// How many rows a table has for anybody: those of transactions that have not ended and
/// those that only old views see are counted. One more than `most` is as far as it
/// counts. Reads their pages, which blocks. Fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE,
/// _DAMAGED, _PAGES, _ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_records_up_to(
    store: *const iolane_store,
    table: *const c_char,
    most: u64,
    count: *mut u64,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let store = &object(store, "store")?.0;
        put(count, store.records_up_to(text(table, "table")?, most)?)
    })
}
