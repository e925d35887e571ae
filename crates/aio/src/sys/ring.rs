//! The events of a context, laid out as the kernel's own ring, which it maps
//! into programs: some (QEMU, fio's `userspace_reap`) take events from it by
//! themselves.

use super::abi::IoEvent;
use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

// fs/aio.c
const AIO_RING_MAGIC: u32 = 0xa10a_10a1;
const AIO_RING_COMPAT_FEATURES: u32 = 1;

/// `struct aio_ring`; the events follow.
#[repr(C, align(64))]
struct Header {
    id: u32,
    /// Entries of the ring; all in use when `tail` is one behind `head`.
    nr: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compat_features: u32,
    incompat_features: u32,
    header_length: u32,
}

/// `struct aio_ring` has no padding behind these.
const HEADER_BYTES: usize = 32;

/// One producer, under its owner's lock, and one consumer, under another; the
/// program may be the latter, without a lock.
pub(crate) struct Ring {
    start: NonNull<u8>,
    layout: Layout,
    entries: u32,
}

// SAFETY: the memory is the ring's own, and shared by atomics and the contract
// of `push` and `take`.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// For `events` at the same time, few enough for their count to fit.
    pub(crate) fn new(events: u32) -> Ring {
        // One stays empty, which tells a full ring from an empty one.
        let entries = events + 1;
        let bytes = HEADER_BYTES + entries as usize * size_of::<IoEvent>();
        let layout = Layout::from_size_align(bytes.max(size_of::<Header>()), align_of::<Header>())
            .expect("the number of events is bounded");
        // SAFETY: the size is not zero.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            alloc::handle_alloc_error(layout)
        };
        let header = Header {
            id: 0,
            nr: entries,
            head: AtomicU32::new(0),
            tail: AtomicU32::new(0),
            magic: AIO_RING_MAGIC,
            compat_features: AIO_RING_COMPAT_FEATURES,
            incompat_features: 0,
            header_length: HEADER_BYTES as u32,
        };
        // SAFETY: the memory is large enough, aligned, and nobody else's yet;
        // the header's last 32 bytes are padding, which later events overwrite.
        unsafe { start.cast::<Header>().write(header) };
        Ring {
            start,
            layout,
            entries,
        }
    }

    /// What the program knows the context by.
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    fn cursors(&self) -> (&AtomicU32, &AtomicU32) {
        let header = self.start.cast::<Header>().as_ptr();
        // SAFETY: both are initialised, inside the ring's memory, and only ever
        // changed as atomics (by a program, as aligned words).
        unsafe { (&(*header).head, &(*header).tail) }
    }

    fn event(&self, index: u32) -> *mut IoEvent {
        let offset = HEADER_BYTES + (index % self.entries) as usize * size_of::<IoEvent>();
        self.start.as_ptr().wrapping_add(offset).cast()
    }

    /// How many events there are. A program that takes events by itself only
    /// makes them fewer.
    pub(crate) fn len(&self) -> u32 {
        let (head, tail) = self.cursors();
        let head = head.load(Ordering::Acquire) % self.entries;
        let tail = tail.load(Ordering::Acquire) % self.entries;
        (tail + self.entries - head) % self.entries
    }

    /// Adds an event, for which there is room; by one thread at a time.
    pub(crate) fn push(&self, event: IoEvent) {
        debug_assert!(self.len() + 1 < self.entries);
        let (_, tail) = self.cursors();
        let at = tail.load(Ordering::Relaxed) % self.entries;
        // SAFETY: the place lies in the ring's memory, and no consumer looks at
        // it before the tail has passed it.
        unsafe { self.event(at).write_unaligned(event) };
        tail.store((at + 1) % self.entries, Ordering::Release);
    }

    /// Takes the oldest event; by one thread at a time.
    pub(crate) fn take(&self) -> Option<IoEvent> {
        if self.len() == 0 {
            return None;
        }
        let (head, _) = self.cursors();
        let at = head.load(Ordering::Relaxed) % self.entries;
        // SAFETY: the producer wrote it before it moved the tail past it.
        let event = unsafe { self.event(at).read_unaligned() };
        head.store((at + 1) % self.entries, Ordering::Release);
        Some(event)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_around_the_end() {
        let ring = Ring::new(3);
        assert_eq!(ring.take(), None);
        let mut taken = 0;
        for data in 0..20u64 {
            let event = IoEvent {
                data,
                ..IoEvent::default()
            };
            ring.push(event);
            if data % 3 != 0 {
                continue;
            }
            while let Some(event) = ring.take() {
                assert_eq!(event.data, taken);
                taken += 1;
            }
            assert_eq!(ring.len(), 0);
        }
        assert_eq!(taken, 19);
        assert_eq!(ring.len(), 1);
    }
}
