//! `iolane run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::size;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    User,
    Kernel,
    Auto,
}

/// What is read ahead of a program that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReadAhead {
    /// Nothing
    Off,
    /// Leaves of an index that is scanned
    Logical,
}

/// All scans that the library follows (16) at their longest distance (64 pages), with pages of 16 KiB.
const READ_AHEAD_BYTES: u64 = 16 << 20;

/// Room for the longest distance of a scan, and what a server has left over.
fn read_ahead_memory(text: &str) -> Result<u64, String> {
    size::parse_within(text, 2 << 20, 256 << 20)
}

/// What goes behind the options is the command's, options of its own too.
const USAGE: &str = "iolane run [OPTIONS] -- COMMAND [ARGUMENT]...
       iolane run [--read-ahead logical] [--library FILE] --print-unit NAME";

#[derive(Clone, Debug, Args)]
#[command(override_usage = USAGE)]
pub struct RunArgs {
    /// Rules that ship with iolane, by the database's name; auto goes by the command, and takes
    /// generic, which names no files, where that is not known
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub profile: String,
    /// How: through a preloaded library (user), by the kernel's I/O priorities (kernel), or
    /// the first where the library can enter the program (auto)
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    pub mode: Mode,
    /// Rules in TOML, which come before those of the profile (docs/run.md)
    #[arg(long, value_name = "FILE")]
    pub rules: Option<PathBuf>,
    /// Read ahead: not at all, or the leaves of InnoDB's indexes in the order of their keys
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ReadAhead::Off)]
    pub read_ahead: ReadAhead,
    /// Memory of each process for what is read ahead, 2 MiB to 256 MiB [default: 16m]
    #[arg(long, value_name = "SIZE", value_parser = read_ahead_memory)]
    pub read_ahead_memory: Option<u64>,
    /// Where the report goes: as JSON if the name ends in .json, as a page if in .html,
    /// otherwise as text
    /// [default: standard error]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// List the calls that were caught, and how many of them were scheduled
    #[arg(long)]
    pub check: bool,
    /// The library to preload [default: libiolane_interpose.so beside this program or in
    /// ../lib/iolane]
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Print what makes systemd start an installed server under iolane run: mariadb,
    /// mysql or postgresql
    #[arg(long, value_name = "NAME", conflicts_with_all = ["command", "profile", "rules", "report", "check", "mode"])]
    pub print_unit: Option<String>,
    /// The program and its arguments
    #[arg(
        required_unless_present = "print_unit",
        trailing_var_arg = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

impl RunArgs {
    /// Memory of each process for logical read-ahead, if it is asked for.
    pub fn read_ahead_bytes(&self) -> Option<u64> {
        let bytes = self.read_ahead_memory.unwrap_or(READ_AHEAD_BYTES);
        (self.read_ahead == ReadAhead::Logical).then_some(bytes)
    }
}
