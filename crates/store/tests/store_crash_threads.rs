//! Power cuts while several threads commit at once: of each thread, all commits
//! that were acknowledged are there, and at most the one that was under way.

mod simulated;

use iolane::{Arena, SimulatedDisk};
use iolane_disk::power::{CrashPlan, Image, Images, RecorderLimits};
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, Store};
use simulated::*;
use std::collections::BTreeMap;
use std::sync::Mutex;

const THREADS: usize = 4;
const COMMITS: u16 = 40;
/// Rows of each thread.
const ROWS: u64 = 12;

/// A thread's rows after each of its commits.
type States = Vec<BTreeMap<i64, Row>>;

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("tag", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
        .unique_index("by_tag", ["tag"])
}

/// What a thread commits: its rows are between those of the others.
fn states(thread: usize, seed: u64) -> States {
    let mut random = Random(seed ^ thread as u64);
    let mut states = vec![BTreeMap::new()];
    for number in 0..i64::from(COMMITS) {
        let mut state: BTreeMap<i64, Row> = states.last().unwrap().clone();
        for change in 0..1 + random.below(4) as i64 {
            let id = random.below(ROWS) as i64 * THREADS as i64 + thread as i64;
            if random.below(4) == 0 {
                state.remove(&id);
                continue;
            }
            let tag = (number * 10 + change) * THREADS as i64 + thread as i64;
            let length = if random.below(10) == 0 { 6000 } else { 50 };
            let text = char::from(b'a' + random.below(26) as u8)
                .to_string()
                .repeat(length);
            state.insert(id, vec![id.into(), tag.into(), text.into()]);
        }
        states.push(state);
    }
    states
}

fn commit(store: &Store, from: &BTreeMap<i64, Row>, to: &BTreeMap<i64, Row>) {
    let mut transaction = store.begin();
    for id in from.keys().filter(|id| !to.contains_key(id)) {
        assert!(transaction.delete("t", &[(*id).into()]).unwrap());
    }
    for (id, row) in to.iter().filter(|(id, row)| from.get(id) != Some(row)) {
        if from.contains_key(id) {
            assert!(transaction.update("t", row.clone()).unwrap());
        } else {
            transaction.insert("t", row.clone()).unwrap();
        }
    }
    transaction.commit().unwrap();
}

/// The counts of all threads in one mark.
fn packed(counts: &[u16; THREADS]) -> u64 {
    counts
        .iter()
        .fold(0, |mark, &count| mark << 16 | u64::from(count))
}

fn unpacked(mark: u64) -> [u16; THREADS] {
    let mut counts = [0; THREADS];
    for (thread, count) in counts.iter_mut().enumerate() {
        *count = (mark >> (16 * (THREADS - 1 - thread))) as u16;
    }
    counts
}

fn run(disk: &SimulatedDisk, arena: &Arena, all: &[States]) {
    let store = Store::create(DIRECTORY, &options(disk, arena)).unwrap();
    store.create_table(&schema()).unwrap();
    let counts = Mutex::new([0; THREADS]);
    disk.recorder().unwrap().mark(0);
    std::thread::scope(|scope| {
        for (thread, states) in all.iter().enumerate() {
            let (store, counts) = (&store, &counts);
            scope.spawn(move || {
                for pair in states.windows(2) {
                    commit(store, &pair[0], &pair[1]);
                    let mut counts = counts.lock().unwrap();
                    counts[thread] += 1;
                    disk.recorder().unwrap().mark(packed(&counts));
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..50 {
                store.purge(20).unwrap();
                std::thread::yield_now();
            }
        });
    });
}

fn examine(image: &Image, arena: &Arena, all: &[States]) -> Result<(), String> {
    let Some(mark) = image.mark() else {
        return Ok(());
    };
    let promised = unpacked(mark);
    let disk = SimulatedDisk::from_image(image).unwrap();
    let store =
        Store::open(DIRECTORY, &options(&disk, arena)).map_err(|error| error.to_string())?;
    let report = store.check().map_err(|error| error.to_string())?;
    if !report.is_clean() {
        return Err(format!("{:#?}", report.findings));
    }
    let mut found: Vec<BTreeMap<i64, Row>> = vec![BTreeMap::new(); THREADS];
    let mut transaction = store.begin();
    for row in transaction.range("t", .., Direction::Forward).unwrap() {
        let row = row.map_err(|error| error.to_string())?;
        let Value::Integer(id) = row[0] else {
            panic!("an id");
        };
        found[id as usize % THREADS].insert(id, row);
    }
    for (thread, states) in all.iter().enumerate() {
        let promised = usize::from(promised[thread]);
        let possible = &states[promised..states.len().min(promised + 2)];
        if !possible.contains(&found[thread]) {
            return Err(format!(
                "thread {thread} has not what {promised} commits left"
            ));
        }
    }
    Ok(())
}

#[test]
fn of_every_thread_all_acknowledged_commits_are_there() {
    let seed = setting("IOLANE_TEST_SEED", 77);
    let count = setting("IOLANE_CRASH_IMAGES", 1000);
    let arena = arena();
    let disk = SimulatedDisk::builder()
        .seed(seed)
        .record(RecorderLimits::default())
        .build()
        .unwrap();
    let all: Vec<States> = (0..THREADS).map(|thread| states(thread, seed)).collect();
    run(&disk, &arena, &all);
    let recording = disk.recorder().unwrap().recording();
    assert!(recording.is_complete());
    drop(disk);
    let mut plan = CrashPlan::sampled(seed, 40);
    plan.tear_unit_bytes = Some(4096);
    let images = Images::new(&recording, plan).unwrap();
    println!(
        "{} images at {} moments",
        images.count(),
        images.boundaries()
    );
    for image in images.spread(count) {
        if let Err(what) = examine(&image, &arena, &all) {
            panic!("seed {seed}: {what}\n{image}");
        }
    }
}
