//! The rows of many ranges, read together.

use super::range::{KeyBound, encode_bounds, first_key};
use super::{Error, Transaction};
use crate::access::Pages;
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::ids::PageId;
use crate::policy::Role;
use crate::stream::{KeysAhead, in_range};
use crate::table::Table;
use crate::tree::{Cursor, Direction, Leaves, Tree, Watch, as_slice};
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

/// Rows that are looked for together at first: of a query that wants a few, no more are read.
const ROWS_BEGIN: usize = 64;
/// And in the end: at the end of each such part the device has less and less to do.
const ROWS_MAX: usize = 16_384;

/// Bytes of entries that are kept until their rows are read.
const FOUND_BYTES_MAX: usize = 4 << 20;
/// Bytes of rows that are kept until they are asked for, about.
const ROWS_BYTES_MAX: usize = 4 << 20;

/// Where a range begins and ends.
type Bounds<'v> = (Bound<&'v [Value]>, Bound<&'v [Value]>);

/// A range that is left, and its number.
struct Left {
    number: usize,
    /// The first bytes of where it is looked for, which mostly decide the order without a way
    /// to another place in memory.
    head: u64,
    lower: KeyBound,
    /// `None`: it is one primary key, which need not be looked for before its row is.
    upper: Option<KeyBound>,
}

/// What was found in a range: the columns that the index had, and the key of the row.
struct Found {
    number: usize,
    columns: Vec<u8>,
    key: Vec<u8>,
}

/// What is found at a time.
struct Batch {
    found: Vec<Found>,
    bytes: usize,
    rows_max: usize,
}

impl Batch {
    fn of(rows_max: usize) -> Batch {
        Batch {
            found: Vec::with_capacity(rows_max),
            bytes: 0,
            rows_max,
        }
    }

    fn add(&mut self, found: Found) {
        self.bytes += found.columns.len() + found.key.len();
        self.found.push(found);
    }

    fn is_full(&self) -> bool {
        self.found.len() >= self.rows_max || self.bytes >= FOUND_BYTES_MAX
    }
}

/// The rows of many ranges, as a transaction sees them. It can do other things between two
/// of them.
pub struct ManyRows {
    table: Arc<Table>,
    /// The index of the ranges; `None`: the primary key.
    index: Option<usize>,
    /// Ascending by their lower bounds.
    left: VecDeque<Left>,
    /// So many rows are looked for together next: twice as many each time.
    at_once: usize,
    /// The range that has been begun.
    begun: Option<(usize, Cursor)>,
    /// Whose rows are to be read next, ascending by their keys.
    found: Vec<Found>,
    rows: VecDeque<(usize, Row)>,
    /// Rows that were given, for the memory of the next ones.
    given: Vec<Row>,
    has_failed: bool,
}

/// A cursor that tells of its waits as those of a key.
struct OfKey<'a, 'p, 'k, P> {
    ahead: &'a mut KeysAhead<'p, 'k, P>,
    at: usize,
}

impl<P: Pages> Watch for OfKey<'_, '_, '_, P> {
    fn waits_for(&mut self, page: PageId, _rest: impl FnOnce() -> Leaves) {
        self.ahead.waits_for(self.at, page);
    }

    fn came_to(&mut self, _leaf: PageId) {}
}

impl<B: Backing> Transaction<'_, B> {
    /// The rows of a table with keys in any of some ranges, or with `index` in ranges of
    /// its columns, each with the number of its range: in the order of the keys if each range
    /// is one primary key, otherwise in no order. What is not in memory is read
    /// together, at first 64 rows and later up to 16,384 at a time, so that many rows take
    /// little longer than one: for joins, whose keys are known before the rows are needed.
    /// 4 MiB of rows are kept until they are asked for.
    ///
    /// ```no_run
    /// # fn show(store: &iolane_store::Store) -> Result<(), iolane_store::Error> {
    /// let mut transaction = store.begin();
    /// # use std::ops::Bound::Included;
    /// let ids = [[17.into()], [4.into()]];
    /// let ranges: Vec<_> = ids.iter().map(|id| (Included(&id[..]), Included(&id[..]))).collect();
    /// let mut rows = transaction.many_ranges("person", Some("by_town"), &ranges)?;
    /// while let Some((number, person)) = rows.next(&mut transaction)? {
    ///     println!("{:?} lives in {:?}", person, ids[number]);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`range`](Self::range) and [`range_by`](Self::range_by).
    pub fn many_ranges(
        &mut self,
        table: &str,
        index: Option<&str>,
        ranges: &[Bounds<'_>],
    ) -> Result<ManyRows, Error> {
        self.check_open()?;
        let table = self.table(table)?;
        let position = index
            .map(|name| table.position_of_index(name))
            .transpose()?;
        let (of, columns) = table.index_columns(position);
        let mut left = Vec::with_capacity(ranges.len());
        for (number, range) in ranges.iter().enumerate() {
            let (lower, upper) = match range {
                (Bound::Included(key), _) if position.is_none() && is_key(columns.len(), range) => {
                    (Bound::Included(table.primary_key(key)?), None)
                }
                _ => {
                    let (lower, upper) = encode_bounds(&table, of, columns, range)?;
                    (lower, Some(upper))
                }
            };
            left.push(Left {
                number,
                head: head_of(first_key(&lower)),
                lower,
                upper,
            });
        }
        left.sort_unstable_by(|a, b| {
            let by_head = a.head.cmp(&b.head);
            by_head.then_with(|| first_key(&a.lower).cmp(first_key(&b.lower)))
        });
        Ok(ManyRows {
            table,
            index: position,
            left: left.into(),
            at_once: ROWS_BEGIN,
            begun: None,
            found: Vec::new(),
            rows: VecDeque::new(),
            given: Vec::new(),
            has_failed: false,
        })
    }
}

/// Whether a range has one key, of so many columns.
fn is_key(columns: usize, range: &Bounds<'_>) -> bool {
    match range {
        (Bound::Included(first), Bound::Included(last)) => first.len() == columns && first == last,
        _ => false,
    }
}

/// The first bytes of a key, as a number in the same order.
fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let length = key.len().min(head.len());
    head[..length].copy_from_slice(&key[..length]);
    u64::from_be_bytes(head)
}

impl ManyRows {
    /// The next row, and the number of its range. After an error there are none.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn next<B: Backing>(
        &mut self,
        transaction: &mut Transaction<'_, B>,
    ) -> Result<Option<(usize, Row)>, Error> {
        let mut row = Row::new();
        let number = self.next_in(transaction, &mut row)?;
        Ok(number.map(|number| (number, row)))
    }

    /// The same in the place of another row, whose memory is used again. Returns the number of
    /// its range.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_in<B: Backing>(
        &mut self,
        transaction: &mut Transaction<'_, B>,
        row: &mut Row,
    ) -> Result<Option<usize>, Error> {
        transaction.check_open()?;
        transaction.look();
        while self.rows.is_empty() && self.is_more() {
            if self.has_failed {
                return Ok(None);
            }
            let read = self.read_some(transaction);
            self.has_failed = read.is_err();
            read?;
        }
        Ok(self.rows.pop_front().map(|(number, next)| {
            self.given.push(std::mem::replace(row, next));
            number
        }))
    }

    fn is_more(&self) -> bool {
        !self.found.is_empty() || self.begun.is_some() || !self.left.is_empty()
    }

    fn tree(&self) -> Tree {
        match self.index {
            None => self.table.rows,
            Some(index) => self.table.indexes[index].tree,
        }
    }

    /// Goes on through the ranges, and reads the rows that they lead to.
    fn read_some<B: Backing>(&mut self, transaction: &Transaction<'_, B>) -> Result<(), Error> {
        let backing = &transaction.system.backing;
        let _acting = transaction.acting();
        let _range = in_range();
        if self.found.is_empty() {
            self.found = self.find_some(transaction, self.at_once)?;
            self.at_once = (2 * self.at_once).min(ROWS_MAX);
            self.found.sort_by(|a, b| a.key.cmp(&b.key));
        }
        let mut found = std::mem::take(&mut self.found);
        let keys = found.iter_mut().map(|it| std::mem::take(&mut it.key));
        let keys: Vec<Vec<u8>> = keys.collect();
        let role = transaction.ahead_as(Role::Index);
        let mut ahead = KeysAhead::new(backing, &self.table.rows, &keys, role);
        let (mut at, mut bytes) = (0, 0);
        while at < found.len() && bytes < ROWS_BYTES_MAX {
            let waits_for = &mut |page| ahead.waits_for(at, page);
            let mut row = self.given.pop().unwrap_or_default();
            let is_there = transaction.put_seen(&self.table, &keys[at], waits_for, &mut row)?;
            ahead.is_through_with(at);
            at += 1;
            if !is_there {
                self.given.push(row);
                continue;
            }
            let Found {
                number, columns, ..
            } = &found[at - 1];
            if let Some(index) = self.index {
                // The entry may be of another version.
                let index = &self.table.indexes[index];
                if self.table.index_key(index, &row)? != *columns {
                    continue;
                }
            }
            bytes += row.iter().map(bytes_of).sum::<usize>();
            self.rows.push_back((*number, row));
        }
        drop(ahead);
        self.found = found.split_off(at);
        for (it, key) in self.found.iter_mut().zip(keys.into_iter().skip(at)) {
            it.key = key;
        }
        Ok(())
    }

    /// Collects so many of what the next ranges have.
    fn find_some<B: Backing>(
        &mut self,
        transaction: &Transaction<'_, B>,
        at_once: usize,
    ) -> Result<Vec<Found>, Error> {
        let backing = &transaction.system.backing;
        let tree = self.tree();
        let mut batch = Batch::of(at_once);
        if let Some((number, mut cursor)) = self.begun.take() {
            while !batch.is_full() {
                let Some((entry, _)) = cursor.next(backing)? else {
                    break;
                };
                batch.add(found_in(&self.table, self.index, number, entry)?);
            }
            if batch.is_full() {
                self.begun = Some((number, cursor));
                return Ok(batch.found);
            }
        }
        // Each has one row perhaps.
        let some: Vec<Left> = self.left.drain(..at_once.min(self.left.len())).collect();
        if some.iter().all(|it| it.upper.is_none()) {
            batch.found.extend(some.into_iter().map(found_by_key));
            return Ok(batch.found);
        }
        let firsts: Vec<Vec<u8>> = some
            .iter()
            .map(|it| first_key(&it.lower).to_vec())
            .collect();
        let role = transaction.ahead_as(Role::Index);
        let mut ahead = KeysAhead::new(backing, &tree, &firsts, role);
        let mut some = some.into_iter().enumerate();
        for (at, range) in &mut some {
            let Some(upper) = &range.upper else {
                batch.add(found_by_key(range));
                ahead.is_through_with(at);
                continue;
            };
            let (lower, upper) = (as_slice(&range.lower), as_slice(upper));
            let mut cursor = tree.cursor(lower, upper, Direction::Forward);
            let mut watch = OfKey {
                ahead: &mut ahead,
                at,
            };
            while let Some((entry, _)) = cursor.next_watched(backing, &mut watch)? {
                batch.add(found_in(&self.table, self.index, range.number, entry)?);
                if batch.is_full() {
                    self.begun = Some((range.number, cursor));
                    break;
                }
            }
            ahead.is_through_with(at);
            if self.begun.is_some() {
                break;
            }
        }
        let rest: Vec<Left> = some.map(|(_, range)| range).collect();
        for range in rest.into_iter().rev() {
            self.left.push_front(range);
        }
        Ok(batch.found)
    }
}

/// A primary key, which its row is read by.
fn found_by_key(range: Left) -> Found {
    Found {
        number: range.number,
        columns: Vec::new(),
        key: match range.lower {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => Vec::new(),
        },
    }
}

/// What a value takes in memory, about.
fn bytes_of(value: &Value) -> usize {
    let more = match value {
        Value::Text(text) => text.len(),
        Value::Blob(bytes) => bytes.len(),
        _ => 0,
    };
    size_of::<Value>() + more
}

fn found_in(
    table: &Table,
    index: Option<usize>,
    number: usize,
    entry: &[u8],
) -> Result<Found, Error> {
    let key_at = match index {
        None => 0,
        Some(index) => table.split_entry(&table.indexes[index], entry)?,
    };
    let (columns, key) = entry.split_at(key_at);
    Ok(Found {
        number,
        columns: columns.to_vec(),
        key: key.to_vec(),
    })
}
