//! The paper's scheduler (section 4.1): a FIFO per level with a deadline by
//! level; expired requests first; otherwise position order over all levels.

use super::Sweep;
use crate::position::NIL;
use crate::queue::{BYPASS, Queue};
use crate::request::Level;

/// The next slot. Among expired requests the one that expired first goes, the
/// more urgent level first at equal times.
pub(crate) fn pick(sweep: &mut Sweep, queue: &Queue, now_ns: u64) -> u32 {
    let sync = queue.list_head(BYPASS);
    if sync != NIL {
        return sync;
    }
    let expired = Level::ALL
        .into_iter()
        .map(|level| queue.list_head(level.index()))
        .filter(|&slot| slot != NIL && queue.deadline_ns(slot) <= now_ns)
        .min_by_key(|&slot| queue.deadline_ns(slot));
    if let Some(slot) = expired {
        return slot;
    }
    let running = sweep.continue_batch(queue);
    if running != NIL {
        return running;
    }
    match sweep.choose_direction(queue) {
        None => NIL,
        Some(direction) => {
            sweep.start_batch(direction);
            sweep.next_in(queue, direction)
        }
    }
}
