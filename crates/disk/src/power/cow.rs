//! Contents in layers: a copy costs its differences, not its size.

use crate::medium::Medium;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Contents are shared and copied in pieces of this size.
const PAGE_BYTES: usize = 4096;

/// Layers that a read may have to look through. One more, and they become one.
const LAYERS_MAX: u32 = 4;

type Page = [u8; PAGE_BYTES];

/// What a file holds: pages of its own over those of another, which it does
/// not change. What lies in neither is zeros.
#[derive(Clone, Default)]
pub(crate) struct Pages {
    size_bytes: u64,
    /// Bytes behind the end are zeros.
    own: HashMap<u64, Arc<Page>>,
    below: Option<Arc<Pages>>,
    /// From here on nothing of `below` is seen: the file was cut there.
    below_end: u64,
    layers_below: u32,
}

/// The pieces of a range by page: the page's number, where in it, how much.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let page = PAGE_BYTES as u64;
    let end = offset + length as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let next = end.min((at / page + 1) * page);
        let piece = (at / page, (at % page) as usize, (next - at) as usize);
        at = next;
        Some(piece)
    })
}

impl Pages {
    /// The same contents, to be changed without changing `below`.
    pub(crate) fn over(below: Arc<Pages>) -> Pages {
        if below.layers_below + 1 >= LAYERS_MAX {
            return below.flat();
        }
        Pages {
            size_bytes: below.size_bytes,
            own: HashMap::new(),
            below_end: below.size_bytes,
            layers_below: below.layers_below + 1,
            below: Some(below),
        }
    }

    /// In one layer. Copies no page, except those that were cut.
    fn flat(&self) -> Pages {
        let mut numbers: Vec<u64> = Vec::new();
        let mut layer = Some(self);
        while let Some(pages) = layer {
            numbers.extend(pages.own.keys());
            layer = pages.below.as_deref();
        }
        numbers.sort_unstable();
        numbers.dedup();
        let own = numbers
            .into_iter()
            .filter_map(|number| Some((number, self.page(number)?)))
            .collect();
        Pages {
            size_bytes: self.size_bytes,
            own,
            below: None,
            below_end: 0,
            layers_below: 0,
        }
    }

    /// The page as it is seen through all layers; `None`: zeros.
    fn page(&self, number: u64) -> Option<Arc<Page>> {
        let start = number * PAGE_BYTES as u64;
        let mut seen_end = u64::MAX;
        let mut layer = self;
        loop {
            if let Some(page) = layer.own.get(&number) {
                let mut page = Arc::clone(page);
                let seen = seen_end.saturating_sub(start);
                if seen < PAGE_BYTES as u64 {
                    Arc::make_mut(&mut page)[seen as usize..].fill(0);
                }
                return Some(page);
            }
            seen_end = seen_end.min(layer.below_end);
            match &layer.below {
                Some(below) if start < seen_end => layer = below,
                _ => return None,
            }
        }
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Reads up to the end.
    pub(crate) fn read(&self, offset: u64, memory: &mut [u8]) -> usize {
        let left = self.size_bytes.saturating_sub(offset);
        let length = memory
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut rest = &mut memory[..length];
        for (number, within, length) in pieces(offset, length) {
            let (piece, tail) = rest.split_at_mut(length);
            match self.page(number) {
                Some(page) => piece.copy_from_slice(&page[within..within + length]),
                None => piece.fill(0),
            }
            rest = tail;
        }
        length
    }

    /// Writes, and extends the file where it has to.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let mut rest = data;
        for (number, within, length) in pieces(offset, data.len()) {
            let (piece, tail) = rest.split_at(length);
            rest = tail;
            if !self.own.contains_key(&number) {
                let whole = length == PAGE_BYTES;
                let old = if whole { None } else { self.page(number) };
                self.own
                    .insert(number, old.unwrap_or_else(|| Arc::new([0; PAGE_BYTES])));
            }
            if let Some(page) = self.own.get_mut(&number) {
                Arc::make_mut(page)[within..within + length].copy_from_slice(piece);
            }
        }
        self.size_bytes = self.size_bytes.max(offset + data.len() as u64);
    }

    pub(crate) fn resize(&mut self, size_bytes: u64) {
        if size_bytes < self.size_bytes {
            self.below_end = self.below_end.min(size_bytes);
            let page = PAGE_BYTES as u64;
            self.own.retain(|number, _| number * page < size_bytes);
            if let Some(last) = self.own.get_mut(&(size_bytes / page)) {
                Arc::make_mut(last)[(size_bytes % page) as usize..].fill(0);
            }
        }
        self.size_bytes = size_bytes;
    }
}

/// Memory as medium, with an end that moves like a file's: writes behind it
/// extend it, reads stop at it (and read 0 bytes behind it). Holds only what
/// was written.
///
/// ```
/// use iolane_disk::{Medium, power::CowMedium};
///
/// let medium = CowMedium::new();
/// medium.write(10_000, b"end")?;
/// assert_eq!(medium.size_bytes(), 10_003);
/// let copy = medium.copy();
/// copy.resize(5);
/// assert_eq!((copy.size_bytes(), medium.size_bytes()), (5, 10_003));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Default)]
pub struct CowMedium {
    pages: RwLock<Pages>,
}

impl CowMedium {
    /// Empty.
    pub fn new() -> CowMedium {
        CowMedium::default()
    }

    pub(crate) fn over(below: Arc<Pages>) -> CowMedium {
        CowMedium {
            pages: RwLock::new(Pages::over(below)),
        }
    }

    /// Everything that `medium` holds, pages of zeros left out.
    ///
    /// # Errors
    /// The medium's.
    pub fn of(medium: &dyn Medium) -> io::Result<CowMedium> {
        let mut pages = Pages::default();
        let size_bytes = medium.size_bytes();
        let mut piece = vec![0; 256 << 10];
        let mut at = 0;
        while at < size_bytes {
            let length = (piece.len() as u64).min(size_bytes - at) as usize;
            let read = medium.read(at, &mut piece[..length])?;
            if read == 0 {
                break;
            }
            for (number, chunk) in piece[..read].chunks(PAGE_BYTES).enumerate() {
                if chunk.iter().any(|byte| *byte != 0) {
                    pages.write(at + (number * PAGE_BYTES) as u64, chunk);
                }
            }
            at += read as u64;
        }
        pages.resize(size_bytes);
        Ok(CowMedium {
            pages: RwLock::new(pages),
        })
    }

    /// Moves the end. What lies behind a new end is gone.
    pub fn resize(&self, size_bytes: u64) {
        self.lock().resize(size_bytes);
    }

    /// A medium of its own with the same contents. Copies no page before it
    /// is written.
    pub fn copy(&self) -> CowMedium {
        CowMedium {
            pages: RwLock::new(self.look().clone()),
        }
    }

    pub(crate) fn snapshot(&self) -> Arc<Pages> {
        Arc::new(self.look().clone())
    }

    fn look(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Pages> {
        self.pages.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Medium for CowMedium {
    fn size_bytes(&self) -> u64 {
        self.look().size_bytes()
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> io::Result<usize> {
        Ok(self.look().read(offset, memory))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        if offset.checked_add(data.len() as u64).is_none() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.lock().write(offset, data);
        Ok(data.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::draw::Draw;

    fn all(pages: &Pages) -> Vec<u8> {
        let mut bytes = vec![9; pages.size_bytes() as usize + 10];
        let length = pages.read(0, &mut bytes);
        assert_eq!(length as u64, pages.size_bytes());
        bytes.truncate(length);
        bytes
    }

    /// Random writes, cuts, extensions and copies, against plain vectors.
    #[test]
    fn layers_hold_what_a_vector_holds() {
        for seed in 0..60 {
            let mut draw = Draw::new(seed, 0, 0);
            let mut models: Vec<(Pages, Vec<u8>)> = vec![(Pages::default(), Vec::new())];
            for step in 0..120u64 {
                let which = draw.below(models.len() as u64) as usize;
                if draw.below(6) == 0 && models.len() < 10 {
                    let (pages, bytes) = models[which].clone();
                    let below = Arc::new(pages);
                    models.push((Pages::over(Arc::clone(&below)), bytes.clone()));
                    // The layer below stays as it is.
                    models.push((Arc::unwrap_or_clone(below), bytes));
                    continue;
                }
                let (pages, bytes) = &mut models[which];
                if draw.below(4) == 0 {
                    let size = draw.below(5 * PAGE_BYTES as u64);
                    pages.resize(size);
                    bytes.resize(size as usize, 0);
                } else {
                    let offset = draw.below(4 * PAGE_BYTES as u64) as usize;
                    let length = 1 + draw.below(2 * PAGE_BYTES as u64) as usize;
                    let data = vec![step as u8 + 1; length];
                    pages.write(offset as u64, &data);
                    bytes.resize(bytes.len().max(offset + length), 0);
                    bytes[offset..offset + length].copy_from_slice(&data);
                }
                for (pages, bytes) in &models {
                    assert!(all(pages) == *bytes, "seed {seed}, step {step}");
                    assert!(pages.layers_below < LAYERS_MAX);
                }
            }
        }
    }

    #[test]
    fn a_copy_of_a_medium_leaves_zeros_out() {
        let medium = crate::medium::MemoryMedium::new(1 << 20);
        medium.write(500_000, &[7; 100]).unwrap();
        let copy = CowMedium::of(&medium).unwrap();
        assert_eq!(copy.size_bytes(), 1 << 20);
        assert_eq!(copy.look().own.len(), 1);
        let mut back = [0; 100];
        copy.read(500_000, &mut back).unwrap();
        assert_eq!(back, [7; 100]);
    }
}
