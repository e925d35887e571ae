//! What a store of pages is made with.

use crate::error::StoreError;
use crate::flush::Flusher;
use crate::ids::PAGE_BYTES_DEFAULT;
use crate::names::{Names, SystemNames};
use crate::policy::IoPolicy;
use crate::torn::TornPages;
use iolane::Arena;
use std::sync::Arc;

/// Smallest and largest page.
pub(super) const PAGE_BYTES: std::ops::RangeInclusive<usize> = 4 << 10..=64 << 10;
/// A process has 1024 descriptors unless it asks for more, and other uses for them.
const FILES_MAX_DEFAULT: usize = 256;
/// Mini-transactions of this many new pages, four at a time, must fit the log.
const LOG_NEW_PAGES: usize = 32;

/// How a store of pages is made and opened.
#[derive(Clone, Debug)]
pub struct PageStoreOptions {
    /// Bytes of a page, when it is made: a power of two from 4 to 64 KiB.
    pub page_bytes: usize,
    /// Bytes of pages kept in memory.
    pub pool_bytes: u64,
    /// Bytes of the redo log, when it is made.
    pub log_bytes: u64,
    /// Tablespaces' files that are kept open, at least 2; others are opened when
    /// their pages are needed. Beside these are open: those of pages that are
    /// being read or written, 128 for writing and one for each thread that reads.
    pub files_max: usize,
    /// Are tablespaces read and written past the page cache?
    pub direct: bool,
    /// Memory for the pool, of at least [`arena_bytes`](Self::arena_bytes);
    /// otherwise it makes its own.
    pub arena: Option<Arena>,
    /// How pages are kept from being torn.
    pub torn_pages: TornPages,
    /// How eagerly it reads ahead and writes.
    pub io: IoPolicy,
    /// Who knows its files by name.
    pub names: Arc<dyn Names>,
}

impl Default for PageStoreOptions {
    fn default() -> PageStoreOptions {
        PageStoreOptions {
            page_bytes: PAGE_BYTES_DEFAULT,
            pool_bytes: 128 << 20,
            log_bytes: 64 << 20,
            files_max: FILES_MAX_DEFAULT,
            direct: true,
            arena: None,
            torn_pages: TornPages::default(),
            io: IoPolicy::default(),
            names: Arc::new(SystemNames),
        }
    }
}

impl PageStoreOptions {
    /// # Errors
    /// [`StoreError::Option`]: no store can be made so.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let page_bytes = self.page_bytes;
        if !page_bytes.is_power_of_two() || !PAGE_BYTES.contains(&page_bytes) {
            return Err(StoreError::Option(format!(
                "pages of {page_bytes} bytes: choose a power of two from {} to {}",
                PAGE_BYTES.start(),
                PAGE_BYTES.end()
            )));
        }
        let needed = 4 * crate::mini::log_bytes(page_bytes, LOG_NEW_PAGES) as u64;
        if self.log_bytes < needed {
            return Err(StoreError::Option(format!(
                "a log of {} bytes is too small for pages of {page_bytes}: give it at least {needed}",
                self.log_bytes
            )));
        }
        Ok(())
    }

    /// Bytes of an arena that the pool and the flusher fit into.
    pub fn arena_bytes(&self) -> u64 {
        let frames = (self.pool_bytes / self.page_bytes as u64) as usize;
        self.pool_bytes + (Flusher::pages(frames) * self.page_bytes) as u64
    }
}
