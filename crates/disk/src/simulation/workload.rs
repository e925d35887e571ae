//! What the host does, as described by the user of a simulation.

use iolane_sched::Level;
use std::ops::Range;

/// A time that is drawn anew for every use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Time {
    /// Always this many nanoseconds; 0 is none.
    Fixed(u64),
    /// Exponentially distributed, with this mean in nanoseconds.
    Exponential(f64),
}

/// Where a stream's operations lie in its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Anywhere, at multiples of the operation's own length.
    Random,
    /// One behind the other; from the beginning again at the end.
    Sequential,
    /// Each this many bytes after the beginning of the one before; from the
    /// beginning again at the end.
    Strided(u64),
    /// At random places in ascending order, on average this many to a pass
    /// over the region; from the beginning again at the end. That is how a
    /// cache is emptied that writes out what is dirty by position.
    Ascending(u32),
    /// Nine of ten in the first tenth of the region, at random in it; the others
    /// anywhere.
    Skewed,
}

/// When a stream is at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// From then on, in nanoseconds since the beginning.
    pub begins_ns: u64,
    /// Until then.
    pub ends_ns: u64,
    /// In between, for so long at a time.
    pub on_ns: u64,
    /// With such pauses; 0 for none. What is outstanding ends all the same.
    pub off_ns: u64,
}

impl Activity {
    /// From the beginning to the end.
    pub const ALWAYS: Activity = Activity {
        begins_ns: 0,
        ends_ns: u64::MAX,
        on_ns: u64::MAX,
        off_ns: 0,
    };

    /// Whether the stream is at work.
    pub fn is_on(&self, now_ns: u64) -> bool {
        self.next_on_ns(now_ns) == Some(now_ns)
    }

    /// The first moment from `now_ns` on at which it is.
    pub fn next_on_ns(&self, now_ns: u64) -> Option<u64> {
        let mut at_ns = now_ns.max(self.begins_ns);
        if self.off_ns > 0 {
            let period_ns = self.on_ns.saturating_add(self.off_ns);
            let within_ns = (at_ns - self.begins_ns) % period_ns;
            if within_ns >= self.on_ns {
                at_ns = at_ns.saturating_add(period_ns - within_ns);
            }
        }
        (at_ns < self.ends_ns).then_some(at_ns)
    }

    /// When it has been at work for so long.
    pub fn after_ns(&self, worked_ns: u64) -> Option<u64> {
        let pauses_ns = match self.off_ns {
            0 => 0,
            off_ns => (worked_ns / self.on_ns).saturating_mul(off_ns),
        };
        let at_ns = self.begins_ns.saturating_add(worked_ns);
        let at_ns = at_ns.saturating_add(pauses_ns);
        (at_ns < self.ends_ns).then_some(at_ns)
    }
}

/// When a stream's operations come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// A new one for each that has ended.
    Closed {
        /// So many are outstanding, blocked ones included; a multiple of
        /// [`Stream::batch`].
        outstanding: u32,
        /// Between the end of a batch and the submission of the next.
        think: Time,
    },
    /// Whether others have ended or not.
    Open {
        /// Operations per second.
        per_second: f64,
        /// Poisson process; else at equal intervals.
        poisson: bool,
        /// What would be outstanding beyond this is refused and counted.
        outstanding_max: u32,
    },
}

/// One length in a mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Length of the operation, a multiple of the disk's block.
    pub bytes: u32,
    /// Its share, relative to the others'.
    pub weight: f64,
}

/// Reads and writes of one kind by one process. An operation that is longer
/// than the elevator takes goes as several requests, and has ended when all
/// have.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// What the report calls it.
    pub name: String,
    /// When operations come.
    pub arrival: Arrival,
    /// Operations that are submitted in one call: when as many have ended (or
    /// arrived), so many are submitted at once, and the elevator sees them all
    /// before it decides. With [`Arrival::Closed`] and `outstanding` equal to
    /// this, that is a program which waits for a whole batch.
    pub batch: u32,
    /// Share of reads, 0 to 1; the others are writes.
    pub read_share: f64,
    /// Where they lie.
    pub pattern: Pattern,
    /// Bytes of the disk in which they lie; an empty range is the whole disk.
    pub region: Range<u64>,
    /// How long they are.
    pub sizes: Vec<Size>,
    /// Writes must be durable when they end.
    pub durable: bool,
    /// A flush follows each so many of its writes when the last of them has
    /// ended, and counts as an operation; 0 for none. In a closed loop the
    /// flush comes before the next operation.
    pub flush_every: u32,
    /// When it is at work.
    pub activity: Activity,
    /// Whether the report has every operation's end and latency.
    pub trace: bool,
    /// Number of the submitting thread. Streams with the same number share it:
    /// when one is blocked because the elevator takes no more, so are the
    /// others, and they share its processor.
    pub process: u32,
    /// Somebody waits for its operations. Linux's schedulers take reads and
    /// direct writes for such, and buffered writes not.
    pub sync: bool,
    /// How urgent they are.
    pub level: Level,
}

impl Default for Stream {
    /// Random reads of 4 KiB over the whole disk, one at a time.
    fn default() -> Stream {
        Stream {
            name: String::from("stream"),
            arrival: Arrival::Closed {
                outstanding: 1,
                think: Time::Fixed(0),
            },
            batch: 1,
            read_share: 1.0,
            pattern: Pattern::Random,
            region: 0..0,
            sizes: Stream::sizes_of(4096),
            durable: false,
            flush_every: 0,
            activity: Activity::ALWAYS,
            trace: false,
            process: 0,
            sync: true,
            level: Level::Normal,
        }
    }
}

impl Stream {
    /// All operations of one length.
    pub fn sizes_of(bytes: u32) -> Vec<Size> {
        vec![Size { bytes, weight: 1.0 }]
    }
}

/// What a transaction's commit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Nothing: the log is written some time later by somebody else (InnoDB's
    /// `flush_log_at_commit` 0).
    Never,
    /// One after the other, each writes its own log records.
    Each,
    /// Who comes while a log write is under way waits for it, and then one
    /// writes the records of all who waited (group commit without a timer).
    Group,
}

/// Threads that each do one transaction after the other: dependent reads, CPU
/// time, then a write to a log that all share, and a flush.
#[derive(Clone, Debug, PartialEq)]
pub struct Transactions {
    /// What the report calls them.
    pub name: String,
    /// How many threads; each is a process of its own.
    pub threads: u32,
    /// Number of the first thread's process; the others follow.
    pub process_first: u32,
    /// CPU time of a transaction that threads spend in parallel, each on its
    /// own processor.
    pub cpu: Time,
    /// CPU time of a transaction under one lock that all threads share, in
    /// nanoseconds.
    pub serial_ns: u64,
    /// Reads of a transaction, one after the other.
    pub reads: u32,
    /// Their length in bytes.
    pub read_bytes: u32,
    /// Bytes of the disk in which they lie, at random; an empty range is the
    /// whole disk.
    pub data: Range<u64>,
    /// What a commit does.
    pub commit: Commit,
    /// Bytes of the disk that hold the log, which is written round and round.
    pub log: Range<u64>,
    /// A second place, to which every other log write goes: a binary log, a
    /// file system's journal. An empty range: there is none.
    pub second_log: Range<u64>,
    /// Log records of a transaction, in bytes.
    pub log_bytes: u32,
    /// The log is written in blocks of this size; the last one, not full yet,
    /// is written again by the next commit.
    pub log_block_bytes: u32,
    /// Whether a flush follows the log write.
    pub flush: bool,
    /// CPU time under the lock to wake each thread whose records another one
    /// wrote, in nanoseconds.
    pub wake_ns: u64,
    /// How urgent the reads are.
    pub read_level: Level,
    /// How urgent the log write and its flush are.
    pub log_level: Level,
}

impl Default for Transactions {
    /// One thread, 50 us of CPU time, 512 bytes of log at the disk's beginning,
    /// committed together where threads meet, and flushed.
    fn default() -> Transactions {
        Transactions {
            name: String::from("transactions"),
            threads: 1,
            process_first: 0,
            cpu: Time::Fixed(50_000),
            serial_ns: 0,
            reads: 0,
            read_bytes: 16 << 10,
            data: 0..0,
            commit: Commit::Group,
            log: 0..64 << 20,
            second_log: 0..0,
            log_bytes: 512,
            log_block_bytes: 512,
            flush: true,
            wake_ns: 0,
            read_level: Level::Foreground,
            log_level: Level::Critical,
        }
    }
}

/// What submission costs a processor. Each process has one of its own, and
/// does one call after the other on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Nanoseconds for each call, whatever the number of operations in it.
    pub call_ns: u64,
    /// Nanoseconds for each operation, submission and completion together.
    pub operation_ns: u64,
}
