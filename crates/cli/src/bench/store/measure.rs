//! All runs on one table.

use super::run::run;
use super::table::Table;
use super::{Setting, StoreBenchOptions, StoreBenchOutcome, StoreRun, limit};
use crate::args::disk::ModelArgs;
use crate::args::store_bench::Experiment;
use crate::bench::merge_runs;
use crate::disk::Volume;
use crate::error::Failure;
use crate::session::Session;
use crate::target::Target;

/// The [`Measure`](crate::bench::Measure) of `iolane bench store`.
///
/// # Errors
/// What cannot be set up, the store's, an interruption.
pub fn measure(
    options: &StoreBenchOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<StoreBenchOutcome, Failure> {
    let table = loaded(options, target, session)?;
    measure_settings(&table, options, &options.settings(), session)
}

/// Makes the table.
///
/// # Errors
/// As [`measure`].
pub fn loaded(
    options: &StoreBenchOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<Table, Failure> {
    let Some(target) = target else {
        return Err(Failure::Internal {
            message: "a store was given no target".to_owned(),
        });
    };
    let seed = options.course.seed;
    let Some(model) = &options.model else {
        return Table::load(&target.path, &options.table, seed, session);
    };
    let model = ModelArgs {
        model: model.clone(),
        seed,
    };
    let volume = Volume::make(&target.path, &model, options.size_bytes_max(), session)?;
    Table::load_on(volume, &options.table, seed, session)
}

/// All settings in turn, as often as the options say.
///
/// # Errors
/// As [`measure`].
pub fn measure_settings(
    table: &Table,
    options: &StoreBenchOptions,
    settings: &[Setting],
    session: &Session,
) -> Result<StoreBenchOutcome, Failure> {
    let reads = [Experiment::Scan, Experiment::Range];
    let compared = settings.iter().any(|one| reads.contains(&one.experiment));
    let limit = compared
        .then(|| limit::measure(table, session))
        .transpose()?;
    let mut runs: Vec<StoreRun> = Vec::new();
    for repetition in 0..options.course.repeat {
        let mut round = Vec::new();
        for setting in settings {
            session.stop.check()?;
            round.push(run(table, setting, options, repetition, session)?);
        }
        if runs.is_empty() {
            runs = round;
        } else {
            merge_runs(&mut runs, round, StoreRun::merge);
        }
    }
    Ok(StoreBenchOutcome {
        table: table.facts.clone(),
        limit,
        runs,
    })
}
