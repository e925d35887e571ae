//! Whether a workload makes sense on a disk.

use super::workload::{Arrival, Commit, Pattern, Stream, Time, Transactions};
use crate::model::{Model, ParameterError};
use std::ops::Range;

/// Bounds the memory of a simulation.
const OUTSTANDING_MAX: u32 = 1 << 20;

fn demand(
    holds: bool,
    owner: &str,
    parameter: &str,
    value: impl ToString,
    requirement: &str,
) -> Result<(), ParameterError> {
    if holds {
        return Ok(());
    }
    let parameter = format!("{parameter} of '{owner}'");
    Err(ParameterError::new(parameter, value, requirement))
}

/// The range itself, or the whole disk for an empty one.
pub fn region(
    owner: &str,
    parameter: &str,
    range: &Range<u64>,
    model: &impl Model,
) -> Result<Range<u64>, ParameterError> {
    let capacity = model.capacity_bytes();
    let block = u64::from(model.block_bytes());
    if range.is_empty() {
        return Ok(0..capacity - capacity % block);
    }
    demand(
        range.end <= capacity
            && range.start.is_multiple_of(block)
            && range.end.is_multiple_of(block),
        owner,
        parameter,
        format!("{}..{}", range.start, range.end),
        &format!("must lie within the disk's {capacity} bytes, in blocks of {block} bytes"),
    )?;
    Ok(range.clone())
}

fn length(
    owner: &str,
    parameter: &str,
    bytes: u32,
    region: &Range<u64>,
    model: &impl Model,
) -> Result<(), ParameterError> {
    let block = model.block_bytes();
    let fits =
        bytes > 0 && bytes.is_multiple_of(block) && u64::from(bytes) <= region.end - region.start;
    demand(
        fits,
        owner,
        parameter,
        bytes,
        &format!("must be a multiple of the disk's block of {block} bytes and fit the region"),
    )
}

fn time(owner: &str, parameter: &str, time: Time) -> Result<(), ParameterError> {
    let Time::Exponential(mean_ns) = time else {
        return Ok(());
    };
    let sound = mean_ns.is_finite() && mean_ns >= 0.0;
    demand(sound, owner, parameter, mean_ns, "must be 0 or more")
}

pub fn stream(stream: &Stream, model: &impl Model) -> Result<(), ParameterError> {
    let owner = stream.name.as_str();
    let region = region(owner, "region", &stream.region, model)?;
    demand(
        !stream.sizes.is_empty(),
        owner,
        "sizes",
        "empty",
        "needs at least one length",
    )?;
    for size in &stream.sizes {
        length(owner, "sizes", size.bytes, &region, model)?;
        let sound = size.weight.is_finite() && size.weight > 0.0;
        demand(sound, owner, "weight", size.weight, "must be above 0")?;
    }
    demand(
        (0.0..=1.0).contains(&stream.read_share),
        owner,
        "read_share",
        stream.read_share,
        "must be 0 to 1",
    )?;
    if let Pattern::Strided(stride) = stream.pattern {
        let block = u64::from(model.block_bytes());
        let sound = stride > 0 && stride.is_multiple_of(block);
        demand(
            sound,
            owner,
            "stride",
            stride,
            "must be a multiple of the disk's block above 0",
        )?;
    }
    if let Pattern::Ascending(per_pass) = stream.pattern {
        demand(
            per_pass > 0,
            owner,
            "requests per pass",
            per_pass,
            "must be above 0",
        )?;
    }
    demand(
        stream.activity.on_ns > 0,
        owner,
        "on_ns",
        0,
        "must be above 0",
    )?;
    demand(
        (1..=OUTSTANDING_MAX).contains(&stream.batch),
        owner,
        "batch",
        stream.batch,
        "must be 1 to 1048576",
    )?;
    match stream.arrival {
        Arrival::Closed { outstanding, think } => {
            time(owner, "think", think)?;
            demand(
                (1..=OUTSTANDING_MAX).contains(&outstanding)
                    && outstanding.is_multiple_of(stream.batch),
                owner,
                "outstanding",
                outstanding,
                "must be 1 to 1048576, and a multiple of the batch",
            )
        }
        Arrival::Open {
            per_second,
            outstanding_max,
            ..
        } => {
            let sound = per_second.is_finite() && per_second > 0.0 && per_second <= 1e9;
            demand(
                sound,
                owner,
                "per_second",
                per_second,
                "must be above 0, up to 1e9",
            )?;
            demand(
                (stream.batch..=OUTSTANDING_MAX).contains(&outstanding_max),
                owner,
                "outstanding_max",
                outstanding_max,
                "must be at least the batch, up to 1048576",
            )
        }
    }
}

pub fn transactions(work: &Transactions, model: &impl Model) -> Result<(), ParameterError> {
    let owner = work.name.as_str();
    time(owner, "cpu", work.cpu)?;
    demand(
        (1..=OUTSTANDING_MAX).contains(&work.threads),
        owner,
        "threads",
        work.threads,
        "must be 1 to 1048576",
    )?;
    demand(
        work.process_first.checked_add(work.threads).is_some(),
        owner,
        "process_first",
        work.process_first,
        "must leave a number for each thread",
    )?;
    if work.reads > 0 {
        let data = region(owner, "data", &work.data, model)?;
        length(owner, "read_bytes", work.read_bytes, &data, model)?;
    }
    if work.commit == Commit::Never {
        let takes_time = match work.cpu {
            Time::Fixed(ns) => ns > 0,
            Time::Exponential(mean_ns) => mean_ns > 0.0,
        };
        return demand(
            takes_time || work.serial_ns > 0 || work.reads > 0,
            owner,
            "cpu",
            0,
            "must be above 0 for transactions that do nothing else",
        );
    }
    demand(work.log_bytes > 0, owner, "log_bytes", 0, "must be above 0")?;
    log(owner, "log", &work.log, work, model)?;
    if work.second_log.is_empty() {
        return Ok(());
    }
    log(owner, "second_log", &work.second_log, work, model)
}

/// A place that transactions write their log to.
fn log<M: Model>(
    owner: &str,
    name: &str,
    range: &Range<u64>,
    work: &Transactions,
    model: &M,
) -> Result<(), ParameterError> {
    let log = region(owner, name, range, model)?;
    length(owner, "log_block_bytes", work.log_block_bytes, &log, model)?;
    let group_max =
        u64::from(work.log_bytes) * u64::from(work.threads) + 2 * u64::from(work.log_block_bytes);
    demand(
        group_max <= (log.end - log.start).min(1 << 30),
        owner,
        name,
        log.end - log.start,
        "must have room for a commit of all threads together, at most 1 GiB",
    )
}
