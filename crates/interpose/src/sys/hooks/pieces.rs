//! Large reads while others wait for the disk: in pieces, each with leave of its own, so that
//! the thread soon sinks. Otherwise a backup that reads 10 MB at once has a volume with a limit
//! of bytes for half a second.

use std::ffi::{c_int, c_void};

use iolane_protocol::Call;
use iolane_protocol::sys::clock;
use libc::ssize_t;

use super::around;
use super::pacing::{self, leader};
use crate::client;
use crate::descriptor::{self, Known};
use crate::sys::real;
use crate::thread;

const PIECE_BYTES: usize = pacing::PIECE_BYTES as usize;
/// What a read past the page cache is a multiple of where the kernel takes it; one that is not is
/// refused as a whole.
const DIRECT_BYTES: usize = 4096;

/// A read at a place.
///
/// # Safety
/// As for pread(2) into `buffer`.
pub unsafe fn read_in_pieces(
    call: Call,
    descriptor: c_int,
    offset: Option<i64>,
    length: usize,
    buffer: usize,
    do_it: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let is_large = length > PIECE_BYTES && length <= ssize_t::MAX as usize;
    let place = offset.filter(|&offset| {
        let end = i64::try_from(length)
            .ok()
            .and_then(|length| offset.checked_add(length));
        is_large && offset >= 0 && end.is_some() && is_in_the_way(descriptor, length)
    });
    let Some(place) = place else {
        // SAFETY: the caller's promise.
        return unsafe { around::read_page(call, descriptor, offset, length, buffer, do_it) };
    };
    // SAFETY: the calling thread's own.
    let error_before = unsafe { *libc::__errno_location() };
    let mut done = 0;
    while done < length {
        let piece = (length - done).min(PIECE_BYTES);
        let at = place + done as i64;
        let into: *mut c_void = std::ptr::with_exposed_provenance_mut(buffer.wrapping_add(done));
        let result = around::read(call, descriptor, Some(at), piece, || {
            // SAFETY: the caller's promise, for a part of the buffer.
            unsafe { real::pread64(descriptor, into, piece, at) }
        });
        match usize::try_from(result) {
            Ok(count) => {
                done += count;
                if count < piece {
                    break;
                }
            }
            Err(_) if done == 0 => return result,
            // Whether what was read before counts depends on what is behind the descriptor: past
            // the page cache it does not where memory is missing.
            Err(_) => {
                // SAFETY: the calling thread's own. The call may succeed, and leaves it then.
                unsafe { *libc::__errno_location() = error_before };
                return do_it();
            }
        }
    }
    done as ssize_t
}

/// Whether other threads waited for the disk a moment ago, and the kernel takes pieces if it takes the whole.
fn is_in_the_way(descriptor: c_int, length: usize) -> bool {
    let Some(client) = client::current() else {
        return false;
    };
    let takes_pieces = |known: &Known| !known.direct || length.is_multiple_of(DIRECT_BYTES);
    let known = descriptor::find(client.memory, descriptor).filter(takes_pieces);
    known.is_some_and(|known| !thread::is_alone(leader(client, &known), clock::now_ns()))
}
