//! Options with a fixed set of values.

use clap::ValueEnum;
use serde::Serialize;

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Read,
    Write,
}

/// Order of the offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    Random,
    Sequential,
}

/// Past the page cache, or through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IoMode {
    /// O_DIRECT: what the disk does
    Direct,
    /// Through the kernel's page cache
    Buffered,
}

impl IoMode {
    pub fn is_direct(self) -> bool {
        self == Self::Direct
    }
}

/// What carries requests to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// The best that this machine allows
    Auto,
    #[value(name = "io_uring")]
    #[serde(rename = "io_uring")]
    IoUring,
    LinuxAio,
    /// A pool of threads with pread and pwrite
    Threads,
}

/// The database server of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DemoServer {
    /// MariaDB where it is installed, otherwise PostgreSQL where that is
    Auto,
    /// MariaDB
    #[value(name = "mariadb")]
    MariaDb,
    /// PostgreSQL
    #[value(name = "postgresql")]
    PostgreSql,
    /// None: the embedded store alone
    None,
}

/// iolane's scheduling policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// First come, first served: what a database without priorities gets
    Noop,
    /// As Linux 2.6: reads before writes, sorted, with expiry
    Deadline,
    /// A deadline by priority level
    PrioDeadline,
    /// iolane's default: levels share a learned window
    Lanes,
}

/// How an appended log record is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SyncMethod {
    /// Opened with O_DSYNC: each write is durable when it returns
    #[value(name = "o_dsync")]
    ODsync,
    Fdatasync,
    Fsync,
    /// Not durable: shows what the sync costs
    None,
}

/// For a list of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    On,
    Off,
}

/// The name that the user types for a value, also for tables.
pub fn name<T: ValueEnum>(value: T) -> String {
    value
        .to_possible_value()
        .map(|value| value.get_name().to_owned())
        .unwrap_or_default()
}
