//! What describes a rotating disk, and the disks that are known by name.

use serde::{Deserialize, Serialize};

use crate::ParameterError;

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
        check(
            "revolutions_per_minute",
            self.revolutions_per_minute,
            (1_000..=100_000).contains(&self.revolutions_per_minute),
            "must lie in 1000..100000",
        )?;
        check("heads", self.heads, (1..=64).contains(&self.heads), "must lie in 1..64")?;
        check(
            "spindle_phase_turns",
            self.spindle_phase_turns,
            (0.0..1.0).contains(&self.spindle_phase_turns),
            "must be at least 0 and below 1",
        )?;
        let sane = |zone: &Zone| {
            (1..=1 << 20).contains(&zone.cylinders)
                && (1..=1 << 16).contains(&zone.sectors_per_track)
        };
        check(
            "zones",
            format!("{:?}", self.zones),
            (1..=1024).contains(&self.zones.len()) && self.zones.iter().all(sane),
            "must be 1..1024 zones, each of 1..1048576 cylinders with 1..65536 sectors per track",
        )?;
        let zones_bytes = self.zone_sectors() * SECTOR_BYTES;
        check(
            "capacity_bytes",
            self.capacity_bytes,
            self.capacity_bytes > 0
                && self.capacity_bytes.is_multiple_of(SECTOR_BYTES)
                && self.capacity_bytes <= zones_bytes,
            format!("must be a multiple of 512, and at most the {zones_bytes} bytes of the zones"),
        )
    }

    fn validate_times(&self) -> Result<(), ParameterError> {
        let seeks_rise = 0.0 < self.seek_track_ms
            && self.seek_track_ms < self.seek_average_ms
            && self.seek_average_ms < self.seek_full_ms
            && self.seek_full_ms <= 1_000.0;
        check(
            "seek_average_ms",
            self.seek_average_ms,
            seeks_rise,
            "must lie between seek_track_ms, above 0, and seek_full_ms, at most 1000",
        )?;
        for (name, value) in [
            ("write_settle_ms", self.write_settle_ms),
            ("head_switch_ms", self.head_switch_ms),
            ("cylinder_switch_ms", self.cylinder_switch_ms),
        ] {
            check(name, value, (0.0..=100.0).contains(&value), "must lie in 0..100")?;
        }
        // Otherwise sequential writes would lose a turn at each cylinder.
        check(
            "cylinder_switch_ms",
            self.cylinder_switch_ms,
            self.cylinder_switch_ms >= self.seek_track_ms + self.write_settle_ms - 1e-9,
            "must be at least seek_track_ms and write_settle_ms together",
        )?;
        for (name, value) in [
            ("command_overhead_us", self.command_overhead_us),
            ("hit_overhead_us", self.hit_overhead_us),
        ] {
            check(name, value, (0.0..=1e6).contains(&value), "must lie in 0..1000000")?;
        }
        check(
            "interface_mb_per_second",
            self.interface_mb_per_second,
            (0.1..=1e6).contains(&self.interface_mb_per_second),
            "must lie in 0.1..1000000",
        )?;
        check(
            "age_max_ms",
            self.age_max_ms,
            (0.0..=1e6).contains(&self.age_max_ms),
            "must lie in 0..1000000; 0 makes the queue first come, first served",
        )
    }

    fn validate_buffer(&self) -> Result<(), ParameterError> {
        check(
            "queue_max",
            self.queue_max,
            (1..=QUEUE_MAX).contains(&self.queue_max),
            format!("must lie in 1..{QUEUE_MAX}"),
        )?;
        check(
            "segments",
            self.segments,
            (1..=SEGMENTS_MAX).contains(&self.segments),
            format!("must lie in 1..{SEGMENTS_MAX}"),
        )?;
        check(
            "buffer_bytes",
            self.buffer_bytes,
            self.buffer_bytes / u64::from(self.segments) >= SECTOR_BYTES
                && self.buffer_bytes <= 1 << 40,
            "must be at least 512 for each segment, and at most 1 TiB",
        )?;
        check(
            "write_segments",
            self.write_segments,
            self.write_segments < self.segments && (!self.write_back || self.write_segments > 0),
            "must leave one of the segments to reads, and be at least 1 with write_back",
        )
    }

    /// IBM Ultrastar 36LZX, 36.7 GB, 10,000 rpm, Ultra160 SCSI (DDYS-T36950):
    /// the disk of Hall and Bonnet's experiments.
    ///
    /// - Capacity, 12 heads, 11 zones, 10,000 rpm, 4.9 ms average seek,
    ///   21.7..36.1 MB/s sustained, 4 MB buffer: IBM's data sheet (also in
    ///   Bryant and O'Hallaron, "Computer Systems", 1st ed., figure 6.13).
    /// - The zones: read out of the drive by DIXtrac (ibid., figure 6.14).
    /// - Switch times: from the sustained rate, which IBM's specifications
    ///   define as a cylinder's bytes over (heads - 1) head switches, one
    ///   cylinder switch and a turn for each head; 36.1 MB/s with 504 sectors
    ///   leave 13.8 ms of switching to a cylinder.
    /// - Full stroke 10.5 ms, 0.6 ms more for a write, 0.4 ms of overhead
    ///   (30 us on a hit): IBM's specification S07N9742 of the Ultrastar
    ///   146Z10, the same line's next 10,000 rpm drive but one.
    /// - 32 commands: what the paper's controller held (figure 2).
    /// - Assumed: 0.6 ms to the next track; 16 segments, 4 of them for
    ///   writes; 500 ms until age decides.
    pub fn ultrastar_36lzx() -> RotatingParameters {
        const ZONES: [(u32, u32); 11] = [
            (380, 504),
            (1_698, 476),
            (1_352, 462),
            (3_385, 420),
            (708, 406),
            (1_375, 392),
            (1_309, 378),
            (1_032, 364),
            (807, 352),
            (1_722, 336),
            (1_274, 308),
        ];
        RotatingParameters {
            capacity_bytes: 71_687_340 * SECTOR_BYTES,
            revolutions_per_minute: 10_000,
            spindle_phase_turns: 0.0,
            heads: 12,
            zones: ZONES
                .map(|(cylinders, sectors_per_track)| Zone {
                    cylinders,
                    sectors_per_track,
                })
                .to_vec(),
            seek_track_ms: 0.6,
            seek_average_ms: 4.9,
            seek_full_ms: 10.5,
            write_settle_ms: 0.6,
            head_switch_ms: 1.14,
            cylinder_switch_ms: 1.2,
            command_overhead_us: 400.0,
            hit_overhead_us: 30.0,
            interface_mb_per_second: 160.0,
            buffer_bytes: 4 << 20,
            segments: 16,
            write_segments: 4,
            read_ahead: true,
            write_back: true,
            queue_max: 32,
            age_max_ms: 500.0,
        }
    }

    /// Seagate Constellation ES, 2 TB, 7200 rpm, SATA (ST32000644NS): an
    /// enterprise disk of the years of the Percona document and bug 68659.
    ///
    /// - Capacity, 7200 rpm, 140 MB/s sustained at most, 300 MB/s interface,
    ///   64 MB buffer, 32 commands, 8.5 ms average seek (9.5 ms for writes):
    ///   Seagate's product manual 100516232.
    /// - Full stroke 17.4 ms: the same line's 100 GB-per-surface drive
    ///   (Constellation SAS product manual, section 5.2.1).
    /// - 16 zones of equal width, whose rate falls by half to the centre, and
    ///   262,400 cylinders: from the capacity of 8 surfaces, and in agreement
    ///   with the manual's 240,000 tracks per inch on 28 mm.
    /// - Assumed: 0.8 ms to the next track, 0.8 ms head switch, 1.8 ms
    ///   cylinder switch; 0.2 ms overhead (the SAS drive's 0.2 ms); 128
    ///   segments, half of them for writes; 500 ms until age decides.
    pub fn sata_7200() -> RotatingParameters {
        const ZONES: u32 = 16;
        const SECTORS_OUTSIDE: u32 = 2_550;
        let sectors_per_track =
            |zone: u32| SECTORS_OUTSIDE - SECTORS_OUTSIDE / 2 * zone / (ZONES - 1);
        RotatingParameters {
            capacity_bytes: 3_907_029_168 * SECTOR_BYTES,
            revolutions_per_minute: 7_200,
            spindle_phase_turns: 0.0,
            heads: 8,
            zones: (0..ZONES)
                .map(|zone| Zone {
                    cylinders: 16_400,
                    sectors_per_track: sectors_per_track(zone),
                })
                .collect(),
            seek_track_ms: 0.8,
            seek_average_ms: 8.5,
            seek_full_ms: 17.4,
            write_settle_ms: 1.0,
            head_switch_ms: 0.8,
            cylinder_switch_ms: 1.8,
            command_overhead_us: 200.0,
            hit_overhead_us: 30.0,
            interface_mb_per_second: 300.0,
            buffer_bytes: 64 << 20,
            segments: 128,
            write_segments: 64,
            read_ahead: true,
            write_back: true,
            queue_max: 32,
            age_max_ms: 500.0,
        }
    }
}

fn check(
    parameter: &str,
    value: impl ToString,
    good: bool,
    requirement: impl Into<String>,
) -> Result<(), ParameterError> {
    if good {
        Ok(())
    } else {
        Err(ParameterError::new(parameter, value, requirement))
    }
}
