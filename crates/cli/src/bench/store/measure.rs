//! All runs on one table.

use super::limit::{Device, Reads};
use super::place::Place;
use super::run::run;
use super::table::Table;
use super::{Setting, StoreBenchOptions, StoreBenchOutcome, StoreRun};
use crate::args::disk::ModelArgs;
use crate::args::store_bench::Experiment;
use crate::bench::{merge_runs, needed};
use crate::disk::{InProcess, Volume};
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
    let target = needed(target)?;
    let seed = options.course.seed;
    let Some(model) = &options.model else {
        let place = Place::directory(&target.path, session)?;
        return Table::load(place, &options.table, seed, session);
    };
    let model = ModelArgs {
        model: model.clone(),
        seed,
    };
    let volume = Volume::make(&target.path, &model, options.size_bytes_max(), session)?;
    let place = Place::volume(volume, session)?;
    Table::load(place, &options.table, seed, session)
}

/// Makes the table on the modelled disk of the options, in the memory of this process.
///
/// # Errors
/// A model that does not exist; as [`measure`].
pub fn loaded_in_process(
    options: &StoreBenchOptions,
    model: &str,
    session: &Session,
) -> Result<Table, Failure> {
    let seed = options.course.seed;
    let disk = InProcess::make(&ModelArgs {
        model: model.to_owned(),
        seed,
    })?;
    Table::load(Place::memory(disk), &options.table, seed, session)
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
    let device = compared
        .then(|| Device::of(table, options.table.pool_size_bytes, session))
        .transpose()?;
    let limit = device.as_ref().map(Device::limit).transpose()?;
    // A shared disk is faster in one minute than in the next: each run is held
    // against what the disk does right before and after it.
    let reads_of = |setting: &Setting| {
        let reads = Reads::of(setting.experiment, table.facts.order, limit.as_ref()?)?;
        Some((device.as_ref()?, reads))
    };
    let mut runs: Vec<StoreRun> = Vec::new();
    for repetition in 0..options.course.repeat {
        let mut round = Vec::new();
        for setting in settings {
            session.stop.check()?;
            let alike = reads_of(setting);
            round.push(run(table, setting, options, repetition, alike, session)?);
        }
        if runs.is_empty() {
            runs = round;
        } else {
            merge_runs(&mut runs, round, StoreRun::merge);
        }
    }
    if let Some(limit) = &limit {
        for run in &mut runs {
            let reads = Reads::of(run.setting.experiment, table.facts.order, limit);
            let pages = reads.is_some_and(|reads| reads.are_pages());
            if let Some(of_device) = run.of_device.as_mut().filter(|_| pages) {
                of_device.hold_against_knee(&limit.random);
            }
        }
    }
    Ok(StoreBenchOutcome {
        table: table.facts.clone(),
        limit,
        runs,
    })
}
