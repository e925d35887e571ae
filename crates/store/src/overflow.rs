//! Values too long for their leaf, on pages of their own.
//!
//! What the row keeps is an [`OverflowRef`] of eight bytes. A value that fits
//! one page is that page; a longer one is a list of its pages, so that all of
//! them can be asked for at once, not one after the other as in a chain.
//!
//! A value is written before the row that refers to it, in mini-transactions of
//! its own, as it may be longer than the log. The first of them is the caller's
//! too: it notes the reference in the transaction's undo there, and every page
//! allocated later is entered in the list by the mini-transaction that
//! allocates it. So after a crash or an error half-way, rollback finds the
//! reference and [`free`](Overflow::free) finds every page: nothing leaks. A
//! value does not change once written; a new one takes its place, and purge
//! frees the old one when no snapshot can see it.

use crate::access::{MiniTransaction, Miss, Pages, PagesError};
use crate::attempt::{Interrupt, until_done};
use crate::ids::{PageId, SegmentId};
use crate::page::header::{self, BODY, PageKind, get_u32};
use crate::page::slotted::capacity;
use crate::page::{Op, header::SPECIFIC};
use crate::policy::{Role, ScanReadAhead};
use crate::stream::{BEGIN_EXTENTS, Offered, PageStream};
use crate::tree::Reserve;
use std::ops::Range;

/// In a data page: bytes of the value. In a list: pages named.
const COUNT: u16 = SPECIFIC as u16;
/// In a list: the next list, 0 for none.
const NEXT: u16 = COUNT + 4;
/// Bytes of a page number in a list.
const NUMBER_BYTES: usize = 4;
/// Pages given back by one mini-transaction: each touches the page that says
/// which of its extent are in use.
const FREED_MAX: u32 = 16;

const LEVEL_DATA: u8 = 0;
const LEVEL_LIST: u8 = 1;

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverflowRef {
    /// Its only page, or its first list.
    pub page: u32,
    /// Its bytes.
    pub bytes: u32,
}

impl OverflowRef {
    /// Bytes of it in a row.
    pub const BYTES: usize = 8;

    /// As it stands in a row: page, then bytes, little-endian.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.page.to_le_bytes());
        bytes[4..].copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }

    /// The one that stands in a row.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> OverflowRef {
        OverflowRef {
            page: get_u32(&bytes, 0),
            bytes: get_u32(&bytes, 4),
        }
    }
}

/// The pages of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverflowPages {
    /// Those that list the others.
    pub lists: Vec<PageId>,
    /// Those that hold it, in its order: what a read-ahead asks for.
    pub data: Vec<PageId>,
}

/// Why a long value cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OverflowError {
    /// Its pages cannot.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// A page is not what the reference or the list says.
    #[error("{page} is damaged: {reason}; run a check")]
    Damaged {
        /// Which.
        page: PageId,
        /// What is wrong.
        reason: String,
    },
    /// Longer than a value can be.
    #[error("a value of {bytes} bytes, at most {} can be stored", u32::MAX)]
    TooLong {
        /// Its bytes.
        bytes: usize,
    },
}

/// Why an attempt has not ended.
type Stop = Interrupt<OverflowError>;

/// Repeats an attempt, which holds no latch when it ends, until no page is
/// missing.
fn until_loaded<P: Pages, T>(
    pages: &P,
    attempt: impl FnMut() -> Result<T, Stop>,
) -> Result<T, OverflowError> {
    until_done(pages, attempt)
}

/// Reads the pages of a value ahead of the one who reads it, from the first that
/// is missing.
struct Ahead<'d, 'p> {
    data: &'d [PageId],
    stream: Option<PageStream<'p, Offered>>,
}

impl<'d, 'p> Ahead<'d, 'p> {
    fn of(data: &'d [PageId]) -> Ahead<'d, 'p> {
        Ahead { data, stream: None }
    }

    fn waits_for<P: Pages>(&mut self, pages: &'p P, page: PageId) {
        if let Some(stream) = &mut self.stream {
            stream.waits_for(page);
            return;
        }
        // The caller reads that one by itself.
        let at = self.data.iter().position(|&id| id == page);
        let behind = at.map_or(&[][..], |at| &self.data[at + 1..]);
        if let Some(ahead) = pages.read_ahead()
            && ahead.policy().scan == ScanReadAhead::Logical
            && !behind.is_empty()
        {
            let mut stream = PageStream::of_offered(ahead, Role::Scan, BEGIN_EXTENTS);
            stream.offer(behind.iter().copied());
            self.stream = Some(stream);
        }
    }

    fn came_to(&mut self, page: PageId) {
        if let Some(stream) = &mut self.stream {
            stream.came_to(page);
        }
    }
}

/// Where long values of an index go.
///
/// ```
/// use iolane_store::access::memory::{MemoryOptions, MemoryPages};
/// use iolane_store::overflow::Overflow;
/// use iolane_store::tree::Reserve;
///
/// let pages = MemoryPages::new(MemoryOptions::default());
/// let overflow = Overflow { segment: MemoryPages::segment(0), owner: 7 };
/// let value = vec![1; 100_000];
/// let nothing = Reserve::default();
/// let reference = overflow.write(&pages, &value, nothing, |_| Ok(()), |_, _reference| {})?;
/// let mut read = Vec::new();
/// overflow.read(&pages, reference, &mut read)?;
/// assert_eq!(read, value);
/// overflow.free(&pages, reference, nothing, |_| Ok(()), |_| {})?;
/// # Ok::<(), iolane_store::overflow::OverflowError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    /// Where their pages come from.
    pub segment: SegmentId,
    /// Owner that they name in their headers.
    pub owner: u64,
}

impl Overflow {
    /// Writes a value. The first mini-transaction, which makes its first page,
    /// calls `prepare` before its first change, where the caller latches what
    /// `note` needs, and then `note` with the reference: there the caller
    /// enters it in the undo of its transaction, in what it has reserved.
    ///
    /// # Errors
    /// [`OverflowError`]. If `note` was called, the caller must free what was
    /// written so far, as at a rollback.
    pub fn write<'p, P: Pages>(
        &self,
        pages: &'p P,
        value: &[u8],
        reserve: Reserve<'_>,
        mut prepare: impl FnMut(&mut P::Mini<'p>) -> Result<(), Miss>,
        note: impl FnOnce(&mut P::Mini<'p>, OverflowRef),
    ) -> Result<OverflowRef, OverflowError> {
        let Ok(bytes) = u32::try_from(value.len()) else {
            return Err(OverflowError::TooLong { bytes: value.len() });
        };
        let (room, listed) = (capacity(pages.page_bytes()), self.is_listed(pages, bytes));
        let segments = [reserve.segments, &[self.segment]].concat();
        let mut mini = until_loaded(pages, || {
            let mut mini = pages.begin(&segments, reserve.pages.max(1))?;
            prepare(&mut mini)?;
            Ok(mini)
        })?;
        let first = if listed {
            self.allocate_list(&mut mini, None)
        } else {
            self.allocate_data(&mut mini, None, value)
        };
        let reference = OverflowRef {
            page: first.page,
            bytes,
        };
        note(&mut mini, reference);
        mini.commit();
        if listed {
            let (mut list, mut last) = (first, first);
            for part in value.chunks(room) {
                (list, last) = until_loaded(pages, || self.append(pages, list, last, part))?;
            }
        }
        Ok(reference)
    }

    /// Appends a value to `out`, whole.
    ///
    /// # Errors
    /// [`OverflowError`].
    pub fn read<P: Pages>(
        &self,
        pages: &P,
        value: OverflowRef,
        out: &mut Vec<u8>,
    ) -> Result<(), OverflowError> {
        self.read_range(pages, value, 0..value.bytes, out)
    }

    /// Appends those bytes of a value to `out` that are within `range`.
    ///
    /// # Errors
    /// [`OverflowError`].
    pub fn read_range<P: Pages>(
        &self,
        pages: &P,
        value: OverflowRef,
        range: Range<u32>,
        out: &mut Vec<u8>,
    ) -> Result<(), OverflowError> {
        let room = capacity(pages.page_bytes());
        let (mut from, to) = (range.start as usize, range.end.min(value.bytes) as usize);
        if from >= to {
            return Ok(());
        }
        let data = self.pages_of(pages, value)?.data;
        let mut ahead = Ahead::of(&data[from / room..=(to - 1) / room]);
        while from < to {
            let part = from / room;
            let due = (value.bytes as usize - part * room).min(room);
            let end = to.min((part + 1) * room);
            let id = data[part];
            until_loaded(pages, || {
                let page = pages
                    .shared(id)
                    .inspect_err(|_| ahead.waits_for(pages, id))?;
                self.expect(&page, id, LEVEL_DATA)?;
                let stored = get_u32(&page, COUNT.into()) as usize;
                if stored != due {
                    return Err(damaged(id, format!("it holds {stored} bytes of {due}")));
                }
                out.extend_from_slice(&page[BODY + from - part * room..BODY + end - part * room]);
                Ok(())
            })?;
            ahead.came_to(id);
            from = end;
        }
        Ok(())
    }

    /// The pages of a value that was written to its end.
    ///
    /// # Errors
    /// [`OverflowError`].
    pub fn pages_of<P: Pages>(
        &self,
        pages: &P,
        value: OverflowRef,
    ) -> Result<OverflowPages, OverflowError> {
        let mut found = OverflowPages::default();
        let mut next = self.id(value.page);
        if !self.is_listed(pages, value.bytes) {
            found.data.push(next);
            return Ok(found);
        }
        let due = (value.bytes as usize).div_ceil(capacity(pages.page_bytes()));
        loop {
            let list = next;
            let following = until_loaded(pages, || {
                let page = pages.shared(list)?;
                self.expect(&page, list, LEVEL_LIST)?;
                let (numbers, _) = page[BODY..].as_chunks::<NUMBER_BYTES>();
                let count = get_u32(&page, COUNT.into()) as usize;
                if count > numbers.len() || count == 0 || found.data.len() + count > due {
                    return Err(damaged(list, format!("it lists {count} pages of {due}")));
                }
                let numbers = numbers[..count].iter();
                let ids = numbers.map(|&number| self.id(u32::from_le_bytes(number)));
                found.data.extend(ids);
                Ok(get_u32(&page, NEXT.into()))
            })?;
            found.lists.push(list);
            match (following, found.data.len() == due) {
                (0, true) => return Ok(found),
                (0, false) | (_, true) => {
                    let reason = format!("the lists name {} pages of {due}", found.data.len());
                    return Err(OverflowError::Damaged { page: list, reason });
                }
                (page, false) => next = self.id(page),
            }
        }
    }

    /// Gives the pages of a value back, also of one that was not written to its
    /// end. The last mini-transaction, which frees the page that the reference
    /// names, is the caller's too, as in [`write`](Self::write): it takes the
    /// reference out of the undo there. After a crash before that, what is left
    /// can be freed again.
    ///
    /// # Errors
    /// [`OverflowError`].
    pub fn free<'p, P: Pages>(
        &self,
        pages: &'p P,
        value: OverflowRef,
        reserve: Reserve<'_>,
        mut prepare: impl FnMut(&mut P::Mini<'p>) -> Result<(), Miss>,
        note: impl FnOnce(&mut P::Mini<'p>),
    ) -> Result<(), OverflowError> {
        let first = self.id(value.page);
        let listed = self.is_listed(pages, value.bytes);
        if listed {
            while until_loaded(pages, || self.free_some(pages, first))? {}
        }
        let segments = [reserve.segments, &[self.segment]].concat();
        let mut mini = until_loaded(pages, || {
            let mut mini = pages.begin(&segments, reserve.pages)?;
            if listed {
                mini.exclusive(first)?;
            }
            prepare(&mut mini)?;
            Ok(mini)
        })?;
        if listed {
            let count = get_u32(mini.page(first), COUNT.into());
            self.free_last(&mut mini, first, count);
        }
        mini.free(self.segment, first);
        note(&mut mini);
        mini.commit();
        Ok(())
    }

    /// Frees some pages that the last list names, or that list. `false` when
    /// the first list alone is left, with few enough for one mini-transaction.
    fn free_some<P: Pages>(&self, pages: &P, first: PageId) -> Result<bool, Stop> {
        let mut mini = pages.begin(&[self.segment], 0)?;
        mini.exclusive(first)?;
        self.expect(mini.page(first), first, LEVEL_LIST)?;
        let second = get_u32(mini.page(first), NEXT.into());
        let list = if second == 0 { first } else { self.id(second) };
        mini.exclusive(list)?;
        self.expect(mini.page(list), list, LEVEL_LIST)?;
        let (count, next) = (
            get_u32(mini.page(list), COUNT.into()),
            get_u32(mini.page(list), NEXT.into()),
        );
        if count as usize > list_room(pages.page_bytes()) {
            return Err(damaged(list, format!("it lists {count} pages")));
        }
        if count > FREED_MAX {
            self.free_last(&mut mini, list, FREED_MAX);
            set_u32(&mut mini, list, COUNT, count - FREED_MAX);
        } else if list == first {
            return Ok(false);
        } else {
            self.free_last(&mut mini, list, count);
            set_u32(&mut mini, first, NEXT, next);
            mini.free(self.segment, list);
        }
        mini.commit();
        Ok(true)
    }

    /// Frees the last `freed` pages that a list names.
    fn free_last(&self, mini: &mut impl MiniTransaction, list: PageId, freed: u32) {
        let page = mini.page(list);
        let count = get_u32(page, COUNT.into());
        let numbers: Vec<u32> = (count - freed..count)
            .map(|at| get_u32(page, BODY + at as usize * NUMBER_BYTES))
            .collect();
        for number in numbers {
            mini.free(self.segment, self.id(number));
        }
    }

    /// Adds the next part of a value to `list`, or to a new one behind it if it
    /// is full. Returns that list and the part's page.
    fn append<P: Pages>(
        &self,
        pages: &P,
        list: PageId,
        last: PageId,
        part: &[u8],
    ) -> Result<(PageId, PageId), Stop> {
        let mut mini = pages.begin(&[self.segment], 2)?;
        mini.exclusive(list)?;
        let count = get_u32(mini.page(list), COUNT.into());
        let data = self.allocate_data(&mut mini, Some(last), part);
        let (list, count) = if count as usize == list_room(pages.page_bytes()) {
            let next = self.allocate_list(&mut mini, Some(data));
            set_u32(&mut mini, list, NEXT, next.page);
            (next, 0)
        } else {
            (list, count)
        };
        let at = BODY + count as usize * NUMBER_BYTES;
        let at = u16::try_from(at).expect("within a page");
        set_u32(&mut mini, list, at, data.page);
        set_u32(&mut mini, list, COUNT, count + 1);
        mini.commit();
        Ok((list, data))
    }

    fn allocate_list(&self, mini: &mut impl MiniTransaction, hint: Option<PageId>) -> PageId {
        let id = mini.allocate(self.segment, hint);
        mini.apply(id, &self.formatted(LEVEL_LIST));
        id
    }

    fn allocate_data(
        &self,
        mini: &mut impl MiniTransaction,
        hint: Option<PageId>,
        part: &[u8],
    ) -> PageId {
        let id = mini.allocate(self.segment, hint);
        mini.apply(id, &self.formatted(LEVEL_DATA));
        let bytes = u32::try_from(part.len()).expect("at most a page");
        set_u32(mini, id, COUNT, bytes);
        let offset = BODY as u16;
        mini.apply(
            id,
            &Op::Patch {
                offset,
                bytes: part,
            },
        );
        id
    }

    fn formatted(&self, level: u8) -> Op<'static> {
        Op::Format {
            kind: PageKind::Overflow,
            level,
            owner: self.owner,
        }
    }

    /// Whether a value of so many bytes takes more than a page.
    fn is_listed<P: Pages>(&self, pages: &P, bytes: u32) -> bool {
        bytes as usize > capacity(pages.page_bytes())
    }

    fn id(&self, page: u32) -> PageId {
        PageId::new(self.segment.space, page)
    }

    /// Whether a page is what refers to it takes it for.
    fn expect(&self, page: &[u8], id: PageId, level: u8) -> Result<(), Stop> {
        let fits = header::id(page) == id
            && header::kind(page) == Some(PageKind::Overflow)
            && header::level(page) == level
            && header::owner(page) == self.owner;
        if fits {
            return Ok(());
        }
        let reason = format!(
            "an overflow page of level {level} of {} is due, it is {}, a {:?} of level {} of {}",
            self.owner,
            header::id(page),
            header::kind(page),
            header::level(page),
            header::owner(page),
        );
        Err(damaged(id, reason))
    }
}

fn damaged(page: PageId, reason: String) -> Stop {
    Stop::Error(OverflowError::Damaged { page, reason })
}

/// Pages that a list can name.
fn list_room(page_bytes: usize) -> usize {
    capacity(page_bytes) / NUMBER_BYTES
}

fn set_u32(mini: &mut impl MiniTransaction, id: PageId, offset: u16, number: u32) {
    let bytes = &number.to_le_bytes();
    mini.apply(id, &Op::Patch { offset, bytes });
}
