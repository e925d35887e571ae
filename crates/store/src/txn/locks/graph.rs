//! Who waits for whom.

use super::TrxId;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

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
    /// unless that closes a circle: then returns the others in it, each of which waits
    /// for the next.
    pub(super) fn wait(
        &mut self,
        trx: TrxId,
        blockers: &[TrxId],
        behind: &[TrxId],
    ) -> Result<(), Vec<TrxId>> {
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

    /// Whether anybody waits for `trx`.
    pub(super) fn is_waited_for(&self, trx: TrxId) -> bool {
        self.waits_for.values().any(|others| others.contains(&trx))
    }

    /// How many wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waits_for.len()
    }

    /// The others in the shortest circle through `trx`, if there is one.
    fn circle(&self, trx: TrxId, blockers: &[TrxId], behind: &[TrxId]) -> Option<Vec<TrxId>> {
        // Who has led to each; nobody to the first.
        let mut from: HashMap<TrxId, Option<TrxId>> =
            blockers.iter().map(|&blocker| (blocker, None)).collect();
        let mut ring: Vec<TrxId> = blockers.to_vec();
        while !ring.is_empty() {
            if ring.contains(&trx) {
                return Some(way_to(&from, from[&trx]));
            }
            if let Some(&last) = ring.iter().find(|other| behind.contains(other)) {
                return Some(way_to(&from, Some(last)));
            }
            let mut next = Vec::new();
            for other in ring {
                for &blocker in self.waits_for.get(&other).into_iter().flatten() {
                    if let Entry::Vacant(new) = from.entry(blocker) {
                        new.insert(Some(other));
                        next.push(blocker);
                    }
                }
            }
            ring = next;
        }
        None
    }
}

fn way_to(from: &HashMap<TrxId, Option<TrxId>>, last: Option<TrxId>) -> Vec<TrxId> {
    let mut way: Vec<TrxId> = std::iter::successors(last, |trx| from[trx]).collect();
    way.reverse();
    way
}
