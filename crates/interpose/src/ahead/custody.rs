//! Which files pages are read ahead of, and why nobody else can change them unseen.
//!
//! A page that was read ahead would be stale if the file changed by other ways than the calls
//! that are caught. So a file is *held* only while this process has the one open description
//! of it that there is in the whole system ([`watch::is_only_one`]); who opens it after that,
//! removes, renames or truncates it is seen before the next page is given out
//! ([`is_undisturbed`]), and then everything that was read ahead is thrown out. A description
//! that is shared (`dup`, `fork`, a descriptor sent over a socket or left to a program that is
//! executed, `mmap`) cannot be told apart from one that is not: those calls are caught, and such a
//! file is not held any more.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::order::Space;
use super::shelf;
use crate::client;
use crate::descriptor::{self, DESCRIPTORS_MAX};
use crate::sys::{aio, file, watch};

/// Files at a time: those that are scanned.
pub const SPACES_MAX: usize = 64;

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Nobody knows what became of it: it may be held again.
const LOST: u32 = 2;

struct Held {
    state: AtomicU32,
    descriptor: AtomicI32,
    /// The file's name, as `descriptor` makes it.
    file: AtomicU32,
    size: AtomicU64,
    blocks: AtomicU64,
    /// Grows when the file is forgotten.
    generation: AtomicU32,
}

static SPACES: [Held; SPACES_MAX] = [const {
    Held {
        state: AtomicU32::new(FREE),
        descriptor: AtomicI32::new(-1),
        file: AtomicU32::new(0),
        size: AtomicU64::new(0),
        blocks: AtomicU64::new(0),
        generation: AtomicU32::new(0),
    }
}; SPACES_MAX];

/// By descriptor: a slot plus 1.
static SPACE_OF: [AtomicU8; DESCRIPTORS_MAX] = [const { AtomicU8::new(0) }; DESCRIPTORS_MAX];
/// By descriptor, a bit: this process has opened it, and it is the only way to its
/// description.
static SOLE: [AtomicU64; DESCRIPTORS_MAX / 64] =
    [const { AtomicU64::new(0) }; DESCRIPTORS_MAX / 64];
/// Something happened after which nothing is read ahead in this process.
static IS_OVER: AtomicBool = AtomicBool::new(false);
/// This process has begun programs, and may do so again.
static HAS_SPAWNED: AtomicBool = AtomicBool::new(false);
/// The queue of events; -1 before there is one.
static QUEUE: AtomicI32 = AtomicI32::new(-1);
/// The library's thread hands descriptors to the kernel.
static IS_SUBMITTING: AtomicBool = AtomicBool::new(false);

/// A file that is held.
#[derive(Clone, Copy, Debug)]
pub struct Custody {
    pub space: Space,
    pub descriptor: i32,
    pub file: u32,
    pub bytes: u64,
}

/// Nothing is read ahead in this process from now on.
pub fn give_up() {
    IS_OVER.store(true, Ordering::SeqCst);
    lose_all();
}

pub fn is_over() -> bool {
    IS_OVER.load(Ordering::SeqCst)
}

/// The file behind a descriptor, if it is held.
pub fn of_descriptor(descriptor: i32) -> Option<Custody> {
    let slot = SPACE_OF.get(usize::try_from(descriptor).ok()?)?;
    let space = slot.load(Ordering::SeqCst).checked_sub(1)?;
    of_space(space).filter(|custody| custody.descriptor == descriptor)
}

pub fn of_space(space: Space) -> Option<Custody> {
    let held = &SPACES[usize::from(space)];
    (held.state.load(Ordering::SeqCst) == HELD).then(|| Custody {
        space,
        descriptor: held.descriptor.load(Ordering::SeqCst),
        file: held.file.load(Ordering::SeqCst),
        bytes: held.size.load(Ordering::SeqCst),
    })
}

/// The slot of a descriptor, held or not, and how often it was another file's. Only for the
/// library's thread, as `take_slot` and `prove`.
pub fn slot_of(descriptor: u16) -> Option<Space> {
    SPACE_OF[usize::from(descriptor)]
        .load(Ordering::SeqCst)
        .checked_sub(1)
}

/// How often the slot was given up.
pub fn generation(space: Space) -> u32 {
    SPACES[usize::from(space)].generation.load(Ordering::SeqCst)
}

/// Bytes of the file now, held or not; 0 if there is none.
pub fn size_of(space: Space) -> u64 {
    let descriptor = SPACES[usize::from(space)].descriptor.load(Ordering::SeqCst);
    file::stat(descriptor).map_or(0, |stat| stat.size)
}

/// Slots of files that are held and have this name: more than one where a hash meets.
pub fn named(file: u32) -> impl Iterator<Item = Space> {
    (0..SPACES_MAX as Space).filter(move |&space| {
        let held = &SPACES[usize::from(space)];
        held.state.load(Ordering::SeqCst) == HELD && held.file.load(Ordering::SeqCst) == file
    })
}

/// A slot for a file, which is not held yet: a free one, or the one that `pick` says.
pub fn take_slot(descriptor: u16, file: u32, pick: impl Fn() -> Space) -> Space {
    let free = SPACES
        .iter()
        .position(|held| held.state.load(Ordering::SeqCst) == FREE);
    let space = free.map_or_else(pick, |free| free as Space);
    release(space);
    let held = &SPACES[usize::from(space)];
    held.descriptor
        .store(i32::from(descriptor), Ordering::SeqCst);
    held.file.store(file, Ordering::SeqCst);
    held.state.store(LOST, Ordering::SeqCst);
    SPACE_OF[usize::from(descriptor)].store(space + 1, Ordering::SeqCst);
    space
}

/// Takes the file in a slot into custody. `None`: somebody else may change it.
pub fn prove(space: Space) -> Option<Custody> {
    let held = &SPACES[usize::from(space)];
    let queue = QUEUE.load(Ordering::SeqCst);
    let descriptor = held.descriptor.load(Ordering::SeqCst);
    if queue < 0 || is_over() || !is_sole(descriptor) {
        return None;
    }
    settle();
    // In this order: what happens after the watch begins is in the queue.
    if !watch::add(queue, descriptor) || !watch::is_only_one(descriptor) {
        return None;
    }
    let stat = file::stat(descriptor).filter(|stat| stat.is_regular)?;
    if descriptor::name_of(&stat) != held.file.load(Ordering::SeqCst) {
        // It was closed while it got its slot, and another file has its number: who writes to
        // that looks for its own name.
        release(space);
        return None;
    }
    held.size.store(stat.size, Ordering::SeqCst);
    held.blocks.store(stat.blocks, Ordering::SeqCst);
    // Who found it lost may not have come to throw out what there was, and who wrote meanwhile
    // had nothing to throw out: nobody held it.
    shelf::sweep(|other| other == space);
    held.state
        .compare_exchange(LOST, HELD, Ordering::SeqCst, Ordering::SeqCst)
        .ok()?;
    // Who shares it now finds it held; who did before has left a mark.
    if !is_sole(descriptor) || is_over() {
        lose(space);
        return None;
    }
    of_space(space)
}

/// The slot is free, and nothing of its file is on the shelf.
fn release(space: Space) {
    let held = &SPACES[usize::from(space)];
    held.state.store(FREE, Ordering::SeqCst);
    held.generation.fetch_add(1, Ordering::SeqCst);
    shelf::sweep(|other| other == space);
    let descriptor = held.descriptor.swap(-1, Ordering::SeqCst);
    if let Some(slot) = usize::try_from(descriptor)
        .ok()
        .and_then(|at| SPACE_OF.get(at))
    {
        let _ = slot.compare_exchange(space + 1, 0, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// What is known of a file does not hold any more.
pub fn lose(space: Space) {
    let held = &SPACES[usize::from(space)];
    let _ = held
        .state
        .compare_exchange(HELD, LOST, Ordering::SeqCst, Ordering::SeqCst);
    shelf::sweep(|other| other == space);
}

/// The same for all files.
pub fn lose_all() {
    for held in &SPACES {
        let _ = held
            .state
            .compare_exchange(HELD, LOST, Ordering::SeqCst, Ordering::SeqCst);
    }
    shelf::sweep(|_| true);
}

/// Whether a file is as it was when it came into custody: nobody opened, removed, renamed
/// or truncated it. If not, everything is thrown out.
pub fn is_undisturbed(custody: &Custody) -> bool {
    if !watch::is_quiet(QUEUE.load(Ordering::SeqCst)) {
        lose_all();
        return false;
    }
    // truncate(2) of another process opens nothing.
    let held = &SPACES[usize::from(custody.space)];
    let is_same = file::stat(custody.descriptor).is_some_and(|stat| {
        stat.size == held.size.load(Ordering::SeqCst)
            && stat.blocks == held.blocks.load(Ordering::SeqCst)
    });
    if !is_same {
        lose(custody.space);
    }
    is_same && of_space(custody.space).is_some_and(|now| now.descriptor == custody.descriptor)
}

/// Makes the queue. Only for the library's thread, as the next two.
pub fn open() -> bool {
    let Some(queue) = watch::open() else {
        return false;
    };
    QUEUE.store(queue, Ordering::SeqCst);
    true
}

/// Takes note of what happened to files.
pub fn settle() {
    let queue = QUEUE.load(Ordering::SeqCst);
    if queue >= 0 && !watch::is_quiet(queue) {
        lose_all();
        watch::drain(queue);
    }
}

/// While descriptors are handed to the kernel, none of a held file is closed.
pub fn while_open<T>(submit: impl FnOnce() -> T) -> T {
    IS_SUBMITTING.store(true, Ordering::SeqCst);
    let result = submit();
    IS_SUBMITTING.store(false, Ordering::SeqCst);
    result
}

/// A descriptor is about to be closed, or to name another file.
pub fn forget(descriptor: i32) {
    let Some(index) = usize::try_from(descriptor)
        .ok()
        .filter(|&at| at < DESCRIPTORS_MAX)
    else {
        return;
    };
    if descriptor == QUEUE.load(Ordering::SeqCst) {
        // The program closes what it has not opened.
        give_up();
        QUEUE.store(-1, Ordering::SeqCst);
    }
    set_sole(descriptor, false);
    if let Some(space) = SPACE_OF[index].load(Ordering::SeqCst).checked_sub(1) {
        release(space);
        // In a child of a fork it is a thread of its parent's that does.
        while IS_SUBMITTING.load(Ordering::SeqCst) && client::of_request().is_some() {
            aio::nap();
        }
    }
}

/// A child of a fork has none of its parent's threads.
pub fn forget_parent() {
    IS_SUBMITTING.store(false, Ordering::SeqCst);
}

/// The same for a range, both ends included.
pub fn forget_range(first: u32, last: u32) {
    let queue = QUEUE.load(Ordering::SeqCst);
    if u32::try_from(queue).is_ok_and(|queue| (first..=last).contains(&queue)) {
        forget(queue);
    }
    for held in &SPACES {
        let descriptor = held.descriptor.load(Ordering::SeqCst);
        if u32::try_from(descriptor).is_ok_and(|one| (first..=last).contains(&one)) {
            forget(descriptor);
        }
    }
}

/// A descriptor has another way to its description from now on.
pub fn share(descriptor: i32) {
    set_sole(descriptor, false);
    if let Some(slot) = usize::try_from(descriptor)
        .ok()
        .and_then(|at| SPACE_OF.get(at))
        && let Some(space) = slot.load(Ordering::SeqCst).checked_sub(1)
    {
        release(space);
    }
}

/// A descriptor was made by opening a file.
pub fn own(descriptor: i32) {
    if client::is_guest() {
        // The parent has another file by that number, or none.
        return;
    }
    set_sole(descriptor, true);
    // In this order: a program that begins meanwhile has it, or it is found here.
    if HAS_SPAWNED.load(Ordering::SeqCst) && watch::is_inherited(descriptor) {
        set_sole(descriptor, false);
    }
}

/// This process is about to have a child with its descriptors (fork(2)).
pub fn share_all() {
    if QUEUE.load(Ordering::SeqCst) >= 0 {
        // The child has the queue, too.
        give_up();
    }
    each_sole(share);
}

/// A program is about to be executed in a process that has this one's descriptors, but for those
/// that are closed then.
pub fn share_inherited() {
    HAS_SPAWNED.store(true, Ordering::SeqCst);
    each_sole(|descriptor| {
        if watch::is_inherited(descriptor) {
            share(descriptor);
        }
    });
}

fn each_sole(look: impl Fn(i32)) {
    for (at, word) in SOLE.iter().enumerate() {
        let mut left = word.load(Ordering::SeqCst);
        while left != 0 {
            look((at * 64) as i32 + left.trailing_zeros() as i32);
            left &= left - 1;
        }
    }
}

/// A descriptor is not closed any more where a program is executed: perhaps only in a child of
/// vfork(2), whose mark that is not.
pub fn bequeath(descriptor: i32) {
    if HAS_SPAWNED.load(Ordering::SeqCst) {
        share(descriptor);
    }
}

fn set_sole(descriptor: i32, is_sole: bool) {
    let Some(index) = usize::try_from(descriptor)
        .ok()
        .filter(|&at| at < DESCRIPTORS_MAX)
    else {
        return;
    };
    let bit = 1 << (index % 64);
    if is_sole {
        SOLE[index / 64].fetch_or(bit, Ordering::SeqCst);
    } else if SOLE[index / 64].load(Ordering::SeqCst) & bit != 0 {
        SOLE[index / 64].fetch_and(!bit, Ordering::SeqCst);
    }
}

fn is_sole(descriptor: i32) -> bool {
    let index = usize::try_from(descriptor).unwrap_or(usize::MAX);
    let word = SOLE.get(index / 64);
    word.is_some_and(|word| word.load(Ordering::SeqCst) & 1 << (index % 64) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_was_read_before_a_file_is_held_is_not_given() {
        let _alone = shelf::tests::alone();
        assert!(open());
        let directory = std::env::current_dir().unwrap();
        let files = [(); 2].map(|()| tempfile::NamedTempFile::new_in(&directory).unwrap());
        let descriptor = files[0].as_file().as_raw_fd();
        let names = files
            .each_ref()
            .map(|file| descriptor::name_of(&file::stat(file.as_file().as_raw_fd()).unwrap()));
        own(descriptor);
        let number = u16::try_from(descriptor).unwrap();
        let space = take_slot(number, names[0], || 0);
        if !watch::is_only_one(descriptor) {
            iolane_testing::skipped("this file system grants no leases");
            return;
        }
        // It was lost, and nobody has thrown out yet what there was.
        let key = shelf::Key::new(space, 3);
        let frame = shelf::claim(key, |_, _| false).unwrap();
        assert!(shelf::settle(frame, true));
        assert_eq!(prove(space).unwrap().file, names[0]);
        assert!(!shelf::take(key, |_| false, |_, _| true));
        // The number is another file's by now.
        release(space);
        let space = take_slot(number, names[1], || 0);
        assert!(prove(space).is_none());
        assert_eq!(slot_of(number), None);
        forget(descriptor);
        set_sole(descriptor, false);
    }
}
