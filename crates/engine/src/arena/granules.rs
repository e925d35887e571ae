//! Which parts of an arena are free: a binary buddy allocator over granules of
//! 4 KiB. Pure bookkeeping; it never touches the memory that it divides.
//!
//! A block of order `k` is 2^k granules and starts at a multiple of 2^k, so
//! blocks are aligned to their size and freed neighbours join again (Knuth,
//! "The Art of Computer Programming" volume 1, section 2.5). What a request
//! does not need of its block is freed at once, so a request costs its own
//! length rounded up to one granule, not to a power of two.
//!
//! Pages of 16 KiB, by far the most frequent request, come from a stack in
//! front of the buddies: one pop, one push. The stack is bounded, and returned
//! to the buddies before a request is refused, so it hides no memory.

/// Bytes per granule: the largest alignment that direct I/O asks for today.
pub(crate) const GRANULE_BYTES: usize = 4096;

/// Order of a 16 KiB page.
const PAGE_ORDER: u32 = 2;
const PAGE_GRANULES: u32 = 1 << PAGE_ORDER;

/// Pages kept on the stack: 16 MiB, more than any burst of frees between two
/// allocations that matters, little enough to leave the buddies whole.
const PAGE_STACK_MAX: usize = 1024;

/// One list of free blocks per order.
const ORDERS: usize = 32;

/// End of a list. Also the limit: an arena has fewer granules than this.
const NONE: u32 = u32::MAX;

/// In `order_of`: no free block starts here.
const NOT_FREE: u8 = u8::MAX;

/// A run of granules handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) count: u32,
}

#[derive(Debug)]
pub(crate) struct Granules {
    total: u32,
    free: u32,
    /// First free block of each order.
    heads: [u32; ORDERS],
    /// Bit `k`: list `k` is not empty.
    nonempty: u32,
    /// Order of the free block that starts at a granule, or `NOT_FREE`.
    order_of: Vec<u8>,
    /// List links, meaningful where `order_of` is an order.
    next: Vec<u32>,
    prev: Vec<u32>,
    pages: Vec<u32>,
}

impl Granules {
    /// Most granules that one arena can have: 16 TiB.
    pub(crate) const TOTAL_MAX: u32 = NONE - 1;

    pub(crate) fn new(total: u32) -> Self {
        assert!(total <= Self::TOTAL_MAX);
        let len = total as usize;
        let mut granules = Granules {
            total,
            free: total,
            heads: [NONE; ORDERS],
            nonempty: 0,
            order_of: vec![NOT_FREE; len],
            next: vec![NONE; len],
            prev: vec![NONE; len],
            pages: Vec::with_capacity(PAGE_STACK_MAX),
        };
        granules.release(0, total);
        granules
    }

    /// `count` granules, at least one, starting at a multiple of
    /// 2^`align_order`; `None` when no free block is large enough.
    pub(crate) fn take(&mut self, count: u32, align_order: u32) -> Option<Run> {
        assert!(count > 0);
        let page = count == PAGE_GRANULES && align_order <= PAGE_ORDER;
        let start = if page && let Some(start) = self.pages.pop() {
            start
        } else {
            self.take_block(count, align_order).or_else(|| {
                self.empty_page_stack();
                self.take_block(count, align_order)
            })?
        };
        self.free -= count;
        Some(Run { start, count })
    }

    /// Takes back a run that [`take`](Self::take) gave.
    pub(crate) fn give(&mut self, run: Run) {
        let Run { start, count } = run;
        assert!(count > 0 && start < self.total && count <= self.total - start);
        let page = count == PAGE_GRANULES && start.is_multiple_of(PAGE_GRANULES);
        if page && self.pages.len() < PAGE_STACK_MAX {
            self.pages.push(start);
        } else {
            self.release(start, start + count);
        }
        self.free += count;
        debug_assert!(self.free <= self.total);
    }

    /// Free granules, together.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Granules of the largest free block: the most that one `take` gets.
    pub(crate) fn free_largest(&mut self) -> u32 {
        self.empty_page_stack();
        match self.nonempty {
            0 => 0,
            orders => 1 << orders.ilog2(),
        }
    }

    fn empty_page_stack(&mut self) {
        while let Some(start) = self.pages.pop() {
            self.release(start, start + PAGE_GRANULES);
        }
    }

    fn take_block(&mut self, count: u32, align_order: u32) -> Option<u32> {
        let wanted = order_up(count).max(align_order);
        let fitting = self.nonempty & u32::MAX.checked_shl(wanted)?;
        if fitting == 0 {
            return None;
        }
        let found = fitting.trailing_zeros();
        let start = self.heads[found as usize];
        self.unlink(start, found);
        // The tail in one go: halving down to `wanted` would free the same.
        self.release(start + count, start + (1 << found));
        Some(start)
    }

    /// Frees granules `start..end` as the fewest aligned blocks.
    fn release(&mut self, mut start: u32, end: u32) {
        while start < end {
            let order = (end - start).ilog2().min(start.trailing_zeros());
            self.release_block(start, order);
            start += 1 << order;
        }
    }

    /// Frees one block, joined with its buddy as often as that is free too.
    fn release_block(&mut self, mut start: u32, mut order: u32) {
        loop {
            let buddy = start ^ (1 << order);
            let joins = buddy < self.total && u32::from(self.order_of[buddy as usize]) == order;
            if !joins {
                break;
            }
            self.unlink(buddy, order);
            start = start.min(buddy);
            order += 1;
        }
        self.link(start, order);
    }

    fn link(&mut self, start: u32, order: u32) {
        let at = start as usize;
        assert_eq!(self.order_of[at], NOT_FREE, "granule {start} freed twice");
        let head = self.heads[order as usize];
        self.order_of[at] = order as u8;
        self.next[at] = head;
        self.prev[at] = NONE;
        if head != NONE {
            self.prev[head as usize] = start;
        }
        self.heads[order as usize] = start;
        self.nonempty |= 1 << order;
    }

    fn unlink(&mut self, start: u32, order: u32) {
        let at = start as usize;
        assert_eq!(u32::from(self.order_of[at]), order);
        let (prev, next) = (self.prev[at], self.next[at]);
        if prev == NONE {
            self.heads[order as usize] = next;
            if next == NONE {
                self.nonempty &= !(1 << order);
            }
        } else {
            self.next[prev as usize] = next;
        }
        if next != NONE {
            self.prev[next as usize] = prev;
        }
        self.order_of[at] = NOT_FREE;
    }
}

/// Smallest order whose block holds `count` granules.
fn order_up(count: u32) -> u32 {
    count.checked_next_power_of_two().map_or(32, u32::ilog2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Take { count: u32, align_order: u32 },
        Give { pick: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1u32..40, 0u32..6)
                .prop_map(|(count, align_order)| Step::Take { count, align_order }),
            2 => Just(Step::Take { count: PAGE_GRANULES, align_order: 0 }),
            4 => any::<usize>().prop_map(|pick| Step::Give { pick }),
        ]
    }

    proptest! {
        #[test]
        fn runs_never_overlap_and_all_memory_returns(
            total in 1u32..700,
            steps in prop::collection::vec(step(), 0..400),
        ) {
            let mut granules = Granules::new(total);
            let largest = granules.free_largest();
            let mut taken = vec![false; total as usize];
            let mut runs = Vec::new();
            for step in steps {
                match step {
                    Step::Take { count, align_order } => {
                        let Some(run) = granules.take(count, align_order) else {
                            let fits = order_up(count).max(align_order);
                            prop_assert!(granules.free_largest() < 1 << fits);
                            continue;
                        };
                        prop_assert_eq!(run.count, count);
                        prop_assert!(run.start.is_multiple_of(1 << align_order));
                        for at in run.start..run.start + count {
                            prop_assert!(!std::mem::replace(&mut taken[at as usize], true));
                        }
                        runs.push(run);
                    }
                    Step::Give { pick } if !runs.is_empty() => {
                        let run = runs.swap_remove(pick % runs.len());
                        taken[run.start as usize..(run.start + run.count) as usize].fill(false);
                        granules.give(run);
                    }
                    Step::Give { .. } => {}
                }
                let free = taken.iter().filter(|taken| !**taken).count();
                prop_assert_eq!(granules.free() as usize, free);
            }
            for run in runs {
                granules.give(run);
            }
            prop_assert_eq!(granules.free(), total);
            prop_assert_eq!(granules.free_largest(), largest);
        }
    }

    #[test]
    fn a_request_costs_its_length_not_a_power_of_two() {
        let mut granules = Granules::new(64);
        granules.take(5, 0).unwrap();
        assert_eq!(granules.free(), 59);
        granules.take(1, 0).unwrap();
        granules.take(2, 0).unwrap();
        assert_eq!(granules.free_largest(), 32);
    }

    #[test]
    fn pages_on_the_stack_serve_large_requests_too() {
        let mut granules = Granules::new(64);
        let pages: Vec<_> = (0..16).map(|_| granules.take(4, 0).unwrap()).collect();
        assert_eq!(granules.take(1, 0), None);
        pages.into_iter().for_each(|page| granules.give(page));
        assert_eq!(
            granules.take(64, 0),
            Some(Run {
                start: 0,
                count: 64
            })
        );
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn a_run_given_twice_is_noticed() {
        let mut granules = Granules::new(64);
        let run = granules.take(3, 0).unwrap();
        granules.give(run);
        granules.give(run);
    }

    #[test]
    fn requests_beyond_every_order_are_refused() {
        let mut granules = Granules::new(8);
        assert_eq!(granules.take(u32::MAX, 0), None);
        assert_eq!(granules.take(1, 40), None);
        assert_eq!(granules.take(9, 0), None);
    }
}
