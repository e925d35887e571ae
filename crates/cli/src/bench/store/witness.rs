//! Whose a gap is: threads beside a run that do nothing but look at the clock,
//! one on each processor, and at what the kernel counts on the disk.
//!
//! What the machine does to all who are on it, and a disk that is shared to
//! all who use it, no database can make up for. A gap that is neither's is the
//! store's.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iolane_disk::served::go_first;

use super::document::Gaps;
use super::quota;
use super::timeline::GAP_NS;
use crate::bench::load::nanoseconds;
use crate::sys::affinity::{allowed_processors, stay_on};
use crate::sys::timer_slack::set_timer_slack_ns;
use crate::system::{DeviceNumber, SystemPaths, whole_disk};

/// Between two looks: 10 us of a processor each.
const LOOK: Duration = Duration::from_millis(1);
const TIMER_SLACK_NS: u32 = 1000;
/// A disk's shorter ones are not kept: it may be working on a request.
const DISK_STALL_NS: u64 = GAP_NS / 2;
/// The machine's shorter ones are not kept: twice the time in which nothing
/// keeps a thread that goes before all others. Longer ones come in rows, when
/// the host of a virtual machine has other things to do.
const MACHINE_STALL_NS: u64 = 2 * LOOK.as_nanos() as u64;
/// Processors that are looked at.
const PROCESSORS_MAX: usize = 64;
/// Stalls of each kind that are kept: of an hour, if it is nothing else.
const STALLS_MAX: usize = 3_600_000_000_000_usize / MACHINE_STALL_NS as usize;

/// Times from and to, in nanoseconds from the begin of a run, one behind the
/// other.
pub type Spans = Vec<(u64, u64)>;

/// What was seen.
#[derive(Debug, Default)]
pub struct Stalls {
    /// A thread that goes before all others was not woken, on any processor: who
    /// has a lock or a request's end may be on that one. `None` where none may.
    machine: Option<Spans>,
    /// Requests were in flight, and the disk completed none. `None` where no
    /// disk is below the files.
    disk: Option<Spans>,
}

impl Stalls {
    /// What two witnesses saw, one of which looks at the disk.
    fn and(self, other: Stalls) -> Stalls {
        let mut machine = self.machine.zip(other.machine);
        if let Some((one, another)) = &mut machine {
            one.append(another);
        }
        Stalls {
            machine: machine.map(|both| both.0),
            disk: self.disk.or(other.disk),
        }
    }

    /// Counts gaps, and tells whose they are.
    pub fn explain(&self, gaps: &Spans) -> Gaps {
        let (disk, machine) = (&self.disk, &self.machine);
        let of_disk = disjoint(disk.iter().flatten());
        let of_both = disjoint(disk.iter().chain(machine).flatten());
        let mut counts = Gaps {
            above_10_ms: gaps.len() as u64,
            disk: disk.as_ref().map(|_| 0),
            machine: machine.as_ref().map(|_| 0),
            cpu_quota: quota::ends_stops(&disjoint(machine.iter().flatten())),
            ..Gaps::default()
        };
        for &gap in gaps {
            let length_ns = gap.1 - gap.0;
            counts.longest_ns = counts.longest_ns.max(length_ns);
            if left_of(gap, &of_disk) <= GAP_NS {
                counts.disk = counts.disk.map(|count| count + 1);
            } else if left_of(gap, &of_both) <= GAP_NS {
                counts.machine = counts.machine.map(|count| count + 1);
            } else {
                counts.longest_own_ns = counts.longest_own_ns.max(length_ns);
            }
        }
        counts
    }
}

/// The same times, in order and without what overlaps.
fn disjoint<'a>(stalls: impl Iterator<Item = &'a (u64, u64)>) -> Spans {
    let mut stalls: Spans = stalls.copied().collect();
    stalls.sort_unstable();
    stalls.dedup_by(|next, before| {
        let overlaps = next.0 <= before.1;
        if overlaps {
            before.1 = before.1.max(next.1);
        }
        overlaps
    });
    stalls
}

/// How long a time is without what these have of it, which are in order and do
/// not overlap.
fn left_of((from, to): (u64, u64), stalls: &[(u64, u64)]) -> u64 {
    let first = stalls.partition_point(|stall| stall.1 <= from);
    let within = stalls[first..].iter().take_while(|stall| stall.0 < to);
    let taken: u64 = within
        .map(|stall| stall.1.min(to) - stall.0.max(from))
        .sum();
    to - from - taken
}

/// Looks, from its start until it is asked what it saw.
pub struct Witness {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Stalls>>,
}

impl Witness {
    /// Of the disk below this directory, if there is one. Times are from `begin` on.
    ///
    /// # Errors
    /// When the kernel gives no thread.
    pub fn start(
        directory: Option<&Path>,
        paths: &SystemPaths,
        begin: Instant,
    ) -> io::Result<Witness> {
        let mut witness = Witness {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        let processors = allowed_processors().into_iter().take(PROCESSORS_MAX);
        let mut places: Vec<_> = processors.map(Some).collect();
        if places.is_empty() {
            // On any.
            places.push(None);
        }
        let mut disk = directory.and_then(|directory| Disk::below(directory, paths));
        for place in places {
            let (disk, stopped) = (disk.take(), Arc::clone(&witness.stop));
            let watch = move || {
                place.map(stay_on);
                watch(disk, begin, &stopped)
            };
            let thread = thread::Builder::new().name("witness".to_owned());
            witness.threads.push(thread.spawn(watch)?);
        }
        Ok(witness)
    }

    /// Ends it.
    pub fn end(mut self) -> Stalls {
        self.stop.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut self.threads).into_iter();
        let seen = threads.map(|thread| {
            let seen = thread.join();
            seen.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        seen.reduce(Stalls::and).unwrap_or_default()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn watch(mut disk: Option<Disk>, begin: Instant, stopped: &AtomicBool) -> Stalls {
    let may_go_first = go_first();
    set_timer_slack_ns(TIMER_SLACK_NS);
    let now_ns = || nanoseconds(begin.elapsed());
    let mut looks = Looks {
        stalls: Stalls {
            machine: may_go_first.then(Vec::new),
            disk: disk.is_some().then(Vec::new),
        },
        looked_ns: now_ns(),
        answered_ns: now_ns(),
        counted: Counted::default(),
    };
    while !stopped.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        looks.look(now_ns(), disk.as_mut().and_then(Disk::count));
    }
    looks.end()
}

/// What follows from one look after the other.
struct Looks {
    stalls: Stalls,
    /// At the last one.
    looked_ns: u64,
    counted: Counted,
    /// Since when the disk owes an answer.
    answered_ns: u64,
}

impl Looks {
    fn look(&mut self, now_ns: u64, counted: Option<Counted>) {
        let machine = &mut self.stalls.machine;
        add(machine, (self.looked_ns, now_ns), MACHINE_STALL_NS);
        let counted = counted.unwrap_or_default();
        if counted.completed != self.counted.completed || self.counted.in_flight == 0 {
            // When after the last look it was, nobody knows.
            let disk = &mut self.stalls.disk;
            add(disk, (self.answered_ns, self.looked_ns), DISK_STALL_NS);
            self.answered_ns = now_ns;
        }
        (self.looked_ns, self.counted) = (now_ns, counted);
    }

    fn end(mut self) -> Stalls {
        let disk = &mut self.stalls.disk;
        add(disk, (self.answered_ns, self.looked_ns), DISK_STALL_NS);
        self.stalls
    }
}

fn add(stalls: &mut Option<Spans>, (from, to): (u64, u64), least_ns: u64) {
    if let Some(stalls) = stalls
        && to.saturating_sub(from) >= least_ns
        && stalls.len() < STALLS_MAX
    {
        stalls.push((from, to));
    }
}

/// The kernel's counts of a whole disk.
struct Disk {
    counts: File,
    text: [u8; 512],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counted {
    completed: u64,
    in_flight: u64,
}

impl Disk {
    fn below(directory: &Path, paths: &SystemPaths) -> Option<Disk> {
        let number = DeviceNumber::from_raw(fs::metadata(directory).ok()?.dev());
        let stat = paths.block(&whole_disk(paths, number)?).join("stat");
        Some(Disk {
            counts: File::open(stat).ok()?,
            text: [0; 512],
        })
    }

    fn count(&mut self) -> Option<Counted> {
        let length = self.counts.read_at(&mut self.text, 0).ok()?;
        Counted::of(std::str::from_utf8(&self.text[..length]).ok()?)
    }
}

impl Counted {
    /// Of a file `stat` (the kernel's Documentation/block/stat.rst): completed
    /// are reads, writes, discards and flushes, the latter two where the kernel
    /// has them.
    fn of(stat: &str) -> Option<Counted> {
        let numbers: Option<Vec<u64>> = stat.split_whitespace().map(|it| it.parse().ok()).collect();
        let numbers = numbers?;
        let at = |index: usize| numbers.get(index).copied();
        let later = at(11).unwrap_or_default() + at(15).unwrap_or_default();
        Some(Counted {
            completed: at(0)? + at(4)? + later,
            in_flight: at(8)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn explained(stalls: &Stalls, spans: &[(u64, u64)]) -> Gaps {
        stalls.explain(&spans.iter().map(|gap| (gap.0 * MS, gap.1 * MS)).collect())
    }

    fn spans(spans: &[(u64, u64)]) -> Option<Spans> {
        Some(spans.iter().map(|it| (it.0 * MS, it.1 * MS)).collect())
    }

    #[test]
    fn a_gap_is_whose_stall_makes_it_one() {
        let stalls = Stalls {
            machine: spans(&[(100, 112), (300, 306), (400, 405)]),
            disk: spans(&[(0, 20), (306, 312), (500, 508)]),
        };
        let all = [(2, 18), (99, 114), (296, 313), (398, 414), (500, 530)];
        let gaps = explained(&stalls, &all);
        // By both together: the machine's. Of the last two more is left.
        assert_eq!((gaps.disk, gaps.machine), (Some(1), Some(2)));
        assert_eq!((gaps.above_10_ms, gaps.own()), (5, 2));
        assert_eq!((gaps.longest_ns, gaps.longest_own_ns), (30 * MS, 30 * MS));
    }

    #[test]
    fn without_a_witness_all_gaps_are_the_stores() {
        let gaps = explained(&Stalls::default(), &[(0, 20)]);
        assert_eq!((gaps.disk, gaps.machine), (None, None));
        assert_eq!(gaps.longest_own_ns, 20 * MS);
    }

    #[test]
    fn a_stall_of_one_processor_is_the_machines() {
        let one = Stalls {
            machine: spans(&[(0, 9)]),
            disk: spans(&[(50, 60)]),
        };
        let other = Stalls {
            machine: spans(&[(5, 20)]),
            disk: None,
        };
        let both = one.and(other);
        assert_eq!(both.disk, spans(&[(50, 60)]));
        assert_eq!(explained(&both, &[(1, 22)]).machine, Some(1));
        assert_eq!(both.and(Stalls::default()).machine, None);
    }

    #[test]
    fn overlapping_stalls_count_once() {
        let stalls = disjoint([(5, 9), (7, 12), (0, 2), (30, 40)].iter());
        assert_eq!(left_of((1, 20), &stalls), 3 + 8);
    }

    #[test]
    fn the_kernels_counts_are_read() {
        let stat = "  10 0 80 5  7 0 56 9  3 8 14 2 0 0 0 4 1\n";
        let counted = Counted {
            completed: 10 + 7 + 2 + 4,
            in_flight: 3,
        };
        assert_eq!(Counted::of(stat), Some(counted));
        // Before Linux 4.18.
        let old = Counted::of("1 0 8 5 2 0 6 9 0 8 14").unwrap();
        assert_eq!((old.completed, old.in_flight), (3, 0));
        assert_eq!(Counted::of("nothing"), None);
    }

    #[test]
    fn stalls_are_told_from_work() {
        let mut looks = Looks {
            stalls: Stalls {
                machine: Some(Vec::new()),
                disk: Some(Vec::new()),
            },
            looked_ns: 0,
            answered_ns: 0,
            counted: Counted::default(),
        };
        let look = |looks: &mut Looks, ms: u64, completed, in_flight| {
            let counted = Counted {
                completed,
                in_flight,
            };
            looks.look(ms * MS, Some(counted));
        };
        // Nothing to do, however long.
        (1..=10).for_each(|ms| look(&mut looks, ms, 0, 0));
        // An answer a millisecond.
        (11..=20).for_each(|ms| look(&mut looks, ms, ms, 2));
        // None for 8 ms, then one and no more to do.
        (21..=28).for_each(|ms| look(&mut looks, ms, 20, 2));
        look(&mut looks, 29, 21, 0);
        // Nobody looks for a while, and then too seldom.
        look(&mut looks, 40, 21, 0);
        (42..=44)
            .step_by(2)
            .for_each(|ms| look(&mut looks, ms, 21, 0));
        // None until the end.
        (45..=54).for_each(|ms| look(&mut looks, ms, 21, 1));
        let seen = looks.end();
        assert_eq!(seen.disk, spans(&[(20, 28), (45, 54)]));
        assert_eq!(seen.machine, spans(&[(29, 40), (40, 42), (42, 44)]));
    }

    #[test]
    fn the_disk_below_a_directory_has_counts_if_it_is_one() {
        // Neither /proc nor what is below it.
        let (paths, proc) = (SystemPaths::default(), Path::new("/proc"));
        assert!(Disk::below(proc, &paths).is_none());
        let witness = Witness::start(Some(proc), &paths, Instant::now()).unwrap();
        assert_eq!(witness.end().disk, None);
    }
}
