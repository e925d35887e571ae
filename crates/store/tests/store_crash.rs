//! Power cuts at every moment of a workload: what is opened then has every
//! commit that was acknowledged, nothing of a transaction that did not commit,
//! and is in order; also when the power fails again while it is recovered.

mod simulated;

use iolane::{Arena, SimulatedDisk};
use iolane_disk::power::{CrashPlan, Image, Images, Recorder, RecorderLimits};
use iolane_store::data::{Column, ColumnType, Index, Row, TableSchema, Value};
use iolane_store::{Direction, Error, Store, Transaction};
use simulated::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type Table = BTreeMap<i64, Row>;
/// What a store holds after so many commits.
type State = BTreeMap<String, Table>;

/// Steps of the workload, each a commit or a table that comes or goes.
const STEPS: u64 = 80;
/// One image in so many is recovered on a disk that fails again.
const TWICE_ONE_IN: u64 = 40;
/// So often.
const TWICE_IMAGES: u64 = 12;

fn schema(name: &str) -> TableSchema {
    let column = |name: &str, column_type, nullable| Column {
        name: name.into(),
        column_type,
        nullable,
    };
    let index = |name: &str, column: &str, unique| Index {
        name: name.into(),
        columns: vec![column.into()],
        unique,
    };
    TableSchema {
        name: name.into(),
        columns: vec![
            column("id", ColumnType::Integer, false),
            column("tag", ColumnType::Integer, true),
            column("group", ColumnType::Text, true),
            column("text", ColumnType::Text, true),
        ],
        primary_key: vec!["id".into()],
        indexes: vec![
            index("by_tag", "tag", true),
            index("by_group", "group", false),
        ],
    }
}

fn random_row(random: &mut Random, id: i64) -> Row {
    let tag = random.below(4) > 0;
    let tag = tag.then(|| random.below(60) as i64);
    let group = format!("group {}", random.below(5));
    let length = match random.below(12) {
        0 => 3000 + random.below(20_000),
        1..4 => 300 + random.below(500),
        _ => random.below(30),
    };
    let letter = char::from(b'a' + random.below(26) as u8);
    let text: String = std::iter::repeat_n(letter, length as usize).collect();
    vec![id.into(), tag.into(), group.into(), text.into()]
}

/// Changes some rows of a table, in the transaction and in `table`.
fn change(
    random: &mut Random,
    transaction: &mut Transaction<'_>,
    name: &str,
    table: &mut Table,
    count: u64,
) {
    for _ in 0..count {
        let id = random.below(40) as i64;
        let row = random_row(random, id);
        let key = [id.into()];
        match random.below(3) {
            0 => {
                let deleted = transaction.delete(name, &key).unwrap();
                assert_eq!(deleted, table.remove(&id).is_some());
            }
            1 => match transaction.insert(name, row.clone()) {
                Ok(()) => assert_eq!(table.insert(id, row), None),
                Err(Error::Duplicate { .. }) => {}
                Err(error) => panic!("{error}"),
            },
            _ => match transaction.update(name, row.clone()) {
                Ok(true) => assert!(table.insert(id, row).is_some()),
                Ok(false) => assert!(!table.contains_key(&id)),
                Err(Error::Duplicate { .. }) => {}
                Err(error) => panic!("{error}"),
            },
        }
    }
}

/// One step: what it commits, and what it does beside that.
fn step(store: &Store, random: &mut Random, state: &mut State) {
    let name = format!("t{}", random.below(3));
    let Some(table) = state.get_mut(&name) else {
        store.create_table(&schema(&name)).unwrap();
        state.insert(name, Table::new());
        return;
    };
    match random.below(20) {
        0 => {
            store.drop_table(&name).unwrap();
            state.remove(&name);
            return;
        }
        1..5 => {
            store.purge(random.below(100) as usize).unwrap();
        }
        5 | 6 => {
            // Rolled back: nobody must ever see it.
            let mut undone = store.begin();
            let count = 1 + random.below(10);
            change(random, &mut undone, &name, &mut table.clone(), count);
            undone.rollback().unwrap();
        }
        _ => {}
    }
    let mut transaction = store.begin();
    let count = 1 + random.below(12);
    change(random, &mut transaction, &name, table, count);
    if random.below(3) == 0 {
        let savepoint = transaction.savepoint().unwrap();
        let count = 1 + random.below(12);
        change(random, &mut transaction, &name, &mut table.clone(), count);
        transaction.rollback_to(savepoint).unwrap();
        change(random, &mut transaction, &name, table, 2);
    }
    transaction.commit().unwrap();
}

/// Runs the workload, and returns the states after 0, 1, 2 ... commits.
fn run(disk: &SimulatedDisk, arena: &Arena, seed: u64) -> Vec<State> {
    let mut random = Random(seed);
    let mut states = vec![State::new()];
    let mut store = Store::create(DIRECTORY, &options(disk, arena)).unwrap();
    disk.recorder().unwrap().mark(0);
    while states.len() as u64 <= STEPS {
        run_until_closed(disk, &store, &mut random, &mut states);
        store.close().unwrap();
        store = Store::open(DIRECTORY, &options(disk, arena)).unwrap();
        assert_eq!(store.recovery().0.records, 0, "a checkpoint ends a log");
    }
    states
}

/// Some steps, while another thread writes the log: so that it ends within
/// what belongs together, too.
fn run_until_closed(
    disk: &SimulatedDisk,
    store: &Store,
    random: &mut Random,
    states: &mut Vec<State>,
) {
    let recorder: &Recorder = disk.recorder().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                store.sync().unwrap();
                std::thread::yield_now();
            }
        });
        for _ in 0..5 + random.below(15) {
            let mut state = states.last().unwrap().clone();
            step(store, random, &mut state);
            states.push(state);
            recorder.mark(states.len() as u64 - 1);
            if random.below(10) == 0 {
                // One that is running when the power fails, for a while.
                let newest = states.last().unwrap();
                if let Some((name, table)) = newest.iter().next() {
                    let mut running = store.begin();
                    change(random, &mut running, name, &mut table.clone(), 8);
                }
            }
            if random.below(4) == 0 {
                // Time for the flusher, to write pages that are not committed.
                std::thread::sleep(Duration::from_millis(15));
            }
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
}

/// What an open store holds, read in the order of every index.
fn read(store: &Store) -> State {
    let mut state = State::new();
    for schema in store.tables() {
        let name = schema.name;
        let mut transaction = store.begin();
        let collect = |rows: iolane_store::Rows<'_, '_>| -> Table {
            rows.map(|row| {
                let row = row.unwrap();
                match row[0] {
                    Value::Integer(id) => (id, row),
                    _ => panic!("an id"),
                }
            })
            .collect()
        };
        let rows = collect(transaction.range(&name, .., Direction::Forward).unwrap());
        for index in ["by_tag", "by_group"] {
            let by = transaction
                .range_by(&name, index, .., Direction::Backward)
                .unwrap();
            assert_eq!(collect(by), rows, "{index} of {name}");
        }
        state.insert(name, rows);
    }
    state
}

/// Opens what is on a disk and looks at it; returns how many commits it has.
fn recover(
    disk: &SimulatedDisk,
    arena: &Arena,
    states: &[State],
    promised: usize,
) -> Result<usize, String> {
    let store = Store::open(DIRECTORY, &options(disk, arena)).map_err(|error| error.to_string())?;
    let report = store.check().map_err(|error| error.to_string())?;
    if !report.is_clean() {
        return Err(format!("{:#?}", report.findings));
    }
    let found = read(&store);
    // The one that was being committed may be there.
    let possible = promised..states.len().min(promised + 2);
    let count = possible.clone().find(|&count| states[count] == found);
    count.ok_or_else(|| format!("it holds none of the states after {possible:?} commits"))
}

fn examine(image: &Image, arena: &Arena, states: &[State], seed: u64) -> Result<(), String> {
    let Some(promised) = image.mark() else {
        // The store was still being made; it may be unusable, but not wrong.
        let disk = SimulatedDisk::from_image(image).unwrap();
        if let Ok(store) = Store::open(DIRECTORY, &options(&disk, arena)) {
            let report = store.check().unwrap();
            if !report.is_clean() || !read(&store).is_empty() {
                return Err(format!("{:#?}", report.findings));
            }
        }
        return Ok(());
    };
    let promised = promised as usize;
    let twice = image.number().is_multiple_of(TWICE_ONE_IN);
    let disk = SimulatedDisk::builder().image(image);
    let disk = if twice {
        disk.record(RecorderLimits::default())
    } else {
        disk
    };
    let disk = disk.build().unwrap();
    if let Some(recorder) = disk.recorder() {
        // From here on its files have their names.
        recorder.mark(0);
    }
    let count = recover(&disk, arena, states, promised)?;
    if twice {
        let recording = disk.recorder().unwrap().recording();
        let images = Images::new(&recording, CrashPlan::sampled(seed, 6)).unwrap();
        for again in images.spread(TWICE_IMAGES) {
            if again.mark().is_none() {
                continue;
            }
            let disk = SimulatedDisk::from_image(&again).unwrap();
            let found = recover(&disk, arena, states, promised)
                .map_err(|what| format!("{what}\nafter a second power cut: {again}"))?;
            if found != count {
                return Err(format!("{count} commits, after a second power cut {found}"));
            }
        }
    }
    Ok(())
}

#[test]
fn every_power_cut_leaves_what_was_committed() {
    let seed = setting("IOLANE_TEST_SEED", 20_261_120);
    let count = setting("IOLANE_CRASH_IMAGES", 2000);
    let arena = arena();
    let disk = SimulatedDisk::builder()
        .seed(seed)
        .record(RecorderLimits::default())
        .build()
        .unwrap();
    let states = run(&disk, &arena, seed);
    let recording = disk.recorder().unwrap().recording();
    assert!(recording.is_complete());
    drop(disk);
    let images = Images::new(&recording, CrashPlan::sampled(seed, 40)).unwrap();
    println!(
        "{} images at {} moments",
        images.count(),
        images.boundaries()
    );
    for image in images.spread(count) {
        if let Err(what) = examine(&image, &arena, &states, seed) {
            panic!("seed {seed}: {what}\n{image}");
        }
    }
}
