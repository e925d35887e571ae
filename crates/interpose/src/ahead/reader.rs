//! The library's thread that reads ahead.

use std::sync::atomic::{AtomicI32, Ordering};

use iolane_protocol::Memory;
use iolane_protocol::sys::clock;

use super::custody::{self, Custody, SPACES_MAX};
use super::order::{Order, Space, Want};
use super::page::{self, Scratch};
use super::shelf::{self, Key};
use super::{mailbox, page_bytes, writing};
use crate::asynchronous;
use crate::client::Client;
use crate::descriptor;
use crate::sys::aio::Block;
use crate::sys::pages;
use crate::sys::reading::{self, Context};
use crate::thread::LEVEL_SCAN;

/// Requests with the kernel or waiting for leave: several scans, each with its full distance.
const IN_FLIGHT_MAX: usize = 256;
/// Of the memory, so much is for the order of leaves; the rest is for pages.
const ORDER_PART: usize = 4;
/// A file that could not be held is tried again after so long.
const RETRY_NS: u64 = 20_000_000;
/// Without news, the thread looks so often whether all is over.
const SLEEP_NS: u64 = 100_000_000;
/// How long it waits for several completions at once, or for one.
const GATHER_NS: u64 = 100_000;
const GATHER_MAX: usize = 8;

/// Requests that have not ended.
static IN_FLIGHT: AtomicI32 = AtomicI32::new(0);

struct Reader {
    memory: &'static Memory,
    context: Context,
    page_bytes: usize,
    order: Order,
    scratch: Scratch,
    leaves: Vec<u32>,
    wants: Vec<Want>,
    passed: Vec<u32>,
    /// Of each frame: its control block, and when it was claimed.
    blocks: Vec<Block>,
    claimed: Vec<u64>,
    claims: u64,
    batch: Vec<(usize, u8)>,
    generations: [u32; SPACES_MAX],
    tried_ns: [u64; SPACES_MAX],
    /// The slot that is taken from a file if all are in use.
    victim: Space,
}

/// Runs until nothing is to be read ahead any more.
pub fn run(client: Client) {
    let Some(mut reader) = Reader::open(client) else {
        custody::give_up();
        return;
    };
    while !custody::is_over() {
        reader.round();
    }
    while IN_FLIGHT.load(Ordering::SeqCst) > 0 {
        reader.reap();
    }
}

/// Takes the request for a frame back, if it did not go to the disk yet.
pub fn withdraw(frame: usize) -> bool {
    let is_back = reading::block_address(frame).is_some_and(asynchronous::withdraw);
    if is_back {
        IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
    }
    is_back
}

impl Reader {
    fn open(client: Client) -> Option<Reader> {
        let memory = client.memory;
        let page_bytes = page_bytes();
        let bytes = usize::try_from(memory.rules.read_ahead_bytes).ok()?;
        let wanted = bytes / ORDER_PART * (ORDER_PART - 1) / page_bytes;
        let frames = wanted.min(shelf::FRAMES_MAX);
        let context = Context::open(IN_FLIGHT_MAX)?;
        if !pages::map_frames(frames * page_bytes) || !custody::open() {
            return None;
        }
        let frames = shelf::open(frames);
        let blocks = vec![Block::none(); frames];
        reading::set_blocks(&blocks);
        Some(Reader {
            memory,
            context,
            page_bytes,
            order: Order::new(bytes / ORDER_PART, page_bytes),
            scratch: Scratch::new(),
            leaves: Vec::with_capacity(page::records_max(page_bytes)),
            wants: Vec::with_capacity(IN_FLIGHT_MAX),
            passed: Vec::with_capacity(IN_FLIGHT_MAX),
            blocks,
            claimed: vec![0; frames],
            claims: 0,
            batch: Vec::with_capacity(IN_FLIGHT_MAX),
            generations: [0; SPACES_MAX],
            tried_ns: [0; SPACES_MAX],
            victim: 0,
        })
    }

    fn round(&mut self) {
        custody::settle();
        mailbox::take_branches(|descriptor, page| self.learn(descriptor, page));
        self.wants.clear();
        while let Some((descriptor, page)) = mailbox::take_step() {
            self.step(descriptor, page);
        }
        self.submit();
        if IN_FLIGHT.load(Ordering::SeqCst) > 0 {
            self.reap();
        } else {
            mailbox::sleep(SLEEP_NS);
        }
    }

    /// The slot of a file, and what is known of it.
    fn space(&mut self, descriptor: u16) -> Option<Space> {
        let space = match custody::slot_of(descriptor) {
            Some(space) => space,
            None => {
                // It was read by the program, which may have closed it since.
                let known = descriptor::seen(i32::from(descriptor))?;
                let victim = self.victim;
                let space = custody::take_slot(descriptor, known.file, || victim);
                self.victim = (victim + 1) % SPACES_MAX as Space;
                self.tried_ns[usize::from(space)] = 0;
                space
            }
        };
        let generation = custody::generation(space);
        let known = &mut self.generations[usize::from(space)];
        if *known != generation {
            *known = generation;
            self.order.forget(space);
        }
        Some(space)
    }

    /// The same, if it is held, or can be.
    fn custody(&mut self, space: Space) -> Option<Custody> {
        if let Some(custody) = custody::of_space(space) {
            return Some(custody);
        }
        let now_ns = clock::now_ns();
        let tried_ns = &mut self.tried_ns[usize::from(space)];
        if now_ns < tried_ns.saturating_add(RETRY_NS) {
            return None;
        }
        *tried_ns = now_ns;
        custody::prove(space)
    }

    fn learn(&mut self, descriptor: u16, page: &[u8]) {
        if let Some(space) = self.space(descriptor) {
            self.learn_of(space, page);
        }
    }

    fn learn_of(&mut self, space: Space, page: &[u8]) {
        let Some(head) = page::head(page) else { return };
        let pages = custody::size_of(space) / self.page_bytes as u64;
        let pages = u32::try_from(pages).unwrap_or(page::NONE);
        page::leaves(page, pages, &mut self.scratch, &mut self.leaves);
        if !self.leaves.is_empty() {
            self.order
                .learn(space, head.number, head.next, &self.leaves);
        }
    }

    fn step(&mut self, descriptor: u16, leaf: u32) {
        let Some(space) = self.space(descriptor) else {
            return;
        };
        if self.custody(space).is_none() {
            return;
        }
        let passed = &mut self.passed;
        passed.clear();
        self.order
            .step(space, leaf, &mut self.wants, &mut |page| passed.push(page));
        for &page in &self.passed {
            shelf::throw_out(Key::new(space, page));
        }
        self.memory
            .header
            .read_ahead
            .count_passed(self.passed.len());
    }

    /// Claims frames for what is wanted and hands their requests to the kernel.
    fn submit(&mut self) {
        if self.wants.is_empty() {
            return;
        }
        custody::while_open(|| {
            self.batch.clear();
            for at in 0..self.wants.len() {
                let Want {
                    space,
                    page,
                    is_of_long,
                } = self.wants[at];
                if (IN_FLIGHT.load(Ordering::SeqCst).max(0) as usize) < IN_FLIGHT_MAX
                    && let Some(frame) = self.claim(space, page)
                {
                    let level_min = if is_of_long { LEVEL_SCAN } else { 0 };
                    self.batch.push((self.blocks[frame].address(), level_min));
                    IN_FLIGHT.fetch_add(1, Ordering::SeqCst);
                }
            }
            self.memory.header.read_ahead.count_read(self.batch.len());
            let (first, context) = (self.blocks.as_ptr().addr(), self.context.number());
            asynchronous::submit_own(context, &self.batch, |address| {
                shelf::settle(frame_of(first, address), false);
                IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
            });
        });
    }

    fn claim(&mut self, space: Space, page: u32) -> Option<usize> {
        let bytes = self.page_bytes as u64;
        let offset = u64::from(page) * bytes;
        let claimed = &self.claimed;
        let key = Key::new(space, page);
        let frame = shelf::claim(key, |a, b| claimed[a] < claimed[b])?;
        // After claiming: who begins to write now finds the frame.
        let custody = custody::of_space(space).filter(|custody| {
            offset + bytes <= custody.bytes && !writing::is_written(custody.file, offset)
        });
        let Some(custody) = custody else {
            shelf::settle(frame, false);
            return None;
        };
        self.claims += 1;
        self.claimed[frame] = self.claims;
        let place = pages::frame(frame, self.page_bytes);
        self.blocks[frame].set_read(custody.descriptor, place, self.page_bytes, offset);
        Some(frame)
    }

    /// Takes note of what has ended.
    fn reap(&mut self) {
        let in_flight = IN_FLIGHT.load(Ordering::SeqCst).max(1) as usize;
        let least = if shelf::is_awaited() {
            1
        } else {
            (in_flight / 4).clamp(1, GATHER_MAX)
        };
        let first = self.blocks.as_ptr().addr();
        let mut ended = [(0, 0); reading::EVENTS_MAX];
        let count = self.context.wait(least, GATHER_NS, &mut ended);
        for &(address, result) in &ended[..count] {
            IN_FLIGHT.fetch_sub(1, Ordering::SeqCst);
            self.settle(frame_of(first, address), result);
        }
    }

    fn settle(&mut self, frame: usize, result: i64) {
        let key = shelf::key_of(frame);
        let is_whole = result == self.page_bytes as i64;
        let head = is_whole
            .then(|| pages::with_frame(frame, self.page_bytes, page::head))
            .flatten()
            .filter(|head| head.number == key.page());
        // A branch is looked at before it can be given away.
        if head.is_some_and(|head| head.level == 1)
            && let Some(space) = key.space()
        {
            pages::with_frame(frame, self.page_bytes, |page| self.learn_of(space, page));
        }
        if !shelf::settle(frame, head.is_some()) {
            self.memory.header.read_ahead.count_passed(1);
        }
    }
}

fn frame_of(first: usize, address: usize) -> usize {
    (address - first) / size_of::<Block>()
}
