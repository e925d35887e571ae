//! Commits in two phases: what is prepared stays so until it is decided, whatever
//! happens to the machine.

mod simulated;

use iolane::{Arena, SimulatedDisk};
use iolane_disk::power::{CrashPlan, Images, RecorderLimits};
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{
    Direction, Durability, Error, LockError, Store, StoreOptions, TransactionOptions, XID_BYTES_MAX,
};
use simulated::*;
use std::collections::BTreeMap;
use std::time::Duration;

type Rows = BTreeMap<i64, Row>;
/// What all see, and what each prepared transaction would make of it.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    rows: Rows,
    prepared: BTreeMap<Vec<u8>, Changes>,
}
/// Rows by their keys; `None` is deleted.
type Changes = BTreeMap<i64, Option<Row>>;

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .nullable_column("tag", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
        .unique_index("by_tag", ["tag"])
}

fn row(id: i64, tag: i64, length: usize) -> Row {
    vec![id.into(), tag.into(), "x".repeat(length).into()]
}

fn read(store: &Store) -> Rows {
    let mut transaction = store.begin();
    let rows = transaction.range("t", .., Direction::Forward).unwrap();
    let rows = rows.map(|row| {
        let row = row.unwrap();
        let Value::Integer(id) = row[0] else {
            panic!("an id")
        };
        (id, row)
    });
    rows.collect()
}

fn in_memory(arena: &Arena) -> (SimulatedDisk, StoreOptions, Store) {
    let disk = SimulatedDisk::builder().build().unwrap();
    let options = options(&disk, arena);
    let store = Store::create(DIRECTORY, &options).unwrap();
    store.create_table(&schema()).unwrap();
    (disk, options, store)
}

fn impatient() -> TransactionOptions {
    let mut options = TransactionOptions::default();
    options.lock_timeout = Some(Duration::from_millis(30));
    options
}

fn is_timeout<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Lock(LockError::Timeout(_))))
}

/// Nobody sees it, nobody changes what it has changed or takes what it has of a
/// unique index; also after the store was opened again.
fn assert_kept(store: &Store) {
    assert_eq!(store.prepared(), [b"one".to_vec()]);
    let expected: Rows = [(1, row(1, 10, 5)), (2, row(2, 20, 5))].into();
    assert_eq!(read(store), expected);
    for id in [1, 3] {
        let mut other = store.begin_with(&impatient());
        assert!(is_timeout(other.insert("t", row(id, 77, 1))), "{id}");
    }
    // What it has given up, and what it has taken.
    for tag in [10, 11, 30] {
        let mut other = store.begin_with(&impatient());
        assert!(is_timeout(other.insert("t", row(9, tag, 1))), "{tag}");
    }
    let used = store.drop_table("t");
    assert!(matches!(used, Err(Error::TableInUse(_))));
    let mut other = store.begin();
    other.insert("t", row(4, 40, 5)).unwrap();
    other.rollback().unwrap();
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

fn prepare_one(store: &Store) {
    for id in [1, 2] {
        let mut first = store.begin();
        first.insert("t", row(id, 10 * id, 5)).unwrap();
        first.commit().unwrap();
    }
    let mut one = store.begin();
    assert!(one.update("t", row(1, 11, 9000)).unwrap());
    assert!(one.update("t", row(1, 12, 8000)).unwrap());
    assert!(one.update("t", row(1, 11, 7000)).unwrap());
    one.insert("t", row(3, 30, 5)).unwrap();
    one.prepare(b"one").unwrap();
}

#[test]
fn what_is_prepared_waits_and_is_committed() {
    let arena = arena();
    let (_disk, options, store) = in_memory(&arena);
    prepare_one(&store);
    assert_kept(&store);
    let mut twice = store.begin();
    twice.insert("t", row(8, 80, 5)).unwrap();
    let refused = twice.prepare(b"one");
    assert!(matches!(refused, Err(Error::PreparedExists(_))));
    for name in [vec![], vec![1; XID_BYTES_MAX + 1]] {
        let refused = store.begin().prepare(&name);
        assert!(matches!(refused, Err(Error::XidLength(_))));
    }
    store.close().unwrap();
    // Twice, so that opening itself changes nothing of it.
    for _ in 0..2 {
        let store = Store::open(DIRECTORY, &options).unwrap();
        assert_eq!(store.recovery().1, 0);
        assert_kept(&store);
        store.close().unwrap();
    }
    let store = Store::open(DIRECTORY, &options).unwrap();
    store.commit_prepared(b"one").unwrap();
    assert!(store.prepared().is_empty());
    let unknown = store.commit_prepared(b"one");
    assert!(matches!(unknown, Err(Error::UnknownPrepared(_))));
    let expected: Rows = [
        (1, row(1, 11, 7000)),
        (2, row(2, 20, 5)),
        (3, row(3, 30, 5)),
    ]
    .into();
    assert_eq!(read(&store), expected);
    let mut other = store.begin_with(&impatient());
    other.insert("t", row(9, 10, 1)).unwrap();
    assert!(other.update("t", row(1, 12, 1)).unwrap());
    other.commit().unwrap();
    while store.purge(1000).unwrap() > 0 {}
    assert!(store.check().unwrap().is_clean());
    store.close().unwrap();
    let store = Store::open(DIRECTORY, &options).unwrap();
    assert!(store.prepared().is_empty());
    assert_eq!(read(&store).len(), 4);
}

#[test]
fn what_is_prepared_is_rolled_back_by_its_name() {
    let arena = arena();
    for opened_again in [false, true] {
        let (_disk, options, mut store) = in_memory(&arena);
        prepare_one(&store);
        if opened_again {
            store.close().unwrap();
            store = Store::open(DIRECTORY, &options).unwrap();
        }
        store.rollback_prepared(b"one").unwrap();
        let unknown = store.rollback_prepared(b"one");
        assert!(matches!(unknown, Err(Error::UnknownPrepared(_))));
        let expected: Rows = [(1, row(1, 10, 5)), (2, row(2, 20, 5))].into();
        assert_eq!(read(&store), expected);
        let mut other = store.begin_with(&impatient());
        for (id, tag) in [(3, 11), (4, 30)] {
            other.insert("t", row(id, tag, 1)).unwrap();
        }
        other.commit().unwrap();
        while store.purge(1000).unwrap() > 0 {}
        assert!(store.check().unwrap().is_clean());
        store.drop_table("t").unwrap();
    }
}

/// One that has only read is prepared like all others.
#[test]
fn what_has_changed_nothing_is_prepared_too() {
    let arena = arena();
    let (_disk, options, store) = in_memory(&arena);
    store.begin().prepare(b"nothing").unwrap();
    store.close().unwrap();
    let store = Store::open(DIRECTORY, &options).unwrap();
    assert_eq!(store.prepared(), [b"nothing".to_vec()]);
    store.commit_prepared(b"nothing").unwrap();
    assert!(store.check().unwrap().is_clean());
}

/// A step of the workload: changes that are committed at once or prepared, or the
/// end of one that is.
fn step(store: &Store, random: &mut Random, state: &mut State, number: u64) -> Result<(), Error> {
    let names: Vec<Vec<u8>> = state.prepared.keys().cloned().collect();
    if names.len() >= 3 || (!names.is_empty() && random.below(3) == 0) {
        let name = &names[random.below(names.len() as u64) as usize];
        let changes = state.prepared.remove(name).unwrap();
        if random.below(3) == 0 {
            return store.rollback_prepared(name);
        }
        apply(&mut state.rows, &changes);
        return store.commit_prepared(name);
    }
    // Rows that no prepared one has.
    let taken = |id: &i64| state.prepared.values().any(|it| it.contains_key(id));
    let mut transaction = store.begin();
    let mut changes = Changes::new();
    for _ in 0..1 + random.below(4) {
        let id = random.below(40) as i64;
        if taken(&id) {
            continue;
        }
        let now = changes.get(&id).cloned();
        let now = now.unwrap_or_else(|| state.rows.get(&id).cloned());
        let length = match random.below(4) {
            0 => 5000 + random.below(9000) as usize,
            _ => random.below(700) as usize,
        };
        let new = row(id, id + 100 * number as i64, length);
        let after = match (now, random.below(4)) {
            (Some(_), 0) => {
                assert!(transaction.delete("t", &[id.into()])?);
                None
            }
            (Some(_), _) => {
                assert!(transaction.update("t", new.clone())?);
                Some(new)
            }
            (None, _) => {
                transaction.insert("t", new.clone())?;
                Some(new)
            }
        };
        changes.insert(id, after);
    }
    if random.below(2) == 0 {
        let name = format!("xid {number}").into_bytes();
        state.prepared.insert(name.clone(), changes);
        return transaction.prepare(&name);
    }
    apply(&mut state.rows, &changes);
    transaction.commit()
}

fn apply(rows: &mut Rows, changes: &Changes) {
    for (id, row) in changes {
        match row {
            Some(row) => drop(rows.insert(*id, row.clone())),
            None => drop(rows.remove(id)),
        }
    }
}

/// What is in a store: its rows, and by ending them alternately what its prepared
/// transactions make of them.
fn examine(store: &Store, expected: &State, commit: bool) -> Result<(), String> {
    let report = store.check().map_err(|error| error.to_string())?;
    if !report.is_clean() {
        return Err(format!("{:#?}", report.findings));
    }
    let names: Vec<Vec<u8>> = expected.prepared.keys().cloned().collect();
    if (store.prepared(), read(store)) != (names, expected.rows.clone()) {
        return Err("other rows, or others are prepared".to_owned());
    }
    let mut rows = expected.rows.clone();
    for (name, changes) in &expected.prepared {
        let ended = match commit {
            true => store.commit_prepared_with(name, Durability::Lazy),
            false => store.rollback_prepared(name),
        };
        ended.map_err(|error| error.to_string())?;
        if commit {
            apply(&mut rows, changes);
        }
    }
    if read(store) != rows {
        return Err("they made something else".to_owned());
    }
    let report = store.check().map_err(|error| error.to_string())?;
    let is_clean = report.is_clean().then_some(());
    is_clean.ok_or_else(|| format!("{:#?}", report.findings))
}

/// Cuts the power at every moment: what was prepared is, and can be ended either
/// way; nothing of it is seen before.
#[test]
fn every_power_cut_leaves_what_was_prepared() {
    let seed = setting("IOLANE_TEST_SEED", 20_261_127);
    let images_wanted = setting("IOLANE_CRASH_IMAGES", 20_000) / 8;
    println!("IOLANE_TEST_SEED={seed}");
    let arena = arena();
    let recording = SimulatedDisk::builder().seed(seed);
    let disk = recording.record(RecorderLimits::default()).build().unwrap();
    let recorder = disk.recorder().unwrap();
    let options = options(&disk, &arena);
    let mut store = Store::create(DIRECTORY, &options).unwrap();
    store.create_table(&schema()).unwrap();
    recorder.mark(0);
    let mut states = vec![State::default()];
    let mut random = Random(seed);
    for number in 0..140 {
        let mut state = states.last().unwrap().clone();
        step(&store, &mut random, &mut state, number).unwrap();
        states.push(state);
        recorder.mark(number + 1);
        if number % 45 == 44 {
            while store.purge(1000).unwrap() > 0 {}
            store.close().unwrap();
            store = Store::open(DIRECTORY, &options).unwrap();
        }
    }
    let prepared = states.iter().filter(|state| !state.prepared.is_empty());
    println!(
        "{} of {} states have prepared ones",
        prepared.count(),
        states.len()
    );
    drop(store);
    let images = Images::new(&recorder.recording(), CrashPlan::sampled(seed, 30)).unwrap();
    println!("{images_wanted} of {} images", images.count());
    let mut seen = [0; 2];
    for image in images.spread(images_wanted) {
        let Some(promised) = image.mark() else {
            continue;
        };
        let commit = image.number().is_multiple_of(2);
        let mut wrong = Vec::new();
        let possible = states.iter().skip(promised as usize).take(2);
        let found = possible.into_iter().any(|state| {
            let disk = SimulatedDisk::from_image(&image).unwrap();
            let opened = Store::open(DIRECTORY, &simulated::options(&disk, &arena));
            let result = opened
                .map_err(|error| error.to_string())
                .and_then(|store| examine(&store, state, commit));
            seen[usize::from(commit)] += state.prepared.len();
            result.map_err(|why| wrong.push(why)).is_ok()
        });
        assert!(found, "{wrong:#?}: {image}");
    }
    println!("prepared ones ended by rollback and commit: {seen:?}");
    assert!(seen.iter().all(|&count| count > 0));
}
