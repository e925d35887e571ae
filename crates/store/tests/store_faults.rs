//! A disk that fails at any operation: the error reaches the caller, and
//! nothing that was acknowledged is lost.

mod simulated;

use iolane::{Arena, SimulatedDisk};
use iolane_disk::fault::FaultPlan;
use iolane_store::access::PagesError;
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, Error, Finding, Store, StoreOptions};
use simulated::*;
use std::collections::BTreeMap;
use std::time::Duration;

type Rows = BTreeMap<i64, Row>;

const TRANSACTIONS: u64 = 24;

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("group", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
        .index("by_group", ["group"])
}

/// Whether an error says that the disk has failed.
fn is_due(error: &Error) -> bool {
    matches!(
        error,
        Error::Pages(_)
            | Error::Files(_)
            | Error::Tree(_)
            | Error::Overflow(_)
            | Error::DamagedTable { .. }
            | Error::DamagedCatalogue(_)
    )
}

fn is_failed(error: &Error) -> bool {
    matches!(error, Error::Pages(PagesError::Failed { .. }))
}

/// One transaction. `Err`: with what it would have left, if it may have been
/// committed.
fn transact(
    store: &Store,
    random: &mut Random,
    rows: &Rows,
) -> Result<Rows, (Error, Option<Rows>)> {
    let mut rows = rows.clone();
    let mut transaction = store.begin();
    for _ in 0..1 + random.below(8) {
        let id = random.below(60) as i64;
        let length = if random.below(8) == 0 { 9000 } else { 400 };
        let text = char::from(b'a' + random.below(26) as u8)
            .to_string()
            .repeat(length);
        let row: Row = vec![id.into(), (random.below(5) as i64).into(), text.into()];
        let changed = match rows.contains_key(&id) {
            true if random.below(3) == 0 => {
                rows.remove(&id);
                transaction.delete("t", &[id.into()]).map(|_| ())
            }
            true => {
                rows.insert(id, row.clone());
                transaction.update("t", row).map(|_| ())
            }
            false => {
                rows.insert(id, row.clone());
                transaction.insert("t", row)
            }
        };
        changed.map_err(|error| (error, None))?;
    }
    match transaction.commit() {
        Ok(()) => Ok(rows),
        Err(error) => Err((error, Some(rows))),
    }
}

fn read(store: &Store) -> Result<Rows, Error> {
    let mut transaction = store.begin();
    let rows = transaction.range("t", .., Direction::Forward)?;
    rows.map(|row| {
        let row = row?;
        match row[0] {
            Value::Integer(id) => Ok((id, row)),
            _ => panic!("an id"),
        }
    })
    .collect()
}

/// Runs some transactions on a disk with a fault. Returns whether anybody
/// noticed it, and how many operations there were.
fn run(plan: &str, seed: u64, arena: &Arena) -> (bool, u64) {
    // Counted by what costs nothing.
    let counted: FaultPlan = format!("{plan},stall=1ns:1").parse().unwrap();
    let disk = SimulatedDisk::builder().seed(seed).faults(counted);
    let disk = disk.build().unwrap();
    let noticed = run_on(&disk, plan, seed, arena);
    (noticed, operations(&disk))
}

fn run_on(disk: &SimulatedDisk, plan: &str, seed: u64, arena: &Arena) -> bool {
    let mut noticed = false;
    let mut note = |error: Error| {
        assert!(is_due(&error), "{plan}: {error}");
        noticed = true;
    };
    let mut options = options(disk, arena);
    options.lock_timeout = Duration::from_millis(10);
    let store = match Store::create(DIRECTORY, &options) {
        Ok(store) => store,
        Err(error) => {
            note(error);
            return noticed;
        }
    };
    let mut created = store.create_table(&schema());
    if created.is_err() {
        note(created.unwrap_err());
        created = store.create_table(&schema());
    }
    let mut possible = vec![Rows::new()];
    let mut random = Random(seed);
    if created.is_ok() {
        for _ in 0..TRANSACTIONS {
            match transact(&store, &mut random, possible.last().unwrap()) {
                Ok(rows) => possible = vec![rows],
                // Abandoned by one whose rollback failed: its rows are locked.
                Err((Error::Lock(_) | Error::TooManyWriters { .. }, None)) => {}
                Err((error, maybe)) => {
                    let failed = is_failed(&error);
                    possible.extend(maybe);
                    note(error);
                    if failed {
                        // For good.
                        let mut again = store.begin();
                        let row = vec![1000.into(), 0.into(), "".into()];
                        let error = again.insert("t", row).and_then(|()| again.commit());
                        assert!(is_failed(&error.unwrap_err()), "{plan}");
                        break;
                    }
                    if possible.len() > 1 {
                        break;
                    }
                }
            }
            if random.below(4) == 0
                && let Err(error) = store.purge(30)
            {
                note(error);
            }
            if random.below(6) == 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
    if let Err(error) = store.close() {
        note(error);
    }
    // The fault comes once: a second attempt must succeed.
    let found = open_and_read(&options).or_else(|error| {
        note(error);
        open_and_read(&options)
    });
    match found.unwrap_or_else(|error| panic!("{plan}: {error}")) {
        Some(rows) => assert!(possible.contains(&rows), "{plan}: other rows"),
        None => assert!(noticed, "{plan}: the table is gone"),
    }
    noticed
}

/// The rows of a store that is in order, `None` without the table.
fn open_and_read(options: &StoreOptions) -> Result<Option<Rows>, Error> {
    let store = Store::open(DIRECTORY, options)?;
    let report = store.check()?;
    let unreadable = |finding: &Finding| finding.what.contains("Input/output error");
    if let Some(finding) = report.findings.iter().find(|finding| unreadable(finding)) {
        return Err(Error::DamagedCatalogue(finding.to_string()));
    }
    assert!(report.is_clean(), "{:#?}", report.findings);
    if store.tables().is_empty() {
        return Ok(None);
    }
    read(&store).map(Some)
}

fn at_every_operation(fault: &str, must_be_noticed: bool) {
    let seed = setting("IOLANE_TEST_SEED", 5);
    let arena = arena();
    let (mut noticed, mut last) = (0, 0);
    for operation in 1.. {
        let plan = format!("{fault}=#{operation}");
        let (here, operations) = run(&plan, seed + operation, &arena);
        noticed += u64::from(here);
        // Threads share the operations, so some runs have a few more.
        if operation > operations + 5 {
            last = operation;
            break;
        }
    }
    println!("{fault}: each of {last} operations, noticed {noticed} times");
    assert_eq!(noticed > 0, must_be_noticed);
}

#[test]
fn writes_that_fail() {
    at_every_operation("eio-write", true);
}

#[test]
fn syncs_that_fail() {
    at_every_operation("eio-sync", true);
}

#[test]
fn reads_that_fail() {
    at_every_operation("eio-read", true);
}

#[test]
fn a_full_disk() {
    at_every_operation("enospc", true);
}

#[test]
fn short_transfers_are_completed() {
    at_every_operation("short", false);
}
