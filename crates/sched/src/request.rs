//! The vocabulary: level, kind, request.

use std::fmt;

/// How urgent a request is. Five levels, as in Hall and Bonnet (2005),
/// section 4.1; `Critical` is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// 0: a commit waits for it (log write, log sync).
    Critical = 0,
    /// 1: a query waits for it (physical read, write of a stolen page).
    Foreground = 1,
    /// 2: nobody said (unclassified).
    Normal = 2,
    /// 3: work ahead of need (read-ahead, preflush).
    Prefetch = 3,
    /// 4: nobody waits (checkpoint without pressure, backup, scrub).
    Background = 4,
}

impl Level {
    /// How many levels there are.
    pub const COUNT: usize = 5;
    /// All levels, the most urgent first.
    pub const ALL: [Level; Level::COUNT] = [
        Level::Critical,
        Level::Foreground,
        Level::Normal,
        Level::Prefetch,
        Level::Background,
    ];

    /// 0 (most urgent) to 4.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The level with this number, or `None` above 4.
    pub fn from_index(index: usize) -> Option<Level> {
        Level::ALL.get(index).copied()
    }

    /// Lower-case name, as used in options and statistics.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Critical => "critical",
            Level::Foreground => "foreground",
            Level::Normal => "normal",
            Level::Prefetch => "prefetch",
            Level::Background => "background",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which way the data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Direction {
    /// From the device.
    Read = 0,
    /// To the device.
    Write = 1,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Read `length` bytes at `offset`.
    Read,
    /// Write `length` bytes at `offset`.
    Write,
    /// Make earlier *completed* writes to the file durable. Has no range, is
    /// never merged and never waits for other requests of its file, as
    /// `fsync(2)` promises no more.
    Sync,
}

impl Kind {
    /// Whose budget it takes from: a sync is a write without data.
    pub(crate) fn takes_from(self) -> Direction {
        match self {
            Kind::Read => Direction::Read,
            Kind::Write | Kind::Sync => Direction::Write,
        }
    }
}

/// What has to wait, whatever room there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub reads: bool,
    /// And syncs.
    pub writes: bool,
}

impl Held {
    pub(crate) const ALL: Held = Held {
        reads: true,
        writes: true,
    };

    /// Of requests of `level`, if this holds for the lower ones.
    pub(crate) fn at(self, level: Level) -> Held {
        match level > Level::Foreground {
            true => self,
            false => Held::default(),
        }
    }

    pub(crate) fn holds(self, kind: Kind) -> bool {
        match kind.takes_from() {
            Direction::Read => self.reads,
            Direction::Write => self.writes,
        }
    }
}

/// One read, write or sync on one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub kind: Kind,
    /// Which file, as numbered by the caller. Requests of different files
    /// never overlap and are never merged.
    pub file: u32,
    /// First byte. Position order is by (`file`, `offset`).
    pub offset: u64,
    /// Bytes; 0 for a sync.
    pub length: u32,
    /// How urgent it is.
    pub level: Level,
    /// A write that is on stable storage when it completes (`O_DSYNC`,
    /// `RWF_DSYNC`, FUA). No matter for reads and syncs.
    pub durable: bool,
}

/// How a request is to be carried out, beside what it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// It shares no transfer with others: one that the device promises to do as a
    /// whole.
    pub alone: bool,
    /// Its own deadline: how long after it came it should go to the device at the
    /// latest. `None`, or more than the offset of its level: the level's holds.
    /// Within the level it goes before those with later deadlines.
    pub within_ns: Option<u64>,
}

impl Request {
    /// Whether what it waits for is stable storage: behind a drive's volatile
    /// cache, that may take as long as what the cache holds of other writes.
    pub const fn makes_durable(&self) -> bool {
        match self.kind {
            Kind::Read => false,
            Kind::Write => self.durable,
            Kind::Sync => true,
        }
    }
}

/// Names an outstanding request of one scheduler. Reused only with another
/// generation, so a stale id is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl RequestId {
    /// A small dense number, unique among the outstanding requests: an index
    /// for the caller's own table beside the scheduler's.
    pub const fn slot(self) -> usize {
        self.slot as usize
    }
}
