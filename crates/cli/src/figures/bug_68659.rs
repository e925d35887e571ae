//! MySQL bug 68659: sequential reads of a RAID 1+0, few or many in one call.

use iolane_disk::elevator::{BlockLayerParameters, Core};
use iolane_disk::simulation::{Pattern, Stream};
use iolane_disk::{Elevator, Simulation};
use iolane_sched::{Config, Policy};

use super::report::{Cell, Comparison, Data, Figure, Stated};
use super::rig::{Linux, MIB, Rig, SECOND, closed, defect};
use crate::error::Failure;
use crate::output::chart::{Axis, BarChart};

const DISK: &str = "bug-68659";
/// 1211 MB/s in 4845 requests: the host split its megabytes into these.
const REQUEST_BYTES_MAX: u32 = 256 << 10;
const WARM_UP_NS: u64 = SECOND;
const RUNTIME_NS: u64 = 10 * SECOND;

/// A row of the report.
struct Row {
    name: &'static str,
    bytes: u32,
    at_once: u32,
    mib_per_second: f64,
    per_second: f64,
    /// The array's parameters were chosen by it.
    given: bool,
}

const ROWS: [Row; 4] = [
    Row {
        name: "16 KiB, 1 at once",
        bytes: 16 << 10,
        at_once: 1,
        mib_per_second: 161.86,
        per_second: 10_359.0,
        given: true,
    },
    Row {
        name: "16 KiB, 64 at once",
        bytes: 16 << 10,
        at_once: 64,
        mib_per_second: 1_106.81,
        per_second: 5_535.0,
        given: false,
    },
    Row {
        name: "1 MiB, 1 at once",
        bytes: 1 << 20,
        at_once: 1,
        mib_per_second: 1_211.27,
        per_second: 4_845.0,
        given: true,
    },
    Row {
        name: "1 MiB, 64 at once",
        bytes: 1 << 20,
        at_once: 64,
        mib_per_second: 1_032.91,
        per_second: 4_132.0,
        given: false,
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheduler {
    Linux(Linux),
    Lanes,
}

/// The report names none; Red Hat's kernels of its time had CFQ.
const SCHEDULERS: [(Scheduler, &str); 4] = [
    (Scheduler::Linux(Linux::Cfq), "cfq"),
    (Scheduler::Linux(Linux::Deadline), "deadline"),
    (Scheduler::Linux(Linux::Noop), "noop"),
    (Scheduler::Lanes, "lanes"),
];

impl Scheduler {
    fn elevator(self) -> Result<Box<dyn Elevator>, Failure> {
        match self {
            Self::Linux(scheduler) => scheduler.build(BlockLayerParameters {
                request_bytes_max: REQUEST_BYTES_MAX,
                ..BlockLayerParameters::default()
            }),
            Self::Lanes => Core::new(Config::new(Policy::Lanes))
                .map(|core| Box::new(core) as Box<dyn Elevator>)
                .map_err(|error| defect(&error)),
        }
    }
}

/// MB/s, and commands per second.
fn simulate_one(rig: &Rig<'_>, row: &Row, scheduler: Scheduler) -> Result<(f64, f64), Failure> {
    let stream = Stream {
        arrival: closed(row.at_once),
        batch: row.at_once,
        pattern: Pattern::Sequential,
        sizes: Stream::sizes_of(row.bytes),
        ..Stream::default()
    };
    let report = Simulation::new(rig.disk(DISK)?, scheduler.elevator()?, rig.seed)
        .stream(stream)
        .run(WARM_UP_NS, RUNTIME_NS)
        .map_err(|error| defect(&error))?;
    let per_second = report.commands as f64 * 1e9 / report.duration_ns as f64;
    Ok((report.bytes_per_second() / MIB, per_second))
}

/// The four rows of the report.
///
/// # Errors
/// An interruption.
pub fn simulate(rig: &Rig<'_>) -> Result<Figure, Failure> {
    let jobs: Vec<(&Row, Scheduler)> = ROWS
        .iter()
        .flat_map(|row| SCHEDULERS.map(|(scheduler, _)| (row, scheduler)))
        .collect();
    let results = rig.all(&jobs, |&(row, scheduler)| simulate_one(rig, row, scheduler))?;
    let by_row: Vec<&[(f64, f64)]> = results.chunks(SCHEDULERS.len()).collect();

    let mut columns = vec![("reads", ""), ("document", "MB/s")];
    columns.extend(SCHEDULERS.map(|(_, name)| (name, "MB/s")));
    columns.push(("document", "requests/s"));
    columns.push(("cfq", "requests/s"));
    let mut table = Data::new("Sequential reads", &columns);
    let mut comparisons = Vec::new();
    let mut bars = Vec::new();
    for (row, results) in ROWS.iter().zip(by_row) {
        let (ours, requests) = results[0];
        let mut cells = vec![Cell::from(row.name), row.mib_per_second.into()];
        cells.extend(results.iter().map(|result| Cell::from(result.0)));
        cells.extend([Cell::from(row.per_second), requests.into()]);
        table.row(cells);
        let stated = Stated::about(row.mib_per_second);
        let comparison = Comparison::new(row.name, "MB/s", stated, ours)
            .because("64 MiB outstanding make 256 commands, and the modelled controller's read-ahead carries them as well as one. That the report's array lost 15 % by them is a weakness of a controller of which nothing is known.");
        comparisons.push(if row.given {
            comparison.given()
        } else {
            comparison
        });
        bars.push((row.name.to_owned(), ours));
        bars.push((format!("document: {}", row.name), row.mib_per_second));
    }
    let plot = BarChart {
        value: Axis::linear("MB/s", |value| format!("{value:.0}")),
        bars,
    };
    Ok(Figure {
        source: "MySQL bug 68659, the reporter's micro benchmark",
        method: vec![
            "The modelled bug-68659, sequential direct reads; as many as one call takes, the next call when all have ended. 10 s of virtual time after 1 s. CFQ, which Red Hat's kernels of 2013 had; the block layer's requests are of 256 KiB at most, as the report's own rates say. The array's parameters come from the first and third row (crates/disk, preset bug-68659).".to_owned(),
        ],
        comparisons,
        tables: vec![table],
        notes: vec![
            "One request of 16 KiB after the other leaves the disks idle while the host turns around. 64 in one call become large ones by merging, and keep the controller's read-ahead going: that is the report's point.".to_owned(),
        ],
        plots: vec![("Throughput".to_owned(), plot.svg())],
        ..Figure::default()
    })
}
