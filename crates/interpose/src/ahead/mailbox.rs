//! What threads of the program tell the library's: which leaves a scan came to, and what
//! branch pages looked like. Bounded; what finds no room is lost, and costs a scan its
//! read-ahead for a moment.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use iolane_protocol::sys::futex;

use crate::sys::pages;

/// Steps that are not taken note of yet: a scan of a thread that is faster than the library's
/// for 10 ms.
const STEPS_MAX: u32 = 512;
/// Branch pages that are not taken note of yet.
pub const BRANCHES_MAX: usize = 8;
/// Leaves behind which the next is remembered.
const EXPECTED: usize = 1024;

/// A step is stored with this bit, so that no step is 0.
const THERE: u64 = 1 << 63;

static STEPS: [AtomicU64; STEPS_MAX as usize] = [const { AtomicU64::new(0) }; STEPS_MAX as usize];
static HEAD: AtomicU32 = AtomicU32::new(0);
static TAIL: AtomicU32 = AtomicU32::new(0);

/// Of branch pages: nobody's, being written or read, or the length and descriptor.
static BRANCHES: [AtomicU64; BRANCHES_MAX] = [const { AtomicU64::new(0) }; BRANCHES_MAX];
const BUSY: u64 = 1;

static BELL: AtomicU32 = AtomicU32::new(0);
static IS_ASLEEP: AtomicBool = AtomicBool::new(false);

static NEXT: [AtomicU64; EXPECTED] = [const { AtomicU64::new(0) }; EXPECTED];

/// Somebody came to a leaf in its order.
pub fn step(descriptor: u16, page: u32) {
    let head = HEAD.load(Ordering::Acquire);
    if head.wrapping_sub(TAIL.load(Ordering::Acquire)) >= STEPS_MAX {
        return;
    }
    let is_ours = HEAD
        .compare_exchange(
            head,
            head.wrapping_add(1),
            Ordering::AcqRel,
            Ordering::Relaxed,
        )
        .is_ok();
    // Another thread came to one at the same moment: one of two is enough.
    if is_ours {
        let step = THERE | u64::from(descriptor) << 32 | u64::from(page);
        STEPS[(head % STEPS_MAX) as usize].store(step, Ordering::Release);
        ring();
    }
}

/// The next step. Only for the library's thread.
pub fn take_step() -> Option<(u16, u32)> {
    let tail = TAIL.load(Ordering::Relaxed);
    if tail == HEAD.load(Ordering::Acquire) {
        return None;
    }
    let step = STEPS[(tail % STEPS_MAX) as usize].swap(0, Ordering::AcqRel);
    if step == 0 {
        // It is about to be stored.
        return None;
    }
    TAIL.store(tail.wrapping_add(1), Ordering::Release);
    Some(((step >> 32) as u16, step as u32))
}

/// A branch page has gone by.
pub fn branch(descriptor: u16, page: &[u8]) {
    keep(descriptor, page.len(), |place| {
        pages::keep_branch(place, page);
        true
    });
}

/// The same for one that lies in the program's memory, if it does.
pub fn branch_if_there(descriptor: u16, address: usize, length: usize) {
    keep(descriptor, length, |place| {
        pages::keep_branch_if_there(place, address, length)
    });
}

fn keep(descriptor: u16, length: usize, copy: impl FnOnce(usize) -> bool) {
    let place = BRANCHES.iter().position(|place| {
        place
            .compare_exchange(0, BUSY, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    });
    if let Some(place) = place {
        if !copy(place) {
            BRANCHES[place].store(0, Ordering::Release);
            return;
        }
        let what = THERE | (length as u64) << 16 | u64::from(descriptor);
        BRANCHES[place].store(what, Ordering::Release);
        ring();
    }
}

/// Looks at the branch pages that have gone by. Only for the library's thread.
pub fn take_branches(mut each: impl FnMut(u16, &[u8])) {
    for (place, word) in BRANCHES.iter().enumerate() {
        let what = word.load(Ordering::Acquire);
        if what & THERE != 0 {
            let length = (what & !THERE) >> 16;
            pages::with_branch(place, length as usize, |page| each(what as u16, page));
            word.store(0, Ordering::Release);
        }
    }
}

/// Wakes the library's thread, if it sleeps.
pub fn ring() {
    BELL.fetch_add(1, Ordering::SeqCst);
    if IS_ASLEEP.load(Ordering::SeqCst) {
        futex::wake(&BELL, 1);
    }
}

/// Sleeps until something comes, or so long.
pub fn sleep(timeout_ns: u64) {
    let bell = BELL.load(Ordering::SeqCst);
    IS_ASLEEP.store(true, Ordering::SeqCst);
    let has_news = HEAD.load(Ordering::SeqCst) != TAIL.load(Ordering::SeqCst)
        || BRANCHES
            .iter()
            .any(|place| place.load(Ordering::SeqCst) & THERE != 0);
    if !has_news {
        futex::wait(&BELL, bell, timeout_ns);
    }
    IS_ASLEEP.store(false, Ordering::SeqCst);
}

/// Notes which leaf follows the one that was read.
pub fn expect(file: u32, next: u32) {
    NEXT[place(file, next)].store(name(file, next), Ordering::Relaxed);
}

/// Whether the leaf before this one was read not long ago.
pub fn is_expected(file: u32, page: u32) -> bool {
    NEXT[place(file, page)].load(Ordering::Relaxed) == name(file, page)
}

fn name(file: u32, page: u32) -> u64 {
    u64::from(file) << 32 | u64::from(page)
}

fn place(file: u32, page: u32) -> usize {
    (name(file, page).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % EXPECTED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_branches_come_out_once_and_what_is_too_much_is_lost() {
        for page in 0..2 * STEPS_MAX {
            step(7, page);
        }
        assert_eq!(take_step(), Some((7, 0)));
        let rest = std::iter::from_fn(take_step).count();
        assert_eq!(rest, STEPS_MAX as usize - 1);
        for at in 0..BRANCHES_MAX + 1 {
            branch(at as u16, &[at as u8; 4096]);
        }
        let mut seen = Vec::new();
        take_branches(|descriptor, page| {
            assert_eq!(page, [descriptor as u8; 4096]);
            seen.push(descriptor);
        });
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7]);
        take_branches(|_, _| panic!("they were taken"));
    }

    #[test]
    fn the_next_leaf_is_expected_in_its_file() {
        expect(3, 99);
        assert!(is_expected(3, 99));
        assert!(!is_expected(4, 99));
        assert!(!is_expected(3, 98));
    }
}
