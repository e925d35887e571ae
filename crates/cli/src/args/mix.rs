//! `iolane bench mix`.

use std::time::Duration;

use clap::Args;
use iolane_sched::Objective;

use super::choices::{Operation, Pattern, Policy};
use super::common::{CarrierArgs, TransferArgs, block_size, block_sizes, depth, depths};
use super::list::{self, List, Progression};
use super::needs::Need;
use super::{duration, rate};

const SHARED: &str = "a load of which a share has high priority: --outstanding";
const OUTSTANDING_TOO: &str = "Give --outstanding and --high-share with it, or leave it out for a foreground and a background.";

/// Options of a mode that another option chooses.
pub const NEEDS: &[Need] = &[
    Need {
        option: "--outstanding",
        beside: "--high-share",
        mode: "a load of which a share has high priority, which --high-share says",
        remedy: "Give --high-share with it, such as --high-share 10,50,90; the depth of a foreground and a background is \
                 --foreground-depth and --background-depth.",
    },
    Need {
        option: "--high-share",
        beside: "--outstanding",
        mode: SHARED,
        remedy: OUTSTANDING_TOO,
    },
    Need {
        option: "--operation",
        beside: "--outstanding",
        mode: SHARED,
        remedy: "Without it, --foreground-operation and --background-operation say what is done; with it, \
                 --high-share is needed too.",
    },
    Need {
        option: "--block-size",
        beside: "--outstanding",
        mode: SHARED,
        remedy: "Without it, --foreground-block-size and --background-block-size say how large requests are; with it, \
                 --high-share is needed too.",
    },
    Need {
        option: "--kernel-schedulers",
        beside: "--allow-scheduler-change",
        mode: "who may change the disk's I/O scheduler, which affects everything that uses the disk",
        remedy: "Give --allow-scheduler-change with it; the present scheduler is restored at the end.",
    },
];

/// Priority levels, each with a deadline.
pub const LEVELS: usize = 5;

#[derive(Clone, Debug, Args)]
// Longer than elsewhere: windows are learned, and tails are compared.
#[command(
    mut_arg("runtime", |runtime| runtime.default_value("10s")),
    mut_arg("warm_up", |warm_up| warm_up.default_value("2s"))
)]
pub struct MixArgs {
    /// Foreground requests outstanding at once: each is followed by the next (closed loop)
    #[arg(long, value_name = "N", default_value = "1", value_parser = depth, help_heading = "Foreground", conflicts_with = "foreground_rate")]
    pub foreground_depth: u64,
    /// Foreground requests per second, such as 500/s (open loop)
    ///
    /// They arrive whether or not earlier ones are done, and latency counts from the intended
    /// start, so that a stall is seen by every request that it delays.
    #[arg(long, value_name = "RATE", value_parser = rate::parse, help_heading = "Foreground")]
    pub foreground_rate: Option<f64>,
    /// Size of each foreground request, 512 bytes to 64 MiB
    #[arg(long, value_name = "SIZE", default_value = "16k", value_parser = block_size, help_heading = "Foreground")]
    pub foreground_block_size: u64,
    #[arg(
        long,
        value_enum,
        default_value = "read",
        value_name = "OPERATION",
        help_heading = "Foreground",
        help = "Read or write"
    )]
    pub foreground_operation: Operation,
    #[arg(
        long,
        value_enum,
        default_value = "random",
        value_name = "PATTERN",
        help_heading = "Foreground",
        help = "Order of the offsets"
    )]
    pub foreground_pattern: Pattern,

    /// Background requests outstanding, 1 to 16384
    #[arg(long, value_name = "N", default_value = "128", value_parser = depth, help_heading = "Background")]
    pub background_depth: u64,
    /// Sizes of background requests; of a list, each request takes one at random
    #[arg(long, value_name = "LIST", default_value = "16k", value_parser = block_sizes, help_heading = "Background")]
    pub background_block_size: List,
    #[arg(
        long,
        value_enum,
        default_value = "read",
        value_name = "OPERATION",
        help_heading = "Background",
        help = "Read or write"
    )]
    pub background_operation: Operation,
    #[arg(
        long,
        value_enum,
        default_value = "random",
        value_name = "PATTERN",
        help_heading = "Background",
        help = "Order of the offsets"
    )]
    pub background_pattern: Pattern,

    /// One load of N requests outstanding, of which a share has high priority
    ///
    /// Instead of a foreground and a background. Needs --high-share.
    #[arg(long, value_name = "N", value_parser = depth, help_heading = "Shared load",
        conflicts_with_all = ["foreground_depth", "foreground_rate", "foreground_block_size", "foreground_operation",
            "foreground_pattern", "background_depth", "background_block_size", "background_operation", "background_pattern"])]
    pub outstanding: Option<u64>,
    /// Share of high priority in percent, 1 to 99, one run each: 10,20,..,90
    #[arg(long, value_name = "LIST", value_parser = shares, help_heading = "Shared load")]
    pub high_share: Option<List>,
    /// Read or write
    #[arg(
        long,
        value_enum,
        default_value = "read",
        value_name = "OPERATION",
        help_heading = "Shared load"
    )]
    pub operation: Operation,
    /// Size of each request, 512 bytes to 64 MiB
    #[arg(long, value_name = "SIZE", default_value = "16k", value_parser = block_size, help_heading = "Shared load")]
    pub block_size: u64,

    /// iolane's policies, one run each
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "noop,deadline,prio-deadline,lanes",
        value_name = "LIST",
        help_heading = "Scheduling"
    )]
    pub policies: Vec<Policy>,
    /// What the window of lanes is to reach: elasticity=E, slowdown=X or latency=TIME
    ///
    /// elasticity=0.3, the default: one percent less of the foreground's latency is worth 0.3 %
    /// of the background's throughput, and 1 % where it is ten times as long as the least that
    /// was seen. slowdown=2: the most throughput with which the latency
    /// is at most twice what the foreground has alone. latency=5ms: with which it is at most
    /// 5 ms. Both as far as the device can; the latency is the root of its mean square.
    #[arg(long, value_name = "OBJECTIVE", help_heading = "Scheduling")]
    pub objective: Option<Objective>,
    /// Also one run for each of these fixed windows: the curve that hand-tuning reaches
    ///
    /// A window is how many requests may be in the device at once: 1 to 16384, such as 1..128.
    #[arg(long, value_name = "LIST", value_parser = depths, help_heading = "Scheduling")]
    pub windows: Option<List>,
    /// Also two runs for each of these kernel schedulers, without and with I/O priorities; or all
    ///
    /// With them, the foreground is in the real-time class and the background in the idle class
    /// (shown as NAME+ioprio). Needs root and --allow-scheduler-change. The present scheduler is restored at the end.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Scheduling"
    )]
    pub kernel_schedulers: Option<Vec<String>>,
    /// Allow changing the disk's I/O scheduler while measuring: affects everything that uses the disk
    #[arg(long, help_heading = "Scheduling")]
    pub allow_scheduler_change: bool,
    /// Deadlines of the five priority levels, highest first, such as 250ms,1s,3s,6s,12s
    /// [default: a multiple of the measured service time]
    #[arg(long, value_name = "TIMES", value_parser = deadlines, help_heading = "Scheduling")]
    pub deadlines: Option<Deadlines>,
    /// Most requests queued per priority level (its allocation group) [default: no limit but the load's]
    #[arg(long, value_name = "N", value_parser = depth, help_heading = "Scheduling")]
    pub group_limit: Option<u64>,

    #[command(flatten)]
    pub carrier: CarrierArgs,
    #[command(flatten)]
    pub shared: TransferArgs,
}

fn shares(text: &str) -> Result<List, String> {
    list::parse(text, Progression::Steps, |share| {
        list::number_within(share, 1, 99)
    })
}

/// One deadline per level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines(pub [Duration; LEVELS]);

fn deadlines(text: &str) -> Result<Deadlines, String> {
    let times: Vec<Duration> = text
        .split(',')
        .map(duration::parse_positive)
        .collect::<Result<_, _>>()?;
    let count = times.len();
    let times: [Duration; LEVELS] = times
        .try_into()
        .map_err(|_| format!("{count} deadlines given, {LEVELS} are needed, one per level"))?;
    // A level that waits longer than the one below it would have the lower priority.
    if times.is_sorted() {
        Ok(Deadlines(times))
    } else {
        Err("deadlines must not get shorter towards the lower levels".to_owned())
    }
}
