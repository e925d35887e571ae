//! Commits one row after the other until it is killed, and says whether they
//! are there: what `scripts/power-campaign` cuts the power under.
//!
//! `commits work DIRECTORY ACKNOWLEDGED ROUND` makes or opens a store, inserts and
//! updates one row a transaction in four threads, and prints `ID VERSION` after
//! each commit. `commits verify DIRECTORY ACKNOWLEDGED` opens it, checks it, and
//! looks for every row of that file, a line each as it was printed, in that
//! version or a later one.

use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, Store, StoreOptions};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const THREADS: i64 = 4;
/// Of a thread, in one round: what else it does is to update.
const INSERTS_MAX: i64 = 1000;
/// Transactions of a thread in one round, at most.
const VERSIONS: i64 = 1_000_000;
/// An insert comes so often.
const PER_INSERT: i64 = 8;

/// Small, so that pages are written all the time, and checkpoints are taken.
fn options() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = 8 << 20;
    options.pages.log_bytes = 16 << 20;
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

/// All of it follows from the two numbers. Some rows are larger than a page.
fn row(id: i64, version: i64) -> Row {
    let times = version % 40 + if version % 97 == 0 { 1500 } else { 1 };
    let text = format!("{id}:{version} ").repeat(times as usize);
    vec![id.into(), version.into(), text.into()]
}

fn acknowledged(path: &Path) -> Result<BTreeMap<i64, i64>, Failure> {
    let mut rows = BTreeMap::new();
    for line in std::fs::read_to_string(path)?.lines() {
        let (id, version) = line.split_once(' ').ok_or("a line without a blank")?;
        let (id, version): (i64, i64) = (id.parse()?, version.parse()?);
        let known: &mut i64 = rows.entry(id).or_default();
        *known = version.max(*known);
    }
    Ok(rows)
}

/// One thread's, until it is killed or something fails. `ids` are its rows.
fn commit(store: &Store, thread: i64, round: i64, mut ids: Vec<i64>) -> Result<(), Failure> {
    let mut random = (round * THREADS + thread + 1) as u64;
    let mut inserts = 0;
    for number in 1..VERSIONS {
        let version = round * VERSIONS + number;
        let inserting = ids.is_empty() || (number % PER_INSERT == 0 && inserts < INSERTS_MAX);
        let mut transaction = store.begin();
        let id = if inserting {
            let id = (round * INSERTS_MAX + inserts) * THREADS + thread;
            transaction.insert("t", row(id, version))?;
            inserts += 1;
            ids.push(id);
            id
        } else {
            // xorshift64 (Marsaglia 2003).
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let id = ids[(random % ids.len() as u64) as usize];
            if !transaction.update("t", row(id, version))? {
                return Err(format!("row {id} is gone").into());
            }
            id
        };
        transaction.commit()?;
        // One call a line: what is printed is whole.
        std::io::stdout().write_all(format!("{id} {version}\n").as_bytes())?;
    }
    Ok(())
}

fn work(path: &Path, acknowledged: &BTreeMap<i64, i64>, round: i64) -> Result<(), Failure> {
    let store = if path.exists() {
        Store::open(path, &options())?
    } else {
        let store = Store::create(path, &options())?;
        store.create_table(&schema())?;
        store
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let ids = acknowledged.keys().filter(|id| *id % THREADS == thread);
                let (store, ids) = (&store, ids.copied().collect());
                scope.spawn(move || commit(store, thread, round, ids))
            })
            .collect();
        let mut ends = threads.into_iter();
        ends.try_for_each(|thread| thread.join().expect("it panics on nothing"))
    })
}

fn verify(path: &Path, acknowledged: &BTreeMap<i64, i64>) -> Result<(), Failure> {
    let store = Store::open(path, &options())?;
    let report = store.check()?;
    if !report.is_clean() {
        return Err(format!("check: {:#?}", report.findings).into());
    }
    let mut there = BTreeMap::new();
    let mut transaction = store.begin();
    for found in transaction.range("t", .., Direction::Forward)? {
        let found = found?;
        let (Value::Integer(id), Value::Integer(version)) = (&found[0], &found[1]) else {
            return Err("a row without numbers".into());
        };
        if found != row(*id, *version) {
            return Err(format!("row {id} is not what version {version} was").into());
        }
        there.insert(*id, *version);
    }
    drop(transaction);
    for (id, version) in acknowledged {
        match there.get(id) {
            Some(found) if found >= version => {}
            found => return Err(format!("row {id}: version {version}, there is {found:?}").into()),
        }
    }
    store.close()?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, directory, file, round @ ..] = &arguments[..] else {
        return Err("work DIRECTORY ACKNOWLEDGED ROUND, or verify DIRECTORY ACKNOWLEDGED".into());
    };
    let path = PathBuf::from(directory).join("store");
    let acknowledged = acknowledged(Path::new(file))?;
    match (&what[..], round) {
        ("work", [round]) => work(&path, &acknowledged, round.parse()?),
        ("verify", []) => verify(&path, &acknowledged),
        _ => Err("work or verify?".into()),
    }
}
