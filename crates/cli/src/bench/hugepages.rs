//! What the page size under a buffer cache is worth: row look-ups, page reads,
//! page tables, for every kind of pages that the machine can give.
//!
//! After Chen et al., "Linux Support for Large Databases on Itanium", OLS 2003,
//! section 3.3.

mod cache;
mod command;
mod facts;
mod lookups;
mod measure;
mod reads;
mod render;
mod reserve;
mod tables;

use std::io;
use std::path::PathBuf;

use iolane::arena::{ArenaError, BufferError, PageChoice};
use serde::Serialize;
use thiserror::Error;

pub use cache::CACHE_BYTES_MIN;
use cache::PAGE_BYTES;
pub use command::{Hugepages, HugepagesRequest, measure};
pub use measure::run;
pub use reads::ReadCost;
pub use render::{measured, name, per_process_bytes, skips};
pub use tables::ProcessTables;

pub use super::spread::Spread;

/// The cache is a whole number of these, so that pages of 2 MiB fit exactly.
const CACHE_UNIT_BYTES: u64 = 2 << 20;

/// Most repeats and child processes: each one costs time or a process.
pub const SAMPLES_MAX: u32 = 1000;
pub const PROCESSES_MAX: u32 = 256;

/// What to measure with.
#[derive(Clone, Debug, Serialize)]
pub struct HugepagesOptions {
    /// Size of the cache; at most half of the free memory is used.
    pub cache_bytes: u64,
    /// Look-ups in one sample.
    pub lookups: u64,
    /// Buffered reads in one sample.
    pub reads: u64,
    /// Direct reads in one sample.
    pub direct_reads: u64,
    /// Samples of each measurement; the spread comes from these. The kinds of
    /// pages take turns, so that a drift of the machine meets all of them.
    #[serde(rename = "samples")]
    pub repeats: u32,
    /// Child processes that share a cache.
    pub processes: u32,
    /// For the order of look-ups and reads, the same for every kind of pages.
    pub seed: u64,
    /// Where the scratch file for buffered reads stands.
    pub scratch_dir: PathBuf,
    /// Size of that file; kept in the page cache.
    pub scratch_bytes: u64,
    /// A file or device to read directly, never written to; no direct reads
    /// without it.
    pub direct_path: Option<PathBuf>,
    /// Whether huge-page settings of the kernel may be raised for the run;
    /// they are put back at its end. Needs root.
    pub reserve: bool,
}

impl Default for HugepagesOptions {
    fn default() -> Self {
        HugepagesOptions {
            cache_bytes: 1 << 30,
            lookups: 2_000_000,
            reads: 20_000,
            direct_reads: 2_000,
            repeats: 5,
            processes: 4,
            seed: 1,
            scratch_dir: std::env::temp_dir(),
            scratch_bytes: 256 << 20,
            direct_path: None,
            reserve: false,
        }
    }
}

/// A kind of pages under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pages {
    /// Base pages, 4 KiB on x86-64.
    Plain,
    /// Transparent huge pages.
    Transparent,
    /// hugetlb pages of 2 MiB.
    #[serde(rename = "huge_2mib")]
    Huge2MiB,
    /// hugetlb pages of 1 GiB.
    #[serde(rename = "huge_1gib")]
    Huge1GiB,
}

impl Pages {
    const ALL: [Pages; 4] = [
        Pages::Plain,
        Pages::Transparent,
        Pages::Huge2MiB,
        Pages::Huge1GiB,
    ];

    fn choice(self) -> PageChoice {
        match self {
            Pages::Plain => PageChoice::Plain,
            Pages::Transparent => PageChoice::Transparent,
            Pages::Huge2MiB => PageChoice::Huge2MiB,
            Pages::Huge1GiB => PageChoice::Huge1GiB,
        }
    }

    fn hugetlb_bytes(self) -> Option<u64> {
        match self {
            Pages::Plain | Pages::Transparent => None,
            Pages::Huge2MiB => Some(2 << 20),
            Pages::Huge1GiB => Some(1 << 30),
        }
    }

    fn round_up(self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.hugetlb_bytes().unwrap_or(CACHE_UNIT_BYTES))
    }
}

/// Why something was not measured, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Skip {
    /// What stood in the way.
    pub cause: String,
    /// What helps.
    pub remedy: String,
}

/// Everything measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HugepagesResult {
    /// Size of the cache used, which can be less than asked for.
    pub cache_bytes: u64,
    /// Size of the cache asked for.
    pub cache_asked_bytes: u64,
    /// Size of a database page.
    pub db_page_bytes: u64,
    /// The processor's base page.
    pub base_page_bytes: u64,
    /// Look-ups in one sample.
    pub lookups: u64,
    /// Samples asked for.
    #[serde(rename = "samples")]
    pub repeats: u32,
    /// Seed of the random order.
    pub seed: u64,
    /// One entry for each kind of pages, smallest pages first.
    pub kinds: Vec<KindResult>,
}

/// One kind of pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KindResult {
    /// Which.
    pub pages: Pages,
    /// What came of it.
    pub outcome: Outcome,
}

/// Measured, or not to be had.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The machine gave these pages.
    Measured(Box<Measured>),
    /// It did not.
    Skipped(Skip),
}

/// What one kind of pages is worth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// What the arena reports: kind, size, huge part.
    pub pages_got: String,
    /// Size of one page in bytes.
    pub page_bytes: u64,
    /// Bytes on huge pages, measured; `None` where that cannot be read.
    pub huge_bytes: Option<u64>,
    /// By how much mapping the cache grew this process's page tables; exact
    /// when no other thread maps memory meanwhile. With transparent huge pages the kernel keeps a table in store for each, in
    /// case it must split the page, and counts it.
    pub page_table_bytes: u64,
    /// CPU time of one row look-up.
    pub lookup_ns: Spread,
    /// Misses of the data TLB.
    pub dtlb: Dtlb,
    /// Reads from the page cache.
    pub buffered_read: ReadCost,
    /// Reads from the file or device given, past the page cache.
    pub direct_read: Option<ReadCost>,
    /// Page tables of processes that share a cache.
    pub process_tables: ProcessTables,
}

/// Misses of the data TLB, where they can be counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Dtlb {
    /// Counted by the processor.
    Measured {
        /// Loads that missed, per row look-up.
        misses_per_lookup: f64,
    },
    /// Not to be had.
    Skipped(Skip),
}

/// Why the measurement ended early.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HugepagesError {
    /// The stop flag was raised. Everything is as before.
    #[error("stopped before the end; kernel settings are as before")]
    Stopped,
    /// An option is out of its range.
    #[error("{option} is {value}, outside of {min}..={max}; choose a value in this range")]
    Option {
        /// Its name.
        option: &'static str,
        /// Its value.
        value: u64,
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// No room for the smallest cache.
    #[error(
        "a cache must be at least {CACHE_BYTES_MIN} bytes and at most half of the \
         {available_bytes} bytes of free memory; free some memory"
    )]
    NoRoom {
        /// Free memory.
        available_bytes: u64,
    },
    /// The arena failed for another reason than refused huge pages.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The cache did not fit the arena.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// A file could not be used.
    #[error("{what} {}: {source}; {remedy}", path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
        /// What helps.
        remedy: &'static str,
    },
    /// The file for direct reads does not hold one page.
    #[error(
        "{} holds {bytes} bytes, less than one page of {PAGE_BYTES}; name a larger file",
        path.display()
    )]
    DirectTooSmall {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// A file in `/proc` has not what every Linux should have there.
    #[error("{} has no field {name}; is /proc mounted as usual?", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field.
        name: &'static str,
    },
    /// A child process failed.
    #[error("a child process that shares the cache: {0}; check the limit on processes (ulimit -u)")]
    Child(io::Error),
}

#[cfg(test)]
mod tests;
