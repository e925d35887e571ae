//! One request of a process, and its place with the device.

use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// The request reads.
pub const KIND_READ: u8 = 0;
/// The request writes.
pub const KIND_WRITE: u8 = 1;
/// The request makes durable what was written.
pub const KIND_SYNC: u8 = 2;

/// Where a request stands: the word that its process sleeps on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum CellState {
    /// Nobody's.
    Free = 0,
    /// A process fills it in.
    Claimed = 1,
    /// The process asks for leave and waits for it.
    Posted = 2,
    /// The broker gave leave; the process does its system call.
    Granted = 3,
    /// The process needed no leave, and does its system call.
    Started = 4,
    /// The system call has ended; the broker has to take note and free the cell.
    Ended = 5,
    /// The process waits no longer, and does its system call unscheduled.
    Left = 6,
    /// The process needs what it asked for no more.
    Withdrawn = 7,
    /// The device is done with it, but the program has not asked what became of it yet (Linux
    /// AIO): the place with the device is free, the cell is not.
    Landed = 8,
}

impl CellState {
    const ALL: [CellState; 9] = [
        CellState::Free,
        CellState::Claimed,
        CellState::Posted,
        CellState::Granted,
        CellState::Started,
        CellState::Ended,
        CellState::Left,
        CellState::Withdrawn,
        CellState::Landed,
    ];
}

/// What a process asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Index in the table of devices.
    pub device: u8,
    /// [`KIND_READ`], [`KIND_WRITE`] or [`KIND_SYNC`].
    pub kind: u8,
    /// 0 (most urgent) to 4, as it goes.
    pub level: u8,
    /// The level that the rule names, before the thread's reads sank it.
    pub ruled_level: u8,
    /// Index of the rule that gave the level, or [`UNRULED`](crate::UNRULED).
    pub rule: u8,
    /// A write that is durable when it ends.
    pub durable: bool,
    /// The process has a thread that waits for leave on its behalf.
    pub asynchronous: bool,
    /// Which file, as a hash of its device and inode.
    pub file: u32,
    /// Bytes; 0 for a sync.
    pub length: u32,
    /// First byte; 0 for a sync.
    pub offset: u64,
    /// When it came, on `CLOCK_MONOTONIC`.
    pub asked_ns: u64,
}

/// One request. Written by its process, but for [`Granted`](CellState::Granted)
/// and [`Free`](CellState::Free), which are the broker's to store.
#[repr(C, align(64))]
pub struct Cell {
    word: AtomicU32,
    file: AtomicU32,
    packed: AtomicU64,
    length: AtomicU32,
    /// The level of the most urgent of those who wait for it.
    wanted: AtomicU32,
    offset: AtomicU64,
    asked_ns: AtomicU64,
    started_ns: AtomicU64,
    ended_ns: AtomicU64,
    result: AtomicI64,
}

impl Cell {
    /// Where it stands; `None` if a process has written nonsense.
    pub fn state(&self) -> Option<CellState> {
        let word = self.word.load(Ordering::Acquire);
        CellState::ALL.get(word as usize).copied()
    }

    /// The word to sleep on.
    pub fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Stores a state that only the caller may store.
    pub fn set(&self, state: CellState) {
        self.word.store(state as u32, Ordering::Release);
    }

    /// From one state to another, unless somebody else was first.
    pub fn change(&self, from: CellState, to: CellState) -> bool {
        self.word
            .compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Writes down what is asked for. Only in a cell that was claimed.
    pub fn fill(&self, asked: &Asked) {
        let Asked {
            device,
            kind,
            level,
            ruled_level,
            rule,
            durable,
            asynchronous,
            ..
        } = *asked;
        let flags = u8::from(durable) | u8::from(asynchronous) << 1;
        let bytes = [device, kind, level, ruled_level, rule, flags, 0, 0];
        self.packed
            .store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        self.wanted.store(u32::from(level), Ordering::Relaxed);
        self.file.store(asked.file, Ordering::Relaxed);
        self.length.store(asked.length, Ordering::Relaxed);
        self.offset.store(asked.offset, Ordering::Relaxed);
        self.asked_ns.store(asked.asked_ns, Ordering::Relaxed);
    }

    /// What was written down.
    pub fn asked(&self) -> Asked {
        let packed = self.packed.load(Ordering::Relaxed);
        let [device, kind, level, ruled_level, rule, flags, ..] = packed.to_le_bytes();
        Asked {
            device,
            kind,
            level,
            ruled_level,
            rule,
            durable: flags & 1 != 0,
            asynchronous: flags & 2 != 0,
            file: self.file.load(Ordering::Relaxed),
            length: self.length.load(Ordering::Relaxed),
            offset: self.offset.load(Ordering::Relaxed),
            asked_ns: self.asked_ns.load(Ordering::Relaxed),
        }
    }

    /// Somebody of this level waits for it now. Whether that is news.
    pub fn want(&self, level: u8) -> bool {
        self.wanted.fetch_min(u32::from(level), Ordering::Release) > u32::from(level)
    }

    /// The level of the most urgent of those who wait for it: at first its own.
    pub fn wanted(&self) -> u8 {
        self.wanted.load(Ordering::Acquire).min(u32::from(u8::MAX)) as u8
    }

    /// Before the state becomes [`Started`](CellState::Started) or
    /// [`Granted`](CellState::Granted).
    pub fn set_started_ns(&self, now_ns: u64) {
        self.started_ns.store(now_ns, Ordering::Relaxed);
    }

    /// When the request went to the device.
    pub fn started_ns(&self) -> u64 {
        self.started_ns.load(Ordering::Relaxed)
    }

    /// Before the state becomes [`Ended`](CellState::Ended) or [`Landed`](CellState::Landed). `result` is that of
    /// the system call, or minus the error's number.
    pub fn set_end(&self, now_ns: u64, result: i64) {
        self.ended_ns.store(now_ns, Ordering::Relaxed);
        self.result.store(result, Ordering::Relaxed);
    }

    /// When the system call ended, and with what.
    pub fn end(&self) -> (u64, i64) {
        (
            self.ended_ns.load(Ordering::Relaxed),
            self.result.load(Ordering::Relaxed),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell() -> Cell {
        Cell {
            word: AtomicU32::new(0),
            file: AtomicU32::new(0),
            packed: AtomicU64::new(0),
            length: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            offset: AtomicU64::new(0),
            asked_ns: AtomicU64::new(0),
            started_ns: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
            result: AtomicI64::new(0),
        }
    }

    #[test]
    fn what_is_filled_in_comes_out() {
        let cell = cell();
        let asked = Asked {
            device: 3,
            kind: KIND_WRITE,
            level: 4,
            ruled_level: 1,
            rule: 63,
            durable: true,
            asynchronous: false,
            file: 77,
            length: 16384,
            offset: 1 << 40,
            asked_ns: 9,
        };
        cell.fill(&asked);
        assert_eq!(cell.asked(), asked);
        assert_eq!(size_of::<Cell>(), 64);
    }

    #[test]
    fn a_cell_is_claimed_once() {
        let cell = cell();
        assert!(cell.change(CellState::Free, CellState::Claimed));
        assert!(!cell.change(CellState::Free, CellState::Claimed));
        assert_eq!(cell.state(), Some(CellState::Claimed));
    }

    #[test]
    fn nonsense_in_the_word_is_no_state() {
        let cell = cell();
        cell.word().store(9, Ordering::Relaxed);
        assert_eq!(cell.state(), None);
    }
}
