//! Figures 1 to 3: random requests of 16 KiB over a file of 10 GB, with more
//! and more of them outstanding.

use iolane_disk::Simulation;
use iolane_disk::elevator::BlockLayerParameters;
use iolane_disk::simulation::{Pattern, Report, Stream};

use super::{DISK, plain};
use crate::error::Failure;
use crate::figures::report::{Cell, Comparison, Data, Figure, Stated};
use crate::figures::rig::{Linux, MIB, PAGE_BYTES, PAPERS_FILE, Rig, SECOND, closed, defect};
use crate::output::chart::{Axis, LineChart, Series};

const DEPTHS: [u32; 12] = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 160, 200];
const WARM_UP_NS: u64 = 20 * SECOND;
const RUNTIME_NS: u64 = 200 * SECOND;
/// The file's 10 GB at the paper's sequential rates take longer.
const SEQUENTIAL_NS: u64 = 280 * SECOND;

/// The server's memory over the file's size, less what the kernel itself
/// needs: so many of the random buffered reads find their page cached.
const CACHED_SHARE: f64 = 0.1;
/// Pages of 16 KiB that are dirty while a writer runs into the kernel's limit
/// (`vm.dirty_ratio`, 40 % of 1 GiB). They are written in the file's order
/// while new ones come anywhere, so that a pass over the file meets twice as
/// many.
const DIRTY_PAGES_PER_PASS: u32 = 2 * 26_214;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    DirectRead,
    DirectWrite,
    BufferedRead,
    BufferedWrite,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::DirectRead, "direct reads"),
    (Kind::DirectWrite, "direct writes"),
    (Kind::BufferedRead, "buffered reads"),
    (Kind::BufferedWrite, "buffered writes"),
];

/// One kind of requests at one depth.
#[derive(Clone, Copy, Debug)]
struct Point {
    mib_per_second: f64,
    latency_ms: f64,
    in_controller: f64,
}

impl Point {
    fn of(report: &Report) -> Self {
        Self {
            mib_per_second: report.bytes_per_second() / MIB,
            latency_ms: report.streams[0].latency_mean_ns / 1e6,
            in_controller: report.in_disk_mean(),
        }
    }

    /// Behind a cache that is as fast however many wait: they wait in line.
    fn in_line(rate: Self, depth: u32) -> Self {
        let bytes = f64::from(depth) * f64::from(PAGE_BYTES);
        Self {
            latency_ms: bytes / (rate.mib_per_second * MIB) * 1e3,
            ..rate
        }
    }
}

fn simulate(rig: &Rig<'_>, stream: Stream) -> Result<Point, Failure> {
    let (warm_up_ns, runtime_ns) = match stream.pattern {
        Pattern::Sequential => (0, SEQUENTIAL_NS),
        _ => (WARM_UP_NS, RUNTIME_NS),
    };
    let elevator = Linux::Deadline.build(BlockLayerParameters::default())?;
    Simulation::new(rig.disk(DISK)?, elevator, rig.seed)
        .stream(stream)
        .run(warm_up_ns, runtime_ns)
        .map(|report| Point::of(&report))
        .map_err(|error| defect(&error))
}

fn stream(depth: u32, read_share: f64) -> Stream {
    Stream {
        arrival: closed(depth),
        read_share,
        region: PAPERS_FILE,
        sizes: Stream::sizes_of(PAGE_BYTES),
        ..Stream::default()
    }
}

fn point(rig: &Rig<'_>, kind: Kind, depth: u32) -> Result<Point, Failure> {
    match kind {
        Kind::DirectRead => simulate(rig, stream(depth, 1.0)),
        Kind::DirectWrite => simulate(rig, stream(depth, 0.0)),
        Kind::BufferedRead => {
            let one = simulate(rig, stream(1, 1.0))?;
            let cached = Point {
                mib_per_second: one.mib_per_second / (1.0 - CACHED_SHARE),
                ..one
            };
            Ok(Point::in_line(cached, depth))
        }
        Kind::BufferedWrite => {
            let lazy_writer = Stream {
                pattern: Pattern::Ascending(DIRTY_PAGES_PER_PASS),
                sync: false,
                ..stream(200, 0.0)
            };
            Ok(Point::in_line(simulate(rig, lazy_writer)?, depth))
        }
    }
}

/// All kinds at all depths.
struct Sweep(Vec<(Kind, u32, Point)>);

impl Sweep {
    fn run(rig: &Rig<'_>) -> Result<Self, Failure> {
        let jobs: Vec<(Kind, u32)> = KINDS
            .iter()
            .flat_map(|&(kind, _)| DEPTHS.map(|depth| (kind, depth)))
            .collect();
        let points = rig.all(&jobs, |&(kind, depth)| {
            point(rig, kind, depth).map(|point| (kind, depth, point))
        })?;
        Ok(Self(points))
    }

    fn at(&self, kind: Kind, depth: u32) -> Point {
        let found = self.0.iter().find(|one| one.0 == kind && one.1 == depth);
        found.expect("it was simulated").2
    }

    fn series(&self, kind: Kind, value: fn(&Point) -> f64) -> Vec<(f64, f64)> {
        let those = self.0.iter().filter(|one| one.0 == kind);
        those
            .map(|(_, depth, point)| (f64::from(*depth), value(point)))
            .collect()
    }

    fn table(&self, what: &str, unit: &'static str, value: fn(&Point) -> f64) -> Data {
        let mut columns = vec![("outstanding", "")];
        columns.extend(KINDS.map(|(_, name)| (name, unit)));
        let mut data = Data::new(format!("{what} by requests outstanding"), &columns);
        for depth in DEPTHS {
            let values = KINDS.map(|(kind, _)| Cell::from(value(&self.at(kind, depth))));
            data.row([Cell::from(depth)].into_iter().chain(values));
        }
        data
    }

    /// With the paper's values beside those of their kind.
    fn plot(
        &self,
        axis: Axis<'_>,
        value: fn(&Point) -> f64,
        papers: &[(Kind, &[(f64, f64)])],
    ) -> maud::Markup {
        let ours = KINDS.map(|(kind, name)| Series::new(name, self.series(kind, value)));
        let papers = papers.iter().map(|&(kind, points)| {
            let index = KINDS.iter().position(|&(one, _)| one == kind);
            let index = index.expect("all kinds are there");
            Series::rings(format!("paper: {}", KINDS[index].1), index, points.to_vec())
        });
        LineChart {
            x: Axis::linear("requests outstanding", plain),
            y: axis,
            series: ours.into_iter().chain(papers).collect(),
            mark_x: None,
        }
        .svg()
    }
}

fn method() -> Vec<String> {
    [
        "A closed loop on the modelled Ultrastar 36LZX, 200 s of virtual time after 20 s; file and page size are the paper's. The scheduler is Linux 2.6's deadline with 128 requests, which the paper names for its own experiments (footnotes 6 and 7), not the anticipatory default.",
        "Buffered reads: the file system hands over one at a time, as the paper found, and one page in ten is cached (1 GB of memory, 10 GB of file). Buffered writes: 40 % of the memory is dirty, which is where Linux 2.6 makes writers wait, and goes to the disk in the file's order, asynchronously. Both go at one rate however many wait in line.",
        "MB are 2^20 bytes: the paper's 320 pages of 16 KiB a second are its 5 MB/s.",
    ]
    .map(str::to_owned)
    .to_vec()
}

const SOURCE: &str = "Hall and Bonnet 2005, section 2.2";

/// Figure 1.
///
/// # Errors
/// An interruption.
pub fn throughput(rig: &Rig<'_>) -> Result<Figure, Failure> {
    let sweep = Sweep::run(rig)?;
    let sequential = sequential(rig)?;
    let mb = |kind, depth| sweep.at(kind, depth).mib_per_second;
    let compare =
        |what: &str, papers, ours| Comparison::new(what, "MB/s", Stated::about(papers), ours);
    let best_read = DEPTHS
        .map(|depth| mb(Kind::DirectRead, depth))
        .into_iter()
        .fold(0.0, f64::max);
    let mut comparisons = vec![
        compare("direct reads, 1 outstanding", 2.0, mb(Kind::DirectRead, 1)),
        compare(
            "direct reads, 64 outstanding",
            4.5,
            mb(Kind::DirectRead, 64),
        ),
        compare("direct reads, at best", 5.0, best_read),
        compare(
            "direct writes, 200 outstanding",
            4.1,
            mb(Kind::DirectWrite, 200),
        ),
        compare("buffered reads", 2.7, mb(Kind::BufferedRead, 64)),
        compare("buffered writes", 6.5, mb(Kind::BufferedWrite, 64)),
    ];
    let mut table = Data::new(
        "Sequential requests",
        &[("outstanding", ""), ("reads", "MB/s"), ("writes", "MB/s")],
    );
    for (depth, reads, writes) in sequential {
        let name = |kind| format!("sequential {kind}, {depth} outstanding");
        comparisons.push(compare(&name("reads"), 33.0, reads));
        comparisons.push(compare(&name("writes"), 30.0, writes));
        table.row([Cell::from(depth), reads.into(), writes.into()]);
    }
    let plot = sweep.plot(
        Axis::linear("MB/s", plain),
        |point| point.mib_per_second,
        &[
            (Kind::DirectRead, &[(1.0, 2.0), (64.0, 4.5)]),
            (Kind::DirectWrite, &[(200.0, 4.1)]),
            (Kind::BufferedRead, &[(1.0, 2.7), (200.0, 2.7)]),
            (Kind::BufferedWrite, &[(1.0, 6.5), (200.0, 6.5)]),
        ],
    );
    Ok(Figure {
        source: SOURCE,
        method: method(),
        comparisons,
        tables: vec![sweep.table("Throughput", "MB/s", |point| point.mib_per_second), table],
        notes: vec![
            "The drive orders the reads in its queue of 32 by position and rotation; beyond that the host's sorting adds little. Writes are done when they are in the drive's buffer, which holds few at a time, so that they gain only by the host's sorting: slowly, as in the paper.".to_owned(),
        ],
        plots: vec![("Throughput".to_owned(), plot)],
        ..Figure::default()
    })
}

/// Depth, reads and writes in MB/s.
fn sequential(rig: &Rig<'_>) -> Result<Vec<(u32, f64, f64)>, Failure> {
    let jobs = [(1, 1.0), (1, 0.0), (64, 1.0), (64, 0.0)];
    let rates = rig.all(&jobs, |&(depth, read_share)| {
        let stream = Stream {
            pattern: Pattern::Sequential,
            ..stream(depth, read_share)
        };
        simulate(rig, stream).map(|point| point.mib_per_second)
    })?;
    Ok(vec![(1, rates[0], rates[1]), (64, rates[2], rates[3])])
}

/// Figure 2.
///
/// # Errors
/// An interruption.
pub fn in_controller(rig: &Rig<'_>) -> Result<Figure, Failure> {
    let sweep = Sweep::run(rig)?;
    let requests = |kind, depth| sweep.at(kind, depth).in_controller;
    let compare =
        |what: &str, papers, ours| Comparison::new(what, "requests", Stated::about(papers), ours);
    let plot = sweep.plot(
        Axis::linear("requests in the controller", plain),
        |point| point.in_controller,
        &[(Kind::DirectRead, &[(64.0, 32.0), (200.0, 32.0)])],
    );
    Ok(Figure {
        source: SOURCE,
        method: method(),
        comparisons: vec![
            compare("direct reads, 64 outstanding", 32.0, requests(Kind::DirectRead, 64)),
            compare("direct reads, 200 outstanding", 32.0, requests(Kind::DirectRead, 200)).given(),
            compare("direct writes, 200 outstanding", 32.0, requests(Kind::DirectWrite, 200)).given(),
            compare("buffered reads, 200 outstanding", 1.0, requests(Kind::BufferedRead, 200)).given(),
            compare("buffered writes", 32.0, requests(Kind::BufferedWrite, 200)),
        ],
        tables: vec![sweep.table("Requests in the controller, mean over time", "", |point| {
            point.in_controller
        })],
        notes: vec![
            "The limit of 32 is a parameter of the model, taken from this figure; that the queue fills as soon as 32 are outstanding is not. Buffered reads stand for what the paper found, submission one at a time.".to_owned(),
        ],
        plots: vec![("Requests in the controller".to_owned(), plot)],
        ..Figure::default()
    })
}

/// Figure 3.
///
/// # Errors
/// An interruption.
pub fn latency(rig: &Rig<'_>) -> Result<Figure, Failure> {
    let sweep = Sweep::run(rig)?;
    let ms = |kind, depth| sweep.at(kind, depth).latency_ms;
    let compare = |what: &str, papers, ours| Comparison::new(what, "ms", papers, ours);
    let plot = sweep.plot(
        Axis::linear("latency, ms", plain),
        |point| point.latency_ms,
        &[
            (Kind::DirectRead, &[(1.0, 7.0)]),
            (Kind::DirectWrite, &[(128.0, 500.0), (200.0, 775.0)]),
        ],
    );
    Ok(Figure {
        source: SOURCE,
        method: method(),
        comparisons: vec![
            compare("direct reads, 1 outstanding", Stated::between(7.0, 8.0), ms(Kind::DirectRead, 1)),
            compare("direct writes, 128 outstanding", Stated::above(500.0), ms(Kind::DirectWrite, 128)),
            compare("direct reads, 128 outstanding", Stated::above(500.0), ms(Kind::DirectRead, 128))
                .because("128 outstanding take 128 pages over the throughput. The paper's own 4.5 to 5 MB/s leave 400 to 444 ms, and the model reads as fast at the upper end of that."),
            compare("direct writes, 200 outstanding", Stated::between(750.0, 800.0), ms(Kind::DirectWrite, 200)),
        ],
        tables: vec![sweep.table("Latency", "ms", |point| point.latency_ms)],
        notes: vec![
            "Latency grows linearly with the number outstanding; buffered writes are the fastest and buffered reads the slowest, direct requests lie between, as the paper says.".to_owned(),
        ],
        plots: vec![("Mean latency".to_owned(), plot)],
        ..Figure::default()
    })
}
