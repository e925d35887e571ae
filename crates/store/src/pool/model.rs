//! The protocol of a page on its way, run in many orders of its steps by
//! `shuttle`: `cargo test -p iolane-store --features shuttle shuttle`.
//!
//! `reading` and `table` are compiled here a second time, on its locks.

#[allow(dead_code, reason = "only what pages on their way need is run here")]
#[path = "reading.rs"]
mod reading;
#[allow(dead_code, reason = "only what pages on their way need is run here")]
#[path = "table.rs"]
mod table;

use crate::ids::PageId;
use crate::sync::latch as primitives;
use primitives::{Condvar, Mutex};
use reading::{Reading, Turn};
use shuttle::sync::Arc;
use shuttle::thread;
use std::sync::Arc as StdArc;
use table::{Entry, Placed, Table};

const PAGE: PageId = PageId::new(1, 5);
/// What a read brings.
const CONTENT: u32 = 77;

/// A request with the engine; a thread of its own completes it.
struct Request(Arc<(Mutex<bool>, Condvar)>);

impl Request {
    fn submit() -> Request {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let engine = Arc::clone(&shared);
        thread::spawn(move || {
            *engine.0.lock() = true;
            engine.1.notify_all();
        });
        Request(shared)
    }

    fn is_done(&self) -> bool {
        *self.0.0.lock()
    }

    fn wait(self) -> u32 {
        let mut done = self.0.0.lock();
        while !*done {
            self.0.1.wait(&mut done);
        }
        CONTENT
    }
}

type Way = Reading<Request, ()>;

/// Table and frames, with the steps of `Pool::load`, `prefetch`, `place` and
/// eviction, but without I/O.
struct Pool {
    table: Table<Way>,
    frames: Vec<Mutex<Option<(PageId, u32)>>>,
    free: Mutex<Vec<u32>>,
    orphans: Mutex<Vec<StdArc<Way>>>,
}

impl Pool {
    fn new(frames: u32) -> Pool {
        Pool {
            table: Table::new(frames as usize),
            frames: (0..frames).map(|_| Mutex::new(None)).collect(),
            free: Mutex::new((0..frames).collect()),
            orphans: Mutex::new(Vec::new()),
        }
    }

    fn take(&self) -> u32 {
        self.free.lock().pop().expect("frames enough for the test")
    }

    fn give(&self, frame: u32) {
        self.free.lock().push(frame);
    }

    fn prefetch(&self) {
        let frame = self.take();
        let reading = StdArc::new(Way::submitting(frame, false));
        let entry = Entry::Reading(StdArc::clone(&reading));
        if self.table.insert_new(PAGE, entry) {
            reading.fly(Request::submit());
        } else {
            self.give(frame);
        }
    }

    fn load(&self) {
        let mut mine = None;
        loop {
            match self.table.get(PAGE) {
                Some(Entry::Resident(_)) => break,
                Some(Entry::Reading(reading)) => match reading.take_or_wait() {
                    Turn::Ended(result) => break result.unwrap(),
                    Turn::Finish(request) => {
                        let content = request.wait();
                        break self.arrived(&reading, content);
                    }
                },
                None => {}
            }
            let Some(frame) = mine else {
                mine = Some(self.take());
                continue;
            };
            let reading = StdArc::new(Way::taken(frame));
            let entry = Entry::Reading(StdArc::clone(&reading));
            if self.table.insert_new(PAGE, entry) {
                mine = None;
                thread::yield_now();
                break self.arrived(&reading, CONTENT);
            }
        }
        if let Some(frame) = mine {
            self.give(frame);
        }
    }

    fn arrived(&self, reading: &StdArc<Way>, content: u32) {
        let mut slot = self.frames[reading.frame as usize].lock();
        let placed = self.table.arrive(PAGE, reading, reading.frame);
        *slot = placed.then_some((PAGE, content));
        drop(slot);
        reading.end(Ok(()));
        if !placed {
            self.give(reading.frame);
        }
    }

    /// What a thread that latches the page finds, if it is there.
    fn look(&self) -> Option<u32> {
        loop {
            match self.table.get(PAGE) {
                Some(Entry::Resident(frame)) => {
                    if let Some((PAGE, content)) = *self.frames[frame as usize].lock() {
                        return Some(content);
                    }
                }
                Some(Entry::Reading(reading)) => {
                    let request = reading.take_if(Request::is_done)?;
                    let content = request.wait();
                    self.arrived(&reading, content);
                }
                None => return None,
            }
        }
    }

    fn place(&self, content: u32) {
        let frame = self.take();
        loop {
            let mut slot = self.frames[frame as usize].lock();
            *slot = Some((PAGE, content));
            match self.table.place(PAGE, frame) {
                Placed::Occupied => {
                    *slot = None;
                    drop(slot);
                    let Some(Entry::Resident(other)) = self.table.get(PAGE) else {
                        continue;
                    };
                    let mut slot = self.frames[other as usize].lock();
                    if let Some((PAGE, _)) = *slot {
                        *slot = Some((PAGE, content));
                        drop(slot);
                        return self.give(frame);
                    }
                }
                Placed::Superseded(reading) => return self.orphans.lock().push(reading),
                Placed::New => return,
            }
        }
    }

    fn evict(&self, frame: u32) {
        let mut freed = false;
        self.table.remove_if(PAGE, |entry| match entry {
            Some(Entry::Resident(holder)) if *holder == frame => {
                // Against the order of locks, so only tried.
                let Some(mut slot) = self.frames[frame as usize].try_lock() else {
                    return false;
                };
                *slot = None;
                freed = true;
                true
            }
            Some(Entry::Reading(reading)) if reading.frame == frame => {
                match reading.take_if(Request::is_done) {
                    Some(request) => {
                        request.wait();
                        reading.end(Ok(()));
                        freed = true;
                        true
                    }
                    None => false,
                }
            }
            _ => false,
        });
        if freed {
            self.give(frame);
        }
    }

    /// All frames are free, or hold the page, or belong to an orphan whose
    /// request nobody took over.
    fn settle(&self) {
        for reading in self.orphans.lock().drain(..) {
            if let Some(request) = reading.take_if(|_| true) {
                request.wait();
                self.give(reading.frame);
            }
        }
        let held = match self.table.get(PAGE) {
            Some(Entry::Resident(frame)) => {
                assert!(self.frames[frame as usize].lock().is_some());
                1
            }
            Some(Entry::Reading(_)) => 1,
            None => 0,
        };
        let mut free = self.free.lock().clone();
        free.sort_unstable();
        free.dedup();
        assert_eq!(free.len() + held, self.frames.len(), "a frame was lost");
        assert_eq!(free.len(), self.free.lock().len(), "a frame is free twice");
    }
}

fn run(steps: Vec<fn(&Pool)>) {
    let pool = Arc::new(Pool::new(6));
    let threads: Vec<_> = steps
        .into_iter()
        .map(|step| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || step(&pool))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    pool.settle();
}

/// Every order of steps ends: shuttle reports threads that wait for ever.
#[test]
fn shuttle_finds_no_reader_that_is_forgotten() {
    shuttle::check_random(
        || run(vec![Pool::prefetch, Pool::load, Pool::load, Pool::prefetch]),
        3000,
    );
}

#[test]
fn shuttle_finds_no_frame_lost_by_eviction() {
    fn look(pool: &Pool) {
        assert!(matches!(pool.look(), None | Some(CONTENT)));
    }
    fn evict_all(pool: &Pool) {
        (0..6).for_each(|frame| pool.evict(frame));
    }
    shuttle::check_random(
        || run(vec![Pool::prefetch, Pool::load, look, evict_all, evict_all]),
        3000,
    );
}

/// A page that is given a new life while its old one is read: the read's
/// content is never seen again.
#[test]
fn shuttle_finds_no_old_content_in_a_new_page() {
    fn place(pool: &Pool) {
        pool.place(1000);
        // Nobody evicts here, so the new content must be there.
        assert_eq!(pool.look(), Some(1000));
    }
    shuttle::check_random(
        || run(vec![Pool::prefetch, Pool::load, place, Pool::load]),
        3000,
    );
}
