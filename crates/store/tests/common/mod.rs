//! What the tests of trees share.
#![allow(dead_code)]

use iolane_store::access::memory::{MemoryOptions, MemoryPages};
use iolane_store::tree::{CheckReport, Direction, Tree};
use std::collections::BTreeSet;
use std::ops::Bound;

/// Pages of the least size, of which none misses.
pub const SMALL: MemoryOptions = MemoryOptions {
    page_bytes: 4096,
    pages_max: 1000,
    miss_one_in: 0,
    seed: 1,
    log: false,
};

pub struct Fixture {
    pub pages: MemoryPages,
    pub tree: Tree,
}

impl Fixture {
    pub fn new(options: MemoryOptions) -> Fixture {
        let pages = MemoryPages::new(options);
        let (leaves, branches) = (MemoryPages::segment(1), MemoryPages::segment(2));
        let tree = Tree::create(&pages, leaves, branches, 42).unwrap();
        Fixture { pages, tree }
    }

    /// All records, in order.
    pub fn records(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.records_in(&self.pages)
    }

    /// All records that the tree has in `pages`.
    pub fn records_in(&self, pages: &MemoryPages) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut cursor = self
            .tree
            .cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let mut records = Vec::new();
        while let Some((key, value)) = cursor.next(pages).unwrap() {
            records.push((key.to_vec(), value.to_vec()));
        }
        records
    }

    /// The check finds nothing, and all pages of both segments.
    pub fn assert_in_order(&self) -> CheckReport {
        let report = self.tree.check(&self.pages).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let set = |pages: &[u32]| pages.iter().copied().collect::<BTreeSet<u32>>();
        let segments = [self.tree.leaf_segment, self.tree.branch_segment];
        for (segment, seen) in segments
            .into_iter()
            .zip([&report.leaf_pages, &report.branch_pages])
        {
            assert_eq!(self.pages.pages_of(segment), set(seen));
        }
        report
    }

    /// Redo makes the same pages, to the byte.
    pub fn assert_replayed(&self) {
        let end = self.pages.lsns().last().copied().unwrap();
        for (page, bytes) in self.pages.replayed(end) {
            // The checksum is made as a page is written.
            assert!(self.pages.bytes(page)[4..] == bytes[4..], "page {page}");
        }
    }
}

/// xorshift64 (Marsaglia 2003): the same numbers in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
