//! Histories of concurrent transactions: snapshots of one order explain them
//! all. `history` says what must not be; write skew may.

mod history;
mod simulated;

use history::{Anomaly, Event, History, Key, List, Mark, Trx};
use iolane::SimulatedDisk;
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, Error, Rows, Store, Transaction};
use simulated::*;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const SESSIONS: usize = 6;
const KEYS: u64 = 8;

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("last", ColumnType::Integer)
        .column("list", ColumnType::Text)
        .column("padding", ColumnType::Text)
        .primary_key(["id"])
        .unique_index("by_last", ["last"])
}

/// What the threads of a run share.
struct Run<'s> {
    store: &'s Store,
    /// Times and marks: every number comes once.
    clock: AtomicU64,
    done: Mutex<Vec<Trx>>,
}

/// One transaction and what is written down of it.
struct Recorded<'r, 's> {
    run: &'r Run<'s>,
    transaction: Transaction<'s>,
    events: Vec<Event>,
}

fn list_of(row: &Row) -> List {
    match &row[2] {
        Value::Text(text) => text
            .split_whitespace()
            .map(|mark| mark.parse().unwrap())
            .collect(),
        other => panic!("{other:?} is no list"),
    }
}

impl Run<'_> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }
}

impl Recorded<'_, '_> {
    fn note(&mut self, key: Key, row: Option<&Row>) {
        let list = row.map(list_of).unwrap_or_default();
        let at = self.run.now();
        self.events.push(Event::Read { key, list, at });
    }

    fn read(&mut self, key: Key) -> Result<Option<Row>, Error> {
        let row = self.transaction.get("t", &[key.into()])?;
        self.note(key, row.as_ref());
        Ok(row)
    }

    /// All lists in the order of an index; those that are not there are empty.
    fn read_all(&mut self, by_index: bool, direction: Direction) -> Result<(), Error> {
        let collect = |rows: Rows<'_, '_>| -> Result<BTreeMap<Key, Row>, Error> {
            let mut all = BTreeMap::new();
            for row in rows {
                let row = row?;
                let Value::Integer(id) = row[0] else {
                    panic!("an id");
                };
                assert_eq!(all.insert(id, row), None, "{id} comes twice");
            }
            Ok(all)
        };
        let rows = if by_index {
            collect(self.transaction.range_by("t", "by_last", .., direction)?)?
        } else {
            collect(self.transaction.range("t", .., direction)?)?
        };
        for key in 0..KEYS as Key {
            self.note(key, rows.get(&key));
        }
        Ok(())
    }

    fn append(&mut self, key: Key, padding: usize) -> Result<(), Error> {
        let before = self.read(key)?;
        let mark = self.run.now();
        let mut list = before.as_ref().map(list_of).unwrap_or_default();
        list.push(mark);
        let words: Vec<String> = list.iter().map(Mark::to_string).collect();
        let row = vec![
            key.into(),
            (mark as i64).into(),
            words.join(" ").into(),
            "p".repeat(padding).into(),
        ];
        // Before it happens: others may see it as soon as it has.
        self.events.push(Event::Append { key, mark });
        let done = if before.is_some() {
            let found = self.transaction.update("t", row);
            found.map(|found| assert!(found, "it was there when it was read"))
        } else {
            self.transaction.insert("t", row)
        };
        if done.is_err() {
            // The statement is undone, the transaction is not.
            let marks = vec![(key, mark)];
            self.events.push(Event::Undone { marks });
        }
        done
    }

    /// Some reads and appends, and a part that is taken back.
    fn work(&mut self, random: &mut Random) -> Result<(), Error> {
        for _ in 0..1 + random.below(5) {
            let key = random.below(KEYS) as Key;
            let padding = if random.below(12) == 0 { 5000 } else { 10 };
            match random.below(10) {
                0..4 => self.append(key, padding)?,
                4 => {
                    let savepoint = self.transaction.savepoint()?;
                    let first = self.events.len();
                    self.append(key, padding)?;
                    self.read(key)?;
                    self.transaction.rollback_to(savepoint)?;
                    let marks = self.events[first..].iter().filter_map(|event| match event {
                        Event::Append { key, mark } => Some((*key, *mark)),
                        _ => None,
                    });
                    let marks = marks.collect();
                    self.events.push(Event::Undone { marks });
                }
                5 => self.read_all(true, Direction::Backward)?,
                6 => self.read_all(false, Direction::Forward)?,
                _ => {
                    self.read(key)?;
                }
            }
            // Let the others in, now and then for longer than they need.
            match random.below(6) {
                0 => std::thread::sleep(Duration::from_micros(random.below(400))),
                1..4 => std::thread::yield_now(),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Errors that a transaction may meet beside others.
fn is_due(error: &Error) -> bool {
    match error {
        Error::WriteConflict { .. } | Error::Lock(_) => true,
        // Inserted by another that had not ended when it was looked for.
        Error::Duplicate { .. } => true,
        _ => false,
    }
}

fn transact(run: &Run<'_>, session: usize, random: &mut Random) {
    let begun = run.now();
    let mut recorded = Recorded {
        run,
        transaction: run.store.begin(),
        events: Vec::new(),
    };
    let worked = recorded.work(random);
    let Recorded {
        transaction,
        events,
        ..
    } = recorded;
    let committing = run.now();
    let committed = match worked {
        Ok(()) if random.below(8) > 0 => {
            transaction.commit().unwrap();
            true
        }
        Ok(()) => {
            transaction.rollback().unwrap();
            false
        }
        Err(error) => {
            assert!(is_due(&error), "{error:?}");
            drop(transaction);
            false
        }
    };
    let trx = Trx {
        session,
        events,
        begun,
        committing,
        ended: run.now(),
        committed,
    };
    run.done.lock().unwrap().push(trx);
}

fn record(seed: u64, transactions: u64) -> History {
    let arena = arena();
    let disk = SimulatedDisk::builder().seed(seed).build().unwrap();
    let mut options = options(&disk, &arena);
    options.undo_slots = SESSIONS as u32;
    options.purge_thread = true;
    let store = Store::create(DIRECTORY, &options).unwrap();
    store.create_table(&schema()).unwrap();
    let run = Run {
        store: &store,
        clock: AtomicU64::new(1),
        done: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for session in 0..SESSIONS {
            let run = &run;
            scope.spawn(move || {
                let mut random = Random(seed ^ (session as u64) << 32);
                for _ in 0..transactions {
                    transact(run, session, &mut random);
                }
            });
        }
    });
    assert!(store.check().unwrap().is_clean());
    let mut last = store.begin();
    let rows = last.range("t", .., Direction::Forward).unwrap();
    let lists = rows.map(|row| {
        let row = row.unwrap();
        let Value::Integer(id) = row[0] else {
            panic!("an id");
        };
        (id, list_of(&row))
    });
    let last = lists.collect();
    History {
        transactions: run.done.into_inner().unwrap(),
        last,
    }
}

#[test]
fn snapshots_explain_every_history() {
    let seed = setting("IOLANE_TEST_SEED", 20_261_120);
    let rounds = setting("IOLANE_HISTORIES", 4);
    for seed in seed..seed + rounds {
        let history = record(seed, 150);
        let found = history.anomalies();
        assert!(found.is_empty(), "seed {seed}: {found:#?}\n{history:#?}");
        let all = &history.transactions;
        let committed = all.iter().filter(|trx| trx.committed).count();
        let marks: usize = history.last.values().map(Vec::len).sum();
        let beside = |one: &&Trx| {
            let meets = |other: &Trx| {
                other.session != one.session && other.begun < one.ended && one.begun < other.ended
            };
            all.iter().any(meets)
        };
        let concurrent = all.iter().filter(beside).count();
        println!(
            "seed {seed}: {} transactions, {committed} committed, {concurrent} beside others, \
             {marks} marks",
            all.len()
        );
        // Otherwise it has shown nothing.
        assert!(committed > all.len() / 8 && committed < all.len());
        assert!(concurrent > all.len() / 4 && marks > 50);
    }
}

/// What snapshot isolation allows, and serializability would not: each reads
/// what the other writes, and both commit.
#[test]
fn write_skew_may_be() {
    let arena = arena();
    let disk = SimulatedDisk::builder().build().unwrap();
    let store = Store::create(DIRECTORY, &options(&disk, &arena)).unwrap();
    store.create_table(&schema()).unwrap();
    let run = Run {
        store: &store,
        clock: AtomicU64::new(1),
        done: Mutex::default(),
    };
    let begin = || Recorded {
        run: &run,
        transaction: store.begin(),
        events: Vec::new(),
    };
    let end = |begun: u64, recorded: Recorded<'_, '_>| {
        let committing = run.now();
        recorded.transaction.commit().unwrap();
        Trx {
            session: 0,
            events: recorded.events,
            begun,
            committing,
            ended: run.now(),
            committed: true,
        }
    };
    let (begun, mut first) = (run.now(), begin());
    first.append(0, 0).unwrap();
    first.append(1, 0).unwrap();
    let before = end(begun, first);
    let (begun, mut one, mut other) = (run.now(), begin(), begin());
    for recorded in [&mut one, &mut other] {
        recorded.read(0).unwrap();
        recorded.read(1).unwrap();
    }
    one.append(0, 0).unwrap();
    other.append(1, 0).unwrap();
    let (one, other) = (end(begun, one), end(begun, other));
    let mut last = store.begin();
    let mut list = |key: Key| list_of(&last.get("t", &[key.into()]).unwrap().unwrap());
    let history = History {
        last: BTreeMap::from([(0, list(0)), (1, list(1))]),
        transactions: vec![before, one, other],
    };
    assert_eq!(history.last[&0].len(), 2);
    assert_eq!(history.last[&1].len(), 2);
    assert_eq!(history.anomalies(), []);
}

/// A history for the tests of the checker: times as in the order given, each
/// transaction after the one before, unless `at_once`.
fn history(transactions: &[(&[Event], bool)], last: &[(Key, &[Mark])], at_once: bool) -> History {
    let trx = |(number, (events, committed)): (usize, &(&[Event], bool))| {
        let first = 10 * number as u64;
        Trx {
            session: number,
            events: events.to_vec(),
            begun: if at_once { number as u64 } else { first },
            committing: first + 2,
            ended: if at_once {
                1000 + number as u64
            } else {
                first + 3
            },
            committed: *committed,
        }
    };
    History {
        transactions: transactions.iter().enumerate().map(trx).collect(),
        last: last
            .iter()
            .map(|(key, list)| (*key, list.to_vec()))
            .collect(),
    }
}

fn read(key: Key, list: &[Mark]) -> Event {
    let (list, at) = (list.to_vec(), 500);
    Event::Read { key, list, at }
}

fn early(key: Key, list: &[Mark]) -> Event {
    let (list, at) = (list.to_vec(), 1);
    Event::Read { key, list, at }
}

fn append(key: Key, mark: Mark) -> Event {
    Event::Append { key, mark }
}

/// Each anomaly is found where it is, by its name.
#[test]
fn the_checker_knows_every_anomaly() {
    use Anomaly::*;
    let undone = Event::Undone {
        marks: vec![(0, 1)],
    };
    let one_of_each: [(Anomaly, History); 13] = [
        (
            LostUpdate,
            history(
                &[(&[append(0, 1)], true), (&[append(0, 2)], true)],
                &[(0, &[2])],
                true,
            ),
        ),
        (
            LostUpdate,
            history(&[(&[append(0, 1)], true)], &[(0, &[1, 1])], true),
        ),
        (
            Fork,
            history(
                &[
                    (&[append(0, 1)], true),
                    (&[append(0, 2)], true),
                    (&[read(0, &[2])], true),
                ],
                &[(0, &[1, 2])],
                true,
            ),
        ),
        (
            DirtyRead,
            history(
                &[(&[append(0, 1)], true), (&[early(0, &[1])], true)],
                &[(0, &[1])],
                true,
            ),
        ),
        (
            AbortedRead,
            history(
                &[(&[append(0, 1)], false), (&[read(0, &[1])], true)],
                &[],
                true,
            ),
        ),
        (
            AbortedRead,
            history(
                &[(&[append(0, 1), undone], true), (&[read(0, &[1])], true)],
                &[],
                true,
            ),
        ),
        (
            AbortedRead,
            history(&[(&[append(0, 1)], false)], &[(0, &[1])], true),
        ),
        (
            IntermediateRead,
            history(
                &[
                    (&[append(0, 1), append(0, 2)], true),
                    (&[read(0, &[1])], true),
                ],
                &[(0, &[1, 2])],
                true,
            ),
        ),
        (
            UnstableRead,
            history(
                &[
                    (&[append(0, 1)], true),
                    (&[read(0, &[]), read(0, &[1])], true),
                ],
                &[(0, &[1])],
                true,
            ),
        ),
        (
            DirtyWrite,
            history(
                &[
                    (&[append(0, 1), append(1, 2)], true),
                    (&[append(0, 3), append(1, 4)], true),
                ],
                &[(0, &[1, 3]), (1, &[4, 2])],
                true,
            ),
        ),
        (
            CircularFlow,
            history(
                &[
                    (&[append(0, 1), read(1, &[2])], true),
                    (&[append(1, 2), read(0, &[1])], true),
                ],
                &[(0, &[1]), (1, &[2])],
                true,
            ),
        ),
        (
            ReadSkew,
            history(
                &[
                    (&[append(0, 1), append(1, 2)], true),
                    (&[read(0, &[1]), read(1, &[])], true),
                ],
                &[(0, &[1]), (1, &[2])],
                true,
            ),
        ),
        (
            StaleRead,
            history(
                &[(&[append(0, 1)], true), (&[read(0, &[])], true)],
                &[(0, &[1])],
                false,
            ),
        ),
    ];
    for (expected, history) in one_of_each {
        let found = history.anomalies();
        let named = found.iter().any(|(anomaly, _)| *anomaly == expected);
        assert!(named, "{expected:?} in {history:#?}: {found:?}");
    }
    // Long fork: two readers see two writers in different orders. Each edge of
    // a reader to a writer is followed by one that is not.
    let long_fork = history(
        &[
            (&[append(0, 1)], true),
            (&[append(1, 2)], true),
            (&[read(0, &[1]), read(1, &[])], true),
            (&[read(0, &[]), read(1, &[2])], true),
        ],
        &[(0, &[1]), (1, &[2])],
        true,
    );
    let found = long_fork.anomalies();
    assert!(matches!(found[..], [(ReadSkew, _)]), "{found:?}");
    // Without a reader that misses something, nothing is wrong.
    let fine = history(
        &[
            (&[append(0, 1), append(1, 2)], true),
            (&[read(0, &[1]), read(1, &[2]), append(0, 3)], true),
            (&[read(0, &[1, 3])], true),
        ],
        &[(0, &[1, 3]), (1, &[2])],
        false,
    );
    assert_eq!(fine.anomalies(), []);
}
