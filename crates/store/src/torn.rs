//! How pages are kept from being torn: half new and half old, when the power
//! fails while they are written.

use crate::error::StoreError;
use iolane::File;

/// How pages are kept from being torn.
///
/// Writes that arrive whole save the copy of each page and one of two syncs of
/// a batch. They cost what merging gains: each page is an operation of its own,
/// also where neighbours are written together. And they leave no copy behind,
/// by which a page that is damaged later could be repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TornPages {
    /// By writes that arrive whole if every tablespace's file can have them,
    /// otherwise by copies.
    #[default]
    Auto,
    /// By copies in the doublewrite area.
    Doublewrite,
    /// By writes that arrive whole, or else the store is not opened.
    Atomic,
}

/// What was chosen when the store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornProtection {
    page_bytes: usize,
    atomic: bool,
    why: String,
}

impl TornProtection {
    /// Chooses for a store with these files, which are open for direct I/O or
    /// not.
    pub(crate) fn choose<'f>(
        wanted: TornPages,
        page_bytes: usize,
        mut files: impl Iterator<Item = &'f File>,
    ) -> Result<TornProtection, StoreError> {
        let chosen = |atomic, why| TornProtection {
            page_bytes,
            atomic,
            why,
        };
        if wanted == TornPages::Doublewrite {
            return Ok(chosen(false, "it was asked for".to_owned()));
        }
        let lacking = files.find_map(|file| lack(file, page_bytes).map(|what| (file, what)));
        match (lacking, wanted) {
            (None, _) => {
                let why = format!("all files take {page_bytes} bytes whole or not at all");
                Ok(chosen(true, why))
            }
            (Some((file, reason)), TornPages::Atomic) => {
                let path = file.path().to_owned();
                Err(StoreError::NoAtomicWrites { path, reason })
            }
            (Some((file, reason)), _) => {
                let why = format!("{}: {reason}", file.path().display());
                Ok(chosen(false, why))
            }
        }
    }

    /// Are pages written as wholes? If not, copies of them are written first.
    pub fn is_atomic(&self) -> bool {
        self.atomic
    }

    /// `atomic writes` or `doublewrite`.
    pub fn name(&self) -> &'static str {
        match self.atomic {
            true => "atomic writes",
            false => "doublewrite",
        }
    }

    /// Why this and not the other.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Of a file that joins the others.
    pub(crate) fn expect(&self, file: &File) -> Result<(), StoreError> {
        match lack(file, self.page_bytes).filter(|_| self.atomic) {
            None => Ok(()),
            Some(reason) => Err(StoreError::NoAtomicWrites {
                path: file.path().to_owned(),
                reason,
            }),
        }
    }
}

/// What keeps a file's pages from being written as wholes.
fn lack(file: &File, page_bytes: usize) -> Option<String> {
    match file.atomic_write_unit() {
        None if !file.is_direct() => {
            Some("it is not open for direct I/O, which atomic writes need".to_owned())
        }
        None => Some("its kernel, filesystem or device offers no atomic writes".to_owned()),
        Some(unit) if !unit.allows(page_bytes as u64) => Some(format!(
            "its atomic writes have {} to {} bytes, and a page has {page_bytes}",
            unit.min_bytes, unit.max_bytes
        )),
        Some(_) => None,
    }
}
