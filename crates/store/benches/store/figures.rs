//! Figures of threads that work side by side, each beside its limit: what the
//! layer below does with the same threads, measured in the same run.

use super::schema;
use iolane::{Buffer, Engine, Level, OpenOptions};
use iolane_store::data::Row;
use iolane_store::log::Log;
use iolane_store::tree::Tree;
use iolane_store::{Direction, PageStore, PageStoreOptions, Store, StoreOptions};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROWS: i64 = 1_000_000;
/// Of one round of one figure.
const RUNTIME: Duration = Duration::from_millis(300);
/// Rounds, in which figures take turns: what else the machine does meets all.
const ROUNDS: usize = 5;
const POOL_BYTES: u64 = 256 << 20;
/// What an append to a log takes on the disk: one block.
const BLOCK: usize = 4096;
/// Bytes of a large sequential write.
const PIECE: usize = 1 << 20;

/// Those that the command line names, all of them if it names none.
pub fn print() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--test") {
        return;
    }
    let name = arguments.iter().find(|argument| !argument.starts_with('-'));
    let wanted = |figure: &str| name.is_none_or(|name| format!("figures {figure}").contains(name));
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    // First, while nothing else has taken memory.
    if wanted("memory") {
        memory(directory.path());
    }
    if wanted("commits") {
        commits(directory.path());
    }
    if wanted("reads") {
        reads(directory.path());
    }
    if wanted("load") {
        load(directory.path());
    }
}

fn row(id: i64) -> Row {
    vec![id.into(), vec![id as u8; 100].as_slice().into()]
}

fn options() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = POOL_BYTES;
    options
}

/// splitmix64 (Vigna 2015).
fn scattered(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How often a second `threads` threads call `work` with numbers that all
/// differ. Each makes its own `work` first.
fn rate<W: FnMut(u64)>(threads: u64, work: impl Fn() -> W + Sync) -> f64 {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (work, stop, done) = (&work, &stop, &done);
            scope.spawn(move || {
                let mut work = work();
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    work(count * threads + thread);
                }
                done.fetch_add(count, Ordering::Relaxed);
            });
        }
        std::thread::sleep(RUNTIME);
        stop.store(true, Ordering::Relaxed);
    });
    done.into_inner() as f64 / begin.elapsed().as_secs_f64()
}

/// The middle one of each column.
fn medians<const N: usize>(mut round: impl FnMut() -> [f64; N]) -> [f64; N] {
    let mut rounds: Vec<[f64; N]> = (0..ROUNDS).map(|_| round()).collect();
    std::array::from_fn(|column| {
        rounds.sort_by(|a, b| a[column].total_cmp(&b[column]));
        rounds[ROUNDS / 2][column]
    })
}

fn line(what: &str, rate: f64, limit: Option<f64>) {
    let part = limit.map_or(String::new(), |limit| {
        format!("  {:5.1} % of {limit:.0}", 100.0 * rate / limit)
    });
    println!("{what:<44} {rate:>10.0} /s{part}");
}

fn commits(directory: &Path) {
    let engine = Arc::new(Engine::new().expect("an engine"));
    let mut open = Log::open_options();
    open.create(true).size(64 << 20);
    let file = engine
        .open(directory.join("bare"), &open)
        .expect("a new file");
    let zeros = Buffer::new(PIECE);
    for piece in 0..64 {
        let written = file.write_at(&zeros, piece * PIECE as u64, Level::Critical);
        written.expect("room");
    }
    let store = Store::create(directory.join("commits"), &options()).expect("a new directory");
    store.create_table(&schema()).expect("a new table");
    store
        .bulk_load("t", (0..ROWS / 10).map(row))
        .expect("it is empty");
    let mut open = Log::open_options();
    open.create(true).size(Log::file_bytes(64 << 20));
    let of_log = engine
        .open(directory.join("log"), &open)
        .expect("a new file");
    let plain = engine
        .open(directory.join("log"), &Log::plain_options())
        .expect("it is there");
    let log = Log::create(
        of_log,
        plain,
        64 << 20,
        1,
        Default::default(),
        iolane::Level::Normal,
    )
    .expect("a new log");
    for threads in [1, 8] {
        let bare = || {
            rate(1, || {
                let (file, mut block) = (&file, Buffer::new(BLOCK));
                move |number| {
                    block[..8].copy_from_slice(&number.to_le_bytes());
                    let at = number % (64 << 20 >> 12) * BLOCK as u64;
                    file.write_at(&block, at, Level::Critical).expect("written");
                }
            }) * threads as f64
        };
        let logged = || {
            rate(threads, || {
                let log = &log;
                move |number| {
                    let room = log.reserve(200, false).expect("room");
                    let (_, end) = log.append(room, &[number as u8; 200], |_, _| {});
                    log.make_durable(end).expect("written");
                    // Room, without the header's two writes at every turn.
                    if log.pressure() > 0.9 {
                        log.set_checkpoint(end).ok();
                    }
                }
            })
        };
        let committed = || {
            rate(threads, || {
                let store = &store;
                move |number| {
                    let mut transaction = store.begin();
                    let id = scattered(number) % (ROWS as u64 / 10);
                    // Two may have drawn the same row.
                    if transaction.update("t", row(id as i64)).is_ok() {
                        transaction.commit().expect("committed");
                    }
                }
            })
        };
        let [bare, logged, committed] = medians(|| [bare(), logged(), committed()]);
        line(
            &format!("log append, durable, {threads} threads"),
            logged,
            Some(bare),
        );
        line(
            &format!("commit one row, {threads} threads"),
            committed,
            Some(bare),
        );
    }
}

/// A tree of the same rows in pages of its own.
fn bare_tree(directory: &Path) -> (PageStore, Tree) {
    let engine = Arc::new(Engine::new().expect("an engine"));
    let options = PageStoreOptions {
        pool_bytes: POOL_BYTES,
        ..Default::default()
    };
    let pages = PageStore::create(engine, directory, &options).expect("a new directory");
    let space = pages.create_space("bare").expect("a new file");
    let segment = || pages.create_segment(space).expect("room");
    let tree = Tree::create(&pages, segment(), segment(), 1).expect("room");
    let records = (0..ROWS as u64).map(|key| (key.to_be_bytes(), [7; 119]));
    tree.bulk_load(&pages, records, 94).expect("they ascend");
    (pages, tree)
}

fn reads(directory: &Path) {
    let store = Store::create(directory.join("reads"), &options()).expect("a new directory");
    store.create_table(&schema()).expect("a new table");
    store.bulk_load("t", (0..ROWS).map(row)).expect("empty");
    scan(&store);
    let (pages, tree) = bare_tree(&directory.join("tree"));
    for threads in [1, 2] {
        let bare = || {
            rate(threads, || {
                |number| {
                    let key = (scattered(number) % ROWS as u64).to_be_bytes();
                    let found = tree.get(&pages, &key, |value| value[50]);
                    black_box(found).expect("read").expect("there");
                }
            })
        };
        let got = || {
            rate(threads, || {
                let mut transaction = store.begin();
                move |number| {
                    let id = (scattered(number) % ROWS as u64) as i64;
                    let row = transaction.get("t", &[id.into()]).expect("read");
                    black_box(row).expect("there");
                }
            })
        };
        let own = || {
            rate(threads, || {
                |number| {
                    let id = (scattered(number) % ROWS as u64) as i64;
                    let row = store.begin().get("t", &[id.into()]).expect("read");
                    black_box(row).expect("there");
                }
            })
        };
        let [bare, got, own] = medians(|| [bare(), got(), own()]);
        line(&format!("get, {threads} threads"), got, Some(bare));
        line(
            &format!("get, each in a transaction, {threads} threads"),
            own,
            Some(bare),
        );
    }
}

/// Brings all rows into memory that has room for them.
fn scan(store: &Store) {
    let mut transaction = store.begin();
    let rows = transaction.range("t", .., Direction::Forward);
    assert_eq!(rows.expect("a table").count() as i64 % ROWS, 0);
}

/// What a store takes whose pool is full.
fn memory(directory: &Path) {
    let before = resident_bytes();
    let store = Store::create(directory.join("memory"), &options()).expect("a new directory");
    store.create_table(&schema()).expect("a new table");
    store.bulk_load("t", (0..3 * ROWS).map(row)).expect("empty");
    scan(&store);
    let pool = store.statistics().pages.pool;
    let taken = resident_bytes() - before;
    println!(
        "memory, {} of {} frames used: {:.1} % of {} MiB",
        pool.frames - pool.free,
        pool.frames,
        100.0 * taken as f64 / POOL_BYTES as f64,
        POOL_BYTES >> 20
    );
}

fn load(directory: &Path) {
    let engine = Engine::new().expect("an engine");
    let zeros = Buffer::new(PIECE);
    // As many bytes as the table has pages' worth, in large writes.
    let pieces = ROWS as u64 * 136 / PIECE as u64;
    let mut turn = 0;
    let [rate, bare] = medians(|| {
        turn += 1;
        let path = directory.join(format!("load {turn}"));
        let store = Store::create(&path, &options()).expect("a new directory");
        store.create_table(&schema()).expect("a new table");
        let begin = Instant::now();
        store.bulk_load("t", (0..ROWS).map(row)).expect("empty");
        let loaded = ROWS as f64 / begin.elapsed().as_secs_f64();
        drop(store);
        std::fs::remove_dir_all(&path).expect("made above");

        let path = directory.join("bare load");
        let mut open = OpenOptions::new();
        open.write(true).create(true).direct(true);
        let file = engine.open(&path, &open).expect("a new file");
        let begin = Instant::now();
        for piece in 0..pieces {
            let written = file.write_at(&zeros, piece * PIECE as u64, Level::Background);
            written.expect("room");
        }
        file.sync_data(Level::Background).expect("synced");
        let bare = ROWS as f64 / begin.elapsed().as_secs_f64();
        std::fs::remove_file(&path).expect("made above");
        [loaded, bare]
    });
    line("load, rows", rate, Some(bare));
}

/// Memory of this process, from `/proc/self/statm` (proc(5)), without shared files.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let mut fields = text
        .split(' ')
        .map(|field| field.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (fields.nth(1).unwrap_or(0), fields.next().unwrap_or(0));
    (resident - shared) * 4096
}
