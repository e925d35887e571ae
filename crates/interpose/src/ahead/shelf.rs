//! Pages that were read ahead.
//!
//! Each frame holds one page, or nothing. The library's thread claims frames and fills them;
//! threads of the program take pages out, once each, and throw out those that they are about
//! to write. All of that is atomic steps on the frame's word: a hook takes no lock.
//!
//! A page is taken only from a frame that is full and not doomed. Who writes dooms the page
//! after marking the place as being written, and who claims a frame looks at that mark after
//! claiming it ([`writing`](super::writing)): one of the two sees the other.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use iolane_protocol::sys::futex;

use super::order::Space;

/// Frames of all sizes of memory and pages.
pub const FRAMES_MAX: usize = 16 << 10;
/// Frames in which a page may lie.
const WAYS: usize = 8;
/// Between two looks at a page that is being read.
const LOOK_NS: u64 = 20_000_000;

/// The frame's word: a state, two marks, and how many are copying it.
const EMPTY: u32 = 0;
/// Its key is being changed.
const CHANGING: u32 = 1;
/// The page is asked for.
const CLAIMED: u32 = 2;
/// The page is there.
const FULL: u32 = 3;
const STATE: u32 = 7;
/// It is not to be given to anybody who comes now.
const DOOMED: u32 = 1 << 3;
/// Somebody sleeps until it is there.
const AWAITED: u32 = 1 << 4;
const COPYING: u32 = 1 << 8;

struct Frame {
    word: AtomicU32,
    key: AtomicU64,
}

static FRAMES: [Frame; FRAMES_MAX] = [const {
    Frame {
        word: AtomicU32::new(EMPTY),
        key: AtomicU64::new(0),
    }
}; FRAMES_MAX];

/// How many are in use, a multiple of [`WAYS`]; 0 before the thread runs.
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Threads that sleep until a page is there.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Whether a thread sleeps until a page is there.
pub fn is_awaited() -> bool {
    WAITING.load(Ordering::SeqCst) > 0
}

/// Which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    pub fn new(space: Space, page: u32) -> Key {
        Key((u64::from(space) + 1) << 32 | u64::from(page))
    }

    pub fn space(self) -> Option<Space> {
        (self.0 >> 32).checked_sub(1).map(|space| space as Space)
    }

    pub fn page(self) -> u32 {
        self.0 as u32
    }
}

/// Begins with so many frames, at most. Gives how many there are.
pub fn open(frames: usize) -> usize {
    let count = frames.clamp(WAYS, FRAMES_MAX) / WAYS * WAYS;
    COUNT.store(count as u32, Ordering::SeqCst);
    count
}

fn ways(key: Key) -> std::ops::Range<usize> {
    let sets = COUNT.load(Ordering::Relaxed) as usize / WAYS;
    if sets == 0 {
        return 0..0;
    }
    let mixed = key.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let first = (mixed >> 32) as usize % sets * WAYS;
    first..first + WAYS
}

fn find(key: Key) -> Option<usize> {
    ways(key).find(|&frame| {
        FRAMES[frame].key.load(Ordering::SeqCst) == key.0
            && FRAMES[frame].word.load(Ordering::SeqCst) & STATE >= CLAIMED
    })
}

/// A frame for a page that is to be read; `None` if the page has one, or all that it could
/// have are in use. Only for the library's thread. `older`: which of two frames was filled
/// earlier.
pub fn claim(key: Key, older: impl Fn(usize, usize) -> bool) -> Option<usize> {
    if find(key).is_some() {
        return None;
    }
    let take = |frame: usize, from: u32| {
        let word = &FRAMES[frame].word;
        word.compare_exchange(from, CHANGING, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    };
    let empty = ways(key).find(|&frame| take(frame, EMPTY));
    let frame = empty.or_else(|| {
        let full = ways(key).filter(|&frame| FRAMES[frame].word.load(Ordering::SeqCst) == FULL);
        let oldest = full.reduce(|a, b| if older(b, a) { b } else { a })?;
        take(oldest, FULL).then_some(oldest)
    })?;
    FRAMES[frame].key.store(key.0, Ordering::SeqCst);
    FRAMES[frame].word.store(CLAIMED, Ordering::SeqCst);
    Some(frame)
}

/// Which page a claimed frame is for.
pub fn key_of(frame: usize) -> Key {
    Key(FRAMES[frame].key.load(Ordering::SeqCst))
}

/// The page is there, or will not come. Wakes those who wait. Gives whether it can be taken.
pub fn settle(frame: usize, is_there: bool) -> bool {
    let word = &FRAMES[frame].word;
    let mut before = word.load(Ordering::SeqCst);
    loop {
        let stays = is_there && before & DOOMED == 0;
        let after = if stays { FULL } else { EMPTY };
        match word.compare_exchange(before, after, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                if before & AWAITED != 0 {
                    futex::wake(word, u32::MAX);
                }
                return stays;
            }
            Err(now) => before = now,
        }
    }
}

/// Throws a page out, whatever becomes of it.
pub fn throw_out(key: Key) {
    if let Some(frame) = find(key) {
        doom(&FRAMES[frame], |other| other == key);
    }
}

/// Throws out all pages of files that are concerned.
pub fn sweep(concerns: impl Fn(Space) -> bool) {
    let count = COUNT.load(Ordering::SeqCst) as usize;
    for frame in &FRAMES[..count] {
        if frame.word.load(Ordering::SeqCst) & STATE >= CLAIMED {
            doom(frame, |key| key.space().is_some_and(&concerns));
        }
    }
}

/// The frame may be for another page by now, which then stays.
fn doom(frame: &Frame, is_it: impl Fn(Key) -> bool) {
    let Frame { word, key } = frame;
    let mut before = word.load(Ordering::SeqCst);
    loop {
        if before & STATE < CLAIMED || !is_it(Key(key.load(Ordering::SeqCst))) {
            return;
        }
        // Nobody copies it and nobody fills it: it is empty at once.
        let after = if before == FULL {
            EMPTY
        } else {
            before | DOOMED
        };
        match word.compare_exchange(before, after, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                if before & AWAITED != 0 {
                    futex::wake(word, u32::MAX);
                }
                return;
            }
            Err(now) => before = now,
        }
    }
}

/// Takes a page out. One that is being read is waited for, unless `withdraw` takes its
/// request back before it went to the disk. `copy` is called while the page stays; it
/// says whether it could be used, and may find `is_doomed` meanwhile.
pub fn take(
    key: Key,
    withdraw: impl Fn(usize) -> bool,
    copy: impl FnOnce(usize, &dyn Fn() -> bool) -> bool,
) -> bool {
    let Some(frame) = find(key).filter(|&frame| await_full(frame, key, withdraw)) else {
        return false;
    };
    let word = &FRAMES[frame].word;
    let is_doomed = || word.load(Ordering::SeqCst) & DOOMED != 0;
    // A frame that changed hands between is another page's.
    let is_taken = FRAMES[frame].key.load(Ordering::SeqCst) == key.0 && copy(frame, &is_doomed);
    let mut before = word.load(Ordering::SeqCst);
    loop {
        // A page is needed once: then the program has it.
        let doomed = if is_taken { DOOMED } else { before & DOOMED };
        let left = before - COPYING;
        let is_last = left < COPYING;
        let after = match (is_last, doomed != 0) {
            (true, true) => EMPTY,
            _ => left | doomed,
        };
        match word.compare_exchange(before, after, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return is_taken,
            Err(now) => before = now,
        }
    }
}

/// Sleeps until the page is there, and holds it. `false`: it will not come.
fn await_full(frame: usize, key: Key, withdraw: impl Fn(usize) -> bool) -> bool {
    let word = &FRAMES[frame].word;
    loop {
        let now = word.load(Ordering::SeqCst);
        let is_it = FRAMES[frame].key.load(Ordering::SeqCst) == key.0;
        if !is_it || now & DOOMED != 0 {
            return false;
        }
        match now & STATE {
            FULL => {
                let held =
                    word.compare_exchange(now, now + COPYING, Ordering::SeqCst, Ordering::SeqCst);
                if held.is_ok() {
                    return true;
                }
            }
            CLAIMED => {
                let marked = now | AWAITED;
                let is_marked = now == marked
                    || word
                        .compare_exchange(now, marked, Ordering::SeqCst, Ordering::SeqCst)
                        .is_ok();
                if !is_marked {
                    continue;
                }
                // Each time: between claiming and asking there is nothing to take back yet, and
                // after that it may wait for leave, behind all that is more urgent.
                if withdraw(frame) {
                    settle(frame, false);
                    return false;
                }
                WAITING.fetch_add(1, Ordering::SeqCst);
                futex::wait(word, marked, LOOK_NS);
                WAITING.fetch_sub(1, Ordering::SeqCst);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
    use std::time::Duration;

    /// There is one shelf in a process.
    pub fn alone() -> MutexGuard<'static, ()> {
        static ONE: Mutex<()> = Mutex::new(());
        let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        sweep(|_| true);
        open(64);
        guard
    }

    fn never(_: usize) -> bool {
        false
    }

    fn taken(key: Key) -> bool {
        take(key, never, |_, _| true)
    }

    #[test]
    fn a_page_is_given_once() {
        let _alone = alone();
        let key = Key::new(2, 7);
        assert!(!taken(key));
        let frame = claim(key, |_, _| false).unwrap();
        assert_eq!(key_of(frame), key);
        assert_eq!(claim(key, |_, _| false), None);
        assert!(settle(frame, true));
        assert!(!taken(Key::new(3, 7)));
        assert!(taken(key));
        assert!(!taken(key));
    }

    #[test]
    fn what_is_thrown_out_is_not_given_in_any_state() {
        let _alone = alone();
        let key = Key::new(0, 9);
        // Asked for, full, and being copied.
        let frame = claim(key, |_, _| false).unwrap();
        throw_out(key);
        assert!(!settle(frame, true));
        assert!(!taken(key));
        let frame = claim(key, |_, _| false).unwrap();
        assert!(settle(frame, true));
        sweep(|space| space == 0);
        assert!(!taken(key));
        let frame = claim(key, |_, _| false).unwrap();
        assert!(settle(frame, true));
        let copied = take(key, never, |_, is_doomed| {
            assert!(!is_doomed());
            throw_out(key);
            assert!(!taken(key), "nobody comes after it was thrown out");
            is_doomed()
        });
        assert!(copied);
        assert!(claim(key, |_, _| false).is_some(), "the frame is free");
    }

    #[test]
    fn a_page_that_could_not_be_used_stays() {
        let _alone = alone();
        let key = Key::new(1, 1);
        let frame = claim(key, |_, _| false).unwrap();
        settle(frame, true);
        assert!(!take(key, never, |_, _| false));
        assert!(taken(key));
    }

    #[test]
    fn who_comes_early_waits_or_takes_the_request_back() {
        let _alone = alone();
        let key = Key::new(5, 5);
        let frame = claim(key, |_, _| false).unwrap();
        let waits = std::thread::spawn(move || taken(key));
        while FRAMES[frame].word.load(Ordering::SeqCst) & AWAITED == 0 {
            std::thread::yield_now();
        }
        settle(frame, true);
        assert!(waits.join().unwrap());
        claim(key, |_, _| false).unwrap();
        assert!(!take(key, |_| true, |_, _| true));
        assert!(claim(key, |_, _| false).is_some());
        // It is asked for only while somebody waits for it already.
        let (tell, told) = mpsc::channel();
        let tries = AtomicU32::new(0);
        std::thread::spawn(move || {
            let withdraw = |_| tries.fetch_add(1, Ordering::SeqCst) > 0;
            tell.send(take(key, withdraw, |_, _| true)).unwrap();
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(false));
        assert!(claim(key, |_, _| false).is_some());
    }

    #[test]
    fn a_full_shelf_gives_up_the_oldest_and_nothing_that_is_asked_for() {
        let _alone = alone();
        open(WAYS);
        let frames: Vec<usize> = (0..WAYS as u32)
            .map(|page| claim(Key::new(0, page), |_, _| false).unwrap())
            .collect();
        assert_eq!(claim(Key::new(0, 99), |_, _| false), None);
        settle(frames[3], true);
        settle(frames[5], true);
        let order = [9, 9, 9, 2, 9, 1, 9, 9];
        let at = |frame: usize| frames.iter().position(|&one| one == frame).unwrap();
        let older = |a: usize, b: usize| order[at(a)] < order[at(b)];
        assert_eq!(claim(Key::new(0, 99), older), Some(frames[5]));
        assert!(!taken(Key::new(0, 5)));
        assert!(taken(Key::new(0, 3)));
        for (at, frame) in frames.into_iter().enumerate() {
            if at != 3 {
                settle(frame, false);
            }
        }
    }
}
