//! What can go wrong with a store, with its remedy.

use std::io;

use iolane_store::access::PagesError;
use iolane_store::data::TableSchema;
use iolane_store::log::LogError;
use iolane_store::{Error, Store, StoreError};

use crate::error::Failure;

const CHECK: &str = "iolane store check DIR says what is damaged. A backup or a dump brings it back; \
     iolane store dump DIR --skip-damaged prints what is left.";

const DAMAGED_TABLE: &str = "iolane store check DIR names the damaged tables; iolane store dump DIR --skip-damaged prints all \
     others, and iolane store drop DIR TABLE drops one, so that it can be made and loaded again.";

/// Names of tables that are told when there is none of a name: a store may have thousands.
const NAMES_TOLD: usize = 20;

/// An error of a store.
pub fn failure(error: &Error) -> Failure {
    match error {
        Error::Files(error) => files(error),
        Error::Pages(error) => pages(error),
        Error::UnknownTable(_) => Failure::usage(
            error.to_string(),
            "iolane store stats DIR lists the tables.",
        ),
        Error::UnknownIndex { .. } => Failure::usage(
            error.to_string(),
            "iolane store stats DIR lists the indexes; without --index the primary key is meant.",
        ),
        Error::Schema(_) | Error::KeyLength { .. } => Failure::usage(
            error.to_string(),
            "iolane store stats DIR lists the tables with their columns.",
        ),
        Error::TableExists(_) => Failure::setup(
            error.to_string(),
            "Give the table another name, or make it in another store.",
        ),
        Error::NotEmpty(_) => {
            Failure::setup(error.to_string(), "Add rows with --method transactions.")
        }
        Error::Duplicate { .. } => {
            Failure::course(error.to_string(), "Give each row a key of its own.")
        }
        Error::TooLarge { .. } => Failure::course(
            error.to_string(),
            "Shorten it; a store with larger pages takes longer keys (iolane store create --page-size).",
        ),
        Error::DamagedCatalogue(_) => Failure::setup(
            error.to_string(),
            "Put back what is missing, or bring the store back from a backup or a dump.",
        ),
        Error::DamagedTable { .. } | Error::Unfinished { .. } => {
            Failure::course(error.to_string(), DAMAGED_TABLE)
        }
        Error::DamagedRow { .. } | Error::Overflow(_) | Error::Tree(_) => {
            Failure::course(error.to_string(), CHECK)
        }
        other => Failure::course(other.to_string(), "Try again."),
    }
}

fn files(error: &StoreError) -> Failure {
    let remedy = match error {
        StoreError::Locked { .. } => {
            "End the program that has it open; a program can copy its own store with Store::backup."
        }
        StoreError::Exists { .. } => {
            "Name another directory; create --add adds tables to a store that is there."
        }
        StoreError::Foreign { .. } | StoreError::OtherStore { .. } => {
            "Check the path; if files were lost or replaced, bring the store back from a backup."
        }
        StoreError::Version { .. } => "Use the version of iolane that wrote it.",
        StoreError::Log { source, .. } => match source {
            LogError::Version { .. } => "Use the version of iolane that wrote it.",
            LogError::Capacity { .. } | LogError::TooLarge { .. } => "Give another --log-size.",
            LogError::Failed { .. } => "See the kernel's messages (dmesg), then open it again.",
            LogError::Foreign | LogError::Truncated { .. } => {
                "Bring the store back from a backup: changes since the last checkpoint are in this file."
            }
        },
        StoreError::Open(
            iolane::OpenError::Open { source, .. } | iolane::OpenError::Size { source, .. },
        )
        | StoreError::System { source, .. } => system_remedy(source),
        StoreError::Open(_) => "Put the store on ext4 or xfs.",
        StoreError::Option(_) | StoreError::Name { .. } => {
            return Failure::usage(error.to_string(), "See --help for the options.");
        }
        StoreError::Pool(_) => {
            return Failure::usage(error.to_string(), "Give another --pool-size.");
        }
        StoreError::NoAtomicWrites { .. } => {
            "Give --torn-pages doublewrite, or auto, which chooses what the files allow."
        }
        StoreError::Pages(error) => return pages(error),
        StoreError::Io(_) => {
            return Failure::course(
                error.to_string(),
                "See the kernel's messages (dmesg) for what the device said.",
            );
        }
        _ => "The files contradict each other: bring the store back from a backup.",
    };
    Failure::setup(error.to_string(), remedy)
}

fn system_remedy(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            "A store needs a directory and files that you may write to, also to be read: opening it may have to \
             repeat what the log tells."
        }
        Some(libc::ENOSPC | libc::EDQUOT) => "Free some space, or take another file system.",
        Some(libc::ENOENT) => {
            "A file of the store is missing: check the path, or bring the store back from a backup."
        }
        Some(libc::ENOTDIR | libc::EEXIST) => {
            "Name a directory, or a path that does not exist yet."
        }
        _ => "Check the path.",
    }
}

fn pages(error: &PagesError) -> Failure {
    let remedy = match error {
        PagesError::Unreadable { .. } => CHECK,
        PagesError::NoSpace { .. } => {
            "Free some space on the store's file system; nothing that was committed is lost."
        }
        PagesError::Failed { .. } => {
            "See the kernel's messages (dmesg), then open it again; nothing that was committed is lost."
        }
    };
    Failure::course(error.to_string(), remedy)
}

/// The table of a name.
///
/// # Errors
/// There is none, and says which there are; or it is damaged.
pub fn find_table(store: &Store, name: &str) -> Result<TableSchema, Failure> {
    match store.table(name) {
        Err(Error::UnknownTable(_)) => {}
        found => return found.map_err(|error| failure(&error)),
    }
    let names = store.table_names();
    let told = names[..names.len().min(NAMES_TOLD)].join(", ");
    let remedy = match names.len().saturating_sub(NAMES_TOLD) {
        0 if names.is_empty() => {
            "The store has no tables; iolane store create --add makes one.".to_owned()
        }
        0 => format!("Its tables: {told}."),
        more => format!("Its tables: {told} and {more} more."),
    };
    Err(Failure::usage(
        format!("there is no table {name:?}"),
        remedy,
    ))
}
