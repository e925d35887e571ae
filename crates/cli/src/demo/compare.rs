//! Transactions alone, beside others without priorities, and beside them with.

use crate::args::choices::Switch;
use crate::args::store_bench::{Beside, Experiment};
use crate::bench::merge_runs;
use crate::bench::store::{self, Setting, StoreBenchOptions, StoreRun};
use crate::error::Failure;
use crate::session::Session;

/// The three runs, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    Alone,
    Without,
    With,
}

/// What becomes of a comparison in which a quota stops the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// It ends.
    End,
    /// They are in its figures.
    Count,
}

impl Stops {
    fn end(self, runs: &[StoreRun]) -> bool {
        self == Self::End && runs.iter().any(|run| run.gaps.cpu_quota)
    }
}

/// In the order of [`Case`].
pub fn settings(
    alone: Setting,
    rate_per_second: f64,
    beside: &[Beside],
    titles: [&'static str; 3],
) -> [Setting; 3] {
    let rate_per_second = Some(rate_per_second);
    let [title, without_title, with_title] = titles.map(Some);
    let alone = Setting {
        threads: store::threads_of(alone.experiment, rate_per_second),
        rate_per_second,
        title,
        ..alone
    };
    let with = Setting {
        beside: beside.to_vec(),
        title: with_title,
        ..alone.clone()
    };
    let without = Setting {
        priorities: Switch::Off,
        title: without_title,
        ..with.clone()
    };
    [alone, without, with]
}

/// Transactions with the store to themselves, one following the other.
///
/// # Errors
/// None: a demo has a setting.
pub fn alone(options: &StoreBenchOptions) -> Result<Setting, Failure> {
    let first = options.settings().into_iter().next();
    let first = first.ok_or_else(|| Failure::Internal {
        message: "a demo without a setting".to_owned(),
    })?;
    Ok(Setting {
        experiment: Experiment::Oltp,
        priorities: Switch::On,
        beside: Vec::new(),
        ..first
    })
}

/// One after the other, as often as the options say. `None` if stops ended it: at once, and
/// not when all is measured.
///
/// # Errors
/// The store's, or an interruption.
pub fn measured(
    table: &store::Table,
    options: &StoreBenchOptions,
    settings: &[Setting],
    stops: Stops,
    session: &Session,
) -> Result<Option<Vec<StoreRun>>, Failure> {
    let mut once = options.clone();
    once.course.repeat = 1;
    let mut runs = Vec::new();
    for repetition in 0..options.course.repeat {
        once.course.seed = options.course.seed + repetition;
        let mut round = Vec::new();
        for setting in settings {
            let one = std::slice::from_ref(setting);
            let measured = store::measure_settings(table, &once, one, session)?;
            if stops.end(&measured.runs) {
                return Ok(None);
            }
            round.extend(measured.runs);
        }
        match runs.is_empty() {
            true => runs = round,
            false => merge_runs(&mut runs, round, StoreRun::merge),
        }
    }
    Ok(Some(runs))
}
