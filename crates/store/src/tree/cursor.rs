//! Cursors: the records of a range in order, one leaf at a time.

use super::descend::{Aim, Fences};
use super::{Interrupt, Leaves, Tree, TreeError};
use crate::access::Pages;
use crate::attempt::Loads;
use crate::ids::PageId;
use crate::page::slotted::{Slotted, record_parts};
use std::ops::{Bound, Range, RangeBounds};

/// Which way a range is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From its least key up.
    Forward,
    /// From its greatest key down.
    Backward,
}

/// A key and its value.
pub type Record<'a> = (&'a [u8], &'a [u8]);

/// Walks the records of a range of keys.
///
/// It copies what it needs of one leaf, holds no latch between calls, and goes on from the fence
/// of what it has copied. So it sees each leaf as it was at one moment: a
/// record that is there all the time is seen once, and in order, whatever else
/// changes; one that comes or goes meanwhile may be seen or not. Its memory is
/// one page and a few keys.
///
/// ```
/// use iolane_store::access::memory::{MemoryOptions, MemoryPages};
/// use iolane_store::tree::{Direction, Tree};
/// use std::ops::Bound;
///
/// let pages = MemoryPages::new(MemoryOptions::default());
/// let tree = Tree::create(&pages, MemoryPages::segment(0), MemoryPages::segment(1), 7)?;
/// tree.bulk_load(&pages, [("a", "1"), ("b", "2"), ("c", "3")], 100)?;
/// let mut cursor = tree.cursor(Bound::Unbounded, Bound::Excluded(b"c"), Direction::Backward);
/// assert_eq!(cursor.next(&pages)?, Some((&b"b"[..], &b"2"[..])));
/// assert_eq!(cursor.next(&pages)?, Some((&b"a"[..], &b"1"[..])));
/// assert_eq!(cursor.next(&pages)?, None);
/// # Ok::<(), iolane_store::tree::TreeError>(())
/// ```
pub struct Cursor {
    tree: Tree,
    direction: Direction,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    fences: Fences,
    /// What was copied, and of which leaf.
    copy: Vec<u8>,
    leaf: Option<PageId>,
    /// Where in the copy the records of the range are, in the order of the
    /// keys, and which of them are still to come.
    spans: Vec<Range<usize>>,
    left: Range<usize>,
    /// No other leaf has keys of the range.
    last: bool,
}

/// Is told where a cursor is, to read ahead of it.
pub(crate) trait Watch {
    /// It has to wait for a page, and will come to the leaves of `rest` then.
    fn waits_for(&mut self, page: PageId, rest: impl FnOnce() -> Leaves);

    /// It has copied the records in these slots of a leaf, and still holds its latch.
    fn copied(&mut self, _slots: Slotted<'_>, _range: Range<usize>) {}

    /// It has copied what it needs of a leaf.
    fn came_to(&mut self, leaf: PageId);
}

/// Nobody watches.
impl Watch for () {
    fn waits_for(&mut self, _page: PageId, _rest: impl FnOnce() -> Leaves) {}

    fn came_to(&mut self, _leaf: PageId) {}
}

impl Tree {
    /// A cursor before the first record of a range, in its direction.
    pub fn cursor(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, direction: Direction) -> Cursor {
        Cursor {
            tree: *self,
            direction,
            lower: lower.map(<[u8]>::to_vec),
            upper: upper.map(<[u8]>::to_vec),
            fences: Fences::default(),
            copy: Vec::new(),
            leaf: None,
            spans: Vec::new(),
            left: 0..0,
            last: false,
        }
    }
}

impl Cursor {
    /// The next record, `None` behind the last. Waits for pages that are
    /// missing.
    ///
    /// # Errors
    /// [`TreeError::Pages`], [`TreeError::Damaged`]. The next call tries again.
    pub fn next<P: Pages>(&mut self, pages: &P) -> Result<Option<Record<'_>>, TreeError> {
        self.next_watched(pages, &mut ())
    }

    /// The same for one who is watched.
    pub(crate) fn next_watched<P: Pages>(
        &mut self,
        pages: &P,
        watch: &mut impl Watch,
    ) -> Result<Option<Record<'_>>, TreeError> {
        let mut loads = Loads::default();
        while self.left.is_empty() && !self.last {
            match self.advance(pages, watch) {
                Ok(()) => {}
                Err(Interrupt::Miss(miss)) => {
                    self.waits_for(miss.0, watch);
                    loads.load(pages, miss)?;
                }
                Err(Interrupt::Error(error)) => return Err(error),
            }
        }
        Ok(self.take())
    }

    /// The same, but does not wait.
    ///
    /// # Errors
    /// [`Interrupt::Miss`] if a page is not in memory; after loading it the
    /// cursor goes on where it was.
    pub(crate) fn try_next<P: Pages>(
        &mut self,
        pages: &P,
        watch: &mut impl Watch,
    ) -> Result<Option<Record<'_>>, Interrupt> {
        while self.left.is_empty() && !self.last {
            self.advance(pages, watch)?;
        }
        Ok(self.take())
    }

    /// Tells who watches that it has to wait.
    pub(crate) fn waits_for(&self, page: PageId, watch: &mut impl Watch) {
        watch.waits_for(page, || {
            self.tree
                .leaves(as_slice(&self.lower), as_slice(&self.upper), self.direction)
        });
    }

    fn take(&mut self) -> Option<Record<'_>> {
        let at = match self.direction {
            Direction::Forward => self.left.next(),
            Direction::Backward => self.left.next_back(),
        }?;
        Some(record_parts(
            self.copy.get(self.spans[at].clone()).unwrap_or(&[]),
        ))
    }

    /// Which of the records that were copied of a leaf, counted from its beginning, came
    /// last.
    pub(crate) fn taken(&self) -> usize {
        match self.direction {
            Direction::Forward => self.left.start.saturating_sub(1),
            Direction::Backward => self.left.end,
        }
    }

    /// Whether it is through with a key, where it has come to another.
    pub(crate) fn has_passed(&self, key: &[u8], came_to: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => key < came_to,
            Direction::Backward => key > came_to,
        }
    }

    /// Goes on behind a key as the tree is now: what has come into the leaf since that was copied
    /// comes, too.
    pub(crate) fn go_on_from(&mut self, key: &[u8]) {
        let bound = match self.direction {
            Direction::Forward => &mut self.lower,
            Direction::Backward => &mut self.upper,
        };
        set_key(bound, key, Bound::Excluded);
        self.left = 0..0;
        self.last = false;
    }

    /// Is before the first record of a range again, in its direction.
    pub(crate) fn begin_again(&mut self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) {
        *self = self.tree.cursor(lower, upper, self.direction);
    }

    /// Whether all that was copied of a leaf has been taken: the next record, if
    /// there is one, is in another.
    pub(crate) fn is_through_leaf(&self) -> bool {
        self.left.is_empty()
    }

    /// The range, less the leaves that it is through with.
    pub(crate) fn range(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (as_slice(&self.lower), as_slice(&self.upper))
    }

    /// The leaf that the last record was copied from.
    pub fn leaf(&self) -> Option<PageId> {
        self.leaf
    }

    /// Copies the next leaf and notes where the one behind it begins.
    fn advance<P: Pages>(&mut self, pages: &P, watch: &mut impl Watch) -> Result<(), Interrupt> {
        let aim = match self.direction {
            Direction::Forward => Aim::first(&self.lower),
            Direction::Backward => Aim::last(&self.upper),
        };
        self.fences.reset();
        let fences = &mut self.fences;
        let (leaf, id) = self
            .tree
            .shared_at(pages, aim, 0, |slots, slot| fences.narrow(slots, slot))?;
        let slots = Slotted::new(&leaf);
        let range = within(slots, &self.lower, &self.upper);
        copy_records(&leaf, slots, range.clone(), &mut self.copy, &mut self.spans);
        watch.copied(slots, range);
        drop(leaf);
        self.leaf = Some(id);
        self.left = 0..self.spans.len();
        self.pass();
        watch.came_to(id);
        Ok(())
    }

    /// Is done with the page between the fences: a leaf that it has copied, or,
    /// after an error, what it could not read.
    pub(crate) fn pass(&mut self) {
        self.last = match self.direction {
            Direction::Forward => ends_before(self.fences.upper(), &self.upper, &mut self.lower),
            Direction::Backward => begins_after(&self.fences.lower, &self.lower, &mut self.upper),
        };
    }
}

/// Whether a key is in a range.
pub(crate) fn is_within(range: (Bound<&[u8]>, Bound<&[u8]>), key: &[u8]) -> bool {
    RangeBounds::<[u8]>::contains(&range, key)
}

/// A bound of a key that somebody else has.
pub(crate) fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Copies some records of a page and notes where in the copy they are.
fn copy_records(
    page: &[u8],
    slots: Slotted<'_>,
    range: Range<usize>,
    copy: &mut Vec<u8>,
    spans: &mut Vec<Range<usize>>,
) {
    copy.clear();
    spans.clear();
    if range.len() > slots.count() / 4 {
        // In one go: cheaper than record by record from about there.
        copy.extend_from_slice(page);
        spans.extend(range.map(|slot| slots.span(slot)));
        return;
    }
    for slot in range {
        let start = copy.len();
        copy.extend_from_slice(slots.record(slot));
        spans.push(start..copy.len());
    }
}

/// The slots of a page whose keys are within bounds.
fn within(slots: Slotted<'_>, lower: &Bound<Vec<u8>>, upper: &Bound<Vec<u8>>) -> Range<usize> {
    let from = match lower {
        Bound::Included(key) => slots.search(key).unwrap_or_else(|slot| slot),
        Bound::Excluded(key) => slots.search(key).map_or_else(|slot| slot, |slot| slot + 1),
        Bound::Unbounded => 0,
    };
    let to = match upper {
        Bound::Included(key) => slots.search(key).map_or_else(|slot| slot, |slot| slot + 1),
        Bound::Excluded(key) => slots.search(key).unwrap_or_else(|slot| slot),
        Bound::Unbounded => slots.count(),
    };
    from..to
}

/// Whether a range ends before the fence above a page. If not, what is left of
/// it begins there.
pub(super) fn ends_before(
    fence: Option<&[u8]>,
    upper: &Bound<Vec<u8>>,
    lower: &mut Bound<Vec<u8>>,
) -> bool {
    let Some(fence) = fence else {
        return true;
    };
    let ends = match upper {
        Bound::Included(key) => fence > &key[..],
        Bound::Excluded(key) => fence >= &key[..],
        Bound::Unbounded => false,
    };
    if !ends {
        set_key(lower, fence, Bound::Included);
    }
    ends
}

/// Whether a range begins at or after the least key that a page may have. If
/// not, what is left of it ends before that.
pub(super) fn begins_after(
    fence: &[u8],
    lower: &Bound<Vec<u8>>,
    upper: &mut Bound<Vec<u8>>,
) -> bool {
    let begins = match lower {
        Bound::Included(key) | Bound::Excluded(key) => fence <= &key[..],
        Bound::Unbounded => fence.is_empty(),
    };
    if !begins {
        set_key(upper, fence, Bound::Excluded);
    }
    begins
}

/// Makes a bound one at `key`, in the memory that it has.
fn set_key(bound: &mut Bound<Vec<u8>>, key: &[u8], kind: fn(Vec<u8>) -> Bound<Vec<u8>>) {
    let mut bytes = match std::mem::replace(bound, Bound::Unbounded) {
        Bound::Included(bytes) | Bound::Excluded(bytes) => bytes,
        Bound::Unbounded => Vec::new(),
    };
    bytes.clear();
    bytes.extend_from_slice(key);
    *bound = kind(bytes);
}
