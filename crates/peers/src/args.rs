//! The command line.

use crate::engines::Kind;
use crate::experiments::{
    CachedGet, Commit, Experiment, Load, Memory, MemoryOf, Oltp, Range, Scan, UncachedGet, Update,
};
use crate::rows::{Rows, row_bytes_mean};
use clap::{Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Compares iolane-store with InnoDB, SQLite, RocksDB, LMDB and redb.
///
/// Every engine gets the same rows on the same file system and promises the
/// same durability; they are measured in turn, each several times. Databases
/// lie below --directory and are removed at the end.
#[derive(Parser)]
#[command(name = "iolane-peers", version)]
pub struct Args {
    /// Where databases are made, up to 6 GiB.
    #[arg(long, global = true, default_value = "/var/tmp/iolane-peers")]
    pub directory: PathBuf,
    /// How often each engine is measured.
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Length of one measurement, where it has one.
    #[arg(long, global = true, default_value_t = 1.0, value_parser = seconds)]
    pub seconds: f64,
    /// Who takes part.
    #[arg(
        long,
        global = true,
        value_delimiter = ',',
        default_value = "iolane,innodb,sqlite,rocksdb,lmdb,redb"
    )]
    pub engines: Vec<Kind>,
    /// Format of the result on standard output.
    #[arg(long, global = true, default_value = "text")]
    pub output_format: Format,
    /// Writes the document to a file, too.
    #[arg(long, global = true)]
    pub json: Option<PathBuf>,
    /// What is compared.
    #[command(subcommand)]
    pub command: Command,
}

impl Args {
    /// Each once, in the fixed order.
    pub fn engines(&self) -> Vec<Kind> {
        let all = Kind::ALL.into_iter();
        all.filter(|kind| self.engines.contains(kind)).collect()
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("0.01 to 3600 seconds are possible".to_owned()),
    }
}

/// How the result is printed.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables.
    Text,
    /// One document.
    Json,
}

/// A number of rows that fits the scratch space.
fn rows(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(rows) if (1..=20_000_000).contains(&rows) => Ok(rows),
        _ => Err("1 to 20000000 rows are possible".to_owned()),
    }
}

/// Threads, or reads in a transaction.
fn some(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=200).contains(&number) => Ok(number),
        _ => Err("1 to 200 are possible".to_owned()),
    }
}

/// Memory of an engine, in MiB.
fn pool_mib(text: &str) -> Result<u64, String> {
    match text.parse() {
        // InnoDB's least pool is 6 MiB, with pages of 16 KiB.
        Ok(mib) if (6..=1024).contains(&mib) => Ok(mib),
        _ => Err("6 to 1024 MiB are possible".to_owned()),
    }
}

/// What is compared.
#[derive(Subcommand)]
pub enum Command {
    /// Durable commits of one new row each.
    Commit {
        /// Threads.
        #[arg(long, value_delimiter = ',', default_value = "1,8", value_parser = some)]
        threads: Vec<usize>,
    },
    /// Random reads of single rows.
    Get {
        /// Reads from the disk: ten times the rows that the pool holds.
        #[arg(long)]
        uncached: bool,
        /// Threads; by default 1 and 2, uncached 1, 2, 8 and 32.
        #[arg(long, value_delimiter = ',', value_parser = some)]
        threads: Option<Vec<usize>>,
        /// Rows, where all are cached.
        #[arg(long, default_value_t = 200_000, value_parser = rows)]
        rows: u64,
        /// Reads in one transaction, where all are cached.
        #[arg(long, value_delimiter = ',', default_value = "1,100", value_parser = some)]
        batches: Vec<usize>,
        /// Pool in MiB, where not all are cached.
        #[arg(long, default_value_t = 32, value_parser = pool_mib)]
        pool: u64,
    },
    /// Filling an empty table in the order of the key.
    Load {
        /// Rows.
        #[arg(long, default_value_t = 500_000, value_parser = rows)]
        rows: u64,
    },
    /// A cold scan of a table that was filled in random order and is four times
    /// the pool.
    Scan {
        /// Pool in MiB.
        #[arg(long, default_value_t = 32, value_parser = pool_mib)]
        pool: u64,
    },
    /// Cold rows by a secondary index, of a table of eight times the pool.
    Range {
        /// Pool in MiB.
        #[arg(long, default_value_t = 64, value_parser = pool_mib)]
        pool: u64,
        /// Rows of the range.
        #[arg(long, default_value_t = 10_000, value_parser = rows)]
        rows: u64,
    },
    /// Changing every row of a table of 1.3 times the pool.
    Update {
        /// Pool in MiB.
        #[arg(long, default_value_t = 64, value_parser = pool_mib)]
        pool: u64,
    },
    /// Selects and updates of single rows, alone and beside a scan, of a table
    /// of four times the pool.
    Oltp {
        /// Pool in MiB.
        #[arg(long, default_value_t = 32, value_parser = pool_mib)]
        pool: u64,
    },
    /// Memory that the engine takes, against its pool.
    Memory {
        /// Pool in MiB.
        #[arg(long, default_value_t = 128, value_parser = pool_mib)]
        pool: u64,
    },
    /// One engine's part of memory.
    #[command(hide = true)]
    MemoryOf {
        /// As JSON.
        task: String,
    },
}

/// What a command asks for.
pub enum Task {
    /// To compare all engines.
    Compare(Box<dyn Experiment>),
    /// To measure the memory of one, for a program that compares.
    MemoryOf(MemoryOf),
}

/// Rows of so many times the pool.
fn rows_of(pool_mib: u64, times: f64) -> Rows {
    let bytes = (pool_mib << 20) as f64 * times;
    Rows::new(bytes as u64 / row_bytes_mean())
}

impl Command {
    /// What it asks for.
    ///
    /// # Errors
    /// A task that is none.
    pub fn task(&self) -> serde_json::Result<Task> {
        let experiment: Box<dyn Experiment> = match self {
            Command::Commit { threads } => Box::new(Commit {
                threads: threads.clone(),
            }),
            Command::Get {
                uncached: false,
                threads,
                rows,
                batches,
                ..
            } => Box::new(CachedGet {
                rows: Rows::new(*rows),
                threads: threads.clone().unwrap_or_else(|| vec![1, 2]),
                batches: batches.clone(),
            }),
            Command::Get { threads, pool, .. } => Box::new(UncachedGet {
                rows: rows_of(*pool, 10.0),
                cache_bytes: pool << 20,
                threads: threads.clone().unwrap_or_else(|| vec![1, 2, 8, 32]),
            }),
            Command::Load { rows } => Box::new(Load {
                rows: Rows::new(*rows),
            }),
            Command::Scan { pool } => Box::new(Scan {
                rows: rows_of(*pool, 4.0),
                cache_bytes: pool << 20,
            }),
            Command::Range { pool, rows } => Box::new(Range {
                rows: rows_of(*pool, 8.0),
                cache_bytes: pool << 20,
                wanted: *rows,
            }),
            Command::Update { pool } => Box::new(Update::new(rows_of(*pool, 1.3), pool << 20)),
            Command::Oltp { pool } => Box::new(Oltp {
                rows: rows_of(*pool, 4.0),
                cache_bytes: pool << 20,
            }),
            Command::Memory { pool } => Box::new(Memory {
                rows: rows_of(*pool, 4.0),
                cache_bytes: pool << 20,
            }),
            Command::MemoryOf { task } => return Ok(Task::MemoryOf(serde_json::from_str(task)?)),
        };
        Ok(Task::Compare(experiment))
    }
}
