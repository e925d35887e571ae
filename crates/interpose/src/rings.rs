//! io_uring: requests that a program submits by liburing's functions.
//!
//! What is read, written or synced past the page cache is taken out of the program's ring before
//! liburing hands it to the kernel, and goes by Linux AIO as any asynchronous request
//! ([`asynchronous`]). A thread of the library puts each completion into the program's ring, with
//! the program's own data, so that whoever waits there wakes. Everything else stays in the ring.
//!
//! The kernel keeps an order only within chains of linked entries, which stay in the ring as a
//! whole, and around entries that drain. A ring that is asked to drain, or to cancel, is waited
//! for and left alone from then on, as the kernel does not know what is under way here.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use iolane_protocol::CELLS_PER_CLIENT;

use crate::ahead;
use crate::asynchronous;
use crate::client;
use crate::contexts;
use crate::descriptor;
use crate::sys::aio::{self, BLOCK_WORDS, Block};
use crate::sys::uring::{self, Entry, Message, Messenger, PIECES_MAX, Prepared};

/// Rings at a time in a process: others are left alone.
const RINGS_MAX: usize = 64;
/// Requests at a time: each has a cell.
const SLOTS: usize = CELLS_PER_CLIENT;
/// How long a program waits, once, for the library's thread to begin.
const NAPS_MAX: u32 = 10_000;

/// linux/io_uring.h: `IORING_SETUP_` CQSIZE, CLAMP, ATTACH_WQ, SUBMIT_ALL, COOP_TASKRUN and
/// TASKRUN_FLAG. Rings that are polled, have other entries, or are bound to a thread are left
/// alone.
const SETUP_PLAIN: u32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9;
/// `IOSQE_FIXED_FILE`
const FIXED_FILE: u8 = 1;
/// `IOSQE_IO_DRAIN`
const DRAIN: u8 = 1 << 1;
/// `IOSQE_IO_LINK`, `IOSQE_IO_HARDLINK`
const LINKS: u8 = 1 << 2 | 1 << 3;
/// `IOSQE_ASYNC`: all requests here are.
const ASYNC: u8 = 1 << 4;

const READV: u8 = 1;
const WRITEV: u8 = 2;
const FSYNC: u8 = 3;
const READ_FIXED: u8 = 4;
const WRITE_FIXED: u8 = 5;
const ASYNC_CANCEL: u8 = 14;
const CLOSE: u8 = 19;
const READ: u8 = 22;
const WRITE: u8 = 23;
/// Operations that change no file and hand no descriptor to anybody: NOP, reads, FSYNC, polls,
/// RECVMSG, timeouts, ACCEPT, ASYNC_CANCEL, CONNECT, OPENAT, CLOSE, FILES_UPDATE, STATX, FADVISE,
/// MADVISE, SEND, RECV, EPOLL_CTL, buffers, SHUTDOWN, MSG_RING.
const HARMLESS: u64 = {
    const LIST: [u8; 28] = [
        0, 1, 3, 4, 6, 7, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 24, 25, 26, 27, 28, 29,
        31, 32, 34, 40,
    ];
    let (mut set, mut at) = (0, 0);
    while at < LIST.len() {
        set |= 1 << LIST[at];
        at += 1;
    }
    set
};

struct Ring {
    /// The program's descriptor; -1: nobody's, -2: it is being made.
    descriptor: AtomicI32,
    /// The library's own for the same ring: completions find it whatever the program closes.
    own: AtomicI32,
    under_way: AtomicU32,
    is_left_alone: AtomicBool,
}

/// One request.
struct Slot {
    is_used: AtomicBool,
    ring: AtomicU32,
    data: AtomicU64,
    block: [AtomicU64; BLOCK_WORDS],
    pieces: [AtomicU64; 2 * PIECES_MAX],
}

static RINGS: [Ring; RINGS_MAX] = [const {
    Ring {
        descriptor: AtomicI32::new(-1),
        own: AtomicI32::new(-1),
        under_way: AtomicU32::new(0),
        is_left_alone: AtomicBool::new(false),
    }
}; RINGS_MAX];
static REQUESTS: [Slot; SLOTS] = [const {
    Slot {
        is_used: AtomicBool::new(false),
        ring: AtomicU32::new(0),
        data: AtomicU64::new(0),
        block: [const { AtomicU64::new(0) }; BLOCK_WORDS],
        pieces: [const { AtomicU64::new(0) }; 2 * PIECES_MAX],
    }
}; SLOTS];
/// Rings that are followed.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Where a free slot is looked for.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// The context of Linux AIO by which requests go; 0 before there is one.
static CONTEXT: AtomicUsize = AtomicUsize::new(0);
/// [`NEW`], [`STARTING`], [`READY`] or [`FAILED`].
static STATE: AtomicU32 = AtomicU32::new(NEW);

const NEW: u32 = 0;
const STARTING: u32 = 1;
const READY: u32 = 2;
const FAILED: u32 = 3;

/// A child of a fork has its parent's rings, and nobody who follows them.
pub fn forget_all() {
    for ring in &RINGS {
        ring.descriptor.store(-1, Ordering::Relaxed);
        ring.under_way.store(0, Ordering::Relaxed);
        ring.is_left_alone.store(false, Ordering::Relaxed);
    }
    for slot in &REQUESTS {
        slot.is_used.store(false, Ordering::Relaxed);
    }
    COUNT.store(0, Ordering::Relaxed);
    CONTEXT.store(0, Ordering::Relaxed);
    STATE.store(NEW, Ordering::Relaxed);
}

/// Whether requests by this context are those of rings.
pub fn is_context(context: usize) -> bool {
    context != 0 && CONTEXT.load(Ordering::Relaxed) == context
}

/// The calling thread waits for so many completions on a ring: what it submitted itself, on
/// whichever, is as urgent as it is.
pub fn waits_for(wanted: usize) {
    let context = CONTEXT.load(Ordering::Relaxed);
    if context != 0 && wanted > 0 {
        asynchronous::wait_for(context, wanted);
    }
}

/// Whether a control block is one of a ring's request.
pub fn owns(address: usize) -> bool {
    index_of(address).is_some()
}

fn index_of(address: usize) -> Option<usize> {
    let offset = address.checked_sub(REQUESTS.as_ptr().addr())?;
    (offset < size_of_val(&REQUESTS)).then(|| offset / size_of::<Slot>())
}

/// Begins what rings need, once in a process. Whether they can be followed.
pub fn begin() -> bool {
    let starts = STATE
        .compare_exchange(NEW, STARTING, Ordering::SeqCst, Ordering::SeqCst)
        .is_ok();
    if starts {
        client::start_submitter(aio::start_thread);
        if !client::has_submitter() || !aio::start_ring_thread() {
            STATE.store(FAILED, Ordering::SeqCst);
        }
    }
    for _ in 0..NAPS_MAX {
        match STATE.load(Ordering::SeqCst) {
            STARTING => aio::nap(),
            state => {
                if starts && state == FAILED {
                    uring::say_not_followed();
                }
                return state == READY;
            }
        }
    }
    false
}

/// The library's thread: hands completions to the program's rings.
pub fn serve() {
    let messenger = Messenger::open();
    let context = messenger.as_ref().and_then(|_| aio::open_context(SLOTS));
    let (Some(mut messenger), Some(context)) = (messenger, context) else {
        STATE.store(FAILED, Ordering::SeqCst);
        return;
    };
    contexts::open(context, SLOTS);
    asynchronous::asks_for_events();
    CONTEXT.store(context, Ordering::SeqCst);
    STATE.store(READY, Ordering::SeqCst);
    let mut indices = [0; uring::MESSAGES_MAX];
    let mut messages = [const {
        Message {
            ring: -1,
            data: 0,
            result: 0,
        }
    }; uring::MESSAGES_MAX];
    loop {
        let mut count = 0;
        aio::collect_own(context, |address, result| {
            if let Some(index) = index_of(address) {
                let slot = &REQUESTS[index];
                let ring = &RINGS[slot.ring.load(Ordering::Relaxed) as usize % RINGS_MAX];
                indices[count] = index;
                messages[count] = Message {
                    ring: ring.own.load(Ordering::SeqCst),
                    data: slot.data.load(Ordering::Relaxed),
                    result: result as i32,
                };
                count += 1;
            }
        });
        messenger.post(&messages[..count]);
        for &index in &indices[..count] {
            release(&REQUESTS[index]);
        }
    }
}

fn release(slot: &Slot) {
    let ring = slot.ring.load(Ordering::Relaxed) as usize;
    slot.is_used.store(false, Ordering::SeqCst);
    RINGS[ring % RINGS_MAX]
        .under_way
        .fetch_sub(1, Ordering::SeqCst);
}

/// A ring was made. It is followed from now on, if it is of a kind that can be.
pub fn follow(ring: &Prepared) -> bool {
    let descriptor = ring.descriptor();
    if ring.flags() & !SETUP_PLAIN != 0 || descriptor < 0 {
        return false;
    }
    if let Some(known) = find(descriptor) {
        // liburing's functions may call each other.
        if uring::is_same(RINGS[known].own.load(Ordering::SeqCst), descriptor) {
            return true;
        }
        // What had the number was closed unseen: by liburing itself (`io_uring_close_ring_fd`).
        let number = descriptor.unsigned_abs();
        retire(number, number);
    }
    let free = |ring: &&Ring| {
        ring.descriptor
            .compare_exchange(-1, -2, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    };
    let Some(ring) = RINGS.iter().find(free) else {
        return false;
    };
    let Some(own) = uring::duplicate(descriptor) else {
        ring.descriptor.store(-1, Ordering::SeqCst);
        return false;
    };
    ring.own.store(own, Ordering::SeqCst);
    ring.is_left_alone.store(false, Ordering::SeqCst);
    COUNT.fetch_add(1, Ordering::SeqCst);
    ring.descriptor.store(descriptor, Ordering::SeqCst);
    true
}

fn find(descriptor: i32) -> Option<usize> {
    if COUNT.load(Ordering::SeqCst) == 0 || descriptor < 0 {
        return None;
    }
    let is_it = |ring: &Ring| ring.descriptor.load(Ordering::SeqCst) == descriptor;
    RINGS.iter().position(is_it)
}

/// Rings whose descriptors are among these, both ends included, are about to be closed. What is
/// under way on them ends first: then nothing touches the program's memory any more.
pub fn retire(first: u32, last: u32) {
    if COUNT.load(Ordering::SeqCst) == 0 || client::of_request().is_none() {
        return;
    }
    let is_among =
        |one: i32| u32::try_from(one).is_ok_and(|descriptor| (first..=last).contains(&descriptor));
    for (index, ring) in RINGS.iter().enumerate() {
        let descriptor = ring.descriptor.load(Ordering::SeqCst);
        if descriptor < 0 {
            continue;
        }
        let own = ring.own.load(Ordering::SeqCst);
        if !is_among(descriptor) && !is_among(own) {
            continue;
        }
        wait_for(index);
        if !is_among(own) {
            uring::close(own);
        }
        ring.own.store(-1, Ordering::SeqCst);
        COUNT.fetch_sub(1, Ordering::SeqCst);
        ring.descriptor.store(-1, Ordering::SeqCst);
    }
}

/// Until all that was taken out of the ring has ended.
fn wait_for(ring: usize) {
    while RINGS[ring].under_way.load(Ordering::SeqCst) > 0 {
        asynchronous::flush(|context, _| is_context(context));
        aio::nap();
    }
}

/// Takes out of a ring what is scheduled. Gives how many entries that were.
pub fn take(prepared: &mut Prepared) -> u32 {
    let count = prepared.count();
    let Some(client) = client::of_request().filter(|_| count > 0) else {
        return 0;
    };
    let counts = &client.memory.header.rings;
    let found = find(prepared.descriptor());
    let needs_order = |entry: &Entry| entry.flags & DRAIN != 0 || entry.opcode == ASYNC_CANCEL;
    if let Some(ring) = found
        && (0..count).any(|index| needs_order(&prepared.entry(index)))
        && !RINGS[ring].is_left_alone.swap(true, Ordering::SeqCst)
    {
        wait_for(ring);
    }
    let ring = found.filter(|&ring| !RINGS[ring].is_left_alone.load(Ordering::SeqCst));
    let (mut kept, mut is_linked) = (0, false);
    for index in 0..count {
        let entry = prepared.entry(index);
        let is_of_chain = is_linked || entry.flags & LINKS != 0;
        is_linked = entry.flags & LINKS != 0;
        if !is_of_chain && ring.is_some_and(|ring| take_over(ring, &entry)) {
            counts.count_followed();
            continue;
        }
        if pass(&entry) {
            counts.count_passed();
        }
        if kept != index {
            prepared.set_entry(kept, &entry);
        }
        kept += 1;
    }
    prepared.truncate(kept);
    count - kept
}

/// An entry stays in the ring. Whether it is one that would be scheduled if it could.
fn pass(entry: &Entry) -> bool {
    let is_fixed = entry.flags & FIXED_FILE != 0;
    if entry.opcode == CLOSE && !is_fixed && entry.file_index == 0 {
        retire_file(entry.descriptor);
    }
    if u32::from(entry.opcode) >= u64::BITS || HARMLESS & 1 << entry.opcode == 0 {
        ahead::give_up();
    }
    let is_transfer = matches!(
        entry.opcode,
        READV | WRITEV | FSYNC | READ_FIXED | WRITE_FIXED | READ | WRITE
    );
    is_transfer
        && client::current().is_some_and(|client| {
            is_fixed || descriptor::find(client.memory, entry.descriptor).is_some()
        })
}

/// The kernel is about to close a file. What was asked of it goes first.
fn retire_file(descriptor: i32) {
    ahead::forget(descriptor);
    asynchronous::flush_closed(|of| of == descriptor);
    descriptor::forget(descriptor);
}

/// Submits the request of an entry by itself. `false`: it stays in the ring.
fn take_over(ring: usize, entry: &Entry) -> bool {
    let is_plain = entry.flags & !ASYNC == 0
        && entry.priority == 0
        && entry.buffer_index == 0
        && entry.personality == 0
        && entry.file_index == 0
        && entry.more == [0; 2];
    let Some(client) = client::current().filter(|_| is_plain) else {
        return false;
    };
    let Some(known) = descriptor::find(client.memory, entry.descriptor) else {
        return false;
    };
    if !known.direct && entry.opcode != FSYNC {
        return false;
    }
    let first = NEXT.fetch_add(1, Ordering::Relaxed) as usize;
    let free = (0..SLOTS)
        .map(|step| (first + step) % SLOTS)
        .find(|&index| !REQUESTS[index].is_used.swap(true, Ordering::SeqCst));
    let Some(slot) = free.map(|index| &REQUESTS[index]) else {
        return false;
    };
    slot.ring.store(ring as u32, Ordering::Relaxed);
    slot.data.store(entry.data, Ordering::Relaxed);
    RINGS[ring].under_way.fetch_add(1, Ordering::SeqCst);
    let is_submitted = block_of(slot, entry).is_some_and(|block| {
        for (to, from) in slot.block.iter().zip(block.words()) {
            to.store(from, Ordering::Relaxed);
        }
        let address = slot.block.as_ptr().expose_provenance();
        asynchronous::submit(CONTEXT.load(Ordering::SeqCst), address) == 1
    });
    if !is_submitted {
        release(slot);
    }
    is_submitted
}

/// The control block for an entry; `None`: there is none that means the same.
fn block_of(slot: &Slot, entry: &Entry) -> Option<Block> {
    let has_no_range = entry.offset == 0 && entry.length == 0;
    match entry.opcode {
        FSYNC if has_no_range && entry.operation_flags <= 1 => {
            Some(Block::sync(entry.descriptor, entry.operation_flags == 1))
        }
        READ | WRITE | READV | WRITEV if entry.operation_flags == 0 => {
            let offset = i64::try_from(entry.offset).ok()?;
            let writes = matches!(entry.opcode, WRITE | WRITEV);
            let length = entry.length as usize;
            if length == 0 {
                return None;
            }
            if matches!(entry.opcode, READ | WRITE) {
                let piece = (entry.address, u64::from(entry.length));
                return Some(Block::transfer_of(entry.descriptor, writes, piece, offset));
            }
            if length > PIECES_MAX || entry.address == 0 {
                return None;
            }
            // The program may use its own again as soon as they are submitted.
            let pieces = uring::pieces_at(entry.address, length)?;
            if length == 1 {
                let piece = pieces[0];
                let is_empty = piece.1 == 0;
                return (!is_empty)
                    .then(|| Block::transfer_of(entry.descriptor, writes, piece, offset));
            }
            for (index, (address, bytes)) in pieces.iter().enumerate().take(length) {
                slot.pieces[2 * index].store(*address, Ordering::Relaxed);
                slot.pieces[2 * index + 1].store(*bytes, Ordering::Relaxed);
            }
            let place = slot.pieces.as_ptr().expose_provenance();
            Some(Block::vectored(
                entry.descriptor,
                writes,
                place,
                length,
                offset,
            ))
        }
        _ => None,
    }
}
