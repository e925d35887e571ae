//! Why a store cannot be made, opened or changed.

use crate::access::PagesError;
use crate::log::LogError;
use crate::page::{DecodeError, OpError};
use crate::pool::PoolError;
use std::io;
use std::path::{Path, PathBuf};

/// Why a store cannot be made, opened or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file cannot be opened.
    #[error(transparent)]
    Open(#[from] iolane::OpenError),
    /// A file cannot be read or written.
    #[error(transparent)]
    Io(#[from] iolane::Error),
    /// The system refused.
    #[error("{}: {source}", path.display())]
    System {
        /// What it was asked for.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The redo log.
    #[error("{}: {source}", path.display())]
    Log {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: LogError,
    },
    /// The buffer pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// Pages cannot be had.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// The file is something else, or its first page is damaged.
    #[error("{} is not a {what} of an iolane store, or its first page is damaged", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it should be.
        what: &'static str,
    },
    /// A newer program wrote it.
    #[error(
        "{} has format version {found}, this program knows {known}: use a newer one",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: u32,
        /// What this program writes.
        known: u32,
    },
    /// A tablespace's file is shorter than it says.
    #[error("{} has {bytes} bytes and should have {needed}: it was truncated", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The length in its header.
        needed: u64,
    },
    /// Files of two stores are mixed.
    #[error("{} belongs to another store", path.display())]
    OtherStore {
        /// The file.
        path: PathBuf,
    },
    /// Two files say that they are the same tablespace.
    #[error("{} says that it is tablespace {space}, and so does another file", path.display())]
    SpaceTwice {
        /// One of the files.
        path: PathBuf,
        /// The tablespace.
        space: u32,
    },
    /// It is open elsewhere.
    #[error("{} is open in another process, or in this one: close it there first", path.display())]
    Locked {
        /// Its directory.
        path: PathBuf,
    },
    /// There is something in its place already.
    #[error("{} exists already", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A name that no file can have.
    #[error(
        "{name:?} cannot be the name of a tablespace: letters, digits, '_', '-' and '.' (not first), at \
         most {bytes_max} bytes"
    )]
    Name {
        /// What was asked for.
        name: String,
        /// Longest name.
        bytes_max: usize,
    },
    /// No such tablespace.
    #[error("there is no tablespace {space}")]
    NoSpace {
        /// Its number.
        space: u32,
    },
    /// An option that cannot be.
    #[error("{0}")]
    Option(String),
    /// Pages were to be written as wholes.
    #[error(
        "pages cannot be written whole or not at all: {}: {reason}; let the doublewrite area keep \
         them from being torn",
        path.display()
    )]
    NoAtomicWrites {
        /// The file that cannot.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The log and a page contradict each other.
    #[error("redo at {lsn} of the log: {source}")]
    Redo {
        /// The record.
        lsn: u64,
        /// What does not fit.
        source: OpError,
    },
    /// A record that says nothing to this program.
    #[error("redo at {lsn} of the log: {source}")]
    Record {
        /// The record.
        lsn: u64,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// A descriptor page says what cannot be.
    #[error("{}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl StoreError {
    pub(crate) fn foreign(path: &Path, what: &'static str) -> StoreError {
        StoreError::Foreign {
            path: path.to_owned(),
            what,
        }
    }

    pub(crate) fn system(path: &Path, source: io::Error) -> StoreError {
        StoreError::System {
            path: path.to_owned(),
            source,
        }
    }
}
