//! Which neighbours go with a request in one transfer.
//!
//! Only what is queued already is looked at: the scheduler never waits for a
//! neighbour to come. "I/O schedulers seriously revisited" shows what waiting
//! costs a database log.

use crate::config::{Config, Policy};
use crate::position::NIL;
use crate::queue::{Queue, direction};
use crate::request::{Kind, Request};

/// A run of queued requests in position order.
pub(crate) struct Span {
    /// Slot of the first.
    pub first: u32,
    /// How many.
    pub count: u32,
}

/// The transfer around `slot`: forward first, as that is how sequential
/// streams grow, then backward.
pub(crate) fn collect(queue: &Queue, config: &Config, slot: u32) -> Span {
    let mut span = Span {
        first: slot,
        count: 1,
    };
    let request = queue.slot(slot).request;
    let alone = queue.slot(slot).terms.alone || config.transfer_members_max == 1;
    if direction(request.kind).is_none() || alone {
        return span;
    }
    let mut start = request.offset;
    let mut end = end_of(&request);
    let mut at = queue.positions.next(slot);
    while at != NIL && span.count < config.transfer_members_max {
        let next = queue.slot(at).request;
        if queue.slot(at).terms.alone
            || !may_join(config, &request, &next, end, next.offset)
            || end_of(&next) - start > u64::from(config.transfer_bytes_max)
        {
            break;
        }
        end = end_of(&next);
        span.count += 1;
        at = queue.positions.next(at);
    }
    at = queue.positions.prev(slot);
    while at != NIL && span.count < config.transfer_members_max {
        let prev = queue.slot(at).request;
        if queue.slot(at).terms.alone
            || !may_join(config, &request, &prev, end_of(&prev), start)
            || end - prev.offset > u64::from(config.transfer_bytes_max)
        {
            break;
        }
        start = prev.offset;
        span.first = at;
        span.count += 1;
        at = queue.positions.prev(at);
    }
    span
}

fn end_of(request: &Request) -> u64 {
    request.offset + u64::from(request.length)
}

/// Whether `other` may share a transfer with `request`, where one range of
/// the transfer ends at `left_end` and the next begins at `right_start`.
fn may_join(
    config: &Config,
    request: &Request,
    other: &Request,
    left_end: u64,
    right_start: u64,
) -> bool {
    let gap_max = match request.kind {
        Kind::Read => u64::from(config.merge_gap_bytes_max),
        // What lies between would be overwritten.
        Kind::Write | Kind::Sync => 0,
    };
    let levels_matter = matches!(config.policy, Policy::PrioDeadline | Policy::Lanes);
    request.file == other.file
        && request.durable == other.durable
        && right_start >= left_end
        && right_start - left_end <= gap_max
        && (!levels_matter || request.level == other.level)
}
