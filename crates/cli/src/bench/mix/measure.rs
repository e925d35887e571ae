//! Measures the mix: one run after the other, each with a fresh engine.

use iolane::{Arena, Config, Deadline, IoPriority as Handed, Level, Snapshot, WindowConfig};

use super::{
    Arrival as Coming, Background, Foreground, LearnedWindow, MixLoad, MixOptions, MixOutcome,
    MixRun, SchedulerKind,
};
use crate::args::choices::{self, Operation, Pattern, Policy};
use crate::bench::needed;
use crate::error::Failure;
use crate::kernel_scheduler::SchedulerGuard;
use crate::session::Session;
use crate::sys::ioprio::{IoPriority, Scoped};
use crate::target::Target;
use crate::workload::{
    self, Arrival, Carrier, CarrierOptions, IN_FLIGHT_MAX, Stream, outstanding_max,
};

/// Up to so many foreground requests outstanding, each has a thread that waits
/// for it, as a query's thread does. More come from completion callbacks: so
/// many threads would measure the machine's context switches.
const WAITING_THREADS_MAX: u64 = 16;

/// The [`Measure`](crate::bench::Measure) of the mix.
///
/// # Errors
/// What cannot be set up, a request that failed, an interruption.
pub fn measure(
    options: &MixOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<MixOutcome, Failure> {
    let target = needed(target)?;
    let cases = cases(&options.load);
    let arena = workload::arena(&memory(&cases))?;
    let bench = MixBench {
        options,
        target,
        session,
        arena,
        queued_max: cases.iter().map(Case::outstanding_max).max().unwrap_or(1),
    };
    let mut outcome = MixOutcome {
        description: options.load.description(),
        backend: String::new(),
        runs: Vec::new(),
    };
    for scheduler in bench.schedulers() {
        bench.measure_scheduler(&scheduler, &cases, &mut outcome)?;
    }
    bench.measure_kernel(&cases, &mut outcome)?;
    Ok(outcome)
}

fn internal(message: &str) -> Failure {
    Failure::Internal {
        message: message.to_owned(),
    }
}

/// What both streams do in one run.
struct Case {
    high_share_percent: Option<u64>,
    foreground: Part,
    background: Part,
}

#[derive(Clone)]
struct Part {
    arrival: Arrival,
    operation: Operation,
    pattern: Pattern,
    block_sizes_bytes: Vec<u64>,
}

impl Part {
    fn foreground(foreground: &Foreground) -> Self {
        Self {
            arrival: match foreground.arrival {
                Coming::Depth(depth) if depth <= WAITING_THREADS_MAX => Arrival::Threads(depth),
                Coming::Depth(depth) => Arrival::Callbacks(depth),
                Coming::RatePerSecond(rate) => Arrival::Rate(rate),
            },
            operation: foreground.operation,
            pattern: foreground.pattern,
            block_sizes_bytes: vec![foreground.block_size_bytes],
        }
    }

    fn background(background: &Background) -> Self {
        Self {
            arrival: Arrival::Callbacks(background.depth),
            operation: background.operation,
            pattern: background.pattern,
            block_sizes_bytes: background.block_sizes_bytes.clone(),
        }
    }

    fn block_bytes_max(&self) -> u64 {
        self.block_sizes_bytes.iter().max().copied().unwrap_or(0)
    }

    fn outstanding_max(&self) -> u64 {
        outstanding_max(self.arrival, self.block_bytes_max())
    }
}

impl Case {
    fn outstanding_max(&self) -> u64 {
        self.foreground.outstanding_max() + self.background.outstanding_max()
    }
}

fn cases(load: &MixLoad) -> Vec<Case> {
    match load {
        MixLoad::Separate {
            foreground,
            background,
        } => vec![Case {
            high_share_percent: None,
            foreground: Part::foreground(foreground),
            background: Part::background(background),
        }],
        MixLoad::Shared {
            outstanding,
            high_shares_percent,
            operation,
            block_size_bytes,
        } => {
            let part = |depth| Part {
                arrival: Arrival::Callbacks(depth),
                operation: *operation,
                pattern: Pattern::Random,
                block_sizes_bytes: vec![*block_size_bytes],
            };
            let share_case = |&percent: &u64| {
                // At least one of each: a share of 1 % of 10 is one of them.
                let high = (outstanding * percent + 50) / 100;
                let high = high.clamp(1, outstanding - 1);
                Case {
                    high_share_percent: Some(percent),
                    foreground: part(high),
                    background: part(outstanding - high),
                }
            };
            high_shares_percent.iter().map(share_case).collect()
        }
    }
}

/// Buffers of the case that needs most.
fn memory(cases: &[Case]) -> Vec<(u64, u64)> {
    let part = |of: fn(&Case) -> &Part| {
        let parts = cases.iter().map(of);
        let need = parts.map(|part| (part.outstanding_max(), part.block_bytes_max()));
        need.max().unwrap_or((0, 0))
    };
    vec![part(|case| &case.foreground), part(|case| &case.background)]
}

/// One of iolane's.
#[derive(Clone, Copy)]
enum Scheduler {
    Policy(Policy),
    /// `lanes` with a window fixed by hand.
    Window(u64),
}

impl Scheduler {
    fn policy(self) -> iolane::Policy {
        match self {
            Self::Policy(Policy::Noop) => iolane::Policy::Noop,
            Self::Policy(Policy::Deadline) => iolane::Policy::Deadline,
            Self::Policy(Policy::PrioDeadline) => iolane::Policy::PrioDeadline,
            Self::Policy(Policy::Lanes) | Self::Window(_) => iolane::Policy::Lanes,
        }
    }

    /// Whether levels go to the kernel too: the engine's default, but not
    /// with `noop`, which stands for a database without priorities.
    fn handed(self) -> Handed {
        match self {
            Self::Policy(Policy::Noop) => Handed::Off,
            _ => Handed::default(),
        }
    }

    fn learns(self) -> bool {
        matches!(self, Self::Policy(Policy::Lanes))
    }

    /// Shown while it runs.
    fn label(self) -> String {
        match self {
            Self::Policy(policy) => choices::name(policy),
            Self::Window(window) => format!("window {window}"),
        }
    }
}

/// The kernel's I/O priorities of foreground and background.
#[derive(Clone, Copy)]
struct KernelPriorities {
    foreground: Option<IoPriority>,
    background: Option<IoPriority>,
}

/// Through which engines the streams go.
struct Carriers<'a> {
    foreground: &'a Carrier,
    background: &'a Carrier,
    /// Of foreground threads that wait.
    thread_priority: Option<IoPriority>,
}

struct MixBench<'a> {
    options: &'a MixOptions,
    target: &'a Target,
    session: &'a Session,
    arena: Arena,
    /// Requests outstanding in the largest case.
    queued_max: u64,
}

impl MixBench<'_> {
    fn schedulers(&self) -> Vec<Scheduler> {
        let policies = self.options.policies.iter().copied();
        let windows = self.options.windows.iter().copied();
        policies
            .map(Scheduler::Policy)
            .chain(windows.map(Scheduler::Window))
            .collect()
    }

    fn carrier_options(&self) -> CarrierOptions {
        CarrierOptions {
            backend: self.options.backend,
            direct: self.options.io.is_direct(),
            writes: self.options.operations().contains(&Operation::Write),
        }
    }

    fn measure_scheduler(
        &self,
        scheduler: &Scheduler,
        cases: &[Case],
        outcome: &mut MixOutcome,
    ) -> Result<(), Failure> {
        for case in cases {
            let carrier = Carrier::open(
                self.carrier_options(),
                scheduler.policy(),
                scheduler.handed(),
                self.target,
                &self.arena,
                self.configure(*scheduler),
            )?;
            outcome.backend = carrier.backend();
            let carriers = Carriers {
                foreground: &carrier,
                background: &carrier,
                thread_priority: None,
            };
            let (kind, window) = match scheduler {
                Scheduler::Policy(_) => (SchedulerKind::Policy, None),
                Scheduler::Window(window) => (SchedulerKind::FixedWindow, Some(*window)),
            };
            let name = match scheduler {
                Scheduler::Policy(policy) => choices::name(*policy),
                Scheduler::Window(_) => scheduler.policy().name().to_owned(),
            };
            let (mut run, state) = self.run(&name, &scheduler.label(), kind, case, &carriers)?;
            run.window = window;
            if scheduler.learns() {
                run.learned.push(LearnedWindow::of(&state.window));
            }
            outcome.runs.push(run);
        }
        Ok(())
    }

    /// The settings of the engine for a run.
    fn configure(&self, scheduler: Scheduler) -> impl Fn(&mut Config) + Send + Sync + 'static {
        let queued_max = u32::try_from(self.queued_max).unwrap_or(u32::MAX);
        let group_limit = self
            .options
            .group_limit
            .map(|limit| u32::try_from(limit).unwrap_or(u32::MAX));
        let deadlines_ns = self.options.deadlines_ns;
        let objective = self.options.objective;
        move |config| {
            config.objective = objective;
            for (level, settings) in config.levels.iter_mut().enumerate() {
                // The load as a whole must fit, or it is another one.
                settings.queued_max = group_limit.unwrap_or(settings.queued_max.max(queued_max));
                if let Some(deadlines_ns) = deadlines_ns {
                    settings.deadline = Deadline::Fixed(deadlines_ns[level]);
                }
            }
            let window = match scheduler {
                Scheduler::Policy(Policy::Noop) => Some(config.in_flight_max.max(queued_max)),
                Scheduler::Policy(_) => None,
                Scheduler::Window(window) => Some(u32::try_from(window).unwrap_or(u32::MAX)),
            };
            if let Some(window) = window {
                let window = window.min(IN_FLIGHT_MAX);
                config.window = WindowConfig::Fixed(window);
                config.in_flight_max = config.in_flight_max.max(window);
            }
        }
    }

    /// The kernel's schedulers, each without and with I/O priorities.
    fn measure_kernel(&self, cases: &[Case], outcome: &mut MixOutcome) -> Result<(), Failure> {
        let Some((first, _)) = self.options.kernel_schedulers.split_first() else {
            return Ok(());
        };
        let disk = self
            .target
            .disk
            .as_deref()
            .ok_or_else(|| internal("a target without a disk passed the check"))?;
        let (paths, cleanups) = (&self.session.paths, &self.session.cleanups);
        let mut guard = SchedulerGuard::switch(paths, cleanups, disk, first)?;
        let priorities = self.kernel_priorities();
        for name in &self.options.kernel_schedulers {
            guard.set(name)?;
            let none = KernelPriorities {
                foreground: None,
                background: None,
            };
            let with = format!("{name}+ioprio");
            for case in cases {
                outcome
                    .runs
                    .push(self.kernel_run(name, SchedulerKind::Kernel, none, case)?);
                outcome.runs.push(self.kernel_run(
                    &with,
                    SchedulerKind::KernelIoprio,
                    priorities,
                    case,
                )?);
            }
        }
        Ok(())
    }

    /// The best class for the foreground that the process may use.
    fn kernel_priorities(&self) -> KernelPriorities {
        let real_time = Scoped::set(IoPriority::REAL_TIME);
        if let Err(error) = &real_time {
            self.session.warn(format!(
                "the foreground runs in the best-effort class instead of the real-time class with the kernel's schedulers: {error}"
            ));
        }
        KernelPriorities {
            foreground: Some(if real_time.is_ok() {
                IoPriority::REAL_TIME
            } else {
                IoPriority::BEST_EFFORT
            }),
            background: Some(IoPriority::IDLE),
        }
    }

    /// Each stream has an engine, and so threads, of its own: kernel
    /// schedulers tell processes apart by their threads.
    fn kernel_run(
        &self,
        name: &str,
        kind: SchedulerKind,
        priorities: KernelPriorities,
        case: &Case,
    ) -> Result<MixRun, Failure> {
        let open = |priority| {
            Carrier::open_with_priority(
                priority,
                self.carrier_options(),
                self.target,
                &self.arena,
                self.configure(Scheduler::Policy(Policy::Noop)),
            )
        };
        let foreground = open(priorities.foreground)?;
        let background = open(priorities.background)?;
        let carriers = Carriers {
            foreground: &foreground,
            background: &background,
            thread_priority: priorities.foreground,
        };
        let (run, _) = self.run(name, &format!("kernel {name}"), kind, case, &carriers)?;
        Ok(run)
    }

    fn run(
        &self,
        policy: &str,
        label: &str,
        kind: SchedulerKind,
        case: &Case,
        carriers: &Carriers<'_>,
    ) -> Result<(MixRun, Snapshot), Failure> {
        let stream = |name, part: &Part, carrier: &Carrier, level, seed, thread_priority| Stream {
            name,
            file: carrier.file.clone(),
            level,
            arrival: part.arrival,
            operation: part.operation,
            pattern: part.pattern,
            block_sizes_bytes: part.block_sizes_bytes.clone(),
            memory_bytes: 0,
            seed,
            thread_priority,
        };
        let seed = self.options.course.seed;
        let streams = [
            stream(
                "foreground",
                &case.foreground,
                carriers.foreground,
                Level::Foreground,
                seed,
                carriers.thread_priority,
            ),
            stream(
                "background",
                &case.background,
                carriers.background,
                Level::Background,
                !seed,
                None,
            ),
        ];
        let label = match case.high_share_percent {
            Some(percent) => format!("{label}, {percent} % high"),
            None => label.to_owned(),
        };
        let measured = workload::run(
            &label,
            &streams,
            self.options.course.times(),
            &self.arena,
            self.target,
            self.session,
            || carriers.background.snapshot(),
        )?;
        let [foreground, background] = <[_; 2]>::try_from(measured.loads)
            .map_err(|_| internal("two streams have two results"))?;
        let mut run = MixRun::new(
            policy,
            kind,
            foreground,
            background,
            measured.in_flight,
            measured.cpu,
        );
        run.high_share_percent = case.high_share_percent;
        Ok((run, measured.seen))
    }
}
