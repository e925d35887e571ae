//! Starting over when a page is missing.

use crate::access::{MiniTransaction, Miss, Pages, PagesError};
use crate::ids::{Lsn, SegmentId};

/// An operation that has loaded so many pages and still misses one asks for
/// frames first. Few frames can be freed then, as most hold changes that nobody
/// writes because nobody waits: what it loads pushes out what it has loaded.
const LOADS_MAX: u32 = 64;

/// Loads what one operation misses.
#[derive(Default)]
pub(crate) struct Loads {
    count: u32,
}

impl Loads {
    /// Loads a page, as [`Pages::load`], after which the operation is tried
    /// again.
    pub(crate) fn load<P: Pages>(&mut self, pages: &P, miss: Miss) -> Result<(), PagesError> {
        self.count += 1;
        if self.count.is_multiple_of(LOADS_MAX) {
            pages.make_room()?;
        }
        pages.load(miss)
    }
}

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
    let mut loads = Loads::default();
    loop {
        let mut mini = pages.begin(segments, new_pages)?;
        let miss = match change(&mut mini) {
            Ok(done) => return Ok((done, mini.commit())),
            Err(miss) => miss,
        };
        drop(mini);
        loads.load(pages, miss)?;
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
    let mut loads = Loads::default();
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(Interrupt::Miss(miss)) => loads.load(pages, miss)?,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::memory::{MemoryMini, MemoryShared};
    use crate::ids::PageId;
    use parking_lot::Mutex;

    /// Pages of which two never are in memory at once.
    #[derive(Default)]
    struct Crowded {
        loads: Mutex<u32>,
        rooms: Mutex<Vec<u32>>,
    }

    impl Pages for Crowded {
        type Shared<'a> = MemoryShared<'a>;
        type Mini<'a> = MemoryMini<'a>;

        fn page_bytes(&self) -> usize {
            4096
        }

        fn shared(&self, id: PageId) -> Result<MemoryShared<'_>, Miss> {
            Err(Miss(id))
        }

        fn load(&self, _miss: Miss) -> Result<(), PagesError> {
            *self.loads.lock() += 1;
            Ok(())
        }

        fn make_room(&self) -> Result<(), PagesError> {
            let loads = *self.loads.lock();
            self.rooms.lock().push(loads);
            Ok(())
        }

        fn begin(&self, _: &[SegmentId], _: u32) -> Result<MemoryMini<'_>, PagesError> {
            unreachable!("nobody changes anything")
        }
    }

    #[test]
    fn who_loads_again_and_again_asks_for_room() {
        let pages = Crowded::default();
        let until = |loads: u32| {
            until_done(&pages, || match *pages.loads.lock() {
                count if count < loads => Err(Miss(PageId::new(1, 2)).into()),
                _ => Ok::<(), Interrupt<PagesError>>(()),
            })
        };
        until(LOADS_MAX - 1).unwrap();
        assert!(pages.rooms.lock().is_empty());
        // Of each operation anew.
        until(4 * LOADS_MAX).unwrap();
        let first = 2 * LOADS_MAX - 2;
        let expected = [first, first + LOADS_MAX, first + 2 * LOADS_MAX];
        assert_eq!(*pages.rooms.lock(), expected);
    }
}
