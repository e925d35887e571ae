//! The same loads on a real disk, through the engine.
//!
//! | file | subject |
//! |---|---|
//! | `course` | what each part does alone, as in virtual time |
//! | `run` | one load under one contender, measured |
//! | `stream` | one part of a load: what it does next, and when |
//! | `closed`, `open`, `waiting` | who submits it: completions, a clock, threads that wait |

mod closed;
mod course;
mod open;
mod run;
mod stream;
mod waiting;

use iolane_disk::regret::{Contender, Facts, Load, Outcome};

use super::RegretOptions;
use super::document::{AgainDocument, LoadResult, RunDocument};
use crate::error::Failure;
use crate::session::Session;
use crate::target::Target;

/// A sector, where the kernel does not say what direct transfers need.
const BLOCK_BYTES: u32 = 4096;

/// All loads, each with its repetitions in turn.
///
/// # Errors
/// What cannot be set up, a request that failed, an interruption.
pub fn measure(
    options: &RegretOptions,
    target: &Target,
    session: &Session,
) -> Result<Vec<LoadResult>, Failure> {
    let alignment = target.direct_alignment;
    let facts = Facts {
        capacity_bytes: target.size_bytes,
        block_bytes: alignment.map_or(BLOCK_BYTES, |alignment| alignment.offset_bytes.max(512)),
    };
    let seeds = options.load_seeds.iter();
    seeds
        .map(|&seed| measure_load(&Load::random(seed, &facts), options, target, session))
        .collect()
}

fn measure_load(
    load: &Load,
    options: &RegretOptions,
    target: &Target,
    session: &Session,
) -> Result<LoadResult, Failure> {
    let arena = run::arena(load)?;
    let rig = run::Rig {
        load,
        target,
        arena,
        session,
    };
    let course = course::of(&rig, options)?;
    let contenders = Contender::all();
    let mut outcomes: Vec<Vec<Outcome>> = contenders.iter().map(|_| Vec::new()).collect();
    for repetition in 0..options.repeat {
        for place in 0..contenders.len() {
            // Each time in another order: a disk that was written to by one run
            // is not always the next one's.
            let index = (place + repetition as usize) % contenders.len();
            let contender = contenders[index];
            let name = format!("load {}, {}", load.seed, contender.name());
            outcomes[index].push(rig.run(&name, &course, contender)?);
        }
    }
    let runs = outcomes
        .iter()
        .map(|all| RunDocument::median(all))
        .collect();
    Ok(LoadResult::new(
        &target.path.display().to_string(),
        load,
        &course,
        runs,
        AgainDocument::of(&outcomes),
    ))
}
