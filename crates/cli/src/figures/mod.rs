//! `iolane figures`: the documents' figures again, on modelled disks in virtual
//! time; with `--real`, those that are measured: a storage manager on a disk of
//! this machine, or with `--model` on a modelled one in real time, and a buffer
//! cache.
//!
//! Each figure is a function of this crate's `catalogue` that simulates what
//! a document measured and puts the document's own values beside its results
//! ([`report`]). Without `--real` nothing touches a real disk, nothing sleeps,
//! and the same seed gives the same figures.

mod bug_68659;
mod catalogue;
mod hall_bonnet;
mod real;
mod render;
pub mod report;
mod revisited;
pub(crate) mod rig;
mod tournament;

use std::path::PathBuf;

use serde::Serialize;

use crate::args;
use crate::args::common::OutputArgs;
use crate::args::figures::FiguresArgs;
use crate::args::needs::Need;
use crate::bench::{Bench, Outcome};
use crate::error::Failure;
use crate::output::html::Section;
use crate::output::text::Style;
use crate::session::Session;
use crate::target::{Target, TargetRequest};
use catalogue::{Entry, Means};
use real::RealRig;
use report::Figure;
use rig::Rig;

/// Room that a table, its log and its old versions take, in tables.
const TABLES_ROOM: u64 = 3;

#[derive(Clone, Debug, Serialize)]
pub struct FiguresOptions {
    pub names: Vec<&'static str>,
    pub list: bool,
    pub seed: u64,
    /// Measured on this machine.
    pub real: bool,
    /// Of each table then.
    pub table_size_bytes: u64,
    /// Of a buffer cache in memory then.
    pub cache_size_bytes: u64,
    /// The disk then, if it is a modelled one.
    pub model: Option<String>,
    #[serde(skip)]
    directory: Option<PathBuf>,
}

/// What was simulated, and what there is.
#[derive(Clone, Debug, Serialize)]
pub struct FiguresOutcome {
    pub catalogue: Vec<Entry>,
    /// None with `--list`.
    pub figures: Vec<Figure>,
    #[serde(skip)]
    list: bool,
}

/// The command.
pub struct Figures;

impl Bench for Figures {
    const NAME: &'static str = "figures";
    const ABOUT: &'static str =
        "Regenerate the papers' figures on modelled disks, with the published values beside ours";
    const SCHEMA: &'static str = "iolane.figures/1";
    type Arguments = FiguresArgs;
    type Options = FiguresOptions;
    type Outcome = FiguresOutcome;
    const NEEDS: &'static [Need] = args::figures::NEEDS;

    fn output(arguments: &FiguresArgs) -> &OutputArgs {
        &arguments.output
    }

    /// Virtual time: a repetition would give the same.
    fn repeat(_arguments: &FiguresArgs) -> u64 {
        1
    }

    fn options(arguments: FiguresArgs) -> Result<FiguresOptions, Failure> {
        let means = match (arguments.real, &arguments.model) {
            (false, _) => Means::Virtual,
            (true, None) => Means::Real,
            (true, Some(_)) => Means::Modelled,
        };
        Ok(FiguresOptions {
            names: catalogue::choose(&arguments.names, means)?,
            list: arguments.list,
            seed: arguments.seed,
            real: arguments.real,
            table_size_bytes: arguments.table_size,
            cache_size_bytes: arguments.cache_size,
            model: arguments.model,
            directory: arguments.directory,
        })
    }

    fn target(options: &FiguresOptions) -> Option<TargetRequest> {
        let needs_disk = options.names.iter().any(|name| real::needs_disk(name));
        (needs_disk && !options.list).then(|| TargetRequest {
            file: None,
            directory: options.directory.clone(),
            size_bytes: Some(TABLES_ROOM * options.table_size_bytes),
            default_size_bytes: 0,
            transfer_sizes_bytes: Vec::new(),
            direct: true,
            reads: true,
            writes: true,
            destructive: false,
            named_files: true,
        })
    }
}

/// The [`Measure`](crate::bench::Measure) of the figures.
///
/// # Errors
/// An interruption, or a defect in a figure's own set-up.
pub fn measure(
    options: &FiguresOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<FiguresOutcome, Failure> {
    let mut figures = Vec::new();
    let real = RealRig {
        target,
        model: options.model.as_deref(),
        table_bytes: options.table_size_bytes,
        cache_bytes: options.cache_size_bytes,
        seed: options.seed,
        session,
    };
    let simulated = Rig::new(options.seed, &session.stop);
    let names: &[&'static str] = if options.list { &[] } else { &options.names };
    for name in names {
        let doing = if options.real {
            "measuring"
        } else {
            "simulating"
        };
        session.progress.say(&format!("{doing} {name}"));
        figures.push(match options.real {
            true => real::measure(name, &real)?,
            false => catalogue::simulate(name, &simulated)?,
        });
    }
    Ok(FiguresOutcome {
        catalogue: catalogue::entries(),
        figures,
        list: options.list,
    })
}

impl Outcome for FiguresOutcome {
    fn merge(&mut self, other: Self) {
        self.figures = other.figures;
    }

    fn text(&self, style: Style) -> String {
        if self.list {
            render::list(&self.catalogue, style)
        } else {
            render::text(&self.figures, style)
        }
    }

    fn html(&self) -> Vec<Section> {
        if self.list {
            vec![render::list_section(&self.catalogue)]
        } else {
            render::html(&self.figures)
        }
    }
}
