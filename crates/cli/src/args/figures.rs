//! `iolane figures`.

use clap::Args;

use super::common::OutputArgs;

#[derive(Clone, Debug, Args)]
pub struct FiguresArgs {
    /// Which figures, as --list names them [default: all]
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Say which figures there are, and simulate nothing
    #[arg(long, conflicts_with = "names")]
    pub list: bool,
    /// Seed of all that is left to chance; the same seed gives the same figures
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Course")]
    pub seed: u64,
    #[command(flatten)]
    pub output: OutputArgs,
}
