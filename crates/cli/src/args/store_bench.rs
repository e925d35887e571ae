//! `iolane bench store`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use iolane_sched::Objective;
use serde::Serialize;

use super::choices::{Backend, IoMode, Switch};
use super::common::{CourseArgs, OutputArgs, depths};
use super::list::{self, List};
use super::needs::Need;
use super::{rate, size};

/// A row's number is kept in 32 bits while the table is loaded.
const ROWS_MAX: u64 = 100_000_000;
const THREADS_MAX: u64 = 256;

/// Options of a mode that another option chooses.
pub const NEEDS: &[Need] = &[Need {
    option: "--beside-cpu",
    beside: "--beside",
    mode: "what goes on beside the measured work: --beside",
    remedy: "Give --beside with it, such as --beside scan,checkpoint.",
}];

/// What is done with the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Experiment {
    /// Reads all rows in the order of the primary key, from cold
    Scan,
    /// Reads --range-rows rows by a secondary index, from cold; they lie at random places
    Range,
    /// Changes all rows in the order of the primary key
    Update,
    /// Changes one row of a few and waits until that is durable
    Commit,
    /// Reads a random row, and changes one and waits until that is durable, in turn
    Oltp,
}

/// How eagerly the store does I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StorePolicy {
    /// As InnoDB by default
    Conservative,
    /// As Hall and Bonnet proposed
    Paper,
    /// iolane-store's default
    Aggressive,
}

/// What is read ahead of a scan, whatever the policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReadAhead {
    /// Nothing
    None,
    /// The next extent, when one is read in sequence (InnoDB's default)
    Linear,
    /// The rest of an extent with 13 pages in memory
    Random,
    /// Linear and random
    Both,
    /// What the branches of the index name
    Logical,
}

/// What goes on beside the measured work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Beside {
    /// One scan of the table after the other
    Scan,
    /// One backup of the store after the other
    Backup,
    /// Changes of 2000 rows a second, and each second a checkpoint that takes all changes to their places
    Checkpoint,
    /// One change of all rows after the other
    Update,
}

/// In which order rows were inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadOrder {
    /// Shuffled: pages split all over, and neighbours by key lie apart on disk
    Random,
    /// That of the primary key: neighbours by key are neighbours on disk
    Key,
}

const NOTES: &str = "The table is made once, by transactions of 1000 rows, with a pool as large as itself; each run then \
opens the store anew with --pool-size, so that it begins cold; a scan, a range \
or an update begins --warm-up after that. With priorities off, all requests are alike and the device \
serves them first come, first served; the default is what the policy has: off for conservative, on for the others.";

#[derive(Clone, Debug, Args)]
#[command(
    after_help = NOTES,
    mut_arg("repeat", |repeat| repeat.visible_alias("repetitions"))
)]
pub struct StoreBenchArgs {
    /// What is measured, in turn
    #[arg(
        value_enum,
        value_delimiter = ',',
        required = true,
        value_name = "EXPERIMENTS"
    )]
    pub experiments: Vec<Experiment>,
    /// How eagerly the store reads ahead and writes back, one run each
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "conservative,paper,aggressive",
        value_name = "LIST"
    )]
    pub policy: Vec<StorePolicy>,
    /// Whether urgent requests go first, one run each [default: as the policy has it]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    pub priorities: Vec<Switch>,
    /// Also one run with priorities for each of these fixed windows: the curve that hand-tuning
    /// reaches
    ///
    /// A window is how many requests of the lower levels may be in flight: 1 to 16384, such as
    /// 4,8,16. Otherwise it is learned.
    #[arg(long, value_name = "LIST", value_parser = depths)]
    pub windows: Option<List>,
    /// What the learned window is to reach: elasticity=E, slowdown=X or latency=TIME, as iolane
    /// bench mix --help explains [default: elasticity=0.3]
    #[arg(long, value_name = "OBJECTIVE")]
    pub objective: Option<Objective>,
    /// What is read ahead of a scan, one run each [default: as the policy has it]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    pub read_ahead: Vec<ReadAhead>,
    /// Past the page cache and through it, one run each
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "direct",
        value_name = "LIST"
    )]
    pub io: Vec<IoMode>,
    /// What carries requests to the kernel, one run each
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "auto",
        value_name = "LIST"
    )]
    pub backend: Vec<Backend>,
    /// Work that goes on beside, all of it at once: in bulk transactions, at nice 19
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    pub beside: Vec<Beside>,
    /// How much of a processor each of them may have, 1 to 100 %, such as 25 [default: what is left]
    ///
    /// A nice value limits nothing while a processor is free. Where a virtual machine has a quota of processor
    /// time, work beside that uses it up stops all threads. Work of the store's own threads is not counted.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub beside_cpu: Option<f64>,
    /// Threads that do the measured work [default: 1 for scan, range and update, 8 for commit and
    /// oltp, 32 with --rate]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub threads: Option<u64>,
    /// Transactions begin at this rate, such as 500/s, each on the first thread that is free, and their
    /// latency counts from the moment at which they should have begun [default: each as soon as the one
    /// before has ended]
    #[arg(long, value_name = "RATE", value_parser = rate::parse)]
    pub rate: Option<f64>,
    /// Rows of one range [default: 10000]
    #[arg(long, value_name = "N", value_parser = rows)]
    pub range_rows: Option<u64>,
    #[command(flatten)]
    pub table: StoreTableArgs,
    /// Directory for the store, on the disk to measure; the store is removed at the end [default: the current one]
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    pub directory: Option<PathBuf>,
    /// Put the store on a modelled disk, served for this run, with its data in a file in --directory: a preset (see
    /// iolane disk list), or a TOML file that describes a disk; needs root
    #[arg(long, value_name = "MODEL", help_heading = "Target")]
    pub model: Option<String>,
    #[command(flatten)]
    pub course: CourseArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The table and the store around it.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Table")]
pub struct StoreTableArgs {
    /// Rows of the table [default: as many as fit --table-size]
    #[arg(long, value_name = "N", value_parser = rows, conflicts_with = "table_size")]
    pub rows: Option<u64>,
    /// Approximate size of the table with its index, at least 1 MiB
    #[arg(long, value_name = "SIZE", default_value = "256m", value_parser = table_size)]
    pub table_size: u64,
    /// Bytes of a row without its key, 1 byte to 4 KiB
    #[arg(long, value_name = "SIZE", default_value = "1000", value_parser = row_size)]
    pub row_size: u64,
    /// In which order the rows are inserted
    #[arg(long, value_enum, default_value = "random", value_name = "ORDER")]
    pub order: LoadOrder,
    /// Buffer pool of the store, at least 2 MiB
    #[arg(long, value_name = "SIZE", default_value = "32m", value_parser = pool_size)]
    pub pool_size: u64,
    /// Size of the redo log; a small one needs checkpoints more often, also while the table is loaded
    #[arg(long, value_name = "SIZE", default_value = "128m", value_parser = log_size)]
    pub log_size: u64,
}

fn rows(text: &str) -> Result<u64, String> {
    list::number_within(text, 1, ROWS_MAX)
}

fn threads(text: &str) -> Result<u64, String> {
    list::number_within(text, 1, THREADS_MAX)
}

/// A share from a text such as `25` or `25%`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text);
    list::number_within(number, 1, 100).map(|percent| percent as f64 / 100.0)
}

/// Of a table with its index.
pub fn table_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, 1 << 20, 1 << 40)
}

fn row_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, 1, 4096)
}

fn pool_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, 2 << 20, 1 << 40)
}

fn log_size(text: &str) -> Result<u64, String> {
    let bytes = size::parse_within(text, 8 << 20, 1 << 40)?;
    if bytes % 4096 == 0 {
        Ok(bytes)
    } else {
        Err("a log is a multiple of 4 KiB".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_processor_is_a_percentage() {
        assert_eq!(percent("1"), Ok(0.01));
        assert_eq!(percent("100%"), Ok(1.0));
        for text in ["0", "101", "0.5", "-1", "", "%", "25 %", "a"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
