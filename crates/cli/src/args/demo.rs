//! `iolane demo`.

use std::path::PathBuf;

use clap::Args;

use super::choices::Backend;
use super::common::{CourseArgs, IoArgs, OutputArgs, target_size};

#[derive(Clone, Debug, Args)]
#[command(
    mut_arg("runtime", |runtime| runtime.default_value("8s")),
    mut_arg("warm_up", |warm_up| warm_up.default_value("2s")),
    mut_arg("report", |report| report.default_value("iolane-demo.html"))
)]
pub struct DemoArgs {
    /// Directory, and so disk, for the scratch file, which is removed at the end [default: the current one]
    #[arg(long, value_name = "DIR", help_heading = "Target")]
    pub directory: Option<PathBuf>,
    /// Size of the scratch file, at least 1 MiB [default: 1 GiB]
    #[arg(long, value_name = "SIZE", value_parser = target_size, help_heading = "Target")]
    pub size: Option<u64>,
    #[command(flatten)]
    pub io: IoArgs,
    /// What carries requests to the kernel
    #[arg(long, value_enum, default_value = "auto", value_name = "BACKEND")]
    pub backend: Backend,
    #[command(flatten)]
    pub course: CourseArgs,
    #[command(flatten)]
    pub output: OutputArgs,
}
