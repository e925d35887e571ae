//! Logical read-ahead for InnoDB (`--read-ahead logical`).
//!
//! A scan of an index reads its leaves in the order of their keys. On the disk they lie in
//! another order where rows came in another one, so that neither InnoDB nor a kernel sees a
//! pattern. The branch pages above the leaves have the order: they go by when they are read or
//! written (`page`, `order`). When a thread goes from leaf to leaf, a thread of the library
//! reads the leaves that come next (`reader`) onto a shelf (`shelf`), from which the thread's
//! own read then takes them.
//!
//! No page is stale: what this process writes is thrown out before it is written, and not
//! read ahead until that has ended (`writing`); what others could do to a file is seen before
//! a page is given out (`custody`).

mod custody;
pub mod mailbox;
mod order;
pub mod page;
mod reader;
mod shelf;
mod writing;

use std::sync::atomic::{AtomicU32, Ordering};

use iolane_protocol::Memory;

pub use custody::{bequeath, forget, forget_parent, forget_range, give_up, own, share, share_all};
use page::Head;
pub use reader::run;
use shelf::Key;
pub use writing::{EXTENT_WORDS, Extent};

use crate::client::{self, Client};
use crate::descriptor::{self, Behind, Known};
use crate::sys::{pages, reading};

/// Bytes of a page, the same in all files that are read ahead: those of the first. 0 before.
static PAGE_BYTES: AtomicU32 = AtomicU32::new(0);

fn page_bytes() -> usize {
    PAGE_BYTES.load(Ordering::Acquire) as usize
}

/// Whether pages are, or may come to be, read ahead in this process.
pub fn may_be_used() -> bool {
    let is_asked_for = |client: Client| client.memory.rules.read_ahead_bytes > 0;
    client::is_on() && !custody::is_over() && client::of_request().is_none_or(is_asked_for)
}

/// A program is about to begin that may inherit descriptors of this process.
pub fn spawns() {
    if may_be_used() {
        custody::share_inherited();
    }
}

/// Whether a range can be a page that is looked at.
pub fn may_be_page(memory: &Memory, offset: u64, length: usize) -> bool {
    memory.rules.read_ahead_bytes > 0 && page_of(offset, length).is_some()
}

/// The number of the page that is all that is asked for.
fn page_of(offset: u64, length: usize) -> Option<u32> {
    let is_one = page::is_length(length) && offset.is_multiple_of(length as u64);
    let number = is_one.then(|| offset / length as u64)?;
    u32::try_from(number).ok()
}

/// Whether a read was served by what was read ahead.
///
/// `copy` puts a frame where the program wants it, if it can be: otherwise the kernel says what it says of that.
pub fn serve(
    memory: &Memory,
    descriptor: i32,
    offset: u64,
    length: usize,
    copy: impl FnOnce(usize) -> bool,
) -> bool {
    let Some(custody) = custody::of_descriptor(descriptor) else {
        return false;
    };
    let Some(number) = page_of(offset, length).filter(|_| length == page_bytes()) else {
        return false;
    };
    let is_served = shelf::take(
        Key::new(custody.space, number),
        reader::withdraw,
        |frame, is_doomed| {
            if !custody::is_undisturbed(&custody) || is_doomed() {
                return false;
            }
            if let Some(head) = pages::with_frame(frame, length, page::head)
                && head.next != page::NONE
            {
                mailbox::expect(custody.file, head.next);
            }
            copy(frame)
        },
    );
    if is_served {
        memory.header.read_ahead.count_used();
        mailbox::step(descriptor as u16, number);
    }
    is_served
}

/// A page was read from the disk.
pub fn note_read(client: Client, known: &Known, descriptor: i32, offset: u64, page: &[u8]) {
    let Some((head, descriptor)) = look(client.memory, descriptor, offset, page.len(), page) else {
        return;
    };
    match head.level {
        0 => {
            if head.next != page::NONE {
                mailbox::expect(known.file, head.next);
            }
            if mailbox::is_expected(known.file, head.number) {
                mailbox::step(descriptor, head.number);
            }
        }
        1 => mailbox::branch(descriptor, page),
        _ => {}
    }
    client::start_reader(reading::start_thread);
}

/// A page was written.
pub fn note_write(memory: &Memory, descriptor: i32, offset: u64, page: &[u8]) {
    if let Some((head, descriptor)) = look(memory, descriptor, offset, page.len(), page)
        && head.level == 1
    {
        mailbox::branch(descriptor, page);
    }
}

/// A page is with the kernel, which may find that there is none at this address.
pub fn note_submitted(
    memory: &Memory,
    descriptor: i32,
    offset: u64,
    length: usize,
    address: usize,
) {
    let mut head = [0; page::HEAD_BYTES];
    if pages::copy_if_there(address, &mut head)
        && let Some((head, descriptor)) = look(memory, descriptor, offset, length, &head)
        && head.level == 1
    {
        mailbox::branch_if_there(descriptor, address, length);
    }
}

/// The head of a page of an index, if pages are read ahead. `start`: the first bytes of so many.
fn look(
    memory: &Memory,
    descriptor: i32,
    offset: u64,
    length: usize,
    start: &[u8],
) -> Option<(Head, u16)> {
    if memory.rules.read_ahead_bytes == 0 || custody::is_over() {
        return None;
    }
    let number = page_of(offset, length)?;
    let head = page::head(start).filter(|head| head.number == number)?;
    let bytes = length as u32;
    let known = PAGE_BYTES.compare_exchange(0, bytes, Ordering::AcqRel, Ordering::Acquire);
    (known.is_ok() || known == Err(bytes)).then_some(())?;
    Some((head, u16::try_from(descriptor).ok()?))
}

/// A call is about to change what is behind a descriptor: `offset` to `length` bytes further,
/// or somewhere. What was read ahead of it is thrown out. The extent is to be ended when the
/// call has.
pub fn begin_change(descriptor: i32, offset: Option<u64>, length: u64) -> Option<Extent> {
    let extent = extent_of(descriptor, offset, length)?;
    extent.begin();
    throw_out(extent);
    Some(extent)
}

/// The same for a call that may change other files, too, if there is a file behind the descriptor.
pub fn begin_change_around(descriptor: i32) -> Option<Extent> {
    if !may_be_used() {
        // What is not to be scheduled need not be looked up.
        return None;
    }
    if client::is_guest() {
        // The descriptor is the child's, and what is known of it the parent's.
        return begin_change_of_any();
    }
    extent_of(descriptor, None, 0).and_then(|_| begin_change_of_any())
}

/// `None`: nothing there is read ahead.
fn extent_of(descriptor: i32, offset: Option<u64>, length: u64) -> Option<Extent> {
    if !client::is_on() {
        return None;
    }
    let Some(client) = client::of_request() else {
        return Some(Extent::All);
    };
    match descriptor::behind(client.memory, descriptor) {
        Behind::Unknown => Some(Extent::All),
        Behind::NoDisk => None,
        Behind::File(known) => Some(Extent::of(known.file, offset, length)),
    }
}

/// The same for a call that names no descriptor.
pub fn begin_change_of_any() -> Option<Extent> {
    client::is_on().then(|| {
        Extent::All.begin();
        throw_out(Extent::All);
        Extent::All
    })
}

fn throw_out(extent: Extent) {
    match extent {
        Extent::All => shelf::sweep(|_| true),
        Extent::File(file) => {
            for space in custody::named(file) {
                shelf::sweep(|other| other == space);
            }
        }
        Extent::Range(file, first, last) => {
            let Some(pages_per_granule) = writing::GRANULE_BYTES.checked_div(page_bytes()) else {
                return;
            };
            let pages_per_granule = pages_per_granule as u64;
            for space in custody::named(file) {
                for number in first * pages_per_granule..(last + 1) * pages_per_granule {
                    if let Ok(number) = u32::try_from(number) {
                        shelf::throw_out(Key::new(space, number));
                    }
                }
            }
        }
    }
}
