//! "I/O schedulers seriously revisited": one-row transactions, each committed,
//! on eight disks behind a controller with a write-behind cache.

use iolane_disk::elevator::{BlockLayerParameters, Core};
use iolane_disk::simulation::{Commit, Host, Report, Time, Transactions};
use iolane_disk::{Elevator, Simulation};
use iolane_sched::{Config, Policy};

use super::report::{Cell, Comparison, Data, Figure, Stated};
use super::rig::{Linux, Rig, SECOND, defect};
use crate::error::Failure;
use crate::output::chart::{Axis, BarChart};
use crate::output::units;

const DISK: &str = "database-box-8";
const THREADS: [u32; 2] = [1, 8];
const WARM_UP_NS: u64 = 2 * SECOND;
const RUNTIME_NS: u64 = 20 * SECOND;

/// The document's rates: without a log write, one thread and eight; with one,
/// one thread, and how long the device was busy for it.
const NEVER: [f64; 2] = [15_000.0, 19_100.0];
const DEADLINE_ALONE: f64 = 6_850.0;
const DEADLINE_ALONE_BUSY: f64 = 0.32;

/// Eight threads get no further: that much of a transaction is under a lock.
const SERIAL_NS: u64 = (1e9 / NEVER[1]) as u64;
/// The rest of a transaction.
const PARALLEL_NS: u64 = (1e9 / NEVER[0] - 1e9 / NEVER[1]) as u64;
/// What the host needs for a log write, outside of the device.
const COMMIT_NS: u64 = (1e9 / DEADLINE_ALONE * (1.0 - DEADLINE_ALONE_BUSY) - 1e9 / NEVER[0]) as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    Never,
    Linux(Linux),
    /// Every other log write goes somewhere else.
    TwoPlaces(Linux),
    /// Whoever had others' log written for it costs time to wake.
    Woken(Linux),
    Lanes,
}

const ROWS: [(Row, &str); 11] = [
    (Row::Never, "flush=0, deadline"),
    (Row::Linux(Linux::Deadline), "deadline"),
    (Row::Woken(Linux::Deadline), "deadline, waking costs"),
    (Row::Linux(Linux::Noop), "noop"),
    (Row::Woken(Linux::Noop), "noop, waking costs"),
    (Row::Linux(Linux::Cfq), "cfq"),
    (Row::TwoPlaces(Linux::Cfq), "cfq, log in two places"),
    (Row::Linux(Linux::Anticipatory), "anticipatory"),
    (
        Row::TwoPlaces(Linux::Anticipatory),
        "anticipatory, log in two places",
    ),
    (
        Row::TwoPlaces(Linux::Deadline),
        "deadline, log in two places",
    ),
    (Row::Lanes, "lanes"),
];

/// Where the second place begins: farther than anticipatory calls near however
/// long it has waited.
const SECOND_LOG_BYTES: u64 = 8 << 30;
const LOG_BYTES: u64 = 64 << 20;
/// What waking one thread costs where it does: with it, eight threads under
/// deadline come near the document's rate.
const WAKE_NS: u64 = 47_000;

impl Row {
    fn elevator(self) -> Result<Box<dyn Elevator>, Failure> {
        match self {
            Self::Never => Linux::Deadline.build(BlockLayerParameters::default()),
            Self::Linux(scheduler) | Self::TwoPlaces(scheduler) | Self::Woken(scheduler) => {
                scheduler.build(BlockLayerParameters::default())
            }
            Self::Lanes => Core::new(Config::new(Policy::Lanes))
                .map(|core| Box::new(core) as Box<dyn Elevator>)
                .map_err(|error| defect(&error)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Run {
    row: Row,
    threads: u32,
    per_second: f64,
    busy_percent: f64,
}

fn simulate_one(rig: &Rig<'_>, row: Row, threads: u32) -> Result<Run, Failure> {
    let transactions = Transactions {
        threads,
        cpu: Time::Fixed(PARALLEL_NS),
        serial_ns: SERIAL_NS,
        commit: match row {
            Row::Never => Commit::Never,
            _ => Commit::Group,
        },
        log_bytes: 300,
        // The controller's battery makes its cache durable.
        flush: false,
        log: 0..LOG_BYTES,
        second_log: match row {
            Row::TwoPlaces(_) => SECOND_LOG_BYTES..SECOND_LOG_BYTES + LOG_BYTES,
            _ => 0..0,
        },
        wake_ns: match row {
            Row::Woken(_) => WAKE_NS,
            _ => 0,
        },
        ..Transactions::default()
    };
    let report = Simulation::new(rig.disk(DISK)?, row.elevator()?, rig.seed)
        .host(Host {
            call_ns: COMMIT_NS,
            operation_ns: 0,
        })
        .transactions(transactions)
        .run(WARM_UP_NS, RUNTIME_NS)
        .map_err(|error| defect(&error))?;
    Ok(Run {
        row,
        threads,
        per_second: report.transactions[0].transactions.per_second(),
        busy_percent: busy_percent(&report),
    })
}

/// As `iostat` counts it: a request that is held back keeps the device busy.
fn busy_percent(report: &Report) -> f64 {
    let held = 1.0 - report.in_elevator.first().copied().unwrap_or(1.0);
    (held + report.busy_share()).min(1.0) * 100.0
}

struct Runs(Vec<Run>);

impl Runs {
    fn at(&self, row: Row, threads: u32) -> &Run {
        let found = self
            .0
            .iter()
            .find(|run| run.row == row && run.threads == threads);
        found.expect("it was simulated")
    }

    fn table(&self) -> Data {
        let mut data = Data::new(
            "Transactions per second, and share of the time in which the device had or held back a request",
            &[
                ("scheduler", ""),
                ("1 thread", "tps"),
                ("busy", "%"),
                ("8 threads", "tps"),
                ("busy", "%"),
            ],
        );
        for (row, name) in ROWS {
            let values = THREADS.map(|threads| self.at(row, threads));
            let cells = values.map(|run| [run.per_second, run.busy_percent]);
            data.row(
                [Cell::from(name)]
                    .into_iter()
                    .chain(cells.into_iter().flatten().map(Cell::from)),
            );
        }
        data
    }

    fn comparisons(&self) -> Vec<Comparison> {
        let tps = |name: &str, row, threads, stated| {
            let s = if threads == 1 { "" } else { "s" };
            let what = format!("{name}, {threads} thread{s}");
            Comparison::new(what, "tps", stated, self.at(row, threads).per_second)
        };
        let busy = |name: &str, row, threads, papers| {
            let s = if threads == 1 { "" } else { "s" };
            let what = format!("{name}, {threads} thread{s}, busy");
            let ours = self.at(row, threads).busy_percent;
            Comparison::new(what, "%", Stated::about(papers), ours)
        };
        let linux = Row::Linux;
        vec![
            tps("flush=0", Row::Never, 1, Stated::about(NEVER[0])).given(),
            tps("flush=0", Row::Never, 8, Stated::about(NEVER[1])).given(),
            tps("deadline", linux(Linux::Deadline), 1, Stated::about(DEADLINE_ALONE)).given(),
            tps("deadline", linux(Linux::Deadline), 8, Stated::about(15_250.0)).because(FOLLOWERS),
            tps("noop", linux(Linux::Noop), 1, Stated::above(DEADLINE_ALONE)),
            tps("noop", linux(Linux::Noop), 8, Stated::about(15_250.0)).because(FOLLOWERS),
            tps("cfq", linux(Linux::Cfq), 1, Stated::about(5_880.0)).because(
                "The document's CFQ also kept the device busy for longer: code that a model of decisions does not have.",
            ),
            tps("cfq", linux(Linux::Cfq), 8, Stated::about(1_240.0)).because(CFQ_WAITS),
            tps("anticipatory", linux(Linux::Anticipatory), 8, Stated::between(1_240.0, 1_860.0)).because(NEAR),
            tps(
                "anticipatory, log in two places",
                Row::TwoPlaces(Linux::Anticipatory),
                8,
                Stated::between(1_240.0, 1_860.0),
            ),
            tps("deadline, waking costs", Row::Woken(Linux::Deadline), 8, Stated::about(15_250.0)).given(),
            tps("noop, waking costs", Row::Woken(Linux::Noop), 8, Stated::about(15_250.0)),
            busy("deadline", linux(Linux::Deadline), 1, DEADLINE_ALONE_BUSY * 100.0).given(),
            busy("deadline", linux(Linux::Deadline), 8, 45.0)
                .because("As many more transactions and log writes a second."),
            busy("cfq", linux(Linux::Cfq), 8, 94.0),
        ]
    }
}

const FOLLOWERS: &str = "In the model the lock alone limits eight threads; the document's lost another 13 us a transaction. Waking those whose records another thread wrote may be a part of it (the rows \"waking costs\"); not all, as the device is then still busier than the document says.";
const CFQ_WAITS: &str = "It collapses for the reason that the document gives, but further: the modelled CFQ waits the full 8 ms for each group of 4 to 5. The document's 1240 would be as many in 3.6 ms. That its writes go to two places changes nothing.";
const NEAR: &str = "One commit's log write lies beside the last one's, and anticipatory keeps no request waiting that is as near as 4 MiB. Where every other log write goes elsewhere, it collapses as the document says: its writes were not all in one place.";

/// The table of the document.
///
/// # Errors
/// An interruption.
pub fn simulate(rig: &Rig<'_>) -> Result<Figure, Failure> {
    let jobs: Vec<(Row, u32)> = ROWS
        .iter()
        .flat_map(|&(row, _)| THREADS.map(|threads| (row, threads)))
        .collect();
    let runs = Runs(rig.all(&jobs, |&(row, threads)| simulate_one(rig, row, threads))?);
    let plots = THREADS.map(|threads| {
        let ours = ROWS.iter().map(|&(row, name)| {
            let rate = runs.at(row, threads).per_second;
            (name.to_owned(), rate)
        });
        let documents = if threads == 1 {
            [
                ("flush=0", NEVER[0]),
                ("deadline", DEADLINE_ALONE),
                ("cfq", 5_880.0),
            ]
        } else {
            [
                ("flush=0", NEVER[1]),
                ("deadline", 15_250.0),
                ("cfq", 1_240.0),
            ]
        };
        let documents = documents.map(|(name, rate)| (format!("document: {name}"), rate));
        let plot = BarChart {
            value: Axis::linear("transactions per second", units::count),
            bars: ours.chain(documents).collect(),
        };
        let s = if threads == 1 { "" } else { "s" };
        (format!("{threads} thread{s}"), plot.svg())
    });
    Ok(Figure {
        source: "I/O schedulers seriously revisited, with the comments below it",
        method: vec![
            format!("The modelled database-box-8, 20 s of virtual time after 2 s. From the flush=0 row: {:.1} us of a transaction under one lock, {:.1} us beside it. From the deadline row with one thread: {:.1} us of the host's for each log write. Everything else is predicted.", SERIAL_NS as f64 / 1e3, PARALLEL_NS as f64 / 1e3, COMMIT_NS as f64 / 1e3),
            "InnoDB's group commit: who comes while a log write is under way waits for the next, which one thread submits for all. No flush follows, as the controller's cache has a battery.".to_owned(),
            format!("Variants, each to show one cause. \"Log in two places\": every other log write goes 8 GiB away, as into a binary log or a journal. \"Waking costs\": {:.0} us under the lock for each thread whose records another one wrote, set by the document's rate with eight threads.", WAKE_NS as f64 / 1e3),
        ],
        comparisons: runs.comparisons(),
        tables: vec![runs.table()],
        notes: vec![
            "Why waiting collapses: the log writes come from one thread after the other. CFQ and anticipatory keep the disk idle for the thread whose write has just ended; that thread waits for the next group's write, which is the one held back. With one thread nothing is held back, and they cost nothing.".to_owned(),
        ],
        plots: plots.into(),
        ..Figure::default()
    })
}
