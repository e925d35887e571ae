//! Which of the waiting commands the arm goes for.

use super::geometry::{Geometry, Place};
use super::seek::SeekCurve;

/// Where the arm stands and which head is on its track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arm {
    pub(super) cylinder: u32,
    pub(super) head: u32,
}

/// The moving parts.
pub(super) struct Mechanics {
    pub(super) geometry: Geometry,
    pub(super) seek: SeekCurve,
    pub(super) write_settle_ns: u64,
    pub(super) arrival_margin_ns: u64,
}

impl Mechanics {
    /// When `place` begins to pass under its head, for an arm that leaves
    /// `arm` at `now_ns`: seek or head switch, then the spindle.
    #[inline]
    pub(super) fn start_ns(&self, arm: Arm, now_ns: u64, place: &Place, write: bool) -> u64 {
        let there_ns = now_ns + self.travel_ns(arm, place, write);
        there_ns + self.geometry.spindle.wait_ns(there_ns, place.angle)
    }

    /// The same, as the drive foresees it: it does not know to the microsecond
    /// how long a seek takes, and counts on a sector only if it will be there
    /// with a margin. Changes to the next track are what the skew is made for.
    #[inline]
    fn foreseen_ns(&self, arm: Arm, now_ns: u64, place: &Place, write: bool) -> u64 {
        let margin_ns = match place.cylinder.abs_diff(arm.cylinder) {
            0 | 1 => 0,
            _ => self.arrival_margin_ns,
        };
        let there_ns = now_ns + self.travel_ns(arm, place, write) + margin_ns;
        there_ns + self.geometry.spindle.wait_ns(there_ns, place.angle)
    }

    #[inline]
    fn travel_ns(&self, arm: Arm, place: &Place, write: bool) -> u64 {
        if place.cylinder != arm.cylinder {
            let settle_ns = if write { self.write_settle_ns } else { 0 };
            self.seek.ns(place.cylinder.abs_diff(arm.cylinder)) + settle_ns
        } else if place.head != arm.head {
            self.geometry.head_switch_ns
        } else {
            0
        }
    }
}

/// The choice among what waits: the shortest positioning time first, which
/// knows the rotation as well as the distance (Jacobson and Wilkes, "Disk
/// scheduling algorithms based on rotational position", 1991), but what has
/// waited for longer than a bound goes before all that, oldest first.
pub(super) struct Choice<'a, T> {
    mechanics: &'a Mechanics,
    arm: Arm,
    now_ns: u64,
    age_max_ns: u64,
    nearest: Option<(u64, T)>,
    aged: Option<(u64, T)>,
}

impl<'a, T: Copy> Choice<'a, T> {
    pub(super) fn new(
        mechanics: &'a Mechanics,
        arm: Arm,
        now_ns: u64,
        age_max_ns: u64,
    ) -> Choice<'a, T> {
        Choice {
            mechanics,
            arm,
            now_ns,
            age_max_ns,
            nearest: None,
            aged: None,
        }
    }

    /// Whether nothing was offered.
    pub(super) fn is_empty(&self) -> bool {
        self.nearest.is_none()
    }

    /// Whether what waits since then goes out of order.
    pub(super) fn is_aged(&self, since_ns: u64) -> bool {
        since_ns + self.age_max_ns <= self.now_ns
    }

    /// A command that could go now.
    #[inline]
    pub(super) fn offer(&mut self, place: &Place, write: bool, since_ns: u64, what: T) {
        if self.is_aged(since_ns) && self.aged.is_none_or(|(oldest, _)| since_ns < oldest) {
            self.aged = Some((since_ns, what));
        }
        self.offer_ageless(place, write, what);
    }

    /// Something that could go now, and for which no host waits: there may be
    /// so much of it that age would turn the order into that of arrival.
    #[inline]
    pub(super) fn offer_ageless(&mut self, place: &Place, write: bool, what: T) {
        let start_ns = self
            .mechanics
            .foreseen_ns(self.arm, self.now_ns, place, write);
        if self.nearest.is_none_or(|(best, _)| start_ns < best) {
            self.nearest = Some((start_ns, what));
        }
    }

    /// The one to go for.
    pub(super) fn best(self) -> Option<T> {
        self.aged.or(self.nearest).map(|(_, what)| what)
    }
}
