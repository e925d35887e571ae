//! What each part does alone.

use iolane_disk::regret::{Change, Course, PartCourse};

use super::run::Rig;
use crate::bench::regret::RegretOptions;
use crate::error::Failure;

/// A load that changes has a second of its own for that, and settles after it.
const CHANGE_NS_MIN: u64 = 3_000_000_000;

/// As [`Course::of`] in virtual time; how long is said by the options.
///
/// # Errors
/// As a run's.
pub fn of(rig: &Rig<'_>, options: &RegretOptions) -> Result<Course, Failure> {
    let load = rig.load;
    let mut parts = Vec::with_capacity(load.parts.len());
    for (index, part) in load.parts.iter().enumerate() {
        let name = format!("load {}, {} alone", load.seed, part.stream.name);
        let alone = rig.alone(&name, index, part.saturated())?;
        parts.push(PartCourse {
            per_second: part.per_second(alone),
            operation_ns: 1e9 / alone,
        });
    }
    let duration_ns = match load.change {
        Change::None => options.runtime_ns,
        _ => options.runtime_ns.max(CHANGE_NS_MIN),
    };
    Ok(Course::new(load, parts, options.warm_up_ns, duration_ns))
}
