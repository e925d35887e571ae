//! Calls that do not come back: a signal's handler jumped out of them (siglongjmp(3)), to end
//! what takes too long. The places of their requests would stay taken until the process ends,
//! and the disk would seem busy to all others.
//!
//! Each thread keeps a list of its calls under way, with the addresses of their frames: more than
//! one only where a handler makes a call of its own. The next call of a thread sees which frames
//! cannot be there any more, as it has their place on the stack.
//!
//! A handler may jump out of what keeps the list, too, between any two instructions. So each of its
//! words is stored by itself, and the one that makes others count after them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::ticket::{self, Ticket};

/// Handlers within handlers. What is deeper is not in the list.
const CALLS: usize = 4;
/// What the kernel puts on the stack for a handler is larger than this on every machine, so a
/// frame that is so near is in the place of the other, not beneath it.
const SIGNAL_FRAME_BYTES_MIN: usize = 512;
/// The call has taken nothing.
const NOTHING: usize = usize::MAX;

struct Open {
    /// Where the call keeps whether the thread could be cancelled before
    /// (pthread_setcancelstate(3)).
    frame: AtomicUsize,
    /// Nobody has made it so again.
    is_cancel_state_due: AtomicBool,
    /// The ticket's number, or [`NOTHING`].
    number: AtomicUsize,
    /// When it came.
    asked_ns: AtomicU64,
}

struct List {
    count: AtomicUsize,
    calls: [Open; CALLS],
}

thread_local! {
    // Without a destructor and constant: no allocation, nothing to register. Atomic only for the
    // order of the stores, as the thread's own handlers see it.
    static LIST: List = const {
        List {
            count: AtomicUsize::new(0),
            calls: [const {
                Open {
                    frame: AtomicUsize::new(0),
                    is_cancel_state_due: AtomicBool::new(false),
                    number: AtomicUsize::new(NOTHING),
                    asked_ns: AtomicU64::new(0),
                }
            }; CALLS],
        }
    };
}

/// A call begins whose frame lies there. Gives back what calls have taken whose frames are gone.
/// `on_another_stack`: a handler with a stack of its own may have interrupted any of them.
pub fn abandon_before(frame: usize, on_another_stack: impl FnOnce() -> bool) {
    LIST.with(|list| {
        let mut count = list.count.load(Ordering::Acquire);
        if count == 0 || on_another_stack() {
            return;
        }
        while let Some(last) = count.checked_sub(1) {
            let open = &list.calls[last];
            if !is_gone(open.frame.load(Ordering::Relaxed), frame) {
                return;
            }
            if let Some((number, asked_ns)) = open.taken() {
                ticket::abandon(number, asked_ns);
            }
            // After that: a handler may jump out of this, too.
            count = last;
            list.count.store(count, Ordering::Release);
        }
    });
}

/// Whether the frame of a call cannot be there if that of another is, which begins.
fn is_gone(frame: usize, begins: usize) -> bool {
    begins.saturating_add(SIGNAL_FRAME_BYTES_MIN) > frame
}

impl Open {
    /// A ticket's number, and when it came.
    fn taken(&self) -> Option<(usize, u64)> {
        let number = self.number.load(Ordering::Acquire);
        (number != NOTHING).then(|| (number, self.asked_ns.load(Ordering::Relaxed)))
    }
}

/// A call is under way from now on. Its place in the list, if there is one.
pub fn enter(frame: usize) -> Option<usize> {
    LIST.with(|list| {
        let count = list.count.load(Ordering::Acquire);
        let open = list.calls.get(count)?;
        open.number.store(NOTHING, Ordering::Relaxed);
        open.is_cancel_state_due.store(true, Ordering::Relaxed);
        open.frame.store(frame, Ordering::Relaxed);
        list.count.store(count + 1, Ordering::Release);
        Some(count)
    })
}

/// What it has taken.
pub fn note(place: Option<usize>, ticket: Ticket) {
    note_number(place, ticket.number(), ticket.asked_ns());
}

fn note_number(place: Option<usize>, number: usize, asked_ns: u64) {
    LIST.with(|list| {
        if let Some(open) = place.and_then(|place| list.calls.get(place)) {
            open.asked_ns.store(asked_ns, Ordering::Relaxed);
            open.number.store(number, Ordering::Release);
        }
    });
}

/// Whether nobody has given back what it has taken: a thread that changes stacks in a handler
/// may come back to a call that seemed gone.
pub fn is_open(place: Option<usize>, frame: usize) -> bool {
    place.is_none_or(|place| {
        LIST.with(|list| {
            let is_listed = place < list.count.load(Ordering::Acquire);
            is_listed && list.calls[place].frame.load(Ordering::Relaxed) == frame
        })
    })
}

/// The call has come back, and with it those that began later.
pub fn leave(place: Option<usize>, frame: usize) {
    if let Some(place) = place.filter(|_| is_open(place, frame)) {
        LIST.with(|list| list.count.store(place, Ordering::Release));
    }
}

/// A jump comes, perhaps out of calls that are under way: where the first keeps whether the thread
/// could be cancelled before. Said once: it is the program's own affair from then on.
pub fn take_cancel_state() -> Option<usize> {
    LIST.with(|list| {
        let calls = &list.calls[..list.count.load(Ordering::Acquire)];
        let (first, later) = calls.split_first()?;
        for call in later {
            call.is_cancel_state_due.store(false, Ordering::Relaxed);
        }
        let is_due = first.is_cancel_state_due.swap(false, Ordering::Relaxed);
        is_due.then(|| first.frame.load(Ordering::Relaxed))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_whose_frames_are_gone_are_no_more() {
        const FRAME: usize = 0x7fff_0000_8000;
        let begins = |frame| {
            abandon_before(frame, || false);
            enter(frame)
        };
        let one = begins(FRAME);
        let in_handler = begins(FRAME - 4096);
        assert!(is_open(one, FRAME) && is_open(in_handler, FRAME - 4096));
        assert_eq!(take_cancel_state(), Some(FRAME));
        assert_eq!(take_cancel_state(), None);
        abandon_before(FRAME + 4096, || true);
        assert!(is_open(one, FRAME), "on another stack it may lie anywhere");
        let next = begins(FRAME - 100);
        assert_eq!(next, Some(0), "the handler has jumped out of both");
        assert!(!is_open(one, FRAME) && !is_open(in_handler, FRAME - 4096));
        leave(next, FRAME - 100);
        assert_eq!(take_cancel_state(), None);
        leave(one, FRAME);
        assert_eq!(enter(FRAME), Some(0));
        leave(Some(0), FRAME);
    }

    /// As a handler may jump out of all that keeps the list: what it sees then is what the thread's
    /// next call finds.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn no_jump_leaves_half_a_call() {
        const FRAME: usize = 0x7fff_0000_8000;
        const TICKETS: [(usize, u64); 2] = [(4711, 1 << 40), (17, 3)];
        let take = |depth: usize| {
            let place = enter(FRAME - depth * 4096);
            let (number, asked_ns) = TICKETS[depth];
            note_number(place, number, asked_ns);
            place
        };
        let look = || {
            LIST.with(|list| {
                let count = list.count.load(Ordering::Relaxed);
                for (depth, open) in list.calls[..count].iter().enumerate() {
                    assert_eq!(open.frame.load(Ordering::Relaxed), FRAME - depth * 4096);
                    assert!([None, Some(TICKETS[depth])].contains(&open.taken()));
                }
            });
        };
        for _ in 0..2 {
            let looks = crate::sys::steps::after_each_instruction(
                || {
                    let place = take(0);
                    let in_handler = take(1);
                    leave(in_handler, FRAME - 4096);
                    leave(place, FRAME);
                },
                look,
            );
            assert!(looks > 20, "{looks}");
        }
    }

    #[test]
    fn handlers_within_handlers_need_no_place() {
        const FRAME: usize = 0x7fff_0000_8000;
        let places: Vec<_> = (0..CALLS + 1)
            .map(|depth| enter(FRAME - depth * 4096))
            .collect();
        assert_eq!(places[CALLS], None);
        assert!(is_open(None, FRAME));
        leave(places[0], FRAME);
        assert_eq!(take_cancel_state(), None);
    }
}
