//! Runs the loads: in virtual time on all processors, or on a real disk.

use std::sync::Mutex;

use iolane_disk::regret::{Course, Load, RegretError, Subject, hindsight, run_all};

use super::document::{LoadResult, RegretOutcome, RunDocument};
use super::{RegretOptions, real};
use crate::error::Failure;
use crate::figures::rig::Rig;
use crate::session::Session;
use crate::target::Target;

/// The [`Measure`](crate::bench::Measure) of the regret.
///
/// # Errors
/// An interruption, or a defect in a load.
pub fn measure(
    options: &RegretOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<RegretOutcome, Failure> {
    let loads = match target {
        Some(target) => real::measure(options, target, session)?,
        None => simulated(options, session)?,
    };
    RegretOutcome::of(loads, options).ok_or_else(|| Failure::Internal {
        message: "no loads".to_owned(),
    })
}

fn simulated(options: &RegretOptions, session: &Session) -> Result<Vec<LoadResult>, Failure> {
    let jobs: Vec<(&Subject, u64)> = options
        .subjects
        .iter()
        .flat_map(|subject| options.load_seeds.iter().map(move |&seed| (subject, seed)))
        .collect();
    let phase = Mutex::new(session.progress.bytes("loads", jobs.len() as u64));
    Rig::new(0, &session.stop).all(&jobs, |&(subject, seed)| {
        let result = simulate(subject, seed, options.hindsight);
        if let Ok(phase) = phase.lock() {
            phase.advance(1);
        }
        result.map_err(|error| Failure::Internal {
            message: format!("load {seed} on {}: {error}", subject.name),
        })
    })
}

fn simulate(subject: &Subject, seed: u64, in_hindsight: bool) -> Result<LoadResult, RegretError> {
    let load = Load::random(seed, &subject.facts()?);
    let course = Course::of(&load, subject)?;
    let mut outcomes = run_all(&load, &course, subject)?;
    if in_hindsight {
        outcomes[0] = hindsight(&load, &course, subject, &outcomes[1..])?;
    }
    let runs = outcomes.chunks(1).map(RunDocument::median).collect();
    let name = &subject.name;
    Ok(LoadResult::new(name, &load, &course, runs, None))
}
