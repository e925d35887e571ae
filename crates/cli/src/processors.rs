//! Whether others used the processors meanwhile: then the figures are theirs
//! too, and no priority of a request helps against it.

use std::fs;
use std::time::Duration;

use crate::inflight::CpuMeter;
use crate::session::{Cause, Session};
use crate::sys::affinity::allowed_processors;
use crate::system::SystemPaths;

/// From this share of the processors' time on, the reader of the figures is
/// told. Below, it may be what a quiet machine does beside.
const SHARE_TOLD: f64 = 0.1;
/// The kernel counts in hundredths of a second: of a shorter time nothing can
/// be said.
const TIME_MIN: Duration = Duration::from_millis(500);

/// Looks at the processors that this process may run on, from its start on.
pub struct Processors {
    processors: Vec<usize>,
    before: Ticks,
}

impl Processors {
    /// `None` where the kernel does not tell.
    pub fn start(paths: &SystemPaths) -> Option<Self> {
        let processors = allowed_processors();
        Some(Self {
            before: Ticks::read(paths, &processors)?,
            processors,
        })
    }

    /// Warns when others had a share since the start, at which the meter of
    /// this process was started too.
    pub fn warn(&self, name: &str, own: &CpuMeter, session: &Session) {
        if let Some((cause, message)) = self.warning(name, own, &session.paths) {
            session.warn_of(cause, message);
        }
    }

    fn warning(&self, name: &str, own: &CpuMeter, paths: &SystemPaths) -> Option<(Cause, String)> {
        let elapsed = own.elapsed();
        if elapsed < TIME_MIN {
            return None;
        }
        let ticks = Ticks::read(paths, &self.processors)?.since(self.before)?;
        let own_ns = own.used().ok()?.user_ns;
        let all_ns = elapsed.as_nanos() as f64 * self.processors.len() as f64;
        let others = ticks.share(ticks.programs) - own_ns as f64 / all_ns;
        let said = |share: f64, what: &str| {
            format!(
                "{name}: {:.0} % of the processors' time went to {what}; its figures do not compare with those of other runs",
                share * 100.0
            )
        };
        if others >= SHARE_TOLD {
            return Some((Cause::Programs, said(others, "other programs")));
        }
        let stolen = ticks.share(ticks.stolen);
        let hosts = || said(stolen, "other machines of this one's host");
        (stolen >= SHARE_TOLD).then(|| (Cause::Host, hosts()))
    }
}

/// What processors did, in the kernel's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Ticks {
    /// Programs' own code. The kernel's is left out: it works for whoever asks.
    programs: u64,
    stolen: u64,
    all: u64,
}

impl Ticks {
    fn read(paths: &SystemPaths, processors: &[usize]) -> Option<Self> {
        Self::of(
            &fs::read_to_string(paths.proc.join("stat")).ok()?,
            processors,
        )
    }

    /// Lines such as `cpu0 user nice system idle iowait irq softirq steal ...`
    /// (proc_stat(5)).
    fn of(stat: &str, processors: &[usize]) -> Option<Self> {
        let mut sum = Self::default();
        for line in stat.lines() {
            let mut words = line.split_whitespace();
            let number = words.next().and_then(|word| word.strip_prefix("cpu"));
            let Some(Ok(number)) = number.map(str::parse::<usize>) else {
                continue;
            };
            if !processors.contains(&number) {
                continue;
            }
            // What follows has been counted as a program's already.
            let times: Result<Vec<u64>, _> = words.take(8).map(str::parse::<u64>).collect();
            let times = times.ok()?;
            sum.programs += times.first()? + times.get(1)?;
            sum.stolen += times.get(7).copied().unwrap_or_default();
            sum.all += times.iter().sum::<u64>();
        }
        (sum.all > 0).then_some(sum)
    }

    fn since(self, earlier: Self) -> Option<Self> {
        let all = self.all.checked_sub(earlier.all).filter(|&all| all > 0)?;
        Some(Self {
            programs: self.programs.saturating_sub(earlier.programs),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            all,
        })
    }

    fn share(self, part: u64) -> f64 {
        part as f64 / self.all as f64
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::thread;

    use super::*;
    use crate::inflight::Scope;

    #[test]
    fn the_kernels_lines_are_parsed() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\n\
                    cpu0 100 20 30 400 5 6 7 8 50 50\n\
                    cpu1 1 2 3 4 5 6 7 8 0 0\n\
                    intr 1 2 3\n";
        let first = Ticks {
            programs: 120,
            stolen: 8,
            all: 576,
        };
        assert_eq!(Ticks::of(stat, &[0]), Some(first));
        let both = Ticks::of(stat, &[0, 1]).unwrap();
        assert_eq!((both.programs, both.stolen, both.all), (123, 16, 612));
        assert_eq!(both.since(first).unwrap().programs, 3);
        assert_eq!(first.since(both), None);
        assert_eq!(Ticks::of(stat, &[7]), None);
        assert_eq!(Ticks::of("cpu0 1 nonsense", &[0]), None);
    }

    #[test]
    fn another_program_is_noticed_and_this_one_is_not_taken_for_it() {
        let paths = SystemPaths::default();
        let busy = || {
            let spin = "while :; do :; done";
            Command::new("sh").args(["-c", spin]).spawn().unwrap()
        };
        let processors = allowed_processors().len();
        let mut others: Vec<_> = (0..processors).map(|_| busy()).collect();
        let seen = Processors::start(&paths).unwrap();
        let own = CpuMeter::start(Scope::Process).unwrap();
        assert_eq!(seen.warning("x", &own, &paths), None, "too early");
        thread::sleep(2 * TIME_MIN);
        let warning = seen.warning("x", &own, &paths);
        for other in &mut others {
            other.kill().unwrap();
            other.wait().unwrap();
        }
        let (cause, warning) = warning.unwrap();
        assert!(warning.starts_with("x: "), "{warning}");
        let whose = match cause {
            Cause::Programs => "other programs",
            Cause::Host => "other machines",
            Cause::Other => panic!("{warning}"),
        };
        assert!(warning.contains(whose), "{warning}");
    }
}
