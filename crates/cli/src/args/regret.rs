//! `iolane bench regret`.

use clap::Args;

use super::common::OutputArgs;
use super::list;

/// Most loads: a day of one processor.
const LOADS_MAX: u64 = 100_000;

#[derive(Clone, Debug, Args)]
pub struct RegretArgs {
    /// Modelled disks, in virtual time: names as iolane disk list has them, or all
    ///
    /// NAME/rotational=0 or =1 is one whose flag says the opposite of what it is, NAME/volatile
    /// flash whose write cache does not survive a loss of power. all takes every disk, with and
    /// without these.
    #[arg(
        long,
        value_name = "LIST",
        default_value = "all",
        value_delimiter = ',',
        help_heading = "Target"
    )]
    pub models: Vec<String>,
    /// Loads for each disk
    #[arg(long, value_name = "N", default_value = "200", value_parser = loads, help_heading = "Course")]
    pub loads: u64,
    /// Seed of the loads; the same seed gives the same loads
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Course")]
    pub seed: u64,
    /// Run this one load alone, by the seed that an earlier run printed
    #[arg(long, value_name = "N", conflicts_with_all = ["loads", "seed"], help_heading = "Course")]
    pub load_seed: Option<u64>,
    /// Print what each scheduler made of every load
    #[arg(long, help_heading = "Output")]
    pub verbose: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

fn loads(text: &str) -> Result<u64, String> {
    list::number_within(text, 1, LOADS_MAX)
}
