//! Options that several sub-commands share.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{duration, list, size};
use crate::args::choices::{Backend, IoMode};

/// Largest transfer: the kernel splits larger ones anyway.
pub const BLOCK_SIZE_MAX: u64 = 64 << 20;
/// Smallest transfer: the smallest sector of any disk.
pub const BLOCK_SIZE_MIN: u64 = 512;
/// Most requests outstanding: what a backend of the engine can have in flight.
pub const DEPTH_MAX: u64 = 16_384;
/// Most repetitions; more is a typing error.
pub const REPEAT_MAX: u64 = 1000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Tables for people
    #[default]
    Text,
    /// One JSON document, described in docs/json.md
    Json,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// What is written to standard output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output_format: OutputFormat,
    /// Write the result to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write a page with plots and tables, one self-contained file
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Target")]
pub struct TargetArgs {
    /// Existing file or block device to measure [default: a scratch file that is removed at the end]
    #[arg(long, value_name = "PATH", conflicts_with = "directory")]
    pub file: Option<PathBuf>,
    /// Directory for the scratch file, on the disk to measure [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// How much of the target is used, from its start [default: all of an existing file, 1 GiB of a scratch file]
    ///
    /// At least 1 MiB. A scratch file is filled with random bytes first. To measure the disk
    /// and not a cache in front of it, choose more than the caches hold.
    #[arg(long, value_name = "SIZE", value_parser = target_size)]
    pub size: Option<u64>,
    /// Allow writing to an existing file or device: its contents are lost
    #[arg(long)]
    pub destructive: bool,
}

pub const TARGET_BYTES_MIN: u64 = 1 << 20;

/// How much of a target is used.
pub fn target_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, TARGET_BYTES_MIN, 1 << 50)
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Course")]
pub struct CourseArgs {
    /// How long each run is measured, such as 10s or 500ms
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse_positive)]
    pub runtime: Duration,
    /// How long each run goes on before it is measured
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration::parse)]
    pub warm_up: Duration,
    /// Measure everything this many times, in turn; the spread is shown
    #[arg(long, value_name = "N", default_value = "1", value_parser = repeat)]
    pub repeat: u64,
    /// Seed of the random offsets; the same seed gives the same offsets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What all sub-commands have that transfer blocks on one target.
#[derive(Clone, Debug, Args)]
pub struct TransferArgs {
    #[command(flatten)]
    pub target: TargetArgs,
    #[command(flatten)]
    pub course: CourseArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How requests get to the disk.
#[derive(Clone, Copy, Debug, Args)]
pub struct CarrierArgs {
    #[command(flatten)]
    pub io: IoArgs,
    /// What carries requests to the kernel
    #[arg(long, value_enum, default_value = "auto", value_name = "BACKEND")]
    pub backend: Backend,
}

/// A number of repetitions.
pub fn repeat(text: &str) -> Result<u64, String> {
    list::number_within(text, 1, REPEAT_MAX)
}

/// A `--io` option with direct as the default.
#[derive(Clone, Copy, Debug, Args)]
pub struct IoArgs {
    /// Past the page cache or through it
    #[arg(long, value_enum, default_value = "direct", value_name = "MODE")]
    pub io: IoMode,
}

/// One transfer size.
pub fn block_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, BLOCK_SIZE_MIN, BLOCK_SIZE_MAX)
}

/// A list of transfer sizes.
pub fn block_sizes(text: &str) -> Result<list::List, String> {
    list::parse(text, list::Progression::Doubling, block_size)
}

/// A number of requests outstanding.
pub fn depth(text: &str) -> Result<u64, String> {
    list::number_within(text, 1, DEPTH_MAX)
}

/// A list of them.
pub fn depths(text: &str) -> Result<list::List, String> {
    list::parse(text, list::Progression::Doubling, depth)
}
