//! `iolane figures`.

use std::path::PathBuf;

use clap::Args;

use super::common::OutputArgs;
use super::hugepages::CACHE_BYTES_MAX;
use super::needs::Need;
use super::size;
use super::store_bench::table_size;
use crate::bench::hugepages::CACHE_BYTES_MIN;

const REAL: &str = "figures that are measured on this machine: --real";
const REAL_TOO: &str =
    "Give --real with it, or leave it out: the other figures are simulated, on disks of their own.";

/// Options of a mode that another option chooses.
pub const NEEDS: &[Need] = &[
    Need {
        option: "--table-size",
        beside: "--real",
        mode: REAL,
        remedy: REAL_TOO,
    },
    Need {
        option: "--cache-size",
        beside: "--real",
        mode: REAL,
        remedy: REAL_TOO,
    },
    Need {
        option: "--directory",
        beside: "--real",
        mode: REAL,
        remedy: REAL_TOO,
    },
    Need {
        option: "--model",
        beside: "--real",
        mode: REAL,
        remedy: REAL_TOO,
    },
];

#[derive(Clone, Debug, Args)]
pub struct FiguresArgs {
    /// Which figures, as --list names them [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// List the figures, and simulate nothing
    #[arg(long, conflicts_with = "names")]
    pub list: bool,
    /// Seed of all random choices; the same seed gives the same figures
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Course")]
    pub seed: u64,
    /// Measure the figures of a storage manager on a disk, and those of a buffer cache in memory, instead of simulating
    /// the others
    ///
    /// For a buffer cache on huge pages it reserves those that are missing, as iolane bench hugepages
    /// --reserve does, and gives them back at the end; without root it leaves them out.
    #[arg(long)]
    pub real: bool,
    /// With --real, the approximate size of each table, at least 1 MiB; the buffer pool is smaller
    #[arg(long, value_name = "SIZE", default_value = "64m", value_parser = table_size, help_heading = "Target")]
    pub table_size: u64,
    /// With --real, the size of the buffer cache in memory; at most half of the free memory is used
    #[arg(long, value_name = "SIZE", default_value = "1g", value_parser = cache_size, help_heading = "Target")]
    pub cache_size: u64,
    /// With --real, the directory for the stores, on the disk to measure; they are removed at the end [default: the current one]
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    pub directory: Option<PathBuf>,
    /// With --real, put the stores on a modelled disk, served for this run, with its data in a file in --directory: a
    /// preset (see iolane disk list), or a TOML file that describes a disk; needs root
    #[arg(long, value_name = "MODEL", help_heading = "Target")]
    pub model: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Half of it is a cache too.
fn cache_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, 2 * CACHE_BYTES_MIN, CACHE_BYTES_MAX)
}
