//! The doublewrite area: a batch of pages stands here, durable, before it is
//! written to its places, so that a write cut short by a crash can be repaired.
//! `docs/format.md` draws the file.
//!
//! Two halves are used in turn. A half's batch counts only while its header
//! says so, and the older batch is overwritten first: so if a page has a copy
//! in the area at all, that of the newest batch is what was last written to
//! its place. The newest batch, not the newest change: a crash may leave the
//! list of a batch without its pages, and that batch reached no place; what
//! recovery then writes comes in a later batch, with changes no newer.

use crate::error::StoreError;
use crate::files::too_new;
use crate::ids::{Lsn, PageId};
use crate::ledger::{FileClass, tag};
use crate::page::header::{self, get_u32, get_u64};
use crate::policy::Role;
use iolane::{Buffer, Error, File, Level, Operation, Pending};
use parking_lot::Mutex;

#[cfg(test)]
mod tests;

/// Most pages in a batch. With 16 KiB pages a batch is 2 MiB, which keeps any
/// disk busy longer than the two syncs take.
pub(crate) const BATCH_PAGES: usize = 128;
/// Format of this file.
const VERSION: u32 = 1;
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
    halves: [Half; 2],
}

#[derive(Default)]
struct Half {
    sequence: u64,
    pages: Vec<(PageId, Lsn)>,
}

/// A page being written: where it belongs, and its sealed copy.
pub(crate) type Outgoing = (PageId, Buffer);

impl Doublewrite {
    /// Bytes that the file takes.
    pub(crate) fn file_bytes(page_bytes: usize) -> u64 {
        ((1 + 2 * (1 + BATCH_PAGES)) * page_bytes) as u64
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
        header::seal(&mut page);
        file.write_at(&page, 0, Level::Critical)?;
        file.sync(Level::Critical)?;
        Ok(Doublewrite::at(file, page_bytes, Default::default()))
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
        if found != VERSION {
            return Err(StoreError::Version {
                path,
                found,
                known: VERSION,
            });
        }
        if !is_sealed(&page)
            || get_u32(&page, 16) as usize != page_bytes
            || get_u32(&page, 20) as usize != BATCH_PAGES
        {
            return Err(StoreError::foreign(&path, "doublewrite area"));
        }
        if get_u64(&page, 24) != store {
            return Err(StoreError::OtherStore { path });
        }
        let mut halves: [Half; 2] = Default::default();
        for (number, half) in halves.iter_mut().enumerate() {
            let read = file.read_at(
                &mut page,
                half_offset(number, page_bytes),
                Level::Foreground,
            )?;
            if read == page_bytes {
                *half = Half::parse(&page);
            }
        }
        Ok(Doublewrite::at(file, page_bytes, halves))
    }

    fn at(file: File, page_bytes: usize, halves: [Half; 2]) -> Doublewrite {
        let sequence = 1 + halves[0].sequence.max(halves[1].sequence);
        Doublewrite {
            file,
            page_bytes,
            state: Mutex::new(State { sequence, halves }),
        }
    }

    /// Submits the writes of a batch, at most [`BATCH_PAGES`], into the older
    /// half; its header into `head`. The caller awaits them, in the order of
    /// the pages and the header last, and then syncs.
    pub(crate) fn submit(
        &self,
        batch: Vec<Outgoing>,
        mut head: Buffer,
        role: Role,
        level: Level,
    ) -> Result<Vec<Pending<Buffer>>, Error> {
        assert!(batch.len() <= BATCH_PAGES, "a batch of {}", batch.len());
        let (number, sequence) = {
            let mut state = self.state.lock();
            let number = usize::from(state.halves[1].sequence < state.halves[0].sequence);
            let sequence = state.sequence;
            state.sequence += 1;
            // No longer to be looked for from now on.
            state.halves[number] = Half {
                sequence,
                pages: Vec::new(),
            };
            (number, sequence)
        };
        fill_head(&mut head, sequence, &batch);
        let offset = half_offset(number, self.page_bytes);
        let file = self.file_for(role);
        let mut requests = file.device().batch();
        let mut pending = Vec::with_capacity(batch.len() + 1);
        let buffers = batch.into_iter().map(|(_, buffer)| buffer);
        for (index, buffer) in buffers.enumerate() {
            let at = offset + ((1 + index) * self.page_bytes) as u64;
            let request = requests.write(&file, buffer, at, level);
            pending.push(request.map_err(|refused| refused.error)?);
        }
        let request = requests.write(&file, head, offset, level);
        pending.push(request.map_err(|refused| refused.error)?);
        requests.submit();
        Ok(pending)
    }

    fn file_for(&self, role: Role) -> File {
        self.file.tagged(tag(role, FileClass::Doublewrite))
    }

    /// Submits the sync that makes the batch count.
    pub(crate) fn submit_sync(&self, role: Role, level: Level) -> Result<Pending<()>, Error> {
        let request = self.file_for(role).submit_sync(Operation::SyncData, level);
        request.map_err(|refused| refused.error)
    }

    /// The batch with these pages is durable in its places: its copies are
    /// the newest.
    pub(crate) fn finished(&self, pages: Vec<(PageId, Lsn)>) {
        let mut state = self.state.lock();
        let number = usize::from(state.halves[1].sequence > state.halves[0].sequence);
        state.halves[number].pages = pages;
    }

    /// Copies a page's copy in the newest batch that has it into `page`.
    /// `false`: there is none. An older batch's is never taken instead: it
    /// would be right only if the newer one reached no place.
    pub(crate) fn copy(&self, id: PageId, page: &mut [u8]) -> Result<bool, Error> {
        let found = {
            let state = self.state.lock();
            let place = |number: usize| {
                let half = &state.halves[number];
                let index = half.pages.iter().position(|(other, _)| *other == id)?;
                Some((half.sequence, number, index, half.pages[index].1))
            };
            [place(0), place(1)].into_iter().flatten().max()
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
        let at = half_offset(number, self.page_bytes) + ((1 + index) * self.page_bytes) as u64;
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
    /// names the files, and `newest` is where the log ends. Returns how many it
    /// wrote.
    pub(crate) fn restore(
        &self,
        newest: Lsn,
        file: impl Fn(u32) -> Option<File>,
    ) -> Result<u64, StoreError> {
        let mut copies: Vec<PageId> = {
            let state = self.state.lock();
            let halves = state.halves.iter();
            halves
                .flat_map(|half| half.pages.iter().map(|&(id, _)| id))
                .collect()
        };
        copies.sort_unstable();
        copies.dedup();
        let mut restored = 0;
        let mut touched: Vec<File> = Vec::new();
        let mut copy = Buffer::new(self.page_bytes);
        let mut place = Buffer::new(self.page_bytes);
        for id in copies {
            let Some(file) = file(id.space) else {
                continue;
            };
            if !self.copy(id, &mut copy)? {
                continue;
            }
            let offset = u64::from(id.page) * self.page_bytes as u64;
            let read = file.read_at(&mut place, offset, Level::Foreground);
            let whole = read.is_ok_and(|bytes| bytes == self.page_bytes)
                && header::check(&place, id).is_ok();
            if whole && header::lsn(&place) >= header::lsn(&copy) {
                continue;
            }
            if let Some(reason) = too_new(&copy, newest) {
                let reason = format!("the copy of {id}: {reason}");
                let path = self.file.path().to_owned();
                return Err(StoreError::Damaged { path, reason });
            }
            file.write_at(&copy, offset, Level::Foreground)?;
            restored += 1;
            if touched.last().is_none_or(|last| last.path() != file.path()) {
                touched.push(file);
            }
        }
        for file in touched {
            file.sync_data(Level::Foreground)?;
        }
        Ok(restored)
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
            let pages = state.halves.iter().flat_map(|half| half.pages.iter());
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

impl Half {
    fn parse(page: &[u8]) -> Half {
        let count = get_u32(page, 16) as usize;
        if page[4..8] != BATCH_MAGIC || count > BATCH_PAGES || !is_sealed(page) {
            return Half::default();
        }
        let pages = page[LIST..].chunks_exact(ENTRY).take(count);
        Half {
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

fn is_sealed(page: &[u8]) -> bool {
    get_u32(page, 0) == crc32c::crc32c(&page[4..])
}

fn half_offset(number: usize, page_bytes: usize) -> u64 {
    ((1 + number * (1 + BATCH_PAGES)) * page_bytes) as u64
}

// A list of a whole batch fits the smallest page.
const _: () = assert!(LIST + BATCH_PAGES * ENTRY <= 4096);
