//! Laws that hold for every queueing system, and the workload's own promises.

mod common;

use common::{GIB, Head, MIB, MS, constant};
use iolane_disk::elevator::{BlockLayerParameters, Core, LinuxNoop};
use iolane_disk::simulation::{
    Arrival, Commit, Host, Pattern, Report, Size, Stream, Tally, Time, Transactions,
};
use iolane_disk::{Elevator, Model, Simulation};
use iolane_sched::{Config, Level, Policy};

fn closed(outstanding: u32) -> Arrival {
    Arrival::Closed {
        outstanding,
        think: Time::Fixed(0),
    }
}

fn core(policy: Policy) -> Core {
    Core::new(Config::new(policy)).unwrap()
}

fn noop() -> LinuxNoop {
    LinuxNoop::noop(BlockLayerParameters::default()).unwrap()
}

/// A bit of everything: mixed sizes, both directions, think times, batches, an
/// open loop, transactions, CPU time.
fn motley(model: impl Model, elevator: impl Elevator, seed: u64) -> Report {
    Simulation::new(model, elevator, seed)
        .host(Host {
            call_ns: 2_000,
            operation_ns: 1_000,
        })
        .stream(Stream {
            name: "mixed".into(),
            arrival: closed(64),
            read_share: 0.7,
            sizes: vec![
                Size {
                    bytes: 4096,
                    weight: 3.0,
                },
                Size {
                    bytes: 65_536,
                    weight: 1.0,
                },
            ],
            level: Level::Prefetch,
            ..Stream::default()
        })
        .stream(Stream {
            name: "scan".into(),
            arrival: closed(32),
            batch: 16,
            pattern: Pattern::Sequential,
            sizes: Stream::sizes_of(16 << 10),
            process: 1,
            ..Stream::default()
        })
        .stream(Stream {
            name: "large".into(),
            arrival: Arrival::Closed {
                outstanding: 1,
                think: Time::Exponential(3e6),
            },
            pattern: Pattern::Strided(8 * MIB),
            sizes: Stream::sizes_of(2 << 20),
            process: 2,
            sync: false,
            read_share: 0.0,
            level: Level::Background,
            ..Stream::default()
        })
        .stream(Stream {
            name: "open".into(),
            arrival: Arrival::Open {
                per_second: 20.0,
                poisson: true,
                outstanding_max: 50,
            },
            process: 3,
            level: Level::Foreground,
            ..Stream::default()
        })
        .transactions(Transactions {
            threads: 4,
            process_first: 10,
            reads: 1,
            ..Transactions::default()
        })
        .run(200 * MS, 4_000 * MS)
        .unwrap()
}

fn assert_littles_law(who: &str, tally: &Tally) {
    let by_law = tally.per_second() * tally.latency_mean_ns / 1e9;
    let measured = tally.outstanding_mean;
    // What is outstanding at the ends of the measured time is off by at most
    // itself times its latency, over the time.
    let tolerance =
        0.02 * by_law + 2.0 * measured * tally.latency.max() as f64 / tally.duration_ns as f64;
    assert!(
        (by_law - measured).abs() <= tolerance,
        "{who}, {}: {by_law} by Little's law, {measured} measured",
        tally.name
    );
}

#[test]
fn every_elevator_obeys_littles_law_and_loses_nothing() {
    for (name, elevator) in common::elevators() {
        let report = motley(Head::new(8), elevator, 7);
        for tally in &report.streams {
            assert!(tally.operations > 0, "{name}: {} got nothing", tally.name);
            assert_littles_law(name, tally);
        }
        let transactions = &report.transactions[0];
        assert!(transactions.transactions.operations > 0, "{name}");
        assert_littles_law(name, &transactions.transactions);
        assert_littles_law(name, &transactions.operations);
        // A closed loop keeps exactly what it was given outstanding: nothing
        // is lost, and nothing ends twice.
        for (stream, outstanding) in [("mixed", 64.0), ("scan", 32.0)] {
            let measured = report.stream(stream).unwrap().outstanding_mean;
            let within = measured > 0.4 * outstanding && measured <= outstanding;
            assert!(within, "{name}, {stream}: {measured}");
        }
        assert_eq!(
            report.stream("mixed").unwrap().outstanding_mean,
            64.0,
            "{name}"
        );
        assert!(report.busy_share() > 0.5, "{name}: {}", report.busy_share());
    }
}

/// Everything that a report holds, in a form that can be compared.
fn digest(report: &Report) -> String {
    let tallies = report.streams.iter().chain(
        report
            .transactions
            .iter()
            .flat_map(|tally| [&tally.transactions, &tally.operations]),
    );
    let mut text = format!("{} {:?}", report.commands, report.in_disk);
    for tally in tallies {
        text += &format!(
            " {} {} {} {} {}",
            tally.operations,
            tally.latency_mean_ns,
            tally.latency.max(),
            tally.latency_ns(0.99),
            tally.outstanding_mean
        );
    }
    text
}

#[test]
fn the_same_seed_gives_the_same_report_and_another_one_another() {
    let of = |seed| {
        let all = common::elevators().into_iter();
        all.map(|(_, elevator)| digest(&motley(Head::new(8), elevator, seed)))
            .collect::<Vec<_>>()
    };
    let first = of(1);
    assert_eq!(first, of(1));
    for (one, other) in first.iter().zip(of(2)) {
        assert_ne!(*one, other);
    }
}

#[test]
fn boxed_parts_give_the_same_report() {
    let model: Box<dyn Model> = Box::new(Head::new(8));
    let elevator: Box<dyn Elevator> = Box::new(core(Policy::Lanes));
    let boxed = digest(&motley(model, elevator, 3));
    assert_eq!(boxed, digest(&motley(Head::new(8), core(Policy::Lanes), 3)));
}

#[test]
fn a_constant_disk_gives_as_many_as_it_holds_in_its_latency() {
    for policy in Policy::ALL {
        for outstanding in [1, 4, 32, 100] {
            let report = Simulation::new(constant(32, MS), core(policy), 1)
                .stream(Stream {
                    arrival: closed(outstanding),
                    ..Stream::default()
                })
                .run(1_000 * MS, 1_000 * MS)
                .unwrap();
            // lanes learns how much is useful; it must not go below that.
            let expected = f64::from(outstanding.min(32)) * 1000.0;
            let rate = report.per_second();
            let lowest = if policy == Policy::Lanes { 0.9 } else { 1.0 };
            assert!(
                rate >= lowest * expected && rate <= expected,
                "{policy}, {outstanding} outstanding: {rate} instead of {expected}"
            );
            let in_disk = report.in_disk_mean();
            assert!((in_disk * 1000.0 - rate).abs() < 1.0, "{policy}: {in_disk}");
        }
    }
}

#[test]
fn an_open_loop_waits_as_long_as_theory_says() {
    // One server, constant service, Poisson arrivals: the mean wait is
    // rho / (2 (1 - rho)) services (Pollaczek and Khinchine).
    let service_ns = 100_000.0;
    for rho in [0.3, 0.6, 0.8] {
        let report = Simulation::new(constant(1, service_ns as u64), noop(), 11)
            .stream(Stream {
                arrival: Arrival::Open {
                    per_second: rho * 1e9 / service_ns,
                    poisson: true,
                    outstanding_max: 10_000,
                },
                ..Stream::default()
            })
            .run(1_000 * MS, 200_000 * MS)
            .unwrap();
        let tally = &report.streams[0];
        let wait_ns = tally.latency_mean_ns - service_ns;
        let expected_ns = rho / (2.0 * (1.0 - rho)) * service_ns;
        let error = (wait_ns / expected_ns - 1.0).abs();
        assert!(
            error < 0.02,
            "rho {rho}: {wait_ns} ns instead of {expected_ns} ns"
        );
        assert!(
            (report.busy_share() - rho).abs() < 0.01,
            "{}",
            report.busy_share()
        );
        assert!((tally.queued_mean_ns - wait_ns).abs() < 1.0);
        assert_eq!(tally.refused, 0);
    }
}

#[test]
fn an_open_loop_beyond_the_disks_rate_is_bounded_and_counts_what_it_refused() {
    let report = Simulation::new(constant(1, MS), noop(), 1)
        .stream(Stream {
            arrival: Arrival::Open {
                per_second: 2000.0,
                poisson: false,
                outstanding_max: 20,
            },
            ..Stream::default()
        })
        .run(1_000 * MS, 1_000 * MS)
        .unwrap();
    let tally = &report.streams[0];
    assert_eq!(tally.operations, 1000);
    assert_eq!(tally.refused, 1000);
    assert!(tally.outstanding_mean <= 20.0, "{}", tally.outstanding_mean);
}

#[test]
fn thinking_and_cpu_time_bound_the_rate() {
    let thinker = |think, host| {
        Simulation::new(constant(64, MS), noop(), 1)
            .host(host)
            .stream(Stream {
                arrival: Arrival::Closed {
                    outstanding: 1,
                    think,
                },
                ..Stream::default()
            })
            .run(1_000 * MS, 10_000 * MS)
            .unwrap()
            .per_second()
    };
    assert_eq!(thinker(Time::Fixed(3 * MS), Host::default()), 250.0);
    let exponential = thinker(Time::Exponential(3e6), Host::default());
    assert!((exponential - 250.0).abs() < 10.0, "{exponential}");
    let host = Host {
        call_ns: MS / 2,
        operation_ns: MS / 2,
    };
    assert_eq!(thinker(Time::Fixed(2 * MS), host), 250.0);

    // Many outstanding, one processor: 10 us a call and 1 us an operation.
    let submitted_by = |batch| {
        Simulation::new(constant(1024, MS), core(Policy::Noop), 1)
            .host(Host {
                call_ns: 10_000,
                operation_ns: 1_000,
            })
            .stream(Stream {
                arrival: closed(1024),
                batch,
                ..Stream::default()
            })
            .run(1_000 * MS, 1_000 * MS)
            .unwrap()
            .per_second()
    };
    let (one, many) = (submitted_by(1), submitted_by(32));
    assert!((one - 1e9 / 11_000.0).abs() < 0.01 * one, "{one}");
    assert!((many - 32.0 * 1e9 / 42_000.0).abs() < 0.01 * many, "{many}");
}

#[test]
fn a_batch_is_merged_whole_and_a_long_operation_is_split() {
    let scan = |bytes, batch| {
        let stream = Stream {
            arrival: closed(batch),
            batch,
            pattern: Pattern::Sequential,
            sizes: Stream::sizes_of(bytes),
            region: 0..GIB,
            ..Stream::default()
        };
        Simulation::new(Head::new(1), noop(), 1)
            .stream(stream)
            .run(1_000 * MS, 10_000 * MS)
            .unwrap()
    };
    let apart = scan(16 << 10, 1);
    assert_eq!(apart.command_bytes_mean(), 16384.0);
    // 64 of 16 KiB are two requests of the 512 KiB that the block layer allows.
    let together = scan(16 << 10, 64);
    assert_eq!(together.command_bytes_mean(), 524_288.0);
    let large = scan(1 << 20, 1);
    assert_eq!(large.command_bytes_mean(), 524_288.0);
    let tally = &large.streams[0];
    assert!(
        (tally.per_second() - 32.0).abs() < 0.5,
        "{}",
        tally.per_second()
    );
    let mb = together.bytes_per_second() / MIB as f64;
    assert!((mb - 32.0).abs() < 0.5, "{mb}");
}

#[test]
fn a_full_pool_blocks_the_submitting_thread_and_nobody_else() {
    let background = |process| Stream {
        name: "background".into(),
        arrival: closed(200),
        read_share: 0.0,
        process,
        level: Level::Background,
        ..Stream::default()
    };
    let foreground = Stream {
        name: "foreground".into(),
        process: 1,
        read_share: 0.0,
        level: Level::Foreground,
        ..Stream::default()
    };
    let run = |process| {
        let mut config = Config::new(Policy::PrioDeadline);
        config.levels[Level::Background.index()].queued_max = 16;
        Simulation::new(constant(4, MS), Core::new(config).unwrap(), 1)
            .stream(background(process))
            .stream(foreground.clone())
            .run(1_000 * MS, 4_000 * MS)
            .unwrap()
    };
    let own_thread = run(0);
    // 16 queued and 4 in the disk, one or two of those the foreground's.
    assert!(
        own_thread.blocked_mean > 178.0,
        "{}",
        own_thread.blocked_mean
    );
    assert!(own_thread.in_elevator_mean() <= 17.0);
    let alone_ns = own_thread.stream("foreground").unwrap().latency_mean_ns;
    let shared_ns = run(1).stream("foreground").unwrap().latency_mean_ns;
    assert!(
        shared_ns > 5.0 * alone_ns,
        "{shared_ns} ns behind a blocked submitter, {alone_ns} ns beside it"
    );
    // Linux 2.6's own pool: 128 requests in all, those in the disk included.
    let report = Simulation::new(constant(4, MS), noop(), 1)
        .stream(background(0))
        .run(1_000 * MS, 1_000 * MS)
        .unwrap();
    assert_eq!(report.blocked_mean, 72.0);
    assert_eq!(report.in_elevator_mean(), 124.0);
}

#[test]
fn transactions_cost_their_cpu_time_and_their_log_writes() {
    let per_second = |commit, threads, serial_ns| {
        let report = Simulation::new(constant(64, 100_000), noop(), 1)
            .transactions(Transactions {
                threads,
                cpu: Time::Fixed(100_000),
                serial_ns,
                commit,
                ..Transactions::default()
            })
            .run(1_000 * MS, 1_000 * MS)
            .unwrap();
        report.transactions[0].transactions.per_second()
    };
    // 100 us of CPU, 100 us write, 100 us flush.
    assert_eq!(per_second(Commit::Never, 1, 0), 10_000.0);
    assert_eq!(per_second(Commit::Never, 8, 0), 80_000.0);
    assert_eq!(per_second(Commit::Never, 8, 50_000), 20_000.0);
    assert!((per_second(Commit::Each, 1, 0) - 3333.0).abs() < 1.0);
    assert!((per_second(Commit::Each, 8, 0) - 5000.0).abs() < 1.0);
    // The threads fall into two groups that take turns at the log, so that all
    // eight commit in two log writes: never fewer.
    let grouped = per_second(Commit::Group, 8, 0);
    assert!((19_000.0..=27_000.0).contains(&grouped), "{grouped}");
}

#[test]
fn a_workload_that_the_disk_cannot_have_is_refused_with_its_name() {
    let refusal = |stream: Stream| {
        let error = Simulation::new(constant(1, MS), noop(), 1)
            .stream(stream)
            .run(0, MS)
            .unwrap_err();
        error.to_string()
    };
    let default = Stream::default;
    let cases = [
        Stream {
            region: 0..65 * GIB,
            ..default()
        },
        Stream {
            sizes: Stream::sizes_of(1000),
            ..default()
        },
        Stream {
            sizes: Vec::new(),
            ..default()
        },
        Stream {
            read_share: 1.5,
            ..default()
        },
        Stream {
            batch: 3,
            arrival: closed(4),
            ..default()
        },
        Stream {
            pattern: Pattern::Strided(0),
            ..default()
        },
    ];
    let words = [
        "region",
        "sizes",
        "sizes",
        "read_share",
        "outstanding",
        "stride",
    ];
    for (stream, word) in cases.into_iter().zip(words) {
        let message = refusal(stream);
        assert!(
            message.starts_with(&format!("{word} of 'stream' is")),
            "{message}"
        );
    }
}
