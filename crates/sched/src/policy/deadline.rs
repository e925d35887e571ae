//! The deadline scheduler of Linux 2.6, from the description in Hall and
//! Bonnet section 2.1 and the behaviour documented in the kernel's
//! `Documentation/block/deadline-iosched.rst`.

use super::Sweep;
use crate::position::NIL;
use crate::queue::{BYPASS, Queue};

/// The next slot: a sync; the running batch; then, in the direction whose turn
/// it is, an expired request or the next one by position.
pub(crate) fn pick(sweep: &mut Sweep, queue: &Queue, now_ns: u64) -> u32 {
    let sync = queue.list_head(BYPASS);
    if sync != NIL {
        return sync;
    }
    let running = sweep.continue_batch(queue);
    if running != NIL {
        return running;
    }
    let Some(direction) = sweep.choose_direction(queue) else {
        return NIL;
    };
    sweep.start_batch(direction);
    let oldest = queue.list_head(direction as usize);
    if queue.deadline_ns(oldest) <= now_ns {
        oldest
    } else {
        sweep.next_in(queue, direction)
    }
}
