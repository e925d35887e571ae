//! How fast a load's open loops are, how long it runs, and what its operations
//! are worth: found out by each stream alone on the device.

use super::load::{Change, Load, Part};
use super::subject::Subject;
use super::{Contender, RegretError};
use crate::elevator::Core;
use crate::simulation::{Activity, Arrival, Simulation, Stream, Time};

/// What a stream that has the device alone keeps outstanding: enough for every
/// model to be near its full throughput.
pub const PROBE_DEPTH: u32 = 32;
/// Most bytes outstanding in a probe.
const PROBE_BYTES_MAX: u64 = 64 << 20;
/// A probe's first look, at how long the probe itself must be.
const LOOK_NS: u64 = 50_000_000;
/// Operations after which a probe has seen a device's usual speed.
const PROBE_OPERATIONS: f64 = 4_000.0;
const PROBE_NS_MAX: f64 = 30e9;

/// Before anything is measured: what a window takes to be learned, ...
const WARM_UP_NS_MIN: f64 = 1.5e9;
/// ... on a slow device in operations, ...
const WARM_UP_OPERATIONS: f64 = 3_000.0;
/// ... and not for ever.
const WARM_UP_NS_MAX: f64 = 60e9;
/// Foreground operations of which the hundredth part is enough for a percentile.
const FOREGROUND_OPERATIONS: f64 = 1_500.0;
/// Part of its rate alone that the foreground has beside others, roughly.
const FOREGROUND_SHARE: f64 = 0.4;
const DURATION_NS_MIN: f64 = 1e9;
const DURATION_NS_MAX: f64 = 120e9;
/// A change has a second of its own, and settles after it.
const CHANGE_NS_MIN: f64 = 4e9;
/// Most operations of a run: what a fast device does in half a second. Hundreds
/// of loads shall end within a minute or two.
const OPERATIONS_MAX: f64 = 200_000.0;
/// Of a run that they cut short, part that is warm-up.
const WARM_UP_SHARE: f64 = 0.5;

/// One part of a [`Load`] on one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartCourse {
    /// Operations a second of an open loop, without its flushes.
    pub per_second: Option<f64>,
    /// What one of its operations is worth: the device's time, in nanoseconds,
    /// while it does nothing else.
    pub operation_ns: f64,
}

/// How a [`Load`] runs on one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// In the order of [`Load::parts`].
    pub parts: Vec<PartCourse>,
    /// Before the measurement.
    pub warm_up_ns: u64,
    /// Of the measurement.
    pub duration_ns: u64,
    /// When the load changes, since the beginning.
    pub change_ns: Option<u64>,
}

impl Course {
    /// Runs each part alone.
    ///
    /// # Errors
    /// A load that this disk cannot have.
    pub fn of(load: &Load, subject: &Subject) -> Result<Course, RegretError> {
        let mut parts = Vec::with_capacity(load.parts.len());
        let mut foreground_per_second = f64::INFINITY;
        for part in &load.parts {
            let alone = probe(load.seed, saturated(&part.stream), subject)?;
            let per_second = part
                .share
                .map(|share| share * alone / flushes(&part.stream));
            if part.is_foreground() {
                let own = match per_second {
                    Some(per_second) => per_second,
                    None => probe(load.seed, undisturbed(&part.stream), subject)?,
                };
                foreground_per_second = foreground_per_second.min(own);
            }
            parts.push(PartCourse {
                per_second,
                operation_ns: 1e9 / alone,
            });
        }
        Ok(Course::timed(load, parts, foreground_per_second))
    }

    fn timed(load: &Load, parts: Vec<PartCourse>, foreground_per_second: f64) -> Course {
        let per_second = total_per_second(&load.parts, &parts);
        let slowest = parts
            .iter()
            .map(|part| part.operation_ns)
            .fold(0.0, f64::max);
        let mut warm_up_ns = (WARM_UP_OPERATIONS * slowest).clamp(WARM_UP_NS_MIN, WARM_UP_NS_MAX);
        let foreground_ns = 1e9 / (foreground_per_second * FOREGROUND_SHARE);
        let duration_ns_min = match load.change {
            Change::None => DURATION_NS_MIN,
            _ => CHANGE_NS_MIN,
        };
        let mut duration_ns =
            (FOREGROUND_OPERATIONS * foreground_ns).clamp(duration_ns_min, DURATION_NS_MAX);
        let run_ns_max = OPERATIONS_MAX / per_second * 1e9;
        if warm_up_ns + duration_ns > run_ns_max {
            duration_ns = duration_ns.min(run_ns_max * (1.0 - WARM_UP_SHARE));
            warm_up_ns = warm_up_ns.min(run_ns_max * WARM_UP_SHARE);
        }
        let (warm_up_ns, duration_ns) = (warm_up_ns as u64, duration_ns as u64);
        Course {
            parts,
            warm_up_ns,
            duration_ns,
            change_ns: match load.change {
                Change::None => None,
                Change::Begins => Some(warm_up_ns),
                Change::Ends => Some(warm_up_ns + duration_ns / 2),
            },
        }
    }

    /// The streams as they run.
    pub fn streams(&self, load: &Load) -> Vec<Stream> {
        let parts = load.parts.iter().zip(&self.parts);
        parts
            .map(|(part, course)| {
                let mut stream = part.stream.clone();
                if let (Arrival::Open { per_second, .. }, Some(rate)) =
                    (&mut stream.arrival, course.per_second)
                {
                    *per_second = rate;
                }
                if let Some(change_ns) = self.change_ns {
                    let early = (load.change == Change::Begins && part.gives_way)
                        || (load.change == Change::Ends && part.changes);
                    let late = (load.change == Change::Begins && part.changes)
                        || (load.change == Change::Ends && part.gives_way);
                    if early {
                        stream.activity.ends_ns = change_ns;
                    } else if late {
                        stream.activity.begins_ns = change_ns;
                    }
                }
                stream
            })
            .collect()
    }
}

/// At most so many operations a second will end.
fn total_per_second(parts: &[Part], courses: &[PartCourse]) -> f64 {
    let closed = parts
        .iter()
        .zip(courses)
        .filter(|(part, _)| part.share.is_none())
        .map(|(_, course)| 1e9 / course.operation_ns)
        .fold(0.0, f64::max);
    let open: f64 = courses.iter().filter_map(|course| course.per_second).sum();
    closed.max(open)
}

/// Operations for each that is no flush.
fn flushes(stream: &Stream) -> f64 {
    match stream.flush_every {
        0 => 1.0,
        every => 1.0 + (1.0 - stream.read_share) / f64::from(every),
    }
}

fn saturated(stream: &Stream) -> Stream {
    let bytes_max = stream.sizes.iter().map(|size| size.bytes).max();
    let fit = PROBE_BYTES_MAX / u64::from(bytes_max.unwrap_or(1));
    let stream = Stream {
        batch: 1,
        arrival: Arrival::Closed {
            outstanding: u64::from(PROBE_DEPTH).min(fit).max(1) as u32,
            think: Time::Fixed(0),
        },
        ..stream.clone()
    };
    undisturbed(&stream)
}

fn undisturbed(stream: &Stream) -> Stream {
    Stream {
        activity: Activity::ALWAYS,
        trace: false,
        ..stream.clone()
    }
}

/// Operations a second of a stream alone.
fn probe(seed: u64, stream: Stream, subject: &Subject) -> Result<f64, RegretError> {
    let measure = |warm_up_ns, duration_ns| -> Result<f64, RegretError> {
        let config = Contender::Noop.config(subject.rotational, 1);
        let report = Simulation::new(subject.build(seed)?, Core::new(config)?, seed)
            .stream(stream.clone())
            .run(warm_up_ns, duration_ns)?;
        Ok(report.streams[0].per_second())
    };
    let look = measure(0, LOOK_NS)?.max(1e9 / PROBE_NS_MAX);
    let duration_ns = (PROBE_OPERATIONS / look * 1e9).min(PROBE_NS_MAX) as u64;
    let measured = measure(duration_ns / 4, duration_ns)?;
    // Not even one: as slow as can be.
    Ok(measured.max(1e9 / PROBE_NS_MAX))
}
