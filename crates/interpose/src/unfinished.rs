//! Calls that do not come back: a signal's handler jumped out of them (siglongjmp(3)), to end
//! what takes too long. The places of their requests would stay taken until the process ends,
//! and the disk would seem busy to all others.
//!
//! Each thread keeps a list of its calls under way, with the addresses of their frames: more than
//! one only where a handler makes a call of its own. The next call of a thread sees which frames
//! cannot be there any more, as it has their place on the stack.

use std::cell::Cell;

use crate::ticket::Ticket;

/// Handlers within handlers. What is deeper is not in the list.
const CALLS: usize = 4;
/// What the kernel puts on the stack for a handler is larger than this on every machine, so a
/// frame that is so near is in the place of the other, not beneath it.
const SIGNAL_FRAME_BYTES_MIN: usize = 512;

#[derive(Clone, Copy)]
struct Open {
    /// Where the call keeps whether the thread could be cancelled before
    /// (pthread_setcancelstate(3)).
    frame: usize,
    /// Nobody has made it so again.
    is_cancel_state_due: bool,
    /// And when it came.
    ticket: Option<(Ticket, u64)>,
}

struct List {
    count: Cell<usize>,
    calls: [Cell<Open>; CALLS],
}

thread_local! {
    // Without a destructor and constant: no allocation, nothing to register.
    static LIST: List = const {
        List {
            count: Cell::new(0),
            calls: [const {
                Cell::new(Open { frame: 0, is_cancel_state_due: false, ticket: None })
            }; CALLS],
        }
    };
}

/// A call begins whose frame lies there. Gives back what calls have taken whose frames are gone.
/// `on_another_stack`: a handler with a stack of its own may have interrupted any of them.
pub fn abandon_before(frame: usize, on_another_stack: impl FnOnce() -> bool) {
    LIST.with(|list| {
        let mut count = list.count.get();
        if count == 0 || on_another_stack() {
            return;
        }
        while let Some(last) = count.checked_sub(1) {
            let open = list.calls[last].get();
            if !is_gone(open.frame, frame) {
                return;
            }
            if let Some((ticket, asked_ns)) = open.ticket {
                ticket.abandon(asked_ns);
            }
            // After that: a handler may jump out of this, too.
            count = last;
            list.count.set(count);
        }
    });
}

/// Whether the frame of a call cannot be there if that of another is, which begins.
fn is_gone(frame: usize, begins: usize) -> bool {
    begins.saturating_add(SIGNAL_FRAME_BYTES_MIN) > frame
}

/// A call is under way from now on. Its place in the list, if there is one.
pub fn enter(frame: usize) -> Option<usize> {
    LIST.with(|list| {
        let count = list.count.get();
        list.calls.get(count)?.set(Open {
            frame,
            is_cancel_state_due: true,
            ticket: None,
        });
        list.count.set(count + 1);
        Some(count)
    })
}

/// What it has taken.
pub fn note(place: Option<usize>, ticket: Ticket) {
    let asked_ns = ticket.asked_ns();
    LIST.with(|list| {
        if let Some(call) = place.and_then(|place| list.calls.get(place)) {
            call.set(Open {
                ticket: Some((ticket, asked_ns)),
                ..call.get()
            });
        }
    });
}

/// Whether nobody has given back what it has taken: a thread that changes stacks in a handler
/// may come back to a call that seemed gone.
pub fn is_open(place: Option<usize>, frame: usize) -> bool {
    place.is_none_or(|place| {
        LIST.with(|list| place < list.count.get() && list.calls[place].get().frame == frame)
    })
}

/// The call has come back, and with it those that began later.
pub fn leave(place: Option<usize>, frame: usize) {
    if let Some(place) = place.filter(|_| is_open(place, frame)) {
        LIST.with(|list| list.count.set(place));
    }
}

/// A jump comes, perhaps out of calls that are under way: where the first keeps whether the thread
/// could be cancelled before. Said once: it is the program's own affair from then on.
pub fn take_cancel_state() -> Option<usize> {
    LIST.with(|list| {
        let calls = &list.calls[..list.count.get()];
        let first = calls.first().map(Cell::get)?;
        for call in calls {
            call.set(Open {
                is_cancel_state_due: false,
                ..call.get()
            });
        }
        first.is_cancel_state_due.then_some(first.frame)
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
