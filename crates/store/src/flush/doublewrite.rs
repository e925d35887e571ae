//! The doublewrite area: a batch of pages stands here, durable, before it is
//! written to its places, so that a write cut short by a crash can be repaired.
//! `docs/format.md` draws the file.
//!
//! It has a few slots, each for a batch, so that one batch can go into the area
//! while others are on their way to their places. A slot's batch counts only
//! while its header says so. Batches are numbered, and the oldest is always the
//! one overwritten, when it is durable in its places. So if a page has a copy
//! in the area at all, that of the newest batch is what was last written to
//! its place, or is being written there. For this a page must never be in two
//! batches under way: [`InPlace`](super::InPlace) sees to it.
//!
//! The newest batch, not the newest change: a crash may leave the list of a
//! batch without its pages, and that batch reached no place; what recovery then
//! writes comes in a later batch, with changes no newer. And if a crash has
//! left the list of a page's newest batch only, an older batch's copy is not
//! looked for: that one was durable in its place before the newer batch began.

use crate::error::StoreError;
use crate::files::too_new;
use crate::ids::{Lsn, PageId};
use crate::ledger::{FileClass, tag};
use crate::page::header::{self, get_u32, get_u64};
use crate::policy::Role;
use iolane::{Buffer, Error, File, Level, Pending};
use parking_lot::Mutex;

#[cfg(test)]
mod tests;

/// Most pages in a batch. With 16 KiB pages a batch is 2 MiB, which keeps any
/// disk busy longer than the two syncs take.
pub(crate) const BATCH_PAGES: usize = 128;
/// Batches that may be under way. A batch is written, synced, written, synced:
/// with one in each of the four the disk always has pages to write.
pub(crate) const SLOTS: usize = 4;
/// Files that stay open until what was restored in them is synced.
const TOUCHED_MAX: usize = 64;
/// Format of this file.
const VERSION: u32 = 2;
/// The one before it had two slots, and did not say so.
const VERSION_OF_HALVES: u32 = 1;
const HALVES: usize = 2;
/// Most slots that a file may have: to bound what is read of it.
const SLOTS_MAX: usize = 64;
const MAGIC: [u8; 8] = *b"ioldblwr";
const BATCH_MAGIC: [u8; 4] = *b"batc";
/// Where the list of pages begins in a batch's header, and an entry's bytes.
const LIST: usize = 24;
const ENTRY: usize = 16;

/// The area.
pub(crate) struct Doublewrite {
    file: File,
    page_bytes: usize,
    state: Mutex<State>,
}

struct State {
    /// Of the next batch.
    sequence: u64,
    slots: Vec<Slot>,
}

#[derive(Default)]
struct Slot {
    sequence: u64,
    pages: Vec<(PageId, Lsn)>,
    /// Its batch is not yet durable in its places.
    in_use: bool,
}

/// A batch's right to its slot, from [`Doublewrite::begin`] to
/// [`Doublewrite::finished`].
#[derive(Debug)]
pub(crate) struct Ticket {
    slot: usize,
    sequence: u64,
}

/// A page being written: where it belongs, and its sealed copy.
pub(crate) type Outgoing = (PageId, Buffer);

impl Doublewrite {
    /// Bytes that the file takes.
    pub(crate) fn file_bytes(page_bytes: usize) -> u64 {
        slot_offset(SLOTS, page_bytes)
    }

    /// Makes an empty area in a preallocated file.
    pub(crate) fn create(
        file: File,
        page_bytes: usize,
        store: u64,
    ) -> Result<Doublewrite, StoreError> {
        let mut page = Buffer::new(page_bytes);
        page[4..12].copy_from_slice(&MAGIC);
        page[12..16].copy_from_slice(&VERSION.to_le_bytes());
        page[16..20].copy_from_slice(&(page_bytes as u32).to_le_bytes());
        page[20..24].copy_from_slice(&(BATCH_PAGES as u32).to_le_bytes());
        page[24..32].copy_from_slice(&store.to_le_bytes());
        page[32..36].copy_from_slice(&(SLOTS as u32).to_le_bytes());
        header::seal(&mut page);
        file.write_at(&page, 0, Level::Critical)?;
        file.sync(Level::Critical)?;
        let slots = (0..SLOTS).map(|_| Slot::default()).collect();
        Ok(Doublewrite::at(file, page_bytes, slots))
    }

    /// Opens an area and finds the batches in it.
    pub(crate) fn open(
        file: File,
        page_bytes: usize,
        store: u64,
    ) -> Result<Doublewrite, StoreError> {
        let path = file.path().to_owned();
        let mut page = Buffer::new(page_bytes);
        let whole = file.read_at(&mut page, 0, Level::Foreground)? == page_bytes;
        if !whole || page[4..12] != MAGIC {
            return Err(StoreError::foreign(&path, "doublewrite area"));
        }
        let found = get_u32(&page, 12);
        if !(VERSION_OF_HALVES..=VERSION).contains(&found) {
            return Err(StoreError::Version {
                path,
                found,
                known: VERSION,
            });
        }
        if !header::is_sealed(&page)
            || get_u32(&page, 16) as usize != page_bytes
            || get_u32(&page, 20) as usize != BATCH_PAGES
        {
            return Err(StoreError::foreign(&path, "doublewrite area"));
        }
        if get_u64(&page, 24) != store {
            return Err(StoreError::OtherStore { path });
        }
        let count = match found {
            VERSION_OF_HALVES => HALVES,
            _ => get_u32(&page, 32) as usize,
        };
        if !(HALVES..=SLOTS_MAX).contains(&count) {
            return Err(StoreError::foreign(&path, "doublewrite area"));
        }
        let mut slots = Vec::with_capacity(count);
        for number in 0..count {
            let at = slot_offset(number, page_bytes);
            let read = file.read_at(&mut page, at, Level::Foreground)?;
            slots.push(if read == page_bytes {
                Slot::parse(&page)
            } else {
                Slot::default()
            });
        }
        Ok(Doublewrite::at(file, page_bytes, slots))
    }

    fn at(file: File, page_bytes: usize, slots: Vec<Slot>) -> Doublewrite {
        let newest = slots.iter().map(|slot| slot.sequence).max();
        Doublewrite {
            file,
            page_bytes,
            state: Mutex::new(State {
                sequence: 1 + newest.unwrap_or(0),
                slots,
            }),
        }
    }

    /// Batches that can be under way at once.
    pub(crate) fn slots(&self) -> usize {
        self.state.lock().slots.len()
    }

    /// Can a batch begin? Not while the oldest one is not durable in its places.
    pub(crate) fn has_room(&self) -> bool {
        let state = self.state.lock();
        let oldest = state.slots.iter().min_by_key(|slot| slot.sequence);
        oldest.is_some_and(|slot| !slot.in_use)
    }

    /// Gives the next batch the slot of the oldest one, whose pages have no
    /// copies from now on. `None` while that is not durable in its places.
    pub(crate) fn begin(&self) -> Option<Ticket> {
        let mut state = self.state.lock();
        let slots = state.slots.iter().enumerate();
        let (number, oldest) = slots.min_by_key(|(_, slot)| slot.sequence)?;
        if oldest.in_use {
            return None;
        }
        let sequence = state.sequence;
        state.sequence += 1;
        state.slots[number] = Slot {
            sequence,
            pages: Vec::new(),
            in_use: true,
        };
        Some(Ticket {
            slot: number,
            sequence,
        })
    }

    /// Submits the writes of a batch, at most [`BATCH_PAGES`], into its slot;
    /// its header into `head`. The caller awaits them, in the order of the
    /// pages and the header last, and then syncs.
    pub(crate) fn submit(
        &self,
        ticket: &Ticket,
        batch: Vec<Outgoing>,
        mut head: Buffer,
        role: Role,
        level: Level,
    ) -> Result<Vec<Pending<Buffer>>, Error> {
        assert!(batch.len() <= BATCH_PAGES, "a batch of {}", batch.len());
        fill_head(&mut head, ticket.sequence, &batch);
        let offset = slot_offset(ticket.slot, self.page_bytes);
        let file = self.file_for(role);
        let pages = batch.into_iter().enumerate().map(|(index, (_, page))| {
            let at = offset + ((1 + index) * self.page_bytes) as u64;
            (&file, page, at)
        });
        write_all(pages.chain([(&file, head, offset)]), level)
    }

    /// The file, for requests of a role: to be synced so that batches count.
    pub(crate) fn file_for(&self, role: Role) -> File {
        self.file.tagged(tag(role, FileClass::Doublewrite))
    }

    /// The batch, with these pages, is durable in its places: its copies are
    /// the newest.
    pub(crate) fn finished(&self, ticket: &Ticket, pages: Vec<(PageId, Lsn)>) {
        let mut state = self.state.lock();
        let slot = &mut state.slots[ticket.slot];
        debug_assert_eq!(slot.sequence, ticket.sequence);
        slot.pages = pages;
        slot.in_use = false;
    }

    /// Copies a page's copy in the newest batch that has it into `page`.
    /// `false`: there is none. An older batch's is never taken instead: it
    /// would be right only if the newer one reached no place.
    pub(crate) fn copy(&self, id: PageId, page: &mut [u8]) -> Result<bool, Error> {
        let found = {
            let state = self.state.lock();
            let slots = state.slots.iter().enumerate();
            let places = slots.filter_map(|(number, slot)| {
                let index = slot.pages.iter().position(|(other, _)| *other == id)?;
                Some((slot.sequence, number, index, slot.pages[index].1))
            });
            places.max()
        };
        match found {
            Some((_, number, index, lsn)) => self.read(id, lsn, number, index, page),
            None => Ok(false),
        }
    }

    fn read(
        &self,
        id: PageId,
        lsn: Lsn,
        number: usize,
        index: usize,
        page: &mut [u8],
    ) -> Result<bool, Error> {
        let mut copy = Buffer::new(self.page_bytes);
        let at = slot_offset(number, self.page_bytes) + ((1 + index) * self.page_bytes) as u64;
        let read = self.file.read_at(&mut copy, at, Level::Foreground)?;
        // A batch that was cut short by a crash, or is being overwritten.
        if read != self.page_bytes
            || header::check(&copy, id).is_err()
            || header::id(&copy) != id
            || header::lsn(&copy) != lsn
        {
            return Ok(false);
        }
        page.copy_from_slice(&copy);
        Ok(true)
    }

    /// Brings pages in order whose writing a crash may have cut short; `file`
    /// names the files, redo will begin at `checkpoint`, and `newest` is where
    /// the log ends. Returns how many were not in order.
    pub(crate) fn restore(
        &self,
        checkpoint: Lsn,
        newest: Lsn,
        file: impl Fn(u32) -> Result<Option<File>, StoreError>,
    ) -> Result<u64, StoreError> {
        let mut copies: Vec<PageId> = {
            let state = self.state.lock();
            let slots = state.slots.iter();
            slots
                .flat_map(|slot| slot.pages.iter().map(|&(id, _)| id))
                .collect()
        };
        copies.sort_unstable();
        copies.dedup();
        if !copies.is_empty() {
            // A program that was killed may have left them in the disk's cache,
            // and its power may fail while they are written to their places.
            self.file.sync_data(Level::Foreground)?;
        }
        let mut restored = 0;
        let mut touched: Vec<File> = Vec::new();
        let mut copy = Buffer::new(self.page_bytes);
        let mut place = Buffer::new(self.page_bytes);
        for id in copies {
            let Some(file) = file(id.space)? else {
                continue;
            };
            if !self.copy(id, &mut copy)? {
                continue;
            }
            let offset = u64::from(id.page) * self.page_bytes as u64;
            let read = file.read_at(&mut place, offset, Level::Foreground);
            let whole = read.is_ok_and(|bytes| bytes == self.page_bytes)
                && header::check(&place, id).is_ok();
            let (there, lsn) = (header::lsn(&place), header::lsn(&copy));
            let in_place = whole && there >= lsn;
            // Durable, as is all before a checkpoint.
            if in_place && (there > lsn || lsn <= checkpoint) {
                continue;
            }
            // Written again even if it is in its place: it may stand in a cache
            // only, of the disk after the program was killed, of the kernel after
            // a sync that failed; and as long as it does, this copy must not be
            // given up.
            if let Some(reason) = too_new(&copy, newest).filter(|_| !in_place) {
                let reason = format!("the copy of {id}: {reason}");
                let path = self.file.path().to_owned();
                return Err(StoreError::Damaged { path, reason });
            }
            file.write_at(&copy, offset, Level::Foreground)?;
            restored += u64::from(!in_place);
            if touched.last().is_none_or(|last| last.path() != file.path()) {
                if touched.len() == TOUCHED_MAX {
                    sync_all(&mut touched)?;
                }
                touched.push(file);
            }
        }
        sync_all(&mut touched)?;
        Ok(restored)
    }

    /// Forgets all copies, durably. What [`restore`](Self::restore) left is
    /// durable in its place, and pages that are written as wholes from now on
    /// would be newer than copies here.
    pub(crate) fn clear(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        let nothing = Buffer::new(self.page_bytes);
        let mut cleared = false;
        for (number, slot) in state.slots.iter_mut().enumerate() {
            if slot.sequence > 0 {
                let at = slot_offset(number, self.page_bytes);
                self.file.write_at(&nothing, at, Level::Foreground)?;
                *slot = Slot::default();
                cleared = true;
            }
        }
        if cleared {
            self.file.sync_data(Level::Foreground)?;
        }
        Ok(())
    }

    /// The newest copy of any tablespace's first page that `wanted` accepts:
    /// for a file whose own is torn.
    pub(crate) fn first_page(
        &self,
        page: &mut [u8],
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<bool, Error> {
        let spaces: Vec<PageId> = {
            let state = self.state.lock();
            let pages = state.slots.iter().flat_map(|slot| slot.pages.iter());
            pages.map(|&(id, _)| id).filter(|id| id.page == 0).collect()
        };
        for id in spaces {
            if self.copy(id, page)? && wanted(page) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn sync_all(files: &mut Vec<File>) -> Result<(), Error> {
    files
        .drain(..)
        .try_for_each(|file| file.sync_data(Level::Foreground).map(drop))
}

impl Slot {
    fn parse(page: &[u8]) -> Slot {
        let count = get_u32(page, 16) as usize;
        if page[4..8] != BATCH_MAGIC || count > BATCH_PAGES || !header::is_sealed(page) {
            return Slot::default();
        }
        let pages = page[LIST..].chunks_exact(ENTRY).take(count);
        Slot {
            in_use: false,
            sequence: get_u64(page, 8),
            pages: pages
                .map(|entry| {
                    let id = PageId::new(get_u32(entry, 0), get_u32(entry, 4));
                    (id, Lsn(get_u64(entry, 8)))
                })
                .collect(),
        }
    }
}

/// Submits writes, to files of one device, together. If one is refused, waits
/// for those before it: what is under way when the store fails would overwrite
/// what it writes once it is opened again.
pub(super) fn write_all<'f>(
    writes: impl Iterator<Item = (&'f File, Buffer, u64)>,
    level: Level,
) -> Result<Vec<Pending<Buffer>>, Error> {
    let mut writes = writes.peekable();
    let mut pending: Vec<Pending<Buffer>> = Vec::with_capacity(writes.size_hint().0);
    let Some((first, ..)) = writes.peek() else {
        return Ok(pending);
    };
    let mut requests = first.device().batch();
    for (file, buffer, at) in writes {
        match requests.write(file, buffer, at, level) {
            Ok(request) => pending.push(request),
            Err(refused) => {
                requests.submit();
                for request in pending {
                    drop(request.wait());
                }
                return Err(refused.error);
            }
        }
    }
    requests.submit();
    Ok(pending)
}

fn fill_head(head: &mut [u8], sequence: u64, batch: &[Outgoing]) {
    head.fill(0);
    head[4..8].copy_from_slice(&BATCH_MAGIC);
    head[8..16].copy_from_slice(&sequence.to_le_bytes());
    head[16..20].copy_from_slice(&(batch.len() as u32).to_le_bytes());
    for ((id, page), entry) in batch.iter().zip(head[LIST..].chunks_exact_mut(ENTRY)) {
        entry[..4].copy_from_slice(&id.space.to_le_bytes());
        entry[4..8].copy_from_slice(&id.page.to_le_bytes());
        entry[8..].copy_from_slice(&header::lsn(page).0.to_le_bytes());
    }
    header::seal(head);
}

fn slot_offset(number: usize, page_bytes: usize) -> u64 {
    ((1 + number * (1 + BATCH_PAGES)) * page_bytes) as u64
}

// A list of a whole batch fits the smallest page.
const _: () = assert!(LIST + BATCH_PAGES * ENTRY <= 4096);
