//! `iolane demo`.

use std::path::PathBuf;

use clap::Args;
use iolane_sched::Objective;

use super::choices::{Backend, DemoServer};
use super::common::{CourseArgs, OutputArgs};
use super::store_bench::table_size;

#[derive(Clone, Debug, Args)]
#[command(
    mut_arg("runtime", |runtime| runtime.default_value("5s")),
    mut_arg("warm_up", |warm_up| warm_up.default_value("1s")),
    mut_arg("report", |report| report.default_value("iolane-demo.html"))
)]
pub struct DemoArgs {
    /// Directory for the store, on the disk to measure; the store is removed at the end [default: the current one]
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    pub directory: Option<PathBuf>,
    /// Short runs on small tables, about 20 seconds in all, without a server if none is named: shows that it works, not what it gains
    #[arg(long, conflicts_with_all = ["size", "runtime", "warm_up"])]
    pub quick: bool,
    /// Approximate size of each table, at least 1 MiB; the buffer pool is an eighth of it, at least 2 MiB
    ///
    /// The table on the modelled volume, its log and a backup of it are kept in memory.
    #[arg(long, value_name = "SIZE", default_value = "128m", value_parser = table_size, help_heading = "Target")]
    pub size: u64,
    /// Whether a server that is installed is shown first, MariaDB or PostgreSQL: a scratch server, removed at the end
    ///
    /// As root, its files lie on the modelled volume, otherwise on the disk to measure.
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        value_name = "SERVER",
        help_heading = "Target"
    )]
    pub server: DemoServer,
    /// What the window is to reach with iolane: elasticity=E, slowdown=X or latency=TIME, as
    /// iolane bench mix --help explains [default: elasticity=0.3]
    #[arg(long, value_name = "OBJECTIVE")]
    pub objective: Option<Objective>,
    /// What carries requests to the kernel
    #[arg(long, value_enum, default_value = "auto", value_name = "BACKEND")]
    pub backend: Backend,
    #[command(flatten)]
    pub course: CourseArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
