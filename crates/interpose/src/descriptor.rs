//! What is behind a descriptor: looked up at its first use, forgotten when it is
//! closed or replaced.

use std::sync::atomic::{AtomicU64, Ordering};

use iolane_protocol::{DeviceEntry, DeviceState, Memory};

use crate::sys::file::{self, Stat};
use crate::sys::residency::PAGE_BYTES;
use iolane_protocol::sys::{clock, futex};

/// Descriptors beyond go unscheduled.
pub const DESCRIPTORS_MAX: usize = 65_536;
/// How long a process waits, once per device, for the broker to say whether it is one.
const ANSWER_NS_MAX: u64 = 200_000_000;

const VALID: u64 = 1;
const SCHEDULED: u64 = 1 << 1;
const DIRECT: u64 = 1 << 2;
const DURABLE: u64 = 1 << 3;
const AHEAD: u64 = 1 << 4;
const DEVICE_SHIFT: u32 = 8;
const FILE_SHIFT: u32 = 32;

struct Entry {
    /// Rules that match the path. Stored before `what`.
    rules: AtomicU64,
    what: AtomicU64,
    /// Where the latest read has ended, how much was read in order up to there, and up to where
    /// was read ahead, or 0.
    next_offset: AtomicU64,
    in_order: AtomicU64,
    ahead_end: AtomicU64,
    /// What was written and is not being written back yet: from where to where.
    gathered: [AtomicU64; 2],
    /// All that was written and was not written back lies between: the complement of where that
    /// begins, so that zeros say nothing was, and where it ends.
    unsynced: [AtomicU64; 2],
}

static ENTRIES: [Entry; DESCRIPTORS_MAX] = [const {
    Entry {
        rules: AtomicU64::new(0),
        what: AtomicU64::new(0),
        next_offset: AtomicU64::new(0),
        in_order: AtomicU64::new(0),
        ahead_end: AtomicU64::new(0),
        gathered: [const { AtomicU64::new(0) }; 2],
        unsynced: [const { AtomicU64::new(0) }; 2],
    }
}; DESCRIPTORS_MAX];

/// A file on a device with a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Rules that match its path.
    pub rules: u64,
    /// Whether it goes past the page cache.
    pub direct: bool,
    /// Whether a write is durable when it ends.
    pub durable: bool,
    /// The kernel reads nothing ahead of its own: the library does.
    pub ahead: bool,
    /// Entry of its device.
    pub device: u8,
    /// Names the file.
    pub file: u32,
}

/// What is behind a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// It cannot be said, or not yet.
    Unknown,
    /// Nothing that is scheduled.
    NoDisk,
    /// A file on a device with a scheduler.
    File(Known),
}

/// The file behind a descriptor, if its requests are scheduled.
pub fn find(memory: &Memory, descriptor: i32) -> Option<Known> {
    match behind(memory, descriptor) {
        Behind::File(known) => Some(known),
        _ => None,
    }
}

/// The same, and why there is none.
pub fn behind(memory: &Memory, descriptor: i32) -> Behind {
    let index = usize::try_from(descriptor).ok();
    let Some(entry) = index.and_then(|index| ENTRIES.get(index)) else {
        return Behind::Unknown;
    };
    let mut what = entry.what.load(Ordering::Acquire);
    if what & VALID == 0 {
        match look(memory, descriptor, entry) {
            Some(found) => what = found,
            None => return Behind::Unknown,
        }
    }
    entry.known(what).map_or(Behind::NoDisk, Behind::File)
}

/// The file behind a descriptor, if it is known already. For who cannot tell whether it is still
/// open: what was looked up while it is closed would stand for the next file with the number.
pub fn seen(descriptor: i32) -> Option<Known> {
    let entry = entry(descriptor)?;
    entry.known(entry.what.load(Ordering::Acquire))
}

impl Entry {
    fn known(&self, what: u64) -> Option<Known> {
        (what & SCHEDULED != 0).then(|| Known {
            rules: self.rules.load(Ordering::Relaxed),
            direct: what & DIRECT != 0,
            durable: what & DURABLE != 0,
            ahead: what & AHEAD != 0,
            device: (what >> DEVICE_SHIFT) as u8,
            file: (what >> FILE_SHIFT) as u32,
        })
    }
}

/// Notes a read. How much was read in order up to where it begins: 0 if the one before has ended
/// elsewhere. In order is, as for the kernel, what begins in the page where that ended or the next one:
/// records need not be whole pages.
pub fn in_order(descriptor: i32, offset: u64, length: usize) -> u64 {
    let Some(entry) = entry(descriptor) else {
        return 0;
    };
    let length = length as u64;
    let end = offset.saturating_add(length);
    let last = entry.next_offset.swap(end, Ordering::Relaxed);
    // Nothing was read from a file where that is 0, or more than a file can have.
    let last_page = last.wrapping_sub(1) / PAGE_BYTES;
    if (offset / PAGE_BYTES).wrapping_sub(last_page) <= 1 {
        entry.in_order.fetch_add(length, Ordering::Relaxed)
    } else {
        entry.in_order.store(length, Ordering::Relaxed);
        0
    }
}

/// Up to where was read ahead, or 0.
pub fn ahead_end(descriptor: i32) -> u64 {
    entry(descriptor).map_or(0, |entry| entry.ahead_end.load(Ordering::Relaxed))
}

/// Something was read ahead, or (0) no more is.
pub fn set_ahead_end(descriptor: i32, end: u64) {
    if let Some(entry) = entry(descriptor) {
        entry.ahead_end.store(end, Ordering::Relaxed);
    }
}

fn entry(descriptor: i32) -> Option<&'static Entry> {
    usize::try_from(descriptor)
        .ok()
        .and_then(|index| ENTRIES.get(index))
}

/// Notes a write. What is to be written back now, from where and how much: what was gathered, if
/// this does not follow it, or all of it once it is as much as `most`. Of two threads that write
/// at once, one may go unnoticed; a sync writes that back.
pub fn gather(descriptor: i32, from: u64, end: u64, most: u64) -> Option<(u64, u64)> {
    let entry = ENTRIES.get(usize::try_from(descriptor).ok()?)?;
    let [first, last] = &entry.gathered;
    let (old_from, old_end) = (first.load(Ordering::Relaxed), last.load(Ordering::Relaxed));
    let follows = old_end == from && old_from < old_end;
    let from = if follows { old_from } else { from };
    if follows && end - from >= most {
        first.store(0, Ordering::Relaxed);
        last.store(0, Ordering::Relaxed);
        return Some((from, end - from));
    }
    first.store(from, Ordering::Relaxed);
    last.store(end, Ordering::Relaxed);
    (!follows && old_from < old_end).then(|| (old_from, old_end - old_from))
}

/// Notes that `from..end` was written.
pub fn wrote(descriptor: i32, from: u64, end: u64) {
    if let Some([first, last]) = unsynced(descriptor) {
        first.fetch_max(!from, Ordering::Relaxed);
        last.fetch_max(end, Ordering::Relaxed);
    }
}

/// Notes that `from..end` was written back.
pub fn wrote_back(descriptor: i32, from: u64, end: u64) {
    let Some([first, _]) = unsynced(descriptor) else {
        return;
    };
    let old = first.load(Ordering::Relaxed);
    if (from..end).contains(&!old) {
        // Who writes before it at this moment has the last word.
        let _ = first.compare_exchange(old, !end, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// All that was written through the descriptor since this was asked, and not written back, lies
/// between these two. Of a write at the same moment it may know nothing.
pub fn take_unsynced(descriptor: i32) -> Option<(u64, u64)> {
    let [first, last] = unsynced(descriptor)?;
    let from = !first.swap(0, Ordering::Relaxed);
    let end = last.swap(0, Ordering::Relaxed);
    (from < end).then_some((from, end))
}

fn unsynced(descriptor: i32) -> Option<&'static [AtomicU64; 2]> {
    let index = usize::try_from(descriptor).ok()?;
    ENTRIES.get(index).map(|entry| &entry.unsynced)
}

/// The descriptor is about to name another file, or has other flags.
pub fn forget(descriptor: i32) {
    if let Some(entry) = usize::try_from(descriptor)
        .ok()
        .and_then(|index| ENTRIES.get(index))
    {
        entry.what.store(0, Ordering::Release);
    }
}

/// The same for a range, both ends included.
pub fn forget_range(first: u32, last: u32) {
    let last = (last as usize).min(DESCRIPTORS_MAX - 1);
    for entry in ENTRIES.iter().take(last + 1).skip(first as usize) {
        // Pages that were never used stay untouched.
        if entry.what.load(Ordering::Relaxed) != 0 {
            entry.what.store(0, Ordering::Release);
        }
    }
}

/// `None` if it is not known yet.
fn look(memory: &Memory, descriptor: i32, entry: &Entry) -> Option<u64> {
    let stat = file::stat(descriptor)?;
    let what = match disk_of(&stat) {
        None => VALID,
        Some(number) => {
            let (device, state) = device_entry(memory, number)?;
            if state == DeviceState::Scheduled {
                // Without a path only what matches any path does, which the empty one shows.
                let rules = file::with_path(descriptor, |path| memory.rules.of_path(path))
                    .unwrap_or_else(|| memory.rules.of_path(b""));
                entry.rules.store(rules, Ordering::Relaxed);
                for end in entry.gathered.iter().chain(&entry.unsynced) {
                    end.store(0, Ordering::Relaxed);
                }
                entry.next_offset.store(u64::MAX, Ordering::Relaxed);
                entry.ahead_end.store(0, Ordering::Relaxed);
                let (direct, durable) = file::flags(descriptor);
                let ahead = !direct && memory.rules.sinks_buffered(rules);
                if ahead {
                    // Otherwise a read that the page cache serves would begin others,
                    // which nobody could schedule.
                    file::read_nothing_ahead(descriptor);
                }
                VALID
                    | SCHEDULED
                    | if direct { DIRECT } else { 0 }
                    | if durable { DURABLE } else { 0 }
                    | if ahead { AHEAD } else { 0 }
                    | (device as u64) << DEVICE_SHIFT
                    | u64::from(name_of(&stat)) << FILE_SHIFT
            } else {
                VALID
            }
        }
    };
    entry.what.store(what, Ordering::Release);
    Some(what)
}

/// The number of the device that the file is on, or is.
fn disk_of(stat: &Stat) -> Option<u64> {
    if stat.is_regular {
        Some(stat.device)
    } else if stat.is_block_device {
        Some(stat.special_device)
    } else {
        None
    }
}

/// A hash. Two files of one name delay each other where they overlap, no more.
pub fn name_of(stat: &Stat) -> u32 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (stat.inode ^ stat.device.rotate_left(32)).wrapping_mul(ODD);
    (mixed >> 32) as u32
}

/// Finds or takes the device's entry, and asks the broker if it is new.
fn device_entry(memory: &Memory, number: u64) -> Option<(usize, DeviceState)> {
    for (index, entry) in memory.devices.iter().enumerate() {
        if entry.number().is_none() {
            entry.take(number);
        }
        if entry.number() == Some(number) {
            return Some((index, answer(memory, entry)?));
        }
    }
    // More devices than there are entries: nothing is scheduled on this one.
    Some((0, DeviceState::Passed))
}

fn answer(memory: &Memory, entry: &DeviceEntry) -> Option<DeviceState> {
    const STEP_NS: u64 = 20_000_000;
    if entry.state() == DeviceState::Asked {
        memory.header.ring(true);
        let until_ns = clock::now_ns() + ANSWER_NS_MAX;
        while entry.state() == DeviceState::Asked {
            if clock::now_ns() > until_ns || memory.header.is_over() {
                return None;
            }
            futex::wait(entry.word(), DeviceState::Asked as u32, STEP_NS);
        }
    }
    Some(entry.state())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_has_looked_up_is_not_seen() {
        let file = tempfile::tempfile().unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        let entry = entry(descriptor).unwrap();
        assert_eq!(seen(descriptor), None);
        let device = 3 << DEVICE_SHIFT | 9 << FILE_SHIFT;
        entry.what.store(VALID | device, Ordering::Release);
        assert_eq!(seen(descriptor), None, "on no disk");
        entry
            .what
            .store(VALID | SCHEDULED | DIRECT | device, Ordering::Release);
        let known = seen(descriptor).unwrap();
        assert_eq!((known.device, known.file, known.direct), (3, 9, true));
        forget(descriptor);
        assert_eq!(seen(descriptor), None);
        assert_eq!(seen(-1), None);
    }

    #[test]
    fn reads_in_order_are_counted_from_where_they_began() {
        // A number that no open file has here.
        let descriptor = DESCRIPTORS_MAX as i32 - 3;
        let before = |offset, length| in_order(descriptor, offset, length);
        assert_eq!(before(4096, 100), 0);
        assert_eq!(before(4196, 100), 100);
        assert_eq!(before(4296, 50), 200);
        assert_eq!(before(0, 10), 0, "elsewhere");
        assert_eq!(before(10, 10), 10);
        assert_eq!(before(8000, 1000), 20, "in the next page");
        assert_eq!(before(16_384, 10), 0, "a page was passed over");
        assert_eq!(before(8192, 10), 0, "backwards");
        assert_eq!(in_order(-1, 0, 1), 0);
    }

    #[test]
    fn what_was_written_is_gathered_until_something_else_is() {
        // A number that no open file has here.
        let descriptor = DESCRIPTORS_MAX as i32 - 1;
        let wrote = |from, end| gather(descriptor, from, end, 100);
        assert_eq!(wrote(0, 40), None);
        assert_eq!(wrote(40, 80), None);
        assert_eq!(wrote(80, 120), Some((0, 120)), "enough");
        assert_eq!(wrote(120, 130), None);
        assert_eq!(wrote(500, 540), Some((120, 10)));
        assert_eq!(wrote(510, 520), Some((500, 40)), "written again");
        assert_eq!(gather(-1, 0, 1, 100), None);
    }

    #[test]
    fn what_is_not_written_back_lies_between_two_places() {
        // Another number that no open file has here.
        let descriptor = DESCRIPTORS_MAX as i32 - 2;
        assert_eq!(take_unsynced(descriptor), None);
        wrote(descriptor, 0, 100);
        wrote(descriptor, 100, 200);
        assert_eq!(take_unsynced(descriptor), Some((0, 200)));
        assert_eq!(take_unsynced(descriptor), None);
        wrote(descriptor, 500, 600);
        wrote(descriptor, 300, 400);
        wrote_back(descriptor, 500, 600);
        assert_eq!(take_unsynced(descriptor), Some((300, 600)), "the end only");
        wrote(descriptor, 300, 400);
        wrote(descriptor, 400, 500);
        wrote_back(descriptor, 300, 400);
        assert_eq!(take_unsynced(descriptor), Some((400, 500)));
        wrote(descriptor, 300, 400);
        wrote_back(descriptor, 200, 400);
        assert_eq!(take_unsynced(descriptor), None, "all of it");
        wrote(-1, 0, 1);
        assert_eq!(take_unsynced(-1), None);
    }
}
