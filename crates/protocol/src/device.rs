//! Which devices there are, and what may go to them unasked.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nothing may start unasked.
pub const GATE_NONE: u32 = 0;
/// `Critical` and `Foreground` may.
pub const GATE_URGENT: u32 = 2;
/// All levels may: nobody competes.
pub const GATE_ALL: u32 = 5;

/// While a lower level may start unasked, so long after somebody waited for a
/// request it asks all the same.
pub const URGENT_RECENT_NS: u64 = 200_000_000;

/// The lowest level: scans, backups.
const LEVEL_BACKGROUND: u8 = 4;
/// So long after its latest request it counts as going on.
const BACKGROUND_RECENT_NS: u64 = 1_000_000_000;

/// What is known of a device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DeviceState {
    /// The broker was asked and has not answered.
    Asked = 0,
    /// Its requests are scheduled.
    Scheduled = 1,
    /// It is no disk: nothing is scheduled.
    Passed = 2,
}

/// One `st_dev`. Partitions of a disk have entries of their own, which name the
/// same scheduler.
#[repr(C, align(64))]
pub struct DeviceEntry {
    /// `st_dev` plus 1; 0 is free. Processes take an entry.
    number: AtomicU64,
    /// The broker's answer: a [`DeviceState`]; processes sleep on it.
    state: AtomicU32,
    /// The entry whose gate counts: the first of the same disk.
    leader: AtomicU32,
    gate: AtomicU32,
    /// Whether something is queued, so that the broker wants to know at once when a
    /// request ends.
    attentive: AtomicU32,
    last_urgent_ns: AtomicU64,
    last_background_ns: AtomicU64,
}

/// Whether somebody waited for a request a moment ago, with when that was last; 0: never.
pub fn is_urgent_lately(last_ns: u64, now_ns: u64) -> bool {
    last_ns != 0 && now_ns < last_ns.saturating_add(URGENT_RECENT_NS)
}

impl DeviceEntry {
    /// As memory that is zero has it.
    pub const fn free() -> DeviceEntry {
        DeviceEntry {
            number: AtomicU64::new(0),
            state: AtomicU32::new(0),
            leader: AtomicU32::new(0),
            gate: AtomicU32::new(0),
            attentive: AtomicU32::new(0),
            last_urgent_ns: AtomicU64::new(0),
            last_background_ns: AtomicU64::new(0),
        }
    }

    /// The device number, if the entry is taken.
    pub fn number(&self) -> Option<u64> {
        self.number.load(Ordering::Acquire).checked_sub(1)
    }

    /// Takes a free entry. `false`: another process was first.
    pub fn take(&self, number: u64) -> bool {
        self.number
            .compare_exchange(0, number + 1, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// The broker's answer.
    pub fn state(&self) -> DeviceState {
        match self.state.load(Ordering::Acquire) {
            1 => DeviceState::Scheduled,
            2 => DeviceState::Passed,
            _ => DeviceState::Asked,
        }
    }

    /// The word of the answer, to sleep on.
    pub fn word(&self) -> &AtomicU32 {
        &self.state
    }

    /// The broker answers.
    pub fn answer(&self, state: DeviceState, leader: usize) {
        self.leader.store(leader as u32, Ordering::Relaxed);
        self.state.store(state as u32, Ordering::Release);
    }

    /// The entry of the same disk whose gate counts.
    pub fn leader(&self) -> usize {
        self.leader.load(Ordering::Relaxed) as usize
    }

    /// The broker sets what may start unasked.
    pub fn set_gate(&self, gate: u32, attentive: bool) {
        self.attentive.store(u32::from(attentive), Ordering::SeqCst);
        self.gate.store(gate, Ordering::SeqCst);
    }

    /// Levels that may start unasked: those below this number.
    pub fn gate(&self) -> u32 {
        self.gate.load(Ordering::SeqCst)
    }

    /// Whether the broker wants to know at once when a request ends.
    pub fn is_attentive(&self) -> bool {
        self.attentive.load(Ordering::SeqCst) != 0
    }

    /// Whether a request of `level` that comes now may start unasked.
    pub fn admits(&self, level: u8, now_ns: u64) -> bool {
        if u32::from(level) < GATE_URGENT {
            self.last_urgent_ns.store(now_ns, Ordering::Relaxed);
        } else if level == LEVEL_BACKGROUND {
            self.last_background_ns.store(now_ns, Ordering::Relaxed);
        }
        if u32::from(level) >= self.gate() {
            return false;
        }
        u32::from(level) < GATE_URGENT || !is_urgent_lately(self.last_urgent_ns(), now_ns)
    }

    /// When somebody last waited for a request, or 0.
    pub fn last_urgent_ns(&self) -> u64 {
        self.last_urgent_ns.load(Ordering::Relaxed)
    }

    /// Whether a scan or a backup goes on.
    pub fn background_lately(&self, now_ns: u64) -> bool {
        let last_ns = self.last_background_ns.load(Ordering::Relaxed);
        last_ns != 0 && now_ns < last_ns.saturating_add(BACKGROUND_RECENT_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_lets_urgent_levels_through_and_keeps_others_after_them() {
        let entry = DeviceEntry::free();
        assert!(!entry.admits(0, 1));
        entry.set_gate(GATE_ALL, false);
        assert!(!entry.admits(4, 2), "a log write was there a moment ago");
        assert!(entry.background_lately(3));
        assert!(entry.admits(4, 1 + URGENT_RECENT_NS));
        assert!(!entry.background_lately(1 + URGENT_RECENT_NS + BACKGROUND_RECENT_NS));
        entry.set_gate(GATE_URGENT, true);
        assert!(entry.admits(1, 1 << 40));
        assert!(!entry.admits(2, 1 << 50));
    }

    #[test]
    fn one_process_takes_an_entry() {
        let entry = DeviceEntry::free();
        assert!(entry.take(0));
        assert!(!entry.take(8));
        assert_eq!(entry.number(), Some(0));
    }
}
