//! Power cuts while rows are loaded past the log, and after it: what is opened
//! then has all of them or none, and the changes that were committed.

mod simulated;

use iolane::SimulatedDisk;
use iolane_disk::power::{CrashPlan, Images, RecorderLimits};
use iolane_store::data::{ColumnType, Row, TableSchema};
use iolane_store::{Direction, Store};
use simulated::*;

/// Several leaves of the table and of its index.
const ROWS: i64 = 400;
/// Changed afterwards, each in a transaction.
const CHANGED: i64 = 20;
/// Images of a moment at which anything can be lost.
const PER_MOMENT: u32 = 40;

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("tag", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
        .unique_index("by_tag", ["tag"])
}

fn row(id: i64, letter: &str) -> Row {
    let text = letter.repeat(150 + id as usize % 50);
    vec![id.into(), (ROWS - id).into(), text.into()]
}

/// What the store holds after so many steps: none, loaded, changed.
fn expected(steps: u64) -> Vec<Row> {
    let changed = |id: i64| (id as u64) < steps.saturating_sub(2);
    let letter = |id| if changed(id) { "b" } else { "a" };
    let count = if steps < 2 { 0 } else { ROWS };
    (0..count).map(|id| row(id, letter(id))).collect()
}

fn rows(store: &Store) -> Vec<Row> {
    if store.tables().is_empty() {
        return Vec::new();
    }
    let mut transaction = store.begin();
    let rows = transaction.range("t", .., Direction::Forward).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_load_is_there_whole_or_not_at_all() {
    let arena = arena();
    let seed = setting("IOLANE_TEST_SEED", 20_261_120);
    let disk = SimulatedDisk::builder()
        .seed(seed)
        .record(RecorderLimits::default())
        .build()
        .unwrap();
    let recorder = disk.recorder().unwrap();
    let opened = options(&disk, &arena);
    let store = Store::create(DIRECTORY, &opened).unwrap();
    store.create_table(&schema()).unwrap();
    recorder.mark(1);
    let loaded = store.bulk_load("t", (0..ROWS).map(|id| row(id, "a")));
    assert_eq!(loaded.unwrap(), ROWS as u64);
    recorder.mark(2);
    for id in 0..CHANGED {
        let mut transaction = store.begin();
        assert!(transaction.update("t", row(id, "b")).unwrap());
        transaction.commit().unwrap();
        recorder.mark(3 + id as u64);
    }
    store.close().unwrap();
    let recording = recorder.recording();
    assert!(recording.is_complete());

    let images = Images::new(&recording, CrashPlan::sampled(seed, PER_MOMENT)).unwrap();
    let count = images.count().min(setting("IOLANE_CRASH_IMAGES", 4000));
    println!("seed {seed}: {count} of {} images", images.count());
    let mut seen = [false; 3];
    for image in images.spread(count) {
        let Some(promised) = image.mark() else {
            continue;
        };
        let disk = SimulatedDisk::from_image(&image).unwrap();
        let store = Store::open(DIRECTORY, &options(&disk, &arena)).unwrap();
        let report = store.check().unwrap();
        assert!(report.is_clean(), "{image}: {:#?}", report.findings);
        let found = rows(&store);
        // The step that was under way may be there.
        let steps = (promised..=promised + 1).find(|&steps| expected(steps) == found);
        let Some(steps) = steps else {
            panic!(
                "seed {seed}: {image}: {} rows after step {promised}",
                found.len()
            );
        };
        seen[steps.min(3) as usize - 1] = true;
    }
    assert_eq!(seen, [true; 3], "images before, between and after");
}
