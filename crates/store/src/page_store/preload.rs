//! Which pages are in memory, kept in a file when a store is closed, so that they are read again when it is
//! opened: as InnoDB dumps and loads its buffer pool ("MySQL Reference Manual", section "Saving and Restoring the
//! Buffer Pool State"). They are read in the background, so nobody has to choose between a warm start and a quick one.
//!
//! The file is a hint: what is missing, of another store or damaged names no pages, and pages that are not in use any
//! more are passed over.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `iolpages` |
//! | 8 | 4 | version, 1 |
//! | 12 | 4 | bytes of a page |
//! | 16 | 8 | number of the store |
//! | 24 | 16 each | a tablespace, the first page of an extent of it (4 bytes each), and which of its pages (8) |
//! | last | 4 | CRC-32C of all before |

use super::PageStore;
use crate::access::Pages;
use crate::error::StoreError;
use crate::ids::{EXTENT_PAGES, PageId};
use crate::ledger::{FileClass, tag};
use crate::policy::Role;
use crate::pool::{Awaited, Leaves};
use crate::stream::{BEGIN_EXTENTS, acting_as};
use iolane::{File, Level, OpenOptions};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

/// Name of the file.
pub(crate) const PRELOAD_FILE: &str = "pages-in-memory";
/// While it is being written.
const PART_FILE: &str = "pages-in-memory.part";

const MAGIC: &[u8; 8] = b"iolpages";
const VERSION: u32 = 1;
const EXTENT_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 4;

/// Pages of extents: of each the first, and a bit for each that is meant.
type Extents = BTreeMap<PageId, u64>;

fn head(store: u64, page_bytes: usize) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend(VERSION.to_le_bytes());
    head.extend((page_bytes as u32).to_le_bytes());
    head.extend(store.to_le_bytes());
    head
}

fn encode(store: u64, page_bytes: usize, pages: impl Iterator<Item = PageId>) -> Vec<u8> {
    let mut extents = Extents::new();
    for page in pages {
        let first = page.extent();
        *extents.entry(first).or_default() |= 1 << (page.page - first.page);
    }
    let mut bytes = head(store, page_bytes);
    for (first, used) in extents {
        bytes.extend(first.space.to_le_bytes());
        bytes.extend(first.page.to_le_bytes());
        bytes.extend(used.to_le_bytes());
    }
    bytes.extend(crc_fast::crc32_iscsi(&bytes).to_le_bytes());
    bytes
}

/// `None`: it says nothing of this store.
fn decode(bytes: &[u8], store: u64, page_bytes: usize) -> Option<Extents> {
    let (said, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
    let extents = said.strip_prefix(head(store, page_bytes).as_slice())?;
    if !extents.len().is_multiple_of(EXTENT_BYTES)
        || crc_fast::crc32_iscsi(said) != u32::from_le_bytes(*checksum)
    {
        return None;
    }
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let extents = extents.chunks_exact(EXTENT_BYTES).map(|extent| {
        let first = PageId::new(word(&extent[..4]), word(&extent[4..8]));
        let used = extent[8..].try_into().expect("eight bytes");
        (first, u64::from_le_bytes(used))
    });
    Some(
        extents
            .filter(|(first, _)| *first == first.extent())
            .collect(),
    )
}

impl PageStore {
    /// Keeps which pages are in memory now, in the place of what was kept before.
    ///
    /// # Errors
    /// The system's. What was kept before stays.
    pub(crate) fn keep_residents(&self) -> Result<(), StoreError> {
        let core = &self.core;
        let residents = core.pool.residents();
        let bytes = encode(core.log.store(), self.page_bytes(), residents.into_iter());
        let part = core.directory.join(PART_FILE);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = self.preload_file(core.engine.open(&part, &options)?);
        let level = core.pool.files.policy.level(Role::Bulk);
        file.write_at(&bytes, 0, level)?;
        file.sync_data(level)?;
        // Not durably: a crash leaves the one or the other.
        let renamed = core.names.rename(&part, &core.directory.join(PRELOAD_FILE));
        renamed.map_err(|source| StoreError::system(&part, source))
    }

    fn preload_file(&self, file: File) -> File {
        file.tagged(tag(Role::Bulk, FileClass::Data))
    }

    /// Reads what was kept until nothing is free or it is stopped. Whether it was not stopped.
    pub(crate) fn preload(&self, stop: &AtomicBool) -> bool {
        let level = self.core.pool.files.policy.level(Role::Bulk);
        let Some(extents) = self.kept(level) else {
            return true;
        };
        let _acting = acting_as(Role::Bulk);
        let mut window = VecDeque::new();
        for (first, used) in extents {
            if stop.load(Ordering::Relaxed) || self.check_failure().is_err() {
                // What has not begun is withdrawn.
                self.core.pool.give_up(window);
                return false;
            }
            if !self.core.pool.has_room(EXTENT_PAGES as usize) {
                break;
            }
            self.begin_preloading(first, used, &mut window);
            let ahead = window.len().saturating_sub(BEGIN_EXTENTS);
            window
                .drain(..ahead)
                .for_each(|page| self.end_preloading(page));
        }
        window.drain(..).for_each(|page| self.end_preloading(page));
        true
    }

    /// What was kept, if anything was.
    fn kept(&self, level: Level) -> Option<Extents> {
        let core = &self.core;
        let path = core.directory.join(PRELOAD_FILE);
        if !core.names.exists(&path) {
            return None;
        }
        let file = core
            .engine
            .open(&path, OpenOptions::new().read(true))
            .ok()?;
        let mut bytes = vec![0; usize::try_from(file.size().ok()?).ok()?];
        let read = self.preload_file(file).read_at(&mut bytes, 0, level);
        decode(&bytes[..read.ok()?], core.log.store(), self.page_bytes())
    }

    /// Begins to read those of an extent that are in use.
    fn begin_preloading(&self, first: PageId, used: u64, window: &mut VecDeque<Awaited>) {
        let pool = &self.core.pool;
        // Whoever drops the tablespace waits for this: its map is read as for a statement.
        self.core.while_there(first.space, |space| {
            let _reads = acting_as(Role::Space);
            let extent = space.map.lock().extent(first.page);
            let used = used & extent.map_or(0, |extent| extent.used);
            let pages = first.pages(used);
            if !pages.is_empty() {
                pool.prefetch(&pages, Role::Bulk, Some(window));
            }
        });
    }

    /// Waits for a page, and looks whether it is in order; whoever needs one that is not is told.
    fn end_preloading(&self, page: Awaited) {
        if let Err(miss) = self.shared(page.0).map(drop) {
            let _ = self.core.pool.load(miss.0);
        }
        self.core.pool.came_for(page, Leaves::InTurn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_kept_by_their_extents() {
        let pages = [(7, 64), (1, 0), (7, 127), (7, 128), (1, 63)];
        let pages = pages.map(|(space, page)| PageId::new(space, page));
        let bytes = encode(5, 4096, pages.into_iter());
        assert_eq!(bytes.len(), 24 + 3 * EXTENT_BYTES + CHECKSUM_BYTES);
        let extents = [
            (PageId::new(1, 0), 1 | 1 << 63),
            (PageId::new(7, 64), 1 | 1 << 63),
            (PageId::new(7, 128), 1),
        ];
        assert_eq!(decode(&bytes, 5, 4096), Some(extents.into()));
        assert_eq!(decode(&bytes, 6, 4096), None, "another store");
        assert_eq!(decode(&bytes, 5, 8192), None, "other pages");
    }

    #[test]
    fn what_is_damaged_or_cut_names_no_pages() {
        let bytes = encode(5, 4096, (0..1000).map(|page| PageId::new(page % 3, page)));
        for cut in 0..bytes.len() {
            assert_eq!(decode(&bytes[..cut], 5, 4096), None, "{cut}");
            let mut damaged = bytes.clone();
            damaged[cut] ^= 1;
            assert_eq!(decode(&damaged, 5, 4096), None, "{cut}");
        }
        assert_eq!(
            decode(&encode(5, 4096, [].into_iter()), 5, 4096),
            Some(Extents::new())
        );
    }
}
