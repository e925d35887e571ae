//! Who sees what: numbers of transactions, and the views of those that read.
//!
//! A transaction gets its number with its first change, and a commit number
//! when it commits. It is invisible until it is taken off the list of active
//! ones, which is when its commit is as durable as was asked. A view is what
//! that list was at one moment.
//!
//! Threads that open views, one for each row that they read perhaps, must not
//! wait for each other: open views are noted in parts, each under a lock of its
//! own, and a thread stays with one of them. A part keeps a copy of the view of
//! now, with the count of changes at which it was made; it is good until the
//! next change. Whoever wants the oldest view takes the locks of all parts.
//!
//! Order of locks: parts by ascending place, then the state.

use crate::access::{Pages, PagesError};
use crate::master::Master;
use parking_lot::{Mutex, MutexGuard};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Numbers that are reserved in the master page at a time.
const NUMBERS_RESERVED: u64 = 1024;
/// Parts of the open views: more than threads that run at once on most
/// machines.
const PARTS: usize = 16;

/// The part of the next thread that has none.
static NEXT_PART: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Where this thread notes its views.
    static PART: Cell<usize> =
        Cell::new(NEXT_PART.fetch_add(1, Ordering::Relaxed) % PARTS);
}

/// Which transactions had committed at one moment.
#[derive(Clone, Debug)]
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
    /// No other view has it.
    pub(crate) fn age(&self) -> u64 {
        self.age
    }

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
    /// Different views that there were.
    made: u64,
    /// What a view opened now is, until something changes.
    current: Option<View>,
}

/// A view that is open.
struct Open {
    view: Arc<View>,
    /// How often.
    count: usize,
}

/// Views opened by some of the threads. On cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Part(Mutex<PartState>);

#[derive(Default)]
struct PartState {
    /// In the order of their age. Each sees all that the ones before it see.
    open: Vec<Open>,
    /// The last one, and the count of changes at which it was made.
    latest: Option<(u64, Arc<View>)>,
}

/// Numbers and views of a store.
pub(crate) struct Views {
    state: Mutex<State>,
    parts: [Part; PARTS],
    /// Changes of the state: raised under its lock, before it is let go.
    changes: AtomicU64,
    /// Held while numbers are reserved, which may wait for I/O.
    reserving: Mutex<()>,
    master: Master,
}

/// An open view. What it sees is not purged.
pub(crate) struct OpenView<'a> {
    views: &'a Views,
    part: usize,
    pub(crate) view: Arc<View>,
}

impl Drop for OpenView<'_> {
    fn drop(&mut self) {
        let mut part = self.views.parts[self.part].0.lock();
        part.close(self.view.age);
    }
}

impl PartState {
    fn place(&self, age: u64) -> Result<usize, usize> {
        self.open.binary_search_by_key(&age, |open| open.view.age)
    }

    fn note(&mut self, view: &Arc<View>) {
        match self.place(view.age) {
            Ok(at) => self.open[at].count += 1,
            Err(at) => {
                let (view, count) = (Arc::clone(view), 1);
                self.open.insert(at, Open { view, count });
            }
        }
    }

    fn close(&mut self, age: u64) {
        let at = self.place(age).expect("an open view is noted");
        self.open[at].count -= 1;
        if self.open[at].count == 0 {
            self.open.remove(at);
        }
    }
}

impl State {
    fn current(&mut self) -> View {
        let current = self.current.get_or_insert_with(|| {
            let ended_below = self.committing.first().copied().unwrap_or(self.next);
            self.made += 1;
            View {
                age: self.made,
                next: self.next,
                active: self.active.iter().copied().collect(),
                ended_below,
            }
        });
        current.clone()
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
                made: 0,
                current: None,
            }),
            parts: Default::default(),
            changes: AtomicU64::new(0),
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
                    with(&mut state, number);
                    self.changed(&mut state);
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
        self.changed(&mut state);
    }

    /// A commit number is not used after all.
    pub(crate) fn does_not_end(&self, number: u64) {
        let mut state = self.state.lock();
        state.committing.remove(&number);
        self.changed(&mut state);
    }

    /// Views opened from now on are others.
    fn changed(&self, state: &mut MutexGuard<'_, State>) {
        state.current = None;
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Opens a view of now.
    pub(crate) fn open(&self) -> OpenView<'_> {
        let number = PART.get();
        let mut part = self.parts[number].0.lock();
        let now = self.changes.load(Ordering::Acquire);
        let view = match &part.latest {
            Some((at, view)) if *at == now => Arc::clone(view),
            _ => {
                let mut state = self.state.lock();
                // Nobody counts on while the state is locked.
                let now = self.changes.load(Ordering::Acquire);
                let view = Arc::new(state.current());
                part.latest = Some((now, Arc::clone(&view)));
                view
            }
        };
        part.note(&view);
        OpenView {
            views: self,
            part: number,
            view,
        }
    }

    /// Opens the oldest view that is open, or one of now. What it does not see,
    /// somebody may still not see; what it sees, all see.
    pub(crate) fn open_oldest(&self) -> OpenView<'_> {
        let number = PART.get();
        // All of them: a view that is being opened is noted, or is not older
        // than one of now.
        let mut parts: Vec<_> = self.parts.iter().map(|part| part.0.lock()).collect();
        let open = parts.iter().filter_map(|part| part.open.first());
        let oldest = open.min_by_key(|open| open.view.age);
        let view = match oldest {
            Some(open) => Arc::clone(&open.view),
            None => Arc::new(self.state.lock().current()),
        };
        parts[number].note(&view);
        OpenView {
            views: self,
            part: number,
            view,
        }
    }

    /// Transactions that write and have not ended.
    pub(crate) fn active(&self) -> usize {
        self.state.lock().active.len()
    }

    /// Views that are open.
    pub(crate) fn open_count(&self) -> usize {
        let open = |part: &Part| {
            part.0
                .lock()
                .open
                .iter()
                .map(|open| open.count)
                .sum::<usize>()
        };
        self.parts.iter().map(open).sum()
    }
}
