//! What one life of a store leaves to the next: nothing under way, a log that
//! knows all that its pages know.

mod simulated;

use iolane::SimulatedDisk;
use iolane_disk::fault::{Fault, Rule, Trigger};
use iolane_disk::power::{CrashPlan, Images, RecorderLimits};
use iolane_store::data::{ColumnType, Row, TableSchema};
use iolane_store::{DOUBLEWRITE_FILE, Error, LOG_FILE, Store};
use simulated::*;
use std::time::Duration;

const ROWS: i64 = 60;

/// Tables have files of their own: so many writes at least when one closes.
const FILES: i64 = 3;

fn schema() -> TableSchema {
    schema_of("t")
}

fn schema_of(name: &str) -> TableSchema {
    TableSchema::new(name)
        .column("id", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
}

fn row(id: i64, letter: &str) -> Row {
    vec![id.into(), letter.repeat(900).into()]
}

fn fill(store: &Store, ids: std::ops::Range<i64>) -> Result<(), Error> {
    let mut one = store.begin();
    for id in ids {
        one.insert("t", row(id, "a"))?;
    }
    one.commit()
}

/// Fills several files.
fn work(store: &Store) -> Result<(), Error> {
    store.create_table(&schema())?;
    fill(store, 0..ROWS)?;
    for number in 0..FILES {
        let name = format!("t{number}");
        store.create_table(&schema_of(&name))?;
        let mut one = store.begin();
        one.insert(&name, row(number, "b"))?;
        one.commit()?;
    }
    Ok(())
}

/// Writes that were handed over before one failed would overwrite what the
/// store writes after it was opened again.
#[test]
fn a_store_that_has_failed_leaves_no_write_behind() {
    let arena = arena();
    let attempt = |failing: Option<u64>| {
        let mut plan = counting();
        // Long enough that the others are under way when one fails.
        plan.rules[0].fault = Fault::Stall {
            duration_ns: 500_000,
        };
        plan.rules.extend(failing.map(|operation| Rule {
            fault: Fault::EioWrite,
            trigger: Trigger::Operation(operation),
            range: None,
        }));
        let disk = SimulatedDisk::builder().faults(plan).build().unwrap();
        let options = options(&disk, &arena);
        let Ok(store) = Store::create(DIRECTORY, &options) else {
            return (0..0, true);
        };
        let before = operations(&disk);
        let worked = work(&store);
        let closed = store.close();
        let after = operations(&disk);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(operations(&disk), after, "{failing:?}");
        // At once, with the same memory. Threads share the operations, so the
        // one that fails may come only now.
        let store = Store::open(DIRECTORY, &options);
        let store = store.or_else(|_| Store::open(DIRECTORY, &options));
        let store = store.unwrap();
        assert!(store.check().unwrap().is_clean());
        if worked.is_ok() {
            let found = store.begin().get("t", &[7.into()]).unwrap();
            assert_eq!(found, Some(row(7, "a")));
        }
        (before..after, worked.is_err() || closed.is_err())
    };
    let (operations, failed) = attempt(None);
    assert!(!failed);
    let mut failures = 0;
    for operation in operations {
        failures += u64::from(attempt(Some(operation)).1);
    }
    assert!(failures > 5, "{failures}");
}

/// Every operation of opening fails in turn; the next attempt finds the memory
/// of the failed one free.
#[test]
fn a_store_that_could_not_be_opened_holds_no_memory() {
    let arena = arena();
    let disk = SimulatedDisk::builder().record(RecorderLimits::default());
    let disk = disk.build().unwrap();
    let store = Store::create(DIRECTORY, &options(&disk, &arena)).unwrap();
    store.create_table(&schema()).unwrap();
    fill(&store, 0..ROWS).unwrap();
    let recording = disk.recorder().unwrap().recording();
    store.close().unwrap();
    let images = Images::new(&recording, CrashPlan::sampled(1, 1)).unwrap();
    let image = images.image(images.count() - 1).unwrap();
    let mut refused = 0;
    for operation in 1..60 {
        let rule = Rule {
            fault: Fault::EioRead,
            trigger: Trigger::Operation(operation),
            range: None,
        };
        let mut plan = counting();
        plan.rules.push(rule);
        let disk = SimulatedDisk::builder().image(&image).faults(plan);
        let disk = disk.build().unwrap();
        let options = options(&disk, &arena);
        if Store::open(DIRECTORY, &options).is_err() {
            refused += 1;
            let again = Store::open(DIRECTORY, &options);
            again.unwrap_or_else(|error| panic!("after operation {operation}: {error}"));
        }
    }
    assert!(refused > 5, "{refused}");
}

/// A log of an earlier time, as when a disk loses what it had acknowledged, or
/// somebody brings back one file alone.
#[test]
fn pages_that_the_log_does_not_know_are_found_and_named() {
    let arena = arena();
    let disk = SimulatedDisk::builder().build().unwrap();
    let options_of = |disk: &SimulatedDisk| options(disk, &arena);
    let store = Store::create(DIRECTORY, &options_of(&disk)).unwrap();
    store.create_table(&schema()).unwrap();
    fill(&store, 0..ROWS).unwrap();
    store.close().unwrap();
    let before = files(&disk);
    let store = Store::open(DIRECTORY, &options_of(&disk)).unwrap();
    fill(&store, ROWS..2 * ROWS).unwrap();
    store.close().unwrap();
    let after = files(&disk);
    for old in [&[LOG_FILE][..], &[LOG_FILE, DOUBLEWRITE_FILE]] {
        let mixed: Vec<_> = after
            .iter()
            .map(|(name, contents)| {
                let is_old = old.iter().any(|old| name.ends_with(old));
                let earlier = before.iter().find(|(other, _)| other == name);
                let contents = earlier.filter(|_| is_old).map_or(contents, |(_, old)| old);
                (name.clone(), contents.clone())
            })
            .collect();
        let disk = disk_with(&mixed);
        let text = match Store::open(DIRECTORY, &options_of(&disk)) {
            Err(error) => error.to_string(),
            Ok(store) => match store.check() {
                Err(error) => error.to_string(),
                Ok(report) => format!("{:?}", report.findings),
            },
        };
        assert!(text.contains("the log has lost its end"), "{old:?}: {text}");
        assert!(text.contains("page ") && text.contains("space "), "{text}");
    }
    // The files belong together again.
    let store = Store::open(DIRECTORY, &options_of(&disk_with(&after))).unwrap();
    assert!(store.check().unwrap().is_clean());
}
