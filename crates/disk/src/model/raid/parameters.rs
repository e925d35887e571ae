//! What describes a RAID-10 array, and the arrays that the documents measured.

use serde::{Deserialize, Serialize};

use super::super::rotating::RotatingParameters;
use super::cache::LINE_BYTES;
use crate::ParameterError;
use crate::model::check::ensure;

/// Disks that an array may have: more than an enclosure holds.
const DISKS_MAX: usize = 256;

/// Parameters of [`Raid10`](super::Raid10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raid10Parameters {
    /// Each of the disks.
    pub disk: RotatingParameters,
    /// How many, two to a mirrored pair.
    pub disks: usize,
    /// Bytes that lie on one pair before the next pair's begin.
    pub chunk_bytes: u64,
    /// Commands that the controller takes at once from the host.
    pub queue_max: usize,
    /// What each command costs the controller's processor, in microseconds:
    /// one after the other, so that this bounds the commands a second.
    pub command_overhead_us: f64,
    /// What each command takes besides, in microseconds, without keeping
    /// others from going on: bus, interrupt, driver.
    pub command_latency_us: f64,
    /// Rate between host and controller, in 10^6 bytes a second. One transfer
    /// at a time.
    pub link_mb_per_second: f64,
    /// Bytes of the controller's cache; 0 is an array without one, as software
    /// makes it.
    pub cache_bytes: u64,
    /// Whether a battery keeps the cache, so that a write is done, and
    /// durable, when it is in there.
    pub write_back: bool,
    /// Share of the cache, in percent, at which dirty data go to the disks
    /// though the host reads from them.
    pub dirty_high_percent: f64,
    /// Share at which that ends.
    pub dirty_low_percent: f64,
    /// How long dirty data may stay in the cache, in milliseconds, before what
    /// there is goes to the disks.
    pub flush_interval_ms: f64,
    /// Writes from the cache that each pair has outstanding.
    pub destage_depth: usize,
    /// The largest of them, in bytes, made of neighbours.
    pub destage_bytes_max: u64,
    /// How far the controller reads ahead of sequential reads, in bytes, into
    /// its cache.
    pub read_ahead_bytes: u64,
}

impl Raid10Parameters {
    /// Refuses what no array can be; the disks' own parameters are theirs to
    /// refuse.
    pub(super) fn validate(&self) -> Result<(), ParameterError> {
        ensure(
            "disks",
            self.disks,
            (2..=DISKS_MAX).contains(&self.disks) && self.disks.is_multiple_of(2),
            format!("must be an even number in 2..{DISKS_MAX}: each disk has a mirror"),
        )?;
        ensure(
            "chunk_bytes",
            self.chunk_bytes,
            (LINE_BYTES..=1 << 30).contains(&self.chunk_bytes)
                && self.chunk_bytes.is_multiple_of(LINE_BYTES)
                && self.chunk_bytes <= self.disk.capacity_bytes,
            format!("must be a multiple of {LINE_BYTES}, at most 1 GiB, and fit on a disk"),
        )?;
        ensure(
            "queue_max",
            self.queue_max,
            (1..=1 << 16).contains(&self.queue_max),
            "must lie in 1..65536",
        )?;
        for (name, value) in [
            ("command_overhead_us", self.command_overhead_us),
            ("command_latency_us", self.command_latency_us),
        ] {
            ensure(
                name,
                value,
                (0.0..=1e6).contains(&value),
                "must lie in 0..1000000",
            )?;
        }
        ensure(
            "link_mb_per_second",
            self.link_mb_per_second,
            (0.1..=1e6).contains(&self.link_mb_per_second),
            "must lie in 0.1..1000000",
        )?;
        self.validate_cache()
    }

    fn validate_cache(&self) -> Result<(), ParameterError> {
        let cached = self.cache_bytes > 0;
        ensure(
            "cache_bytes",
            self.cache_bytes,
            !cached || (LINE_BYTES * 64..=1 << 36).contains(&self.cache_bytes),
            format!("must be 0, or lie in {}..{}", LINE_BYTES * 64, 1u64 << 36),
        )?;
        ensure(
            "write_back",
            self.write_back,
            cached || !self.write_back,
            "needs a cache: set cache_bytes",
        )?;
        ensure(
            "read_ahead_bytes",
            self.read_ahead_bytes,
            self.read_ahead_bytes <= self.cache_bytes / 4,
            "must be at most a quarter of cache_bytes",
        )?;
        ensure(
            "dirty_high_percent",
            self.dirty_high_percent,
            0.0 < self.dirty_low_percent
                && self.dirty_low_percent < self.dirty_high_percent
                && self.dirty_high_percent <= 100.0,
            "must lie above dirty_low_percent, which must be above 0, and be at most 100",
        )?;
        ensure(
            "flush_interval_ms",
            self.flush_interval_ms,
            (1.0..=1e7).contains(&self.flush_interval_ms),
            "must lie in 1..10000000",
        )?;
        ensure(
            "destage_depth",
            self.destage_depth,
            (1..=1 << 10).contains(&self.destage_depth),
            "must lie in 1..1024",
        )?;
        ensure(
            "destage_bytes_max",
            self.destage_bytes_max,
            (LINE_BYTES..=1 << 28).contains(&self.destage_bytes_max),
            format!("must lie in {LINE_BYTES}..268435456"),
        )
    }

    /// Four 7200 rpm SATA disks in a RAID 10 made by software: the server of
    /// Percona's "Is there room for more MySQL IO optimization?" (2013).
    ///
    /// The document names the disks' kind and number, and that software makes
    /// the array; the rest is assumed: chunks of 512 KiB (the default of
    /// `mdadm`), a port of 300 MB/s to each disk, 5 us of processor and 20 us
    /// of latency to a command.
    pub fn percona_4x7200() -> Raid10Parameters {
        Raid10Parameters {
            disk: RotatingParameters::sata_7200(),
            disks: 4,
            chunk_bytes: 512 << 10,
            queue_max: 128,
            command_overhead_us: 5.0,
            command_latency_us: 20.0,
            link_mb_per_second: 4.0 * 300.0,
            cache_bytes: 0,
            write_back: false,
            dirty_high_percent: 80.0,
            dirty_low_percent: 50.0,
            flush_interval_ms: 4_000.0,
            destage_depth: 8,
            destage_bytes_max: 256 << 10,
            read_ahead_bytes: 0,
        }
    }

    /// Eight disks behind a controller with write-behind cache: the machine
    /// of "I/O schedulers seriously revisited".
    ///
    /// The document's own table bounds a command's time: 6850 commits a second
    /// kept the device busy for 32 % of the time, 47 us each. Assumed: that
    /// 25 us of it are the processor's (40,000 commands a second) and 20 us
    /// latency; 256 MiB of cache, chunks of 64 KiB, a PCI Express link of
    /// 1 GB/s, dirty data kept for 4 s as MegaRAID controllers do by default;
    /// disks of 10,000 rpm, of any size, as the test does not leave the cache.
    pub fn database_box_8() -> Raid10Parameters {
        Raid10Parameters {
            disk: RotatingParameters {
                write_back: false,
                ..RotatingParameters::ultrastar_36lzx_36gb()
            },
            disks: 8,
            chunk_bytes: 64 << 10,
            queue_max: 256,
            command_overhead_us: 25.0,
            command_latency_us: 20.0,
            link_mb_per_second: 1_000.0,
            cache_bytes: 256 << 20,
            write_back: true,
            dirty_high_percent: 80.0,
            dirty_low_percent: 50.0,
            flush_interval_ms: 4_000.0,
            destage_depth: 8,
            destage_bytes_max: 256 << 10,
            read_ahead_bytes: 2 << 20,
        }
    }

    /// The "HDD RAID1+0" of MySQL bug 68659.
    ///
    /// The report names neither controller nor disks. Its highest rate, 1211
    /// MiB/s of sequential reads, is what twelve 7200 rpm disks of that year
    /// give, as many as a server of two units holds; its 10,359 reads a second
    /// one at a time bound a command's time, the host's included, by 97 us.
    /// Assumed: 5 us of that for the processor and 80 us of latency, 1 GiB of
    /// cache on four SAS lanes of 6 Gb/s (2400 MB/s), chunks of 256 KiB.
    pub fn bug_68659() -> Raid10Parameters {
        Raid10Parameters {
            disk: RotatingParameters {
                write_back: false,
                ..RotatingParameters::sata_7200()
            },
            disks: 12,
            chunk_bytes: 256 << 10,
            queue_max: 256,
            command_overhead_us: 5.0,
            command_latency_us: 80.0,
            link_mb_per_second: 2_400.0,
            cache_bytes: 1 << 30,
            write_back: true,
            dirty_high_percent: 80.0,
            dirty_low_percent: 50.0,
            flush_interval_ms: 4_000.0,
            destage_depth: 8,
            destage_bytes_max: 256 << 10,
            read_ahead_bytes: 16 << 20,
        }
    }
}
