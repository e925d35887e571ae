//! `iolane bench sweep`.

use clap::Args;

use super::choices::{Operation, Pattern};
use super::common::{CarrierArgs, TransferArgs, block_size, depths};
use super::list::List;
use super::size;

#[derive(Clone, Debug, Args)]
pub struct SweepArgs {
    /// Numbers of requests outstanding, one run each
    ///
    /// 1 to 16384. A list: 1,2,4..16 doubles (1,2,4,8,16), 1..200+1 takes one more each time.
    #[arg(long, value_name = "LIST", default_value = "1..256", value_parser = depths)]
    pub depths: List,
    /// Read or write; writing to an existing file needs --destructive
    #[arg(long, value_enum, default_value = "read", value_name = "OPERATION")]
    pub operation: Operation,
    /// Order of the offsets
    #[arg(long, value_enum, default_value = "random", value_name = "PATTERN")]
    pub pattern: Pattern,
    /// Size of each request, 512 bytes to 64 MiB (4k = 4096, 4kB = 4000)
    #[arg(long, value_name = "SIZE", default_value = "16k", value_parser = block_size)]
    pub block_size: u64,
    /// Read into (or write from) this much memory in turn, as a buffer pool does [default: as much as
    /// the outstanding requests need, which may stay in the processor's cache]
    #[arg(long, value_name = "SIZE", value_parser = memory_size)]
    pub memory: Option<u64>,
    #[command(flatten)]
    pub carrier: CarrierArgs,
    #[command(flatten)]
    pub shared: TransferArgs,
}

fn memory_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, 4 << 10, 16 << 30)
}
