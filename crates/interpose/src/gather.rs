//! Asynchronous reads of one page each become few large ones.
//!
//! A plain read that nobody waits for (level `prefetch` or lower) is *staged*: its thread goes on
//! at once. The library's thread takes all that was staged when it comes by, and asks for
//! neighbours in a file with one request. It waits for nobody: what comes while it is busy or
//! wakes up goes together.
//!
//! Each read ends by itself. The one event of a large request becomes an event for each of its
//! reads, and what has no room where the program wants its events waits for its next call. Where
//! a large request fails or ends early, its reads are repeated one by one: before its descriptor
//! is closed, which the program may do at any time.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use iolane_protocol::BitSet;

use crate::asynchronous;
use crate::client::Client;
use crate::descriptor::Known;
use crate::sys::aio::{self, BLOCK_WORDS, Block, Event};
use crate::thread;
use crate::ticket::{self, Request};

/// Reads at a time: what is beyond goes by itself. InnoDB has 256 for each of its threads.
const SLOTS: usize = 1024;
/// Large requests at a time.
const RUNS: usize = 128;
/// Reads in one: an extent of InnoDB's.
const PIECES_MAX: usize = 64;
/// Bytes in one: more is no quicker, and holds up what comes behind.
const BYTES_MAX: usize = 1 << 20;
/// The first level that nobody waits for.
const LEVEL_MIN: u8 = 3;
/// Naps after which a descriptor is closed although a thread may be submitting; only one that
/// was interrupted by a signal in the middle of it takes so long.
const NAPS_MAX: u32 = 10_000;

const FREE: u32 = 0;
/// Its owner writes or reads it.
const HELD: u32 = 1;
const STAGED: u32 = 2;
/// Alone or in a large request.
const FLYING: u32 = 3;
/// It has ended, and the program does not know yet.
const DONE: u32 = 4;
/// Of a large request: what has to be repeated is, and its event is still to come.
const PARTED: u32 = 5;
/// Of a large request: its descriptor is another file's by now.
const CUT_OFF: u32 = 6;

/// One read.
struct Slot {
    state: AtomicU32,
    /// Not to be put together with others again.
    alone: AtomicBool,
    context: AtomicUsize,
    /// Who submitted it ([`thread::identity`]).
    thread: AtomicUsize,
    /// The program's control block.
    address: AtomicUsize,
    result: AtomicI64,
    /// What that said.
    block: [AtomicU64; BLOCK_WORDS],
}

/// One large request: a control block, and an iovec of two words for each read.
struct Run {
    state: AtomicU32,
    count: AtomicU32,
    context: AtomicUsize,
    members: [AtomicU32; PIECES_MAX],
    pieces: [AtomicU64; 2 * PIECES_MAX],
    block: [AtomicU64; BLOCK_WORDS],
}

static READS: [Slot; SLOTS] = [const {
    Slot {
        state: AtomicU32::new(FREE),
        alone: AtomicBool::new(false),
        context: AtomicUsize::new(0),
        thread: AtomicUsize::new(0),
        address: AtomicUsize::new(0),
        result: AtomicI64::new(0),
        block: [const { AtomicU64::new(0) }; BLOCK_WORDS],
    }
}; SLOTS];
static LARGE: [Run; RUNS] = [const {
    Run {
        state: AtomicU32::new(FREE),
        count: AtomicU32::new(0),
        context: AtomicUsize::new(0),
        members: [const { AtomicU32::new(0) }; PIECES_MAX],
        pieces: [const { AtomicU64::new(0) }; 2 * PIECES_MAX],
        block: [const { AtomicU64::new(0) }; BLOCK_WORDS],
    }
}; RUNS];

static WAITING: BitSet<{ SLOTS / 64 }> = BitSet::new();
static DONE_COUNT: AtomicU32 = AtomicU32::new(0);
/// Threads that submit what was staged.
static SENDERS: AtomicU32 = AtomicU32::new(0);
/// Where a free slot is looked for.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// Something was staged in this process.
static IS_USED: AtomicBool = AtomicBool::new(false);

pub fn change(state: &AtomicU32, from: u32, to: u32) -> bool {
    state
        .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
        .is_ok()
}

fn store(words: &[AtomicU64; BLOCK_WORDS], block: &Block) {
    for (to, from) in words.iter().zip(block.words()) {
        to.store(from, Ordering::Relaxed);
    }
}

impl Slot {
    fn block(&self) -> Block {
        Block::from_words(
            self.block
                .each_ref()
                .map(|word| word.load(Ordering::Relaxed)),
        )
    }

    fn context(&self) -> usize {
        self.context.load(Ordering::Relaxed)
    }

    /// The program knows of its end.
    fn free(&self) {
        self.state.store(FREE, Ordering::SeqCst);
    }

    fn finish(&self, result: i64) {
        self.result.store(result, Ordering::Relaxed);
        DONE_COUNT.fetch_add(1, Ordering::SeqCst);
        self.state.store(DONE, Ordering::SeqCst);
    }
}

/// Whether the process gathers reads: then events are to be asked for by [`harvest`] too.
pub fn is_used() -> bool {
    IS_USED.load(Ordering::Relaxed)
}

/// A child of a fork begins with nothing.
pub fn forget_all() {
    WAITING.drain(|_| {});
    for slot in &READS {
        slot.state.store(FREE, Ordering::Relaxed);
    }
    for run in &LARGE {
        run.state.store(FREE, Ordering::Relaxed);
    }
    DONE_COUNT.store(0, Ordering::Relaxed);
    SENDERS.store(0, Ordering::Relaxed);
}

/// Takes a read over, if it is one that may wait a moment for others.
pub fn stage(client: Client, known: &Known, context: usize, address: usize, block: &Block) -> bool {
    let Some(length) = block.plain_read() else {
        return false;
    };
    let request = Request {
        kind: iolane_protocol::KIND_READ,
        offset: block.offset(),
        length,
        asynchronous: true,
        level_min: 0,
    };
    if length >= BYTES_MAX || ticket::level(client, known, &request) < LEVEL_MIN {
        return false;
    }
    let first = NEXT.fetch_add(1, Ordering::Relaxed) as usize;
    let free = (0..SLOTS)
        .map(|step| (first + step) % SLOTS)
        .find(|&index| change(&READS[index].state, FREE, HELD));
    let Some(index) = free else {
        return false;
    };
    let slot = &READS[index];
    slot.alone.store(false, Ordering::Relaxed);
    slot.context.store(context, Ordering::Relaxed);
    slot.thread.store(thread::identity(), Ordering::Relaxed);
    slot.address.store(address, Ordering::Relaxed);
    store(&slot.block, block);
    aio::mark_taken(address, block);
    IS_USED.store(true, Ordering::Relaxed);
    slot.state.store(STAGED, Ordering::SeqCst);
    WAITING.insert(index);
    true
}

/// Whether something is staged.
pub fn has_staged() -> bool {
    !WAITING.is_empty()
}

/// Submits all that is staged, if something of this thread's is: it waits for that.
pub fn send_those_of(thread: usize) {
    let is_his = |slot: &Slot| {
        slot.state.load(Ordering::SeqCst) == STAGED && slot.thread.load(Ordering::Relaxed) == thread
    };
    if is_used() && has_staged() && READS.iter().any(is_his) {
        send();
    }
}

/// Submits all that is staged.
pub fn send() {
    SENDERS.fetch_add(1, Ordering::SeqCst);
    let (mut list, mut count) = ([0u16; SLOTS], 0);
    WAITING.drain(|index| {
        if change(&READS[index].state, STAGED, HELD) {
            list[count] = index as u16;
            count += 1;
        }
    });
    let list = &mut list[..count];
    list.sort_unstable_by_key(|&index| {
        let slot = &READS[usize::from(index)];
        let block = slot.block();
        (slot.context(), block.descriptor(), block.offset())
    });
    let mut rest = &*list;
    while !rest.is_empty() {
        let (group, others) = rest.split_at(group_length(rest));
        if group.len() == 1 || !send_large(group) {
            group.iter().for_each(|&index| send_alone(index));
        }
        rest = others;
    }
    SENDERS.fetch_sub(1, Ordering::SeqCst);
}

/// How many of the first go together.
fn group_length(list: &[u16]) -> usize {
    let slot = |at: usize| &READS[usize::from(list[at])];
    let mut length = 1;
    let mut bytes = slot(0).block().length();
    while length < list.len().min(PIECES_MAX) {
        let (before, next) = (slot(length - 1), slot(length));
        let (one, two) = (before.block(), next.block());
        let follows = before.context() == next.context()
            && one.descriptor() == two.descriptor()
            && one.offset() + one.length() as u64 == two.offset()
            && !before.alone.load(Ordering::Relaxed)
            && !next.alone.load(Ordering::Relaxed);
        bytes += two.length();
        if !follows || bytes > BYTES_MAX {
            break;
        }
        length += 1;
    }
    length
}

/// Submits reads as one. `false`: they are still the caller's.
fn send_large(group: &[u16]) -> bool {
    let Some(run) = LARGE.iter().find(|run| change(&run.state, FREE, HELD)) else {
        return false;
    };
    let first = &READS[usize::from(group[0])];
    for (at, &index) in group.iter().enumerate() {
        let (buffer, length) = READS[usize::from(index)].block().buffer();
        run.members[at].store(u32::from(index), Ordering::Relaxed);
        run.pieces[2 * at].store(buffer as u64, Ordering::Relaxed);
        run.pieces[2 * at + 1].store(length as u64, Ordering::Relaxed);
    }
    run.count.store(group.len() as u32, Ordering::Relaxed);
    run.context.store(first.context(), Ordering::Relaxed);
    let block = first.block();
    let pieces = run.pieces.as_ptr().expose_provenance();
    let large = Block::vectored_read(block.descriptor(), pieces, group.len(), block.offset());
    store(&run.block, &large);
    for &index in group {
        READS[usize::from(index)]
            .state
            .store(FLYING, Ordering::SeqCst);
    }
    run.state.store(FLYING, Ordering::SeqCst);
    if submit(first, run.block.as_ptr().expose_provenance()) != 1 {
        run.state.store(FREE, Ordering::SeqCst);
        for &index in group {
            READS[usize::from(index)]
                .state
                .store(HELD, Ordering::SeqCst);
        }
        return false;
    }
    true
}

fn send_alone(index: u16) {
    let slot = &READS[usize::from(index)];
    slot.state.store(FLYING, Ordering::SeqCst);
    let result = submit(slot, slot.block.as_ptr().expose_provenance());
    if result != 1 {
        // The program was told that it was submitted: it hears of this as of any error.
        slot.finish(result.min(-1) as i64);
    }
}

/// Submits a control block where, and for whom, the first of its reads was submitted.
fn submit(first: &Slot, address: usize) -> isize {
    let (context, thread) = (first.context(), first.thread.load(Ordering::Relaxed));
    loop {
        let result = asynchronous::submit_now(context, address, true, thread);
        if result != -(libc::EAGAIN as isize) {
            return result;
        }
        // Others submitted more than the context was made for: some of them end.
        aio::nap();
    }
}

/// Whether a large request's control block lies there.
pub fn owns(address: usize) -> bool {
    element(&LARGE, address).is_some()
}

/// What an event of the kernel's is for the program.
pub enum Ended {
    /// An event with this control block.
    One(usize),
    /// Events that [`harvest`] gives.
    Several,
}

/// A request has ended whose control block is `address`.
pub fn ended(address: usize, result: i64) -> Ended {
    if let Some(slot) = element(&READS, address) {
        let own = slot.address.load(Ordering::Relaxed);
        slot.free();
        return Ended::One(own);
    }
    let Some(run) = element(&LARGE, address) else {
        return Ended::One(address);
    };
    match run.hold() {
        FLYING => {
            run.finish_whole(result);
            run.repeat_rest(result);
        }
        PARTED => run.finish_whole(result),
        CUT_OFF => {
            run.finish_whole(result);
            run.finish_rest(result);
        }
        _ => {}
    }
    run.state.store(FREE, Ordering::SeqCst);
    Ended::Several
}

impl Run {
    /// The state before. Who closes its descriptor may be looking at it.
    fn hold(&self) -> u32 {
        loop {
            let state = self.state.load(Ordering::SeqCst);
            if state != HELD && change(&self.state, state, HELD) {
                return state;
            }
            std::hint::spin_loop();
        }
    }

    /// Whether it is under way for one of these, or somebody is about to say.
    fn concerns(&self, is_closed: &impl Fn(i32) -> bool) -> bool {
        let words = self.block.each_ref();
        let block = Block::from_words(words.map(|word| word.load(Ordering::Relaxed)));
        let state = self.state.load(Ordering::SeqCst);
        (state == FLYING || state == HELD) && is_closed(block.descriptor())
    }

    /// Its reads, by number and length, with how much of the result is left for each.
    fn parts(&self, result: i64) -> impl Iterator<Item = (usize, i64, i64)> {
        let count = self.count.load(Ordering::Relaxed) as usize;
        let mut left = result;
        (0..count.min(PIECES_MAX)).map(move |at| {
            let index = self.members[at].load(Ordering::Relaxed) as usize % SLOTS;
            let length = self.pieces[2 * at + 1].load(Ordering::Relaxed) as i64;
            let part = (index, length, left);
            left -= length;
            part
        })
    }

    fn finish_whole(&self, result: i64) {
        for (index, length, left) in self.parts(result) {
            if left >= length {
                READS[index].finish(length);
            }
        }
    }

    /// Each says by itself what is wrong, or how much there is.
    fn repeat_rest(&self, result: i64) {
        for (index, length, left) in self.parts(result) {
            if left < length {
                READS[index].alone.store(true, Ordering::Relaxed);
                READS[index].state.store(STAGED, Ordering::SeqCst);
                WAITING.insert(index);
            }
        }
    }

    fn finish_rest(&self, result: i64) {
        for (index, length, left) in self.parts(result) {
            if left < length {
                READS[index].finish(if result < 0 { result } else { left.max(0) });
            }
        }
    }

    /// Looks whether it has ended, though the program has not taken its event yet, which stays
    /// where it is. `false`: it has not.
    fn part_early(&self) -> bool {
        if !change(&self.state, FLYING, HELD) {
            return false;
        }
        let own = self.block.as_ptr().addr();
        let mut ended = None;
        aio::peek(self.context.load(Ordering::Relaxed), |address, result| {
            let (address, result) = asynchronous::outcome(address, result);
            if address == own {
                ended = Some(result);
            }
        });
        if let Some(result) = ended {
            self.repeat_rest(result);
        }
        let state = if ended.is_some() { PARTED } else { FLYING };
        self.state.store(state, Ordering::SeqCst);
        ended.is_some()
    }
}

/// Descriptors are about to be closed, and what was asked of them is with the kernel: waits until
/// the large requests among that have ended. Reads may be staged again then.
pub fn await_large(is_closed: impl Fn(i32) -> bool) {
    for run in LARGE.iter().filter(|run| run.concerns(&is_closed)) {
        let is_over = |_| {
            let is_over = !run.concerns(&is_closed) || run.part_early();
            if !is_over {
                aio::nap();
            }
            is_over
        };
        if !(0..NAPS_MAX).any(is_over) {
            // Its event cannot be seen, or is with a thread that this one has interrupted.
            change(&run.state, FLYING, CUT_OFF);
        }
    }
}

/// The element of an array in which an address lies.
fn element<T>(array: &'static [T], address: usize) -> Option<&'static T> {
    let offset = address.checked_sub(array.as_ptr().addr())?;
    array.get(offset / size_of::<T>())
}

/// Gives events of a context that were not given yet, at most so many.
pub fn harvest(context: usize, most: usize, mut give: impl FnMut(Event)) -> usize {
    let mut given = 0;
    if DONE_COUNT.load(Ordering::SeqCst) == 0 {
        return given;
    }
    for slot in &READS {
        if given == most {
            break;
        }
        let is_his = slot.state.load(Ordering::SeqCst) == DONE && slot.context() == context;
        if is_his && change(&slot.state, DONE, HELD) {
            if slot.context() != context {
                // Another read has it by now.
                slot.state.store(DONE, Ordering::SeqCst);
                continue;
            }
            DONE_COUNT.fetch_sub(1, Ordering::SeqCst);
            let address = slot.address.load(Ordering::Relaxed);
            let result = slot.result.load(Ordering::Relaxed);
            give(Event::of(&slot.block(), address, result));
            slot.free();
            given += 1;
        }
    }
    given
}

/// Submits what is staged, and waits for threads that do: a descriptor or a context is
/// about to go.
pub fn flush() {
    if !is_used() {
        return;
    }
    if has_staged() {
        send();
    }
    for _ in 0..NAPS_MAX {
        if SENDERS.load(Ordering::SeqCst) == 0 {
            return;
        }
        aio::nap();
    }
}

/// A context has another name from now on.
pub fn rename_context(from: usize, to: usize) {
    if !is_used() {
        return;
    }
    let contexts = READS.iter().map(|slot| &slot.context);
    for context in contexts.chain(LARGE.iter().map(|run| &run.context)) {
        let _ = context.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A context is gone, and with it what has ended in it.
pub fn drop_context(context: usize) {
    if !is_used() {
        return;
    }
    for slot in &READS {
        if slot.context() != context {
            continue;
        }
        let states = [DONE, FLYING, STAGED];
        let was = states
            .into_iter()
            .find(|&from| change(&slot.state, from, HELD));
        let Some(was) = was else { continue };
        if slot.context() != context {
            // Another read has it by now.
            slot.state.store(was, Ordering::SeqCst);
            continue;
        }
        if was == DONE {
            DONE_COUNT.fetch_sub(1, Ordering::SeqCst);
        }
        slot.free();
    }
    for run in &LARGE {
        if run.context.load(Ordering::Relaxed) == context {
            let _ = [FLYING, PARTED, CUT_OFF]
                .iter()
                .any(|&from| change(&run.state, from, FREE));
        }
    }
}
