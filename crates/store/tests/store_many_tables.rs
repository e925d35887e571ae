//! More tables than files may be open or maps fit into memory.

mod simulated;

use iolane::{Arena, SimulatedDisk};
use iolane_disk::power::{CrashPlan, Images, RecorderLimits};
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, Durability, Error, Store, StoreError, StoreOptions};
use simulated::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const PAGE: u64 = 4096;
/// Pages that a new table's file has.
const FIRST_PAGES: u64 = 8;

/// Lengths of texts by keys, by table.
type State = BTreeMap<String, BTreeMap<i64, usize>>;

fn schema(name: &str) -> TableSchema {
    TableSchema::new(name)
        .column("id", ColumnType::Integer)
        .column("length", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
        .index("by_length", ["length"])
}

fn row(id: i64, length: usize) -> Row {
    let letter = char::from(b'a' + (id % 26) as u8);
    let text = letter.to_string().repeat(length);
    vec![id.into(), (length as i64).into(), text.into()]
}

fn read(store: &Store) -> State {
    let mut transaction = store.begin();
    let names = store.table_names().into_iter();
    let tables = names.map(|name| {
        let rows = transaction.range(&name, .., Direction::Forward).unwrap();
        let rows = rows.map(|row| {
            let row = row.unwrap();
            let (Value::Integer(id), Value::Text(text)) = (&row[0], &row[2]) else {
                panic!("a row of other types")
            };
            (*id, text.len())
        });
        let rows = rows.collect();
        (name, rows)
    });
    tables.collect()
}

/// Descriptors of this process that are files of a store in `directory`.
fn open_files(directory: &Path) -> usize {
    let all = fs::read_dir("/proc/self/fd").unwrap();
    let targets = all.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let mine = targets.filter(|it| it.starts_with(directory));
    mine.filter(|it| it.extension().is_some_and(|ending| ending == "ts"))
        .count()
}

/// The smallest pool, a few files, and hundreds of tables: those that are used
/// come and go.
#[test]
fn hundreds_of_tables_in_the_smallest_pool() {
    const TABLES: i64 = 300;
    const FILES: usize = 8;
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path();
    let mut options = StoreOptions::default();
    options.pages.page_bytes = PAGE as usize;
    options.pages.pool_bytes = 64 * PAGE;
    options.pages.log_bytes = 2 << 20;
    options.pages.files_max = FILES;
    options.durability = Durability::Lazy;
    let store = Store::create(path, &options).unwrap();
    let name = |number: i64| format!("t{number}");
    let mut expected = State::new();
    for number in 0..TABLES {
        store.create_table(&schema(&name(number))).unwrap();
        expected.insert(name(number), BTreeMap::new());
        assert!(open_files(path) <= FILES + 32, "{}", open_files(path));
    }
    for entry in fs::read_dir(path).unwrap() {
        let entry = entry.unwrap();
        let file = entry.file_name().into_string().unwrap();
        if file.starts_with("table-") {
            assert_eq!(
                entry.metadata().unwrap().len(),
                FIRST_PAGES * PAGE,
                "{file}"
            );
        }
    }
    // From one to the next, and in a transaction over several.
    for round in 0..4 {
        for number in 0..TABLES {
            let mut transaction = store.begin();
            for number in [number, (number * 7 + round) % TABLES] {
                let id = round * 1000 + transaction_key(number, round);
                let length = 100 + (id % 700) as usize;
                let table = expected.get_mut(&name(number)).unwrap();
                match transaction.insert(&name(number), row(id, length)) {
                    Ok(()) => assert_eq!(table.insert(id, length), None),
                    Err(Error::Duplicate { .. }) => assert!(table.contains_key(&id)),
                    Err(error) => panic!("{error}"),
                }
            }
            transaction.commit().unwrap();
        }
    }
    assert_eq!(read(&store), expected);
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    assert_eq!(report.tables, TABLES as u64);
    store.close().unwrap();
    let store = Store::open(path, &options).unwrap();
    assert!(open_files(path) <= FILES, "{}", open_files(path));
    assert_eq!(store.table_names().len(), TABLES as usize);
    let mut one = store.begin();
    let found = one.range(&name(7), .., Direction::Forward).unwrap();
    assert_eq!(found.count(), expected[&name(7)].len());
    drop(one);
    assert_eq!(store.table(&name(9)).unwrap(), schema(&name(9)));
    for number in (0..TABLES).step_by(2) {
        store.drop_table(&name(number)).unwrap();
        expected.remove(&name(number));
    }
    assert_eq!(read(&store), expected);
    assert!(store.check().unwrap().is_clean());
}

fn transaction_key(number: i64, round: i64) -> i64 {
    (number * 31 + round * 17) % 900
}

/// Threads, each of which changes many tables, with maps for a few of them.
#[test]
fn threads_wait_for_each_others_maps() {
    const THREADS: i64 = 6;
    const TABLES: i64 = 40;
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut options = StoreOptions::default();
    options.pages.page_bytes = PAGE as usize;
    options.pages.pool_bytes = 96 * PAGE;
    options.pages.log_bytes = 2 << 20;
    options.pages.files_max = 2;
    options.durability = Durability::Lazy;
    let store = Store::create(directory.path(), &options).unwrap();
    for number in 0..TABLES {
        store.create_table(&schema(&format!("t{number}"))).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                let mut random = Random(77 + thread as u64);
                for step in 0..200 {
                    let name = format!("t{}", random.below(TABLES as u64));
                    let id = thread * 1000 + step;
                    let mut transaction = store.begin();
                    let length = random.below(900) as usize;
                    transaction.insert(&name, row(id, length)).unwrap();
                    transaction.commit().unwrap();
                }
            });
        }
    });
    let rows: usize = read(&store).values().map(BTreeMap::len).sum();
    assert_eq!(rows as i64, THREADS * 200);
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

fn crash_options(disk: &SimulatedDisk, arena: &Arena) -> StoreOptions {
    let mut options = options(disk, arena);
    // Two: the system's, and one that changes all the time.
    options.pages.files_max = 2;
    options
}

/// Tables are made and dropped, and grow from their first pages over each size to
/// more than an extent, while the files of others are closed and opened.
fn work(store: &Store, random: &mut Random, state: &mut State, number: u64) -> Result<(), Error> {
    let name = |random: &mut Random| format!("t{}", random.below(12));
    if number.is_multiple_of(5) {
        let name = name(random);
        if state.remove(&name).is_some() {
            store.drop_table(&name)?;
        } else {
            store.create_table(&schema(&name))?;
            state.insert(name, BTreeMap::new());
        }
        return Ok(());
    }
    let mut transaction = store.begin();
    let mut after = state.clone();
    for _ in 0..1 + random.below(3) {
        let name = name(random);
        let Some(table) = after.get_mut(&name) else {
            continue;
        };
        // Long ones have pages of their own.
        let length = match random.below(3) {
            0 => 20_000 + random.below(30_000) as usize,
            _ => random.below(1500) as usize,
        };
        let id = random.below(60) as i64;
        let text = row(id, length);
        if table.insert(id, length).is_some() {
            assert!(transaction.update(&name, text)?);
        } else {
            transaction.insert(&name, text)?;
        }
    }
    transaction.commit()?;
    *state = after;
    Ok(())
}

/// Cuts the power at every moment: what is opened then has every commit, and
/// every table that was made.
#[test]
fn every_power_cut_while_files_grow_and_are_closed() {
    let seed = setting("IOLANE_TEST_SEED", 20_261_126);
    let images_wanted = setting("IOLANE_CRASH_IMAGES", 20_000) / 8;
    println!("IOLANE_TEST_SEED={seed}");
    let arena = arena();
    let disk = SimulatedDisk::builder()
        .seed(seed)
        .record(RecorderLimits::default())
        .build()
        .unwrap();
    let recorder = disk.recorder().unwrap();
    let options = crash_options(&disk, &arena);
    let mut store = Store::create(DIRECTORY, &options).unwrap();
    recorder.mark(0);
    let mut random = Random(seed);
    let mut states = vec![State::new()];
    for number in 0..150 {
        let mut state = states.last().unwrap().clone();
        work(&store, &mut random, &mut state, number).unwrap();
        states.push(state);
        recorder.mark(number + 1);
        if number % 40 == 39 {
            while store.purge(1000).unwrap() > 0 {}
            store.close().unwrap();
            store = Store::open(DIRECTORY, &options).unwrap();
        }
    }
    let pages = |name: &String| store.table_space(name).unwrap().pages;
    let sizes: Vec<u64> = store.table_names().iter().map(pages).collect();
    println!("pages of the tables at the end: {sizes:?}");
    assert!(sizes.iter().any(|&size| size > 64) && sizes.iter().any(|&size| size < 64));
    drop(store);
    let images = Images::new(&recorder.recording(), CrashPlan::sampled(seed, 30)).unwrap();
    println!("{images_wanted} of {} images", images.count());
    for image in images.spread(images_wanted) {
        let disk = SimulatedDisk::from_image(&image).unwrap();
        let Some(promised) = image.mark() else {
            // Before it was made.
            continue;
        };
        let opened = Store::open(DIRECTORY, &crash_options(&disk, &arena));
        let store = opened.unwrap_or_else(|error| panic!("{error}: {image}"));
        let report = store.check().unwrap();
        assert!(report.is_clean(), "{:#?}: {image}", report.findings);
        let found = read(&store);
        let mut possible = states.iter().skip(promised as usize).take(2);
        assert!(possible.any(|state| *state == found), "{image}");
    }
}

/// A file that a newer program wrote, or that is another store's, makes its table
/// unusable, and is not removed with it.
#[test]
fn a_file_of_another_store_is_left_alone() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut options = StoreOptions::default();
    options.pages.page_bytes = PAGE as usize;
    options.pages.pool_bytes = 64 * PAGE;
    options.pages.log_bytes = 2 << 20;
    let stores = ["a", "b"].map(|name| directory.path().join(name));
    let mut tables = Vec::new();
    for path in &stores {
        let store = Store::create(path, &options).unwrap();
        store.create_table(&schema("t")).unwrap();
        store.create_table(&schema("u")).unwrap();
        store.close().unwrap();
        let files = fs::read_dir(path).unwrap();
        let mut files: Vec<_> = files.map(|it| it.unwrap().path()).collect();
        files.retain(|it| {
            it.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("table-")
        });
        files.sort();
        tables.push(files.remove(0));
    }
    fs::copy(&tables[1], &tables[0]).unwrap();
    let foreign = fs::read(&tables[0]).unwrap();
    let store = Store::open(&stores[0], &options).unwrap();
    let refused = store.begin().get("t", &[1.into()]).unwrap_err();
    assert!(
        refused.to_string().contains("belongs to another store"),
        "{refused}"
    );
    assert!(matches!(refused, Error::DamagedTable { .. }));
    assert_eq!(store.begin().get("u", &[1.into()]).unwrap(), None);
    store.drop_table("t").unwrap();
    let report = store.check().unwrap();
    let told = report.findings.iter().map(|it| it.to_string());
    let told: Vec<String> = told.collect();
    assert!(
        told.len() == 1 && told[0].contains("no table leads to it"),
        "{told:?}"
    );
    store.close().unwrap();
    assert!(fs::read(&tables[0]).unwrap() == foreign);
    // Twice the same number is no table of any kind.
    let twice = stores[0].join(
        tables[0]
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .replace("table", "copy"),
    );
    fs::copy(&tables[0], twice).unwrap();
    let refused = Store::open(&stores[0], &options).err().unwrap();
    assert!(
        matches!(refused, Error::Files(StoreError::SpaceTwice { .. })),
        "{refused}"
    );
}
