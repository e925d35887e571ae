//! What can be set, with defaults and limits.

use crate::objective::Objective;
use crate::request::Level;
use std::fmt;
use std::str::FromStr;

/// Which rule picks the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// First in, first out, whatever the level; neighbours are merged. What a
    /// database gets from the kernel's `none`.
    Noop,
    /// The deadline scheduler of Linux 2.6 (`block/deadline-iosched.c`): reads
    /// before writes, position order in batches of 16, a request whose
    /// deadline has passed first. Levels are ignored.
    Deadline,
    /// Hall and Bonnet (2005), section 4.1: one FIFO per level with a deadline
    /// by level, expired first, otherwise position order.
    PrioDeadline,
    /// The default. The highest level with room goes first; lower levels share
    /// a learned window, and each keeps a minimum so that none starves.
    Lanes,
}

impl Policy {
    /// All policies, in the order in which comparisons list them.
    pub const ALL: [Policy; 4] = [
        Policy::Noop,
        Policy::Deadline,
        Policy::PrioDeadline,
        Policy::Lanes,
    ];

    /// Name as used in options and statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Policy::Noop => "noop",
            Policy::Deadline => "deadline",
            Policy::PrioDeadline => "prio-deadline",
            Policy::Lanes => "lanes",
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Policy {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Policy, ConfigError> {
        Policy::ALL
            .into_iter()
            .find(|policy| policy.name() == name)
            .ok_or_else(|| ConfigError::UnknownPolicy(name.to_owned()))
    }
}

/// How far after its submission a request should go to the device at the
/// latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// This many nanoseconds.
    Fixed(u64),
    /// This many times the device's measured service time (the shortest
    /// latency of a request alone; 10 ms until one was measured).
    ServiceTimes(u32),
}

/// The settings of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelConfig {
    /// Time offset of the level's deadlines. Ignored by `noop` and `deadline`.
    pub deadline: Deadline,
    /// Allocation group: most requests that may be queued of those that came
    /// with this level. A promoted request stays in the group it came with.
    pub queued_max: u32,
    /// With `lanes`: while requests of this level are queued, at least this
    /// many transfers are in flight, whatever the window says and the levels
    /// above do; as soon as places come free, as far as `in_flight_max`
    /// suffices for all levels, unless a learned window keeps the device for what
    /// somebody waits for, and after the older requests of `Critical` and `Foreground`
    /// that are queued. 0 lets it starve until its deadline passes; then one may be in
    /// flight.
    pub min_active: u32,
}

/// How much may be in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowConfig {
    /// This many transfers. With `lanes`, `Critical` and `Foreground` are not
    /// bound by it but only by [`Config::in_flight_max`], and each level may
    /// have its [`LevelConfig::min_active`] beyond it.
    Fixed(u32),
    /// Learned by experiments while running: what is next to what is in force is tried, and
    /// kept if that is better by [`Config::objective`]. It finds not only how many transfers
    /// of the lower levels may be in flight, but also a volume's rate, how much they may
    /// write between two flushes, whether position order pays, and whether the device is to
    /// be the foreground's alone. Nothing is presumed of the device. Only for
    /// [`Policy::Lanes`].
    Learned,
}

/// The settings of a [`Scheduler`](crate::Scheduler).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Which rule picks the next request.
    pub policy: Policy,
    /// Per level, `Critical` first.
    pub levels: [LevelConfig; Level::COUNT],
    /// How much may be in flight.
    pub window: WindowConfig,
    /// What [`WindowConfig::Learned`] is to reach; a fixed window does not read it.
    pub objective: Objective,
    /// Most transfers in flight, whatever the window says (1 to 65,536): what
    /// the backend can hold.
    pub in_flight_max: u32,
    /// Longest merged transfer in bytes. A single longer request goes as it is.
    pub transfer_bytes_max: u32,
    /// Most requests in one merged transfer (1 turns merging off). At most
    /// 1024, the kernel's `IOV_MAX`; 512 if gaps are read through, as each
    /// needs a buffer too.
    pub transfer_members_max: u32,
    /// Reads that lie at most this many bytes apart are merged, and what lies
    /// between is read and thrown away. 0 merges only neighbours that touch.
    pub merge_gap_bytes_max: u32,
    /// The device has a head that moves: inside a level, `lanes` with a fixed window goes by
    /// position instead of by arrival. A learned window finds out which is better.
    pub rotational: bool,
    /// With `deadline`: deadline of reads. Paper section 2.1: 1 s.
    pub deadline_read_ns: u64,
    /// With `deadline`: deadline of writes. Paper section 2.1: 5 s.
    pub deadline_write_ns: u64,
}

const MS: u64 = 1_000_000;

/// The paper gives 0.25 s for the highest and 12 s for the lowest level
/// (section 4.1); the three between are spaced by equal factors (48^(1/4)).
pub const PAPER_DEADLINES_NS: [u64; Level::COUNT] =
    [250 * MS, 658 * MS, 1732 * MS, 4559 * MS, 12_000 * MS];

/// The same offsets in service times of the paper's disk (about 8 ms for a
/// random 16 KiB request, figure 3), so that they carry over to other devices.
pub const PAPER_DEADLINES_SERVICE_TIMES: [u32; Level::COUNT] = [31, 82, 216, 570, 1500];

impl Config {
    /// The defaults of a policy.
    pub fn new(policy: Policy) -> Config {
        let level = |index: usize| LevelConfig {
            deadline: match policy {
                Policy::Lanes => Deadline::ServiceTimes(PAPER_DEADLINES_SERVICE_TIMES[index]),
                _ => Deadline::Fixed(PAPER_DEADLINES_NS[index]),
            },
            queued_max: 4096,
            min_active: 1,
        };
        Config {
            policy,
            levels: [level(0), level(1), level(2), level(3), level(4)],
            window: match policy {
                Policy::Noop => WindowConfig::Fixed(1024),
                // The paper's drive takes 32 tagged requests (figure 2).
                Policy::Deadline | Policy::PrioDeadline => WindowConfig::Fixed(32),
                Policy::Lanes => WindowConfig::Learned,
            },
            objective: Objective::default(),
            in_flight_max: 1024,
            transfer_bytes_max: 1 << 20,
            transfer_members_max: 128,
            merge_gap_bytes_max: 0,
            rotational: false,
            deadline_read_ns: 1_000 * MS,
            deadline_write_ns: 5_000 * MS,
        }
    }

    /// Checks every limit.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let bounded = |name, value: u32, min, max| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::OutOfRange {
                    name,
                    value: u64::from(value),
                    min: u64::from(min),
                    max: u64::from(max),
                })
            }
        };
        bounded("in_flight_max", self.in_flight_max, 1, 65_536)?;
        let members_max = match self.merge_gap_bytes_max {
            0 => 1024,
            _ => 512,
        };
        let members = self.transfer_members_max;
        bounded("transfer_members_max", members, 1, members_max)?;
        bounded("transfer_bytes_max", self.transfer_bytes_max, 512, 1 << 30)?;
        bounded("merge_gap_bytes_max", self.merge_gap_bytes_max, 0, 1 << 20)?;
        if let WindowConfig::Fixed(window) = self.window {
            bounded("window", window, 1, 65_536)?;
        } else if self.policy != Policy::Lanes {
            return Err(ConfigError::LearnedWindow(self.policy));
        }
        if !self.objective.is_valid() {
            return Err(ConfigError::Objective(self.objective));
        }
        for level in &self.levels {
            bounded("queued_max", level.queued_max, 1, 1 << 20)?;
            bounded("min_active", level.min_active, 0, 1024)?;
        }
        Ok(())
    }
}

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number outside of its limits.
    #[error("{name} is {value}; it must be {min} to {max}")]
    OutOfRange {
        /// Which setting.
        name: &'static str,
        /// What was given.
        value: u64,
        /// Least allowed.
        min: u64,
        /// Most allowed.
        max: u64,
    },
    /// Only `lanes` learns.
    #[error("policy {0} has no learned window; give a fixed one, or use policy lanes")]
    LearnedWindow(Policy),
    /// An elasticity above 10, a slowdown below 1 or above 1000, a latency below 1 us or
    /// above 100 s.
    #[error(
        "the objective {0} is out of range; elasticity is 0 to 10, slowdown 1 to 1000, latency 1us to 100s"
    )]
    Objective(Objective),
    /// No policy of that name.
    #[error("there is no policy '{0}'; use noop, deadline, prio-deadline or lanes")]
    UnknownPolicy(String),
}
