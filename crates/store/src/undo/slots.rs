//! Slots: who owns which, and how records come into them.

use super::record::{Body, Record};
use super::stream::{Place, read_header};
use super::{ACTIVE_AT, HEAD_AT, LAST_AT, NEXT_AT};
use crate::access::{MiniTransaction, Miss, Pages, PagesError};
use crate::attempt::in_mini;
use crate::ids::{PageId, SegmentId};
use crate::master::Master;
use crate::page::Op;
use crate::page::header::{BODY, PageKind};
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
    /// Bytes of the stream that the owner's records take.
    pub(crate) bytes: u64,
    /// Records that the owner has made and not [paid](crate::txn) for.
    pub(crate) unpaid: u64,
}

/// Room for more records: what is left of a page, and of pages to come.
pub(crate) struct Room {
    left: usize,
    new_pages: u32,
    page_bytes: usize,
}

impl Room {
    /// Takes room for a record of so many bytes behind those before it. `false`
    /// if there is none.
    pub(crate) fn take(&mut self, bytes: usize) -> bool {
        // A page is never filled to its last byte: of 64 KiB, the offset behind
        // it has 17 bits.
        if bytes >= self.left {
            if self.new_pages == 0 {
                return false;
            }
            self.new_pages -= 1;
            self.left = self.page_bytes - BODY;
            debug_assert!(bytes < self.left, "no record is longer than a page");
        }
        self.left -= bytes;
        true
    }
}

/// Records that a mini-transaction appends to a slot. It has latched what
/// [`Slot::latch`] says, and reserved the pages that they need.
pub(crate) struct Appending<'s> {
    slot: &'s Slot,
    segment: SegmentId,
    /// Encoded and not yet in their page, where they begin here.
    bytes: Vec<u8>,
    begin: Place,
    /// Where the next one goes.
    tail: Place,
    last: RollPointer,
    stream_bytes: u64,
    records: u64,
}

/// What was appended; [`Slot::appended`] takes note of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    tail: Place,
    last: RollPointer,
    stream_bytes: u64,
    records: u64,
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

    /// Where records take so many new pages from. To look for the segment costs much
    /// of a small change: it is not named where none is taken.
    pub(crate) fn segments(&self, new_pages: u32) -> &[SegmentId] {
        match new_pages {
            0 => &[],
            _ => std::slice::from_ref(&self.segment),
        }
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
            bytes: 0,
            unpaid: 0,
        })
    }

    /// A slot for a transaction that writes. `None`: the caller is to
    /// [make](Self::create) one.
    ///
    /// # Errors
    /// After `patience`: the number of slots, all of which are owned.
    pub(crate) fn acquire(&self, patience: Duration) -> Result<Option<Slot>, u32> {
        let mut until = None;
        let mut state = self.state.lock();
        loop {
            if let Some(slot) = state.free.pop() {
                return Ok(Some(slot));
            }
            if state.count < self.slots_max {
                state.count += 1;
                return Ok(None);
            }
            // Mostly nobody waits, and the clock is not asked.
            let until = *until.get_or_insert_with(|| Instant::now() + patience);
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
    pub(crate) fn give_back(&self, mut slot: Slot) {
        debug_assert!(slot.last.is_none());
        debug_assert_eq!(slot.bytes, 0, "purge was told");
        slot.unpaid = 0;
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
                bytes: 0,
                unpaid: 0,
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

    /// Room for records in its last page and `new_pages` new ones.
    pub(crate) fn room(&self, new_pages: u32, page_bytes: usize) -> Room {
        Room {
            left: page_bytes - usize::from(self.tail.offset),
            new_pages,
            page_bytes,
        }
    }

    /// How many new pages a record of so many bytes needs.
    pub(crate) fn new_pages(&self, bytes: usize, page_bytes: usize) -> u32 {
        (!self.room(0, page_bytes).take(bytes)).into()
    }

    /// Latches what an append changes. Nobody else changes the page of records;
    /// purge changes the header.
    pub(crate) fn latch(&self, mini: &mut impl MiniTransaction) -> Result<(), Miss> {
        mini.exclusive(PageId::new(self.header.space, self.tail.page))?;
        mini.exclusive(self.header)
    }

    /// Begins to append records. New pages are of `segment`.
    pub(crate) fn append(&self, segment: SegmentId) -> Appending<'_> {
        Appending {
            slot: self,
            segment,
            bytes: Vec::new(),
            begin: self.tail,
            tail: self.tail,
            last: self.last,
            stream_bytes: 0,
            records: 0,
        }
    }

    /// Notes what was appended.
    pub(crate) fn appended(&mut self, appended: Appended) {
        self.tail = appended.tail;
        self.last = appended.last;
        self.bytes += appended.stream_bytes;
        self.unpaid += appended.records;
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

impl Appending<'_> {
    /// Appends a record of transaction `trx`. Returns where it is.
    pub(crate) fn push(
        &mut self,
        mini: &mut impl MiniTransaction,
        trx: u64,
        body: Body<'_>,
    ) -> RollPointer {
        let record = Record::new(trx, self.last, body);
        let bytes = body.record_bytes();
        let page_bytes = mini.page(self.page()).len();
        if usize::from(self.tail.offset) + bytes >= page_bytes {
            self.turn(mini);
        }
        record.encode(&mut self.bytes);
        self.last = self.tail.pointer();
        self.tail.offset += bytes as u16;
        self.stream_bytes += bytes as u64;
        self.records += 1;
        self.last
    }

    /// Says in the header where the records end, and that they are of the
    /// transaction `active`, or with 0 that it has ended with the last of them.
    pub(crate) fn finish(mut self, mini: &mut impl MiniTransaction, active: u64) -> Appended {
        self.write(mini);
        let last = if active == 0 {
            RollPointer::NONE
        } else {
            self.last
        };
        let mut says = [0; (HEAD_AT - ACTIVE_AT) as usize];
        says[..8].copy_from_slice(&active.to_le_bytes());
        says[8..16].copy_from_slice(&last.0.to_le_bytes());
        says[16..].copy_from_slice(&self.tail.encode());
        let (offset, bytes) = (ACTIVE_AT, &says[..]);
        mini.apply(self.slot.header, &Op::Patch { offset, bytes });
        Appended {
            tail: self.tail,
            last,
            stream_bytes: self.stream_bytes,
            records: self.records,
        }
    }

    fn page(&self) -> PageId {
        PageId::new(self.slot.header.space, self.tail.page)
    }

    /// Writes what has gathered to its page.
    fn write(&mut self, mini: &mut impl MiniTransaction) {
        if self.bytes.is_empty() {
            return;
        }
        let (offset, bytes) = (self.begin.offset, &self.bytes[..]);
        mini.apply(self.page(), &Op::Patch { offset, bytes });
        self.bytes.clear();
    }

    /// Goes on in a new page.
    fn turn(&mut self, mini: &mut impl MiniTransaction) {
        self.write(mini);
        let old = self.page();
        let new = mini.allocate(self.segment, Some(old));
        mini.apply(
            new,
            &Op::Format {
                kind: PageKind::Undo,
                level: 0,
                owner: self.slot.number.into(),
            },
        );
        mini.apply(
            old,
            &Op::Patch {
                offset: NEXT_AT,
                bytes: &new.page.to_le_bytes(),
            },
        );
        let begin = Place::begin_of(new.page);
        self.stream_bytes += self.tail.bytes_to(begin, mini.page(old).len());
        self.tail = begin;
        self.begin = begin;
    }
}
