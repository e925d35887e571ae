//! First in, first out.

use crate::queue::Queue;

/// The request that came first.
pub(crate) fn pick(queue: &Queue) -> u32 {
    queue.list_head(0)
}
