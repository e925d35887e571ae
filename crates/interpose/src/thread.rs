//! What is remembered of a thread: how much it has read lately, and its name.
//!
//! A query that reads some pages is foreground. One that goes on reading is a
//! scan, whatever it is called: its reads sink. The next request of its client,
//! or a pause, makes the thread foreground again.

use std::cell::Cell;

use iolane_protocol::{DeviceEntry, Memory, is_urgent_lately};

use crate::sys::environment;

/// A read counts once for each so many bytes: an InnoDB page.
const READ_UNIT_BYTES: u32 = 16 << 10;
/// After so many, a query is one that reads much: a look-up by an index needs as many
/// as its trees are high, and a short range a few more.
const READS_SHORT: u32 = 24;
/// After so many it is a scan.
pub const READS_LONG: u32 = 512;
/// Levels that are sunk to: `Prefetch`, then `Background`.
const LEVEL_LONGER: u8 = 3;
pub const LEVEL_SCAN: u8 = 4;
/// A thread that read nothing for so long does something else now.
const PAUSE_NS: u64 = 100_000_000;
/// The name is looked at once in so many requests: threads are renamed after they began.
const NAME_REQUESTS: u32 = 64;

struct State {
    /// Where the next free cell is looked for.
    hint: Cell<u32>,
    reads: Cell<u32>,
    last_read_ns: Cell<u64>,
    requests: Cell<u32>,
    rules: Cell<u64>,
    submits: Cell<bool>,
    /// When it last waited for a disk itself, and when another thread was seen to.
    own_urgent_ns: Cell<u64>,
    others_urgent_ns: Cell<u64>,
}

thread_local! {
    // Without a destructor and constant: no allocation, nothing to register.
    static STATE: State = const {
        State {
            hint: Cell::new(0),
            reads: Cell::new(0),
            last_read_ns: Cell::new(0),
            requests: Cell::new(0),
            rules: Cell::new(0),
            submits: Cell::new(false),
            own_urgent_ns: Cell::new(0),
            others_urgent_ns: Cell::new(0),
        }
    };
}

/// The level of a read that would have `level` if its thread had read little.
pub fn sunk_level(level: u8, now_ns: u64) -> u8 {
    STATE.with(|state| {
        if now_ns > state.last_read_ns.get() + PAUSE_NS {
            state.reads.set(0);
        }
        match state.reads.get() {
            0..READS_SHORT => level,
            READS_SHORT..READS_LONG => level.max(LEVEL_LONGER),
            _ => level.max(LEVEL_SCAN),
        }
    })
}

/// A number that no other thread of the process has at the same time.
pub fn identity() -> usize {
    STATE.with(|state| std::ptr::from_ref(state).addr())
}

/// The thread has submitted something asynchronous.
pub fn has_submitted() {
    STATE.with(|state| state.submits.set(true));
}

/// Whether it ever has: other threads wait for nothing of their own.
pub fn submits() -> bool {
    STATE.with(|state| state.submits.get())
}

/// Whether the thread has read so much that it goes on reading.
pub fn reads_on(now_ns: u64) -> bool {
    sunk_level(0, now_ns) > 0
}

/// A request of the thread's own that it waited for, by when it came.
pub fn has_waited(asked_ns: u64) {
    STATE.with(|state| state.own_urgent_ns.set(asked_ns));
}

/// Whether no other thread waited for the disk a moment ago, as far as this one has seen. Where both
/// did, the disk remembers the later one.
pub fn is_alone(device: &DeviceEntry, now_ns: u64) -> bool {
    STATE.with(|state| {
        let last_ns = device.last_urgent_ns();
        if last_ns != state.own_urgent_ns.get() {
            state.others_urgent_ns.set(last_ns);
        }
        !is_urgent_lately(state.others_urgent_ns.get(), now_ns)
    })
}

/// A read from the device has ended.
pub fn has_read(length: u32, now_ns: u64) {
    STATE.with(|state| {
        let reads = length.div_ceil(READ_UNIT_BYTES).max(1);
        state.reads.set(state.reads.get().saturating_add(reads));
        state.last_read_ns.set(now_ns);
    });
}

/// The client has sent something: what comes now is another query.
pub fn was_asked() {
    STATE.with(|state| state.reads.set(0));
}

/// The rules that match the thread's name.
pub fn rules(memory: &Memory) -> u64 {
    if memory.rules.ignores_threads() {
        return u64::MAX;
    }
    STATE.with(|state| {
        let requests = state.requests.get();
        state.requests.set(requests.wrapping_add(1));
        if requests.is_multiple_of(NAME_REQUESTS) {
            let rules = environment::with_thread_name(|name| memory.rules.of_thread(name));
            state.rules.set(rules);
        }
        state.rules.get()
    })
}

/// Where to look for a free cell: behind the one that was taken last, and in another
/// place than other threads.
pub fn hint(first: impl Fn() -> u32) -> u32 {
    STATE.with(|state| {
        if state.hint.get() == 0 {
            state.hint.set(first() | 1);
        }
        state.hint.get()
    })
}

/// The cell that was taken.
pub fn set_hint(taken: u32) {
    STATE.with(|state| state.hint.set(taken + 1));
}

#[cfg(test)]
mod tests {
    use iolane_protocol::URGENT_RECENT_NS;

    use super::*;

    /// The device's stamp is set as processes set it.
    #[test]
    fn own_requests_do_not_count_as_others() {
        let device = DeviceEntry::free();
        let now_ns = 1 << 30;
        assert!(is_alone(&device, now_ns));
        device.admits(1, now_ns);
        has_waited(now_ns);
        assert!(is_alone(&device, now_ns + 1));
        device.admits(0, now_ns + 2);
        assert!(!is_alone(&device, now_ns + 3));
        device.admits(1, now_ns + 4);
        has_waited(now_ns + 4);
        assert!(!is_alone(&device, now_ns + 5), "a moment ago");
        device.admits(4, now_ns + 6);
        assert!(is_alone(&device, now_ns + 3 + URGENT_RECENT_NS));
    }

    #[test]
    fn a_scan_sinks_and_the_next_query_rises() {
        let mut now_ns = 1 << 30;
        assert_eq!(sunk_level(1, now_ns), 1);
        for _ in 0..READS_SHORT {
            has_read(4096, now_ns);
        }
        assert_eq!(sunk_level(1, now_ns), LEVEL_LONGER);
        has_read(READS_LONG * READ_UNIT_BYTES, now_ns);
        assert_eq!(sunk_level(1, now_ns), LEVEL_SCAN);
        was_asked();
        assert_eq!(sunk_level(1, now_ns), 1);
        has_read(READS_LONG * READ_UNIT_BYTES, now_ns);
        now_ns += PAUSE_NS + 1;
        assert_eq!(sunk_level(1, now_ns), 1);
        assert_eq!(sunk_level(4, now_ns), 4);
    }
}
