//! How many requests each context of Linux AIO was made for, and how many it has.
//!
//! A request that is held back was told to the program as submitted. So that the kernel has room
//! for it later, no more are held back than the context was made for; what is beyond goes to the
//! kernel at once, which refuses it or has room all the same.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// Contexts at a time in a process: what is submitted to others is not held back.
const CONTEXTS_MAX: usize = 64;

struct Context {
    /// 0: nobody's.
    number: AtomicUsize,
    capacity: AtomicI64,
    /// Submitted, of which the program has no event yet.
    taken: AtomicI64,
}

static CONTEXTS: [Context; CONTEXTS_MAX] = [const {
    Context {
        number: AtomicUsize::new(0),
        capacity: AtomicI64::new(0),
        taken: AtomicI64::new(0),
    }
}; CONTEXTS_MAX];

fn find(number: usize) -> Option<&'static Context> {
    CONTEXTS
        .iter()
        .find(|context| number != 0 && context.number.load(Ordering::Acquire) == number)
}

/// The kernel has made a context for so many requests.
pub fn open(number: usize, requests: usize) {
    if number == 0 {
        return;
    }
    // What had the number before was destroyed by another way.
    close(number);
    let free = |context: &&Context| {
        context
            .number
            .compare_exchange(0, usize::MAX, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    if let Some(context) = CONTEXTS.iter().find(free) {
        let requests = i64::try_from(requests).unwrap_or(i64::MAX);
        context.capacity.store(requests, Ordering::Relaxed);
        context.taken.store(0, Ordering::Relaxed);
        context.number.store(number, Ordering::Release);
    }
}

/// A context is gone.
pub fn close(number: usize) {
    if let Some(context) = find(number) {
        context.number.store(0, Ordering::Release);
    }
}

/// Those that there are.
pub fn each(look: impl Fn(usize)) {
    for context in &CONTEXTS {
        let number = context.number.load(Ordering::Acquire);
        if number != 0 && number != usize::MAX {
            look(number);
        }
    }
}

/// A child of a fork has none.
pub fn forget_all() {
    for context in &CONTEXTS {
        context.number.store(0, Ordering::Relaxed);
    }
}

/// A request is about to be submitted. Whether it may be held back.
pub fn enter(number: usize) -> bool {
    find(number).is_some_and(|context| {
        context.taken.fetch_add(1, Ordering::Relaxed) < context.capacity.load(Ordering::Relaxed)
    })
}

/// So many were refused, or the program has their events.
pub fn leave(number: usize, requests: usize) {
    if let Some(context) = find(number) {
        context.taken.fetch_sub(requests as i64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_are_held_back_than_the_context_was_made_for() {
        assert!(!enter(4096), "nobody made it");
        open(4096, 2);
        assert!(enter(4096) && enter(4096));
        assert!(!enter(4096));
        leave(4096, 2);
        assert!(enter(4096));
        open(4096, 1);
        assert!(enter(4096) && !enter(4096));
        close(4096);
        assert!(!enter(4096));
    }
}
