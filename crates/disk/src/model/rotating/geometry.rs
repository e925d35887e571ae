//! Where a sector lies, and when it passes under its head.

use super::parameters::{RotatingParameters, SECTOR_BYTES};
use super::seek::ms_to_ns;

/// How far a sector may have gone by while its start still counts as met, in
/// nanoseconds: more than all rounding, far less than the gap between two
/// sectors.
const LATE_NS_MAX: u64 = 1_000;

/// The spindle: turns for ever at one speed. Angles are `u64` fractions of a
/// turn, so that whole turns vanish in the overflow.
pub(super) struct Spindle {
    pub(super) turn_ns: u64,
    angle_per_ns: u64,
    phase: u64,
    late_max: u64,
}

impl Spindle {
    fn new(revolutions_per_minute: u32, phase_turns: f64) -> Spindle {
        let turn_ns = 60_000_000_000 / u64::from(revolutions_per_minute);
        let angle_per_ns = u64::MAX / turn_ns;
        Spindle {
            turn_ns,
            angle_per_ns,
            phase: (phase_turns.fract() * u64::MAX as f64) as u64,
            late_max: LATE_NS_MAX * angle_per_ns,
        }
    }

    /// Nanoseconds from `from_ns` until `angle` is under the head.
    #[inline]
    pub(super) fn wait_ns(&self, from_ns: u64, angle: u64) -> u64 {
        let now = from_ns
            .wrapping_mul(self.angle_per_ns)
            .wrapping_add(self.phase);
        let missing = angle.wrapping_sub(now);
        if missing > u64::MAX - self.late_max {
            return 0;
        }
        ((u128::from(missing) * u128::from(self.turn_ns)) >> 64) as u64
    }
}

/// One sector's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) cylinder: u32,
    pub(super) head: u32,
    /// Where on its track the sector begins.
    pub(super) angle: u64,
    /// Sectors from this one to the end of its track, itself included.
    pub(super) left_on_track: u32,
    pub(super) sectors_per_track: u32,
}

/// A zone, as the mapping needs it.
struct ZoneMap {
    sector_first: u64,
    cylinder_first: u32,
    sectors_per_track: u32,
    sectors_per_cylinder: u32,
    sector_angle: u64,
    head_skew: u64,
    /// By how much the first track of a cylinder lies behind that of the one
    /// before.
    cylinder_advance: u64,
    angle_first: u64,
}

/// The heads, the zones, and how logical sectors run over them: along a
/// track, then over the heads of a cylinder, then inwards. Each track begins
/// later than the one before by the time that changing to it takes.
pub(super) struct Geometry {
    pub(super) spindle: Spindle,
    zones: Vec<ZoneMap>,
    pub(super) head_switch_ns: u64,
    pub(super) cylinder_switch_ns: u64,
    pub(super) sectors: u64,
}

impl Geometry {
    /// For parameters that were validated.
    pub(super) fn new(parameters: &RotatingParameters) -> Geometry {
        let spindle = Spindle::new(
            parameters.revolutions_per_minute,
            parameters.spindle_phase_turns,
        );
        let head_switch_ns = ms_to_ns(parameters.head_switch_ms);
        let cylinder_switch_ns = ms_to_ns(parameters.cylinder_switch_ms);
        let heads = parameters.heads;
        let mut zones = Vec::with_capacity(parameters.zones.len());
        let (mut sector_first, mut cylinder_first, mut angle_first) = (0, 0, 0u64);
        for zone in &parameters.zones {
            let sector_angle = u64::MAX / u64::from(zone.sectors_per_track);
            // Whole sectors, rounded up: the head must be there in time.
            let skew = |switch_ns: u64| {
                let sectors =
                    (switch_ns * u64::from(zone.sectors_per_track)).div_ceil(spindle.turn_ns);
                sectors.wrapping_mul(sector_angle)
            };
            let head_skew = skew(head_switch_ns);
            let cylinder_advance = head_skew
                .wrapping_mul(u64::from(heads - 1))
                .wrapping_add(skew(cylinder_switch_ns));
            zones.push(ZoneMap {
                sector_first,
                cylinder_first,
                sectors_per_track: zone.sectors_per_track,
                sectors_per_cylinder: zone.sectors_per_track * heads,
                sector_angle,
                head_skew,
                cylinder_advance,
                angle_first,
            });
            sector_first += u64::from(zone.cylinders) * u64::from(zone.sectors_per_track * heads);
            cylinder_first += zone.cylinders;
            angle_first =
                angle_first.wrapping_add(cylinder_advance.wrapping_mul(u64::from(zone.cylinders)));
        }
        Geometry {
            spindle,
            zones,
            head_switch_ns,
            cylinder_switch_ns,
            sectors: parameters.capacity_bytes / SECTOR_BYTES,
        }
    }

    /// Where a logical sector lies.
    pub(super) fn locate(&self, sector: u64) -> Place {
        let later = self
            .zones
            .partition_point(|zone| zone.sector_first <= sector);
        let zone = &self.zones[later - 1];
        let inside = sector - zone.sector_first;
        let cylinder = inside / u64::from(zone.sectors_per_cylinder);
        let on_cylinder = (inside % u64::from(zone.sectors_per_cylinder)) as u32;
        let head = on_cylinder / zone.sectors_per_track;
        let on_track = on_cylinder % zone.sectors_per_track;
        Place {
            cylinder: zone.cylinder_first + cylinder as u32,
            head,
            angle: zone
                .angle_first
                .wrapping_add(zone.cylinder_advance.wrapping_mul(cylinder))
                .wrapping_add(zone.head_skew.wrapping_mul(u64::from(head)))
                .wrapping_add(zone.sector_angle.wrapping_mul(u64::from(on_track))),
            left_on_track: zone.sectors_per_track - on_track,
            sectors_per_track: zone.sectors_per_track,
        }
    }

    /// The rest of a track from `sector` on, which lies at `place` and begins
    /// to pass at `start_ns`.
    pub(super) fn run(&self, sector: u64, place: &Place, start_ns: u64) -> Run {
        Run {
            first: sector,
            end: (sector + u64::from(place.left_on_track)).min(self.sectors),
            start_ns,
            sectors_per_track: place.sectors_per_track,
            turn_ns: self.spindle.turn_ns,
            cylinder: place.cylinder,
            head: place.head,
        }
    }

    /// The track that follows a run; nothing behind the last sector.
    pub(super) fn next_run(&self, run: &Run) -> Option<Run> {
        if run.end >= self.sectors {
            return None;
        }
        let place = self.locate(run.end);
        let switch_ns = if place.cylinder == run.cylinder {
            self.head_switch_ns
        } else {
            self.cylinder_switch_ns
        };
        let there_ns = run.passed_ns(run.end) + switch_ns;
        let start_ns = there_ns + self.spindle.wait_ns(there_ns, place.angle);
        Some(self.run(run.end, &place, start_ns))
    }
}

/// Sectors of one track that pass under the head one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) first: u64,
    /// One behind the last.
    pub(super) end: u64,
    /// When the first begins to pass.
    pub(super) start_ns: u64,
    sectors_per_track: u32,
    turn_ns: u64,
    pub(super) cylinder: u32,
    pub(super) head: u32,
}

impl Run {
    /// When everything before `sector`, which is in the run or its end, has
    /// passed.
    pub(super) fn passed_ns(&self, sector: u64) -> u64 {
        self.start_ns
            + ((sector - self.first) * self.turn_ns).div_ceil(u64::from(self.sectors_per_track))
    }

    /// The first sector that has not passed whole by `now_ns`.
    pub(super) fn passed_by(&self, now_ns: u64) -> u64 {
        let past_ns = now_ns.saturating_sub(self.start_ns);
        if past_ns >= self.turn_ns {
            return self.end;
        }
        let sectors = past_ns * u64::from(self.sectors_per_track) / self.turn_ns;
        (self.first + sectors).min(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry() -> Geometry {
        Geometry::new(&RotatingParameters::ultrastar_36lzx())
    }

    #[test]
    fn neighbours_on_a_track_follow_each_other_without_a_gap() {
        let geometry = geometry();
        let first = geometry.locate(1_000_000);
        let second = geometry.locate(1_000_001);
        assert_eq!((first.cylinder, first.head), (second.cylinder, second.head));
        let start_ns = geometry.spindle.wait_ns(0, first.angle);
        let run = geometry.run(1_000_000, &first, start_ns);
        let passed_ns = run.passed_ns(1_000_001);
        assert_eq!(geometry.spindle.wait_ns(passed_ns, second.angle), 0);
        assert_eq!(run.passed_by(passed_ns), 1_000_001);
        assert_eq!(run.passed_by(passed_ns - 1), 1_000_000);
    }

    #[test]
    fn a_track_change_costs_the_skew_and_not_a_turn() {
        let geometry = geometry();
        let place = geometry.locate(0);
        let mut run = geometry.run(0, &place, 0);
        for _ in 0..100 {
            let next = geometry.next_run(&run).unwrap();
            let gap_ns = next.start_ns - run.passed_ns(run.end);
            let switch_ns = geometry.cylinder_switch_ns.max(geometry.head_switch_ns);
            assert!(gap_ns < switch_ns + 100_000, "a gap of {gap_ns} ns");
            run = next;
        }
    }

    #[test]
    fn every_sector_has_a_place_of_its_own() {
        let geometry = geometry();
        let mut sector = 0;
        let mut before: Option<Place> = None;
        while sector < geometry.sectors {
            let place = geometry.locate(sector);
            if let Some(before) = before {
                assert!(
                    (place.cylinder, place.head) > (before.cylinder, before.head),
                    "{before:?} then {place:?}"
                );
                assert!(place.sectors_per_track <= before.sectors_per_track);
            }
            assert_eq!(place.left_on_track, place.sectors_per_track);
            before = Some(place);
            sector += u64::from(place.sectors_per_track);
        }
    }
}
