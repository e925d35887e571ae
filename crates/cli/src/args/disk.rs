//! `iolane disk`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;

use super::choices::Operation;
use super::common::{OutputArgs, target_size};
use super::{duration, list};

/// Which disk, everywhere in `iolane disk`.
#[derive(Clone, Debug, Args)]
pub struct ModelArgs {
    /// The disk: a preset (see iolane disk list), or a TOML file that describes one
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// Seed of the model's random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

#[derive(Clone, Debug, Args)]
pub struct ListArgs {}

#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    /// The disk: a preset (see iolane disk list), or a TOML file that describes one
    #[arg(value_name = "MODEL")]
    pub model: String,
}

/// By how much answers go out before the model's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadChoice {
    /// By as much as the transport takes, measured at the start.
    Auto,
    /// By so much.
    Fixed(Duration),
}

fn lead(text: &str) -> Result<LeadChoice, String> {
    match text {
        "auto" => Ok(LeadChoice::Auto),
        "0" => Ok(LeadChoice::Fixed(Duration::ZERO)),
        _ => match duration::parse(text) {
            Ok(lead) if lead <= Duration::from_millis(10) => Ok(LeadChoice::Fixed(lead)),
            Ok(_) => Err("at most 10ms: no transport takes longer".to_owned()),
            Err(error) => Err(format!("{error}; or auto")),
        },
    }
}

#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("transport").args(["mount", "nbd"]).required(true).multiple(true))]
pub struct ServeArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// File with the disk's data; created, sparse, if missing
    #[arg(long, value_name = "FILE")]
    pub backing: PathBuf,
    /// Empty directory on which the disk appears as a file, for a loop device
    #[arg(long, value_name = "DIR")]
    pub mount: Option<PathBuf>,
    /// Unix socket on which the disk answers the NBD protocol; created
    #[arg(long, value_name = "SOCKET")]
    pub nbd: Option<PathBuf>,
    /// Serve only this much of the disk, from its start [default: all of it]
    #[arg(long, value_name = "SIZE", value_parser = target_size)]
    pub size: Option<u64>,
    /// Send answers this much before the model's time, to make up for the time that requests and answers
    /// spend on the way: auto measures it, 0 switches it off
    #[arg(long, value_name = "TIME", default_value = "auto", value_parser = lead)]
    pub lead: LeadChoice,
    /// Let flushes wait until the backing file is durable on this machine
    ///
    /// Without it, what was written survives the end of the server but not that of the machine,
    /// and a flush takes as long as the model says; with it, at least as long as the disk below.
    #[arg(long)]
    pub durable: bool,
    /// Faults to inject, such as eio=1e-4,torn=4k:1e-3,seed=7
    ///
    /// Faults with :power-cut, such as lost=0.5:power-cut, show when the power is cut: when the
    /// server ends, or by iolane disk cut. docs/disks.md lists all.
    #[arg(long, value_name = "SPEC")]
    pub faults: Option<String>,
}

#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("served").args(["mount", "socket"]).required(true))]
pub struct CutArgs {
    /// Directory on which the disk is mounted: the --mount of iolane disk serve
    #[arg(long, value_name = "DIR")]
    pub mount: Option<PathBuf>,
    /// Socket on which the disk answers: the --nbd of iolane disk serve
    #[arg(long, value_name = "SOCKET")]
    pub socket: Option<PathBuf>,
}

/// Ways to a served disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A loop device on the file in the mounted directory: needs root
    Loop,
    /// The NBD protocol on a Unix socket
    Nbd,
}

#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub model: ModelArgs,
    /// Ways to the disk [default: all that this machine allows]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    pub transports: Option<Vec<Transport>>,
    /// Loads of this many requests per second, at random moments
    /// [default: three, up to 5000 or 80 % of what the model can do]
    #[arg(long, value_name = "LIST", value_parser = rates)]
    pub rates: Option<list::List>,
    /// Loads with this many requests outstanding; those above 5000 requests/s are measured, but not judged
    #[arg(long, value_name = "LIST", default_value = "1,4,16", value_parser = super::common::depths)]
    pub depths: list::List,
    /// How long each load is measured, such as 2s or 500ms
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse_positive)]
    pub runtime: Duration,
    /// Read or write
    #[arg(long, value_enum, default_value = "read", value_name = "OPERATION")]
    pub operation: Operation,
    /// Size of each request
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = block_size)]
    pub block_size: u64,
    /// Use only this much of the disk, from its start [default: all of it, up to 64 GiB]
    #[arg(long, value_name = "SIZE", value_parser = target_size)]
    pub size: Option<u64>,
    /// Directory for the backing file, which is removed at the end [default: that of the system]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// As for iolane disk serve
    #[arg(long, value_name = "TIME", default_value = "auto", value_parser = lead)]
    pub lead: LeadChoice,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// As a disk is asked for at once through any of the ways.
fn block_size(text: &str) -> Result<u64, String> {
    super::size::parse_within(text, 512, 1 << 20)
}

fn rates(text: &str) -> Result<list::List, String> {
    list::parse(text, list::Progression::Doubling, |rate| {
        list::number_within(rate, 1, 100_000)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_is_measured_or_given() {
        assert_eq!(lead("auto"), Ok(LeadChoice::Auto));
        assert_eq!(lead("0"), Ok(LeadChoice::Fixed(Duration::ZERO)));
        assert_eq!(
            lead("40us"),
            Ok(LeadChoice::Fixed(Duration::from_micros(40)))
        );
        assert!(lead("1s").is_err());
        assert!(lead("soon").is_err());
    }
}
