//! What goes wrong, and when.

use std::ops::Range;

/// Rules of one plan: more than anybody wants, few enough to look at all of
/// them for each operation.
pub const RULES_MAX: usize = 64;

/// What an operation does to a medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Makes durable.
    Sync,
}

/// When a write that did not (fully) arrive can be seen to be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Visible {
    /// By the next read.
    #[default]
    AtOnce,
    /// After [`power_cut`](super::FaultyMedium::power_cut) only: until then
    /// the disk's cache has it. A sync that succeeds before the cut heals it.
    AfterPowerCut,
}

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The read fails with `EIO`.
    EioRead,
    /// The write fails with `EIO`; nothing of it arrives.
    EioWrite,
    /// The sync fails with `EIO`; it makes nothing durable.
    EioSync,
    /// The write fails with `ENOSPC`; nothing of it arrives.
    NoSpace,
    /// The read transfers fewer bytes than asked for: whole sectors of 512
    /// where it was asked for whole sectors.
    ShortRead,
    /// The write transfers fewer bytes than asked for, and says so.
    ShortWrite,
    /// The write is acknowledged, but only some of its units arrive; the
    /// others keep the old content. Units lie on multiples of their size. A
    /// write inside one unit cannot be torn.
    Torn {
        /// 512, 4096, or another power of two between them.
        unit_bytes: u32,
        /// When that can be seen.
        visible: Visible,
    },
    /// The write is acknowledged and lands at another place of the medium,
    /// aligned like its own (4096, 512 or 1 byte).
    Misdirected,
    /// The write is acknowledged and never arrives.
    Lost {
        /// When that can be seen.
        visible: Visible,
    },
    /// One bit of what is read is wrong; the medium is right.
    FlipOnRead,
    /// One bit of the range that is read flips on the medium, before the
    /// read: it stays wrong until it is written.
    FlipAtRest,
    /// The sync is acknowledged, but never done.
    LostSync,
    /// The operation takes this much longer. A medium has no time: the caller
    /// who owns time asks [`Operation::stall_ns`](super::Operation::stall_ns).
    Stall {
        /// Extra time in nanoseconds.
        duration_ns: u64,
    },
}

impl Fault {
    /// Which operations it can hit; `None`: all.
    pub fn access(&self) -> Option<Access> {
        match self {
            Fault::EioRead | Fault::ShortRead | Fault::FlipOnRead | Fault::FlipAtRest => {
                Some(Access::Read)
            }
            Fault::EioWrite
            | Fault::NoSpace
            | Fault::ShortWrite
            | Fault::Torn { .. }
            | Fault::Misdirected
            | Fault::Lost { .. } => Some(Access::Write),
            Fault::EioSync | Fault::LostSync => Some(Access::Sync),
            Fault::Stall { .. } => None,
        }
    }

    pub(super) fn visible(&self) -> Visible {
        match self {
            Fault::Torn { visible, .. } | Fault::Lost { visible } => *visible,
            _ => Visible::AtOnce,
        }
    }
}

/// Which of the operations that a rule could hit it does hit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// Each with this probability, from 0 to 1.
    Probability(f64),
    /// The one with this number. Operations of all kinds are counted together,
    /// from 1.
    Operation(u64),
}

/// One fault and when it happens.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What happens.
    pub fault: Fault,
    /// To which operations.
    pub trigger: Trigger,
    /// Only to reads and writes that touch this range of bytes, if given.
    pub range: Option<Range<u64>>,
}

/// Faults by seed.
///
/// At most one fault hits an operation: that of the first rule that applies.
/// Stalls are an exception, they come in addition and add up.
///
/// # As text
///
/// [`FromStr`](std::str::FromStr) takes items with commas between them, and
/// `Display` gives them back:
///
/// | Item | Fault |
/// |---|---|
/// | `seed=N` | decides everything that is random; 0 if not given |
/// | `eio=WHEN`, `eio-read=`, `eio-write=`, `eio-sync=` | `EIO` on any or on one kind of operation |
/// | `enospc=WHEN` | `ENOSPC` on writes |
/// | `short=WHEN`, `short-read=`, `short-write=` | short transfers |
/// | `torn=UNIT:WHEN`, `torn=UNIT:WHEN:power-cut` | torn writes; UNIT is 512, 1k, 2k or 4k |
/// | `lost=WHEN`, `lost=WHEN:power-cut` | lost writes |
/// | `misdirected=WHEN` | misdirected writes |
/// | `flip-read=WHEN`, `flip=WHEN` | a wrong bit on read, or at rest |
/// | `lost-sync=WHEN` | syncs that do nothing |
/// | `stall=TIME:WHEN` | extra time; TIME in `ns`, `us`, `ms` or `s` |
///
/// WHEN is a probability (`1e-4`) or `#N` for the operation of that number,
/// and `@OFFSET+LENGTH` after it limits it to operations that touch these
/// bytes (`k`, `m`, `g`, `t` stand for powers of 1024).
///
/// ```
/// use iolane_disk::fault::FaultPlan;
///
/// let plan: FaultPlan = "eio=1e-4,torn=4k:1e-3,stall=50ms:#120,seed=7".parse()?;
/// assert_eq!(plan.seed, 7);
/// // On reads, writes and syncs; torn writes; a stall.
/// assert_eq!(plan.rules.len(), 5);
/// let again: FaultPlan = plan.to_string().parse()?;
/// assert_eq!(again, plan);
///
/// let error = "torn=3k:1e-3".parse::<FaultPlan>().unwrap_err();
/// assert!(error.to_string().contains("512, 1k, 2k or 4k"));
/// # Ok::<(), iolane_disk::fault::FaultPlanError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Decides everything that is random.
    pub seed: u64,
    /// Looked at in order. At most [`RULES_MAX`].
    pub rules: Vec<Rule>,
}

/// A plan that cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FaultPlanError {
    /// No `=`, or nothing before or after it.
    #[error("{item:?} is not a fault: write NAME=WHEN, as in eio=1e-4")]
    NoItem {
        /// As given.
        item: String,
    },
    /// No fault has this name.
    #[error(
        "unknown fault {name:?}: use eio, eio-read, eio-write, eio-sync, enospc, short, \
         short-read, short-write, torn, lost, misdirected, flip-read, flip, lost-sync, stall, \
         and seed"
    )]
    UnknownName {
        /// As given.
        name: String,
    },
    /// Neither a probability nor the number of an operation.
    #[error(
        "{name}: {value:?} does not say when: use a probability from 0 to 1, or #N for \
         operation N (counted from 1)"
    )]
    When {
        /// The fault.
        name: String,
        /// As given.
        value: String,
    },
    /// The range after `@` cannot be read, or is empty.
    #[error(
        "{name}: {value:?} is no range: use OFFSET+LENGTH, as in 1m+64k, with a length above 0, \
         and not for syncs"
    )]
    Range {
        /// The fault.
        name: String,
        /// As given.
        value: String,
    },
    /// Nothing can be torn into such units.
    #[error("torn: {value:?} is not a unit: use 512, 1k, 2k or 4k, as in torn=4k:1e-3")]
    Unit {
        /// As given.
        value: String,
    },
    /// A time without a unit, or none at all.
    #[error(
        "stall: {value:?} is not a time: use ns, us, ms or s, at most an hour, as in stall=50ms:1e-3"
    )]
    Time {
        /// As given.
        value: String,
    },
    /// Something follows that this fault does not have.
    #[error("{name}: {value:?} is too much: only torn and lost writes take :power-cut")]
    Extra {
        /// The fault.
        name: String,
        /// What is too much.
        value: String,
    },
    /// No number from 0 to 2^64 - 1.
    #[error("seed: {value:?} is not a number: use a whole one below 2^64")]
    Seed {
        /// As given.
        value: String,
    },
    /// More rules than a plan may have.
    #[error("{count} rules: a plan takes at most {RULES_MAX}")]
    TooMany {
        /// How many there are.
        count: usize,
    },
}
