//! `iolane bench regret`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::common::{OutputArgs, TargetArgs, repeat};
use super::size;
use super::{duration, list};

/// Most loads: a day of one processor.
const LOADS_MAX: u64 = 100_000;

#[derive(Clone, Debug, Args)]
pub struct RegretArgs {
    /// Modelled disks, in virtual time: names as iolane disk list has them, or all [default: all]
    ///
    /// NAME/rotational=0 or =1 is a disk with a wrong rotational flag, NAME/volatile is flash
    /// whose write cache does not survive a power cut. all takes every disk, with and
    /// without these. With --file or --directory a real disk is measured instead.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Target"
    )]
    pub models: Option<Vec<String>>,
    /// Existing file or block device of a real disk; needs --destructive
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with = "directory",
        help_heading = "Target"
    )]
    pub file: Option<PathBuf>,
    /// Directory on a real disk, for a scratch file that is removed at the end
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    pub directory: Option<PathBuf>,
    /// How much of a real disk is used, from its start [default: all of an existing file, 2 GiB of a scratch file]
    #[arg(long, value_name = "SIZE", value_parser = target_size, help_heading = "Target")]
    pub size: Option<u64>,
    /// Allow writing to an existing file or device: its contents are lost
    #[arg(long, help_heading = "Target")]
    pub destructive: bool,
    /// Loads for each disk
    #[arg(long, value_name = "N", default_value = "200", value_parser = loads, help_heading = "Course")]
    pub loads: u64,
    /// Seed of the loads; the same seed gives the same loads
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Course")]
    pub seed: u64,
    /// Run this one load alone, by the seed that an earlier run printed
    #[arg(long, value_name = "N", conflicts_with_all = ["loads", "seed"], help_heading = "Course")]
    pub load_seed: Option<u64>,
    /// On a real disk, measure each load this many times, the schedulers in turn [default: 1]
    ///
    /// With 2 or more it also measures how much of the regret is chance: the fixed window that is
    /// best in the odd repetitions of a load is judged in the even ones ("hindsight, measured
    /// again"), beside lanes in the same.
    #[arg(long, value_name = "N", value_parser = repeat, help_heading = "Course")]
    pub repeat: Option<u64>,
    /// On a real disk, how long each run goes on before it is measured [default: 1500ms]
    #[arg(long, value_name = "TIME", value_parser = duration::parse, help_heading = "Course")]
    pub warm_up: Option<Duration>,
    /// On a real disk, how long each run is measured; 3 s at least where a load changes [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse_positive, help_heading = "Course")]
    pub runtime: Option<Duration>,
    /// Judge the best fixed window in place of lanes, run again with chance drawn anew; for modelled disks
    ///
    /// What it regrets is chance: the least that a scheduler could regret that knew each load
    /// beforehand.
    #[arg(long, help_heading = "Course")]
    pub hindsight: bool,
    /// Print the figures of each scheduler on every load
    #[arg(long, help_heading = "Output")]
    pub verbose: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Smallest part of a real disk: the largest operations need places to go to.
const SIZE_MIN: u64 = 64 << 20;

impl RegretArgs {
    /// The real disk, if one is named.
    pub fn target(&self) -> Option<TargetArgs> {
        let named = self.file.is_some() || self.directory.is_some();
        named.then(|| TargetArgs {
            file: self.file.clone(),
            directory: self.directory.clone(),
            size: self.size,
            destructive: self.destructive,
        })
    }
}

fn target_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, SIZE_MIN, 1 << 50)
}

fn loads(text: &str) -> Result<u64, String> {
    list::number_within(text, 1, LOADS_MAX)
}
