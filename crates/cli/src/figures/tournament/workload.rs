//! Who competes, on which disks, with which work.

use iolane_disk::elevator::{BlockLayerParameters, Core};
use iolane_disk::simulation::{Arrival, Commit, Pattern, Stream, Time, Transactions};
use iolane_disk::{Elevator, Model, Simulation};
use iolane_sched::{Config, Level, Policy, WindowConfig};

use crate::error::Failure;
use crate::figures::rig::{Linux, MS, PAGE_BYTES, Rig, SECOND, closed, defect};

/// A disk, and how long it takes to show its behaviour.
pub struct Disk {
    pub name: &'static str,
    warm_up_ns: u64,
    runtime_ns: u64,
}

const fn disk(name: &'static str, warm_up_ns: u64, runtime_ns: u64) -> Disk {
    Disk {
        name,
        warm_up_ns,
        runtime_ns,
    }
}

/// Slow disks need long for enough samples of a tail; the window of `lanes`
/// is learned during the warm-up.
pub const DISKS: [Disk; 17] = [
    disk("ultrastar-36lzx", 60 * SECOND, 300 * SECOND),
    disk("ultrastar-36lzx-36gb", 60 * SECOND, 300 * SECOND),
    disk("sata-7200", 60 * SECOND, 300 * SECOND),
    disk("percona-4x7200", 60 * SECOND, 120 * SECOND),
    disk("database-box-8", 30 * SECOND, 30 * SECOND),
    disk("bug-68659", 30 * SECOND, 30 * SECOND),
    disk("sata-ssd", 4 * SECOND, 4 * SECOND),
    disk("nvme-ssd", 1_500 * MS, 1_000 * MS),
    disk("aws-gp3", 30 * SECOND, 30 * SECOND),
    disk("aws-gp3-16000", 10 * SECOND, 10 * SECOND),
    disk("aws-gp2-100g", 30 * SECOND, 30 * SECOND),
    disk("aws-io2", 10 * SECOND, 10 * SECOND),
    disk("gcp-pd-balanced", 20 * SECOND, 20 * SECOND),
    disk("gcp-pd-ssd", 10 * SECOND, 10 * SECOND),
    disk("azure-premium-ssd-p30", 20 * SECOND, 20 * SECOND),
    disk("cloud-1ms", 4 * SECOND, 4 * SECOND),
    disk("constant-100us", 500 * MS, 500 * MS),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    Core(Policy),
    /// `lanes` with a window of so many transfers instead of a learned one.
    Window(u32),
    Linux(Linux),
}

pub const SCHEDULERS: [(Scheduler, &str); 8] = [
    (Scheduler::Core(Policy::Lanes), "lanes"),
    (Scheduler::Core(Policy::PrioDeadline), "prio-deadline"),
    (Scheduler::Core(Policy::Deadline), "deadline"),
    (Scheduler::Core(Policy::Noop), "noop"),
    (Scheduler::Linux(Linux::Noop), "Linux noop"),
    (Scheduler::Linux(Linux::Deadline), "Linux deadline"),
    (Scheduler::Linux(Linux::Anticipatory), "Linux anticipatory"),
    (Scheduler::Linux(Linux::Cfq), "Linux cfq"),
];

impl Scheduler {
    fn elevator(self, disk: &dyn Model) -> Result<Box<dyn Elevator>, Failure> {
        match self {
            Self::Linux(scheduler) => scheduler.build(BlockLayerParameters::default()),
            Self::Core(policy) => core(Config::new(policy), disk),
            Self::Window(transfers) => {
                let config = Config {
                    window: WindowConfig::Fixed(transfers),
                    ..Config::new(Policy::Lanes)
                };
                core(config, disk)
            }
        }
    }
}

fn core(config: Config, disk: &dyn Model) -> Result<Box<dyn Elevator>, Failure> {
    let config = Config {
        rotational: disk.rotating(),
        ..config
    };
    Core::new(config)
        .map(|core| Box::new(core) as Box<dyn Elevator>)
        .map_err(|error| defect(&error))
}

/// How the foreground comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// The next operation when the last one has ended.
    AsFastAsServed,
    /// So many a second on average.
    PerSecond(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    RandomReads,
    RandomWrites,
    Scan,
    Commits,
}

pub const WORKS: [(Work, &str); 4] = [
    (Work::RandomReads, "query beside 128 random reads"),
    (Work::RandomWrites, "query beside 32 random writes"),
    (Work::Scan, "query beside a scan"),
    (Work::Commits, "commits beside random reads and writes"),
];

const COMMITTING: u32 = 4;
/// CPU time of a transaction.
const CPU_NS: f64 = 100_000.0;
/// A foreground that is paced is served faster than it comes.
const PACED_OUTSTANDING_MAX: u32 = 64;
/// At the disk's beginning.
const LOG_BYTES: u64 = 64 << 20;

fn background(name: &str, outstanding: u32, read_share: f64) -> Stream {
    Stream {
        name: name.into(),
        arrival: closed(outstanding),
        read_share,
        sizes: Stream::sizes_of(PAGE_BYTES),
        process: 100,
        level: Level::Background,
        ..Stream::default()
    }
}

/// A thread whose every read waits for the disk; paced, as many as there are
/// reads at once.
fn query(pace: Pace) -> Stream {
    Stream {
        name: "foreground".into(),
        arrival: match pace {
            Pace::AsFastAsServed => closed(1),
            Pace::PerSecond(per_second) => Arrival::Open {
                per_second,
                poisson: true,
                outstanding_max: PACED_OUTSTANDING_MAX,
            },
        },
        sizes: Stream::sizes_of(PAGE_BYTES),
        level: Level::Foreground,
        ..Stream::default()
    }
}

/// What a scheduler made of it.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    pub p99_ms: f64,
    pub mean_ms: f64,
    pub foreground_per_second: f64,
    pub mb_per_second: f64,
}

/// # Errors
/// A defect in the set-up.
pub fn simulate(
    rig: &Rig<'_>,
    disk: &Disk,
    work: Work,
    scheduler: Scheduler,
    pace: Pace,
) -> Result<Score, Failure> {
    let model = rig.disk(disk.name)?;
    let elevator = scheduler.elevator(&model)?;
    let simulation = Simulation::new(model, elevator, rig.seed);
    let simulation = match work {
        Work::RandomReads => simulation
            .stream(query(pace))
            .stream(background("reads", 128, 1.0)),
        Work::RandomWrites => simulation
            .stream(query(pace))
            .stream(background("writes", 32, 0.0)),
        Work::Scan => simulation.stream(query(pace)).stream(Stream {
            pattern: Pattern::Sequential,
            sizes: Stream::sizes_of(256 << 10),
            ..background("scan", 16, 1.0)
        }),
        Work::Commits => simulation
            .transactions(Transactions {
                name: "commits".into(),
                threads: COMMITTING,
                cpu: Time::Exponential(match pace {
                    Pace::AsFastAsServed => CPU_NS,
                    Pace::PerSecond(rate) => f64::from(COMMITTING) / rate * 1e9,
                }),
                commit: Commit::Group,
                log: 0..LOG_BYTES,
                log_bytes: 512,
                log_block_bytes: 4096,
                flush: true,
                ..Transactions::default()
            })
            .stream(background("pages", 64, 0.5)),
    };
    let report = simulation
        .run(disk.warm_up_ns, disk.runtime_ns)
        .map_err(|error| defect(&error))?;
    let commits = report.transactions.first();
    let foreground = match commits {
        Some(commits) => &commits.transactions,
        None => &report.streams[0],
    };
    let log = commits.map_or(0.0, |commits| commits.operations.bytes_per_second());
    Ok(Score {
        p99_ms: foreground.latency_ns(0.99) as f64 / 1e6,
        mean_ms: foreground.latency_mean_ns / 1e6,
        foreground_per_second: foreground.per_second(),
        mb_per_second: (report.bytes_per_second() + log) / 1e6,
    })
}
