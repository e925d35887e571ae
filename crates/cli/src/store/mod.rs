//! `iolane store`: tables in files, without writing code.
//!
//! | file | subject |
//! |---|---|
//! | `open` | opening a store that is there |
//! | `create`, `table_text` | making one; tables as text |
//! | `load`, `dump`, `restore` | rows in, everything out, everything in again |
//! | `drop` | taking tables away |
//! | `scan` | rows out: `scan`, `range` |
//! | `upkeep` | `check`, `stats`, `backup` |
//! | `value`, `rows_in`, `quotes`, `rows_out` | values and rows as text |
//! | `failure` | what can go wrong, with its remedy |

pub mod create;
pub mod drop;
pub mod dump;
pub mod failure;
pub mod load;
mod open;
mod quotes;
mod restore;
mod rows_in;
mod rows_out;
pub mod scan;
mod table_text;
pub mod upkeep;
mod value;
