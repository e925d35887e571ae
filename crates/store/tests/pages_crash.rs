//! A process that is stopped or killed at any moment: what it left is opened,
//! and has all that was durable, nothing by halves.

mod pages;

use iolane_store::access::{MiniTransaction, Pages, PagesError};
use iolane_store::ids::{Lsn, PageId, SegmentId};
use iolane_store::page::Op;
use iolane_store::{PageStore, PageStoreOptions};
use pages::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pairs of pages that change together.
const PAIRS: u64 = 250;
const THREADS: u64 = 2;
/// Of these, so many are told to be durable before a process is first stopped,
/// and as many more before the next time: some hundred changes for each.
const DURABLE_MIN: usize = 2;
const DIRECTORY: &str = "IOLANE_STORE_TEST_DIRECTORY";
const SEED: &str = "IOLANE_STORE_TEST_SEED";

fn pair(number: u64, pages: &[PageId]) -> [PageId; 2] {
    [pages[2 * number as usize], pages[2 * number as usize + 1]]
}

/// The pages of the pairs: the first that the segment was given, in order.
fn pair_pages(store: &PageStore, space: u32) -> Vec<PageId> {
    // Their numbers stand in the first page after the tablespace's own.
    let list = PageId::new(space, 3);
    loop {
        match store.shared(list) {
            Ok(page) => {
                let numbers = page[100..].chunks_exact(4).take(2 * PAIRS as usize);
                return numbers
                    .map(|bytes| PageId::new(space, u32::from_le_bytes(bytes.try_into().unwrap())))
                    .collect();
            }
            Err(miss) => store.load(miss).unwrap(),
        }
    }
}

fn make(path: &Path, options: &PageStoreOptions) {
    let store = create(path, options);
    let space = store.create_space("pairs").unwrap();
    let segment = store.create_segment(space).unwrap();
    let (list, _) = add(&store, segment, 0).unwrap();
    assert_eq!(list, PageId::new(space, 3));
    let mut numbers = Vec::new();
    for _ in 0..2 * PAIRS {
        let (id, _) = add(&store, segment, 0).unwrap();
        numbers.extend_from_slice(&id.page.to_le_bytes());
    }
    let mut mini = store.begin(&[], 0).unwrap();
    while let Err(miss) = mini.exclusive(list) {
        store.load(miss).unwrap();
    }
    mini.apply(
        list,
        &Op::Patch {
            offset: 100,
            bytes: &numbers,
        },
    );
    mini.commit();
    store.create_segment(space).unwrap();
    store.close().unwrap();
}

/// Runs until it is killed. Each line that it prints is durable.
#[test]
#[ignore = "run by the other tests in a process of its own"]
fn child() {
    let path = std::env::var(DIRECTORY).expect("the directory to work in");
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    // Pages that leave at once, and pages that stay changed for long.
    let pool_bytes = [100, 450][seed as usize % 2] * 4096;
    let options = PageStoreOptions {
        pool_bytes,
        ..options()
    };
    let (store, _) = open(Path::new(&path), &options);
    let pages = pair_pages(&store, 1);
    let scratch = SegmentId {
        space: 1,
        number: 1,
    };
    // The first of a pair says how often it was changed.
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, pages) = (&store, &pages);
            scope.spawn(move || {
                let mut dice = Dice(seed + thread);
                let mut mine = Vec::new();
                loop {
                    let number = THREADS * dice.roll(PAIRS / THREADS) + thread;
                    let ids = pair(number, pages);
                    let lsn = count_up(store, &ids);
                    // Seldom, or the log is always durable before the pages.
                    if dice.roll(100) == 0 {
                        let value = read(store, ids[0]).unwrap();
                        store.make_durable(lsn).unwrap();
                        println!("durable {number} {value}");
                    }
                    match dice.roll(4) {
                        0 if mine.len() < 100 => mine.push(add(store, scratch, 1).unwrap().0),
                        1 if !mine.is_empty() => {
                            let mut mini = store.begin(&[], 0).unwrap();
                            mini.free(scratch, mine.swap_remove(0));
                            mini.commit();
                        }
                        _ => {}
                    }
                }
            });
        }
    });
}

/// Works until something fails, and says what.
#[test]
#[ignore = "run by the other tests in a process of its own"]
fn child_whose_writes_fail() {
    let path = std::env::var(DIRECTORY).expect("the directory to work in");
    let (store, _) = open(Path::new(&path), &small_log());
    let pages = pair_pages(&store, 1);
    println!("durable 0 0");
    let mut dice = Dice(3);
    let failure = loop {
        let number = dice.roll(PAIRS);
        let changed = update(&store, &pair(number, &pages), |value| value + 1);
        let durable = changed.and_then(|lsn| store.make_durable(lsn));
        match durable.and_then(|()| read(&store, pair(number, &pages)[0])) {
            Ok(value) => println!("durable {number} {value}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(failure, PagesError::Failed { .. }), "{failure}");
    // Nothing is accepted any more, and the first cause is told again.
    let again = store.begin(&[], 0).err().expect("refused").to_string();
    assert_eq!(again, failure.to_string());
    assert_eq!(
        store.close().expect_err("not closed").to_string(),
        failure.to_string()
    );
    println!("failed {failure}");
}

/// The smallest, so that it ends before the tablespace does.
fn small_log() -> PageStoreOptions {
    PageStoreOptions {
        log_bytes: 1 << 20,
        ..options()
    }
}

/// Only opens, so that it can be killed there.
#[test]
#[ignore = "run by the other tests in a process of its own"]
fn child_that_opens() {
    let path = std::env::var(DIRECTORY).expect("the directory to work in");
    open(Path::new(&path), &options()).0.close().unwrap();
}

/// Changes much of both pages, so that the log goes round.
fn count_up(store: &PageStore, ids: &[PageId; 2]) -> Lsn {
    loop {
        let mut mini = store.begin(&[], 0).unwrap();
        if let Err(miss) = ids.iter().try_for_each(|&id| mini.exclusive(id)) {
            drop(mini);
            store.load(miss).unwrap();
            continue;
        }
        for &id in ids {
            let value = number(mini.page(id)) + 1;
            let patch = Op::Patch {
                offset: 200,
                bytes: &[value as u8; 500],
            };
            mini.apply(id, &patch);
            write(&mut mini, id, value);
        }
        return mini.commit();
    }
}

struct Running {
    child: Child,
    durable: Arc<Mutex<HashMap<u64, u64>>>,
    reader: Option<JoinHandle<String>>,
}

fn start(test: &str, path: &Path, seed: u64) -> Running {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    run(command, path, seed)
}

fn run(mut command: Command, path: &Path, seed: u64) -> Running {
    let mut child = command
        .env(DIRECTORY, path)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let durable = Arc::new(Mutex::new(HashMap::new()));
    let noted = Arc::clone(&durable);
    let reader = std::thread::spawn(move || {
        let mut failed = String::new();
        for line in output.lines().map_while(Result::ok) {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["durable", number, value] = words[..] {
                let (number, value) = (number.parse().unwrap(), value.parse().unwrap());
                noted.lock().unwrap().insert(number, value);
            } else if words[0] == "failed" {
                failed = line;
            }
        }
        failed
    });
    Running {
        child,
        durable,
        reader: Some(reader),
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
}

impl Running {
    fn durable(&self) -> HashMap<u64, u64> {
        self.durable.lock().unwrap().clone()
    }

    /// Why it ended by itself.
    fn failed(&mut self) -> String {
        self.reader.take().unwrap().join().unwrap()
    }

    /// Waits until so many pairs were told to be durable, however long that
    /// takes.
    fn wait_durable(&mut self, count: usize) {
        while self.durable.lock().unwrap().len() < count {
            let ended = self.child.try_wait().unwrap();
            assert_eq!(ended, None, "it ended by itself");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a failed test; a dead child cannot be killed again.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Opens what was left, and compares it with what was promised.
fn check(path: &Path, durable: &HashMap<u64, u64>, words: &str) -> u64 {
    let (store, report) = open(path, &options());
    let pages = pair_pages(&store, 1);
    for number in 0..PAIRS {
        let [first, second] = pair(number, &pages).map(|id| read(&store, id).unwrap());
        assert_eq!(first, second, "{words}: pair {number} is half changed");
        let promised = durable.get(&number).copied().unwrap_or(0);
        assert!(
            first >= promised,
            "{words}: pair {number} is {first}, was {promised}"
        );
    }
    // What is in use is not given again.
    let scratch = SegmentId {
        space: 1,
        number: 1,
    };
    for _ in 0..64 {
        let (id, _) = add(&store, scratch, 3).unwrap();
        assert!(!pages.contains(&id), "{words}: {id} is in use");
    }
    store.close().unwrap();
    report.records
}

#[test]
fn what_a_stopped_process_left_is_whole() {
    let directory = directory();
    let path = directory.path().join("store");
    make(&path, &options());
    let seed = 0xc0ffee;
    let mut dice = Dice(seed);
    let mut redone = 0;
    for round in 0..4 {
        let mut running = start("child", &path, seed + round);
        let mut copies = Vec::new();
        for number in 0..4 {
            running.wait_durable(DURABLE_MIN * (number + 1));
            std::thread::sleep(Duration::from_millis(dice.roll(200)));
            signal(&running.child, "-STOP");
            // What the kernel was told to do is still being done.
            std::thread::sleep(Duration::from_millis(20));
            let to = directory.path().join(format!("copy-{round}-{number}"));
            let durable = running.durable();
            copy(&path, &to);
            signal(&running.child, "-CONT");
            copies.push((to, durable));
        }
        running.kill();
        let durable = running.durable();
        for (to, durable) in &copies {
            redone += check(to, durable, &format!("seed {seed}, {}", to.display()));
        }
        // Killed while it recovers, a few times over.
        let (half, durable_then) = &copies[3];
        let again = directory.path().join(format!("again-{round}"));
        copy(half, &again);
        for _ in 0..4 {
            let mut opening = start("child_that_opens", &again, 0);
            std::thread::sleep(Duration::from_millis(3 + dice.roll(40)));
            opening.kill();
        }
        check(&again, durable_then, "killed while it was opened");
        // The original goes on in the next round.
        check(&path, &durable, "killed");
        for (to, _) in copies {
            std::fs::remove_dir_all(to).unwrap();
        }
    }
    assert!(redone > 1000, "{redone} records were redone");
}

/// The kernel refuses writes behind a limit set on the process while it runs:
/// the last pages of the table fail, the log and the doublewrite area do not.
#[test]
fn a_write_that_fails_fails_the_store_and_loses_nothing() {
    // The area has 517 pages, the table's last ones are behind them.
    const LIMIT: u64 = 518 * 4096;
    let directory = directory();
    let path = directory.path().join("store");
    make(&path, &small_log());
    let test = std::env::current_exe().unwrap();
    // With the signal ignored, a write behind the limit fails with EFBIG
    // (setrlimit(2)).
    let script = format!(
        "trap '' XFSZ; exec '{}' --exact child_whose_writes_fail --ignored --nocapture",
        test.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let mut running = run(command, &path, 0);
    while running.durable().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let limited = Command::new("prlimit")
        .args(["--pid", &running.child.id().to_string()])
        .arg(format!("--fsize={LIMIT}"))
        .status();
    match limited {
        Ok(status) => assert!(status.success()),
        Err(why) => return iolane_testing::skipped(format!("prlimit: {why}")),
    }
    assert!(running.child.wait().unwrap().success());
    let failed = running.failed();
    assert!(
        failed.contains("pairs@1.ts") && failed.contains("File too large"),
        "{failed}"
    );
    check(&path, &running.durable(), "after a failed write");
}
