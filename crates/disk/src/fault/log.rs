//! What was injected, for people.

use super::plan::{Access, Visible};
use super::units;
use std::fmt;

/// Faults that a log keeps: the first ones, as later ones are often their
/// consequences.
pub const LOG_MAX: usize = 1024;

/// What happened to one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// Failed with `EIO`.
    Eio,
    /// Failed with `ENOSPC`.
    NoSpace,
    /// Ended after this many bytes.
    Short {
        /// Bytes that were transferred.
        bytes: u64,
    },
    /// Arrived in part.
    Torn {
        /// Size of a unit.
        unit_bytes: u32,
        /// Which units arrived, in order of position.
        arrived: Vec<bool>,
        /// When that can be seen.
        visible: Visible,
    },
    /// Landed elsewhere.
    Misdirected {
        /// First byte where it landed.
        to: u64,
    },
    /// Never arrived.
    Lost {
        /// When that can be seen.
        visible: Visible,
    },
    /// A bit was wrong.
    Flipped {
        /// Offset of its byte.
        offset: u64,
        /// Number of the bit, 0 the lowest.
        bit: u8,
        /// On the medium too.
        at_rest: bool,
    },
    /// Acknowledged and not done.
    LostSync,
    /// Took longer.
    Stalled {
        /// By this many nanoseconds.
        duration_ns: u64,
    },
}

/// One injected fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injected {
    /// The plan's seed.
    pub seed: u64,
    /// Which operation, counted from 1: what a rule's `#N` names.
    pub operation: u64,
    /// What it did.
    pub access: Access,
    /// Where.
    pub offset: u64,
    /// How much.
    pub length: u64,
    /// What happened to it.
    pub effect: Effect,
}

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, operation {}: ", self.seed, self.operation)?;
        match self.access {
            Access::Read => write!(f, "read of {} at {}", self.length, self.offset)?,
            Access::Write => write!(f, "write of {} at {}", self.length, self.offset)?,
            Access::Sync => write!(f, "sync")?,
        }
        let later = |visible: &Visible| match visible {
            Visible::AtOnce => "",
            Visible::AfterPowerCut => ", to be seen after a power cut that no flush precedes",
        };
        match &self.effect {
            Effect::Eio => write!(f, " failed with EIO"),
            Effect::NoSpace => write!(f, " failed with ENOSPC"),
            Effect::Short { bytes } => write!(f, " cut short to {bytes}"),
            Effect::Torn {
                unit_bytes,
                arrived,
                visible,
            } => {
                let count = arrived.iter().filter(|arrived| **arrived).count();
                if arrived[..count].iter().all(|arrived| *arrived) {
                    write!(f, " torn after {count} units of {unit_bytes}")?;
                } else {
                    write!(f, " torn into units of {unit_bytes}, of which only ")?;
                    units::list(f, arrived)?;
                    write!(f, " arrived")?;
                }
                write!(f, "{}", later(visible))
            }
            Effect::Misdirected { to } => write!(f, " misdirected to {to}"),
            Effect::Lost { visible } => write!(f, " lost{}", later(visible)),
            Effect::Flipped {
                offset,
                bit,
                at_rest,
            } => {
                let place = if *at_rest {
                    "on the medium"
                } else {
                    "on its way"
                };
                write!(f, " with bit {bit} of byte {offset} flipped {place}")
            }
            Effect::LostSync => write!(f, " acknowledged and not done"),
            Effect::Stalled { duration_ns } => write!(f, " stalled for {duration_ns} ns"),
        }
    }
}

/// The first faults, and how many there were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultLog {
    /// At most [`LOG_MAX`].
    pub first: Vec<Injected>,
    /// All, those that the log did not keep included.
    pub total: u64,
}

impl FaultLog {
    pub(super) fn push(&mut self, injected: Injected) {
        self.total += 1;
        if self.first.len() < LOG_MAX {
            self.first.push(injected);
        }
    }
}

/// One line each; a last one counts those not kept.
impl fmt::Display for FaultLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for injected in &self.first {
            writeln!(f, "{injected}")?;
        }
        match self.total - self.first.len() as u64 {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}
