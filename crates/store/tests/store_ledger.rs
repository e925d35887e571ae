//! The ledger says what a store's I/O was for.

use iolane::{Engine, Level};
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{
    Direction, FileClass, Ledger, LockMode, Role, Store, StoreOptions, Transaction, WhenLocked,
};
use std::path::Path;
use std::sync::Arc;

const ROWS: i64 = 4000;

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("payload", ColumnType::Blob)
        .primary_key(["id"])
}

fn row(id: i64, byte: u8) -> Row {
    vec![id.into(), Value::Blob(vec![byte; 1000])]
}

/// Twice its pool. Nobody purges: purge looks at indexes as queries do, and at as
/// many as it comes to before they are counted.
fn loaded(directory: &Path, purge_lag_bytes: Option<u64>) -> Store {
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = 2 << 20;
    options.purge_thread = false;
    options.purge_lag_bytes = purge_lag_bytes;
    let store = Store::create(directory.join("store"), &options).unwrap();
    store.create_table(&schema()).unwrap();
    let rows = (0..ROWS).map(|id| row(id, 1));
    store.bulk_load("t", rows).unwrap();
    store
}

fn read_all(transaction: &mut Transaction<'_>) {
    let rows = transaction.range("t", .., Direction::Forward).unwrap();
    assert_eq!(rows.count(), ROWS as usize);
}

#[test]
fn each_role_pays_for_its_own() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("store");
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = 2 << 20;
    options.pages.log_bytes = 4 << 20;
    let store = Store::create(&path, &options).unwrap();
    store.create_table(&schema()).unwrap();
    let before = store.ledger();
    for chunk in (0..ROWS).collect::<Vec<_>>().chunks(100) {
        let mut transaction = store.begin();
        for &id in chunk {
            transaction.insert("t", row(id, id as u8)).unwrap();
        }
        transaction.commit().unwrap();
    }
    read_all(&mut store.begin());

    let did = store.ledger().since(&before);
    let log = did.role(Role::Log);
    let critical = &log.levels[Level::Critical.index()];
    assert!(critical.write.requests >= 40);
    assert!(critical.write.bytes >= 1000 * ROWS as u64);
    // Twice the pool was changed, so pages were written; and twice each.
    let written: u64 = [Role::Preflush, Role::Checkpoint, Role::Read]
        .iter()
        .map(|&role| did.role(role).total().write.bytes)
        .sum();
    assert!(written >= 2 << 21, "{written}");
    let read: u64 = [Role::Read, Role::Scan, Role::Guess]
        .iter()
        .map(|&role| did.role(role).total().read.requests)
        .sum();
    assert!(read >= 100, "{read}");
    assert_eq!(did.role(Role::Backup).total().total().requests, 0);
    assert_eq!(did.role(Role::Bulk).total().total().requests, 0);
    // Nothing of the store's goes to the device without a role.
    let all: u64 = Role::ALL
        .iter()
        .map(|&role| did.role(role).total().total().requests)
        .sum();
    assert_eq!(all, did.device().total().total().requests);
    for class in FileClass::ALL {
        let busy: u64 = did.outstanding(class).times_ns().iter().skip(1).sum();
        assert!(busy > 0, "{}", class.name());
    }
    let now = store.outstanding();
    assert!(FileClass::Log.of(&now).times_ns().len() > 1);
}

/// A bulk transaction reads at the lowest level, whatever it does, and nothing
/// for others.
#[test]
fn a_bulk_transaction_reads_in_the_background() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let store = loaded(directory.path(), None);
    let work: [&dyn Fn(&mut Transaction<'_>); 4] = [
        &read_all,
        &|transaction| {
            for id in (0..ROWS).step_by(20) {
                let row = transaction.get("t", &[id.into()]).unwrap();
                assert!(row.is_some());
            }
        },
        &|transaction| {
            for id in (0..ROWS).step_by(20) {
                assert!(transaction.update("t", row(id, 2)).unwrap());
            }
        },
        &|transaction| {
            let (mode, when) = (LockMode::Exclusive, WhenLocked::Wait);
            let rows = transaction.lock_range("t", .., Direction::Backward, mode, when);
            assert_eq!(rows.unwrap().count(), ROWS as usize);
        },
    ];
    for (number, work) in work.iter().enumerate() {
        let before = store.ledger();
        let mut transaction = store.begin_bulk();
        work(&mut transaction);
        transaction.commit().unwrap();
        let did = store.ledger().since(&before);
        let bulk = did.role(Role::Bulk);
        let background = bulk.levels[Level::Background.index()].read.requests;
        assert!(background >= 100, "{number}: {background}");
        assert_eq!(bulk.total().read.requests, background, "{number}");
        let others: u64 = [Role::Read, Role::Scan, Role::Index]
            .iter()
            .map(|&role| did.role(role).total().read.requests)
            .sum();
        assert_eq!(others, 0, "{number}");
    }
}

/// Purge reads undo that has left memory behind all others, until writers wait
/// for it.
#[test]
fn purge_reads_in_the_background_until_writers_wait_for_it() {
    for (lag_bytes, background) in [(u64::MAX, true), (0, false)] {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let store = loaded(directory.path(), Some(lag_bytes));
        let mut transaction = store.begin();
        for id in 0..ROWS {
            assert!(transaction.update("t", row(id, 2)).unwrap());
        }
        transaction.commit().unwrap();
        let before = store.ledger();
        while store.purge(1000).unwrap() > 0 {}
        let did = store.ledger().since(&before);
        // The older half of undo had to leave memory for the younger.
        let (purge, read) = (did.role(Role::Purge), did.role(Role::Read));
        let own = purge.levels[Level::Background.index()].read.requests;
        assert_eq!(purge.total().read.requests, own);
        let query = read.total().read.requests;
        let [as_expected, otherwise] = if background {
            [own, query]
        } else {
            [query, own]
        };
        assert!(as_expected >= 50, "{lag_bytes}: {as_expected}");
        assert!(otherwise <= 20, "{lag_bytes}: {otherwise}");
    }
}

/// All that a backup does stands back: also its copy's log, which is made of
/// zeros, and its pages and growth.
#[test]
fn a_backup_writes_in_the_background() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = 2 << 20;
    options.pages.log_bytes = 32 << 20;
    // The ledger is that of the device: of the copy, too.
    options.engine = Some(Arc::new(Engine::new().unwrap()));
    let store = Store::create(directory.path().join("store"), &options).unwrap();
    store.create_table(&schema()).unwrap();
    store
        .bulk_load("t", (0..ROWS).map(|id| row(id, 1)))
        .unwrap();
    let before = store.ledger();
    let copied = store.backup(directory.path().join("copy"), &options);
    assert_eq!(copied.unwrap(), ROWS as u64);
    let did = store.ledger().since(&before);
    let background = |role| did.role(role).levels[Level::Background.index()].write.bytes;
    assert!(background(Role::Log) >= 32 << 20);
    assert!(background(Role::Backup) >= 1000 * ROWS as u64);
    let all = did.device().total().total().bytes;
    let behind = did.device().levels[Level::Background.index()].total().bytes;
    assert!(all - behind <= 1 << 20, "{behind} of {all} bytes");
    // Its file grows at once.
    let syncs = did.role(Role::Space).total().total().requests;
    assert!(syncs <= 16, "{syncs}");
}

/// A load in bulk stands back like what it reads: with its pages, which go in short
/// writes, with the growth of its file and with its syncs.
#[test]
fn a_load_in_bulk_writes_in_the_background() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = 2 << 20;
    let store = Store::create(directory.path().join("store"), &options).unwrap();
    let mut transaction = store.begin_bulk();
    let mut load = transaction.load(&schema()).unwrap();
    let before = store.ledger();
    for id in 0..ROWS {
        load.push(&transaction, row(id, 1)).unwrap();
    }
    load.finish(&transaction).unwrap();
    let did = store.ledger().since(&before);
    drop(load);
    transaction.commit().unwrap();
    let bulk = did.role(Role::Bulk);
    let written = &bulk.levels[Level::Background.index()].write;
    assert!(written.bytes >= 1000 * ROWS as u64);
    assert!(written.bytes <= written.requests * (256 << 10));
    assert!(did.role(Role::Preflush).total().write.bytes <= 1 << 20);
    let growth = did.role(Role::Space);
    assert!(growth.levels[Level::Background.index()].sync.requests > 0);
}

/// What reading all of the table did.
fn ledger_of_all(store: &Store, transaction: &mut Transaction<'_>) -> Ledger {
    let before = store.ledger();
    read_all(transaction);
    store.ledger().since(&before)
}

/// A transaction may be a query's for one statement, and bulk for the next.
#[test]
fn a_transaction_changes_its_level_between_statements() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let store = loaded(directory.path(), None);
    let mut transaction = store.begin();
    for bulk in [true, false, true] {
        transaction.set_bulk(bulk);
        let did = ledger_of_all(&store, &mut transaction);
        let levels = did.role(Role::Bulk).levels;
        let background = levels[Level::Background.index()].read.requests;
        let scan = did.role(Role::Scan).total().read.requests;
        assert_eq!(background >= 100, bulk, "{background}");
        assert_eq!(scan >= 10, !bulk, "{scan}");
    }
}

/// One that has become bulk after another one began to wait for its rows hurries, too.
#[test]
fn who_becomes_bulk_while_others_wait_hurries() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let store = loaded(directory.path(), None);
    let mut transaction = store.begin();
    assert!(transaction.update("t", row(0, 2)).unwrap());
    let (sender, waits) = std::sync::mpsc::channel();
    store.observe_waits(move |_, _| sender.send(()).is_ok());
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut other = store.begin();
            other.set_owner(1);
            other.update("t", row(0, 3))
        });
        waits.recv().unwrap();
        transaction.set_bulk(true);
        // Read ahead for it as ever, but what it waits for is a query's.
        let did = ledger_of_all(&store, &mut transaction);
        assert!(did.role(Role::Read).total().read.requests > 0);
        transaction.rollback().unwrap();
        assert!(waiting.join().unwrap().unwrap());
    });
}

/// What a bulk transaction reads is as urgent as a query once somebody waits
/// for a row that it has changed.
#[test]
fn a_bulk_transaction_hurries_when_its_rows_are_waited_for() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let store = loaded(directory.path(), None);
    let mut bulk = store.begin_bulk();
    assert!(bulk.update("t", row(0, 2)).unwrap());
    // What it reads for a round through the table: by whom, as the ledger says.
    let reads = |bulk: &mut Transaction<'_>| {
        let before = store.ledger();
        for id in (0..ROWS).step_by(20) {
            assert!(bulk.get("t", &[id.into()]).unwrap().is_some());
        }
        let did = store.ledger().since(&before);
        [Role::Bulk, Role::Read].map(|role| did.role(role).total().read.requests)
    };
    let [own, query] = reads(&mut bulk);
    assert!(own >= 100 && query == 0, "{own}, {query}");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut other = store.begin();
            other.update("t", row(0, 3))
        });
        // The first rounds may have begun before the other waits.
        let mut rounds = 0;
        while reads(&mut bulk)[0] > 0 {
            assert!(!waiting.is_finished() && rounds < 1000);
            rounds += 1;
        }
        let [own, query] = reads(&mut bulk);
        assert!(own == 0 && query >= 100, "{own}, {query}");
        bulk.rollback().unwrap();
        assert!(waiting.join().unwrap().unwrap());
    });
}
