//! From when to when requests had another level than at first: those of threads that sank below the
//! level that their rule names, and those that were promoted as somebody waited for them.

use std::collections::BTreeMap;

/// So many are kept: those of the most requests. Others are counted.
const SPANS_MAX: usize = 64;
/// Who has no such request for so long has risen, or ended.
const PAUSE_NS: u64 = 1_000_000_000;

/// Whose requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Whose {
    pub process: u32,
    pub disk: usize,
    pub rule: u8,
}

/// Requests of somebody's, from the first to the last without a long pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub whose: Whose,
    /// Since the start of the run.
    pub from_ns: u64,
    pub to_ns: u64,
    pub requests: u64,
    pub bytes: u64,
    /// The one that is farthest from where they began.
    pub level: u8,
}

/// All of a kind.
pub struct Spans {
    /// Of two levels, the one that is farther from where requests began.
    farther: fn(u8, u8) -> u8,
    under_way: BTreeMap<Whose, Span>,
    over: Vec<Span>,
    /// Those that were left out, by disk.
    left_out: BTreeMap<usize, u64>,
}

impl Spans {
    /// Of requests that sink.
    pub fn of_sunk() -> Spans {
        Spans::new(u8::max)
    }

    /// Of requests that are promoted.
    pub fn of_promoted() -> Spans {
        Spans::new(u8::min)
    }

    fn new(farther: fn(u8, u8) -> u8) -> Spans {
        Spans {
            farther,
            under_way: BTreeMap::new(),
            over: Vec::new(),
            left_out: BTreeMap::new(),
        }
    }

    /// One has ended.
    pub fn record(&mut self, whose: Whose, at_ns: u64, bytes: u64, level: u8) {
        let is_late = |span: &Span| span.to_ns + PAUSE_NS < at_ns;
        if self.under_way.get(&whose).is_some_and(is_late) {
            self.end(whose);
        } else if !self.under_way.contains_key(&whose) && self.under_way.len() == SPANS_MAX {
            // The one that has asked for nothing for the longest time.
            let idle = self.under_way.values().min_by_key(|span| span.to_ns);
            if let Some(whose) = idle.map(|span| span.whose) {
                self.end(whose);
            }
        }
        let span = self.under_way.entry(whose).or_insert(Span {
            whose,
            from_ns: at_ns,
            to_ns: at_ns,
            requests: 0,
            bytes: 0,
            level,
        });
        span.to_ns = span.to_ns.max(at_ns);
        span.requests += 1;
        span.bytes += bytes;
        span.level = (self.farther)(span.level, level);
    }

    fn end(&mut self, whose: Whose) {
        let Some(span) = self.under_way.remove(&whose) else {
            return;
        };
        self.over.push(span);
        if self.over.len() > SPANS_MAX {
            let shortest = (0..self.over.len()).min_by_key(|&at| self.over[at].requests);
            let left_out = self.over.swap_remove(shortest.unwrap_or(0));
            *self.left_out.entry(left_out.whose.disk).or_default() += 1;
        }
    }

    /// How many of a disk were left out.
    pub fn left_out(&self, disk: usize) -> u64 {
        self.left_out.get(&disk).copied().unwrap_or(0)
    }

    /// In the order in which they began.
    pub fn spans(&self) -> Vec<Span> {
        let all = self.over.iter().chain(self.under_way.values());
        let mut spans: Vec<Span> = all.copied().collect();
        spans.sort_by_key(|span| (span.from_ns, span.whose));
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(process: u32) -> Whose {
        Whose {
            process,
            disk: 0,
            rule: 2,
        }
    }

    #[test]
    fn a_pause_ends_a_span() {
        let mut sunk = Spans::of_sunk();
        for (at_ns, level) in [(1, 3), (2, 4), (2 + PAUSE_NS, 3), (4 + 2 * PAUSE_NS, 3)] {
            sunk.record(whose(1), at_ns, 10, level);
        }
        let spans = sunk.spans();
        let seen: Vec<_> = spans
            .iter()
            .map(|span| {
                (
                    span.from_ns,
                    span.to_ns,
                    span.requests,
                    span.bytes,
                    span.level,
                )
            })
            .collect();
        let late_ns = 4 + 2 * PAUSE_NS;
        assert_eq!(
            seen,
            [(1, 2 + PAUSE_NS, 3, 30, 4), (late_ns, late_ns, 1, 10, 3)]
        );
    }

    #[test]
    fn the_most_urgent_level_is_that_of_what_was_promoted() {
        let mut promoted = Spans::of_promoted();
        for level in [2, 1, 3] {
            promoted.record(whose(1), 1, 10, level);
        }
        assert_eq!(promoted.spans()[0].level, 1);
    }

    #[test]
    fn the_longest_are_kept() {
        let mut sunk = Spans::of_sunk();
        let count = 4 * SPANS_MAX as u32;
        for process in 0..count {
            let whose = Whose {
                disk: usize::from(process % 4 == 0),
                ..whose(process)
            };
            for _ in 0..=process % 100 {
                sunk.record(whose, u64::from(process), 1, 4);
            }
        }
        let spans = sunk.spans();
        for (disk, all) in [(0, count / 4 * 3), (1, count / 4)] {
            let kept = spans.iter().filter(|span| span.whose.disk == disk).count();
            assert_eq!(kept as u64 + sunk.left_out(disk), u64::from(all));
        }
        assert!(spans.len() <= 2 * SPANS_MAX);
        assert!(spans.iter().any(|span| span.requests == 100));
    }
}
