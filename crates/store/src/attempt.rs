//! Starting over when a page is missing.

use crate::access::{MiniTransaction, Miss, Pages, PagesError};
use crate::ids::{Lsn, SegmentId};

/// Makes changes in a mini-transaction that may allocate up to `new_pages`
/// pages in each of `segments`. `change` latches everything before its first
/// change; where a page is missing, it is loaded and `change` is called again.
/// Returns what it returned, and up to where the log must be durable.
pub(crate) fn in_mini<'p, P: Pages, T>(
    pages: &'p P,
    segments: &[SegmentId],
    new_pages: u32,
    mut change: impl FnMut(&mut P::Mini<'p>) -> Result<T, Miss>,
) -> Result<(T, Lsn), PagesError> {
    loop {
        let mut mini = pages.begin(segments, new_pages)?;
        let miss = match change(&mut mini) {
            Ok(done) => return Ok((done, mini.commit())),
            Err(miss) => miss,
        };
        drop(mini);
        pages.load(miss)?;
    }
}

/// Why an attempt that must not wait has not ended.
#[derive(Clone, Debug)]
pub enum Interrupt<E> {
    /// A page must be loaded first; then try again.
    Miss(Miss),
    /// It cannot be done.
    Error(E),
}

impl<E> From<Miss> for Interrupt<E> {
    fn from(miss: Miss) -> Interrupt<E> {
        Interrupt::Miss(miss)
    }
}

impl<E: From<PagesError>> From<PagesError> for Interrupt<E> {
    fn from(error: PagesError) -> Interrupt<E> {
        Interrupt::Error(error.into())
    }
}

/// Repeats an attempt, which holds no latch when it ends, until no page is
/// missing.
pub(crate) fn until_done<P: Pages, T, E: From<PagesError>>(
    pages: &P,
    mut attempt: impl FnMut() -> Result<T, Interrupt<E>>,
) -> Result<T, E> {
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(Interrupt::Miss(miss)) => pages.load(miss)?,
            Err(Interrupt::Error(error)) => return Err(error),
        }
    }
}

/// Calls `read`, which latches pages, until none is missing.
pub(crate) fn until_loaded<P: Pages, T>(
    pages: &P,
    mut read: impl FnMut() -> Result<T, Miss>,
) -> Result<T, PagesError> {
    until_done(pages, || Ok(read()?))
}
