//! One load under one contender.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use iolane::{Arena, Buffer, IoPriority as Handed};
use iolane_disk::regret::{Contender, Course, Done, Load, Outcome};
use iolane_disk::simulation::{Arrival, Stream};

use super::stream::{Ending, Live};
use super::{closed, open, waiting};
use crate::args::choices::Backend;
use crate::error::Failure;
use crate::session::Session;
use crate::sys::prefix::Prefix;
use crate::target::Target;
use crate::workload::control::Control;
use crate::workload::offsets::Random;
use crate::workload::waiting::no_thread;
use crate::workload::{self, Carrier, CarrierOptions, IN_FLIGHT_MAX};

/// How long a part runs alone, before and while it is looked at.
const PROBE_WARM_UP: Duration = Duration::from_millis(100);
const PROBE: Duration = Duration::from_millis(400);
/// Up to so many operations of the upper levels, each has a thread that waits for
/// it. More come from completions: so many threads would measure the machine's
/// context switches.
const WAITING_THREADS_MAX: u32 = 16;
/// Memory of an open loop's buffers, ...
const OPEN_BYTES_MAX: u64 = 64 << 20;
/// ... but no more of them, and no fewer.
const OPEN_OUTSTANDING: (u64, u64) = (32, 4096);
/// Between two looks at the stop flag.
const NAP_MAX: Duration = Duration::from_millis(20);

/// What all runs of a load share.
pub struct Rig<'a> {
    pub load: &'a Load,
    pub target: &'a Target,
    pub arena: Arena,
    pub session: &'a Session,
}

/// Buffers of all parts, and of those that run alone.
///
/// # Errors
/// When there is less memory.
pub fn arena(load: &Load) -> Result<Arena, Failure> {
    let need: Vec<(u64, u64)> = load
        .parts
        .iter()
        .map(|part| {
            let alone = buffers_of(&part.saturated());
            (buffers_of(&part.stream).max(alone), bytes_max(&part.stream))
        })
        .collect();
    workload::arena(&need)
}

fn bytes_max(stream: &Stream) -> u64 {
    let sizes = stream.sizes.iter().map(|size| u64::from(size.bytes));
    sizes.max().unwrap_or(0)
}

/// What it can have outstanding.
fn buffers_of(stream: &Stream) -> u64 {
    match stream.arrival {
        Arrival::Closed { outstanding, .. } => outstanding.into(),
        Arrival::Open { .. } => {
            let (least, most) = OPEN_OUTSTANDING;
            (OPEN_BYTES_MAX / bytes_max(stream).max(1)).clamp(least, most)
        }
    }
}

/// Who submits a part's operations.
#[derive(Clone, Copy)]
enum Driver {
    Waiting(u32),
    Closed(u32),
    Open(f64),
}

impl Driver {
    fn of(stream: &Stream) -> Self {
        match stream.arrival {
            Arrival::Closed { outstanding, .. }
                if stream.trace && stream.batch == 1 && outstanding <= WAITING_THREADS_MAX =>
            {
                Self::Waiting(outstanding)
            }
            Arrival::Closed { outstanding, .. } => Self::Closed(outstanding),
            Arrival::Open { per_second, .. } => Self::Open(per_second),
        }
    }

    fn ending(self) -> Ending {
        match self {
            Self::Closed(_) => closed::ended,
            Self::Waiting(_) | Self::Open(_) => open::ended,
        }
    }

    fn run(self, live: &Arc<Live>) {
        match self {
            Self::Waiting(threads) => waiting::run(live, threads),
            Self::Closed(outstanding) => closed::run(live, outstanding),
            Self::Open(per_second) => open::run(live, per_second),
        }
    }
}

impl Rig<'_> {
    /// The whole load.
    ///
    /// # Errors
    /// What cannot be set up, a request that failed, an interruption.
    pub fn run(
        &self,
        name: &str,
        course: &Course,
        contender: Contender,
    ) -> Result<Outcome, Failure> {
        let [warm_up, runtime] = [course.warm_up_ns, course.duration_ns].map(Duration::from_nanos);
        let streams = course.streams(self.load);
        let done = self.put_on(name, &streams, 0, contender, (warm_up, runtime))?;
        Ok(Outcome::of(self.load, course, contender, done))
    }

    /// Operations a second of a part that has the disk alone.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn alone(&self, name: &str, number: usize, stream: Stream) -> Result<f64, Failure> {
        let stream = [Stream {
            trace: false,
            ..stream
        }];
        let times = (PROBE_WARM_UP, PROBE);
        let done = self.put_on(name, &stream, number, Contender::Noop, times)?;
        let operations = done.iter().map(|one| one.operations).sum::<u64>();
        // Not even one: as slow as can be.
        Ok(operations.max(1) as f64 / PROBE.as_secs_f64())
    }

    fn put_on(
        &self,
        name: &str,
        streams: &[Stream],
        first: usize,
        contender: Contender,
        (warm_up, runtime): (Duration, Duration),
    ) -> Result<Vec<Done>, Failure> {
        self.session.stop.check()?;
        let queued_max: u64 = streams.iter().map(buffers_of).sum();
        let carrier = self.carrier(contender, u32::try_from(queued_max).unwrap_or(u32::MAX))?;
        let buffers: Vec<_> = streams.iter().map(|stream| self.buffers(stream)).collect();
        let start = Instant::now();
        let from = start + warm_up;
        let control = Arc::new(Control::new(from, from + runtime, &self.target.path));
        let parts: Vec<(Driver, Arc<Live>)> = (first as u64..)
            .zip(streams.iter().zip(buffers))
            .map(|(number, (stream, buffers))| {
                let driver = Driver::of(stream);
                let live = Live::new(
                    stream.clone(),
                    number,
                    self.load.seed,
                    carrier.file.clone(),
                    buffers,
                    (Arc::clone(&control), start),
                    driver.ending(),
                );
                (driver, live)
            })
            .collect();
        let watched = thread::scope(|scope| {
            for (driver, live) in &parts {
                let spawned = thread::Builder::new()
                    .name(live.stream.name.clone())
                    .spawn_scoped(scope, move || driver.run(live));
                if let Err(error) = spawned {
                    control.fail(no_thread(&error));
                }
            }
            let watched = self.watch(name, &control, warm_up + runtime);
            control.stop();
            watched
        });
        if let Some(failure) = control.take_failure() {
            return Err(failure);
        }
        watched?;
        Ok(parts.iter().map(|(_, live)| live.take_done()).collect())
    }

    fn carrier(&self, contender: Contender, queued_max: u32) -> Result<Carrier, Failure> {
        let options = CarrierOptions {
            backend: Backend::Auto,
            direct: true,
            writes: true,
        };
        let handed = match contender {
            // It stands for a database without priorities.
            Contender::Noop => Handed::Off,
            _ => Handed::default(),
        };
        Carrier::open(
            options,
            contender.policy(),
            handed,
            self.target,
            &self.arena,
            move |config| {
                let queued_max = queued_max.min(IN_FLIGHT_MAX);
                if contender == Contender::Noop {
                    config.in_flight_max = config.in_flight_max.max(queued_max);
                }
                contender.configure(config, queued_max);
            },
        )
    }

    fn buffers(&self, stream: &Stream) -> Vec<Prefix> {
        let bytes = bytes_max(stream) as usize;
        let mut random = Random::new(self.load.seed, u64::MAX);
        (0..buffers_of(stream))
            .map(|_| {
                let mut buffer = self
                    .arena
                    .buffer(bytes)
                    .unwrap_or_else(|_| Buffer::new(bytes));
                if stream.read_share < 1.0 {
                    random.fill(&mut buffer);
                }
                Prefix::new(buffer)
            })
            .collect()
    }

    /// Until the measured time is over.
    fn watch(&self, name: &str, control: &Control, total: Duration) -> Result<(), Failure> {
        let phase = self.session.progress.phase(name, total);
        while !control.is_stopped() {
            self.session.stop.check()?;
            let left = control.until.saturating_duration_since(Instant::now());
            phase.elapsed(total.saturating_sub(left));
            if left.is_zero() {
                break;
            }
            thread::sleep(left.min(NAP_MAX));
        }
        Ok(())
    }
}
