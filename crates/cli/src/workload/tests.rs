//! Real transfers on small files. What is asserted does not depend on how
//! fast or how busy the machine is.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use iolane::{IoPriority as Handed, Policy, WindowConfig};

use super::*;
use crate::args::choices::Backend;
use crate::error::Kind;
use crate::target::TargetRequest;

const BLOCK_BYTES: u64 = 4096;
const BLOCKS: u64 = 256;
const SHORT: Times = Times {
    warm_up: Duration::from_millis(20),
    runtime: Duration::from_millis(100),
};
/// Longer than any test waits.
const ENDLESS: Times = Times {
    warm_up: Duration::ZERO,
    runtime: Duration::from_secs(600),
};

struct Fixture {
    _directory: tempfile::TempDir,
    path: PathBuf,
    target: Target,
    session: Session,
    arena: Arena,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("target");
        // Zeros: what is written is told from it.
        fs::write(&path, vec![0; (BLOCKS * BLOCK_BYTES) as usize]).unwrap();
        let session = Session::quiet();
        let request = TargetRequest {
            file: Some(path.clone()),
            directory: None,
            size_bytes: None,
            default_size_bytes: 0,
            transfer_sizes_bytes: vec![BLOCK_BYTES],
            direct: false,
            reads: true,
            writes: true,
            destructive: true,
            named_files: false,
        };
        Self {
            target: Target::prepare(&request, &session).unwrap(),
            path,
            _directory: directory,
            session,
            arena: arena(&[(64, BLOCK_BYTES)]).unwrap(),
        }
    }

    fn carrier(&self, backend: Backend, queued_max: u32) -> Carrier {
        let options = CarrierOptions {
            backend,
            direct: false,
            writes: true,
        };
        let configure = move |config: &mut iolane::Config| {
            for level in &mut config.levels {
                level.queued_max = queued_max;
            }
            config.window = WindowConfig::Fixed(8);
        };
        Carrier::open(
            options,
            Policy::Noop,
            Handed::Off,
            &self.target,
            &self.arena,
            configure,
        )
        .unwrap()
    }

    /// Runs for so long that each stream moves so much: where the machine stalls
    /// for as long as is measured, there is nothing to be looked at.
    fn run_for(&self, operations: u64, streams: &[Stream]) -> Vec<Load> {
        let runtimes_ms = [100, 1000, 10_000, 60_000];
        let mut loads = runtimes_ms.into_iter().map(|ms| {
            let times = Times {
                runtime: Duration::from_millis(ms),
                ..SHORT
            };
            self.run(times, streams).unwrap()
        });
        let moved = |loads: &Vec<Load>| loads.iter().all(|load| load.operations >= operations);
        loads.find(moved).expect("every stream moves so much")
    }

    fn run(&self, times: Times, streams: &[Stream]) -> Result<Vec<Load>, Failure> {
        let measured = run(
            "test",
            streams,
            times,
            &self.arena,
            &self.target,
            &self.session,
            || (),
        );
        measured.map(|measured| measured.loads)
    }
}

fn stream(carrier: &Carrier, level: Level, arrival: Arrival, operation: Operation) -> Stream {
    Stream {
        name: "test",
        file: carrier.file.clone(),
        level,
        arrival,
        operation,
        pattern: Pattern::Random,
        block_sizes_bytes: vec![BLOCK_BYTES],
        memory_bytes: 0,
        seed: 1,
        thread_priority: None,
    }
}

const ARRIVALS: [Arrival; 4] = [
    Arrival::Callbacks(1),
    Arrival::Callbacks(32),
    Arrival::Threads(3),
    Arrival::Rate(2000.0),
];

#[test]
fn every_kind_of_stream_moves_what_it_says() {
    let fixture = Fixture::new();
    for backend in [Backend::Auto, Backend::LinuxAio, Backend::Threads] {
        let carrier = fixture.carrier(backend, 4096);
        for arrival in ARRIVALS {
            for operation in [Operation::Read, Operation::Write] {
                let before = carrier.file.device().statistics().total();
                let streams = [stream(&carrier, Level::Normal, arrival, operation)];
                let loads = fixture.run_for(1, &streams);
                let after = carrier.file.device().statistics().total();
                let moved = match operation {
                    Operation::Read => after.read.requests - before.read.requests,
                    Operation::Write => after.write.requests - before.write.requests,
                };
                let load = &loads[0];
                assert_eq!(load.bytes, load.operations * BLOCK_BYTES);
                assert!(load.operations <= moved, "{arrival:?} {operation:?}");
                assert_eq!(carrier.file.device().statistics().outstanding.count(), 0);
            }
        }
    }
    let content = fs::read(&fixture.path).unwrap();
    let zeros = content.iter().filter(|byte| **byte == 0).count();
    assert!(zeros < content.len() / 2, "writes are random bytes");
}

/// Each buffer has bytes of its own, and so the file tells which were used.
#[test]
fn memory_is_used_in_turn() {
    let fixture = Fixture::new();
    let carrier = fixture.carrier(Backend::Auto, 4096);
    for buffers in [1, 2, 10] {
        let streams = [Stream {
            memory_bytes: buffers * BLOCK_BYTES,
            ..stream(
                &carrier,
                Level::Normal,
                Arrival::Callbacks(2),
                Operation::Write,
            )
        }];
        // Every block of the file some times over.
        fixture.run_for(20 * BLOCKS, &streams);
        let content = fs::read(&fixture.path).unwrap();
        let used: HashSet<_> = content.chunks(BLOCK_BYTES as usize).collect();
        // No fewer than are outstanding.
        assert_eq!(used.len() as u64, buffers.max(2));
    }
}

#[test]
fn the_warm_up_is_not_counted() {
    let fixture = Fixture::new();
    let carrier = fixture.carrier(Backend::Auto, 4096);
    for arrival in ARRIVALS {
        let streams = [stream(&carrier, Level::Normal, arrival, Operation::Read)];
        let reads = || carrier.file.device().statistics().total().read.requests;
        // A warm-up in which the machine stalls is mostly none.
        let is_without = |warm_up_ms| {
            let times = Times {
                warm_up: Duration::from_millis(warm_up_ms),
                runtime: Duration::from_millis(1),
            };
            let before = reads();
            let loads = fixture.run(times, &streams).unwrap();
            let all = reads() - before;
            println!("{arrival:?}: {} of {all}", loads[0].operations);
            loads[0].operations * 10 < all
        };
        assert!([300, 3000, 30_000].into_iter().any(is_without));
    }
}

#[test]
fn an_open_loop_keeps_its_rate_and_counts_from_the_intended_start() {
    let fixture = Fixture::new();
    let carrier = fixture.carrier(Backend::Auto, 4096);
    let times = Times {
        warm_up: Duration::ZERO,
        runtime: Duration::from_millis(500),
    };
    let arrival = Arrival::Rate(200.0);
    let streams = [stream(&carrier, Level::Normal, arrival, Operation::Read)];
    let loads = fixture.run(times, &streams).unwrap();
    // Every intended start within the time is there, however late it was, or
    // it is said that a stalled machine could not send it.
    let operations = loads[0].operations;
    assert!(operations <= 101, "{operations}");
    assert!(
        operations >= 99 || !fixture.session.warnings().is_empty(),
        "{operations}"
    );
}

#[test]
fn a_rate_that_cannot_be_kept_is_said() {
    let fixture = Fixture::new();
    let carrier = fixture.carrier(Backend::Auto, 4096);
    let arrival = Arrival::Rate(10_000_000.0);
    let streams = [stream(&carrier, Level::Normal, arrival, Operation::Read)];
    let times = Times {
        warm_up: Duration::ZERO,
        ..SHORT
    };
    let loads = fixture.run(times, &streams).unwrap();
    assert!(loads[0].operations < 1_000_000);
    let warnings = fixture.session.warnings();
    assert!(
        warnings[0].contains("could not be sent in time"),
        "{warnings:?}"
    );
    // What is behind its intended start counts as such.
    assert!(loads[0].latency_ns.max() > 10_000_000);
}

#[test]
fn a_full_allocation_group_loses_no_request() {
    let fixture = Fixture::new();
    for backend in [Backend::Auto, Backend::Threads] {
        let carrier = fixture.carrier(backend, 2);
        let streams = [
            stream(
                &carrier,
                Level::Foreground,
                Arrival::Callbacks(20),
                Operation::Read,
            ),
            stream(
                &carrier,
                Level::Background,
                Arrival::Callbacks(40),
                Operation::Write,
            ),
        ];
        fixture.run_for(61, &streams);
        let statistics = carrier.file.device().statistics();
        assert_eq!(statistics.outstanding.count(), 0);
        assert_eq!(statistics.callback_panics, 0);
    }
}

#[test]
fn the_levels_are_those_of_the_streams() {
    let fixture = Fixture::new();
    let carrier = fixture.carrier(Backend::Auto, 4096);
    let streams = [
        stream(
            &carrier,
            Level::Foreground,
            Arrival::Threads(1),
            Operation::Read,
        ),
        stream(
            &carrier,
            Level::Background,
            Arrival::Callbacks(8),
            Operation::Write,
        ),
    ];
    fixture.run_for(1, &streams);
    let levels = carrier.file.device().statistics().levels;
    for (index, level) in levels.iter().enumerate() {
        assert_eq!(level.read.requests > 0, index == Level::Foreground.index());
        assert_eq!(level.write.requests > 0, index == Level::Background.index());
    }
}

/// Runs an endless load, does something to it, and gives what it ended with.
fn interfered(fixture: &Fixture, arrival: Arrival, interfere: impl FnOnce()) -> Failure {
    let carrier = fixture.carrier(Backend::Auto, 4096);
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            let streams = [stream(&carrier, Level::Normal, arrival, Operation::Read)];
            fixture.run(ENDLESS, &streams).unwrap_err()
        });
        while carrier.file.device().statistics().total().read.requests < 10 {
            thread::yield_now();
        }
        interfere();
        running.join().unwrap()
    })
}

#[test]
fn the_stop_flag_ends_every_kind_of_stream() {
    for arrival in ARRIVALS {
        let fixture = Fixture::new();
        let stop = fixture.session.stop.clone();
        let failure = interfered(&fixture, arrival, || {
            stop.raise(2);
        });
        assert!(
            failure.to_string().contains("stopped by Ctrl-C"),
            "{failure}"
        );
    }
}

#[test]
fn a_target_cut_short_under_the_run_is_an_error_with_its_place() {
    for arrival in ARRIVALS {
        let fixture = Fixture::new();
        let file = fs::OpenOptions::new()
            .write(true)
            .open(&fixture.path)
            .unwrap();
        let failure = interfered(&fixture, arrival, || file.set_len(100).unwrap());
        let message = failure.to_string();
        let place = format!("of {} failed: it gave ", fixture.path.display());
        assert!(
            message.starts_with("read of 4096 bytes at offset ") && message.contains(&place),
            "{message}"
        );
        assert_eq!(failure.kind(), Kind::Runtime);
    }
}

#[test]
fn an_error_of_the_kernel_keeps_its_number() {
    let fixture = Fixture::new();
    let options = CarrierOptions {
        backend: Backend::Auto,
        direct: false,
        writes: false,
    };
    let carrier = Carrier::open(
        options,
        Policy::Lanes,
        Handed::Off,
        &fixture.target,
        &fixture.arena,
        |_| (),
    )
    .unwrap();
    for arrival in ARRIVALS {
        let streams = [stream(&carrier, Level::Normal, arrival, Operation::Write)];
        match fixture.run(SHORT, &streams).unwrap_err() {
            Failure::Transfer { what, source } => {
                assert_eq!(source.raw_os_error(), Some(libc::EBADF));
                assert!(what.starts_with("write of 4096 bytes at offset "), "{what}");
            }
            other => panic!("{other}"),
        }
    }
}
