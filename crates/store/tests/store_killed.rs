//! A program that is killed at any moment, again and again: its store has every
//! commit that it was told of, and is in order.

use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, Durability, Error, Store, StoreOptions};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const DIRECTORY: &str = "IOLANE_STORE_TEST_DIRECTORY";
const THREADS: i64 = 2;
/// Rows of each thread.
const ROWS: i64 = 30;

fn options() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.pages.page_bytes = 4096;
    options.pages.pool_bytes = 100 * 4096;
    options.pages.log_bytes = 1 << 20;
    options
}

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("version", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
        .index("by_version", ["version"])
}

/// All rows of a thread say which commit of it they are of, or an earlier one;
/// the thread's row 0 is of the last.
fn row(id: i64, version: i64) -> Row {
    let length = (version * 31 + id * 7) % 900 + if version % 13 == 0 { 5000 } else { 0 };
    let letter = char::from(b'a' + (version % 26) as u8).to_string();
    vec![
        id.into(),
        version.into(),
        letter.repeat(length as usize).into(),
    ]
}

fn version_of(store: &Store, id: i64) -> i64 {
    match store.begin().get("t", &[id.into()]).unwrap() {
        None => 0,
        Some(row) => match row[1] {
            Value::Integer(version) => version,
            _ => panic!("a version"),
        },
    }
}

fn put(store: &Store, thread: i64, version: i64) -> Result<(), Error> {
    let mut transaction = store.begin();
    let first = thread * ROWS;
    for id in [first, first + 1 + version % (ROWS - 1)] {
        if !transaction.update("t", row(id, version))? {
            transaction.insert("t", row(id, version))?;
        }
    }
    let gone = first + 1 + (version * 5 + 3) % (ROWS - 1);
    if version % 3 == 0 && gone != first + 1 + version % (ROWS - 1) {
        transaction.delete("t", &[gone.into()])?;
    }
    // The second thread's commits need not be on the disk: they are to survive
    // the program, not the machine.
    transaction.commit_with(match thread {
        0 => Durability::Synced,
        _ => Durability::Written,
    })
}

/// Runs until it is killed. Each line that it prints is a commit.
#[test]
#[ignore = "run by the other test in a process of its own"]
fn child() {
    let path = std::env::var(DIRECTORY).expect("the directory to work in");
    let store = Store::open(&path, &options()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let mut version = version_of(store, thread * ROWS);
                loop {
                    version += 1;
                    put(store, thread, version).unwrap();
                    println!("committed {thread} {version}");
                }
            });
        }
    });
}

/// What the child had been told when it was killed.
fn run_and_kill(path: &Path, round: u64) -> BTreeMap<i64, i64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env(DIRECTORY, path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        let mut told = BTreeMap::new();
        for line in output.lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            // The last line may be cut short, to a smaller number.
            if let ["committed", thread, version] = words[..]
                && let (Ok(thread), Ok(version)) = (thread.parse(), version.parse::<i64>())
            {
                let last: &mut i64 = told.entry(thread).or_default();
                *last = version.max(*last);
            }
        }
        told
    });
    // Sometimes while it recovers.
    std::thread::sleep(Duration::from_millis(round * 37 % 400));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

fn check(path: &Path, told: &BTreeMap<i64, i64>) {
    let store = Store::open(path, &options()).unwrap();
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    for (&thread, &version) in told {
        let found = version_of(&store, thread * ROWS);
        assert!(found >= version, "thread {thread}: {found} of {version}");
    }
    // Nothing by halves: what the last commit of each thread has changed.
    for thread in 0..THREADS {
        let first = thread * ROWS;
        let last = version_of(&store, first);
        if last > 0 {
            let other = first + 1 + last % (ROWS - 1);
            assert_eq!(version_of(&store, other), last);
        }
    }
    let mut transaction = store.begin();
    for found in transaction.range("t", .., Direction::Forward).unwrap() {
        let found = found.unwrap();
        let (Value::Integer(id), Value::Integer(version)) = (&found[0], &found[1]) else {
            panic!("numbers");
        };
        assert_eq!(found, row(*id, *version));
    }
}

#[test]
fn a_killed_program_leaves_a_store_in_order() {
    let rounds = std::env::var("IOLANE_KILL_ROUNDS").ok();
    let rounds = rounds.and_then(|text| text.parse().ok()).unwrap_or(20);
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path();
    let store = Store::create(path, &options()).unwrap();
    store.create_table(&schema()).unwrap();
    store.close().unwrap();
    let mut told = BTreeMap::new();
    for round in 1..=rounds {
        for (thread, version) in run_and_kill(path, round) {
            told.insert(thread, version);
        }
        // Every second time the next child recovers.
        if round % 2 == 0 {
            check(path, &told);
        }
    }
    check(path, &told);
    assert_eq!(told.len() as i64, THREADS, "commits of every thread");
    println!("{rounds} rounds, commits: {told:?}");
}
