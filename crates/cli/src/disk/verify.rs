//! `iolane disk verify`: whether what is served has the model's time.
//!
//! Each load is put on a disk that is served afresh, and then, request by
//! request, on the same model in virtual time: the commands that the served
//! one was given, at the moments at which it was, with the same seed. So both
//! go through the same course of queue, head and credits, however they depend
//! on microseconds, and what a client saw beyond is the serving's error.

mod client;
mod course;
mod load;
mod render;
mod rig;

use std::path::PathBuf;
use std::time::Duration;

use iolane_disk::Description;
use iolane_disk::served::{AlarmsLate, Lead, usual_latency_ns};
use serde::Serialize;

use super::describe;
use super::serve;
use crate::args::choices::Operation;
use crate::args::common::OutputArgs;
use crate::args::disk::{LeadChoice, ModelArgs, Transport, VerifyArgs};
use crate::bench::{Bench, Outcome};
use crate::error::Failure;
use crate::output::html::Section;
use crate::output::text::Style;
use crate::session::Session;
use crate::target::{Target, TargetRequest};

/// The largest error of a good disk, in percent.
pub const ERROR_PERCENT_MAX: f64 = 5.0;
/// Up to where the disk is judged.
pub const JUDGED_PER_SECOND_MAX: f64 = 5000.0;
/// A sparse file of more would only take room in caches.
const SIZE_BYTES_MAX: u64 = 64 << 30;

#[derive(Clone, Debug, Serialize)]
pub struct VerifyOptions {
    pub model: String,
    pub seed: u64,
    /// Nothing: all that the machine allows.
    pub transports: Option<Vec<Transport>>,
    /// Nothing: by what the model can do.
    pub rates: Option<Vec<u64>>,
    pub depths: Vec<u64>,
    pub operation: Operation,
    pub block_size_bytes: u64,
    pub size_bytes: u64,
    pub runtime_ns: u64,
    /// Nothing: measured.
    pub lead_ns: Option<u64>,
    #[serde(skip)]
    directory: PathBuf,
    #[serde(skip)]
    description: Description,
    #[serde(skip)]
    model_arguments: ModelArgs,
    #[serde(skip)]
    lead: LeadChoice,
}

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Load {
    /// At random moments, so many per second on average.
    Open { requests_per_second: f64 },
    /// So many outstanding.
    Closed { depth: u64 },
}

impl Load {
    /// As it was meant, or as the model has it.
    fn requests_per_second(self, model: Figures) -> f64 {
        match self {
            Self::Open {
                requests_per_second,
            } => requests_per_second,
            Self::Closed { .. } => model.requests_per_second,
        }
    }
}

/// What came of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figures {
    pub mean_latency_ns: f64,
    pub p99_latency_ns: u64,
    pub requests_per_second: f64,
}

/// One load on one transport.
#[derive(Clone, Debug, Serialize)]
pub struct VerifyRun {
    pub transport: Transport,
    pub load: Load,
    pub requests: u64,
    pub served: Figures,
    pub model: Figures,
    /// Of the three figures, in the same order, in percent of the model's.
    pub error: Errors,
    /// Between the time at which an answer should have gone out and that at
    /// which it did.
    pub lateness_p50_ns: u64,
    pub lateness_p99_ns: u64,
    /// What was added to the lead at the end, as a loop device's accounts said.
    pub lead_correction_ns: i64,
    /// By how much a timer with nothing to do but to ring was late in the same
    /// run: the machine's part.
    pub machine_late_p50_ns: u64,
    pub machine_late_p99_ns: u64,
    /// What the model's latencies become where each thread on a request's way
    /// is woken as that timer was.
    pub machine: Machine,
    pub judged: bool,
    pub good: bool,
    /// Not good, but no worse than the model with such wakings.
    pub is_machines: bool,
}

/// Latencies of the model on this machine's wakings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Machine {
    pub mean_latency_ns: f64,
    pub p99_latency_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Errors {
    pub mean_latency_percent: f64,
    pub p99_latency_percent: f64,
    pub requests_per_second_percent: f64,
}

impl Errors {
    fn of(served: Figures, model: Figures) -> Self {
        let percent = |served: f64, model: f64| (served - model) / model * 100.0;
        Self {
            mean_latency_percent: percent(served.mean_latency_ns, model.mean_latency_ns),
            p99_latency_percent: percent(served.p99_latency_ns as f64, model.p99_latency_ns as f64),
            requests_per_second_percent: percent(
                served.requests_per_second,
                model.requests_per_second,
            ),
        }
    }

    fn largest(self) -> f64 {
        let all = [
            self.mean_latency_percent,
            self.p99_latency_percent,
            self.requests_per_second_percent,
        ];
        all.into_iter().map(f64::abs).fold(0.0, f64::max)
    }
}

/// What a run was, before it is judged.
struct Measured {
    requests: u64,
    served: Figures,
    model: Figures,
    machine: Machine,
    lateness_ns: (u64, u64),
    lead_correction_ns: i64,
    alarms: AlarmsLate,
}

impl VerifyRun {
    fn new(transport: Transport, load: Load, measured: &Measured) -> Self {
        let (served, model) = (measured.served, measured.model);
        let error = Errors::of(served, model);
        let good = error.largest() <= ERROR_PERCENT_MAX;
        Self {
            transport,
            load,
            requests: measured.requests,
            served,
            model,
            error,
            lateness_p50_ns: measured.lateness_ns.0,
            lateness_p99_ns: measured.lateness_ns.1,
            lead_correction_ns: measured.lead_correction_ns,
            machine_late_p50_ns: measured.alarms.p50_ns,
            machine_late_p99_ns: measured.alarms.p99_ns,
            machine: measured.machine,
            judged: load.requests_per_second(model) <= JUDGED_PER_SECOND_MAX,
            good,
            is_machines: !good && is_the_machines(load, error, served, measured.machine),
        }
    }
}

/// Whether what is off is late, and no later than the model is with the
/// wakings of a lone timer: its mean, and its 99th percentile.
fn is_the_machines(load: Load, error: Errors, served: Figures, machine: Machine) -> bool {
    let holds = |percent: f64, served_ns: f64, machine_ns: f64| {
        let most_ns = machine_ns * (1.0 + ERROR_PERCENT_MAX / 100.0);
        percent >= -ERROR_PERCENT_MAX && (percent <= ERROR_PERCENT_MAX || served_ns <= most_ns)
    };
    let mean = holds(
        error.mean_latency_percent,
        served.mean_latency_ns,
        machine.mean_latency_ns,
    );
    let p99 = holds(
        error.p99_latency_percent,
        served.p99_latency_ns as f64,
        machine.p99_latency_ns as f64,
    );
    // With so many outstanding, throughput follows from latency.
    let rate = error.requests_per_second_percent.abs() <= ERROR_PERCENT_MAX
        || matches!(load, Load::Closed { .. });
    mean && p99 && rate
}

/// By how much answers went out early.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LeadUsed {
    pub transport: Transport,
    #[serde(flatten)]
    pub lead: Lead,
}

#[derive(Clone, Debug, Serialize)]
pub struct VerifyOutcome {
    /// All judged runs are good.
    pub good: bool,
    pub error_percent_max: f64,
    pub judged_requests_per_second_max: f64,
    pub leads: Vec<LeadUsed>,
    pub runs: Vec<VerifyRun>,
}

impl VerifyOutcome {
    fn new(leads: Vec<LeadUsed>, runs: Vec<VerifyRun>) -> Self {
        Self {
            good: runs.iter().all(|run| run.good || !run.judged),
            error_percent_max: ERROR_PERCENT_MAX,
            judged_requests_per_second_max: JUDGED_PER_SECOND_MAX,
            leads,
            runs,
        }
    }
}

/// The command.
pub struct Verify;

impl Bench for Verify {
    const NAME: &'static str = "verify";
    const ABOUT: &'static str = "Measure a served disk against its model: latency and throughput";
    const SCHEMA: &'static str = "iolane.disk.verify/1";
    type Arguments = VerifyArgs;
    type Options = VerifyOptions;
    type Outcome = VerifyOutcome;

    fn output(arguments: &VerifyArgs) -> &OutputArgs {
        &arguments.output
    }

    fn repeat(_arguments: &VerifyArgs) -> u64 {
        1
    }

    fn options(arguments: VerifyArgs) -> Result<VerifyOptions, Failure> {
        let description = describe::find(&arguments.model.model)?;
        let model = describe::build(&description, &arguments.model)?;
        let whole = serve::size(arguments.size, &*model)?;
        let size_bytes = if arguments.size.is_some() {
            whole
        } else {
            whole.min(SIZE_BYTES_MAX)
        };
        let block = u64::from(model.block_bytes());
        if !arguments.block_size.is_multiple_of(block) || arguments.block_size > size_bytes {
            return Err(Failure::usage(
                format!("the disk has no blocks of {} bytes", arguments.block_size),
                format!(
                    "Give a --block-size that is a multiple of {block}, up to the disk's size."
                ),
            ));
        }
        Ok(VerifyOptions {
            model: arguments.model.model.clone(),
            seed: arguments.model.seed,
            transports: arguments.transports,
            rates: arguments.rates.map(|rates| rates.0),
            depths: arguments.depths.0,
            operation: arguments.operation,
            block_size_bytes: arguments.block_size,
            size_bytes,
            runtime_ns: arguments.runtime.as_nanos() as u64,
            lead_ns: match arguments.lead {
                LeadChoice::Auto => None,
                LeadChoice::Fixed(lead) => Some(lead.as_nanos() as u64),
            },
            directory: arguments.directory.unwrap_or_else(std::env::temp_dir),
            description,
            model_arguments: arguments.model,
            lead: arguments.lead,
        })
    }

    fn target(_options: &VerifyOptions) -> Option<TargetRequest> {
        None
    }
}

/// The [`Measure`](crate::bench::Measure) of the command.
///
/// # Errors
/// What cannot be set up, a request that failed, an interruption.
pub fn measure(
    options: &VerifyOptions,
    _target: Option<&Target>,
    session: &Session,
) -> Result<VerifyOutcome, Failure> {
    let loads = load::choose(options, session)?;
    let usual_latency_ns = usual_latency_ns(load::model(options)?);
    let transports = options
        .transports
        .clone()
        .unwrap_or_else(|| vec![Transport::Loop, Transport::Nbd]);
    let may_leave_out = options.transports.is_none();
    let mut leads = Vec::new();
    let mut runs = Vec::new();
    for transport in transports {
        let place = rig::Place::new(options, usual_latency_ns, session)?;
        let lead = match place.lead(transport) {
            Err(failure) if may_leave_out && transport == Transport::Loop => {
                session.warn(format!(
                    "no loop device is measured: {failure} {}",
                    failure.remedy()
                ));
                continue;
            }
            lead => lead?,
        };
        leads.push(LeadUsed { transport, lead });
        for load in &loads {
            let what = format!("{} {}", render::transport(transport), render::load(*load));
            let phase = session
                .progress
                .phase(&what, Duration::from_nanos(options.runtime_ns));
            runs.push(load::run(&place, transport, lead, *load)?);
            phase.elapsed(Duration::from_nanos(options.runtime_ns));
            session.stop.check()?;
        }
    }
    Ok(VerifyOutcome::new(leads, runs))
}

impl Outcome for VerifyOutcome {
    /// It is never repeated.
    fn merge(&mut self, other: Self) {
        self.leads.extend(other.leads);
        self.runs.extend(other.runs);
        self.good &= other.good;
    }

    fn text(&self, style: Style) -> String {
        render::text(self, style)
    }

    fn html(&self) -> Vec<Section> {
        render::html(self)
    }
}
