//! Measures a sweep: the engine without any scheduling of its own.

use iolane::{IoPriority, Level, Policy, WindowConfig};

use super::{SweepOptions, SweepOutcome, SweepRun};
use crate::args::choices::Operation;
use crate::bench::needed;
use crate::error::Failure;
use crate::session::Session;
use crate::target::Target;
use crate::workload::{self, Arrival, Carrier, CarrierOptions, IN_FLIGHT_MAX, Stream};

/// The [`Measure`](crate::bench::Measure) of the sweep.
///
/// # Errors
/// What cannot be set up, a request that failed, an interruption.
pub fn measure(
    options: &SweepOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<SweepOutcome, Failure> {
    let target = needed(target)?;
    let deepest = options.depths.iter().max().copied().unwrap_or(1);
    let memory_bytes = options.memory_bytes.unwrap_or(0);
    let in_turn = memory_bytes / options.block_size_bytes;
    let arena = workload::arena(&[(deepest.max(in_turn), options.block_size_bytes)])?;
    let carrier = Carrier::open(
        CarrierOptions {
            backend: options.backend,
            direct: options.io.is_direct(),
            writes: options.operation == Operation::Write,
        },
        Policy::Noop,
        IoPriority::Off,
        target,
        &arena,
        unscheduled,
    )?;
    let runs = options
        .depths
        .iter()
        .map(|&depth| {
            let stream = Stream {
                name: "sweep",
                file: carrier.file.clone(),
                level: Level::Normal,
                arrival: Arrival::Callbacks(depth),
                operation: options.operation,
                pattern: options.pattern,
                block_sizes_bytes: vec![options.block_size_bytes],
                memory_bytes,
                seed: options.course.seed,
                thread_priority: None,
            };
            let mut measured = workload::run(
                &format!("depth {depth}"),
                &[stream],
                options.course.times(),
                &arena,
                target,
                session,
                || (),
            )?;
            let load = measured.loads.remove(0);
            Ok(SweepRun::new(depth, load, measured.in_flight, measured.cpu))
        })
        .collect::<Result<_, Failure>>()?;
    Ok(SweepOutcome::new(carrier.backend(), runs))
}

/// Everything goes to the device at once and as it is: the device is to be
/// measured.
pub fn unscheduled(config: &mut iolane::Config) {
    config.window = WindowConfig::Fixed(IN_FLIGHT_MAX);
    config.in_flight_max = IN_FLIGHT_MAX;
    config.transfer_members_max = 1;
    for level in &mut config.levels {
        level.queued_max = IN_FLIGHT_MAX;
    }
}
