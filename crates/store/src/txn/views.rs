//! Who sees what: numbers of transactions, and the views of those that read.
//!
//! A transaction gets its number with its first change, and a commit number
//! when it commits. It is invisible until it is taken off the list of active
//! ones, which is when its commit is as durable as was asked. A view is what
//! that list was at one moment.

use crate::access::{Pages, PagesError};
use crate::master::Master;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Numbers that are reserved in the master page at a time.
const NUMBERS_RESERVED: u64 = 1024;

/// Which transactions had committed at one moment.
#[derive(Debug)]
pub(crate) struct View {
    /// How many were made before it.
    age: u64,
    /// Numbers from here on were not given yet.
    next: u64,
    /// Those that had not ended, ascending.
    active: Box<[u64]>,
    /// Whoever has a commit number below had ended.
    pub(crate) ended_below: u64,
}

impl View {
    /// Whether the changes of `trx` belong to it.
    pub(crate) fn sees(&self, trx: u64) -> bool {
        trx < self.next && self.active.binary_search(&trx).is_err()
    }
}

struct State {
    next: u64,
    /// Numbers below it may be given.
    reserved: u64,
    active: BTreeSet<u64>,
    /// Commit numbers of transactions that are still active.
    committing: BTreeSet<u64>,
    /// The open views in the order of their age. Each sees all that the ones
    /// before it see.
    open: BTreeMap<(u64, u64), Arc<View>>,
    opened: u64,
    /// Different views that there were.
    made: u64,
    /// What a view opened now is, until something changes.
    current: Option<Arc<View>>,
}

/// Numbers and views of a store.
pub(crate) struct Views {
    state: Mutex<State>,
    /// Held while numbers are reserved, which may wait for I/O.
    reserving: Mutex<()>,
    master: Master,
}

/// An open view. What it sees is not purged.
pub(crate) struct OpenView<'a> {
    views: &'a Views,
    place: (u64, u64),
    pub(crate) view: Arc<View>,
}

impl Drop for OpenView<'_> {
    fn drop(&mut self) {
        self.views.state.lock().open.remove(&self.place);
    }
}

impl State {
    fn current(&mut self) -> Arc<View> {
        let current = self.current.get_or_insert_with(|| {
            let ended_below = self.committing.first().copied().unwrap_or(self.next);
            self.made += 1;
            Arc::new(View {
                age: self.made,
                next: self.next,
                active: self.active.iter().copied().collect(),
                ended_below,
            })
        });
        Arc::clone(current)
    }
}

impl Views {
    /// All numbers below `numbers` may have been given, and those of `active`
    /// belong to transactions that have not ended.
    pub(crate) fn new(
        master: Master,
        numbers: u64,
        active: impl IntoIterator<Item = u64>,
    ) -> Views {
        Views {
            state: Mutex::new(State {
                next: numbers,
                reserved: numbers,
                active: active.into_iter().collect(),
                committing: BTreeSet::new(),
                open: BTreeMap::new(),
                opened: 0,
                made: 0,
                current: None,
            }),
            reserving: Mutex::new(()),
            master,
        }
    }

    /// Takes a number, and calls `with` before anyone can take the next.
    fn take<P: Pages>(&self, pages: &P, with: impl Fn(&mut State, u64)) -> Result<u64, PagesError> {
        loop {
            {
                let mut state = self.state.lock();
                if state.next < state.reserved {
                    let number = state.next;
                    state.next += 1;
                    state.current = None;
                    with(&mut state, number);
                    return Ok(number);
                }
            }
            let _one_at_a_time = self.reserving.lock();
            let reserved = self.state.lock().reserved;
            if self.state.lock().next == reserved {
                let more = reserved + NUMBERS_RESERVED;
                self.master.reserve_numbers(pages, more)?;
                self.state.lock().reserved = more;
            }
        }
    }

    /// A number that nobody else has, for a table or an index.
    pub(crate) fn number<P: Pages>(&self, pages: &P) -> Result<u64, PagesError> {
        self.take(pages, |_, _| {})
    }

    /// The number of a transaction that begins to write.
    pub(crate) fn begin_writing<P: Pages>(&self, pages: &P) -> Result<u64, PagesError> {
        self.take(pages, |state, number| {
            state.active.insert(number);
        })
    }

    /// The commit number of a transaction that is about to end. To be followed
    /// by [`end`](Self::end) or [`does_not_end`](Self::does_not_end).
    pub(crate) fn begin_ending<P: Pages>(&self, pages: &P) -> Result<u64, PagesError> {
        self.take(pages, |state, number| {
            state.committing.insert(number);
        })
    }

    /// The transaction has ended: whoever opens a view from now on sees it.
    pub(crate) fn end(&self, trx: u64, number: u64) {
        let mut state = self.state.lock();
        state.active.remove(&trx);
        state.committing.remove(&number);
        state.current = None;
    }

    /// A commit number is not used after all.
    pub(crate) fn does_not_end(&self, number: u64) {
        let mut state = self.state.lock();
        state.committing.remove(&number);
        state.current = None;
    }

    /// Opens a view of now.
    pub(crate) fn open(&self) -> OpenView<'_> {
        let mut state = self.state.lock();
        let view = state.current();
        self.register(&mut state, view)
    }

    /// Opens the oldest view that is open, or one of now. What it does not see,
    /// somebody may still not see; what it sees, all see.
    pub(crate) fn open_oldest(&self) -> OpenView<'_> {
        let mut state = self.state.lock();
        let oldest = state
            .open
            .first_key_value()
            .map(|(_, view)| Arc::clone(view));
        let view = oldest.unwrap_or_else(|| state.current());
        self.register(&mut state, view)
    }

    fn register(&self, state: &mut State, view: Arc<View>) -> OpenView<'_> {
        state.opened += 1;
        let place = (view.age, state.opened);
        state.open.insert(place, Arc::clone(&view));
        OpenView {
            views: self,
            place,
            view,
        }
    }

    /// Transactions that write and have not ended.
    pub(crate) fn active(&self) -> usize {
        self.state.lock().active.len()
    }

    /// Views that are open.
    pub(crate) fn open_count(&self) -> usize {
        self.state.lock().open.len()
    }
}
