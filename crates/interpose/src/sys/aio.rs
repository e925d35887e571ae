//! Linux AIO by system calls (linux/aio_abi.h).

use std::ptr;

use iolane_protocol::sys::raw::syscall6;

use super::arguments::length_of;
use super::memory::{self, Readable};
use super::watch;
use crate::asynchronous;
use crate::gather::{self, Ended};

/// linux/aio_abi.h: `IOCB_CMD_PREAD`, `IOCB_CMD_PWRITE`, `IOCB_CMD_PREADV`, `IOCB_CMD_PWRITEV`.
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const PREADV: u16 = 7;
const PWRITEV: u16 = 8;
/// `IOCB_CMD_FSYNC`, `IOCB_CMD_FDSYNC`.
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;
/// `IOCB_FLAG_RESFD`: an event descriptor is signalled at the end.
const FLAG_RESFD: u32 = 1;

/// Words of 8 bytes of a control block.
pub const BLOCK_WORDS: usize = 8;

/// `struct iocb`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Block {
    data: u64,
    /// On little-endian machines; the key is the kernel's.
    key: u32,
    flags_of_call: i32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    count: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

const _: () = assert!(size_of::<Block>() == BLOCK_WORDS * 8);

/// `struct io_event`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Event {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

impl Event {
    pub const fn none() -> Event {
        Event {
            data: 0,
            block: 0,
            result: 0,
            result2: 0,
        }
    }

    /// The end of a request, as the program sees it.
    pub fn of(block: &Block, address: usize, result: i64) -> Event {
        Event {
            data: block.data,
            block: address as u64,
            result,
            result2: 0,
        }
    }

    /// The control block and the result.
    pub fn outcome(&self) -> (usize, i64) {
        (self.block as usize, self.result)
    }
}

impl Block {
    /// One that asks for nothing.
    pub const fn none() -> Block {
        Block {
            data: 0,
            key: 0,
            flags_of_call: 0,
            opcode: PREAD,
            priority: 0,
            descriptor: 0,
            buffer: 0,
            count: 0,
            offset: 0,
            reserved: 0,
            flags: 0,
            eventfd: 0,
        }
    }

    /// Asks for a range of a file (`IOCB_CMD_PREAD`).
    pub fn set_read(&mut self, descriptor: i32, to: usize, length: usize, offset: u64) {
        *self = Block {
            descriptor: descriptor as u32,
            buffer: to as u64,
            count: length as u64,
            offset: offset as i64,
            ..Block::none()
        };
    }

    /// Asks for a range of a file, in so many pieces (`IOCB_CMD_PREADV`).
    pub fn vectored_read(descriptor: i32, pieces: usize, count: usize, offset: u64) -> Block {
        Block {
            opcode: PREADV,
            descriptor: descriptor as u32,
            buffer: pieces as u64,
            count: count as u64,
            offset: offset as i64,
            ..Block::none()
        }
    }

    /// Asks for one piece, its address and length, to be read or written.
    pub fn transfer_of(descriptor: i32, writes: bool, piece: (u64, u64), offset: i64) -> Block {
        Block {
            opcode: if writes { PWRITE } else { PREAD },
            descriptor: descriptor as u32,
            buffer: piece.0,
            count: piece.1,
            offset,
            ..Block::none()
        }
    }

    /// The same in several pieces.
    pub fn vectored(
        descriptor: i32,
        writes: bool,
        pieces: usize,
        count: usize,
        offset: i64,
    ) -> Block {
        Block {
            opcode: if writes { PWRITEV } else { PREADV },
            offset,
            ..Block::vectored_read(descriptor, pieces, count, 0)
        }
    }

    /// Asks for a file to be made durable, or only its data.
    pub fn sync(descriptor: i32, only_data: bool) -> Block {
        Block {
            opcode: if only_data { FDSYNC } else { FSYNC },
            descriptor: descriptor as u32,
            ..Block::none()
        }
    }

    /// Its length, if it is a read of one piece without anything special: no flags, no
    /// eventfd, no priority.
    pub fn plain_read(&self) -> Option<usize> {
        let is_plain = self.opcode == PREAD
            && self.flags == 0
            && self.flags_of_call == 0
            && self.priority == 0
            && self.offset >= 0
            && self.buffer != 0;
        (is_plain && self.count > 0).then_some(self.count as usize)
    }

    /// Where it reads to, and how much.
    pub fn buffer(&self) -> (usize, usize) {
        (self.buffer as usize, self.count as usize)
    }

    pub fn length(&self) -> usize {
        self.count as usize
    }

    /// From words.
    pub fn from_words(words: [u64; BLOCK_WORDS]) -> Block {
        // SAFETY: a block has no padding, and any words are one.
        unsafe { std::mem::transmute(words) }
    }

    /// As the kernel is told of it.
    pub fn address(&self) -> usize {
        ptr::from_ref(self).expose_provenance()
    }

    /// What it writes, if that is one piece.
    pub fn written(&self) -> Option<(usize, usize)> {
        (self.opcode == PWRITE).then_some((self.buffer as usize, self.count as usize))
    }

    pub fn descriptor(&self) -> i32 {
        self.descriptor as i32
    }

    pub fn offset(&self) -> u64 {
        u64::try_from(self.offset).unwrap_or(0)
    }

    /// Whether it points to the pieces of its buffer, not to the buffer.
    pub fn is_vectored(&self) -> bool {
        matches!(self.opcode, PREADV | PWRITEV)
    }

    /// What it asks for and how many bytes; `None` if it is no transfer, or one that
    /// must not wait. A program that an eventfd tells of the end may ask for no event before all
    /// have ended, and with that for none whose place would let others go.
    pub fn transfer(&self) -> Option<(u8, usize)> {
        let kind = asynchronous::kind_of(self.opcode)?;
        if self.flags_of_call & libc::RWF_NOWAIT != 0 || self.flags & FLAG_RESFD != 0 {
            return None;
        }
        let length = self.bytes();
        let is_sync = matches!(self.opcode, FSYNC | FDSYNC);
        (is_sync || length > 0).then_some((kind, if is_sync { 0 } else { length }))
    }

    /// `KIND_READ`, `KIND_WRITE` or `KIND_SYNC`, if it is one.
    pub fn kind(&self) -> Option<u8> {
        asynchronous::kind_of(self.opcode)
    }

    /// How many bytes it writes, if it does, however.
    pub fn writes(&self) -> Option<usize> {
        matches!(self.opcode, PWRITE | PWRITEV).then(|| self.bytes())
    }

    fn bytes(&self) -> usize {
        if !self.is_vectored() {
            return self.count as usize;
        }
        // SAFETY: the program hands these to the kernel in a moment, so they are there.
        unsafe {
            length_of(
                self.descriptor(),
                self.buffer as usize as *const libc::iovec,
                self.count as i32,
            )
        }
    }

    /// As words.
    pub fn words(&self) -> [u64; BLOCK_WORDS] {
        // SAFETY: a block has no padding, and any words will do.
        unsafe { std::mem::transmute(*self) }
    }
}

/// A request that does nothing, in the place of another: it reads no bytes from an empty file
/// in memory, which it keeps.
pub struct Nothing {
    block: Block,
}

impl Nothing {
    /// With the data of the other.
    pub fn instead_of(words: [u64; BLOCK_WORDS]) -> Nothing {
        let other = Block::from_words(words);
        Nothing {
            block: Block {
                flags_of_call: 0,
                opcode: PREAD,
                priority: 0,
                descriptor: empty_file(),
                buffer: 0,
                count: 0,
                offset: 0,
                reserved: 0,
                flags: 0,
                ..other
            },
        }
    }

    /// Its control block.
    pub fn words(&self) -> [u64; BLOCK_WORDS] {
        self.block.words()
    }
}

impl Drop for Nothing {
    fn drop(&mut self) {
        // The kernel keeps the file for as long as a request on it is under way.
        watch::close(self.block.descriptor as i32);
    }
}

/// Waits for a free descriptor where there is none, as for a place in a context. Its number is out
/// of the way: a request of the program's on one that it has closed must not find this file.
fn empty_file() -> u32 {
    let arguments = [
        c"iolane".as_ptr().addr(),
        libc::MFD_CLOEXEC as usize,
        0,
        0,
        0,
        0,
    ];
    loop {
        // SAFETY: the name is a C string.
        let result = unsafe { syscall6(libc::SYS_memfd_create, arguments) };
        match i32::try_from(result).ok().filter(|&made| made >= 0) {
            Some(made) => {
                let moved = watch::duplicate(made);
                if moved.is_some() {
                    watch::close(made);
                }
                return moved.unwrap_or(made) as u32;
            }
            None if is_for_now(result) => nap(),
            None => give_up(result),
        }
    }
}

fn is_for_now(result: isize) -> bool {
    [libc::EMFILE, libc::ENFILE, libc::ENOMEM]
        .iter()
        .any(|&error| result == -(error as isize))
}

/// The program's control block; `None` for none.
pub fn read_block(address: usize) -> Option<Block> {
    let block = address as *const Block;
    // SAFETY: the program hands it to the kernel in a moment, so it is there.
    (!block.is_null()).then(|| unsafe { block.read_unaligned() })
}

/// Does to the program's control block, which is kept for later, what the kernel does when it takes
/// one: it sets the key.
pub fn mark_taken(address: usize, block: &Block) {
    if block.key != 0 {
        let block: *mut Block = ptr::with_exposed_provenance_mut(address);
        // SAFETY: the program has handed it over, and hears of its end only afterwards.
        unsafe { (&raw mut (*block).key).write_unaligned(0) };
    }
}

/// A context of the library's own. `None`: the kernel gives none.
pub fn open_context(requests: usize) -> Option<usize> {
    let mut context = 0usize;
    let place = (&raw mut context).expose_provenance();
    // SAFETY: writes one word, which lives as long as the call.
    let result = unsafe { syscall6(libc::SYS_io_setup, [requests, place, 0, 0, 0, 0]) };
    (result == 0).then_some(context)
}

/// Sleeps until something has ended in a context of the library's own, and gives the control
/// blocks and results of what has.
pub fn collect_own(context: usize, mut give: impl FnMut(usize, i64)) {
    let mut events = [Event::none(); super::uring::MESSAGES_MAX];
    let place = events.as_mut_ptr().expose_provenance();
    // SAFETY: room for so many events, which live as long as the call.
    let result = unsafe { super::hooks::events_of(context, 1, events.len(), place) };
    for event in &events[..usize::try_from(result).unwrap_or(0)] {
        let (address, result) = event.outcome();
        give(address, result);
    }
}

/// The head of a context's ring of events, which a context's number is the address of
/// (fs/aio.c, `struct aio_ring`; programs read it, too, libaio for one).
#[derive(Clone, Copy)]
#[repr(C)]
struct Ring {
    number: u32,
    events: u32,
    head: u32,
    tail: u32,
    magic: u32,
    features: [u32; 2],
    head_bytes: u32,
}

const RING_MAGIC: u32 = 0xa10a_10a1;
/// Events that are looked at at once.
const PEEK_MAX: usize = 64;

/// Looks at what has ended in a context, and leaves it there: gives the control blocks and
/// results.
pub fn peek(context: usize, mut give: impl FnMut(usize, i64)) {
    let mut ring = Ring {
        number: 0,
        events: 0,
        head: 0,
        tail: 0,
        magic: 0,
        features: [0; 2],
        head_bytes: 0,
    };
    if !memory::copy_from(context, std::slice::from_mut(&mut ring)) || ring.magic != RING_MAGIC {
        return;
    }
    let mut events = [Event::none(); PEEK_MAX];
    let mut at = ring.head;
    while at != ring.tail && at < ring.events {
        // As far as they lie behind each other.
        let end = if at < ring.tail {
            ring.tail
        } else {
            ring.events
        };
        let count = ((end - at) as usize).min(PEEK_MAX);
        let from = context + ring.head_bytes as usize + at as usize * EVENT_BYTES;
        if !memory::copy_from(from, &mut events[..count]) {
            return;
        }
        for event in &events[..count] {
            let (address, result) = event.outcome();
            give(address, result);
        }
        at = (at + count as u32) % ring.events;
    }
}

/// io_submit(2) for one block. 1, or minus an error's number.
pub fn submit(context: usize, address: usize) -> isize {
    let blocks = [address];
    let arguments = [context, 1, blocks.as_ptr().addr(), 0, 0, 0];
    // SAFETY: an array of one, alive as long as the call. The kernel checks the rest.
    unsafe { syscall6(libc::SYS_io_submit, arguments) }
}

/// io_submit(2) for several. How many were taken, or minus an error's number.
pub fn submit_all(context: usize, addresses: &[usize]) -> isize {
    let arguments = [
        context,
        addresses.len(),
        addresses.as_ptr().expose_provenance(),
        0,
        0,
        0,
    ];
    // SAFETY: an array of so many, alive as long as the call. The kernel checks the rest.
    unsafe { syscall6(libc::SYS_io_submit, arguments) }
}

/// An array of pointers to control blocks, which is the program's.
pub struct Blocks {
    first: usize,
    pointers: Readable,
    blocks: Readable,
}

impl Blocks {
    pub const fn at(first: usize) -> Blocks {
        Blocks {
            first,
            pointers: Readable::nothing(),
            blocks: Readable::nothing(),
        }
    }

    /// The address of a control block; `None`: the kernel would find that it, or the pointer to it, is not there. Both
    /// mostly lie in one page, or follow each other, and each page is looked at once.
    ///
    /// # Safety
    /// No other thread takes the array away meanwhile.
    pub unsafe fn address(&mut self, index: usize) -> Option<usize> {
        let place = index.checked_mul(size_of::<usize>());
        let place = self.first.wrapping_add(place?);
        if !self.pointers.look(place, size_of::<usize>()) {
            return None;
        }
        // SAFETY: it is there, and stays, as the caller promises.
        let address = unsafe { address_at(place, 0) };
        let is_there = self.pointers.has(address, size_of::<Block>())
            || self.blocks.look(address, size_of::<Block>());
        is_there.then_some(address)
    }
}

/// The addresses in an array of pointers, which is the program's.
///
/// # Safety
/// As for io_submit(2).
pub unsafe fn address_at(blocks: usize, index: usize) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (blocks as *const usize).add(index).read_unaligned() }
}

/// Puts the program's control blocks into completions, and gives their places back.
///
/// # Safety
/// There are `count` events that the kernel has just written.
pub unsafe fn translate(events: usize, count: usize) {
    for index in 0..count {
        let event = (events as *mut Event).wrapping_add(index);
        // SAFETY: the caller's promise.
        unsafe {
            let Event { block, result, .. } = event.read_unaligned();
            let (own, became) = asynchronous::ended(block as usize, result);
            (&raw mut (*event).block).write_unaligned(own as u64);
            (&raw mut (*event).result).write_unaligned(became);
        }
    }
}

/// The same where reads were gathered: events that are several for the program are left out
/// of the array. Gives how many stay.
///
/// # Safety
/// As for [`translate`].
pub unsafe fn translate_gathered(events: usize, count: usize) -> usize {
    let events: *mut Event = ptr::with_exposed_provenance_mut(events);
    let mut kept = 0;
    for index in 0..count {
        // SAFETY: the caller's promise; what is kept lies before what is still to be read.
        unsafe {
            let mut event = events.add(index).read_unaligned();
            let (own, became) = asynchronous::ended(event.block as usize, event.result);
            if let Ended::One(own) = gather::ended(own, became) {
                event.block = own as u64;
                event.result = became;
                events.add(kept).write_unaligned(event);
                kept += 1;
            }
        }
    }
    kept
}

/// Puts an event into an array of the program's.
///
/// # Safety
/// There is room for it.
pub unsafe fn put(events: usize, index: usize, event: Event) {
    let events: *mut Event = ptr::with_exposed_provenance_mut(events);
    // SAFETY: the caller's promise.
    unsafe { events.add(index).write_unaligned(event) };
}

/// Bytes of an event.
pub const EVENT_BYTES: usize = size_of::<Event>();

/// A moment.
pub fn nap() {
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 100_000,
    };
    let arguments = [ptr::from_ref(&time).addr(), 0, 0, 0, 0, 0];
    // SAFETY: the structure lives as long as the call.
    unsafe { syscall6(libc::SYS_nanosleep, arguments) };
}

/// A request that the program was told was submitted cannot be, and the kernel gives no file in
/// memory by which to say so. Its data would be missing without anybody knowing.
fn give_up(error: isize) -> ! {
    const TEXT: &[u8] = b"iolane: the kernel refused an asynchronous request that had to wait; \
the process ends, as it could not be told\n";
    let arguments = [2, TEXT.as_ptr().addr(), TEXT.len(), 0, 0, 0];
    // SAFETY: the text is as long as the call is told; then the process ends.
    unsafe {
        syscall6(libc::SYS_write, arguments);
        *libc::__errno_location() = -error as i32;
        libc::abort()
    }
}

/// Starts the thread that submits parked requests.
pub fn start_thread() -> bool {
    extern "C" fn main(_: *mut libc::c_void) -> *mut libc::c_void {
        if let Some(client) = crate::client::of_request() {
            asynchronous::serve(client);
        }
        ptr::null_mut()
    }
    start(main)
}

/// Starts the thread that hands completions to the program's rings.
pub fn start_ring_thread() -> bool {
    extern "C" fn main(_: *mut libc::c_void) -> *mut libc::c_void {
        crate::rings::serve();
        ptr::null_mut()
    }
    start(main)
}

/// Starts a thread of the library's.
pub fn start(main: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void) -> bool {
    const STACK_BYTES: usize = 128 << 10;
    // SAFETY: all structures are initialised before they are used and live as long as
    // the calls. The program's signals stay with its own threads.
    unsafe {
        let mut thread = 0;
        let mut attributes = std::mem::zeroed();
        let (mut all, mut old) = (std::mem::zeroed(), std::mem::zeroed());
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstacksize(&mut attributes, STACK_BYTES);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        let result = libc::pthread_create(&mut thread, &attributes, main, ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_SETMASK, &old, ptr::null_mut());
        libc::pthread_attr_destroy(&mut attributes);
        result == 0
    }
}
