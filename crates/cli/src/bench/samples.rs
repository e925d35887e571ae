//! Made-up results for tests of the documents, near those of a fast virtual
//! disk.

use std::time::Duration;

use super::batch::{BatchOutcome, BatchRun, BatchSetting, HandOver};
use super::commit::{CommitOutcome, CommitRun, CommitSetting};
use super::hugepages::{
    Dtlb, HugepagesResult, KindResult, Measured, Outcome, Pages, ProcessTables, ReadCost, Skip,
    Spread,
};
use super::load::Load;
use super::mix::{LearnedRate, LearnedUnit, LearnedWindow, MixOutcome, MixRun, SchedulerKind};
use super::store::{
    BackgroundRun, DeviceRates, Gaps, RunFigures, Setting, Slice, SliceOutstanding, StoreCounts,
    StoreRun, TableFacts,
};
use super::sweep::{SweepOutcome, SweepRun};
use crate::args::choices::{Backend, IoMode, Switch, SyncMethod};
use crate::args::store_bench::{Beside, Experiment, LoadOrder, StorePolicy};
use crate::demo;
use crate::inflight::{CpuTime, InFlight};
use crate::output::json::latency_histogram;
use iolane_store::Ledger;

const SECONDS: u64 = 5;

/// Latencies spread evenly in their logarithm around a middle, with a tail.
pub fn load(operations_per_second: f64, middle_us: f64, p99_us: f64, block_bytes: u64) -> Load {
    const POINTS: u64 = 20_000;
    let mut histogram = latency_histogram();
    let operations = (operations_per_second * SECONDS as f64) as u64;
    let growth = (p99_us / middle_us).ln() / (50f64).ln();
    for point in 0..POINTS {
        let rest = 1.0 - (point as f64 + 0.5) / POINTS as f64;
        let us = middle_us * ((0.5 / rest).ln() * growth).exp();
        let count = operations * (point + 1) / POINTS - operations * point / POINTS;
        histogram.saturating_record_n((us * 1000.0) as u64, count);
    }
    Load::new(
        operations * block_bytes,
        Duration::from_secs(SECONDS),
        histogram,
    )
}

fn cpu(operations: u64) -> CpuTime {
    CpuTime {
        user_ns: operations * 900,
        system_ns: operations * 3100,
        context_switches: operations / 10,
    }
}

fn in_flight(mean: u64) -> InFlight {
    InFlight {
        samples: 4900,
        mean_requests: mean as f64,
        max_requests: mean + 1,
        idle_share: 0.0,
        distribution: vec![(mean, 4900)],
    }
}

pub fn sweep() -> SweepOutcome {
    let runs = [
        (1, 14_400.0, 66.0, 95.0),
        (2, 23_100.0, 80.0, 130.0),
        (4, 33_700.0, 105.0, 210.0),
        (8, 41_000.0, 180.0, 420.0),
        (16, 45_800.0, 330.0, 800.0),
        (32, 48_700.0, 640.0, 1500.0),
        (64, 49_900.0, 1250.0, 2600.0),
        (128, 49_300.0, 2500.0, 5100.0),
        (256, 47_900.0, 5200.0, 11_000.0),
    ];
    let runs = runs.map(|(depth, rate, middle, p99)| {
        let load = load(rate, middle, p99, 16384);
        let cpu = cpu(load.operations);
        SweepRun::new(depth, load, Some(in_flight(depth)), cpu)
    });
    SweepOutcome::new(
        "io_uring (the best that this machine allows)".to_owned(),
        runs.into(),
    )
}

fn mix_run(
    name: &str,
    kind: SchedulerKind,
    foreground: (f64, f64, f64),
    background: f64,
) -> MixRun {
    let (rate, middle, p99) = foreground;
    let foreground = load(rate, middle, p99, 16384);
    let background = load(background, 2400.0, 6000.0, 16384);
    let cpu = cpu(foreground.operations + background.operations);
    MixRun::new(name, kind, foreground, background, Some(in_flight(64)), cpu)
}

pub fn mix() -> MixOutcome {
    use SchedulerKind::{FixedWindow, Kernel, KernelIoprio, Policy};
    let mut runs = vec![
        mix_run("noop", Policy, (600.0, 1650.0, 3900.0), 47_800.0),
        mix_run("deadline", Policy, (640.0, 1500.0, 3700.0), 47_500.0),
        mix_run("prio-deadline", Policy, (1900.0, 500.0, 1400.0), 47_100.0),
        mix_run("lanes", Policy, (6600.0, 140.0, 255.0), 41_200.0),
        mix_run("none", Kernel, (600.0, 1654.0, 3916.0), 47_800.0),
        mix_run(
            "mq-deadline+ioprio",
            KernelIoprio,
            (1850.0, 540.0, 2638.0),
            42_900.0,
        ),
        mix_run(
            "kyber+ioprio",
            KernelIoprio,
            (1040.0, 961.0, 3195.0),
            46_200.0,
        ),
        mix_run("bfq+ioprio", KernelIoprio, (21_000.0, 46.0, 94.0), 900.0),
    ];
    runs[3].learned.push(LearnedWindow {
        window_requests: 6.2,
        service_ns: 46_000,
        unflushed_max: None,
        rate_limit: Some(LearnedRate {
            unit: LearnedUnit::Requests,
            each: false,
            per_second: 48_000.0,
        }),
    });
    let windows = [
        (1, 88.0, 9_000.0),
        (2, 120.0, 17_500.0),
        (4, 175.0, 27_000.0),
        (8, 330.0, 36_500.0),
        (16, 620.0, 42_000.0),
        (32, 1200.0, 45_500.0),
        (64, 2300.0, 47_300.0),
        (128, 3900.0, 47_800.0),
    ];
    runs.extend(windows.map(|(window, p99, background)| {
        mix_run(
            "lanes",
            FixedWindow,
            (1e6 / p99, p99 / 2.0, p99),
            background,
        )
        .with_window(window)
    }));
    MixOutcome {
        description: "Foreground and background.".to_owned(),
        backend: "io_uring (the best that this machine allows)".to_owned(),
        runs,
    }
}

pub fn mix_with_shares() -> MixOutcome {
    let runs = (1..=9).map(|tenth| {
        let share = tenth as f64 / 10.0;
        mix_run(
            "prio-deadline",
            SchedulerKind::Policy,
            (
                250.0 * share,
                280_000.0 + 400_000.0 * share * share,
                2_000_000.0,
            ),
            250.0 * (1.0 - share),
        )
        .with_high_share(tenth * 10)
    });
    MixOutcome {
        description: "Foreground and background.".to_owned(),
        backend: "linux-aio (asked for)".to_owned(),
        runs: runs.collect(),
    }
}

pub fn batch() -> BatchOutcome {
    let mut runs = Vec::new();
    for (backend, cost) in [
        (Backend::IoUring, 1.0),
        (Backend::LinuxAio, 1.3),
        (Backend::Threads, 4.0),
    ] {
        for block in [4096, 16384] {
            for batch in [1, 32, 64, 128, 256, 512, 1024] {
                let load = load(50_000.0 / cost, 15_000.0, 30_000.0, block);
                let ns = (2500.0 * cost + 6000.0 / batch as f64) as u64 * load.operations;
                let cpu = CpuTime {
                    user_ns: ns / 4,
                    system_ns: ns * 3 / 4,
                    context_switches: 10,
                };
                let setting = BatchSetting {
                    backend,
                    block_size_bytes: block,
                    batch_size: batch,
                    merging: Switch::Off,
                    pending: 1000,
                };
                let hand_over = HandOver {
                    hand_overs: load.operations / batch,
                    transfers: load.operations,
                };
                runs.push(BatchRun::new(setting, load, hand_over, cpu));
            }
        }
    }
    BatchOutcome { runs }
}

pub fn commit() -> CommitOutcome {
    let mut runs = Vec::new();
    for (threads, method, io, group_commit, rate, syncs_share) in [
        (
            1,
            SyncMethod::ODsync,
            IoMode::Direct,
            Switch::Off,
            9_100.0,
            1.0,
        ),
        (
            1,
            SyncMethod::Fdatasync,
            IoMode::Buffered,
            Switch::Off,
            8_300.0,
            1.0,
        ),
        (
            8,
            SyncMethod::ODsync,
            IoMode::Direct,
            Switch::Off,
            21_000.0,
            1.0,
        ),
        (
            8,
            SyncMethod::Fdatasync,
            IoMode::Buffered,
            Switch::On,
            33_000.0,
            0.26,
        ),
    ] {
        let setting = CommitSetting {
            threads,
            method,
            io,
            group_commit,
        };
        let load = load(
            rate,
            1e6 / rate * threads as f64,
            2e6 / rate * threads as f64,
            512,
        );
        let syncs = (load.operations as f64 * syncs_share) as u64;
        let cpu = cpu(load.operations);
        runs.push(CommitRun::new(setting, 512, load, syncs, cpu));
    }
    CommitOutcome { runs }
}

fn spread(median: f64) -> Spread {
    Spread {
        median,
        min: median * 0.9,
        max: median * 1.2,
        samples: vec![median, median * 0.9, median * 1.2],
    }
}

fn skip(cause: &str) -> Skip {
    Skip {
        cause: cause.to_owned(),
        remedy: "reserve some".to_owned(),
    }
}

fn pages(pages: Pages, page_bytes: u64, lookup_ns: f64) -> KindResult {
    let read = |cpu_ns| ReadCost {
        cpu_ns: spread(cpu_ns),
        reads_per_s: spread(1e9 / cpu_ns),
    };
    KindResult {
        pages,
        outcome: Outcome::Measured(Box::new(Measured {
            pages_got: format!("pages of {page_bytes} bytes"),
            page_bytes,
            huge_bytes: Some(if page_bytes > 4096 { 1 << 30 } else { 0 }),
            page_table_bytes: (1 << 30) / page_bytes * 8,
            lookup_ns: spread(lookup_ns),
            dtlb: Dtlb::Skipped(skip("no counter")),
            buffered_read: read(2000.0 + lookup_ns),
            direct_read: Some(read(9000.0 + lookup_ns)),
            process_tables: ProcessTables::Measured {
                cache_bytes: 1 << 30,
                huge_bytes: 0,
                per_process_bytes: vec![(1 << 30) / page_bytes * 8; 4],
                paper_case_bytes: (4500 << 30) / page_bytes * 8,
            },
        })),
    }
}

pub fn hugepages() -> HugepagesResult {
    HugepagesResult {
        cache_bytes: 1 << 30,
        cache_asked_bytes: 1 << 30,
        db_page_bytes: 16384,
        base_page_bytes: 4096,
        lookups: 2_000_000,
        repeats: 3,
        seed: 1,
        kinds: vec![
            pages(Pages::Plain, 4096, 100.0),
            pages(Pages::Transparent, 2 << 20, 70.0),
            pages(Pages::Huge2MiB, 2 << 20, 60.0),
            KindResult {
                pages: Pages::Huge1GiB,
                outcome: Outcome::Skipped(skip("none reserved")),
            },
        ],
    }
}

/// A run of transactions of which each hundredth takes so long.
pub fn transactions(setting: Setting, p99_us: f64, rows_per_second: f64) -> StoreRun {
    let load = load(2000.0, 150.0, p99_us, 1000);
    let background = setting.beside.iter().map(|&what| BackgroundRun {
        what,
        rows: (rows_per_second * SECONDS as f64) as u64,
        rows_per_second,
    });
    let outstanding = SliceOutstanding {
        mean_requests: 4.5,
        idle_share: 0.01,
    };
    let slice = |number: u64| Slice {
        end_ns: (number + 1) * 1_000_000_000,
        operations: 2000,
        p50_ns: 150_000,
        p99_ns: (p99_us * 1000.0) as u64,
        max_ns: (p99_us * 3000.0) as u64,
        background_operations: rows_per_second as u64,
        data: outstanding,
        log: outstanding,
    };
    let measured = RunFigures {
        gaps: Gaps {
            above_10_ms: 3,
            longest_ns: 31_000_000,
            disk: Some(1),
            machine: Some(0),
            longest_own_ns: 11_000_000,
            cpu_quota: false,
        },
        background: background.collect(),
        ledger: Ledger::default(),
        counts: StoreCounts {
            pages_read: 5000,
            pages_read_ahead: 4000,
            ..StoreCounts::default()
        },
        device: Some(DeviceRates {
            least_memory: 1e9,
            into_pool: 8e8,
        }),
        cpu_time: cpu(load.operations),
        timeline: (0..SECONDS).map(slice).collect(),
        load,
    };
    StoreRun::new(setting, measured)
}

/// Alone, beside a scan and checkpoints without and with priorities.
pub fn store_runs() -> Vec<StoreRun> {
    let alone = Setting {
        experiment: Experiment::Oltp,
        policy: StorePolicy::Aggressive,
        priorities: Switch::On,
        window: None,
        objective: iolane_sched::Objective::default(),
        read_ahead: None,
        io: IoMode::Direct,
        backend: Backend::Auto,
        beside: Vec::new(),
        beside_cpu_share: None,
        threads: 8,
        rate_per_second: None,
        title: None,
    };
    let [alone, without, with] =
        demo::settings(alone, 2000.0, &[Beside::Scan, Beside::Checkpoint], [""; 3]);
    vec![
        transactions(alone, 300.0, 0.0),
        transactions(without, 4000.0, 50_000.0),
        transactions(with, 400.0, 45_000.0),
    ]
}

pub fn table() -> TableFacts {
    TableFacts {
        rows: 170_000,
        order: LoadOrder::Random,
        size_bytes: 256 << 20,
        load_ns: 4_000_000_000,
    }
}
