//! The measurement as a sub-command.

use std::time::Duration;

use serde::Serialize;

use super::{
    Dtlb, HugepagesError, HugepagesOptions, HugepagesResult, KindResult, Measured, Outcome,
    ProcessTables, ReadCost, run,
};
use crate::args;
use crate::args::common::OutputArgs;
use crate::args::hugepages::HugepagesArgs;
use crate::args::needs::Need;
use crate::bench::{self, Bench};
use crate::error::Failure;
use crate::session::Session;
use crate::target::{Target, TargetRequest};

/// For the progress bar, which counts in milliseconds.
const WHOLE: Duration = Duration::from_secs(100);

/// What was asked for, as recorded in results.
#[derive(Clone, Debug, Serialize)]
pub struct HugepagesRequest {
    #[serde(flatten)]
    pub options: HugepagesOptions,
    pub repeat: u64,
}

/// The sub-command.
pub struct Hugepages;

impl Bench for Hugepages {
    const NAME: &'static str = "hugepages";
    const ABOUT: &'static str =
        "Row look-ups, page reads and page tables of a buffer cache, by the size of its pages";
    const SCHEMA: &'static str = "iolane.bench.hugepages/1";
    type Arguments = HugepagesArgs;
    type Options = HugepagesRequest;
    type Outcome = HugepagesResult;
    const NEEDS: &'static [Need] = args::hugepages::NEEDS;

    fn output(arguments: &HugepagesArgs) -> &OutputArgs {
        &arguments.output
    }

    fn repeat(arguments: &HugepagesArgs) -> u64 {
        arguments.repeat
    }

    fn options(arguments: HugepagesArgs) -> Result<HugepagesRequest, Failure> {
        let defaults = HugepagesOptions::default();
        // The parser has bounded both.
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(HugepagesRequest {
            options: HugepagesOptions {
                cache_bytes: arguments.cache_size,
                lookups: arguments.lookups,
                reads: arguments.reads,
                direct_reads: arguments.direct_reads,
                repeats: small(arguments.samples),
                processes: small(arguments.processes),
                seed: arguments.seed,
                scratch_dir: arguments.directory.unwrap_or(defaults.scratch_dir),
                scratch_bytes: arguments.scratch_size,
                direct_path: arguments.file,
                reserve: arguments.reserve,
            },
            repeat: arguments.repeat,
        })
    }

    /// The file for direct reads, checked as every target; without one, only
    /// memory is measured.
    fn target(request: &HugepagesRequest) -> Option<TargetRequest> {
        let file = request.options.direct_path.clone()?;
        Some(TargetRequest {
            file: Some(file),
            directory: None,
            size_bytes: None,
            default_size_bytes: 0,
            transfer_sizes_bytes: vec![super::PAGE_BYTES as u64],
            direct: true,
            reads: true,
            writes: false,
            destructive: false,
            named_files: false,
        })
    }
}

/// Measures everything once.
///
/// # Errors
/// Memory, files or processes that are not to be had, or an interruption.
pub fn measure(
    request: &HugepagesRequest,
    _target: Option<&Target>,
    session: &Session,
) -> Result<HugepagesResult, Failure> {
    let phase = session.progress.phase("buffer cache by page size", WHOLE);
    let mut progress = |part: f64| phase.elapsed(WHOLE.mul_f64(part.clamp(0.0, 1.0)));
    let result = run(&request.options, &mut progress, &session.stop.as_atomic());
    drop(phase);
    let result = result.map_err(|error| failure(error, session))?;
    if result.cache_bytes < result.cache_asked_bytes {
        session.warn(format!(
            "the cache has {} instead of {}: half of the free memory",
            crate::output::units::binary_size(result.cache_bytes),
            crate::output::units::binary_size(result.cache_asked_bytes)
        ));
    }
    Ok(result)
}

fn failure(error: HugepagesError, session: &Session) -> Failure {
    let message = error.to_string();
    match error {
        // The flag knows which signal it was.
        HugepagesError::Stopped => match session.stop.check() {
            Err(interrupted) => interrupted,
            Ok(()) => Failure::Internal { message },
        },
        HugepagesError::Option { .. } => Failure::usage(message, "See --help for the ranges."),
        HugepagesError::File {
            what,
            path,
            source,
            remedy,
        } => Failure::setup(format!("{what} {}: {source}", path.display()), remedy),
        HugepagesError::NoRoom { .. } | HugepagesError::Arena(_) | HugepagesError::Buffer(_) => {
            Failure::setup(message, "Free some memory, or give a smaller --cache-size.")
        }
        HugepagesError::DirectTooSmall { .. } => Failure::setup(message, "Name a larger --file."),
        HugepagesError::Field { .. } => Failure::setup(message, "Mount /proc as usual."),
        HugepagesError::Child(_) => Failure::setup(
            message,
            "Give fewer --processes, or raise the limit on processes (ulimit -u).",
        ),
    }
}

impl bench::Outcome for HugepagesResult {
    fn merge(&mut self, other: Self) {
        self.repeats += other.repeats;
        self.cache_bytes = self.cache_bytes.min(other.cache_bytes);
        assert_eq!(self.kinds.len(), other.kinds.len(), "the same kinds");
        for (kind, other) in self.kinds.iter_mut().zip(other.kinds) {
            merge_kind(kind, other);
        }
    }

    fn text(&self, style: crate::output::text::Style) -> String {
        super::render::text(self, style)
    }

    fn html(&self) -> Vec<crate::output::html::Section> {
        super::render::html(self)
    }
}

/// Pages that only one of the repetitions got count with what it found.
fn merge_kind(kind: &mut KindResult, other: KindResult) {
    match (&mut kind.outcome, other.outcome) {
        (Outcome::Measured(ours), Outcome::Measured(theirs)) => merge_measured(ours, *theirs),
        (Outcome::Skipped(_), measured @ Outcome::Measured(_)) => kind.outcome = measured,
        (_, Outcome::Skipped(_)) => {}
    }
}

fn merge_measured(ours: &mut Measured, theirs: Measured) {
    let ours_count = ours.lookup_ns.samples.len();
    let theirs_count = theirs.lookup_ns.samples.len();
    merge_dtlb(&mut ours.dtlb, ours_count, theirs.dtlb, theirs_count);
    ours.lookup_ns.merge(theirs.lookup_ns);
    merge_reads(&mut ours.buffered_read, theirs.buffered_read);
    match (&mut ours.direct_read, theirs.direct_read) {
        (Some(ours), Some(theirs)) => merge_reads(ours, theirs),
        (ours, theirs) => *ours = ours.take().or(theirs),
    }
    if let ProcessTables::Skipped(_) = ours.process_tables {
        ours.process_tables = theirs.process_tables;
    }
}

fn merge_reads(ours: &mut ReadCost, theirs: ReadCost) {
    ours.cpu_ns.merge(theirs.cpu_ns);
    ours.reads_per_s.merge(theirs.reads_per_s);
}

/// Each sample has the same number of look-ups.
fn merge_dtlb(ours: &mut Dtlb, ours_count: usize, theirs: Dtlb, theirs_count: usize) {
    match (ours, theirs) {
        (
            Dtlb::Measured { misses_per_lookup },
            Dtlb::Measured {
                misses_per_lookup: more,
            },
        ) => {
            let [a, b] = [ours_count, theirs_count].map(|count| count as f64);
            *misses_per_lookup = (*misses_per_lookup * a + more * b) / (a + b);
        }
        (ours @ Dtlb::Skipped(_), theirs) => *ours = theirs,
        (Dtlb::Measured { .. }, Dtlb::Skipped(_)) => {}
    }
}
