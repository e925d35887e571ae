//! Figure 7: 200 outstanding random writes, some of them at high priority.

use iolane_disk::elevator::Core;
use iolane_disk::model::{Rotating, RotatingParameters};
use iolane_disk::simulation::{Report, Stream};
use iolane_disk::{Model, Simulation};
use iolane_sched::{Config, Deadline, Level, Policy, WindowConfig};

use super::{DISK, plain};
use crate::error::Failure;
use crate::figures::report::{Cell, Comparison, Data, Figure, Stated};
use crate::figures::rig::{MIB, MS, PAGE_BYTES, PAPERS_FILE, Rig, SECOND, closed, defect};
use crate::output::chart::{Axis, LineChart, Series};

const OUTSTANDING: u32 = 200;
const SHARES_PERCENT: [u32; 9] = [10, 20, 30, 40, 50, 60, 70, 80, 90];
/// Requests in the drive (figure 2).
const IN_DRIVE: u32 = 32;
const HIGH_DEADLINE_NS: u64 = 3_000 * MS;
const LOW_DEADLINE_NS: u64 = 9_000 * MS;
/// The paper does not say how large its groups are. With this one the knee
/// lies where the paper's does.
const GROUP: u32 = 16;
const GROUPS: [u32; 5] = [4, 8, 16, 32, 64];
/// As good as none.
const NO_GROUP: u32 = 4096;
const WARM_UP_NS: u64 = 20 * SECOND;
const RUNTIME_NS: u64 = 200 * SECOND;

/// The paper's low latency by the share of high priority, in ms.
const PAPERS_LOW_MS: [(u32, f64); 4] = [(10, 1000.0), (30, 2000.0), (50, 2000.0), (70, 2000.0)];
/// Its total, 4 MB/s, in requests a second.
const PAPERS_PER_SECOND: f64 = 4.0 * MIB / PAGE_BYTES as f64;
/// Of the drive's segments for writes, in the variant that has more of them.
const MORE_WRITE_SEGMENTS: u32 = 6;

/// One mix.
#[derive(Clone, Copy, Debug)]
struct Mix {
    group: u32,
    share_percent: u32,
    total_mib_per_second: f64,
    high: Side,
    low: Side,
}

#[derive(Clone, Copy, Debug)]
struct Side {
    mib_per_second: f64,
    latency_ms: f64,
}

impl Side {
    fn of(report: &Report, name: &str) -> Self {
        let tally = report.stream(name).expect("both streams are there");
        Self {
            mib_per_second: tally.bytes_per_second() / MIB,
            latency_ms: tally.latency_mean_ns / 1e6,
        }
    }
}

/// Of `low` requests outstanding with low priority only `low_max` reach the
/// scheduler at a time.
fn run(
    rig: &Rig<'_>,
    disk: Box<dyn Model>,
    group: u32,
    high: u32,
    low_max: u32,
) -> Result<Report, Failure> {
    let mut config = Config::new(Policy::PrioDeadline);
    config.window = WindowConfig::Fixed(IN_DRIVE);
    let level = |level: Level| level.index();
    config.levels[level(Level::Foreground)].deadline = Deadline::Fixed(HIGH_DEADLINE_NS);
    config.levels[level(Level::Background)].deadline = Deadline::Fixed(LOW_DEADLINE_NS);
    config.levels[level(Level::Background)].queued_max = group;
    let writer = |name: &str, outstanding, process, level| Stream {
        name: name.into(),
        arrival: closed(outstanding),
        read_share: 0.0,
        region: PAPERS_FILE,
        sizes: Stream::sizes_of(PAGE_BYTES),
        process,
        level,
        ..Stream::default()
    };
    let low = (OUTSTANDING - high).min(low_max);
    let elevator = Core::new(config).map_err(|error| defect(&error))?;
    Simulation::new(disk, elevator, rig.seed)
        .stream(writer("high", high, 0, Level::Foreground))
        .stream(writer("low", low, 1, Level::Background))
        .run(WARM_UP_NS, RUNTIME_NS)
        .map_err(|error| defect(&error))
}

fn simulate(rig: &Rig<'_>, group: u32, share_percent: u32) -> Result<Mix, Failure> {
    let high = OUTSTANDING * share_percent / 100;
    let report = run(rig, rig.disk(DISK)?, group, high, OUTSTANDING)?;
    Ok(Mix {
        group,
        share_percent,
        total_mib_per_second: report.bytes_per_second() / MIB,
        high: Side::of(&report, "high"),
        low: Side::of(&report, "low"),
    })
}

/// What the model makes of as many low requests in scheduler and drive as the
/// paper's own latencies and total say.
#[derive(Clone, Copy, Debug)]
struct Implied {
    share_percent: u32,
    low_inside: u32,
    /// MB/s, and high's and low's latency in ms: with the preset, and with more
    /// segments for writes.
    values: [[f64; 3]; 2],
}

impl Implied {
    fn simulate(rig: &Rig<'_>, (share_percent, low_ms): (u32, f64)) -> Result<Self, Failure> {
        let high = OUTSTANDING * share_percent / 100;
        let low = f64::from(OUTSTANDING - high);
        // Little's law: so many low ones a second; and inside, where all are
        // treated alike, they are in proportion to that.
        let low_per_second = low / low_ms * 1e3;
        let high_per_second = PAPERS_PER_SECOND - low_per_second;
        let low_inside = (f64::from(high) * low_per_second / high_per_second).round() as u32;
        let of = |disk| -> Result<[f64; 3], Failure> {
            let report = run(rig, disk, NO_GROUP, high, low_inside)?;
            let per_second = Side::of(&report, "low").mib_per_second * MIB / f64::from(PAGE_BYTES);
            Ok([
                report.bytes_per_second() / MIB,
                Side::of(&report, "high").latency_ms,
                low / per_second * 1e3,
            ])
        };
        let parameters = RotatingParameters {
            write_segments: MORE_WRITE_SEGMENTS,
            ..RotatingParameters::ultrastar_36lzx()
        };
        let more = Rotating::new(parameters).map_err(|error| defect(&error))?;
        Ok(Self {
            share_percent,
            low_inside,
            values: [of(rig.disk(DISK)?)?, of(Box::new(more))?],
        })
    }

    fn table(all: &[Self]) -> Data {
        let mut data = Data::new(
            format!(
                "With as many low requests in scheduler and drive as the paper's values imply; and with {MORE_WRITE_SEGMENTS} of the drive's segments for writes"
            ),
            &[
                ("high priority", "%"),
                ("low inside", ""),
                ("total", "MB/s"),
                ("high", "ms"),
                ("low", "ms"),
                ("total, more segments", "MB/s"),
                ("high", "ms"),
                ("low", "ms"),
            ],
        );
        for one in all {
            data.row(
                [one.share_percent, one.low_inside]
                    .map(Cell::from)
                    .into_iter()
                    .chain(one.values.into_iter().flatten().map(Cell::from)),
            );
        }
        data
    }
}

/// All shares with all groups, and without one.
struct Mixes(Vec<Mix>);

impl Mixes {
    fn run(rig: &Rig<'_>) -> Result<Self, Failure> {
        let groups = GROUPS.into_iter().chain([NO_GROUP]);
        let jobs: Vec<(u32, u32)> = groups
            .flat_map(|group| SHARES_PERCENT.map(|share| (group, share)))
            .collect();
        rig.all(&jobs, |&(group, share)| simulate(rig, group, share))
            .map(Self)
    }

    fn of_group(&self, group: u32) -> impl Iterator<Item = &Mix> {
        self.0.iter().filter(move |mix| mix.group == group)
    }

    fn at(&self, group: u32, share_percent: u32) -> &Mix {
        self.of_group(group)
            .find(|mix| mix.share_percent == share_percent)
            .expect("it was simulated")
    }

    /// Without priorities all have this latency.
    fn pure_ms(&self) -> f64 {
        self.at(NO_GROUP, 50).high.latency_ms
    }

    /// The share at which the high priority's latency reaches half of that of
    /// the pure experiment; nothing if it is above at the lowest share.
    fn knee_percent(&self, group: u32) -> Option<f64> {
        let limit_ms = self.pure_ms() / 2.0;
        let mixes: Vec<&Mix> = self.of_group(group).collect();
        mixes.windows(2).find_map(|pair| {
            let (below, above) = (pair[0].high.latency_ms, pair[1].high.latency_ms);
            let crosses = below <= limit_ms && limit_ms < above;
            let step = f64::from(pair[1].share_percent - pair[0].share_percent);
            crosses.then(|| {
                f64::from(pair[0].share_percent) + step * (limit_ms - below) / (above - below)
            })
        })
    }

    fn table(&self) -> Data {
        let mut data = Data::new(
            format!("{OUTSTANDING} outstanding random writes, allocation group of {GROUP}"),
            &[
                ("high priority", "%"),
                ("total", "MB/s"),
                ("high", "MB/s"),
                ("low", "MB/s"),
                ("high", "ms"),
                ("low", "ms"),
            ],
        );
        for mix in self.of_group(GROUP) {
            data.row([
                Cell::from(mix.share_percent),
                mix.total_mib_per_second.into(),
                mix.high.mib_per_second.into(),
                mix.low.mib_per_second.into(),
                mix.high.latency_ms.into(),
                mix.low.latency_ms.into(),
            ]);
        }
        data
    }

    fn knees(&self) -> Data {
        let mut data = Data::new(
            "The knee by the low priority's allocation group: the share at which high has half of the pure experiment's latency",
            &[
                ("group", ""),
                ("knee", "%"),
                ("high at 10 %", "ms"),
                ("high at 30 %", "ms"),
                ("low at 10 %", "ms"),
                ("low at 30 %", "ms"),
                ("total at 30 %", "MB/s"),
            ],
        );
        for group in GROUPS {
            let (at_10, at_30) = (self.at(group, 10), self.at(group, 30));
            data.row([
                Cell::from(group),
                self.knee_percent(group)
                    .map_or_else(|| "below 10".into(), Cell::from),
                at_10.high.latency_ms.into(),
                at_30.high.latency_ms.into(),
                at_10.low.latency_ms.into(),
                at_30.low.latency_ms.into(),
                at_30.total_mib_per_second.into(),
            ]);
        }
        data
    }

    fn series(&self, group: u32, value: fn(&Mix) -> f64) -> Vec<(f64, f64)> {
        self.of_group(group)
            .map(|mix| (f64::from(mix.share_percent), value(mix)))
            .collect()
    }

    fn comparisons(&self) -> Vec<Comparison> {
        let at = |share| self.at(GROUP, share);
        let total = [10, 30, 50, 90].map(|share| {
            let ours = at(share).total_mib_per_second;
            Comparison::new(
                format!("total, {share} % high"),
                "MB/s",
                Stated::about(4.0),
                ours,
            )
            .because(FEW_QUEUED)
        });
        let high = |share, stated| {
            let what = format!("high priority, {share} % high");
            Comparison::new(what, "ms", stated, at(share).high.latency_ms)
        };
        let low = |share: u32, papers| {
            let what = format!("low priority, {share} % high");
            Comparison::new(what, "ms", Stated::about(papers), at(share).low.latency_ms)
        };
        let mut all = total.to_vec();
        all.extend([
            high(10, Stated::about(280.0)),
            high(20, Stated::below(350.0)),
            high(30, Stated::below(350.0)),
            low(10, 1000.0).because(GROUP_CHANGES),
            low(30, 2000.0),
            low(50, 2000.0).because(LOW_WAITS),
            low(70, 2000.0).because(LOW_WAITS),
        ]);
        if let Some(knee) = self.knee_percent(GROUP) {
            all.push(Comparison::new("knee", "%", Stated::about(30.0), knee).given());
        }
        all
    }
}

const FEW_QUEUED: &str = "The model's random writes gain only by the host's sorting (figure 1), and with few high ones and a small group there are only about 70 to sort, which are 3.3 MB/s in figure 1 as well.";
const GROUP_CHANGES: &str = "By Little's law the paper's values need 47 low requests in scheduler and drive at 10 % and 23 at 30 %, so that its low group cannot have been of one size; ours is. The last table has what the model makes of those numbers.";
const LOW_WAITS: &str = "Low requests wait for a place in their group, and a group of one size gives them a share that falls as high grows.";

/// Figure 7.
///
/// # Errors
/// An interruption.
pub fn mix(rig: &Rig<'_>) -> Result<Figure, Failure> {
    let mixes = Mixes::run(rig)?;
    let implied = rig.all(&PAPERS_LOW_MS, |&stated| Implied::simulate(rig, stated))?;
    let chart = |label, series| {
        LineChart {
            x: Axis::linear("share of high priority, %", plain),
            y: Axis::linear(label, plain),
            series,
            mark_x: None,
        }
        .svg()
    };
    let by_group = GROUPS
        .map(|group| {
            let name = format!("low group of {group}");
            Series::new(name, mixes.series(group, |mix| mix.high.latency_ms))
        })
        .into_iter()
        .collect();
    let plots = vec![
        (
            "Throughput".to_owned(),
            chart(
                "MB/s",
                vec![
                    Series::new("high", mixes.series(GROUP, |mix| mix.high.mib_per_second)),
                    Series::new("low", mixes.series(GROUP, |mix| mix.low.mib_per_second)),
                    Series::new("total", mixes.series(GROUP, |mix| mix.total_mib_per_second)),
                    Series::rings(
                        "paper: total",
                        2,
                        vec![(10.0, 4.0), (30.0, 4.0), (90.0, 4.0)],
                    ),
                ],
            ),
        ),
        (
            "Latency".to_owned(),
            chart(
                "latency, ms",
                vec![
                    Series::new("high", mixes.series(GROUP, |mix| mix.high.latency_ms)),
                    Series::new("low", mixes.series(GROUP, |mix| mix.low.latency_ms)),
                    Series::rings("paper: high", 0, vec![(10.0, 280.0), (30.0, 350.0)]),
                    Series::rings(
                        "paper: low",
                        1,
                        vec![
                            (10.0, 1000.0),
                            (30.0, 2000.0),
                            (50.0, 2000.0),
                            (70.0, 2000.0),
                        ],
                    ),
                ],
            ),
        ),
        (
            "High priority's latency by low's allocation group".to_owned(),
            chart("latency, ms", by_group),
        ),
    ];
    Ok(Figure {
        source: "Hall and Bonnet 2005, section 4.3",
        method: vec![
            "The scheduler core's prio-deadline on the modelled Ultrastar 36LZX: deadlines of 3 s and 9 s, 32 requests in the drive, 200 s of virtual time after 20 s. Two threads keep a fixed number outstanding each: the paper's own latencies, 20 requests in 280 ms and 180 in 1000 ms, are its 4 MB/s only so.".to_owned(),
            format!("The paper gives no size for its allocation groups. Low's group is {GROUP} queued requests, because the knee then lies at 30 %; high is not limited. The other sizes show how the knee moves."),
        ],
        comparisons: mixes.comparisons(),
        tables: vec![mixes.table(), mixes.knees(), Implied::table(&implied)],
        notes: vec![
            "No deadline ever expires here: without an allocation group, prio-deadline serves both priorities alike. The group keeps low requests out of the sorted queue; the larger it is, the more of them stand in high's way, and the earlier the knee.".to_owned(),
        ],
        plots,
        ..Figure::default()
    })
}
