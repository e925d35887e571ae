//! `iolane demo`.

use std::path::PathBuf;

use clap::Args;

use super::choices::Backend;
use super::common::{CourseArgs, OutputArgs};
use super::store_bench::table_size;

#[derive(Clone, Debug, Args)]
#[command(
    mut_arg("runtime", |runtime| runtime.default_value("8s")),
    mut_arg("warm_up", |warm_up| warm_up.default_value("2s")),
    mut_arg("report", |report| report.default_value("iolane-demo.html"))
)]
pub struct DemoArgs {
    /// Directory, and so disk, for the store, which is removed at the end [default: the current one]
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    pub directory: Option<PathBuf>,
    /// Short runs on small tables, about 20 seconds in all: whether it works, not what is gained
    #[arg(long, conflicts_with_all = ["size", "runtime", "warm_up"])]
    pub quick: bool,
    /// Size of each table, about, at least 1 MiB; a store has an eighth of it as memory for pages, at least 2 MiB
    ///
    /// That on the modelled volume, its log and a backup of it are in memory.
    #[arg(long, value_name = "SIZE", default_value = "128m", value_parser = table_size, help_heading = "Target")]
    pub size: u64,
    /// What carries requests to the kernel
    #[arg(long, value_enum, default_value = "auto", value_name = "BACKEND")]
    pub backend: Backend,
    #[command(flatten)]
    pub course: CourseArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
