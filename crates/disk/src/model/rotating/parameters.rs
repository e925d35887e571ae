//! What describes a rotating disk.

use serde::{Deserialize, Serialize};

use crate::ParameterError;
use crate::model::check::ensure;

/// Bytes of a sector, the unit in which the platters are mapped.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Tagged queues end here: what SCSI and SATA disks offer is far below, and
/// the choice of the next command looks at all of them.
const QUEUE_MAX: usize = 256;

/// Segments that a buffer may have: each is looked at for each read.
const SEGMENTS_MAX: u32 = 256;

/// Neighbouring cylinders with equally many sectors on every track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Cylinders of the zone.
    pub cylinders: u32,
    /// Sectors of 512 bytes on each of its tracks.
    pub sectors_per_track: u32,
}

/// Parameters of [`Rotating`](super::Rotating), all of which a data sheet
/// states or a measurement of the bare drive gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotatingParameters {
    /// Bytes that the disk holds; what the zones have beyond is spare.
    pub capacity_bytes: u64,
    /// Turns of the spindle in a minute.
    pub revolutions_per_minute: u32,
    /// How far the spindle is turned at time 0, in turns. Matters only
    /// between disks, which are not synchronised.
    #[serde(default)]
    pub spindle_phase_turns: f64,
    /// Surfaces with data, each with its head.
    pub heads: u32,
    /// The zones, from the outermost inwards.
    pub zones: Vec<Zone>,
    /// Seek to the next cylinder for a read, in milliseconds, settled.
    pub seek_track_ms: f64,
    /// Seek for a read, averaged over all pairs of cylinders, in
    /// milliseconds, settled.
    pub seek_average_ms: f64,
    /// Seek for a read over all cylinders, in milliseconds, settled.
    pub seek_full_ms: f64,
    /// What a write's seek takes longer, because the head must be quieter
    /// before it may write, in milliseconds.
    pub write_settle_ms: f64,
    /// From the last sector of a track to the first of the same cylinder's
    /// next, in milliseconds: the tracks are skewed by it.
    pub head_switch_ms: f64,
    /// The same to the next cylinder, in milliseconds. At least a seek to the
    /// next track with the settling of a write.
    pub cylinder_switch_ms: f64,
    /// From a command's arrival to the first motion for it, in microseconds.
    /// A busy disk prepares the next command meanwhile.
    pub command_overhead_us: f64,
    /// From a command's arrival to its first byte when the buffer serves it,
    /// in microseconds.
    pub hit_overhead_us: f64,
    /// Rate between buffer and host, in 10^6 bytes a second. One transfer at
    /// a time.
    pub interface_mb_per_second: f64,
    /// Bytes of the buffer, shared by what is read ahead and what is written.
    pub buffer_bytes: u64,
    /// Into how many segments of equal size the buffer is divided. One
    /// segment holds one contiguous range.
    pub segments: u32,
    /// How many of the segments may hold writes that are not on the medium
    /// yet. Without [`write_back`](Self::write_back) they are not used.
    pub write_segments: u32,
    /// Whether the disk goes on reading behind a read while nothing else is
    /// to be done, as far as its segment goes.
    pub read_ahead: bool,
    /// Whether a write is done when it is in the buffer.
    pub write_back: bool,
    /// Commands that the disk takes at once.
    pub queue_max: usize,
    /// By how much earlier the head must be on a track than a sector, for the
    /// drive to count on that sector when it orders its queue, in
    /// microseconds: how badly it foresees the duration of a seek.
    pub arrival_margin_us: f64,
    /// A command that has waited so long goes next, in milliseconds. Until
    /// then the one goes that the head reaches first.
    pub age_max_ms: f64,
}

impl RotatingParameters {
    /// Refuses what no disk can be.
    pub(super) fn validate(&self) -> Result<(), ParameterError> {
        self.validate_platters()?;
        self.validate_times()?;
        self.validate_buffer()
    }

    /// Sectors that the zones hold.
    fn zone_sectors(&self) -> u64 {
        self.zones
            .iter()
            .map(|zone| {
                u64::from(zone.cylinders)
                    * u64::from(zone.sectors_per_track)
                    * u64::from(self.heads)
            })
            .sum()
    }

    /// Cylinders of all zones.
    pub(super) fn cylinders(&self) -> u32 {
        self.zones.iter().map(|zone| zone.cylinders).sum()
    }

    fn validate_platters(&self) -> Result<(), ParameterError> {
        ensure(
            "revolutions_per_minute",
            self.revolutions_per_minute,
            (1_000..=100_000).contains(&self.revolutions_per_minute),
            "must lie in 1000..100000",
        )?;
        ensure(
            "heads",
            self.heads,
            (1..=64).contains(&self.heads),
            "must lie in 1..64",
        )?;
        ensure(
            "spindle_phase_turns",
            self.spindle_phase_turns,
            (0.0..1.0).contains(&self.spindle_phase_turns),
            "must be at least 0 and below 1",
        )?;
        let sane = |zone: &Zone| {
            (1..=1 << 20).contains(&zone.cylinders)
                && (1..=1 << 16).contains(&zone.sectors_per_track)
        };
        ensure(
            "zones",
            format!("{:?}", self.zones),
            (1..=1024).contains(&self.zones.len()) && self.zones.iter().all(sane),
            "must be 1..1024 zones, each of 1..1048576 cylinders with 1..65536 sectors per track",
        )?;
        let zones_bytes = self.zone_sectors() * SECTOR_BYTES;
        ensure(
            "capacity_bytes",
            self.capacity_bytes,
            self.capacity_bytes > 0
                && self.capacity_bytes.is_multiple_of(SECTOR_BYTES)
                && self.capacity_bytes <= zones_bytes,
            format!("must be a multiple of 512, and at most the {zones_bytes} bytes of the zones"),
        )
    }

    fn validate_times(&self) -> Result<(), ParameterError> {
        ensure(
            "seek_track_ms",
            self.seek_track_ms,
            self.seek_track_ms > 0.0,
            "must be above 0",
        )?;
        let seeks_rise = self.seek_track_ms < self.seek_average_ms
            && self.seek_average_ms < self.seek_full_ms
            && self.seek_full_ms <= 1_000.0;
        ensure(
            "seek_average_ms",
            self.seek_average_ms,
            seeks_rise,
            "must lie between seek_track_ms and seek_full_ms, at most 1000",
        )?;
        for (name, value) in [
            ("write_settle_ms", self.write_settle_ms),
            ("head_switch_ms", self.head_switch_ms),
            ("cylinder_switch_ms", self.cylinder_switch_ms),
        ] {
            ensure(
                name,
                value,
                (0.0..=100.0).contains(&value),
                "must lie in 0..100",
            )?;
        }
        // Otherwise sequential writes would lose a turn at each cylinder.
        ensure(
            "cylinder_switch_ms",
            self.cylinder_switch_ms,
            self.cylinder_switch_ms >= self.seek_track_ms + self.write_settle_ms - 1e-9,
            "must be at least seek_track_ms and write_settle_ms together",
        )?;
        for (name, value) in [
            ("command_overhead_us", self.command_overhead_us),
            ("hit_overhead_us", self.hit_overhead_us),
            ("arrival_margin_us", self.arrival_margin_us),
        ] {
            ensure(
                name,
                value,
                (0.0..=1e6).contains(&value),
                "must lie in 0..1000000",
            )?;
        }
        ensure(
            "interface_mb_per_second",
            self.interface_mb_per_second,
            (0.1..=1e6).contains(&self.interface_mb_per_second),
            "must lie in 0.1..1000000",
        )?;
        ensure(
            "age_max_ms",
            self.age_max_ms,
            (0.0..=1e6).contains(&self.age_max_ms),
            "must lie in 0..1000000; 0 makes the queue first come, first served",
        )
    }

    fn validate_buffer(&self) -> Result<(), ParameterError> {
        ensure(
            "queue_max",
            self.queue_max,
            (1..=QUEUE_MAX).contains(&self.queue_max),
            format!("must lie in 1..{QUEUE_MAX}"),
        )?;
        ensure(
            "segments",
            self.segments,
            (1..=SEGMENTS_MAX).contains(&self.segments),
            format!("must lie in 1..{SEGMENTS_MAX}"),
        )?;
        ensure(
            "buffer_bytes",
            self.buffer_bytes,
            self.buffer_bytes / u64::from(self.segments) >= SECTOR_BYTES
                && self.buffer_bytes <= 1 << 40,
            "must be at least 512 for each segment, and at most 1 TiB",
        )?;
        ensure(
            "write_segments",
            self.write_segments,
            self.write_segments < self.segments && (!self.write_back || self.write_segments > 0),
            "must leave one of the segments to reads, and be at least 1 with write_back",
        )
    }
}
