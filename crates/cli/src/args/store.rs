//! `iolane store`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use serde::Serialize;

use super::common::OutputFormat;
use super::{list, size};

/// Which store, for all that open one.
#[derive(Clone, Debug, Args)]
pub struct OpenArgs {
    /// Directory of the store
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Buffer pool of the store
    #[arg(long, value_name = "SIZE", default_value = "128m", value_parser = pool_size)]
    pub pool_size: u64,
    /// How pages are kept from being torn when the power fails while they are written
    #[arg(long, value_enum, default_value = "auto", value_name = "HOW")]
    pub torn_pages: TornPagesChoice,
}

/// How pages are kept from being torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TornPagesChoice {
    /// By atomic writes if every file takes them; otherwise by copies
    Auto,
    /// By copies in the doublewrite area
    Doublewrite,
    /// By atomic writes; where a file does not take them, the store is not opened (Linux 6.11)
    Atomic,
}

/// For commands that end with a summary.
#[derive(Clone, Debug, Args)]
pub struct SummaryArgs {
    /// What is written to standard output
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output_format: OutputFormat,
}

const CREATE_TABLES: &str = "A table as text: name(column type [null], ..., primary key(column, ...), \
index name(column, ...), unique index name(column, ...)). Types: integer (64 bits), real (64 bits), text (UTF-8), \
blob (any bytes). A column holds no null unless it says so. Example:\n\n  iolane store create people \
--table \"person(id integer, name text, email text null, primary key(id), unique index by_email(email))\"";

#[derive(Clone, Debug, Args)]
#[command(after_help = CREATE_TABLES)]
pub struct CreateArgs {
    #[command(flatten)]
    pub open: OpenArgs,
    /// A table to create; may be given several times
    #[arg(long = "table", value_name = "TABLE")]
    pub tables: Vec<String>,
    /// JSON file with a table to create, or a list of tables; may be given several times
    #[arg(long = "schema", value_name = "FILE.json")]
    pub schemas: Vec<PathBuf>,
    /// Add the tables to an existing store
    #[arg(long, conflicts_with_all = ["page_size", "log_size"])]
    pub add: bool,
    /// Size of a page, a power of two from 4 to 64 KiB [default: 16k]
    #[arg(long, value_name = "SIZE", value_parser = page_size)]
    pub page_size: Option<u64>,
    /// Size of the redo log, a multiple of 4 KiB, at least 2600k with pages of 16 KiB and about in
    /// proportion with others; a longer one lets more changes pass between checkpoints, and makes
    /// recovery take longer [default: 64m]
    #[arg(long, value_name = "SIZE", value_parser = log_size)]
    pub log_size: Option<u64>,
    #[command(flatten)]
    pub summary: SummaryArgs,
}

/// How rows are written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// A header with the columns' names, then a line per row
    Csv,
    /// A JSON object per row and line
    Jsonl,
}

/// What is done with a row that cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// End, and print the line
    Stop,
    /// Print the line, leave it out, go on
    Skip,
}

/// How rows get into a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadMethod {
    /// In bulk into an empty table, unless bad rows are skipped; otherwise in transactions
    Auto,
    /// Page by page into an empty table: all rows or none
    Bulk,
    /// Some rows at a time
    Transactions,
}

/// How values are written, for help texts.
macro_rules! text_rules {
    () => {
        "Values as text:
  integer, real  digits, such as -12 or 1.5e3; inf and -inf are reals
  blob           0x and two hexadecimal digits per byte, such as 0x00ff; 0x alone is the empty blob
  null           in CSV \\N, or an empty field where the column is no text; in JSON null
  empty text     in CSV an empty field, in JSON \"\"
In CSV, a text of backslashes and one N gets one backslash more in front: \\\\N is the text \\N."
    };
}

const TEXT_RULES: &str = text_rules!();

const LOAD_HELP: &str = concat!(
    text_rules!(),
    "\n\nThe first line of a CSV file names the columns, in any order. Columns that it does not name, and \
those that a JSON object does not have, become null.\n\n\
In bulk, an error or Ctrl-C leaves the table empty. In transactions, all rows before it stay; \
of an error of the store, such as a full disk, the transactions before it."
);

#[derive(Clone, Debug, Args)]
#[command(after_help = LOAD_HELP)]
pub struct LoadArgs {
    #[command(flatten)]
    pub open: OpenArgs,
    /// Table that the rows go into
    #[arg(value_name = "TABLE", required_unless_present = "dump")]
    pub table: Option<String>,
    /// File with the rows [default: standard input]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Load what iolane store dump wrote into this file (-: standard input), with its tables,
    /// which must be missing or empty
    #[arg(long, value_name = "FILE", conflicts_with_all = ["table", "file", "format", "on_error", "method", "null", "transaction_rows"])]
    pub dump: Option<PathBuf>,
    /// Format of the rows [default: jsonl if FILE ends in .jsonl, .ndjson or .json, otherwise csv]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<RowFormat>,
    /// What is done with a row that cannot be loaded
    #[arg(long, value_enum, default_value = "stop", value_name = "WHAT")]
    pub on_error: OnError,
    /// How rows get into the table
    #[arg(long, value_enum, default_value = "auto", value_name = "METHOD")]
    pub method: LoadMethod,
    /// Rows per transaction
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = transaction_rows)]
    pub transaction_rows: u64,
    /// Another CSV field that means null; --null "" makes all empty fields null. Not for JSON lines
    #[arg(long, value_name = "TEXT")]
    pub null: Option<String>,
    #[command(flatten)]
    pub summary: SummaryArgs,
}

/// How rows are printed.
#[derive(Clone, Debug, Args)]
pub struct PrintArgs {
    /// Print at most this many rows
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// The last row first
    #[arg(long)]
    pub reverse: bool,
    /// Print these columns, in this order [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub columns: Option<Vec<String>>,
    /// How rows are written
    #[arg(long, value_enum, default_value = "csv", value_name = "FORMAT")]
    pub format: RowFormat,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = TEXT_RULES)]
pub struct ScanArgs {
    #[command(flatten)]
    pub open: OpenArgs,
    /// Table to print
    #[arg(value_name = "TABLE")]
    pub table: String,
    #[command(flatten)]
    pub print: PrintArgs,
}

const RANGE_HELP: &str = concat!(
    "A key is the values of the key's columns as one line of CSV: 7 or 7,Anna. Fewer values than \
columns mean all rows that begin with them: --from 7 --to 7 prints those whose first column is 7.\n\n",
    text_rules!()
);

#[derive(Clone, Debug, Args)]
#[command(after_help = RANGE_HELP)]
#[command(group = ArgGroup::new("lower").args(["from", "after"]))]
#[command(group = ArgGroup::new("upper").args(["to", "before"]))]
pub struct RangeArgs {
    #[command(flatten)]
    pub open: OpenArgs,
    /// Table to print
    #[arg(value_name = "TABLE")]
    pub table: String,
    /// Index by whose key rows are chosen and ordered [default: the primary key]
    #[arg(long, value_name = "NAME")]
    pub index: Option<String>,
    /// First key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub from: Option<String>,
    /// Last key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Only keys above this one
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub after: Option<String>,
    /// Only keys below this one
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub before: Option<String>,
    #[command(flatten)]
    pub print: PrintArgs,
}

#[derive(Clone, Debug, Args)]
#[command(after_help = "Exit code 3 when something is wrong; the first 1000 findings are listed.")]
pub struct CheckArgs {
    #[command(flatten)]
    pub open: OpenArgs,
    #[command(flatten)]
    pub summary: SummaryArgs,
}

#[derive(Clone, Debug, Args)]
pub struct StatsArgs {
    #[command(flatten)]
    pub open: OpenArgs,
    /// Count the rows of each table, which reads all of them
    #[arg(long)]
    pub rows: bool,
    #[command(flatten)]
    pub summary: SummaryArgs,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The store must not be open in another program; that program can copy it with Store::backup while it \
works. While the copy is made, it is in TARGET.part."
)]
pub struct BackupArgs {
    #[command(flatten)]
    pub open: OpenArgs,
    /// Directory of the copy; created
    #[arg(value_name = "TARGET")]
    pub target: PathBuf,
    #[command(flatten)]
    pub summary: SummaryArgs,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Damaged tables, which iolane store stats names, can be dropped too, and then created and loaded again. There is no \
confirmation: iolane store dump DIR TABLE keeps a copy."
)]
pub struct DropArgs {
    #[command(flatten)]
    pub open: OpenArgs,
    /// Tables to drop
    #[arg(value_name = "TABLE", required = true)]
    pub tables: Vec<String>,
    #[command(flatten)]
    pub summary: SummaryArgs,
}

#[derive(Clone, Debug, Args)]
#[command(
    after_help = "The dump is JSON lines: a header, then for each table its schema and its rows, then a trailer, so that a \
truncated dump is noticed. All tables are as they were at one moment. To load it again:\n\n  \
iolane store create NEW && iolane store load NEW --dump FILE"
)]
pub struct DumpArgs {
    #[command(flatten)]
    pub open: OpenArgs,
    /// Tables to dump [default: all]
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,
    /// Leave out damaged tables and rows on damaged pages, print which, and end with exit code 3; without it
    /// the dump ends at the first damage
    #[arg(long)]
    pub skip_damaged: bool,
}

fn pool_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, 1 << 20, 1 << 44)
}

fn page_size(text: &str) -> Result<u64, String> {
    let bytes = size::parse_within(text, 4 << 10, 64 << 10)?;
    if bytes.is_power_of_two() {
        return Ok(bytes);
    }
    Err(format!("{text} is no power of two"))
}

fn log_size(text: &str) -> Result<u64, String> {
    size::parse_within(text, 64 << 10, 1 << 40)
}

fn transaction_rows(text: &str) -> Result<u64, String> {
    list::number_within(text, 1, 1_000_000)
}
