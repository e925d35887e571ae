//! What each transaction may have read, and what must be left.

use super::{Anomaly, Event, Found, History, Key, List, Mark, Trx};
use std::collections::{BTreeMap, HashMap, HashSet};

impl History {
    pub(super) fn check_reads(&self) -> Vec<Found> {
        let writers = self.writers();
        let mut found = self.check_last(&writers);
        for (number, trx) in self.transactions.iter().enumerate() {
            found.extend(own_reads(number, trx));
            for event in &trx.events {
                if let Event::Read { key, list, at } = event {
                    let wrong = self.check_read(number, *key, list, *at, &writers);
                    found.extend(wrong.map(|(anomaly, what)| {
                        (anomaly, format!("{what}; {number} read {list:?} of {key}"))
                    }));
                }
            }
        }
        found
    }

    /// All that was committed is there once, and nothing else.
    fn check_last(&self, writers: &HashMap<Mark, usize>) -> Vec<Found> {
        let mut found = Vec::new();
        let mut there = HashSet::new();
        for (key, list) in &self.last {
            for mark in list {
                let writer = writers.get(mark).map(|&writer| &self.transactions[writer]);
                if !there.insert((*key, *mark)) {
                    found.push((Anomaly::LostUpdate, format!("{mark} is in {key} twice")));
                }
                if !writer.is_some_and(|trx| trx.committed && trx.kept().contains(&(*key, *mark))) {
                    let what = format!("{mark}, not committed, is in {key}");
                    found.push((Anomaly::AbortedRead, what));
                }
            }
        }
        for (number, trx) in self.transactions.iter().enumerate() {
            for (key, mark) in trx.kept().iter().filter(|_| trx.committed) {
                if !there.contains(&(*key, *mark)) {
                    let what = format!("{number} has committed {mark} to {key}: it is gone");
                    found.push((Anomaly::LostUpdate, what));
                }
            }
        }
        found
    }

    /// One read, as far as others' marks go.
    fn check_read(
        &self,
        reader: usize,
        key: Key,
        list: &[Mark],
        at: u64,
        writers: &HashMap<Mark, usize>,
    ) -> Option<Found> {
        let writer = |mark: &Mark| writers.get(mark).copied();
        let others: Vec<Mark> = list
            .iter()
            .copied()
            .filter(|mark| writer(mark) != Some(reader))
            .collect();
        for mark in &others {
            let Some(number) = writer(mark) else {
                return Some((Anomaly::AbortedRead, format!("nobody wrote {mark}")));
            };
            let trx = &self.transactions[number];
            if !trx.committed || !trx.kept().contains(&(key, *mark)) {
                let what = format!("{mark} of {number} was rolled back");
                return Some((Anomaly::AbortedRead, what));
            }
            if at < trx.committing {
                let what = format!("{mark} of {number} was not yet committed");
                return Some((Anomaly::DirtyRead, what));
            }
        }
        let last = self.last_of(key);
        if !last.starts_with(&others) {
            let what = format!("{last:?} does not begin with {others:?}");
            return Some((Anomaly::Fork, what));
        }
        let end = others.len();
        if let (Some(mark), Some(next)) = (others.last(), last.get(end))
            && writer(mark) == writer(next)
        {
            let what = format!("{mark} and {next} are of one transaction");
            return Some((Anomaly::IntermediateRead, what));
        }
        None
    }
}

/// A transaction reads the same all the time, and its own marks behind it.
fn own_reads(number: usize, trx: &Trx) -> Vec<Found> {
    let mut found = Vec::new();
    let mut base: BTreeMap<Key, List> = BTreeMap::new();
    let mut own: Vec<(Key, Mark)> = Vec::new();
    for event in &trx.events {
        match event {
            Event::Append { key, mark } => own.push((*key, *mark)),
            Event::Undone { marks } => own.retain(|one| !marks.contains(one)),
            Event::Read { key, list, .. } => {
                let mine = own.iter().filter(|(of, _)| of == key).map(|(_, mark)| mark);
                let mine: List = mine.copied().collect();
                let split = list.len().saturating_sub(mine.len());
                let before = base.entry(*key).or_insert_with(|| list[..split].to_vec());
                if list[split..] != mine[..] || list[..split] != before[..] {
                    let what =
                        format!("{number} read {list:?} of {key} after {before:?}, {mine:?}");
                    found.push((Anomaly::UnstableRead, what));
                }
            }
        }
    }
    found
}
