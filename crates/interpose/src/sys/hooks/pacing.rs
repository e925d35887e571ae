//! Write-back of what goes through the page cache. Left alone, the kernel lets changes gather for
//! half a minute and then writes thousands of pages at once, and a commit's sync waits behind
//! them. Here they go soon and evenly: in files whose rule is `paced`.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use iolane_protocol::sys::clock;
use iolane_protocol::{Call, DEVICES_MAX, DeviceEntry, KIND_WRITE};
use libc::ssize_t;

use super::around::{fail, known, request, scheduled};
use crate::client::{self, Client};
use crate::descriptor::{self, Known};
use crate::sys::{file, residency};
use crate::thread;
use crate::ticket::{self, Request};

/// What goes to the disk as one: as much as volumes with a limit of requests take as one, and little
/// enough that whoever comes meanwhile does not wait for long.
pub const PIECE_BYTES: u64 = 256 << 10;

/// The process asks for write-back by itself, with `sync_file_range`, and knows better what
/// belongs together: a checkpointer.
static ASKS_ITSELF: AtomicBool = AtomicBool::new(false);

/// The write-back of a range, which the program asks for.
pub fn write_back(
    call: Call,
    descriptor: c_int,
    offset: i64,
    length: i64,
    do_it: impl FnOnce() -> c_int,
) -> c_int {
    let Some(known) = known(call, descriptor).filter(|known| !known.direct) else {
        return do_it();
    };
    ASKS_ITSELF.store(true, Ordering::Relaxed);
    // A length of 0 is all that follows: too much for one request.
    let length = usize::try_from(length).unwrap_or(0);
    let Some(request) = request(KIND_WRITE, descriptor, Some(offset), length) else {
        return do_it();
    };
    let mut error = 0;
    let result = scheduled(call, &known, &request, || {
        let result = do_it() as ssize_t;
        if result == 0 {
            // The place is given back when the disk has it.
            error = file::write_back(descriptor, request.offset, length as u64);
        }
        result
    }) as c_int;
    // The kernel tells an error once, and it was told here.
    if error < 0 { fail(error) } else { result }
}

/// Bytes went into the page cache. They are written back when the next ones do not follow them,
/// or when they are many. A thread that goes on reading and writing waits for leave and for the
/// disk. A query does not, and only while a scan or a backup goes on: otherwise the kernel does it,
/// and what is written twice in half a minute goes to the disk once. `count`, or -1 if an error of the write-back was told here.
pub fn wrote(
    call: Call,
    descriptor: c_int,
    known: &Known,
    offset: Option<i64>,
    count: usize,
) -> ssize_t {
    let paced = || client::current().filter(|&client| ticket::is_paced(client, known));
    let Some(client) = paced().filter(|_| !ASKS_ITSELF.load(Ordering::Relaxed)) else {
        return count as ssize_t;
    };
    let end = match offset.and_then(|offset| u64::try_from(offset).ok()) {
        Some(offset) => offset + count as u64,
        None => file::position(descriptor),
    };
    let from = end.saturating_sub(count as u64);
    descriptor::wrote(descriptor, from, end);
    if let Some((from, length)) = descriptor::gather(descriptor, from, end, PIECE_BYTES) {
        let now_ns = clock::now_ns();
        if thread::reads_on(now_ns) {
            let result = write_back_with_leave(call, descriptor, known, from, length);
            if result < 0 {
                return fail(result) as ssize_t;
            }
            descriptor::wrote_back(descriptor, from, from + length);
        } else if leader(client, known).background_lately(now_ns) {
            file::begin_write_back(descriptor, from, length);
        }
        thread::has_read(length as u32, now_ns);
    }
    count as ssize_t
}

/// Writes back what changed, in requests of its own. Gives the error that the kernel
/// told: it does not tell it again.
pub fn write_back_all(call: Call, descriptor: c_int, known: &Known) -> Option<isize> {
    let client = client::current()?;
    if known.direct || !ticket::is_paced(client, known) {
        return None;
    }
    let size = file::stat(descriptor)?.size;
    let (mut from, end) = if residency::tells_changes(descriptor) {
        (0, size)
    } else if ASKS_ITSELF.load(Ordering::Relaxed) {
        return None;
    } else {
        // What others wrote remains for the sync: requests all over the file would mostly write
        // nothing, and the volume's limit would be learned from them.
        let (from, end) = descriptor::take_unsynced(descriptor)?;
        (from, end.min(size))
    };
    let mut failed = None;
    // One request each for what lies together: a volume counts them.
    while let Some((offset, length)) = residency::next_dirty(descriptor, from, end, PIECE_BYTES) {
        let result = write_back_with_leave(call, descriptor, known, offset, length);
        failed = failed.or((result < 0).then_some(result));
        from = offset + length;
    }
    failed
}

/// The entry whose gate counts.
pub fn leader(client: Client, known: &Known) -> &'static DeviceEntry {
    let devices = &client.memory.devices;
    &devices[devices[usize::from(known.device) % DEVICES_MAX].leader() % DEVICES_MAX]
}

/// Waits for leave and for the disk. Minus an error's number on failure.
fn write_back_with_leave(
    call: Call,
    descriptor: c_int,
    known: &Known,
    offset: u64,
    length: u64,
) -> isize {
    let request = Request {
        kind: KIND_WRITE,
        offset,
        length: length as usize,
        asynchronous: false,
        level_min: 0,
    };
    scheduled(call, known, &request, || {
        file::write_back(descriptor, offset, length)
    })
}
