//! When threads sank below the level that their rule names, and rose again.

use std::collections::BTreeMap;

/// So many are kept: those of the most requests. Others are counted.
const SPANS_MAX: usize = 64;
/// Who has sunk and asks for nothing for so long has risen, or ended.
const PAUSE_NS: u64 = 1_000_000_000;

/// Whose requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sinker {
    pub process: u32,
    pub disk: usize,
    pub rule: u8,
}

/// From sinking to rising.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub sinker: Sinker,
    /// Since the start of the run.
    pub from_ns: u64,
    pub to_ns: u64,
    pub requests: u64,
    pub bytes: u64,
    /// The lowest of them.
    pub level: u8,
}

/// All of them.
#[derive(Default)]
pub struct Sinking {
    under_way: BTreeMap<Sinker, Span>,
    over: Vec<Span>,
    /// Those that were left out, by disk.
    left_out: BTreeMap<usize, u64>,
}

impl Sinking {
    /// A request that had sunk has ended.
    pub fn record(&mut self, sinker: Sinker, at_ns: u64, bytes: u64, level: u8) {
        let is_late = |span: &Span| span.to_ns + PAUSE_NS < at_ns;
        if self.under_way.get(&sinker).is_some_and(is_late) {
            self.end(sinker);
        } else if !self.under_way.contains_key(&sinker) && self.under_way.len() == SPANS_MAX {
            // The one that has asked for nothing for the longest time.
            let idle = self.under_way.values().min_by_key(|span| span.to_ns);
            if let Some(sinker) = idle.map(|span| span.sinker) {
                self.end(sinker);
            }
        }
        let span = self.under_way.entry(sinker).or_insert(Span {
            sinker,
            from_ns: at_ns,
            to_ns: at_ns,
            requests: 0,
            bytes: 0,
            level,
        });
        span.to_ns = span.to_ns.max(at_ns);
        span.requests += 1;
        span.bytes += bytes;
        span.level = span.level.max(level);
    }

    fn end(&mut self, sinker: Sinker) {
        let Some(span) = self.under_way.remove(&sinker) else {
            return;
        };
        self.over.push(span);
        if self.over.len() > SPANS_MAX {
            let shortest = (0..self.over.len()).min_by_key(|&at| self.over[at].requests);
            let left_out = self.over.swap_remove(shortest.unwrap_or(0));
            *self.left_out.entry(left_out.sinker.disk).or_default() += 1;
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
        spans.sort_by_key(|span| (span.from_ns, span.sinker));
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sinker(process: u32) -> Sinker {
        Sinker {
            process,
            disk: 0,
            rule: 2,
        }
    }

    #[test]
    fn a_pause_ends_a_span() {
        let mut sinking = Sinking::default();
        for (at_ns, level) in [(1, 3), (2, 4), (2 + PAUSE_NS, 3), (4 + 2 * PAUSE_NS, 3)] {
            sinking.record(sinker(1), at_ns, 10, level);
        }
        let spans = sinking.spans();
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
    fn the_longest_are_kept() {
        let mut sinking = Sinking::default();
        let count = 4 * SPANS_MAX as u32;
        for process in 0..count {
            let sinker = Sinker {
                disk: usize::from(process % 4 == 0),
                ..sinker(process)
            };
            for _ in 0..=process % 100 {
                sinking.record(sinker, u64::from(process), 1, 4);
            }
        }
        let spans = sinking.spans();
        for (disk, all) in [(0, count / 4 * 3), (1, count / 4)] {
            let kept = spans.iter().filter(|span| span.sinker.disk == disk).count();
            assert_eq!(kept as u64 + sinking.left_out(disk), u64::from(all));
        }
        assert!(spans.len() <= 2 * SPANS_MAX);
        assert!(spans.iter().any(|span| span.requests == 100));
    }
}
