//! Rows that the entries of a secondary index lead to, read ahead.
//!
//! The entries that come next are collected, the leaves of their rows found
//! from the branches of the table, and read in batches. The rows come in the
//! order of the index all the same.

use super::{BEGIN_ROWS, LeafAhead, More, Next, PageStream, Source, UNNAMED_MAX};
use crate::access::Pages;
use crate::attempt::Interrupt;
use crate::ids::PageId;
use crate::page::slotted::Slotted;
use crate::policy::{IndexReadAhead, Role};
use crate::table::Table;
use crate::tree::{Cursor, Leaves, Watch};
use crate::txn::{Error, Unsettled};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// Entries collected at a time.
const CHUNK: usize = 16;
/// Entries that wait for their rows, at most: many may share a leaf.
const ENTRIES_MAX: usize = 4096;

/// An entry of a secondary index.
pub(crate) struct Entry {
    /// Its columns, then the key of its row.
    pub(crate) bytes: Vec<u8>,
    /// Where that key begins.
    pub(crate) key_at: usize,
    /// Leaf in which the row was to be found when it was looked for.
    leaf: Option<PageId>,
    /// That leaf was named, and counts this entry.
    is_named: bool,
    /// Its row had no change that was not settled: it is true for whoever asked.
    pub(crate) is_settled: bool,
}

struct EntrySource<'p, P> {
    pages: &'p P,
    table: Arc<Table>,
    index: usize,
    cursor: Cursor,
    leaves: LeafAhead<'p, P>,
    /// Collected, the next one first.
    entries: VecDeque<Entry>,
    /// Of these, the leaves of the first so many have been named. They are named
    /// in the order of the entries: pages that are needed later would take the
    /// places of those that are needed now, which their reader then reads one
    /// by one.
    named: usize,
    /// How many entries of which leaf are named, and not done with.
    wanted: HashMap<PageId, u32>,
    /// The branch that the first of the others waits for.
    stuck_at: Option<PageId>,
    /// The leaf of the index that collecting has stopped at.
    stopped_at: Option<PageId>,
    /// What collecting has met; told when all before it is used up.
    failed: Option<Error>,
    /// Says which rows are settled, for whoever needs no more than their entries.
    judge: Option<&'p Unsettled>,
    /// Which of the entries that the cursor has copied of a leaf are of such rows.
    settled: Vec<bool>,
}

/// Looks at the entries that a cursor copies, while it holds the latch of their leaf.
struct Judging<'a, 'p, P> {
    leaves: &'a mut LeafAhead<'p, P>,
    judge: Option<&'p Unsettled>,
    table: &'a Table,
    index: usize,
    settled: &'a mut Vec<bool>,
}

impl<P: Pages> Watch for Judging<'_, '_, P> {
    fn waits_for(&mut self, page: PageId, rest: impl FnOnce() -> Leaves) {
        self.leaves.waits_for(page, rest);
    }

    fn copied(&mut self, slots: Slotted<'_>, range: Range<usize>) {
        self.settled.clear();
        let Some(judge) = self.judge else { return };
        self.settled.extend(range.map(|slot| {
            let entry = slots.key(slot);
            let key_at = self
                .table
                .split_entry(&self.table.indexes[self.index], entry);
            key_at.is_ok_and(|at| judge.is_settled(self.table.id, &entry[at..]))
        }));
    }

    fn came_to(&mut self, leaf: PageId) {
        self.leaves.came_to(leaf);
    }
}

impl<'p, P: Pages> EntrySource<'p, P> {
    fn entry(table: &Table, index: usize, bytes: &[u8]) -> Result<Entry, Error> {
        let key_at = table.split_entry(&table.indexes[index], bytes)?;
        Ok(Entry {
            bytes: bytes.to_vec(),
            key_at,
            leaf: None,
            is_named: false,
            is_settled: false,
        })
    }

    fn watched(&mut self) -> (&mut Cursor, Judging<'_, 'p, P>) {
        let judging = Judging {
            leaves: &mut self.leaves,
            judge: self.judge,
            table: &self.table,
            index: self.index,
            settled: &mut self.settled,
        };
        (&mut self.cursor, judging)
    }

    /// The entry that the cursor has given last.
    fn judged(&self, mut entry: Entry) -> Entry {
        let is_settled = self.settled.get(self.cursor.taken());
        entry.is_settled = is_settled.copied().unwrap_or(false);
        entry
    }

    /// The next entry, waiting for its leaf.
    fn wait_next(&mut self) -> Result<Option<Entry>, Error> {
        let pages = self.pages;
        let (cursor, mut judging) = self.watched();
        let found = cursor.next_watched(pages, &mut judging)?;
        let entry = found.map(|(bytes, _)| Self::entry(judging.table, judging.index, bytes));
        let entry = entry.transpose()?;
        Ok(entry.map(|entry| self.judged(entry)))
    }

    /// Collects an entry if that needs no wait. `false`: not now.
    fn collect(&mut self, next: &mut Next) -> bool {
        let pages = self.pages;
        let (cursor, mut judging) = self.watched();
        let stopped = match cursor.try_next(pages, &mut judging) {
            Ok(Some((bytes, _))) => match Self::entry(judging.table, judging.index, bytes) {
                Ok(entry) => {
                    let entry = self.judged(entry);
                    self.entries.push_back(entry);
                    return true;
                }
                Err(error) => Some(error),
            },
            Ok(None) => None,
            Err(Interrupt::Miss(miss)) => {
                if self.stopped_at != Some(miss.0) {
                    self.stopped_at = Some(miss.0);
                    self.cursor.waits_for(miss.0, &mut self.leaves);
                }
                next.branches.push(miss.0);
                return false;
            }
            Err(Interrupt::Error(error)) => Some(error.into()),
        };
        self.failed = stopped;
        false
    }

    /// Finds the leaf of an entry. Returns the branch that is missing for it.
    fn find_leaf(&mut self, at: usize, next: &mut Next) -> Option<PageId> {
        let entry = &mut self.entries[at];
        if entry.leaf.is_some() || entry.is_settled {
            return None;
        }
        let key = &entry.bytes[entry.key_at..];
        match self.table.rows.leaf_number(self.pages, key) {
            Ok(leaf) => entry.leaf = Some(leaf),
            Err(Interrupt::Miss(miss)) => {
                next.needs(miss.0);
                return Some(miss.0);
            }
            // Whoever reads the row is told.
            Err(Interrupt::Error(_)) => {}
        }
        None
    }

    /// Names leaves up to the first entry whose branch is missing.
    fn name(&mut self, next: &mut Next) {
        let before = self.stuck_at.take();
        while self.named < self.entries.len() {
            self.stuck_at = self.find_leaf(self.named, next);
            if self.stuck_at.is_some() {
                break;
            }
            let entry = &mut self.entries[self.named];
            self.named += 1;
            if let Some(leaf) = entry.leaf {
                entry.is_named = true;
                let wanted = self.wanted.entry(leaf).or_default();
                *wanted += 1;
                if *wanted == 1 {
                    next.pages.push(leaf);
                }
            }
        }
        if before.is_some() && self.stuck_at.is_some() && self.stuck_at != before {
            // What came may lead to other branches that the rest needs.
            for at in self.named + 1..self.entries.len() {
                self.find_leaf(at, next);
            }
        }
    }

    /// Collects some more entries. Returns whether there were any.
    fn collect_some(&mut self, next: &mut Next) -> bool {
        for count in 0..CHUNK {
            let is_enough =
                self.entries.len() >= ENTRIES_MAX || self.entries.len() >= self.named + UNNAMED_MAX;
            if self.failed.is_some() || is_enough || !self.collect(next) {
                return count > 0;
            }
            if self.stuck_at.is_some() {
                // It waits for its turn, but not its branch.
                self.find_leaf(self.entries.len() - 1, next);
            } else {
                self.name(next);
            }
        }
        true
    }

    /// The next of those collected.
    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.named = self.named.saturating_sub(1);
        Some(entry)
    }
}

impl<P: Pages> Source for EntrySource<'_, P> {
    fn more(&mut self, next: &mut Next, _ahead: usize) -> More {
        self.name(next);
        match self.collect_some(next) || !next.pages.is_empty() {
            true => More::Found,
            // Its consumer tells when there is no more.
            false => More::NotNow,
        }
    }
}

/// The entries of a range of a secondary index, and reading ahead of the one
/// who goes through them.
pub(crate) struct EntryRows<'p, P> {
    /// Empty while it changes from the first to the second.
    state: State<'p, P>,
    may_begin: bool,
    role: Role,
}

enum State<'p, P> {
    Alone(EntrySource<'p, P>),
    Ahead(PageStream<'p, EntrySource<'p, P>>),
    Changing,
}

impl<'p, P: Pages> EntryRows<'p, P> {
    /// The entries that `cursor` comes to, of a table's index; what is read ahead
    /// is read for `role`.
    pub(crate) fn new(
        pages: &'p P,
        table: Arc<Table>,
        index: usize,
        cursor: Cursor,
        role: Role,
    ) -> Self {
        let batches = |policy| policy == IndexReadAhead::Batches;
        let leaves = match role {
            Role::Index => Role::Scan,
            other => other,
        };
        EntryRows {
            role,
            may_begin: pages
                .read_ahead()
                .is_some_and(|ahead| batches(ahead.policy().index)),
            state: State::Alone(EntrySource {
                pages,
                table,
                index,
                cursor,
                leaves: LeafAhead::of_entries(pages, leaves),
                entries: VecDeque::new(),
                named: 0,
                wanted: HashMap::new(),
                stuck_at: None,
                stopped_at: None,
                failed: None,
                judge: None,
                settled: Vec::new(),
            }),
        }
    }

    /// From here on entries are judged, which is right for one view; or not any more.
    pub(crate) fn judge_by(&mut self, judge: Option<&'p Unsettled>) {
        let source = match &mut self.state {
            State::Alone(source) => source,
            State::Ahead(stream) => &mut stream.source,
            State::Changing => return,
        };
        source.judge = judge;
        source.settled.clear();
        for entry in &mut source.entries {
            entry.is_settled = false;
        }
    }

    /// The next entry. Waits for it if need be.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, Error> {
        let source = match &mut self.state {
            State::Alone(source) => source,
            State::Ahead(stream) => &mut stream.source,
            State::Changing => return Ok(None),
        };
        if let Some(entry) = source.pop() {
            return Ok(Some(entry));
        }
        match source.failed.take() {
            Some(error) => Err(error),
            None => source.wait_next(),
        }
    }

    /// Its row makes the caller wait for a page.
    pub(crate) fn waits_for(&mut self, page: PageId) {
        if self.may_begin && matches!(self.state, State::Alone(_)) {
            self.begin();
        }
        if let State::Ahead(stream) = &mut self.state {
            stream.waits_for(page);
        }
    }

    fn begin(&mut self) {
        self.state = match std::mem::replace(&mut self.state, State::Changing) {
            State::Alone(source) => match source.pages.read_ahead() {
                Some(ahead) => State::Ahead(PageStream::new(ahead, self.role, BEGIN_ROWS, source)),
                None => State::Alone(source),
            },
            other => other,
        };
    }

    /// The row of an entry has been read.
    pub(crate) fn is_through_with(&mut self, entry: &Entry) {
        let State::Ahead(stream) = &mut self.state else {
            return;
        };
        let named = entry.leaf.filter(|_| entry.is_named);
        let Some(leaf) = named else {
            stream.passed();
            return;
        };
        if let Some(wanted) = stream.source.wanted.get_mut(&leaf) {
            *wanted -= 1;
            if *wanted == 0 {
                stream.source.wanted.remove(&leaf);
                stream.is_through_with(leaf);
                return;
            }
        }
        stream.passed();
    }
}
