//! Who waits for whom.

use super::TrxId;
use std::collections::{HashMap, HashSet};

/// The edges from each waiting transaction to those that it waits for. An edge
/// to one that has ended harms nothing, as that waits for nobody; an edge to
/// one that goes on and is not waited for any more would be a circle that is
/// none.
#[derive(Default)]
pub(super) struct WaitGraph {
    waits_for: HashMap<TrxId, Vec<TrxId>>,
}

impl WaitGraph {
    /// Notes that `trx` waits for `blockers`, and those `behind` it for `trx`,
    /// unless that closes a circle: then returns how many others are in it.
    pub(super) fn wait(
        &mut self,
        trx: TrxId,
        blockers: &[TrxId],
        behind: &[TrxId],
    ) -> Result<(), usize> {
        if let Some(others) = self.circle(trx, blockers, behind) {
            return Err(others);
        }
        self.waits_for.insert(trx, blockers.to_vec());
        for other in behind {
            self.waits_for.entry(*other).or_default().push(trx);
        }
        Ok(())
    }

    /// What `trx` waits for has become this.
    pub(super) fn still_waits(&mut self, trx: TrxId, blockers: Vec<TrxId>) {
        self.waits_for.insert(trx, blockers);
    }

    /// `trx` waits no more.
    pub(super) fn done(&mut self, trx: TrxId) {
        self.waits_for.remove(&trx);
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waits_for.len()
    }

    /// How many others are in the shortest circle through `trx`, if there is
    /// one.
    fn circle(&self, trx: TrxId, blockers: &[TrxId], behind: &[TrxId]) -> Option<usize> {
        let mut seen: HashSet<TrxId> = blockers.iter().copied().collect();
        let mut ring: Vec<TrxId> = blockers.to_vec();
        let mut others = 0;
        while !ring.is_empty() {
            if ring.contains(&trx) {
                return Some(others);
            }
            others += 1;
            if ring.iter().any(|other| behind.contains(other)) {
                return Some(others);
            }
            let waiting = ring.iter().filter_map(|other| self.waits_for.get(other));
            ring = waiting
                .flatten()
                .copied()
                .filter(|&blocker| seen.insert(blocker))
                .collect();
        }
        None
    }
}
