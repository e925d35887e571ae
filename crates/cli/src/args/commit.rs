//! `iolane bench commit`.

use clap::Args;

use super::choices::{IoMode, Switch, SyncMethod};
use super::common::TransferArgs;
use super::list::{self, List, Progression};
use super::size;

const THREADS_MAX: u64 = 1024;
const RECORD_SIZE_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, Args)]
pub struct CommitArgs {
    /// Numbers of committing threads, 1 to 1024, one run each
    #[arg(long, value_name = "LIST", default_value = "1,8", value_parser = threads)]
    pub threads: List,
    /// Size of the log record of one transaction, 1 byte to 1 MiB
    #[arg(long, value_name = "SIZE", default_value = "512", value_parser = record_size)]
    pub record_size: u64,
    /// How records are made durable, one run each
    ///
    /// The log is written in whole blocks: of the device's alignment (512 bytes at least) with
    /// direct I/O, of 4 KiB through the page cache. The last block is written again by the next
    /// commit, as InnoDB and PostgreSQL do.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "o_dsync,fdatasync,none",
        value_name = "LIST"
    )]
    pub methods: Vec<SyncMethod>,
    /// Past the page cache and through it, one run each
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "direct,buffered",
        value_name = "LIST"
    )]
    pub io: Vec<IoMode>,
    /// Whether one sync may serve several threads, one run each
    ///
    /// Off: each commit has the log alone until its own sync has ended. No commit waits for others
    /// in either case: a group is what gathers while the sync before it runs.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "on,off",
        value_name = "LIST"
    )]
    pub group_commit: Vec<Switch>,
    #[command(flatten)]
    pub shared: TransferArgs,
}

fn threads(text: &str) -> Result<List, String> {
    list::parse(text, Progression::Doubling, |count| {
        list::number_within(count, 1, THREADS_MAX)
    })
}

fn record_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, 1, RECORD_SIZE_MAX)
}
