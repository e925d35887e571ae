//! Unsafe code of the tests: an allocator that counts, for those of how much
//! memory is taken, and child processes.

#[allow(dead_code, reason = "each test binary uses its own part")]
pub mod fork;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// How often this process has asked for memory.
#[allow(dead_code, reason = "each test binary uses its own part")]
pub fn allocations() -> usize {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// How much of it this process holds.
#[allow(dead_code, reason = "each test binary uses its own part")]
pub fn allocated_bytes() -> usize {
    BYTES.load(Ordering::Relaxed)
}

#[allow(dead_code, reason = "each test binary uses its own part")]
pub struct Counting;

// SAFETY: every call is handed to the system's allocator with its arguments
// unchanged. The counters are plain atomics, so that touching them never
// allocates.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `block` came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}
