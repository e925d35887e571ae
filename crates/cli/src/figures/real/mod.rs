//! Figures that are measured. Those of a storage manager with `iolane bench
//! store`, quickly, on tables that are small and larger than the pool, on a
//! real disk or on a modelled one; those of a buffer cache with `iolane bench
//! hugepages`.

mod hall_bonnet;
mod linux_2003;
mod page_size;
mod percona;

use super::report::{Cell, Data, Figure};
use crate::bench::hugepages::{self, Hugepages, HugepagesResult};
use crate::bench::store::{self, StoreBench, StoreBenchOutcome, StoreRun};
use crate::bench::{Bench, defaults};
use crate::environment::command_line;
use crate::error::Failure;
use crate::session::Session;
use crate::target::Target;

/// Where it is measured.
pub struct RealRig<'a> {
    /// None where no figure needs a disk.
    pub target: Option<&'a Target>,
    /// The disk, if it is a modelled one.
    pub model: Option<&'a str>,
    /// Of a table, about.
    pub table_bytes: u64,
    /// Of a buffer cache.
    pub cache_bytes: u64,
    pub seed: u64,
    pub session: &'a Session,
}

type Measure = fn(&RealRig<'_>) -> Result<Figure, Failure>;

/// What a figure is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A storage manager, on a disk.
    Store,
    /// A buffer cache, in memory.
    Memory,
}

/// A figure that is measured.
pub struct Measured {
    pub name: &'static str,
    pub title: &'static str,
    pub subject: Subject,
    measure: Measure,
}

pub const MEASURED: [Measured; 8] = [
    Measured {
        name: "hall-bonnet-4",
        title: "Hall & Bonnet, figure 4: outstanding requests of a scan",
        subject: Subject::Store,
        measure: hall_bonnet::scan,
    },
    Measured {
        name: "hall-bonnet-5",
        title: "Hall & Bonnet, figure 5: outstanding requests of ranges by secondary index, by threads",
        subject: Subject::Store,
        measure: hall_bonnet::ranges,
    },
    Measured {
        name: "hall-bonnet-6",
        title: "Hall & Bonnet, figure 6: outstanding requests of an update larger than memory",
        subject: Subject::Store,
        measure: hall_bonnet::update,
    },
    Measured {
        name: "hall-bonnet-9",
        title: "Hall & Bonnet, figure 9: the same with prioritized preflushing",
        subject: Subject::Store,
        measure: hall_bonnet::preflush,
    },
    Measured {
        name: "linux-2003-3.1",
        title: "Linux 2003, figures 3.1 and 3.2: a buffer cache by the size of its pages: look-ups, TLB misses, page tables",
        subject: Subject::Memory,
        measure: page_size::by_page_size,
    },
    Measured {
        name: "linux-2003-3.3",
        title: "Linux 2003, figure 3.3: what large pages gain, by the size of the buffer cache",
        subject: Subject::Memory,
        measure: page_size::by_cache_size,
    },
    Measured {
        name: "linux-2003-5.3",
        title: "Linux 2003, figures 5.3 and 5.4: checkpoints by asynchronous I/O instead of threads",
        subject: Subject::Store,
        measure: linux_2003::checkpoints,
    },
    Measured {
        name: "percona-2013",
        title: "Percona 2013: scan of a table in random order, buffered and direct, by read-ahead",
        subject: Subject::Store,
        measure: percona::scans,
    },
];

/// Whether this is the name of a figure that is measured on a disk.
pub fn needs_disk(name: &str) -> bool {
    let mut on_disk = MEASURED.iter().filter(|one| one.subject == Subject::Store);
    on_disk.any(|one| one.name == name)
}

/// # Errors
/// What cannot be set up, the store's, an interruption.
pub fn measure(name: &str, rig: &RealRig<'_>) -> Result<Figure, Failure> {
    let Some(one) = MEASURED.iter().find(|one| one.name == name) else {
        unreachable!("{name} was chosen from the catalogue");
    };
    let mut figure = (one.measure)(rig)?;
    (figure.name, figure.title) = (one.name, one.title);
    Ok(figure)
}

impl RealRig<'_> {
    /// Runs `iolane bench store` with these words, and says how to do the same.
    /// The pool is the table's size in percent.
    fn bench(
        &self,
        words: &str,
        pool_percent: u64,
    ) -> Result<(String, StoreBenchOutcome), Failure> {
        let pool_bytes = (self.table_bytes * pool_percent / 100).max(2 << 20);
        let line = format!(
            "{words} --table-size {} --pool-size {pool_bytes} --warm-up 1s --seed {}",
            self.table_bytes, self.seed
        );
        let mut options = StoreBench::options(defaults(&line)?)?;
        options.model = self.model.map(str::to_owned);
        let outcome = store::measure(&options, self.target, self.session)?;
        let mut typed = format!("iolane bench store {line}");
        if let Some(model) = self.model {
            typed.push_str(&format!(" --model {}", command_line(&[model.into()])));
        }
        Ok((typed, outcome))
    }

    /// Runs `iolane bench hugepages` with these words, and says how to do the
    /// same.
    fn hugepages(&self, words: &str) -> Result<(String, HugepagesResult), Failure> {
        let line = format!("{words} --seed {}", self.seed);
        let request = Hugepages::options(defaults(&line)?)?;
        let result = hugepages::measure(&request, None, self.session)?;
        Ok((format!("iolane bench hugepages {line}"), result))
    }

    /// How a figure of a storage manager came about.
    fn method(&self, lines: impl IntoIterator<Item = String>) -> Vec<String> {
        let disk = match self.model {
            Some(model) => format!("the modelled disk {model}, served in real time"),
            None => "a real disk".to_owned(),
        };
        let first = format!(
            "Measured on {disk}, once where there is no --repeat; do it again and the figures differ. The environment \
             says which machine."
        );
        std::iter::once(first).chain(lines).collect()
    }
}

const RUN: [(&str, &str); 7] = [
    ("store", ""),
    ("rate", "1/s"),
    ("read", "MB/s"),
    ("written", "MB/s"),
    ("0 outstanding", "% of time"),
    ("median outstanding", ""),
    ("90th percentile", ""),
];

/// A table of runs: rates, and requests outstanding on tablespaces.
fn runs_table(title: &str, runs: &[StoreRun]) -> Data {
    let mut data = Data::new(title, &RUN);
    for run in runs {
        let outstanding = &run.outstanding.data;
        data.row([
            run.setting.label().into(),
            run.load.operations_per_second().into(),
            (run.read_bytes_per_second() / 1e6).into(),
            (run.written_bytes_per_second() / 1e6).into(),
            (outstanding.idle_share * 100.0).into(),
            Cell::Number(outstanding.p50_requests as f64),
            Cell::Number(outstanding.p90_requests as f64),
        ]);
    }
    data
}

/// Share of the time in percent with at least `from` and less than `to`
/// requests outstanding on tablespaces.
fn share_percent(run: &StoreRun, from: u64, to: u64) -> f64 {
    let distribution = run.outstanding.data.distribution.iter();
    let within = distribution.filter(|(count, _)| (from..to).contains(count));
    within.map(|(_, share)| share * 100.0).sum()
}
