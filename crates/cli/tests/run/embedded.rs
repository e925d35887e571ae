//! Programs with a database inside, under `iolane run`: killed while they work, their
//! files are whole, and hold all that was acknowledged.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::place::{has_disk, iolane_run, on_disk, report, scheduled, text, wait_until};
use crate::servers::{
    ROWS_MIN, WORK, acknowledged_in, check, has, kill, kills, output, start_inserting,
};

/// Under `iolane run`; its number goes into a file.
fn under(directory: &Path, command: &str) -> Command {
    let script = format!("echo $$ >{}/number; exec {command}", directory.display());
    let mut under = iolane_run(&directory.join("report.json"));
    under.args(["sh", "-c", &script]);
    under
}

fn number(directory: &Path) -> String {
    let text = fs::read_to_string(directory.join("number")).unwrap();
    text.trim().to_owned()
}

/// The report of a run whose command was killed says that it was scheduled.
fn was_scheduled(directory: &Path) {
    let report = report(&directory.join("report.json"));
    if !has_disk(&report) {
        return;
    }
    assert!(scheduled(&report) > 0, "{report}");
}

fn sqlite_survives(journal: &str) {
    if !has("sqlite3") {
        iolane_testing::skipped("sqlite3 is not installed");
        return;
    }
    let place = on_disk();
    let database = place.path().join("t.db");
    let ask = |question: &str| output(Command::new("sqlite3").arg(&database).arg(question));
    ask(&format!(
        "PRAGMA journal_mode={journal}; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)"
    ));
    for _ in 0..kills() {
        let acknowledged = place.path().join("acknowledged");
        let mut inserting = start_inserting(
            under(
                place.path(),
                &format!(
                    "sqlite3 -cmd 'PRAGMA synchronous=FULL' {}",
                    database.display()
                ),
            ),
            &acknowledged,
            "INSERT INTO t(v) VALUES (hex(zeroblob(350))); SELECT max(id) FROM t;\n",
        );
        wait_until(|| acknowledged_in(&acknowledged).len() >= ROWS_MIN);
        std::thread::sleep(WORK);
        kill(&number(place.path()));
        assert_eq!(inserting.wait().unwrap().code(), Some(128 + 9));
        check(&acknowledged, &ask("SELECT id FROM t"));
        assert_eq!(ask("PRAGMA integrity_check"), "ok");
        was_scheduled(place.path());
    }
}

#[test]
fn sqlite_with_a_write_ahead_log_comes_back() {
    sqlite_survives("WAL");
}

#[test]
fn sqlite_with_a_journal_comes_back() {
    sqlite_survives("DELETE");
}

/// Names of RocksDB's tables: each is another's.
fn tables(directory: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(directory.join("db")).into_iter().flatten();
    let paths = entries.flatten().map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .filter_map(|path| path.file_name().map(OsStr::to_owned))
        .collect()
}

/// RocksDB's own program, with a sync for each write.
#[test]
fn rocksdb_comes_back() {
    if !has("db_bench") || !has("ldb") {
        iolane_testing::skipped("db_bench is not installed (rocksdb-tools)");
        return;
    }
    let place = on_disk();
    let database = place.path().join("db");
    let database = database.display();
    // A memtable of 256 KiB: flushes and compactions run all the time.
    let options = format!(
        "--db={database} --num=200000 --value_size=1000 --write_buffer_size=262144 --target_file_size_base=262144 \
         --max_bytes_for_level_base=1048576 --disable_wal=0 --sync=1 --threads=2"
    );
    for kill_number in 0..kills() {
        // The first makes the database anew.
        let (benchmark, existing) = match kill_number {
            0 => ("fillrandom", 0),
            _ => ("overwrite", 1),
        };
        let before = tables(place.path());
        let mut working = under(
            place.path(),
            &format!("db_bench --benchmarks={benchmark} --use_existing_db={existing} {options}"),
        )
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
        wait_until(|| tables(place.path()).difference(&before).count() > 2);
        std::thread::sleep(WORK);
        kill(&number(place.path()));
        assert_eq!(working.wait().unwrap().code(), Some(128 + 9));
        was_scheduled(place.path());
        let consistent = Command::new("ldb")
            .arg(format!("--db={database}"))
            .arg("checkconsistency")
            .output()
            .unwrap();
        assert!(text(&consistent).contains("OK"), "{consistent:?}");
    }
    // Every block of every table is read, under it, too.
    let checked = under(
        place.path(),
        &format!("db_bench --benchmarks=verifychecksum,readseq --use_existing_db=1 {options}"),
    )
    .stderr(Stdio::null())
    .output()
    .unwrap();
    assert!(text(&checked).contains("readseq"), "{checked:?}");
}
