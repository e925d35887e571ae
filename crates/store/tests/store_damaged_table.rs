//! A table whose description cannot be read: the others are as they were, and
//! nothing of it is lost or shown until it can be read again or is dropped.

mod simulated;

use iolane::{Arena, Engine, Level, OpenOptions, SimulatedDisk};
use iolane_disk::power::{CrashPlan, Images, RecorderLimits};
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::page::header;
use iolane_store::{DOUBLEWRITE_FILE, Direction, Error, Store};
use simulated::*;
use std::collections::BTreeMap;

const PAGE: usize = 4096;
const BROKEN: &str = "broken";
const KEPT: &str = "kept";
/// Without an index.
const PLAIN: &str = "plain";
const ROWS: i64 = 60;

type Files = Vec<(String, Vec<u8>)>;
type Rows = BTreeMap<i64, Row>;

fn schema(name: &str) -> TableSchema {
    TableSchema::new(name)
        .column("id", ColumnType::Integer)
        .column("tag", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
        .unique_index("by_tag", ["tag"])
}

fn row(id: i64, tag: i64) -> Row {
    // One in ten has pages of its own.
    let text = "t".repeat(if id % 10 == 7 { 9000 } else { 40 });
    vec![id.into(), tag.into(), text.into()]
}

fn filled() -> Rows {
    (0..ROWS).map(|id| (id, row(id, id))).collect()
}

/// What a table holds, by its primary key and by its index.
fn rows(store: &Store, table: &str) -> Rows {
    let mut transaction = store.begin();
    let mut collect = |by_index: bool| -> Rows {
        let found = match by_index {
            false => transaction.range(table, .., Direction::Forward),
            true => transaction.range_by(table, "by_tag", .., Direction::Forward),
        };
        let found = found.unwrap().map(|row| {
            let row = row.unwrap();
            let Value::Integer(id) = row[0] else {
                panic!("an id")
            };
            (id, row)
        });
        found.collect()
    };
    let found = collect(false);
    assert_eq!(found, collect(true));
    found
}

fn put(store: &Store, table: &str, row: Row) -> Result<(), Error> {
    let mut one = store.begin();
    if !one.update(table, row.clone())? {
        one.insert(table, row)?;
    }
    one.commit()
}

/// A disk with an open store of two tables, in their places.
fn open_store(arena: &Arena) -> (SimulatedDisk, Store) {
    let disk = SimulatedDisk::builder().build().unwrap();
    let store = Store::create(DIRECTORY, &options(&disk, arena)).unwrap();
    for name in [BROKEN, KEPT] {
        store.create_table(&schema(name)).unwrap();
        for row in filled().into_values() {
            put(&store, name, row).unwrap();
        }
    }
    while store.purge(1000).unwrap() > 0 {}
    store.checkpoint().unwrap();
    (disk, store)
}

/// What is on a disk, without copies of pages.
fn without_copies(disk: &SimulatedDisk) -> Files {
    let mut files = files(disk);
    for (name, contents) in &mut files {
        if name.ends_with(DOUBLEWRITE_FILE) {
            contents[2 * PAGE..].fill(0);
        }
    }
    files
}

fn closed(arena: &Arena) -> Files {
    let (disk, store) = open_store(arena);
    store.close().unwrap();
    without_copies(&disk)
}

/// The file of the table that was made first: it has the least number.
fn broken_file(files: &Files) -> usize {
    let tables = files.iter().enumerate();
    let tables = tables.filter(|(_, (name, _))| name.contains("table-"));
    let (file, _) = tables
        .min_by_key(|(_, (name, _))| (name.len(), name.clone()))
        .unwrap();
    file
}

/// That, and the page that describes it.
fn broken(files: &Files) -> (usize, usize) {
    let file = broken_file(files);
    let described = br#""name":"broken""#;
    let mut pages = files[file].1.chunks(PAGE);
    let page = pages.position(|page| page.windows(described.len()).any(|at| at == described));
    (file, page.unwrap())
}

fn with_flipped(files: &Files, page: usize, byte: usize) -> Files {
    let mut files = files.clone();
    let (file, _) = broken(&files);
    files[file].1[page * PAGE + byte] ^= 0x10;
    files
}

fn assert_damaged<T>(what: &str, result: Result<T, Error>) {
    match result {
        Ok(_) => panic!("{what}: no error"),
        Err(error) => {
            assert!(
                matches!(&error, Error::DamagedTable { table, .. } if table == BROKEN),
                "{what}: {error}"
            );
            assert!(error.is_damage() && error.to_string().contains("table broken is damaged"));
        }
    }
}

/// Whatever is done with the damaged table is an error that names it.
fn assert_unusable(store: &Store, disk: &SimulatedDisk, arena: &Arena) {
    let names = |tables: Vec<TableSchema>| -> Vec<String> {
        tables.into_iter().map(|table| table.name).collect()
    };
    assert_eq!(names(store.tables()), [KEPT]);
    let damaged = store.damaged_tables();
    assert!(damaged.len() == 1 && damaged[0].name == BROKEN && !damaged[0].reason.is_empty());
    let mut one = store.begin();
    assert_damaged("get", one.get(BROKEN, &[1.into()]));
    assert_damaged("range", one.range(BROKEN, .., Direction::Forward).map(drop));
    let by = one.range_by(BROKEN, "by_tag", .., Direction::Forward);
    assert_damaged("range by index", by.map(drop));
    assert_damaged("insert", one.insert(BROKEN, row(1000, 1000)));
    assert_damaged("update", one.update(BROKEN, row(1, 1)));
    assert_damaged("delete", one.delete(BROKEN, &[1.into()]));
    // The transaction can go on.
    assert_eq!(one.get(KEPT, &[1.into()]).unwrap(), Some(row(1, 1)));
    drop(one);
    assert_damaged("load", store.bulk_load(BROKEN, [row(1, 1)]));
    assert_damaged("create", store.create_table(&schema(BROKEN)));
    assert_damaged("space", store.table_space(BROKEN));
    assert_damaged("backup", store.backup("copy", &options(disk, arena)));
    assert!(!disk.names().iter().any(|name| name.starts_with("copy")));
    let report = store.check().unwrap();
    let of_broken = |place: &str| place == "table broken";
    assert!(report.findings.iter().any(|it| of_broken(&it.place)));
    assert_eq!(report.tables, 2);
}

/// The other table can be read and changed, now and after it was opened again;
/// not a byte of the damaged one is. Returns what is in the other one then.
fn assert_others_work(disk: &SimulatedDisk, arena: &Arena, what: &str) -> Rows {
    let file = |disk: &SimulatedDisk| {
        let files = files(disk);
        files[broken_file(&files)].clone()
    };
    let before = file(disk);
    let mut expected = filled();
    for round in 0..2 {
        let store = Store::open(DIRECTORY, &options(disk, arena));
        let store = store.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_unusable(&store, disk, arena);
        assert_eq!(rows(&store, KEPT), expected, "{what}");
        for id in [3, ROWS + 7 + 10 * round] {
            let row = row(id, ROWS + 20 * (round + 1) + id);
            put(&store, KEPT, row.clone()).unwrap();
            expected.insert(id, row);
        }
        store.begin().rollback().unwrap();
        while store.purge(1000).unwrap() > 0 {}
        assert_eq!(rows(&store, KEPT), expected, "{what}");
        let report = store.check().unwrap();
        assert_eq!(report.findings.len(), 1, "{what}: {:#?}", report.findings);
        store.close().unwrap();
        assert!(file(disk) == before, "{what}");
    }
    expected
}

/// Once it is dropped, a table of its name can be made and filled.
fn assert_replaceable(disk: &SimulatedDisk, arena: &Arena, kept: &Rows) {
    let store = Store::open(DIRECTORY, &options(disk, arena)).unwrap();
    store.drop_table(BROKEN).unwrap();
    assert!(store.damaged_tables().is_empty());
    let gone = store.drop_table(BROKEN);
    assert!(matches!(gone, Err(Error::UnknownTable(_))));
    assert!(store.check().unwrap().is_clean());
    store.close().unwrap();
    let count = |disk: &SimulatedDisk| {
        let names = disk.names();
        names.iter().filter(|name| name.contains("table-")).count()
    };
    assert_eq!(count(disk), 1);
    let store = Store::open(DIRECTORY, &options(disk, arena)).unwrap();
    assert!(store.damaged_tables().is_empty());
    store.create_table(&schema(BROKEN)).unwrap();
    let loaded = store.bulk_load(BROKEN, filled().into_values()).unwrap();
    assert_eq!(loaded, ROWS as u64);
    store.close().unwrap();
    let store = Store::open(DIRECTORY, &options(disk, arena)).unwrap();
    assert_eq!(
        (rows(&store, BROKEN), rows(&store, KEPT)),
        (filled(), kept.clone())
    );
    assert!(store.check().unwrap().is_clean());
    assert_eq!(count(disk), 2);
}

#[test]
fn a_page_that_describes_a_table_takes_no_other_with_it() {
    let arena = arena();
    let files = closed(&arena);
    let (_, described) = broken(&files);
    let mut found = Vec::new();
    for page in 0..described + 4 {
        // Checksum, number, kind, and what the page is for.
        for byte in [1, 9, 13, 22, 70, 100, 700, 4000] {
            let disk = disk_with(&with_flipped(&files, page, byte));
            let store = Store::open(DIRECTORY, &options(&disk, &arena));
            let store = store.unwrap_or_else(|error| panic!("page {page}: {error}"));
            let is_damaged = !store.damaged_tables().is_empty();
            drop(store);
            if !is_damaged {
                continue;
            }
            let what = format!("byte {byte} of page {page}");
            // Opening it once more changes nothing.
            let kept = assert_others_work(&disk, &arena, &what);
            assert_replaceable(&disk, &arena, &kept);
            found.push(page);
        }
    }
    let count = found.len();
    found.dedup();
    // Its header, which pages are in use, its segments, and its description.
    assert_eq!(found, [0, 1, 2, described]);
    assert_eq!(count, 8 * 4, "any byte of them");
}

#[test]
fn a_file_that_was_cut_short() {
    let arena = arena();
    let mut files = closed(&arena);
    let (file, _) = broken(&files);
    let pages = files[file].1.len() / PAGE;
    files[file].1.truncate((pages - 1) * PAGE);
    let disk = disk_with(&files);
    let kept = assert_others_work(&disk, &arena, "one page less");
    assert_replaceable(&disk, &arena, &kept);
}

#[test]
fn every_byte_of_a_description() {
    let arena = arena();
    let files = closed(&arena);
    let (_, described) = broken(&files);
    for byte in (0..PAGE).step_by(37) {
        let disk = disk_with(&with_flipped(&files, described, byte));
        let store = Store::open(DIRECTORY, &options(&disk, &arena)).unwrap();
        let damaged = store.damaged_tables();
        let reason = &damaged[0].reason;
        assert!(reason.contains(&format!("page {described} of")), "{reason}");
        assert_eq!(rows(&store, KEPT), filled());
    }
}

/// A check tells before the store is opened the next time.
#[test]
fn a_description_that_is_damaged_while_the_store_is_open() {
    let arena = arena();
    let (disk, store) = open_store(&arena);
    assert!(store.check().unwrap().is_clean());
    let (file, described) = broken(&without_copies(&disk));
    let engine = Engine::builder().simulated(&disk).build().unwrap();
    let mut write = OpenOptions::new();
    write.read(true).write(true);
    for (index, (name, contents)) in files(&disk).iter().enumerate() {
        let (bytes, at) = match () {
            () if index == file => (vec![0x5a; 64], described * PAGE + 100),
            () if name.ends_with(DOUBLEWRITE_FILE) => (vec![0; contents.len() - PAGE], PAGE),
            () => continue,
        };
        let file = engine.open(name, &write).unwrap();
        file.write_at(&bytes, at as u64, Level::Normal).unwrap();
    }
    // The page leaves memory.
    store.create_table(&schema("large")).unwrap();
    let many = (0..30_000).map(|id| row(10 * id, id));
    store.bulk_load("large", many).unwrap();
    assert_eq!(rows(&store, "large").len(), 30_000);
    let report = store.check().unwrap();
    assert_eq!(report.findings.len(), 1, "{:#?}", report.findings);
    let told = report.findings[0].to_string();
    assert!(
        told.contains(&format!("table broken: page {described} of")),
        "{told}"
    );
    assert_eq!(rows(&store, BROKEN), filled(), "it is not needed any more");
}

/// Pages whose checksums are right.
#[test]
fn a_description_that_says_something_else() {
    let arena = arena();
    let files = closed(&arena);
    let (file, described) = broken(&files);
    for (from, to, told) in [
        (
            &br#""name":"broken""#[..],
            &br#""name":"tokens""#[..],
            "of another one",
        ),
        (br#""name":"broken""#, br#""name"!"broken""#, "expected `:`"),
        (br#""primary_key":["id"]"#, br#""primary_key":["xy"]"#, "xy"),
    ] {
        let mut files = files.clone();
        let page = &mut files[file].1[described * PAGE..][..PAGE];
        let at = page.windows(from.len()).position(|at| at == from).unwrap();
        page[at..at + from.len()].copy_from_slice(to);
        header::seal(page);
        let disk = disk_with(&files);
        let store = Store::open(DIRECTORY, &options(&disk, &arena)).unwrap();
        let reason = store.damaged_tables()[0].reason.clone();
        assert!(reason.contains(told), "{reason}");
        drop(store);
        let kept = assert_others_work(&disk, &arena, told);
        assert_replaceable(&disk, &arena, &kept);
    }
}

#[test]
fn a_file_that_is_missing_can_be_put_back() {
    let arena = arena();
    let mut files = closed(&arena);
    let (file, _) = broken(&files);
    let missing = files.remove(file);
    let disk = disk_with(&files);
    for tag in [500, 501] {
        let store = Store::open(DIRECTORY, &options(&disk, &arena)).unwrap();
        assert_unusable(&store, &disk, &arena);
        assert_eq!(store.damaged_tables()[0].reason, "its file is missing");
        put(&store, KEPT, row(5, tag)).unwrap();
        store.close().unwrap();
    }
    let mut now = simulated::files(&disk);
    now.push(missing);
    let back = disk_with(&now);
    let store = Store::open(DIRECTORY, &options(&back, &arena)).unwrap();
    assert_eq!(rows(&store, BROKEN), filled());
    assert_eq!(rows(&store, KEPT)[&5], row(5, 501));
    assert!(store.check().unwrap().is_clean());
    drop(store);
    // Or it is given up.
    let store = Store::open(DIRECTORY, &options(&disk, &arena)).unwrap();
    store.drop_table(BROKEN).unwrap();
    store.close().unwrap();
    let store = Store::open(DIRECTORY, &options(&disk, &arena)).unwrap();
    assert!(store.check().unwrap().is_clean());
    assert!(store.damaged_tables().is_empty());
}

/// Else it would be put back without what was committed.
#[test]
fn the_log_keeps_what_a_missing_file_lacks() {
    let arena = arena();
    let (disk, store) = open_store(&arena);
    put(&store, BROKEN, row(1, 700)).unwrap();
    put(&store, KEPT, row(1, 700)).unwrap();
    let files = without_copies(&disk);
    drop(store);
    let (file, _) = broken(&files);
    let mut without = files.clone();
    let missing = without.remove(file);
    let disk = disk_with(&without);
    for _ in 0..2 {
        let refused = Store::open(DIRECTORY, &options(&disk, &arena))
            .err()
            .unwrap();
        assert!(matches!(refused, Error::DamagedCatalogue(_)), "{refused}");
        assert!(refused.to_string().contains("the log has changes of it"));
    }
    let mut now = simulated::files(&disk);
    now.push(missing);
    let disk = disk_with(&now);
    let store = Store::open(DIRECTORY, &options(&disk, &arena)).unwrap();
    for table in [BROKEN, KEPT] {
        assert_eq!(rows(&store, table)[&1], row(1, 700));
    }
    assert!(store.check().unwrap().is_clean());
}

/// A store that ended within a transaction and before purge, both of which had
/// to do with the two tables; with that table's description, and without.
fn interrupted(arena: &Arena) -> (Files, Files) {
    let (disk, store) = open_store(arena);
    let mut plain = schema(PLAIN);
    plain.indexes.clear();
    store.create_table(&plain).unwrap();
    put(&store, PLAIN, row(1, 1)).unwrap();
    let mut ended = store.begin();
    for table in [KEPT, BROKEN] {
        assert!(ended.delete(table, &[50.into()]).unwrap());
        assert!(ended.update(table, row(57, 570)).unwrap());
    }
    ended.commit().unwrap();
    let mut unfinished = store.begin();
    for table in [KEPT, BROKEN, KEPT] {
        let id = if table == KEPT { 10 } else { 11 };
        assert!(unfinished.update(table, row(id, 100 + id)).unwrap());
        assert!(unfinished.delete(table, &[20.into()]).unwrap() || table == KEPT);
        assert!(unfinished.update(table, row(27, 270)).unwrap());
        let _ = unfinished.insert(table, row(90, 90));
    }
    assert!(unfinished.update(PLAIN, row(1, 2)).unwrap());
    // What it has done is in the places of its pages, too.
    store.checkpoint().unwrap();
    let files = without_copies(&disk);
    drop(unfinished);
    let (_, described) = broken(&files);
    let damaged = with_flipped(&files, described, 100);
    (files, damaged)
}

/// What both tables hold without that transaction.
fn committed() -> Rows {
    let mut rows = filled();
    rows.remove(&50);
    rows.insert(57, row(57, 570));
    rows
}

/// Works with the other table, around what nobody has rolled back.
fn work_around(store: &Store, kept: &mut Rows, tag: i64) {
    assert_eq!(store.recovery().1, 0);
    assert_eq!(store.statistics().writing, 1);
    assert_eq!(&rows(store, KEPT), kept);
    let is_refused = |result: Result<(), Error>| {
        let error = result.expect_err("it would be overwritten");
        assert!(
            matches!(&error, Error::Unfinished { table } if table == KEPT),
            "{error}"
        );
    };
    // Without an index it is looked at only when it is changed.
    let error = put(store, PLAIN, row(1, 3)).expect_err("it would be overwritten");
    assert!(
        matches!(&error, Error::Unfinished { table } if table == PLAIN),
        "{error}"
    );
    assert_eq!(
        store.begin().get(PLAIN, &[1.into()]).unwrap(),
        Some(row(1, 1))
    );
    // Its rows, also those that it has deleted and made.
    for id in [10, 20, 27, 90] {
        is_refused(put(store, KEPT, row(id, 1000 + id)));
    }
    let mut one = store.begin();
    is_refused(one.delete(KEPT, &[10.into()]).map(drop));
    // What they had in the index, and may get back.
    for free in [10, 20, 27, 90, 110, 270] {
        is_refused(one.insert(KEPT, row(2000, free)));
    }
    drop(one);
    put(store, KEPT, row(1, tag)).unwrap();
    kept.insert(1, row(1, tag));
    assert_eq!(&rows(store, KEPT), kept);
    while store.purge(1000).unwrap() > 0 {}
    let report = store.check().unwrap();
    let told: Vec<&str> = report.findings.iter().map(|it| it.place.as_str()).collect();
    assert!(told.len() == 2 && told[0] == "table broken", "{told:?}");
    assert!(told[1].starts_with("transaction "), "{told:?}");
}

#[test]
fn what_was_not_committed_is_never_shown_and_taken_back_later() {
    let arena = arena();
    let (files, damaged) = interrupted(&arena);
    let (file, described) = broken(&files);
    let disk = disk_with(&damaged);
    let mut kept = committed();
    for tag in [600, 601] {
        let store = Store::open(DIRECTORY, &options(&disk, &arena)).unwrap();
        work_around(&store, &mut kept, tag);
        store.close().unwrap();
    }
    // It can be read again: nothing that was to be done in it was passed over.
    let mut now = simulated::files(&disk);
    let name = &files[file].0;
    let again = now.iter_mut().find(|(other, _)| other == name).unwrap();
    let page = described * PAGE..(described + 1) * PAGE;
    again.1[page.clone()].copy_from_slice(&files[file].1[page]);
    let back = disk_with(&now);
    let store = Store::open(DIRECTORY, &options(&back, &arena)).unwrap();
    assert!(store.damaged_tables().is_empty());
    assert_eq!(store.recovery().1, 1);
    assert_eq!(
        (rows(&store, BROKEN), rows(&store, KEPT)),
        (committed(), kept.clone())
    );
    while store.purge(1000).unwrap() > 0 {}
    assert_eq!(store.statistics().unpurged, 0);
    assert!(store.check().unwrap().is_clean());
    drop(store);
    // Or it is dropped: the rest is rolled back and purged without it.
    let store = Store::open(DIRECTORY, &options(&disk, &arena)).unwrap();
    store.drop_table(BROKEN).unwrap();
    assert_eq!(rows(&store, KEPT), kept);
    store.close().unwrap();
    let store = Store::open(DIRECTORY, &options(&disk, &arena)).unwrap();
    assert_eq!(store.recovery().1, 1);
    put(&store, PLAIN, row(1, 3)).unwrap();
    put(&store, KEPT, row(10, 10)).unwrap();
    put(&store, KEPT, row(90, 90)).unwrap();
    kept.insert(90, row(90, 90));
    assert_eq!(rows(&store, KEPT), kept);
    while store.purge(1000).unwrap() > 0 {}
    assert_eq!(store.statistics().unpurged, 0);
    assert!(store.check().unwrap().is_clean());
}

/// Slots that are left alone leave as many to others.
#[test]
fn there_are_slots_for_writers() {
    let arena = arena();
    let (_, damaged) = interrupted(&arena);
    let disk = disk_with(&damaged);
    let mut options = options(&disk, &arena);
    options.undo_slots = 1;
    options.lock_timeout = std::time::Duration::from_millis(50);
    for tag in [800, 801] {
        let store = Store::open(DIRECTORY, &options).unwrap();
        put(&store, KEPT, row(2, tag)).unwrap();
        assert_eq!(rows(&store, KEPT)[&2], row(2, tag));
    }
}

/// The power fails at any moment while it is dropped.
#[test]
fn a_drop_is_done_whole_or_not_at_all() {
    let arena = arena();
    let files = closed(&arena);
    let (_, described) = broken(&files);
    for page in [0, 1, described] {
        drop_with_power_cuts(&with_flipped(&files, page, 100), page, &arena);
    }
}

fn drop_with_power_cuts(files: &Files, page: usize, arena: &Arena) {
    let disk = SimulatedDisk::builder().record(RecorderLimits::default());
    let disk = disk.build().unwrap();
    let engine = Engine::builder().simulated(&disk).build().unwrap();
    let mut create = OpenOptions::new();
    create.read(true).write(true).create(true);
    for (name, contents) in files {
        let file = engine.open(name, &create).unwrap();
        file.write_at(contents, 0, Level::Normal).unwrap();
        file.sync(Level::Normal).unwrap();
    }
    drop(engine);
    disk.sync_names();
    let recorder = disk.recorder().unwrap();
    recorder.mark(0);
    let store = Store::open(DIRECTORY, &options(&disk, arena)).unwrap();
    store.drop_table(BROKEN).unwrap();
    recorder.mark(1);
    put(&store, KEPT, row(1, 900)).unwrap();
    recorder.mark(2);
    store.close().unwrap();
    let recording = recorder.recording();
    let images = Images::new(&recording, CrashPlan::sampled(1, 12)).unwrap();
    let mut seen = [0; 2];
    for number in 0..images.count() {
        let image = images.image(number).unwrap();
        let Some(mark) = image.mark() else { continue };
        let cut = SimulatedDisk::from_image(&image).unwrap();
        let store = Store::open(DIRECTORY, &options(&cut, arena));
        let store = store.unwrap_or_else(|error| panic!("{image}: {error}"));
        let is_there = !store.damaged_tables().is_empty();
        seen[usize::from(is_there)] += 1;
        assert!(mark == 0 || !is_there, "{image}");
        let mut found = rows(&store, KEPT);
        if mark == 2 || found[&1] == row(1, 900) {
            assert_eq!(found.insert(1, row(1, 1)), Some(row(1, 900)), "{image}");
        }
        assert_eq!(found, filled(), "{image}");
        if is_there {
            store.drop_table(BROKEN).unwrap();
        }
        let left = store.check().unwrap().findings;
        store.close().unwrap();
        let names = cut.names();
        let tables = names.iter().filter(|name| name.contains("table-"));
        // A file that does not say whose it is, nobody else removes.
        let is_left = page == 0 && left.len() == 1 && left[0].place.starts_with("tablespace ");
        assert!(is_left || left.is_empty(), "{image}: {left:#?}");
        assert_eq!(tables.count(), 1 + usize::from(is_left), "{image}");
        assert!(!(is_there && is_left), "{image}");
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}
