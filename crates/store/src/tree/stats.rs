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

impl Tree {
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
        let leaf_pages = self.count_level(pages, 0, |leaf| sample.offer(leaf))?;
        let (mut looked_at, mut records, mut used) = (0u64, 0u64, 0u64);
        for leaf in sample.leaves {
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
struct Sample {
    leaves: Vec<PageId>,
    step: usize,
    offered: usize,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample {
            leaves: Vec::new(),
            step: 1,
            offered: 0,
        }
    }
}

impl Sample {
    fn offer(&mut self, leaf: PageId) {
        if self.offered.is_multiple_of(self.step) {
            self.leaves.push(leaf);
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
}
