//! `iolane bench batch`.

use clap::Args;

use super::choices::{Backend, Operation, Pattern, Switch};
use super::common::{DEPTH_MAX, IoArgs, TransferArgs, block_sizes};
use super::list::{self, List, Progression};

/// Most requests in one submission.
const BATCH_MAX: u64 = 4096;

#[derive(Clone, Debug, Args)]
pub struct BatchArgs {
    /// Requests handed over per submission, 1 to 4096, one run each
    ///
    /// A list: 1,32,..1024 doubles (1,32,64,128,..,1024).
    #[arg(long, value_name = "LIST", default_value = "1,32..1024", value_parser = batch_sizes)]
    pub batch_sizes: List,
    /// Requests kept outstanding, 0 to 16384: each time they fall to this, a batch follows
    ///
    /// With 0, a batch follows when the one before has ended, so that each is a submission of
    /// its own also for the kernel; otherwise the engine gathers what comes while it is busy.
    /// Fewer if blocks are large: buffers take at most 1 GiB and a quarter of the free memory.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = pending)]
    pub pending: u64,
    /// Sizes of requests, 512 bytes to 64 MiB, one run each
    #[arg(long, value_name = "LIST", default_value = "2k,4k,16k,1m", value_parser = block_sizes)]
    pub block_sizes: List,
    /// What carries requests to the kernel, one run each
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "io_uring,linux-aio,threads",
        value_name = "LIST"
    )]
    pub backends: Vec<Backend>,
    /// Read or write; writing to an existing file needs --destructive
    #[arg(long, value_enum, default_value = "read", value_name = "OPERATION")]
    pub operation: Operation,
    /// Order of the offsets
    #[arg(long, value_enum, default_value = "random", value_name = "PATTERN")]
    pub pattern: Pattern,
    /// Whether neighbours become one transfer, one run each; off shows the cost per request
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "off",
        value_name = "LIST"
    )]
    pub merging: Vec<Switch>,
    #[command(flatten)]
    pub io: IoArgs,
    #[command(flatten)]
    pub shared: TransferArgs,
}

fn pending(text: &str) -> Result<u64, String> {
    list::number_within(text, 0, DEPTH_MAX)
}

fn batch_sizes(text: &str) -> Result<List, String> {
    const { assert!(BATCH_MAX <= DEPTH_MAX) };
    list::parse(text, Progression::Doubling, |size| {
        list::number_within(size, 1, BATCH_MAX)
    })
}
