//! Threads that sleep on a lock until a page was written.
//!
//! Storage engines keep a page locked while it is being written. A query that wants to change the
//! page sleeps on the lock's word (futex(2)), and the word lies in the descriptor of the page's
//! buffer, beside the buffer's address. So what lies around the word tells which write the thread
//! waits for, if that is asynchronous: the write has the same address. It is then as urgent as a
//! read of the thread's own would be, whether it waits for leave already or comes later, while the
//! thread sleeps.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use iolane_protocol::sys::clock;

use crate::asynchronous;
use crate::client::Client;
use crate::thread;

/// Words of 8 bytes that are looked at, those around the lock's. InnoDB's descriptor has the
/// address 24 bytes behind it.
pub const WORDS: usize = 16;
/// Direct I/O is aligned to so much at the least; so the level has room in the address.
const ALIGNMENT: usize = 512;
/// What a sleeper may wait for: nearly always one of the words is an address.
const BUFFERS_MAX: usize = 4;
/// Those of all sleepers. What is beyond is not looked for by writes that come later.
const PLACES: usize = 256;
/// Without a write that had to wait for so long, nobody looks: locks are the program's own affair.
const IDLE_NS: u64 = 1_000_000_000;
const FOREGROUND: u8 = 1;

/// Addresses of buffers, each plus the level of who waits; 0 is free.
static WANTED: [AtomicUsize; PLACES] = [const { AtomicUsize::new(0) }; PLACES];
/// When a write had to wait for leave for the last time.
static PARKED_NS: AtomicU64 = AtomicU64::new(0);

/// A child of a fork has one thread, which is awake.
pub fn forget_all() {
    for place in &WANTED {
        place.store(0, Ordering::Relaxed);
    }
}

/// Whether writes wait for leave, or did a moment ago.
pub fn is_worth_a_look() -> bool {
    let last_ns = PARKED_NS.load(Ordering::Relaxed);
    last_ns != 0 && clock::now_ns() < last_ns.saturating_add(IDLE_NS)
}

/// A write from this buffer waits for leave from now on. The level of the most urgent of those who
/// sleep until it has ended, if any does.
pub fn parks(buffer: usize) -> Option<u8> {
    PARKED_NS.store(clock::now_ns(), Ordering::Relaxed);
    WANTED
        .iter()
        .map(|place| place.load(Ordering::SeqCst))
        .filter(|wanted| wanted & !(ALIGNMENT - 1) == buffer)
        .map(|wanted| (wanted % ALIGNMENT) as u8)
        .min()
}

/// The thread sleeps on a lock, with these words around it.
pub fn sleeps<T>(client: Client, around: [u64; WORDS], sleep: impl FnOnce() -> T) -> T {
    let level = thread::sunk_level(FOREGROUND, clock::now_ns());
    let mut taken = [None; BUFFERS_MAX];
    let addresses = around.into_iter().filter_map(|word| {
        let address = usize::try_from(word).ok()?;
        (address != 0 && address.is_multiple_of(ALIGNMENT)).then_some(address)
    });
    for (place, address) in taken.iter_mut().zip(addresses) {
        *place = take(address | usize::from(level));
        // After that: a write that is parked meanwhile finds the place.
        asynchronous::promote_write(client, address, level);
    }
    let result = sleep();
    for place in taken.into_iter().flatten() {
        WANTED[place].store(0, Ordering::SeqCst);
    }
    result
}

/// A free place, in which the word is from now on.
fn take(wanted: usize) -> Option<usize> {
    let first = wanted / ALIGNMENT;
    (0..PLACES)
        .map(|step| (first + step) % PLACES)
        .find(|&place| {
            WANTED[place]
                .compare_exchange(0, wanted, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_finds_the_most_urgent_of_those_who_sleep() {
        let (one, other) = (0x7f00_0000_4000, 0x7f00_0000_8000);
        assert_eq!(parks(one), None);
        assert!(is_worth_a_look());
        let places = [one | 3, other | 1, one | 2].map(take);
        assert_eq!(parks(one), Some(2));
        assert_eq!(parks(other), Some(1));
        for place in places.into_iter().flatten() {
            WANTED[place].store(0, Ordering::SeqCst);
        }
        assert_eq!(parks(one), None);
    }
}
