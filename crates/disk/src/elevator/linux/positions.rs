//! Requests in position order, and which of them a head should go to.

use std::collections::BTreeSet;

/// Tags by first byte.
#[derive(Default)]
pub struct Positions {
    set: BTreeSet<(u64, u32)>,
}

impl Positions {
    pub fn insert(&mut self, start: u64, tag: u32) {
        self.set.insert((start, tag));
    }

    pub fn remove(&mut self, start: u64, tag: u32) {
        let was_there = self.set.remove(&(start, tag));
        debug_assert!(was_there, "request {tag} is not queued at {start}");
    }

    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The first at or after `position`.
    pub fn at_or_after(&self, position: u64) -> Option<(u64, u32)> {
        self.set.range((position, 0)..).next().copied()
    }

    /// The first of all.
    pub fn first(&self) -> Option<(u64, u32)> {
        self.set.first().copied()
    }

    /// Where a head at `position` goes with a one-way elevator that may turn
    /// back a little: backwards, if that is no farther than `back_max` and its
    /// distance times `penalty` is less than that forwards; else forwards; else
    /// from the beginning.
    pub fn nearest(&self, position: u64, back_max: u64, penalty: u64) -> Option<(u64, u32)> {
        let ahead = self.at_or_after(position);
        let behind = self
            .set
            .range(..(position, 0))
            .next_back()
            .copied()
            .filter(|&(start, _)| position - start <= back_max);
        match (ahead, behind) {
            (Some(ahead), Some(behind)) => {
                let back = (position - behind.0).saturating_mul(penalty);
                Some(if back < ahead.0 - position {
                    behind
                } else {
                    ahead
                })
            }
            (Some(one), None) | (None, Some(one)) => Some(one),
            (None, None) => self.first(),
        }
    }
}
