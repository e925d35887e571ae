//! How many different beginnings the keys of a tree have, from some leaves.
//!
//! The separators of all leaves are looked at: they say in which leaves a part of the
//! keys may change. How often it changes there is counted in some of these, which are
//! spread evenly over them. So a value that goes over many leaves costs no precision,
//! and values that are found in few of the leaves are not missed.

use super::descend::{Aim, Fences};
use super::stats::Sample;
use super::{Tree, TreeError, until_loaded};
use crate::access::Pages;
use crate::ids::PageId;
use crate::page::header;
use crate::page::slotted::Slotted;
use std::collections::{BTreeSet, HashMap};

/// So many leaves in which a part changes are enough to say how often it does in others.
const CHANGED_LEAVES_MIN: usize = 8;

/// Tells of two keys, of which the first may be cut short and is not above the second, or
/// the second may be cut short and is above the first, how many parts they have in common
/// for certain.
pub(crate) type Common<'f> = &'f mut dyn FnMut(&[u8], &[u8]) -> usize;

/// See [`Tree::distinct`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Distinct {
    /// Records of the tree, about.
    pub(crate) records: u64,
    /// Different values of the first part, of the first two, and so on.
    pub(crate) values: Vec<u64>,
}

/// A leaf as the branch above it shows it.
#[derive(Clone)]
struct Seen {
    leaf: PageId,
    /// The separator behind it.
    end: Option<Vec<u8>>,
    /// So many parts are the same in all of its records.
    common: usize,
}

/// What a leaf has.
#[derive(Clone, Default)]
struct Counted {
    records: u64,
    /// At how many records each part differs from the record before, that of the next
    /// leaf included.
    changes: Vec<u64>,
}

/// Leaves that are looked at: some of all, and of each number of parts some of those in
/// which these change.
struct Candidates {
    all: Sample<Seen>,
    changing: Vec<Sample<Seen>>,
}

impl Candidates {
    fn offer(&mut self, leaf: PageId, common: usize, end: Option<&[u8]>) {
        let seen = || Seen {
            leaf,
            end: end.map(<[u8]>::to_vec),
            common,
        };
        self.all.offer(seen);
        for sample in self.changing.iter_mut().skip(common) {
            sample.offer(seen);
        }
    }
}

impl Tree {
    /// Estimates how many different values the first part of the keys has, the first two
    /// parts, and so on, and reads all branches for that, and up to 32 leaves for each
    /// number of parts, mostly the same. Exact where there are fewer than 32 leaves.
    ///
    /// # Errors
    /// [`TreeError::Pages`], [`TreeError::Damaged`].
    pub(crate) fn distinct<P: Pages>(
        &self,
        pages: &P,
        parts: usize,
        common: Common<'_>,
    ) -> Result<Distinct, TreeError> {
        let candidates = self.candidates(pages, parts, common)?;
        // Of each number of parts, the leaves in which they change: enough of all, or others.
        let mut samples = Vec::with_capacity(parts);
        let mut from = &candidates.all;
        for part in (0..parts).rev() {
            let changing = from.taken().iter().filter(|seen| seen.common <= part);
            if changing.count() < CHANGED_LEAVES_MIN {
                from = &candidates.changing[part];
            }
            samples.push(from.taken().iter().filter(move |seen| seen.common <= part));
        }
        samples.reverse();
        // In parallel: on a disk far away that is most of the time.
        if let Some(ahead) = pages.read_ahead() {
            let leaves = candidates.all.taken().iter();
            let leaves = leaves.chain(samples.iter().cloned().flatten());
            let leaves: BTreeSet<PageId> = leaves.map(|seen| seen.leaf).collect();
            ahead.begin(&Vec::from_iter(leaves));
        }
        let mut counted: HashMap<PageId, Option<Counted>> = HashMap::new();
        let mut count = |seen: &Seen| -> Result<Option<Counted>, TreeError> {
            if let Some(known) = counted.get(&seen.leaf) {
                return Ok(known.clone());
            }
            let found = self.count_changes(pages, seen, parts, common)?;
            counted.insert(seen.leaf, found.clone());
            Ok(found)
        };
        let (mut looked_at, mut records) = (0u64, 0u64);
        for seen in candidates.all.taken() {
            if let Some(found) = count(seen)? {
                looked_at += 1;
                records += found.records;
            }
        }
        let records = records * candidates.all.offered() as u64 / looked_at.max(1);
        let mut values = vec![0; parts];
        for (part, sample) in samples.into_iter().enumerate() {
            let (mut leaves, mut changes) = (0u64, 0u64);
            for seen in sample {
                if let Some(found) = count(seen)? {
                    leaves += 1;
                    changes += found.changes[part];
                }
            }
            let per_leaf = changes as f64 / leaves.max(1) as f64;
            let changing = candidates.changing[part].offered();
            values[part] = 1 + (per_leaf * changing as f64).round() as u64;
        }
        // More parts have no fewer values.
        let mut least = 0;
        for value in &mut values {
            *value = (*value).max(least).min(records);
            least = *value;
        }
        Ok(Distinct { records, values })
    }

    /// Reads all branches above the leaves.
    fn candidates<P: Pages>(
        &self,
        pages: &P,
        parts: usize,
        common: Common<'_>,
    ) -> Result<Candidates, TreeError> {
        let mut found = Candidates {
            all: Sample::default(),
            changing: (0..parts).map(|_| Sample::default()).collect(),
        };
        let mut fences = Fences::default();
        let (mut copy, mut begin) = (Vec::new(), Vec::new());
        // The leaf before, and the separator before it.
        let mut last: Option<(PageId, Vec<u8>)> = None;
        loop {
            let level = until_loaded(pages, || {
                fences.reset();
                let (branch, _) = self.shared_at(pages, Aim::At(&begin), 1, |slots, slot| {
                    fences.narrow(slots, slot);
                })?;
                copy.clear();
                copy.extend_from_slice(&branch);
                Ok(header::level(&branch))
            })?;
            if level == 0 {
                // The root is the only leaf.
                found.offer(self.root, 0, None);
                return Ok(found);
            }
            let slots = Slotted::new(&copy);
            for slot in 0..slots.count() {
                let separator = match slot {
                    0 => &fences.lower[..],
                    _ => slots.key(slot),
                };
                if let Some((leaf, before)) = &mut last {
                    let same = common(before, separator).min(parts);
                    found.offer(*leaf, same, Some(separator));
                    *leaf = slots.child(slot);
                    before.clear();
                    before.extend_from_slice(separator);
                } else {
                    last = Some((slots.child(slot), separator.to_vec()));
                }
            }
            match fences.upper() {
                Some(end) if *end > begin[..] => {
                    begin.clear();
                    begin.extend_from_slice(end);
                }
                _ => break,
            }
        }
        if let Some((leaf, _)) = last {
            // Nothing tells what its last record is.
            found.offer(leaf, 0, None);
        }
        Ok(found)
    }

    /// `None`: it has been given back since.
    fn count_changes<P: Pages>(
        &self,
        pages: &P,
        seen: &Seen,
        parts: usize,
        common: Common<'_>,
    ) -> Result<Option<Counted>, TreeError> {
        let mut copy = Vec::new();
        let is_there = until_loaded(pages, || {
            let page = pages.shared(seen.leaf)?;
            copy.clear();
            copy.extend_from_slice(&page);
            Ok(self.expect(&page, seen.leaf, Some(0)).is_ok())
        })?;
        if !is_there {
            return Ok(None);
        }
        let slots = Slotted::new(&copy);
        let mut found = Counted {
            records: slots.count() as u64,
            changes: vec![0; parts],
        };
        let keys = (0..slots.count()).map(|slot| slots.key(slot));
        let behind = keys.clone().skip(1).chain(seen.end.as_deref());
        for (key, next) in keys.zip(behind) {
            for changes in found.changes.iter_mut().skip(common(key, next)) {
                *changes += 1;
            }
        }
        Ok(Some(found))
    }
}
