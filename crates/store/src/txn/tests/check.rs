//! Changes between any two steps of a check: nothing of them is taken for
//! damage, and damage is told beside them.
//!
//! One thread does both, in turns, so that a seed gives the same turns.

use super::model::Random;
use super::*;
use crate::txn::Savepoint;
use std::cell::{Cell, RefCell};

const IDS: u64 = 300;
const SESSIONS: usize = 3;
/// Rows that come or go together: so that pages are split and merged.
const TOGETHER: i64 = 40;

/// Some transactions that take turns.
pub(super) struct Changer<'s> {
    system: &'s System<TestPages>,
    random: Random,
    /// Rows with these numbers are left alone.
    spared: std::ops::Range<i64>,
    sessions: Vec<(Transaction<'s, TestPages>, Option<Savepoint>)>,
    pub(super) changed: u64,
}

impl<'s> Changer<'s> {
    pub(super) fn new(
        system: &'s System<TestPages>,
        seed: u64,
        spared: std::ops::Range<i64>,
    ) -> Changer<'s> {
        let begin = || (Transaction::begin(system), None);
        Changer {
            system,
            random: Random(seed),
            spared,
            sessions: std::iter::repeat_with(begin).take(SESSIONS).collect(),
            changed: 0,
        }
    }

    /// One step, unless the check has everything stand still.
    pub(super) fn step(&mut self) {
        if self.system.gate.try_read().is_none() {
            return;
        }
        let chosen = self.random.below(SESSIONS as u64) as usize;
        match self.random.below(60) {
            0..30 => self.change(chosen),
            30..34 => self.change_together(chosen),
            34..38 => {
                let (one, savepoint) = &mut self.sessions[chosen];
                match savepoint.take() {
                    Some(there) => one.rollback_to(there).unwrap(),
                    None => *savepoint = Some(one.savepoint().unwrap()),
                }
            }
            38..46 => self.begin_anew(chosen).commit().unwrap(),
            46..50 => self.begin_anew(chosen).rollback().unwrap(),
            50..56 => {
                if let Some(running) = self.system.purge.running.try_lock() {
                    let limit = self.random.below(80) as usize;
                    self.system.purge_held(&running, limit).unwrap();
                }
            }
            _ => {}
        }
    }

    fn begin_anew(&mut self, chosen: usize) -> Transaction<'s, TestPages> {
        let new = (Transaction::begin(self.system), None);
        std::mem::replace(&mut self.sessions[chosen], new).0
    }

    fn random_row(&mut self, id: i64) -> Row {
        let length = match self.random.below(10) {
            0 => 3000 + self.random.below(12_000),
            1..4 => 200 + self.random.below(500),
            _ => self.random.below(30),
        };
        let tag = (self.random.below(4) > 0).then(|| 1000 + self.random.below(2 * IDS) as i64);
        let group = format!("group {}", self.random.below(5));
        row(id, tag, &group, &"x".repeat(length as usize))
    }

    fn change(&mut self, chosen: usize) {
        let id = self.random.below(IDS) as i64;
        if self.spared.contains(&id) {
            return;
        }
        let row = self.random_row(id);
        let one = &mut self.sessions[chosen].0;
        let done = match self.random.below(3) {
            0 => one.delete("t", &key(id)),
            1 => one.update("t", row),
            _ => one.insert("t", row).map(|()| true),
        };
        self.note(done);
    }

    /// Inserts rows one behind the other, or deletes them.
    fn change_together(&mut self, chosen: usize) {
        let first = 1000 + self.random.below(6) as i64 * TOGETHER;
        let inserts = self.random.below(2) == 0;
        for id in first..first + TOGETHER {
            let one = &mut self.sessions[chosen].0;
            let done = if inserts {
                let row = row(id, Some(id + 5000), "many", &"y".repeat(300));
                one.insert("t", row).map(|()| true)
            } else {
                one.delete("t", &key(id))
            };
            self.note(done);
        }
    }

    fn note(&mut self, done: Result<bool, Error>) {
        match done {
            Ok(done) => self.changed += u64::from(done),
            // With one thread it would be for ever.
            Err(Error::Lock(_) | Error::Duplicate { .. } | Error::WriteConflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Those of [`options`], but nobody waits for a row.
pub(super) fn impatient() -> SystemOptions {
    SystemOptions {
        lock_timeout: Duration::ZERO,
        ..options()
    }
}

fn run(seed: u64, checks: u64) -> u64 {
    let (system, _) = Rig::new(small(seed)).open_with(impatient());
    system.create_table(&schema()).unwrap();
    let changer = RefCell::new(Changer::new(&system, seed, 0..0));
    for _ in 0..300 {
        changer.borrow_mut().step();
    }
    for check in 0..checks {
        let every = 1 + check % 7;
        let asked = Cell::new(0_u64);
        let report = system.check(&|| {
            asked.set(asked.get() + 1);
            if asked.get().is_multiple_of(every) {
                changer.borrow_mut().step();
            }
            true
        });
        let findings = report.unwrap().findings;
        assert!(
            findings.is_empty(),
            "seed {seed}, check {check}: {findings:#?}"
        );
    }
    let changed = changer.into_inner().changed;
    purge_all(&system);
    changed
}

#[test]
fn changes_between_the_steps_of_a_check_are_no_findings() {
    let set = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = set("IOLANE_TEST_SEED").unwrap_or(20_261_122);
    let seeds = set("IOLANE_TEST_SEEDS").unwrap_or(10);
    println!("IOLANE_TEST_SEED={seed}");
    let changed: u64 = (seed..seed + seeds).map(|seed| run(seed, 14)).sum();
    println!("{changed} changes");
    assert!(changed > 1000 * seeds);
}

/// A deleted row that waits for purge, deleted once more between two looks at
/// it: undo is looked at again, too.
#[test]
fn a_row_that_changes_between_two_looks_is_no_finding() {
    let system = Rig::new(small(1)).open();
    system.create_table(&schema()).unwrap();
    let come_and_go = || {
        for deletes in [false, true] {
            let mut one = Transaction::begin(&system);
            if deletes {
                assert!(one.delete("t", &key(1)).unwrap());
            } else {
                one.insert("t", row(1, Some(1), "group", "")).unwrap();
            }
            one.commit().unwrap();
        }
    };
    let (begun, looks_again) = (Cell::new(false), Cell::new(0));
    let report = system.check(&|| {
        if !begun.replace(true) {
            come_and_go();
        } else if system.purge.running.try_lock().is_none() && looks_again.get() < 5 {
            looks_again.set(looks_again.get() + 1);
            come_and_go();
        }
        true
    });
    assert!(looks_again.get() > 1);
    let report = report.unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    purge_all(&system);
}

/// A row that is deleted and inserted again by who rolls back has gone before
/// purge has come to its old entries.
#[test]
fn entries_whose_row_has_gone_before_them_wait_for_purge() {
    let system = Rig::new(small(1)).open();
    system.create_table(&schema()).unwrap();
    let insert = |tag| {
        let mut one = Transaction::begin(&system);
        one.insert("t", row(1, Some(tag), "group", "")).unwrap();
        one
    };
    insert(1).commit().unwrap();
    let done = Cell::new(false);
    // Purge has been before the first question.
    let report = system.check(&|| {
        if !done.replace(true) {
            let mut one = Transaction::begin(&system);
            assert!(one.delete("t", &key(1)).unwrap());
            one.commit().unwrap();
            insert(2).rollback().unwrap();
            assert_eq!(entries(&system, 0).len(), 1);
        }
        true
    });
    let report = report.unwrap();
    assert_eq!((report.rows, report.entries), (0, 1));
    assert!(report.is_clean(), "{:#?}", report.findings);
    purge_all(&system);
    assert!(entries(&system, 0).is_empty());
}
