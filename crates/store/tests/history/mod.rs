//! Histories of transactions that append marks to lists, and whether snapshots
//! of one order explain them (Kingsbury and Alvaro, "Elle: Inferring Isolation
//! Anomalies from Experimental Observations", VLDB 2020): each mark is appended
//! once, so a list that was read says which versions were before it.
//!
//! | file | subject |
//! |---|---|
//! | `reads` | each transaction by itself: what it may have read |
//! | `graph` | who must be before whom; cycles that no snapshots explain |

mod graph;
mod reads;

use std::collections::{BTreeMap, HashMap};

pub type Key = i64;
/// Appended once in a history.
pub type Mark = u64;
pub type List = Vec<Mark>;

/// What a transaction did.
#[derive(Clone, Debug)]
pub enum Event {
    /// It read a list; `at` is a time after that.
    Read { key: Key, list: List, at: u64 },
    /// It appended to what it had read.
    Append { key: Key, mark: Mark },
    /// It went back to a savepoint: these are gone.
    Undone { marks: Vec<(Key, Mark)> },
}

/// Times are numbers of one counter.
#[derive(Clone, Debug)]
pub struct Trx {
    pub session: usize,
    pub events: Vec<Event>,
    /// Before its first event.
    pub begun: u64,
    /// Before it began to commit.
    pub committing: u64,
    /// After it had ended.
    pub ended: u64,
    pub committed: bool,
}

/// All transactions, and the lists that they left.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub transactions: Vec<Trx>,
    pub last: BTreeMap<Key, List>,
}

/// What snapshot isolation does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// A commit's mark is in no list, or twice.
    LostUpdate,
    /// Two lists of a key of which none begins the other.
    Fork,
    /// Read before its writer had begun to commit.
    DirtyRead,
    /// Of a transaction that was rolled back (G1a).
    AbortedRead,
    /// Not the last of its writer (G1b).
    IntermediateRead,
    /// Another list than the same transaction had read before, or not its own
    /// marks.
    UnstableRead,
    /// A cycle of writes (G0).
    DirtyWrite,
    /// A cycle of writes and reads of them (G1c).
    CircularFlow,
    /// A cycle with reads of what was overwritten, no two of them in a row:
    /// fractured reads, read skew (G-single), and what else no snapshot shows.
    ReadSkew,
    /// The same with the order of time: it has missed what was committed
    /// before it began.
    StaleRead,
}

/// What was found, with words for a person.
pub type Found = (Anomaly, String);

impl History {
    /// All that snapshots do not explain.
    pub fn anomalies(&self) -> Vec<Found> {
        let mut found = self.check_reads();
        // A cycle of what is no order says nothing.
        if found.is_empty() {
            found.extend(self.find_cycle());
        }
        found
    }

    /// Who has appended a mark.
    fn writers(&self) -> HashMap<Mark, usize> {
        let mut writers = HashMap::new();
        for (number, trx) in self.transactions.iter().enumerate() {
            for event in &trx.events {
                if let Event::Append { mark, .. } = event {
                    assert_eq!(writers.insert(*mark, number), None, "a mark comes twice");
                }
            }
        }
        writers
    }

    fn last_of(&self, key: Key) -> &[Mark] {
        self.last.get(&key).map_or(&[], Vec::as_slice)
    }
}

impl Trx {
    /// Lists that it read, as they were without its own marks.
    fn seen(&self) -> BTreeMap<Key, List> {
        let mut own: Vec<Mark> = Vec::new();
        let mut seen = BTreeMap::new();
        for event in &self.events {
            match event {
                Event::Append { mark, .. } => own.push(*mark),
                Event::Read { key, list, .. } => {
                    let others = list.iter().filter(|mark| !own.contains(mark));
                    seen.entry(*key)
                        .or_insert_with(|| others.copied().collect());
                }
                Event::Undone { .. } => {}
            }
        }
        seen
    }

    /// Marks that it has appended and not undone.
    fn kept(&self) -> Vec<(Key, Mark)> {
        let mut kept = Vec::new();
        for event in &self.events {
            match event {
                Event::Append { key, mark } => kept.push((*key, *mark)),
                Event::Undone { marks } => kept.retain(|one| !marks.contains(one)),
                Event::Read { .. } => {}
            }
        }
        kept
    }
}
