//! Slots: who owns which, and how records come into them.

use super::stream::{Place, read_header};
use super::{ACTIVE_AT, HEAD_AT, LAST_AT, NEXT_AT};
use crate::access::{MiniTransaction, Miss, Pages, PagesError};
use crate::attempt::in_mini;
use crate::ids::{PageId, SegmentId};
use crate::master::Master;
use crate::page::Op;
use crate::page::header::PageKind;
use crate::txn::version::RollPointer;
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// A slot, in the hands of who owns it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) number: u32,
    pub(crate) header: PageId,
    /// Where the next record goes.
    tail: Place,
    /// The owner's last record that is not undone.
    pub(crate) last: RollPointer,
}

/// A record that was appended; [`Slot::appended`] takes note of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub(crate) pointer: RollPointer,
    tail: Place,
}

#[derive(Default)]
struct State {
    /// The one that was given back last is taken next: few slots are in use,
    /// and their pages stay in memory.
    free: Vec<Slot>,
    /// How many there are, free, owned or being made.
    count: u32,
}

/// All slots of a store.
pub(crate) struct Slots {
    master: Master,
    segment: SegmentId,
    slots_max: u32,
    state: Mutex<State>,
    given_back: Condvar,
}

impl Slots {
    /// No slots yet but those that [`adopt`](Self::adopt) brings.
    pub(crate) fn new(master: Master, segment: SegmentId, slots_max: u32) -> Slots {
        Slots {
            master,
            segment,
            slots_max,
            state: Mutex::default(),
            given_back: Condvar::new(),
        }
    }

    /// Tablespace of all undo pages.
    pub(crate) fn space(&self) -> u32 {
        self.segment.space
    }

    /// Segment of all undo pages.
    pub(crate) fn segment(&self) -> SegmentId {
        self.segment
    }

    /// Reads a slot that was there when the store was opened. The caller owns
    /// it.
    pub(crate) fn adopt<P: Pages>(
        &self,
        pages: &P,
        number: u32,
        header: PageId,
    ) -> Result<Slot, PagesError> {
        let says = read_header(pages, header)?;
        self.state.lock().count += 1;
        Ok(Slot {
            number,
            header,
            tail: says.tail,
            last: says.last,
        })
    }

    /// A slot for a transaction that writes. `None`: the caller is to
    /// [make](Self::create) one.
    ///
    /// # Errors
    /// After `patience`: the number of slots, all of which are owned.
    pub(crate) fn acquire(&self, patience: Duration) -> Result<Option<Slot>, u32> {
        let until = Instant::now() + patience;
        let mut state = self.state.lock();
        loop {
            if let Some(slot) = state.free.pop() {
                return Ok(Some(slot));
            }
            if state.count < self.slots_max {
                state.count += 1;
                return Ok(None);
            }
            if self.given_back.wait_until(&mut state, until).timed_out() {
                return Err(self.slots_max);
            }
        }
    }

    /// Makes the slot that [`acquire`](Self::acquire) has allowed.
    pub(crate) fn create<P: Pages>(&self, pages: &P) -> Result<Slot, PagesError> {
        let made = self.try_create(pages);
        if made.is_err() {
            self.state.lock().count -= 1;
            self.given_back.notify_one();
        }
        made
    }

    /// Takes a slot back.
    pub(crate) fn give_back(&self, slot: Slot) {
        debug_assert!(slot.last.is_none());
        self.state.lock().free.push(slot);
        self.given_back.notify_one();
    }

    /// Slots that a transaction owns now.
    pub(crate) fn owned(&self) -> u32 {
        let state = self.state.lock();
        state.count - state.free.len() as u32
    }

    fn try_create<P: Pages>(&self, pages: &P) -> Result<Slot, PagesError> {
        let (slot, _) = in_mini(pages, &[self.segment], 2, |mini| {
            mini.exclusive(self.master.page)?;
            let header = mini.allocate(self.segment, None);
            let first = mini.allocate(self.segment, Some(header));
            let number = self.master.add_slot(mini, header);
            for (id, kind) in [(header, PageKind::UndoSlot), (first, PageKind::Undo)] {
                let owner = number.into();
                let level = 0;
                mini.apply(id, &Op::Format { kind, level, owner });
            }
            let tail = Place::begin_of(first.page);
            let bytes = &[tail.encode(), tail.encode()].concat();
            let offset = LAST_AT + 8;
            mini.apply(header, &Op::Patch { offset, bytes });
            Ok(Slot {
                number,
                header,
                tail,
                last: RollPointer::NONE,
            })
        })?;
        Ok(slot)
    }
}

impl Slot {
    /// Where the next record goes.
    pub(crate) fn tail(&self) -> Place {
        self.tail
    }

    /// Whether a record of so many bytes needs a new page. A page is never
    /// filled to its last byte: of 64 KiB, the offset behind it has 17 bits.
    pub(crate) fn needs_page(&self, bytes: usize, page_bytes: usize) -> bool {
        usize::from(self.tail.offset) + bytes >= page_bytes
    }

    /// Latches what [`append`](Self::append) changes. Nobody else changes the
    /// page of records; purge changes the header.
    pub(crate) fn latch(&self, mini: &mut impl MiniTransaction) -> Result<(), Miss> {
        mini.exclusive(PageId::new(self.header.space, self.tail.page))?;
        mini.exclusive(self.header)
    }

    /// Appends a record of the transaction `active`, which is the last one for
    /// it, or with 0 the end of it. Everything is latched, and a page is
    /// reserved in `segment` if the record needs one.
    pub(crate) fn append(
        &self,
        mini: &mut impl MiniTransaction,
        segment: SegmentId,
        active: u64,
        record: &[u8],
    ) -> Appended {
        let old = PageId::new(self.header.space, self.tail.page);
        let mut at = self.tail;
        if self.needs_page(record.len(), mini.page(old).len()) {
            let new = mini.allocate(segment, Some(old));
            mini.apply(
                new,
                &Op::Format {
                    kind: PageKind::Undo,
                    level: 0,
                    owner: self.number.into(),
                },
            );
            mini.apply(
                old,
                &Op::Patch {
                    offset: NEXT_AT,
                    bytes: &new.page.to_le_bytes(),
                },
            );
            at = Place::begin_of(new.page);
        }
        mini.apply(
            PageId::new(self.header.space, at.page),
            &Op::Patch {
                offset: at.offset,
                bytes: record,
            },
        );
        let pointer = at.pointer();
        let tail = Place {
            page: at.page,
            offset: at.offset + record.len() as u16,
        };
        let last = if active == 0 {
            RollPointer::NONE
        } else {
            pointer
        };
        let mut says = Vec::with_capacity(usize::from(HEAD_AT - ACTIVE_AT));
        says.extend(active.to_le_bytes());
        says.extend(last.0.to_le_bytes());
        says.extend(tail.encode());
        mini.apply(
            self.header,
            &Op::Patch {
                offset: ACTIVE_AT,
                bytes: &says,
            },
        );
        Appended { pointer, tail }
    }

    /// Notes an appended record; `last` as in the header.
    pub(crate) fn appended(&mut self, appended: Appended, is_end: bool) {
        self.tail = appended.tail;
        self.last = if is_end {
            RollPointer::NONE
        } else {
            appended.pointer
        };
    }

    /// Says in the header, which is latched, that `previous` is the last record
    /// now that a later one is undone.
    pub(crate) fn step_back(&self, mini: &mut impl MiniTransaction, previous: RollPointer) {
        mini.apply(
            self.header,
            &Op::Patch {
                offset: LAST_AT,
                bytes: &previous.0.to_le_bytes(),
            },
        );
    }
}
