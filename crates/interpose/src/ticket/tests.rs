//! The broker is killed while a request stands at a step: the process does it all the same, with
//! the right data, and goes on.
//!
//! The broker and the process are this program again. Its calls are caught as those of any program
//! under `iolane run`: the functions that stand in for the C library's are part of it.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use iolane_broker::{Broker, Rules};
use iolane_protocol::{ENVIRONMENT, KIND_WRITE};
use tempfile::TempDir;

use super::*;

/// What this program is to be.
const ROLE: &str = "IOLANE_TEST_ROLE";
const FILE: &str = "IOLANE_TEST_FILE";
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Writes wait for nobody; a read has to wait while writes come.
const RULES: &str = "[[rule]]\nrole = 'writes'\noperation = 'write'\nlevel = 'foreground'\n\
                     [[rule]]\nrole = 'others'\nlevel = 'background'\n";
const LAMENT: &str = "iolane: the broker has ended: I/O goes on unscheduled\n";
const BYTES: usize = 4096;
/// More than a window lets go at once beside the first.
const CROWD: u64 = 200;

/// In order.
const STEPS: [&str; 10] = [
    "come",
    "claimed",
    "filled",
    "posted-silently",
    "posted",
    "granted",
    "started",
    "ended-silently",
    "ended",
    "left-silently",
];

#[derive(Clone)]
#[repr(align(4096))]
struct Page([u8; BYTES]);

fn again(test: &str, role: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", &format!("ticket::tests::{test}"), "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Not a test by itself.
#[test]
fn be_a_broker_until_it_is_killed() {
    if env::var(ROLE).as_deref() == Ok("broker") {
        let broker = Broker::start(&Rules::parse(RULES).unwrap(), false).unwrap();
        println!("address {}", broker.environment().1);
        thread::sleep(WAIT_MAX);
    }
}

/// Not a test by itself: a process whose request stands at a step until a line comes.
#[test]
fn walk_on_from_a_step() {
    let Ok(path) = env::var(FILE) else {
        return;
    };
    thread::spawn(|| {
        thread::sleep(WAIT_MAX);
        std::process::exit(9);
    });
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
        .unwrap();
    let client = client::current().unwrap();
    match crate::descriptor::find(client.memory, file.as_raw_fd()) {
        None => say("no disk"),
        Some(known) => walk(&env::var(ROLE).unwrap(), client, &known, &file),
    }
    // Through the functions that stand in for the C library's.
    let page = Page([b'b'; BYTES]);
    assert_eq!(file.write_at(&page.0, BYTES as u64).unwrap(), BYTES);
    assert_eq!(read(&file, BYTES as u64), b'b');
    say("done");
}

fn say(what: &str) {
    println!("\n{what}");
    io::stdout().flush().unwrap();
}

/// The one byte that a page consists of.
fn read(file: &File, offset: u64) -> u8 {
    let mut page = Page([0; BYTES]);
    assert_eq!(file.read_at(&mut page.0, offset).unwrap(), BYTES);
    assert!(page.0.iter().all(|&byte| byte == page.0[0]));
    page.0[0]
}

fn walk(step: &str, client: Client, known: &Known, file: &File) {
    let stand = |name: &str| {
        if step == name {
            say("reached");
            io::stdin().read_line(&mut String::new()).unwrap();
        }
    };
    let request = |kind, offset| Request {
        kind,
        offset,
        length: BYTES,
        asynchronous: false,
        level_min: 0,
    };
    let begin = |kind, offset| {
        let filled = |_| stand("filled");
        let filled_first = prepare(client, known, &request(kind, offset), 0, filled);
        filled_first.unwrap()
    };
    stand("come");
    if matches!(step, "started" | "ended-silently" | "ended") {
        let ticket = prepare(client, known, &request(KIND_WRITE, 0), 0, |_| {}).unwrap();
        assert!(ticket.has_started());
        stand("started");
        let page = Page([b'c'; BYTES]);
        // As a hook does it, but without its own request for leave.
        let result = file.write_at(&page.0, 0).unwrap();
        if step == "ended-silently" {
            ticket.cell().set_end(clock::now_ns(), result as i64);
            ticket.cell().set(CellState::Ended);
            stand("ended-silently");
            client.memory.post(ticket.number, true);
        } else {
            ticket.give_back(result as i64);
            stand("ended");
        }
        assert_eq!(read(file, 0), b'c');
        return;
    }
    // Others have all places, but for one that is to be given leave.
    let others = if step == "granted" { 1 } else { CROWD };
    let crowd: Vec<Ticket> = (1..=others)
        .filter_map(|at| prepare(client, known, &request(KIND_WRITE, at << 20), 0, |_| {}))
        .collect();
    let has_leave = match step {
        "claimed" => {
            let ticket = Ticket {
                client,
                number: claim(client, 0).unwrap(),
            };
            stand("claimed");
            let asked = judge(client, known, &request(KIND_READ, 0), clock::now_ns());
            ticket.cell().fill(&asked);
            ticket.post();
            ticket.wait(u64::MAX).then_some(ticket)
        }
        "posted-silently" | "left-silently" => {
            let ticket = begin(KIND_READ, 0);
            assert!(ticket.cell().change(CellState::Claimed, CellState::Posted));
            stand("posted-silently");
            if step == "left-silently" {
                assert!(ticket.cell().change(CellState::Posted, CellState::Left));
                stand("left-silently");
            }
            client.memory.post(ticket.number, true);
            ticket.wait(u64::MAX);
            None
        }
        _ => {
            let ticket = begin(KIND_READ, 0);
            assert!(!ticket.has_started());
            ticket.post();
            stand("posted");
            if step == "granted" {
                while ticket.cell().state() != Some(CellState::Granted) {
                    thread::sleep(Duration::from_millis(1));
                }
                stand("granted");
            }
            let has_leave = ticket.wait(u64::MAX);
            // What was posted may have been given leave before the end.
            assert!(has_leave || step != "granted");
            has_leave.then_some(ticket)
        }
    };
    assert_eq!(read(file, 0), b'a');
    for ticket in crowd.into_iter().chain(has_leave) {
        ticket.give_back(BYTES as i64);
    }
}

/// Reads lines until one tells how it stands.
fn wait_for(lines: &mut impl BufRead, tells: impl Fn(&str) -> bool) -> String {
    let mut lines = lines.lines().map_while(Result::ok);
    lines.find(|line| tells(line)).unwrap_or_default()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Whether there is a disk.
fn survives(step: &str, path: &Path) -> bool {
    fs::write(path, vec![b'a'; 2 * BYTES]).unwrap();
    let mut broker = again("be_a_broker_until_it_is_killed", "broker")
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(broker.stdout.take().unwrap());
    let line = wait_for(&mut lines, |line| line.contains("address "));
    let (_, address) = line.split_once("address ").unwrap();
    let mut walker = again("walk_on_from_a_step", step)
        .env(ENVIRONMENT, address)
        .env(FILE, path)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(walker.stdout.take().unwrap());
    let stands = wait_for(&mut lines, |line| ["reached", "no disk"].contains(&line));
    kill(broker);
    walker.stdin.take().unwrap().write_all(b"\n").unwrap();
    let done = wait_for(&mut lines, |line| line == "done");
    // The harness says something after.
    io::copy(&mut lines, &mut io::sink()).unwrap();
    let mut errors = String::new();
    walker
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut errors)
        .unwrap();
    assert!(walker.wait().unwrap().success(), "{step}: {errors}");
    assert_eq!(done, "done", "{step}: {errors}");
    if stands == "no disk" {
        return false;
    }
    assert_eq!(stands, "reached", "{step}");
    assert_eq!(errors, LAMENT, "{step}");
    true
}

#[test]
fn a_request_is_done_at_whatever_step_the_broker_dies() {
    let directory = TempDir::new_in(env::current_dir().unwrap()).unwrap();
    for step in STEPS {
        if !survives(step, &directory.path().join("file")) {
            iolane_testing::skipped("this directory lies on no disk: nothing is scheduled");
            return;
        }
    }
}
