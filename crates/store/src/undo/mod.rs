//! Undo: what a transaction's changes replaced, until nobody can see it.
//!
//! There is a bounded number of slots. Each is a header page and a chain of
//! pages with one stream of [records](record); a transaction that writes owns
//! one slot until it ends, so that the records of a transaction lie together,
//! one behind the other, and end with how it ended. [Purge](crate::txn) eats
//! the stream from its head.
//!
//! Nothing in a stream moves and nothing is taken back: a rollback marks
//! records as undone and ends with a record of its own. So a reader that came
//! by a roll pointer finds the record as long as its view is open.
//!
//! Header of a slot, behind the page's own:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 64 | 8 | the transaction that owns it, 0 if none |
//! | 72 | 8 | its last record that is not undone |
//! | 80 | 4 | page in which the next record goes |
//! | 84 | 4 | where in it |
//! | 88 | 4 | page with the first record that is not purged |
//! | 92 | 4 | where in it |
//!
//! A page of records has the number of the next one at 32.

pub(crate) mod record;
mod slots;
mod stream;

pub(crate) use slots::{Slot, Slots};
pub(crate) use stream::{PageCopy, Place, Step, read_header, read_record, step, tables_of};

/// Where in a page the number of the next one stands.
const NEXT_AT: u16 = 32;
const ACTIVE_AT: u16 = 64;
const LAST_AT: u16 = 72;
/// Where in a slot's header the place of the first record stands.
pub(crate) const HEAD_AT: u16 = 88;
