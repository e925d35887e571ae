//! A load under one contender, in virtual time.

use super::course::Course;
use super::load::Load;
use super::reaction::Reaction;
use super::subject::Subject;
use super::{Compared, Contender, RegretError, best_window};
use crate::elevator::Core;
use crate::model::Model;
use crate::simulation::{Arrival, Ended, Simulation};

/// Between a load's seed and that of another run of the same load: no load that is run beside
/// it has that one.
const OTHER_CHANCE: u64 = 500_000;

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Who decided.
    pub contender: Contender,
    /// Foreground operations that ended while it was measured.
    pub foreground_operations: u64,
    /// The 99th percentile of their latency.
    pub foreground_p99_ns: u64,
    /// Share of the device that the lower levels had: the time that what they
    /// did would have taken alone, of the time measured. Above 1 where the
    /// device does more when it is shared.
    pub lower_work: f64,
    /// Operations of the lower levels.
    pub lower_operations: u64,
    /// Bytes that they moved.
    pub lower_bytes: u64,
    /// After the load's change.
    pub reaction: Option<Reaction>,
}

/// What one part of a load did while it was measured.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Operations that ended, flushes among them.
    pub operations: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Every one, if somebody waits for it.
    pub trace: Vec<Ended>,
}

/// Runs it.
///
/// # Errors
/// A load that this disk cannot have.
pub fn run(
    load: &Load,
    course: &Course,
    subject: &Subject,
    contender: Contender,
) -> Result<Outcome, RegretError> {
    let config = contender.config(subject.rotational, outstanding_max(load));
    let model = subject.build(load.seed)?;
    let mut simulation = Simulation::new(model, Core::new(config)?, load.seed);
    for stream in course.streams(load) {
        simulation = simulation.stream(stream);
    }
    let report = simulation.run(course.warm_up_ns, course.duration_ns)?;
    let done = report.streams.into_iter().map(|tally| Done {
        operations: tally.operations,
        bytes: tally.bytes,
        trace: tally.trace,
    });
    Ok(Outcome::of(load, course, contender, done))
}

/// Runs it under [all](Contender::all), in that order. Windows that are
/// wider than what is outstanding, or than what the device takes at once, make no
/// difference: those runs are copies.
///
/// # Errors
/// A load that this disk cannot have.
pub fn run_all(
    load: &Load,
    course: &Course,
    subject: &Subject,
) -> Result<Vec<Outcome>, RegretError> {
    let widest = widest(load, subject.build(load.seed)?.queue_max());
    let mut outcomes: Vec<Outcome> = Vec::new();
    for contender in Contender::all() {
        let same = outcomes.last().filter(|last| {
            matches!(last.contender, Contender::Window(window) if u64::from(window) >= widest)
        });
        let outcome = match same {
            Some(same) => Outcome {
                contender,
                ..same.clone()
            },
            None => run(load, course, subject, contender)?,
        };
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// The fixed window that regrets least on this load, run again with the chance of arrivals
/// and device drawn anew: what is regretted then is chance, and what no scheduler
/// that knows the load can avoid. `outcomes`: of the windows and
/// `noop`.
///
/// # Errors
/// A load that this disk cannot have.
pub fn hindsight(
    load: &Load,
    course: &Course,
    subject: &Subject,
    outcomes: &[Outcome],
) -> Result<Outcome, RegretError> {
    let compared: Vec<Compared> = outcomes.iter().map(Compared::from).collect();
    let window = best_window(&compared);
    let again = Load {
        seed: load.seed.wrapping_add(OTHER_CHANCE),
        ..load.clone()
    };
    run(&again, course, subject, Contender::Hindsight(window))
}

/// What closed loops have outstanding; open ones are blocked beyond what the
/// scheduler takes for each level anyway.
fn outstanding_max(load: &Load) -> u32 {
    let closed = load.parts.iter().map(|part| match part.stream.arrival {
        Arrival::Closed { outstanding, .. } => outstanding,
        Arrival::Open { .. } => 0,
    });
    closed.sum::<u32>().max(1)
}

/// From which window on all windows are the same: what can be outstanding
/// altogether, or what the device takes.
fn widest(load: &Load, queue_max: usize) -> u64 {
    let parts = load.parts.iter();
    let outstanding: u64 = parts
        .map(|part| match part.stream.arrival {
            Arrival::Closed { outstanding, .. } => u64::from(outstanding),
            Arrival::Open { .. } => u64::from(u32::MAX),
        })
        .sum();
    outstanding.min(queue_max as u64)
}

impl Outcome {
    /// Of what each of the load's parts did.
    pub fn of(
        load: &Load,
        course: &Course,
        contender: Contender,
        done: impl IntoIterator<Item = Done>,
    ) -> Outcome {
        let mut ended: Vec<Ended> = Vec::new();
        let (mut lower_operations, mut lower_bytes, mut lower_ns) = (0, 0, 0.0);
        for ((part, course), done) in load.parts.iter().zip(&course.parts).zip(done) {
            if part.is_foreground() {
                ended.extend(done.trace);
            } else {
                lower_operations += done.operations;
                lower_bytes += done.bytes;
                lower_ns += done.operations as f64 * course.operation_ns;
            }
        }
        ended.sort_by_key(|one| one.at_ns);
        let end_ns = course.warm_up_ns + course.duration_ns;
        Outcome {
            contender,
            foreground_operations: ended.len() as u64,
            // Not one has ended: all have waited for as long as it was measured.
            foreground_p99_ns: match ended.len() {
                0 => course.duration_ns,
                _ => p99_ns(&ended),
            },
            lower_work: lower_ns / course.duration_ns as f64,
            lower_operations,
            lower_bytes,
            reaction: course
                .change_ns
                .and_then(|change_ns| Reaction::of(&ended, change_ns, end_ns)),
        }
    }
}

/// 0 for none.
pub(super) fn p99_ns(ended: &[Ended]) -> u64 {
    let mut latencies: Vec<u64> = ended.iter().map(|one| one.latency_ns).collect();
    if latencies.is_empty() {
        return 0;
    }
    let place = (latencies.len() * 99).div_ceil(100) - 1;
    let (_, &mut p99_ns, _) = latencies.select_nth_unstable(place);
    p99_ns
}
