//! Figure 8: one random reader among three sequential ones.

use iolane_disk::Simulation;
use iolane_disk::elevator::Core;
use iolane_disk::simulation::{Arrival, Pattern, Stream, Time};
use iolane_sched::{Config, Deadline, Level, Policy, WindowConfig};

use super::{DISK, plain};
use crate::error::Failure;
use crate::figures::report::{Cell, Comparison, Data, Figure, Stated};
use crate::figures::rig::{MIB, MS, PAGE_BYTES, PAPERS_FILE, Rig, SECOND, defect};
use crate::output::chart::{Axis, BarChart};

const READERS: u32 = 3;
/// Pages that a sequential thread asks for at once: InnoDB's extent.
const EXTENT_PAGES: u32 = 64;
/// Between one random read and the next, on average.
const PAUSE_NS: f64 = 50e6;
/// What each sequential thread reads, in MB/s: the paper gives none. With this
/// one the random reader has the paper's latency at equal priority.
const RATE: f64 = 2.5;
const RATES: [f64; 4] = [1.0, 2.0, 2.5, 3.0];
/// Requests in the drive (figure 2).
const IN_DRIVE: u32 = 32;
const WARM_UP_NS: u64 = 20 * SECOND;
const RUNTIME_NS: u64 = 400 * SECOND;

/// How the requests are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    RandomAlone,
    SequentialAlone,
    /// The paper's scheduler, all at one level with the deadline of 1 s.
    Equal,
    /// The paper's, 1 s for random and 3 s for sequential reads.
    PaperPriority,
    /// The same, with an allocation group for the sequential ones.
    PaperGroup,
    /// Levels served in their order, pages one by one.
    Lanes,
    /// With the defaults: learned window, neighbours merged up to 1 MiB.
    LanesDefault,
    /// The same, but nothing merged beyond so many KiB.
    LanesUpTo(u32),
}

const SETTINGS: [(Setting, &str); 11] = [
    (Setting::RandomAlone, "random alone"),
    (Setting::SequentialAlone, "sequential alone"),
    (Setting::Equal, "equal priority"),
    (Setting::PaperPriority, "prio-deadline, 1 s and 3 s"),
    (Setting::PaperGroup, "prio-deadline, group of 16"),
    (Setting::Lanes, "lanes, page by page"),
    (Setting::LanesDefault, "lanes, defaults"),
    (Setting::LanesUpTo(256), "lanes, merged to 256 KiB"),
    (Setting::LanesUpTo(128), "lanes, merged to 128 KiB"),
    (Setting::LanesUpTo(64), "lanes, merged to 64 KiB"),
    (Setting::LanesUpTo(16), "lanes, nothing merged"),
];

impl Setting {
    fn config(self) -> Config {
        let policy = match self {
            Self::Lanes | Self::LanesDefault | Self::LanesUpTo(_) => Policy::Lanes,
            _ => Policy::PrioDeadline,
        };
        let mut config = Config::new(policy);
        config.rotational = true;
        let level = |level: Level| level.index();
        if policy == Policy::PrioDeadline {
            config.window = WindowConfig::Fixed(IN_DRIVE);
            for urgent in [Level::Foreground, Level::Normal] {
                config.levels[level(urgent)].deadline = Deadline::Fixed(1_000 * MS);
            }
            config.levels[level(Level::Background)].deadline = Deadline::Fixed(3_000 * MS);
        }
        match self {
            Self::PaperGroup => config.levels[level(Level::Background)].queued_max = 16,
            Self::Lanes => {
                config.window = WindowConfig::Fixed(1);
                config.transfer_members_max = 1;
            }
            Self::LanesUpTo(kib) => config.transfer_bytes_max = kib << 10,
            _ => {}
        }
        config
    }

    /// Of the random reader and the sequential ones.
    fn levels(self) -> (Level, Level) {
        match self {
            Self::Equal => (Level::Normal, Level::Normal),
            _ => (Level::Foreground, Level::Background),
        }
    }
}

/// What came out.
#[derive(Clone, Copy, Debug)]
struct Run {
    setting: Setting,
    rate: f64,
    random_ms: Option<f64>,
    sequential_ms: Option<f64>,
    sequential_mib_per_second: Option<f64>,
}

fn random(level: Level) -> Stream {
    Stream {
        name: "random".into(),
        arrival: Arrival::Closed {
            outstanding: 1,
            think: Time::Exponential(PAUSE_NS),
        },
        region: PAPERS_FILE,
        sizes: Stream::sizes_of(PAGE_BYTES),
        level,
        ..Stream::default()
    }
}

fn sequential(index: u32, rate: f64, level: Level) -> Stream {
    let quarter = PAPERS_FILE.end / 4 / u64::from(PAGE_BYTES) * u64::from(PAGE_BYTES);
    let start = u64::from(index) * quarter;
    Stream {
        name: format!("sequential {index}"),
        arrival: Arrival::Open {
            per_second: rate * MIB / f64::from(PAGE_BYTES),
            poisson: true,
            outstanding_max: 4096,
        },
        batch: EXTENT_PAGES,
        pattern: Pattern::Sequential,
        region: start..start + quarter,
        sizes: Stream::sizes_of(PAGE_BYTES),
        process: 1 + index,
        level,
        ..Stream::default()
    }
}

fn simulate(rig: &Rig<'_>, setting: Setting, rate: f64) -> Result<Run, Failure> {
    let elevator = Core::new(setting.config()).map_err(|error| defect(&error))?;
    let mut simulation = Simulation::new(rig.disk(DISK)?, elevator, rig.seed);
    let (high, low) = setting.levels();
    if setting != Setting::SequentialAlone {
        simulation = simulation.stream(random(high));
    }
    if setting != Setting::RandomAlone {
        for index in 0..READERS {
            simulation = simulation.stream(sequential(index, rate, low));
        }
    }
    let report = simulation
        .run(WARM_UP_NS, RUNTIME_NS)
        .map_err(|error| defect(&error))?;
    let sequential = || {
        let all = report.streams.iter();
        all.filter(|tally| tally.name != "random")
    };
    let count = sequential().count() as f64;
    let mean_ms = sequential().map(|tally| tally.latency_mean_ns).sum::<f64>() / count / 1e6;
    let mib_per_second = sequential()
        .map(|tally| tally.bytes_per_second())
        .sum::<f64>()
        / MIB;
    Ok(Run {
        setting,
        rate,
        random_ms: report
            .stream("random")
            .map(|tally| tally.latency_mean_ns / 1e6),
        sequential_ms: (count > 0.0).then_some(mean_ms),
        sequential_mib_per_second: (count > 0.0).then_some(mib_per_second),
    })
}

struct Runs(Vec<Run>);

impl Runs {
    fn at(&self, setting: Setting, rate: f64) -> &Run {
        let found = self
            .0
            .iter()
            .find(|run| run.setting == setting && run.rate == rate);
        found.expect("it was simulated")
    }

    fn random_ms(&self, setting: Setting) -> f64 {
        self.at(setting, RATE).random_ms.unwrap_or(f64::NAN)
    }

    fn table(&self) -> Data {
        let mut data = Data::new(
            format!("Three sequential readers of {RATE} MB/s each"),
            &[
                ("", ""),
                ("random", "ms"),
                ("sequential", "ms"),
                ("sequential in total", "MB/s"),
            ],
        );
        for (setting, name) in SETTINGS {
            let run = self.at(setting, RATE);
            data.row([
                Cell::from(name),
                run.random_ms.into(),
                run.sequential_ms.into(),
                run.sequential_mib_per_second.into(),
            ]);
        }
        data
    }

    fn by_rate(&self) -> Data {
        let mut data = Data::new(
            "The random reader's latency by the rate of each sequential one",
            &[
                ("MB/s", ""),
                ("equal priority", "ms"),
                ("lanes, page by page", "ms"),
                ("lanes, defaults", "ms"),
            ],
        );
        for rate in RATES {
            let ms = |setting| Cell::from(self.at(setting, rate).random_ms);
            data.row([
                Cell::from(rate),
                ms(Setting::Equal),
                ms(Setting::Lanes),
                ms(Setting::LanesDefault),
            ]);
        }
        data
    }

    fn comparisons(&self) -> Vec<Comparison> {
        let sequential = |setting| self.at(setting, RATE).sequential_ms.unwrap_or(f64::NAN);
        let change = sequential(Setting::Lanes) / sequential(Setting::SequentialAlone) * 100.0;
        let compare = |what, papers, ours| Comparison::new(what, "ms", Stated::about(papers), ours);
        vec![
            compare("random alone", 7.0, self.random_ms(Setting::RandomAlone)),
            compare("random, equal priority", 13.0, self.random_ms(Setting::Equal)).given(),
            compare("random, high priority (lanes)", 7.0, self.random_ms(Setting::LanesDefault))
                .because("With its defaults lanes merges an extent into one transfer of 1 MiB, which takes this disk 30 ms that nothing can interrupt. Page by page it is as if alone."),
            compare("random, high priority (lanes, page by page)", 7.0, self.random_ms(Setting::Lanes)),
            compare("random, high priority (prio-deadline)", 7.0, self.random_ms(Setting::PaperPriority))
                .because("As section 4.1 describes it, the paper's scheduler serves by position until a deadline expires, whatever the priority, and no request waits for 1 s. It cannot tell 1 s from 3 s; what brought the paper's reader back to 7 ms is not in its text."),
            Comparison::new(
                "sequential with low priority (lanes, page by page), of its latency alone",
                "%",
                Stated::below(100.0),
                change,
            ),
        ]
    }
}

/// Figure 8.
///
/// # Errors
/// An interruption.
pub fn beside(rig: &Rig<'_>) -> Result<Figure, Failure> {
    let jobs: Vec<(Setting, f64)> = RATES
        .iter()
        .flat_map(|&rate| SETTINGS.map(|(setting, _)| (setting, rate)))
        .collect();
    let runs = Runs(rig.all(&jobs, |&(setting, rate)| simulate(rig, setting, rate))?);
    let bars = SETTINGS
        .iter()
        .filter_map(|&(setting, name)| {
            let random_ms = runs.at(setting, RATE).random_ms?;
            Some((name.to_owned(), random_ms))
        })
        .chain([
            ("paper: same priority".to_owned(), 13.0),
            ("paper: different priorities".to_owned(), 7.0),
        ])
        .collect();
    let plot = BarChart {
        value: Axis::linear("latency of a random read, ms", |value| {
            if value.fract() == 0.0 {
                plain(value)
            } else {
                format!("{value:.1}")
            }
        }),
        bars,
    };
    Ok(Figure {
        source: "Hall and Bonnet 2005, section 4.3",
        method: vec![
            "The plainest reading of \"three threads maintaining a sustained rate of sequential read requests\": each asks for an extent of 64 pages at a time, as InnoDB prefetches, at times of a Poisson process. The random reader pauses between its reads, 50 ms on average: without a pause, reads that are as fast as alone would leave the disk no time for anything else.".to_owned(),
            format!("The paper gives no rate. {RATE} MB/s each is the one at which the random reader has its latency at equal priority; other rates stand in a table. 400 s of virtual time after 20 s."),
        ],
        comparisons: runs.comparisons(),
        tables: vec![runs.table(), runs.by_rate()],
        notes: vec![
            "With its defaults lanes merges an extent into one transfer of 1 MiB, and a random read that comes meanwhile waits for its end. With transfers of at most 256 or 128 KiB it waits less, and the sequential readers are as if alone; with still shorter ones the learned window opens to a few requests, for which it waits up to 2 ms longer than page by page.".to_owned(),
            "Page by page: a window of one request and no merging, the least that a random read can find before it. The sequential readers lose nothing: between two random reads there is time enough, and pages of one extent stay together by position.".to_owned(),
        ],
        plots: vec![("The random reader".to_owned(), plot.svg())],
        ..Figure::default()
    })
}
