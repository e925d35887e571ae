//! Group commit, run in many orders of its threads' steps by `shuttle`:
//! `cargo test -p iolane-store --features shuttle shuttle`. Writes go to a real
//! file; they take no time that a model would know of.

use super::{CAPACITY_BYTES_MIN, Log};
use crate::ids::Lsn;
use crate::sync::Arc;
use iolane::{Engine, Level};
use shuttle::thread;
use std::time::Duration;

/// Each makes one order of the steps.
const ORDERS: usize = 300;
const COMMITS: usize = 2;

fn run(threads: usize, fails: bool, scarce: bool) {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let engine = Engine::new().unwrap();
    let path = directory.path().join("log");
    shuttle::check_random(
        move || {
            let mut options = Log::open_options();
            options
                .create(true)
                .size(Log::file_bytes(CAPACITY_BYTES_MIN));
            let file = engine.open(&path, &options).unwrap();
            let log = Log::create(
                file.clone(),
                file,
                CAPACITY_BYTES_MIN,
                1,
                Lsn(0),
                Level::Normal,
            )
            .unwrap();
            log.set_budget(scarce.then_some(0.0), Duration::ZERO);
            let log = Arc::new(log);
            let committers: Vec<_> = (0..threads)
                .map(|number| {
                    let log = Arc::clone(&log);
                    thread::spawn(move || {
                        for _ in 0..COMMITS {
                            let Ok(room) = log.reserve(100, false) else {
                                return;
                            };
                            let (_, end) = log.append(room, &[number as u8; 50], |_, _| {});
                            match log.make_durable(end) {
                                Ok(()) => assert!(log.durable() >= end),
                                Err(_) => assert!(fails),
                            }
                        }
                    })
                })
                .collect();
            if fails {
                log.fail("as if a page could not be written".to_owned());
            }
            for committer in committers {
                committer.join().unwrap();
            }
            if !fails {
                assert_eq!(log.durable(), log.end());
            }
        },
        ORDERS,
    );
}

/// Nobody waits for ever, and nobody goes on before its record is durable.
#[test]
fn shuttle_all_commit() {
    run(3, false, false);
    run(3, false, true);
}

/// A log that fails tells everybody.
#[test]
fn shuttle_all_are_told_of_a_failure() {
    run(3, true, false);
    run(3, true, true);
}
