//! Sorting records, also more than fit in memory.
//!
//! Records are gathered one behind the other. When they are to leave the memory they
//! become a run: a tree in a tablespace of its own, to which nothing leads, and which
//! is dropped when it is through. Runs are read side by side, each with read-ahead.

use crate::backing::Backing;
use crate::page::slotted::{capacity, footprint};
use crate::policy::Role;
use crate::stream::{BEGIN_EXTENTS, LeafAhead};
use crate::tree::{Cursor, Direction, Tree, TreeError, TreeLoader};
use crate::txn::Error;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Bound;

/// Runs that are read side by side: each takes a few pages of memory. As many become
/// one before there are more.
const RUNS_MAX: usize = 128;
/// Pages of runs are read once and never changed.
const RUN_FILL_PERCENT: u32 = 100;
/// In the tree of a run.
const RUN_OWNER: u64 = 0;

/// Why records are not sorted.
pub(super) enum SortError {
    /// Two have the same key.
    Equal,
    Store(Error),
}

impl<E: Into<Error>> From<E> for SortError {
    fn from(error: E) -> SortError {
        SortError::Store(error.into())
    }
}

/// Where a record is in memory.
#[derive(Clone, Copy)]
struct Place {
    /// The beginning of its key, as a number that compares as it does.
    prefix: u64,
    begin: usize,
    key_bytes: u32,
    value_bytes: u32,
}

/// A tree of its own with sorted records.
struct Run {
    tree: Tree,
}

/// Gathers records and gives them back in the order of their keys.
pub(super) struct Sorter<'s, B: Backing> {
    backing: &'s B,
    name: String,
    bytes: Vec<u8>,
    places: Vec<Place>,
    /// Whether those in memory came in order.
    ascending: bool,
    runs: Vec<Run>,
    /// What all records take in pages.
    footprints: u64,
    made: u32,
}

impl<'s, B: Backing> Sorter<'s, B> {
    /// `name` is for its tablespaces: nothing else has it.
    pub(super) fn new(backing: &'s B, name: String) -> Sorter<'s, B> {
        Sorter {
            backing,
            name,
            bytes: Vec::new(),
            places: Vec::new(),
            ascending: true,
            runs: Vec::new(),
            footprints: 0,
            made: 0,
        }
    }

    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        if self.ascending
            && let Some(last) = self.places.last()
        {
            self.ascending = self.key(last) < key;
        }
        let mut prefix = [0; 8];
        let known = key.len().min(prefix.len());
        prefix[..known].copy_from_slice(&key[..known]);
        self.places.push(Place {
            prefix: u64::from_be_bytes(prefix),
            begin: self.bytes.len(),
            key_bytes: key.len() as u32,
            value_bytes: value.len() as u32,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.footprints += footprint(key.len(), value.len()) as u64;
    }

    fn key(&self, place: &Place) -> &[u8] {
        &self.bytes[place.begin..][..place.key_bytes as usize]
    }

    fn record(&self, place: &Place) -> (&[u8], &[u8]) {
        let bytes = &self.bytes[place.begin..];
        let (key, behind) = bytes.split_at(place.key_bytes as usize);
        (key, &behind[..place.value_bytes as usize])
    }

    /// Bytes of memory that the records take.
    pub(super) fn memory(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<Place>()
    }

    /// Whether all came in order, and are in memory.
    pub(super) fn is_ascending(&self) -> bool {
        self.ascending && self.runs.is_empty()
    }

    /// How many are in memory.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Leaves that all records will take, about.
    pub(super) fn leaves(&self, fill_percent: u32) -> u64 {
        leaves_of(self.backing, self.footprints as f64, fill_percent)
    }

    /// What records take in pages on average, with what belongs to them there.
    pub(super) fn mean_footprint(&self) -> f64 {
        self.footprints as f64 / self.places.len().max(1) as f64
    }

    fn sort(&mut self) {
        if self.ascending {
            return;
        }
        let mut places = std::mem::take(&mut self.places);
        places.sort_unstable_by(|a, b| {
            let by_prefix = a.prefix.cmp(&b.prefix);
            by_prefix.then_with(|| self.key(a).cmp(self.key(b)))
        });
        self.places = places;
    }

    /// Moves what is in memory to the disk.
    pub(super) fn spill(&mut self) -> Result<(), SortError> {
        if self.runs.len() == RUNS_MAX {
            self.unite()?;
        }
        self.sort();
        let expected = leaves_of(
            self.backing,
            self.places
                .iter()
                .map(|it| footprint(it.key_bytes as usize, it.value_bytes as usize))
                .sum::<usize>() as f64,
            RUN_FILL_PERCENT,
        );
        let run = self.new_run()?;
        let filled = self.loader(&run, expected).and_then(|mut loader| {
            for place in &self.places {
                let (key, value) = self.record(place);
                push(&mut loader, key, value)?;
            }
            loader.finish()?;
            Ok(())
        });
        self.runs.push(run);
        filled?;
        self.bytes.clear();
        self.places.clear();
        self.ascending = true;
        Ok(())
    }

    fn new_run(&mut self) -> Result<Run, Error> {
        self.made += 1;
        let space = self
            .backing
            .create_space(&format!("{}-{}", self.name, self.made))?;
        let made = || -> Result<Run, Error> {
            let leaves = self.backing.create_segment(space)?;
            let branches = self.backing.create_segment(space)?;
            let tree = Tree::create(self.backing, leaves, branches, RUN_OWNER)?;
            Ok(Run { tree })
        };
        made().inspect_err(|_| drop(self.backing.drop_space(space)))
    }

    fn loader(&self, run: &Run, expected: u64) -> Result<TreeLoader<'s, B>, SortError> {
        let leaves = self.backing.new_pages(run.tree.leaf_segment, expected)?;
        Ok(run.tree.loader(self.backing, RUN_FILL_PERCENT, leaves)?)
    }

    /// Makes one run of all.
    fn unite(&mut self) -> Result<(), SortError> {
        let run = self.new_run()?;
        let mut loader = self.loader(&run, 0)?;
        let mut merged = Merged::new(self.backing, &self.runs)?;
        let mut filled = Ok(());
        while filled.is_ok()
            && let Some((key, value)) = merged.next()?
        {
            filled = push(&mut loader, &key, &value);
        }
        if filled.is_ok() {
            loader.finish()?;
        }
        self.drop_runs();
        self.runs.push(run);
        filled
    }

    /// Calls `with` with all records in their order.
    pub(super) fn drain(
        mut self,
        mut with: impl FnMut(&[u8], &[u8]) -> Result<(), SortError>,
    ) -> Result<(), SortError> {
        if self.runs.is_empty() {
            self.sort();
            return self.places.iter().try_for_each(|place| {
                let (key, value) = self.record(place);
                with(key, value)
            });
        }
        if !self.places.is_empty() {
            self.spill()?;
        }
        (self.bytes, self.places) = Default::default();
        let mut merged = Merged::new(self.backing, &self.runs)?;
        while let Some((key, value)) = merged.next()? {
            with(&key, &value)?;
        }
        Ok(())
    }

    /// What cannot be dropped now is when the store is opened next.
    fn drop_runs(&mut self) {
        for run in self.runs.drain(..) {
            let _ = self.backing.drop_space(run.tree.root.space);
        }
    }
}

impl<B: Backing> Drop for Sorter<'_, B> {
    fn drop(&mut self) {
        self.drop_runs();
    }
}

fn push<B: Backing>(
    loader: &mut TreeLoader<'_, B>,
    key: &[u8],
    value: &[u8],
) -> Result<(), SortError> {
    match loader.push(key, value) {
        Err(TreeError::Unsorted { .. }) => Err(SortError::Equal),
        pushed => Ok(pushed?),
    }
}

/// Leaves that records of `bytes` with their slots will take, about.
pub(super) fn leaves_of<B: Backing>(backing: &B, bytes: f64, fill_percent: u32) -> u64 {
    let fill_bytes = capacity(backing.page_bytes()) * fill_percent as usize / 100;
    // What the last record of a page leaves free, and branches.
    let allowance = 1.0 + 1.0 / 64.0;
    (bytes / fill_bytes as f64 * allowance).ceil() as u64
}

type Record = (Vec<u8>, Vec<u8>);
/// Key, value, and which run they are of.
type OfRun = (Vec<u8>, Vec<u8>, usize);

/// The records of runs in one order.
struct Merged<'s, B: Backing> {
    backing: &'s B,
    sources: Vec<(Cursor, LeafAhead<'s, B>)>,
    /// The next record of each, and whose it is.
    next: BinaryHeap<Reverse<OfRun>>,
}

impl<'s, B: Backing> Merged<'s, B> {
    fn new(backing: &'s B, runs: &[Run]) -> Result<Merged<'s, B>, SortError> {
        let whole = |run: &Run| {
            let all = (Bound::Unbounded, Bound::Unbounded);
            let cursor = run.tree.cursor(all.0, all.1, Direction::Forward);
            (cursor, LeafAhead::new(backing, Role::Scan, BEGIN_EXTENTS))
        };
        let mut merged = Merged {
            backing,
            sources: runs.iter().map(whole).collect(),
            next: BinaryHeap::new(),
        };
        for source in 0..runs.len() {
            if let Some((key, value)) = merged.take(source)? {
                merged.next.push(Reverse((key, value, source)));
            }
        }
        Ok(merged)
    }

    fn take(&mut self, source: usize) -> Result<Option<Record>, SortError> {
        let (cursor, ahead) = &mut self.sources[source];
        let next = cursor.next_watched(self.backing, ahead)?;
        Ok(next.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    fn next(&mut self) -> Result<Option<Record>, SortError> {
        let Some(Reverse((_, _, source))) = self.next.peek() else {
            return Ok(None);
        };
        let source = *source;
        let following = self.take(source)?;
        let mut top = self.next.peek_mut().expect("looked at above");
        let Reverse((key, value, _)) = match following {
            Some((key, value)) => std::mem::replace(&mut *top, Reverse((key, value, source))),
            None => PeekMut::pop(top),
        };
        Ok(Some((key, value)))
    }
}
