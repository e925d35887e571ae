//! The memory of pages that were read ahead, and of branch pages that have gone by.

use std::cell::UnsafeCell;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};

use iolane_protocol::sys::raw::syscall6;

use super::memory;
use crate::ahead::mailbox::BRANCHES_MAX;
use crate::ahead::page::PAGE_BYTES_MAX;

#[repr(align(4096))]
struct Branches([UnsafeCell<[u8; PAGE_BYTES_MAX]>; BRANCHES_MAX]);

// SAFETY: each place has one owner at a time, by its word in the mailbox.
unsafe impl Sync for Branches {}

static BRANCHES: Branches =
    Branches([const { UnsafeCell::new([0; PAGE_BYTES_MAX]) }; BRANCHES_MAX]);

/// Copies what lies in the program's memory, if there is anything: that a write was submitted does
/// not say so.
pub fn copy_if_there(address: usize, to: &mut [u8]) -> bool {
    memory::copy_from(address, to)
}

/// Copies a branch page, if there is one. Only the owner of the place calls this.
pub fn keep_branch_if_there(place: usize, address: usize, length: usize) -> bool {
    // SAFETY: the caller owns the place.
    let kept = unsafe { &mut *BRANCHES.0[place].get() };
    copy_if_there(address, &mut kept[..length])
}

/// Copies a branch page. Only the owner of the place calls this.
pub fn keep_branch(place: usize, page: &[u8]) {
    // SAFETY: the caller owns the place.
    let kept = unsafe { &mut *BRANCHES.0[place].get() };
    kept[..page.len()].copy_from_slice(page);
}

/// Looks at one. Only the owner of the place calls this.
pub fn with_branch(place: usize, length: usize, look: impl FnOnce(&[u8])) {
    // SAFETY: the caller owns the place.
    let kept = unsafe { &*BRANCHES.0[place].get() };
    look(&kept[..length.min(PAGE_BYTES_MAX)]);
}

/// Where the frames lie, once there are any.
static FRAMES: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Takes memory for all frames, for as long as the process lives. Not before it is used does
/// it take any.
pub fn map_frames(bytes: usize) -> bool {
    let arguments = [
        0,
        bytes,
        (libc::PROT_READ | libc::PROT_WRITE) as usize,
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize,
        usize::MAX,
        0,
    ];
    // SAFETY: a new mapping at an address that the kernel chooses.
    let result = unsafe { syscall6(libc::SYS_mmap, arguments) };
    if (-4095..0).contains(&result) {
        return false;
    }
    let address = ptr::with_exposed_provenance_mut(result as usize);
    FRAMES.store(address, Ordering::Release);
    true
}

/// The address of a frame.
pub fn frame(index: usize, page_bytes: usize) -> usize {
    FRAMES
        .load(Ordering::Acquire)
        .wrapping_add(index * page_bytes)
        .expose_provenance()
}

/// A frame that the kernel has filled, and that nobody fills now.
pub fn with_frame<T>(index: usize, page_bytes: usize, look: impl FnOnce(&[u8]) -> T) -> T {
    let first = FRAMES.load(Ordering::Acquire);
    // SAFETY: the frames were mapped, and the caller holds this one.
    look(unsafe { slice::from_raw_parts(first.add(index * page_bytes), page_bytes) })
}

/// Copies a frame into the memory that the program reads into; whether that is there, and may be written.
///
/// # Safety
/// As for [`memory::copy_to`].
pub unsafe fn copy_frame(index: usize, page_bytes: usize, to: usize) -> bool {
    // SAFETY: the caller's promise; the frame is held, and is not the program's memory.
    with_frame(index, page_bytes, |page| unsafe {
        memory::copy_to(page, to)
    })
}

/// What the program has read or is about to write.
///
/// # Safety
/// There are so many bytes, as for read(2) and write(2) that succeed.
pub unsafe fn with_buffer<T>(address: usize, length: usize, look: impl FnOnce(&[u8]) -> T) -> T {
    // SAFETY: the caller's promise.
    look(unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address), length) })
}
