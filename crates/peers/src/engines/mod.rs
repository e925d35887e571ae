//! The engines, each behind the same few operations, each used as its own
//! documentation says that it is used best.

mod innodb;
mod iolane;
mod lmdb;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sqlite;

use crate::rows::{Row, Rows};
use crate::stop::Stop;
use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// An engine.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// iolane-store.
    Iolane,
    /// MariaDB's InnoDB, in a server of its own, over a Unix socket.
    Innodb,
    /// SQLite in WAL mode.
    Sqlite,
    /// RocksDB, as the system has it.
    Rocksdb,
    /// LMDB.
    Lmdb,
    /// redb.
    Redb,
}

impl Kind {
    /// All of them; iolane is the one that the others are compared with.
    pub const ALL: [Kind; 6] = [
        Kind::Iolane,
        Kind::Innodb,
        Kind::Sqlite,
        Kind::Rocksdb,
        Kind::Lmdb,
        Kind::Redb,
    ];

    /// Name in tables, documents and options.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Iolane => "iolane",
            Kind::Innodb => "innodb",
            Kind::Sqlite => "sqlite",
            Kind::Rocksdb => "rocksdb",
            Kind::Lmdb => "lmdb",
            Kind::Redb => "redb",
        }
    }
}

/// How a database is made and opened.
#[derive(Clone)]
pub struct Settings {
    /// Its directory. If there is a database, that is opened.
    pub directory: PathBuf,
    /// Memory for its pages, where the engine has a say in that.
    pub cache_bytes: u64,
    /// Size of its redo log, where that is set.
    pub log_bytes: u64,
    /// Is there a secondary index?
    pub indexed: bool,
    /// Past the page cache, where the engine can do that.
    pub direct: bool,
    /// Does a commit wait for the disk? Not while tables are prepared.
    pub durable: bool,
    /// Where servers are registered, so that a signal ends them.
    pub stop: Stop,
}

/// How much was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Rows.
    pub rows: u64,
    /// Bytes of values.
    pub bytes: u64,
}

impl Seen {
    /// Takes note of a value. Both its ends are looked at, so that an engine
    /// that hands out a reference has touched what it refers to.
    fn add(&mut self, value: &[u8]) {
        self.rows += 1;
        std::hint::black_box((value.first(), value.last()));
        self.bytes += value.len() as u64;
    }
}

/// An open database with one table. Dropping it closes it.
pub trait Database: Sync {
    /// What one thread works with.
    fn session(&self) -> Result<Box<dyn Session + '_>>;

    /// Whatever [`load`](Self::load) needs and is not part of loading.
    fn prepare_load(&self, _rows: &Rows) -> Result<()> {
        Ok(())
    }

    /// Fills the empty table in the order of the key, in the fastest way that
    /// the engine has. All is durable when it returns.
    fn load(&self, rows: &Rows) -> Result<()>;

    /// The process whose memory it takes.
    fn process(&self) -> u32 {
        std::process::id()
    }

    /// Ends it, and says when something went wrong.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Operations of one thread.
pub trait Session {
    /// Inserts rows in one transaction, durable as the settings say.
    fn insert(&mut self, rows: &[Row<'_>]) -> Result<()>;

    /// Changes the values of rows in one transaction. Rows come in the order of
    /// their keys.
    fn update(&mut self, rows: &[Row<'_>]) -> Result<()>;

    /// Reads rows by key in one transaction.
    fn get(&mut self, keys: &[u64]) -> Result<Seen>;

    /// Reads the whole table in the order of the key.
    fn scan(&mut self) -> Result<Seen>;

    /// The same for somebody who can wait, where an engine makes a difference.
    fn scan_behind(&mut self) -> Result<Seen> {
        self.scan()
    }

    /// Reads the rows whose second key is `count` numbers from `from` on.
    fn range(&mut self, from: u64, count: u64) -> Result<Seen>;
}

/// Opens a database, or makes it if there is none.
///
/// # Errors
/// The engine cannot be had, or says no.
pub fn open(kind: Kind, settings: &Settings) -> Result<Box<dyn Database>> {
    std::fs::create_dir_all(&settings.directory)?;
    Ok(match kind {
        Kind::Iolane => Box::new(iolane::Iolane::open(settings)?),
        Kind::Innodb => Box::new(innodb::Innodb::open(settings)?),
        Kind::Sqlite => Box::new(sqlite::Sqlite::open(settings)?),
        #[cfg(feature = "rocksdb")]
        Kind::Rocksdb => Box::new(rocksdb::RocksDb::open(settings)?),
        #[cfg(not(feature = "rocksdb"))]
        Kind::Rocksdb => anyhow::bail!(
            "this program was built without it: apt-get install librocksdb-dev, and make peers again"
        ),
        Kind::Lmdb => Box::new(lmdb::Lmdb::open(settings)?),
        Kind::Redb => Box::new(redb::Redb::open(settings)?),
    })
}
