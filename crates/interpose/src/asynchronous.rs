//! Linux AIO: requests that their thread does not wait for.
//!
//! What may go at once goes. What has to wait is *parked*: a copy of its control
//! block stays here, and a thread of the library submits it when the broker gives leave.
//! `io_getevents` then finds the program's own block behind the copy. A descriptor is
//! closed, and a context destroyed, only after what is parked for it was submitted. A
//! request that the kernel refuses then ends with that error, as one that fails does.

mod destroyed;
mod end;

pub use destroyed::destroy;
pub use end::{ends, goes_on};

use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};

use iolane_protocol::sys::{clock, futex};
use iolane_protocol::{CELLS_PER_CLIENT, Call, KIND_READ, KIND_SYNC, KIND_WRITE};

use crate::ahead::{self, EXTENT_WORDS, Extent};
use crate::client::{self, Client};
use crate::contexts;
use crate::descriptor;
use crate::gather;
use crate::latch;
use crate::rings;
use crate::sys::aio::{self, BLOCK_WORDS, Block};
use crate::sys::file;
use crate::thread;
use crate::ticket::{self, Request, Ticket};

/// Nothing.
const EMPTY: u32 = 0;
/// It waits for leave.
const PARKED: u32 = 1;
/// Somebody submits it.
const LEAVING: u32 = 2;
/// The kernel has it.
const FLYING: u32 = 3;
/// Between two looks of the thread at whether the broker lives.
const LOOK_NS: u64 = 20_000_000;
/// A request that cannot be parked waits for leave in io_submit(2), no longer than this: what
/// would have to end before may be requests of the same thread, which asks for their
/// events only when it is back.
const SUBMIT_NS_MAX: u64 = 10_000_000;

/// One request, by its cell's index.
struct Pending {
    state: AtomicU32,
    descriptor: AtomicI32,
    context: AtomicUsize,
    /// The thread of the program that submitted it ([`thread::identity`]).
    thread: AtomicUsize,
    /// The program's control block.
    block: AtomicUsize,
    /// What it said, if the request had to wait.
    copy: [AtomicU64; BLOCK_WORDS],
    /// Minus the number of the error by which the kernel refused it after that, or 0.
    refusal: AtomicI64,
    /// What it changes, if it writes.
    change: [AtomicU64; EXTENT_WORDS],
}

static PENDING: [Pending; CELLS_PER_CLIENT] = [const {
    Pending {
        state: AtomicU32::new(EMPTY),
        descriptor: AtomicI32::new(-1),
        context: AtomicUsize::new(0),
        thread: AtomicUsize::new(0),
        block: AtomicUsize::new(0),
        copy: [const { AtomicU64::new(0) }; BLOCK_WORDS],
        refusal: AtomicI64::new(0),
        change: [const { AtomicU64::new(0) }; EXTENT_WORDS],
    }
}; CELLS_PER_CLIENT];

/// Requests that are parked or about to leave: what closes a descriptor looks here first.
static PARKED_COUNT: AtomicU32 = AtomicU32::new(0);
/// Where those of them that write take their bytes from, by the same index; 0 for others.
static PARKED_WRITES: [AtomicUsize; CELLS_PER_CLIENT] =
    [const { AtomicUsize::new(0) }; CELLS_PER_CLIENT];
/// A program that takes completions out of the ring by itself would find copies there: nothing is
/// parked before it has asked the kernel for some.
static ASKS_FOR_EVENTS: AtomicBool = AtomicBool::new(false);
/// The thread that submits has to be woken.
static SLEEPS: AtomicBool = AtomicBool::new(false);

/// A child of a fork begins with nothing: the kernel gives it no contexts.
pub fn forget_all() {
    for pending in &PENDING {
        pending.state.store(EMPTY, Ordering::Relaxed);
        pending.block.store(0, Ordering::Relaxed);
    }
    for buffer in &PARKED_WRITES {
        buffer.store(0, Ordering::Relaxed);
    }
    PARKED_COUNT.store(0, Ordering::Relaxed);
    contexts::forget_all();
    gather::forget_all();
    rings::forget_all();
    latch::forget_all();
    ahead::forget_parent();
}

/// Submits one control block. Gives what io_submit(2) gives for it: 1, or minus an
/// error's number.
pub fn submit(context: usize, address: usize) -> isize {
    thread::has_submitted();
    let may_wait = contexts::enter(context);
    if may_wait && let Some(client) = stage(context, address) {
        if SLEEPS.swap(false, Ordering::SeqCst) {
            client.memory.clients[client.number].ring();
        }
        return 1;
    }
    let result = submit_now(context, address, may_wait, thread::identity());
    if result != 1 {
        contexts::leave(context, 1);
    }
    result
}

/// Leaves a read to the library's thread, if others may join it.
fn stage(context: usize, address: usize) -> Option<Client> {
    let client = client::current()?;
    if !ASKS_FOR_EVENTS.load(Ordering::Relaxed) || !client::has_submitter() {
        return None;
    }
    let block = aio::read_block(address)?;
    let known = descriptor::find(client.memory, block.descriptor()).filter(|known| known.direct)?;
    gather::stage(client, &known, context, address, &block).then_some(client)
}

/// The same for a thread of the program, without waiting for others to go with it. `may_wait`: the
/// context has room for it later.
pub fn submit_now(context: usize, address: usize, may_wait: bool, thread: usize) -> isize {
    let asked = aio::read_block(address);
    let change = asked.as_ref().and_then(begin_change);
    let Some((ticket, block)) = ticket_for(address, 0) else {
        return match asked {
            Some(block) => submit_unseen(context, address, &block, change),
            None => aio::submit(context, address),
        };
    };
    ticket.count(if rings::is_context(context) {
        Call::IoUringSubmit
    } else {
        Call::IoSubmit
    });
    let has_to_wait = !ticket.has_started();
    let parks =
        has_to_wait && may_wait && may_park(address, &block) && !is_done_at_once(context, &block);
    if has_to_wait && !parks {
        ticket.post();
        if !ticket.wait(SUBMIT_NS_MAX) {
            // Nothing is noted of it yet: the cell, and what is noted with it, may be another
            // request's by now.
            return submit_unseen(context, address, &block, change);
        }
    }
    let pending = &PENDING[ticket.index()];
    note(pending, context, address, &block, change);
    pending.thread.store(thread, Ordering::Relaxed);
    if parks {
        park(pending, &block, &ticket);
        return 1;
    }
    pending.state.store(FLYING, Ordering::Release);
    let result = aio::submit(context, address);
    if result != 1 {
        clear(pending);
        ticket.give_back(result.min(0) as i64);
    } else if change.is_some() {
        note_written(&block);
    }
    result
}

/// Whether the program can be told later what becomes of the request. What a vectored one of
/// its own points to is the program's again as soon as it was told that it was submitted.
fn may_park(address: usize, block: &Block) -> bool {
    let stays = !block.is_vectored() || gather::owns(address) || rings::owns(address);
    let is_asked_for = ASKS_FOR_EVENTS.load(Ordering::Relaxed) && !end::is_near();
    stays && is_asked_for && client::has_submitter()
}

/// Whether the kernel does it within io_submit(2), and the program may count on that: it sees what it has written
/// in the page cache and how long the file is, and what it appends comes in its order.
fn is_done_at_once(context: usize, block: &Block) -> bool {
    let Some(length) = block.writes() else {
        return false;
    };
    !rings::is_context(context)
        && file::is_written_at_once(block.descriptor(), block.offset(), length as u64)
}

fn note(pending: &Pending, context: usize, address: usize, block: &Block, change: Option<Extent>) {
    pending.context.store(context, Ordering::Relaxed);
    pending
        .descriptor
        .store(block.descriptor(), Ordering::Relaxed);
    for (to, from) in pending.change.iter().zip(Extent::to_words(change)) {
        to.store(from, Ordering::Relaxed);
    }
    pending.refusal.store(0, Ordering::Relaxed);
    pending.block.store(address, Ordering::Release);
}

/// It waits for leave.
fn park(pending: &Pending, block: &Block, ticket: &Ticket) {
    for (to, from) in pending.copy.iter().zip(block.words()) {
        to.store(from, Ordering::Relaxed);
    }
    aio::mark_taken(pending.block.load(Ordering::Relaxed), block);
    let written = block.written().map_or(0, |(buffer, _)| buffer);
    PARKED_WRITES[ticket.index()].store(written, Ordering::SeqCst);
    PARKED_COUNT.fetch_add(1, Ordering::SeqCst);
    pending.state.store(PARKED, Ordering::SeqCst);
    ticket.post();
    if written != 0
        && let Some(level) = latch::parks(written)
    {
        ticket.promote(level);
    }
}

/// Somebody of this level sleeps until the write from a buffer has ended: if it waits for leave,
/// it is as urgent.
pub fn promote_write(client: Client, buffer: usize, level: u8) {
    if PARKED_COUNT.load(Ordering::SeqCst) == 0 {
        return;
    }
    let is_it = |parked: &AtomicUsize| parked.load(Ordering::SeqCst) == buffer;
    if let Some(index) = PARKED_WRITES.iter().position(is_it) {
        Ticket::of_cell(client, index).promote(level);
    }
}

/// A block that writes is about to be submitted.
fn begin_change(block: &Block) -> Option<Extent> {
    let length = block.writes()?;
    ahead::begin_change(block.descriptor(), Some(block.offset()), length as u64)
}

/// Submits a block whose end nobody will see. If it writes, its file is not read ahead from now on;
/// others are.
fn submit_unseen(context: usize, address: usize, block: &Block, change: Option<Extent>) -> isize {
    if change.is_some() {
        ahead::share(block.descriptor());
    }
    let result = aio::submit(context, address);
    if let Some(change) = change {
        change.end();
    }
    result
}

/// A block that may have written a page was submitted.
fn note_written(block: &Block) {
    if let Some(client) = client::of_request()
        && let Some((buffer, length)) = block.written()
        && ahead::may_be_page(client.memory, block.offset(), length)
    {
        let (descriptor, offset) = (block.descriptor(), block.offset());
        ahead::note_submitted(client.memory, descriptor, offset, length, buffer);
    }
}

/// Submits blocks of the library's own, which read, each with the least level that it may have:
/// what may go at once in one call, the rest when it may. Tells which could not be submitted.
pub fn submit_own(context: usize, wanted: &[(usize, u8)], mut refused: impl FnMut(usize)) {
    const BATCH_MAX: usize = 64;
    for group in wanted.chunks(BATCH_MAX) {
        let (mut batch, mut tickets) = ([0; BATCH_MAX], [None; BATCH_MAX]);
        let mut count = 0;
        for &(address, level_min) in group {
            let Some((ticket, block)) = ticket_for(address, level_min) else {
                refused(address);
                continue;
            };
            let pending = &PENDING[ticket.index()];
            note(pending, context, address, &block, None);
            pending.thread.store(0, Ordering::Relaxed);
            if ticket.has_started() {
                pending.state.store(FLYING, Ordering::Release);
                (batch[count], tickets[count]) = (address, Some(ticket));
                count += 1;
            } else {
                park(pending, &block, &ticket);
            }
        }
        let taken = usize::try_from(aio::submit_all(context, &batch[..count])).unwrap_or(0);
        for (address, ticket) in batch[..count].iter().zip(tickets).skip(taken) {
            if let Some(ticket) = ticket {
                clear(&PENDING[ticket.index()]);
                ticket.give_back(0);
            }
            refused(*address);
        }
    }
}

/// Takes back a block of the library's own that waits for leave. `false`: it has gone.
pub fn withdraw(address: usize) -> bool {
    let is_it = |index: &usize| PENDING[*index].block.load(Ordering::Acquire) == address;
    let found = (0..CELLS_PER_CLIENT)
        .map(|step| (place_of(address) as usize + step) % CELLS_PER_CLIENT)
        .find(is_it);
    let (Some(index), Some(client)) = (found, client::of_request()) else {
        return false;
    };
    let pending = &PENDING[index];
    let is_ours = gather::change(&pending.state, PARKED, LEAVING);
    if is_ours {
        PARKED_COUNT.fetch_sub(1, Ordering::SeqCst);
        clear(pending);
        Ticket::of_cell(client, index).withdraw();
    }
    is_ours
}

/// Asks for leave, if the block is of a kind that is scheduled.
fn ticket_for(address: usize, level_min: u8) -> Option<(Ticket, Block)> {
    let client = client::current()?;
    let block = aio::read_block(address)?;
    let (kind, length) = block.transfer()?;
    let known = descriptor::find(client.memory, block.descriptor())?;
    if kind == KIND_WRITE && !known.direct && !known.durable {
        return None;
    }
    let request = Request {
        kind,
        offset: if kind == KIND_SYNC { 0 } else { block.offset() },
        length,
        asynchronous: true,
        level_min,
    };
    let ticket = ticket::prepare(client, &known, &request, place_of(address), |_| {})?;
    Some((ticket, block))
}

/// Where the request of a control block is looked for first.
fn place_of(address: usize) -> u32 {
    ((address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

fn clear(pending: &Pending) {
    let change = pending
        .change
        .each_ref()
        .map(|word| word.swap(0, Ordering::Relaxed));
    if let Some(change) = Extent::from_words(change) {
        change.end();
    }
    pending.block.store(0, Ordering::Relaxed);
    pending.state.store(EMPTY, Ordering::Release);
}

/// The program asks the kernel for completions.
pub fn asks_for_events() {
    ASKS_FOR_EVENTS.store(true, Ordering::Relaxed);
}

/// A request has ended. Gives the program's control block for the one that the kernel
/// names, and what became of the request.
pub fn ended(address: usize, result: i64) -> (usize, i64) {
    let Some(index) = find(address) else {
        return (address, result);
    };
    let pending = &PENDING[index];
    // Who submitted it may not have come back from the kernel yet.
    settle(pending);
    let block = pending.block.load(Ordering::Acquire);
    let result = match pending.refusal.swap(0, Ordering::AcqRel) {
        0 => result,
        refusal => refusal,
    };
    clear(pending);
    give_back(index, result);
    (block, result)
}

/// The same for a request whose event is looked at, and nothing more.
pub fn outcome(address: usize, result: i64) -> (usize, i64) {
    let Some(index) = find(address) else {
        return (address, result);
    };
    let pending = &PENDING[index];
    let block = pending.block.load(Ordering::Acquire);
    match pending.refusal.load(Ordering::Acquire) {
        0 => (block, result),
        refusal => (block, refusal),
    }
}

fn settle(pending: &Pending) {
    while pending.state.load(Ordering::SeqCst) == LEAVING {
        std::hint::spin_loop();
    }
}

fn give_back(index: usize, result: i64) {
    if let Some(client) = client::of_request() {
        Ticket::of_cell(client, index).give_back(result);
    }
}

/// The request whose block, or whose copy of it, lies there.
fn find(address: usize) -> Option<usize> {
    let first = PENDING.as_ptr().addr();
    if let Some(offset) = address.checked_sub(first)
        && offset < size_of_val(&PENDING)
    {
        return Some(offset / size_of::<Pending>());
    }
    let is_it = |index: &usize| {
        PENDING[*index].block.load(Ordering::Acquire) == address
            && PENDING[*index].state.load(Ordering::Acquire) == FLYING
    };
    (0..CELLS_PER_CLIENT)
        .map(|step| (place_of(address) as usize + step) % CELLS_PER_CLIENT)
        .find(is_it)
}

/// The calling thread waits for `least` events of a context. Of what it submitted there itself, so
/// much as the kernel does not have yet is as urgent as a request that the thread would wait for in
/// the call. A thread that only collects events has submitted nothing, and waits for nobody.
pub fn wait_for(context: usize, least: usize) {
    if !thread::submits() {
        return;
    }
    let thread = thread::identity();
    gather::send_those_of(thread);
    let Some(client) = client::current().filter(|_| PARKED_COUNT.load(Ordering::SeqCst) > 0) else {
        return;
    };
    let is_mine = |pending: &Pending, state| {
        pending.thread.load(Ordering::Relaxed) == thread
            && pending.context.load(Ordering::Relaxed) == context
            && pending.state.load(Ordering::Acquire) == state
    };
    let with_kernel = PENDING.iter().filter(|pending| is_mine(pending, FLYING));
    let needed = least.saturating_sub(with_kernel.count());
    let parked = (0..CELLS_PER_CLIENT).filter(|&index| is_mine(&PENDING[index], PARKED));
    for index in parked.take(needed) {
        promote(client, index);
    }
}

/// The calling thread waits for a parked request.
fn promote(client: Client, index: usize) {
    let pending = &PENDING[index];
    let words = pending.copy.each_ref();
    let block = Block::from_words(words.map(|word| word.load(Ordering::Relaxed)));
    // Another request may have the place by now: it is not looked at what it points to.
    let Some(kind) = block.kind() else {
        return;
    };
    let descriptor = pending.descriptor.load(Ordering::Relaxed);
    let Some(known) = descriptor::find(client.memory, descriptor) else {
        return;
    };
    let request = Request {
        kind,
        offset: 0,
        length: Ticket::of_cell(client, index).length(),
        asynchronous: false,
        level_min: 0,
    };
    let level = ticket::level(client, &known, &request);
    if Ticket::of_cell(client, index).promote(level) && kind == KIND_READ {
        // As if it had read by itself: a thread that goes on so is a scan.
        thread::has_read(request.length as u32, clock::now_ns());
    }
}

/// Descriptors are about to be closed: what was asked of them goes to the kernel, without leave.
/// Where reads that went together have to be repeated, that goes, too.
pub fn flush_closed(is_closed: impl Fn(i32) -> bool) {
    flush(|_, of| is_closed(of));
    if client::of_request().is_some() && gather::is_used() {
        gather::await_large(&is_closed);
        flush(|_, of| is_closed(of));
    }
}

/// Submits what is parked for a context, or for descriptors, without leave: it is
/// about to go.
pub fn flush(concerns: impl Fn(usize, i32) -> bool) {
    if client::of_request().is_none() {
        // A child of a fork has nothing under way; what it sees here is its parent's.
        return;
    }
    gather::flush();
    if PARKED_COUNT.load(Ordering::SeqCst) == 0 {
        return;
    }
    for (index, pending) in PENDING.iter().enumerate() {
        let is_concerned = concerns(
            pending.context.load(Ordering::Relaxed),
            pending.descriptor.load(Ordering::Relaxed),
        );
        if is_concerned && pending.state.load(Ordering::SeqCst) != EMPTY {
            leave(index);
            // Another thread may be about to.
            settle(pending);
        }
    }
}

/// Submits a parked request, unless somebody else does.
fn leave(index: usize) {
    let pending = &PENDING[index];
    if !gather::change(&pending.state, PARKED, LEAVING) {
        return;
    }
    let context = pending.context.load(Ordering::Relaxed);
    let copy = pending.copy.as_ptr().addr();
    PARKED_WRITES[index].store(0, Ordering::SeqCst);
    let result = submit_when_there_is_room(context, copy);
    let is_known = result == 1 || refuse(pending, context, result);
    // While nobody else may clear the copy.
    if result == 1
        && !end::is_near()
        && let Some(block) = aio::read_block(copy)
    {
        note_written(&block);
    }
    pending.state.store(FLYING, Ordering::SeqCst);
    PARKED_COUNT.fetch_sub(1, Ordering::SeqCst);
    if !is_known {
        clear(pending);
        give_back(index, result as i64);
    }
}

fn submit_when_there_is_room(context: usize, address: usize) -> isize {
    let mut naps = 0;
    loop {
        let result = aio::submit(context, address);
        let is_full = result == -(libc::EAGAIN as isize);
        if !is_full || end::is_near() && naps >= end::NAPS_MAX {
            return result;
        }
        // Others submitted more than the context was made for: some of them end.
        aio::nap();
        naps += 1;
    }
}

/// The program was told that the request was submitted, and waits for its end. The kernel
/// gives it one: that of a request that does nothing, from the same control block, whose
/// result becomes the refusal on the way. `false`: nobody can ask for it, as there is
/// no such context any more.
fn refuse(pending: &Pending, context: usize, result: isize) -> bool {
    pending.refusal.store(result as i64, Ordering::Release);
    let words = pending
        .copy
        .each_ref()
        .map(|word| word.load(Ordering::Relaxed));
    let nothing = aio::Nothing::instead_of(words);
    for (to, from) in pending.copy.iter().zip(nothing.words()) {
        to.store(from, Ordering::Relaxed);
    }
    submit_when_there_is_room(context, pending.copy.as_ptr().addr()) == 1
}

/// A program may leave what the kernel has ended where it is, for as long as it likes, and do
/// something else: the places with the device are free all the same.
pub fn land_ended() {
    if let Some(client) = client::current() {
        contexts::each(|context| {
            aio::peek(context, |address, result| {
                let found = find(address);
                if let Some(index) =
                    found.filter(|&index| PENDING[index].state.load(Ordering::Acquire) == FLYING)
                {
                    Ticket::of_cell(client, index).land(result);
                }
            });
        });
    }
}

/// The library's thread: submits what the broker lets go.
pub fn serve(client: Client) {
    let entry = &client.memory.clients[client.number];
    let mut looked_ns = 0;
    loop {
        let now_ns = clock::now_ns();
        if now_ns > looked_ns + LOOK_NS {
            looked_ns = now_ns;
            land_ended();
        }
        let bell = entry.bell().load(Ordering::SeqCst);
        entry.grants.drain(leave);
        if gather::has_staged() {
            gather::send();
        }
        if !client.memory.header.is_serving() {
            client::mourn(client.memory);
            leave_all();
        }
        SLEEPS.store(true, Ordering::SeqCst);
        if !gather::has_staged() {
            futex::wait(entry.bell(), bell, LOOK_NS);
        }
        SLEEPS.store(false, Ordering::SeqCst);
    }
}

/// The broker is gone or stopped: nothing waits for it. Their cells stay posted until
/// they end.
fn leave_all() {
    if PARKED_COUNT.load(Ordering::SeqCst) > 0 {
        (0..CELLS_PER_CLIENT).for_each(leave);
    }
}

/// What a control block asks for.
pub const fn kind_of(opcode: u16) -> Option<u8> {
    match opcode {
        // linux/aio_abi.h: IOCB_CMD_PREAD, PWRITE, FSYNC, FDSYNC, PREADV, PWRITEV.
        0 | 7 => Some(KIND_READ),
        1 | 8 => Some(KIND_WRITE),
        2 | 3 => Some(KIND_SYNC),
        _ => None,
    }
}
