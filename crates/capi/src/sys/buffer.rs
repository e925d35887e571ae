//! Memory for transfers.

use super::pointers::{free, give, object};
use crate::failure::{Failure, code_of};
use ::engine::{Arena, Buffer};
use std::ffi::c_void;

/// One large mapping, on huge pages where possible, that buffers come from.
pub struct iolane_arena(pub(super) Arena);

/// Aligned memory for direct I/O. Requests take any memory; this is aligned.
pub struct iolane_buffer {
    buffer: Buffer,
    /// Taken once: later uses go by this address alone.
    start: *mut c_void,
}

/// Maps `bytes` of memory and brings all of it in, on hugetlbfs pages,
/// transparent huge pages or plain ones, whichever is to be had. Blocks some
/// tenths of a second per GiB. Fails with IOLANE_ERROR_MEMORY or
/// IOLANE_ERROR_ARGUMENT. To be freed by iolane_arena_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_arena_new(bytes: u64, arena: *mut *mut iolane_arena) -> i32 {
    let made = Arena::builder().bytes(bytes).build();
    // SAFETY: C's promise.
    code_of(
        made.map_err(Failure::from)
            .and_then(|made| unsafe { give(arena, iolane_arena(made)) }),
    )
}

/// Frees an arena; its memory is unmapped when its last buffer and the engines
/// that know it are freed. NULL is allowed. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_arena_free(arena: *mut iolane_arena) {
    // SAFETY: from `iolane_arena_new`, and freed once.
    unsafe { free(arena) }
}

/// A buffer of `length` bytes at a multiple of `alignment` bytes, a power of two
/// (0: 4096), from `arena`, or with NULL standing alone and zeroed. Never blocks.
/// Fails with IOLANE_ERROR_MEMORY, _ARGUMENT or _FORKED; a machine out of memory
/// ends the process. To be freed by iolane_buffer_free().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_buffer_new(
    arena: *const iolane_arena,
    length: usize,
    alignment: usize,
    buffer: *mut *mut iolane_buffer,
) -> i32 {
    let alignment = match alignment {
        0 => 4096,
        alignment => alignment,
    };
    // SAFETY: C's promise.
    let made = match unsafe { arena.as_ref() } {
        Some(arena) => arena.0.buffer_aligned(length, alignment),
        None => Buffer::with_alignment(length, alignment),
    };
    // SAFETY: C's promise.
    code_of(made.map_err(Failure::from).and_then(|mut made| unsafe {
        let start = made.as_mut_ptr().cast();
        let buffer_ = iolane_buffer {
            buffer: made,
            start,
        };
        give(buffer, buffer_)
    }))
}

/// First byte of a buffer; NULL for NULL. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_buffer_data(buffer: *const iolane_buffer) -> *mut c_void {
    // SAFETY: C's promise.
    match unsafe { object(buffer, "buffer") } {
        Ok(buffer) => buffer.start,
        Err(failure) => {
            failure.report();
            std::ptr::null_mut()
        }
    }
}

/// Bytes of a buffer; 0 for NULL. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_buffer_length(buffer: *const iolane_buffer) -> usize {
    // SAFETY: C's promise.
    match unsafe { object(buffer, "buffer") } {
        Ok(buffer) => buffer.buffer.len(),
        Err(failure) => {
            failure.report();
            0
        }
    }
}

/// Frees a buffer. No request may be using it. NULL is allowed. Never blocks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_buffer_free(buffer: *mut iolane_buffer) {
    // SAFETY: from `iolane_buffer_new`, and freed once.
    unsafe { free(buffer) }
}
