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
/// A trial's first look, at how long the trial itself must be.
const LOOK_NS: u64 = 20_000_000;
/// Operations after which a probe has seen a device's usual speed.
const PROBE_OPERATIONS: f64 = 2_000.0;
const TRIAL_NS_MAX: f64 = 30e9;

/// Operations of each trial of the whole load.
const TRIAL_OPERATIONS: f64 = 5_000.0;

/// Open loops of the upper levels go slower by this factor, ...
const SLOWER: f64 = 0.7;
/// ... until this share of what they want is done while nothing else is, ...
const KEEPS_UP: f64 = 0.9;
/// ... but not for ever.
const SLOWER_TIMES_MAX: u32 = 16;

/// Before anything is measured: what a window takes to be learned, ...
const WARM_UP_NS_MIN: f64 = 1.5e9;
/// ... on a slow device in operations, ...
const WARM_UP_OPERATIONS: f64 = 3_000.0;
/// ... and not for ever.
const WARM_UP_NS_MAX: f64 = 60e9;
/// Foreground operations of which the hundredth part makes a percentile, for
/// whom they go fast, ...
const FOREGROUND_OPERATIONS: f64 = 4_000.0;
/// ... and for whom they go slowly, ...
const FOREGROUND_OPERATIONS_MIN: f64 = 500.0;
/// ... unless a run would take too long, and even then for so long.
const SLOWEST_NS_MAX: f64 = 10e9;
const DURATION_NS_MIN: f64 = 1e9;
const DURATION_NS_MAX: f64 = 300e9;
/// A change has a second of its own, and settles after it.
const CHANGE_NS_MIN: f64 = 4e9;
/// Most commands of a run: what a fast device does in a fifth of a second. Hundreds
/// of loads shall end within a minute or two.
const COMMANDS_MAX: f64 = 80_000.0;
/// Of a run that these cut short, part that is warm-up.
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
    /// With given times.
    pub fn new(load: &Load, parts: Vec<PartCourse>, warm_up_ns: u64, duration_ns: u64) -> Course {
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

    /// Runs each part alone, and then all for a short time, without priorities and
    /// with the smallest window.
    ///
    /// # Errors
    /// A load that this disk cannot have.
    pub fn of(load: &Load, subject: &Subject) -> Result<Course, RegretError> {
        let mut parts = Vec::with_capacity(load.parts.len());
        for part in &load.parts {
            let stream = [part.saturated()];
            let alone = trial(
                load.seed,
                &stream,
                PROBE_OPERATIONS,
                Contender::Noop,
                subject,
            )?[0]
                .operations;
            parts.push(PartCourse {
                per_second: part.per_second(alone),
                operation_ns: 1e9 / alone,
            });
        }
        let mut course = Course::new(load, parts, 0, 0);
        course.keep_up(load, subject)?;
        let streams: Vec<Stream> = course.streams(load).iter().map(undisturbed).collect();
        let mut paces = Vec::with_capacity(2);
        for contender in [Contender::Noop, Contender::Window(1)] {
            let rates = trial(load.seed, &streams, TRIAL_OPERATIONS, contender, subject)?;
            paces.push(Pace::of(load, &rates));
        }
        course.time(load, &paces, subject.command_bytes());
        Ok(course)
    }

    /// Each of the upper levels' loops alone leaves the device time; together they may
    /// not, as syncs of one hold up another. Then latency would be a matter of how long
    /// the run is, whatever decides.
    fn keep_up(&mut self, load: &Load, subject: &Subject) -> Result<(), RegretError> {
        let urgent: Vec<usize> = (0..load.parts.len())
            .filter(|&index| load.parts[index].is_foreground())
            .collect();
        if urgent
            .iter()
            .all(|&index| self.parts[index].per_second.is_none())
        {
            return Ok(());
        }
        for _ in 0..SLOWER_TIMES_MAX {
            let streams = self.streams(load);
            let streams: Vec<Stream> = urgent.iter().map(|&i| undisturbed(&streams[i])).collect();
            let done = trial(
                load.seed,
                &streams,
                TRIAL_OPERATIONS,
                Contender::Noop,
                subject,
            )?;
            let lags = |(&index, done): (&usize, &Rate)| {
                let wanted = self.parts[index].per_second;
                wanted.is_some_and(|wanted| done.operations < KEEPS_UP * wanted)
            };
            if !urgent.iter().zip(&done).any(lags) {
                break;
            }
            for &index in &urgent {
                let rate = &mut self.parts[index].per_second;
                *rate = rate.map(|rate| rate * SLOWER);
            }
        }
        Ok(())
    }

    /// Sets the times by what the load did in trials.
    fn time(&mut self, load: &Load, paces: &[Pace], command_bytes: f64) {
        let most = |of: fn(&Pace) -> f64| paces.iter().map(of).fold(0.0, f64::max);
        let least = |of: fn(&Pace) -> f64| paces.iter().map(of).fold(f64::INFINITY, f64::min);
        let duration_ns_min = match load.change {
            Change::None => DURATION_NS_MIN,
            _ => CHANGE_NS_MIN,
        };
        let slowest_ns = FOREGROUND_OPERATIONS_MIN / least(|pace| pace.foreground) * 1e9;
        let warm_up_ns = WARM_UP_OPERATIONS / least(|pace| pace.operations) * 1e9;
        let mut warm_up_ns = warm_up_ns.clamp(WARM_UP_NS_MIN, WARM_UP_NS_MAX);
        let mut duration_ns = (FOREGROUND_OPERATIONS / most(|pace| pace.foreground) * 1e9)
            .max(slowest_ns)
            .clamp(duration_ns_min, DURATION_NS_MAX);
        let commands = paces
            .iter()
            .map(|pace| pace.operations.max(pace.bytes / command_bytes));
        let run_ns_max = COMMANDS_MAX / commands.fold(0.0, f64::max) * 1e9;
        if warm_up_ns + duration_ns > run_ns_max {
            let cut_ns = run_ns_max * (1.0 - WARM_UP_SHARE);
            duration_ns = duration_ns.min(cut_ns.max(slowest_ns.min(SLOWEST_NS_MAX)));
            warm_up_ns = warm_up_ns.min(run_ns_max * WARM_UP_SHARE);
        }
        let parts = std::mem::take(&mut self.parts);
        *self = Course::new(load, parts, warm_up_ns as u64, duration_ns as u64);
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

impl Part {
    /// The stream as a probe: always, with [`PROBE_DEPTH`] outstanding.
    pub fn saturated(&self) -> Stream {
        let bytes_max = self.stream.sizes.iter().map(|size| size.bytes).max();
        let fit = PROBE_BYTES_MAX / u64::from(bytes_max.unwrap_or(1));
        let stream = Stream {
            batch: 1,
            arrival: Arrival::Closed {
                outstanding: u64::from(PROBE_DEPTH).min(fit).max(1) as u32,
                think: Time::Fixed(0),
            },
            ..self.stream.clone()
        };
        undisturbed(&stream)
    }

    /// Rate of an open loop, if a probe did so many operations a second, each
    /// flush one of them.
    pub fn per_second(&self, probe_per_second: f64) -> Option<f64> {
        let for_each = match self.stream.flush_every {
            0 => 1.0,
            every => 1.0 + (1.0 - self.stream.read_share) / f64::from(every),
        };
        self.share.map(|share| share * probe_per_second / for_each)
    }
}

fn undisturbed(stream: &Stream) -> Stream {
    Stream {
        activity: Activity::ALWAYS,
        trace: false,
        ..stream.clone()
    }
}

/// What a stream did in a second.
#[derive(Clone, Copy, Debug)]
struct Rate {
    operations: f64,
    bytes: f64,
}

/// What a load did in a second of a trial.
#[derive(Clone, Copy, Debug)]
struct Pace {
    operations: f64,
    bytes: f64,
    foreground: f64,
}

impl Pace {
    fn of(load: &Load, rates: &[Rate]) -> Pace {
        let foreground = load
            .parts
            .iter()
            .zip(rates)
            .filter(|(part, _)| part.is_foreground())
            .map(|(_, rate)| rate.operations)
            .sum();
        Pace {
            operations: rates.iter().map(|rate| rate.operations).sum(),
            bytes: rates.iter().map(|rate| rate.bytes).sum(),
            foreground,
        }
    }
}

/// Streams under a contender for about so many operations.
fn trial(
    seed: u64,
    streams: &[Stream],
    operations: f64,
    contender: Contender,
    subject: &Subject,
) -> Result<Vec<Rate>, RegretError> {
    let measure = |warm_up_ns, duration_ns| -> Result<Vec<Rate>, RegretError> {
        let config = contender.config(subject.rotational, 1);
        let mut simulation = Simulation::new(subject.build(seed)?, Core::new(config)?, seed);
        for stream in streams {
            simulation = simulation.stream(stream.clone());
        }
        let report = simulation.run(warm_up_ns, duration_ns)?;
        // Not even one has ended: as slow as can be.
        let rates = report.streams.iter().map(|tally| Rate {
            operations: tally.per_second().max(1e9 / TRIAL_NS_MAX),
            bytes: tally.bytes_per_second().max(1.0),
        });
        Ok(rates.collect())
    };
    let look: f64 = measure(0, LOOK_NS)?
        .iter()
        .map(|rate| rate.operations)
        .sum();
    let duration_ns = (operations / look * 1e9).min(TRIAL_NS_MAX) as u64;
    measure(duration_ns / 4, duration_ns)
}
