//! What happened when: latencies by slices of the measured time, and how many
//! requests were outstanding in each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use iolane::Outstanding;
use iolane_store::{FileClass, Store};

use super::document::{Gaps, Slice, SliceOutstanding};
use super::witness::{Spans, Stalls};
use crate::bench::load::nanoseconds;
use crate::output::json::latency_histogram;

/// Slices of a run: as many as a plot shows.
const SLICES: u32 = 100;
const SLICE_MIN: Duration = Duration::from_millis(20);
/// Looks at the clock of one thread that the slices remember: 48 MiB. Beyond, only
/// the histogram of the whole run counts.
const MARKS_MAX: usize = 4 << 20;
/// What counts as a gap.
pub const GAP_NS: u64 = 10_000_000;
/// Gaps that are kept: more than an hour has.
const GAPS_MAX: usize = 400_000;

/// Length of a slice of a run of this length.
pub fn slice_of(runtime: Duration) -> Duration {
    (runtime / SLICES).max(SLICE_MIN)
}

/// When anything of the measured work last ended, over all threads.
pub struct Pulse {
    begin: Instant,
    last_ns: AtomicU64,
    gaps: Mutex<Spans>,
}

impl Pulse {
    pub fn new(begin: Instant) -> Self {
        Self {
            begin,
            last_ns: AtomicU64::new(0),
            gaps: Mutex::new(Vec::new()),
        }
    }

    fn beat(&self, now: Instant) {
        let now_ns = nanoseconds(now.saturating_duration_since(self.begin));
        let last_ns = self.last_ns.fetch_max(now_ns, Ordering::Relaxed);
        if now_ns.saturating_sub(last_ns) > GAP_NS {
            let mut gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
            if gaps.len() < GAPS_MAX {
                gaps.push((last_ns, now_ns));
            }
        }
    }

    /// All of them, and whose they are.
    pub fn gaps(&self, stalls: &Stalls) -> Gaps {
        let gaps = self.gaps.lock().unwrap_or_else(PoisonError::into_inner);
        stalls.explain(&gaps)
    }
}

/// What one thread did in the measured time.
pub struct Diary {
    begin: Instant,
    slice: Duration,
    pub latency_ns: Histogram<u64>,
    marks: Vec<Mark>,
}

/// Operations of one look at the clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    slice: u32,
    /// Of each.
    latency_us: u32,
    operations: u32,
}

impl Diary {
    pub fn new(begin: Instant, slice: Duration) -> Self {
        Self {
            begin,
            slice,
            latency_ns: latency_histogram(),
            marks: Vec::new(),
        }
    }

    /// Enters operations that followed each other from `began` to `now`: each has
    /// the same part of that.
    pub fn record(&mut self, operations: u32, began: Instant, now: Instant, pulse: &Pulse) {
        let latency = now.saturating_duration_since(began) / operations.max(1);
        self.record_at(now, operations, latency);
        pulse.beat(now);
    }

    fn record_at(&mut self, now: Instant, operations: u32, latency: Duration) {
        let times = u64::from(operations);
        self.latency_ns
            .saturating_record_n(nanoseconds(latency), times);
        if self.marks.len() < MARKS_MAX {
            let since_ns = nanoseconds(now.saturating_duration_since(self.begin));
            let slice = since_ns / nanoseconds(self.slice).max(1);
            self.marks.push(Mark {
                slice: slice as u32,
                latency_us: u32::try_from(latency.as_micros()).unwrap_or(u32::MAX),
                operations,
            });
        }
    }

    pub fn add(&mut self, other: Self) {
        if let Err(error) = self.latency_ns.add(&other.latency_ns) {
            unreachable!("histograms of the same bounds: {error}");
        }
        self.marks.extend(other.marks);
    }

    /// Latencies of each slice, entered into the sampled ones.
    pub fn enter(mut self, slices: &mut [Slice]) {
        // Whoever ends the slices may have come late.
        let slice_ns = nanoseconds(self.slice);
        for mark in &mut self.marks {
            let middle_ns = u64::from(mark.slice) * slice_ns + slice_ns / 2;
            mark.slice = slices.partition_point(|slice| slice.end_ns <= middle_ns) as u32;
        }
        self.marks.sort_unstable();
        for same in self.marks.chunk_by(|a, b| a.slice == b.slice) {
            let Some(slice) = slices.get_mut(same[0].slice as usize) else {
                continue;
            };
            // Marks of a run have as many operations each, but for the last.
            let at = |quantile: f64| {
                let index = (same.len() as f64 * quantile) as usize;
                u64::from(same[index.min(same.len() - 1)].latency_us) * 1000
            };
            slice.operations = same.iter().map(|mark| u64::from(mark.operations)).sum();
            (slice.p50_ns, slice.p99_ns) = (at(0.5), at(0.99));
            slice.max_ns = at(1.0);
        }
    }
}

/// Looks at a store between slices.
pub struct Sampler<'a> {
    store: &'a Store,
    background: &'a AtomicU64,
    begin: Instant,
    last: Outstanding,
    last_background: u64,
    pub slices: Vec<Slice>,
}

impl<'a> Sampler<'a> {
    pub fn start(store: &'a Store, background: &'a AtomicU64, begin: Instant) -> Self {
        Self {
            store,
            background,
            begin,
            last: store.outstanding(),
            last_background: background.load(Ordering::Relaxed),
            slices: Vec::new(),
        }
    }

    /// Ends a slice.
    pub fn look(&mut self) {
        let now = self.store.outstanding();
        let since = now.since(&self.last);
        let background = self.background.load(Ordering::Relaxed);
        let of = |class: FileClass| {
            let times = class.of(&since);
            SliceOutstanding {
                mean_requests: times.mean(),
                idle_share: times.share_at(0),
            }
        };
        self.slices.push(Slice {
            end_ns: nanoseconds(self.begin.elapsed()),
            operations: 0,
            p50_ns: 0,
            p99_ns: 0,
            max_ns: 0,
            background_operations: background - self.last_background,
            data: of(FileClass::Data),
            log: of(FileClass::Log),
        });
        self.last = now;
        self.last_background = background;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(end_ms: u64) -> Slice {
        Slice {
            end_ns: end_ms * 1_000_000,
            operations: 0,
            p50_ns: 0,
            p99_ns: 0,
            max_ns: 0,
            background_operations: 0,
            data: SliceOutstanding::default(),
            log: SliceOutstanding::default(),
        }
    }

    #[test]
    fn operations_stand_in_the_slice_in_which_they_ended() {
        let begin = Instant::now();
        let ms = Duration::from_millis;
        let mut diary = Diary::new(begin, ms(100));
        let mut other = Diary::new(begin, ms(100));
        for (at, latency) in [(10, 1), (99, 3), (150, 7), (900, 1)] {
            diary.record_at(begin + ms(at), 1, ms(latency));
        }
        other.record_at(begin + ms(20), 4, ms(2));
        diary.add(other);
        assert_eq!(diary.latency_ns.len(), 8);
        let mut slices = vec![slice(103), slice(204), slice(301)];
        diary.enter(&mut slices);
        let counts: Vec<u64> = slices.iter().map(|slice| slice.operations).collect();
        assert_eq!(counts, [6, 1, 0]);
        assert_eq!((slices[0].p50_ns, slices[0].max_ns), (2_000_000, 3_000_000));
    }

    #[test]
    fn operations_of_one_look_have_a_part_of_its_time_each() {
        let begin = Instant::now();
        let mut diary = Diary::new(begin, Duration::from_millis(100));
        let now = begin + Duration::from_micros(80);
        diary.record(8, begin, now, &Pulse::new(begin));
        let latency_ns = &diary.latency_ns;
        assert_eq!((latency_ns.len(), latency_ns.max()), (8, 10_007));
    }

    #[test]
    fn only_long_silences_are_gaps() {
        let begin = Instant::now();
        let pulse = Pulse::new(begin);
        for ms in [1, 10, 31, 32] {
            pulse.beat(begin + Duration::from_millis(ms));
        }
        let gaps = pulse.gaps(&Stalls::default());
        assert_eq!((gaps.above_10_ms, gaps.longest_ns), (1, 21_000_000));
    }
}
