//! `iolane bench hugepages`.

use std::path::PathBuf;

use clap::Args;

use super::common::{OutputArgs, REPEAT_MAX};
use super::needs::Need;
use super::{list, size};
use crate::bench::hugepages::{CACHE_BYTES_MIN, PROCESSES_MAX, SAMPLES_MAX};

/// More memory than any machine has; the measurement takes what is free.
pub const CACHE_BYTES_MAX: u64 = 1 << 43;
const COUNT_MAX: u64 = 1 << 40;

/// Options of a mode that another option chooses.
pub const NEEDS: &[Need] = &[Need {
    option: "--direct-reads",
    beside: "--file",
    mode: "reads past the page cache: of --file",
    remedy: "Give --file with it, an existing file or block device; --reads says how many go through the page cache.",
}];

#[derive(Clone, Debug, Args)]
pub struct HugepagesArgs {
    /// Size of the buffer cache; at most half of the free memory is used
    ///
    /// A multiple of 1 GiB, or pages of 1 GiB are left out.
    #[arg(long, value_name = "SIZE", default_value = "1g", value_parser = cache_size)]
    pub cache_size: u64,
    /// Random row look-ups in one sample
    #[arg(long, value_name = "N", default_value = "2000000", value_parser = count)]
    pub lookups: u64,
    /// Random page reads in one sample, from a scratch file in the page cache
    #[arg(long, value_name = "N", default_value = "20000", value_parser = count)]
    pub reads: u64,
    /// Random page reads past the page cache in one sample; need --file
    #[arg(long, value_name = "N", default_value = "2000", value_parser = count)]
    pub direct_reads: u64,
    /// Samples of each measurement, the kinds of pages in turn; their median and range are shown
    #[arg(long, value_name = "N", default_value = "5", value_parser = samples)]
    pub samples: u64,
    /// Processes that share the cache, for the size of their page tables
    #[arg(long, value_name = "N", default_value = "4", value_parser = processes)]
    pub processes: u64,
    /// Reserve the huge pages that are missing, and give them back at the end (root)
    ///
    /// Raises vm.nr_hugepages and sets transparent huge pages of shared memory to "advise" while
    /// it runs. Without it, only what the machine has reserved already is measured.
    #[arg(long)]
    pub reserve: bool,
    /// Existing file or block device to read past the page cache, never written to
    #[arg(long, value_name = "PATH", help_heading = "Target")]
    pub file: Option<PathBuf>,
    /// Directory for the scratch file [default: the system's for temporary files]
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    pub directory: Option<PathBuf>,
    /// Size of the scratch file; no more than the cache is used
    #[arg(long, value_name = "SIZE", default_value = "256m", value_parser = scratch_size, help_heading = "Target")]
    pub scratch_size: u64,
    /// Measure everything this many times
    #[arg(long, value_name = "N", default_value = "1", value_parser = repeat, help_heading = "Course")]
    pub repeat: u64,
    /// Seed of the random order; the same for every kind of pages
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Course")]
    pub seed: u64,
    #[command(flatten)]
    pub output: OutputArgs,
}

fn cache_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, CACHE_BYTES_MIN, CACHE_BYTES_MAX)
}

fn scratch_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, 1 << 20, 1 << 40)
}

fn count(text: &str) -> Result<u64, String> {
    list::number_within(text, 1, COUNT_MAX)
}

fn samples(text: &str) -> Result<u64, String> {
    list::number_within(text, 1, SAMPLES_MAX.into())
}

fn processes(text: &str) -> Result<u64, String> {
    list::number_within(text, 1, PROCESSES_MAX.into())
}

fn repeat(text: &str) -> Result<u64, String> {
    list::number_within(text, 1, REPEAT_MAX)
}
