//! What a tree takes.

use super::{Tree, TreeError, until_loaded};
use crate::access::Pages;
use crate::ids::PageId;
use crate::page::header;
use crate::page::slotted::{Slotted, capacity};

/// Leaves looked at for the estimates: between this and twice as many, spread
/// evenly over the tree.
const SAMPLE_LEAVES: usize = 16;

/// Size of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeStats {
    /// Levels: 1 while the root is a leaf.
    pub height: u32,
    /// Pages that are branches, the root included if it is one.
    pub branch_pages: u64,
    /// Pages that are leaves.
    pub leaf_pages: u64,
    /// Records, estimated from some leaves; exact up to sixteen.
    pub records_estimate: u64,
    /// How full those leaves are, 0 to 1.
    pub leaf_fill: f64,
}

/// A place between records.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SpotAim<'k> {
    First,
    Before(&'k [u8]),
    Behind(&'k [u8]),
    Last,
}

/// Where such a place is, as the pages on the way to it say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// The share of the tree that is before it.
    share: f64,
    /// Leaves that the tree has, if all branches were like those on the way.
    leaves: f64,
    leaf: PageId,
    /// How many of its leaf's records are before it, and how many that has.
    before: usize,
    records: usize,
    /// Its leaf is the tree's last, and like it the branches above it mostly have
    /// fewer children than others.
    is_last: bool,
}

impl Spot {
    /// Records from here to a place behind: exact within a leaf.
    pub(crate) fn records_to(&self, to: &Spot) -> u64 {
        if self.leaf == to.leaf {
            return to.before.saturating_sub(self.before) as u64;
        }
        let (per_leaf, leaves) = match to.is_last {
            true => (self.records as f64, self.leaves),
            false => (
                (self.records + to.records) as f64 / 2.0,
                (self.leaves + to.leaves) / 2.0,
            ),
        };
        let between = (to.share - self.share) * leaves * per_leaf;
        between.round().max(1.0) as u64
    }
}

impl Tree {
    /// Finds a place by reading the pages from the root to its leaf.
    ///
    /// # Errors
    /// [`TreeError::Pages`], [`TreeError::Damaged`].
    pub(crate) fn spot<P: Pages>(&self, pages: &P, aim: SpotAim<'_>) -> Result<Spot, TreeError> {
        until_loaded(pages, || {
            let mut id = self.root;
            let mut page = pages.shared(id)?;
            self.expect(&page, id, None)?;
            let (mut share, mut part, mut is_last) = (0.0, 1.0, true);
            loop {
                let slots = Slotted::new(&page);
                let (count, level) = (slots.count(), header::level(&page));
                if level == 0 {
                    let before = match aim {
                        SpotAim::First => 0,
                        SpotAim::Last => count,
                        SpotAim::Before(key) => slots.search(key).unwrap_or_else(|slot| slot),
                        SpotAim::Behind(key) => match slots.search(key) {
                            Ok(slot) => slot + 1,
                            Err(slot) => slot,
                        },
                    };
                    return Ok(Spot {
                        share: share + part * before as f64 / count.max(1) as f64,
                        leaves: 1.0 / part,
                        leaf: id,
                        before,
                        records: count,
                        is_last,
                    });
                }
                let child = match aim {
                    SpotAim::First => 0,
                    SpotAim::Last => count - 1,
                    SpotAim::Before(key) | SpotAim::Behind(key) => slots.child_slot_at(key),
                };
                is_last &= child + 1 == count;
                part /= count as f64;
                share += part * child as f64;
                id = slots.child(child);
                let below = pages.shared(id)?;
                self.expect(&below, id, Some(level - 1))?;
                page = below;
            }
        })
    }

    /// Counts pages by reading all branches, and estimates the rest by reading
    /// up to 32 leaves. Waits for pages that are missing. While others change
    /// the tree the numbers are of no single moment.
    ///
    /// # Errors
    /// [`TreeError::Pages`], [`TreeError::Damaged`].
    pub fn stats<P: Pages>(&self, pages: &P) -> Result<TreeStats, TreeError> {
        let root_level = until_loaded(pages, || {
            let root = pages.shared(self.root)?;
            self.expect(&root, self.root, None)?;
            Ok(header::level(&root))
        })?;
        let mut branch_pages = u64::from(root_level > 0);
        for level in 1..root_level {
            branch_pages += self.count_level(pages, level, |_| {})?;
        }
        let mut sample = Sample::default();
        let leaf_pages = self.count_level(pages, 0, |leaf| sample.offer(|| leaf))?;
        // In parallel: on a disk far away that is most of the time.
        if let Some(ahead) = pages.read_ahead() {
            ahead.begin(sample.taken());
        }
        let (mut looked_at, mut records, mut used) = (0u64, 0u64, 0u64);
        for &leaf in sample.taken() {
            let found = until_loaded(pages, || {
                let page = pages.shared(leaf)?;
                // It may have been given back since.
                let same = self.expect(&page, leaf, Some(0)).is_ok() || leaf == self.root;
                let slots = Slotted::new(&page);
                Ok(same.then(|| (slots.count() as u64, slots.used_bytes() as u64)))
            })?;
            let Some((page_records, page_used)) = found else {
                continue;
            };
            looked_at += 1;
            records += page_records;
            used += page_used;
        }
        let looked_at = looked_at.max(1);
        Ok(TreeStats {
            height: u32::from(root_level) + 1,
            branch_pages,
            leaf_pages,
            records_estimate: records * leaf_pages / looked_at,
            leaf_fill: used as f64 / (looked_at * capacity(pages.page_bytes()) as u64) as f64,
        })
    }

    fn count_level<P: Pages>(
        &self,
        pages: &P,
        level: u8,
        mut each: impl FnMut(PageId),
    ) -> Result<u64, TreeError> {
        let mut walk = self.pages_of_level(level);
        let (mut children, mut count) = (Vec::new(), 0);
        while walk.next(pages, &mut children)? {
            count += children.len() as u64;
            children.drain(..).for_each(&mut each);
        }
        Ok(count)
    }
}

/// Every so many-th of the leaves offered: the step doubles when there are too
/// many.
pub(super) struct Sample<T> {
    leaves: Vec<T>,
    step: usize,
    offered: usize,
}

impl<T> Default for Sample<T> {
    fn default() -> Sample<T> {
        Sample {
            leaves: Vec::new(),
            step: 1,
            offered: 0,
        }
    }
}

impl<T> Sample<T> {
    /// Calls `leaf` only if it is taken.
    pub(super) fn offer(&mut self, leaf: impl FnOnce() -> T) {
        if self.offered.is_multiple_of(self.step) {
            self.leaves.push(leaf());
        }
        self.offered += 1;
        if self.leaves.len() == 2 * SAMPLE_LEAVES {
            let mut keep = false;
            self.leaves.retain(|_| {
                keep = !keep;
                keep
            });
            self.step *= 2;
        }
    }

    /// Those that were taken: all, if there were fewer than 32.
    pub(super) fn taken(&self) -> &[T] {
        &self.leaves
    }

    /// How many were offered.
    pub(super) fn offered(&self) -> usize {
        self.offered
    }
}
