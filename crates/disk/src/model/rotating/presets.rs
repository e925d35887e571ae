//! The disks that are known by name.

use super::parameters::{RotatingParameters, SECTOR_BYTES, Zone};

impl RotatingParameters {
    /// IBM Ultrastar 36LZX, 18.3 GB, 10,000 rpm, Ultra160 SCSI (DDYS-T18350):
    /// the disk of Hall and Bonnet's experiments.
    ///
    /// The paper does not say which of the line's three capacities it used. A
    /// file of 10 GB lies on more than half of this one's cylinders, and a
    /// random read of it then takes the 7 ms of the paper's figure 3; on the
    /// 36.7 GB one ([`ultrastar_36lzx_36gb`](Self::ultrastar_36lzx_36gb)) the
    /// arm would stay in a quarter of them, and a read take 6.4 ms.
    ///
    /// - Capacity, 6 of 12 heads, 11 zones, 10,000 rpm, 4.9 ms average seek,
    ///   21.7..36.1 MB/s sustained, 4 MB buffer: IBM's data sheet (also in
    ///   Bryant and O'Hallaron, "Computer Systems", 1st ed., figure 6.13).
    /// - The zones: read out of the drive by DIXtrac (ibid., figure 6.14; not
    ///   checked against the book, but they agree with the data sheet: 15,042
    ///   of its 15,110 cylinders, 0.4 % of spares beyond its capacity, and
    ///   both its rates).
    /// - Switch times: from the sustained rate, which IBM's specifications
    ///   define as a cylinder's bytes over (heads - 1) head switches, one
    ///   cylinder switch and a turn for each head; 36.1 MB/s with 504 sectors
    ///   leave 1.15 ms of switching to a track.
    /// - Full stroke 10.5 ms, 0.6 ms more for a write, 0.4 ms of overhead
    ///   (30 us on a hit): IBM's specification S07N9742 of the Ultrastar
    ///   146Z10, a later 10,000 rpm drive of the same line.
    /// - 32 commands: what the paper's controller held (figure 2).
    /// - Assumed: 0.6 ms to the next track; 16 segments; 500 ms until age
    ///   decides.
    /// - Assumed with the paper's throughput in view, since no data sheet tells
    ///   how a drive orders its queue: 4 of the segments for writes (with 3 or
    ///   6, writes at 200 outstanding change by 7 % down or up), and 0.25 ms of
    ///   margin on arrival (without it, reads at 64 gain 8 %).
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
            capacity_bytes: 35_843_670 * SECTOR_BYTES,
            revolutions_per_minute: 10_000,
            spindle_phase_turns: 0.0,
            heads: 6,
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
            arrival_margin_us: 250.0,
            age_max_ms: 500.0,
        }
    }

    /// The 36.7 GB model of the same line (DDYS-T36950): twice as many heads
    /// on the same cylinders.
    pub fn ultrastar_36lzx_36gb() -> RotatingParameters {
        RotatingParameters {
            capacity_bytes: 71_687_340 * SECTOR_BYTES,
            heads: 12,
            ..RotatingParameters::ultrastar_36lzx()
        }
    }

    /// Seagate Constellation ES, 2 TB, 7200 rpm, SATA (ST32000644NS): an
    /// enterprise disk of the years of the Percona document and bug 68659.
    ///
    /// - Capacity, 7200 rpm, 140 MB/s sustained at most, 300 MB/s interface,
    ///   64 MB buffer, 32 commands, 8.5 ms average seek (9.5 ms for writes):
    ///   Seagate's product manual 100516232.
    /// - Full stroke 17.4 ms: the same line's 2.5-inch drive, of equal average
    ///   seek (Constellation SAS product manual, section 5.2.1); the manual of
    ///   this one is silent.
    /// - 16 zones of equal width, whose rate falls by half to the centre, and
    ///   262,400 cylinders: from the capacity of 8 surfaces, and in agreement
    ///   with the manual's 240,000 tracks per inch on 28 mm.
    /// - Assumed: 0.8 ms to the next track, 0.8 ms head switch, 1.8 ms
    ///   cylinder switch; 0.2 ms overhead (as the 2.5-inch drive); 128
    ///   segments, half of them for writes; 0.25 ms of margin on arrival;
    ///   500 ms until age decides.
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
            arrival_margin_us: 250.0,
            age_max_ms: 500.0,
        }
    }
}
