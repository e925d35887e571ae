//! Changes of one record, or of a few in one leaf.

use super::{Interrupt, Tree, TreeError, until_loaded};
use crate::access::{MiniTransaction, Miss, Pages};
use crate::ids::{Lsn, PageId, SegmentId};
use crate::page::Op;
use crate::page::slotted::{SLOT_BYTES, Slotted, leaf_record};
use std::borrow::Cow;
use std::convert::Infallible;

/// What shall become of a record.
#[derive(Clone, Debug)]
pub enum Decision<'v, E> {
    /// Nothing. What else the mini-transaction has changed is committed.
    Keep,
    /// The key has this value now, whether or not it had one.
    Put(Cow<'v, [u8]>),
    /// It goes, if it is there.
    Remove,
    /// Nothing, and the caller gets `E`. The mini-transaction must be without a
    /// change.
    Abort(E),
    /// A page that the decision needs must be loaded. Then it is asked for
    /// again. The mini-transaction must be without a change.
    Miss(Miss),
}

/// What the caller will allocate in the mini-transaction beside the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reserve<'s> {
    /// In which segments.
    pub segments: &'s [SegmentId],
    /// Up to how many pages in each.
    pub pages: u32,
}

/// A change that has been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modified {
    /// Up to where the log must be durable for the change to be. Means nothing
    /// where the mini-transaction has changed nothing.
    pub lsn: Lsn,
    /// Whether the key was there before.
    pub existed: bool,
}

/// Why a change has not been made.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ModifyError<E> {
    /// The tree could not.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// It was decided so.
    #[error("aborted")]
    Aborted(E),
}

/// Why a leaf is not changed now.
pub(crate) enum Stop<E> {
    /// A page must be loaded first.
    Miss(Miss),
    /// The leaf lacks room for a record of the key that led to it and a value
    /// of so many bytes: it must be split first.
    LacksRoom(usize),
    /// It shall not be.
    Abort(E),
}

impl<E> From<Miss> for Stop<E> {
    fn from(miss: Miss) -> Stop<E> {
        Stop::Miss(miss)
    }
}

/// A leaf under its exclusive latch, and the mini-transaction in which it
/// changes.
pub(crate) struct LatchedLeaf<M> {
    id: PageId,
    pub(crate) mini: M,
    /// It has less than before.
    shrunk: bool,
}

/// How an attempt ended.
enum Attempt<T, E> {
    Done {
        done: T,
        lsn: Lsn,
        /// The leaf is left with so little that it should be merged.
        emptied: bool,
    },
    Aborted(E),
    /// The leaf cannot take the longest record that may be put.
    LacksRoom(usize),
}

impl Tree {
    /// Changes the record of `key` as `decide` says, which is called with the
    /// value that it has, under the exclusive latch of its leaf, and with the
    /// mini-transaction in which the record will change: what `decide` changes
    /// there becomes durable with the record or not at all.
    ///
    /// `value_bytes_max` is the length of the longest value that `decide` may
    /// put, `None` if it puts none: the leaf has room for that before `decide`
    /// is asked, so that a decision cannot fail. `decide` is asked again only
    /// after [`Decision::Miss`]. It may latch pages that come behind leaves in
    /// the order of [`access`](crate::access), undo pages for one.
    ///
    /// # Errors
    /// [`ModifyError::Aborted`] as decided; before the decision
    /// [`TreeError::Pages`], [`TreeError::Damaged`] or the errors of lengths.
    ///
    /// # Panics
    /// If `decide` puts a value that is longer than it said.
    ///
    /// ```
    /// use iolane_store::access::memory::{MemoryOptions, MemoryPages};
    /// use iolane_store::tree::{Decision, ModifyError, Reserve, Tree};
    ///
    /// let pages = MemoryPages::new(MemoryOptions::default());
    /// let tree = Tree::create(&pages, MemoryPages::segment(0), MemoryPages::segment(1), 7)?;
    /// tree.insert(&pages, b"stock", &[1])?;
    /// let take_one = || {
    ///     tree.modify(&pages, b"stock", Some(1), Reserve::default(), |stock, _mini| match stock {
    ///         Some(&[left]) if left > 0 => Decision::Put(vec![left - 1].into()),
    ///         _ => Decision::Abort("sold out"),
    ///     })
    /// };
    /// assert!(take_one().is_ok_and(|done| done.existed));
    /// assert!(matches!(take_one(), Err(ModifyError::Aborted("sold out"))));
    /// # Ok::<(), iolane_store::tree::TreeError>(())
    /// ```
    pub fn modify<'p, 'v, P: Pages, E>(
        &self,
        pages: &'p P,
        key: &[u8],
        value_bytes_max: Option<usize>,
        reserve: Reserve<'_>,
        mut decide: impl FnMut(Option<&[u8]>, &mut P::Mini<'p>) -> Decision<'v, E>,
    ) -> Result<Modified, ModifyError<E>> {
        Tree::check_lengths(pages, key, value_bytes_max.unwrap_or(0))?;
        let (existed, lsn) = self.change_leaf(pages, key, reserve, |leaf| {
            let found = leaf.slots().search(key);
            if let Some(max) = value_bytes_max
                && !has_room(leaf.slots(), found, record_bytes(key, max))
            {
                return Err(Stop::LacksRoom(max));
            }
            // Copied, as the mini-transaction is the decision's to change.
            let existing = found.ok().map(|slot| leaf.slots().value(slot).to_vec());
            match decide(existing.as_deref(), &mut leaf.mini) {
                Decision::Keep => {}
                Decision::Put(value) => {
                    let most = value_bytes_max.map_or(0, |max| max + 1);
                    assert!(value.len() < most, "a value longer than was announced");
                    leaf.put(found, key, &value);
                }
                Decision::Remove => {
                    if let Ok(slot) = found {
                        leaf.remove(slot);
                    }
                }
                Decision::Abort(error) => return Err(Stop::Abort(error)),
                Decision::Miss(miss) => return Err(miss.into()),
            }
            Ok(existing.is_some())
        })?;
        Ok(Modified { lsn, existed })
    }

    /// Calls `change` with the leaf of `key`, and the mini-transaction in which
    /// it changes, until that says neither that a page is missing nor that the
    /// leaf lacks room. Who stops has changed nothing. `change` latches other
    /// pages as a decision of [`modify`](Self::modify) may.
    ///
    /// Returns what it returned, and up to where the log must be durable for the
    /// change to be.
    ///
    /// # Errors
    /// As [`modify`](Self::modify).
    pub(crate) fn change_leaf<'p, P: Pages, T, E>(
        &self,
        pages: &'p P,
        key: &[u8],
        reserve: Reserve<'_>,
        mut change: impl FnMut(&mut LatchedLeaf<P::Mini<'p>>) -> Result<T, Stop<E>>,
    ) -> Result<(T, Lsn), ModifyError<E>> {
        loop {
            let attempt = until_loaded(pages, || {
                let mini = pages.begin(reserve.segments, reserve.pages)?;
                self.attempt(pages, mini, key, &mut change)
            })?;
            match attempt {
                Attempt::Done { done, lsn, emptied } => {
                    if emptied {
                        self.settle(pages, key);
                    }
                    return Ok((done, lsn));
                }
                Attempt::Aborted(error) => return Err(ModifyError::Aborted(error)),
                Attempt::LacksRoom(value_bytes) => {
                    self.make_room(pages, key, record_bytes(key, value_bytes), 0)?;
                }
            }
        }
    }

    fn attempt<'p, P: Pages, T, E>(
        &self,
        pages: &'p P,
        mut mini: P::Mini<'p>,
        key: &[u8],
        change: &mut impl FnMut(&mut LatchedLeaf<P::Mini<'p>>) -> Result<T, Stop<E>>,
    ) -> Result<Attempt<T, E>, Interrupt> {
        let id = self.exclusive_at(pages, &mut mini, key, 0)?;
        let mut leaf = LatchedLeaf {
            id: id.expect("every tree has leaves"),
            mini,
            shrunk: false,
        };
        match change(&mut leaf) {
            Ok(done) => Ok(Attempt::Done {
                done,
                emptied: leaf.shrunk && self.is_underfull(leaf.id, leaf.mini.page(leaf.id)),
                lsn: leaf.mini.commit(),
            }),
            Err(Stop::Miss(miss)) => Err(miss.into()),
            Err(Stop::LacksRoom(value_bytes)) => Ok(Attempt::LacksRoom(value_bytes)),
            Err(Stop::Abort(error)) => Ok(Attempt::Aborted(error)),
        }
    }

    /// Inserts a record. `false`, and nothing changed, if the key is there.
    ///
    /// # Errors
    /// As [`modify`](Self::modify).
    pub fn insert<P: Pages>(&self, pages: &P, key: &[u8], value: &[u8]) -> Result<bool, TreeError> {
        let modified = self.simply(pages, key, Some(value.len()), |existing| match existing {
            Some(_) => Decision::Keep,
            None => Decision::Put(Cow::Borrowed(value)),
        })?;
        Ok(!modified.existed)
    }

    /// Inserts a record, or replaces its value. Returns whether it replaced.
    ///
    /// # Errors
    /// As [`modify`](Self::modify).
    pub fn put<P: Pages>(&self, pages: &P, key: &[u8], value: &[u8]) -> Result<bool, TreeError> {
        let put = |_: Option<&[u8]>| Decision::Put(Cow::Borrowed(value));
        Ok(self.simply(pages, key, Some(value.len()), put)?.existed)
    }

    /// Replaces the value of a key. `false`, and nothing changed, if it is not
    /// there.
    ///
    /// # Errors
    /// As [`modify`](Self::modify).
    pub fn replace<P: Pages>(
        &self,
        pages: &P,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, TreeError> {
        let modified = self.simply(pages, key, Some(value.len()), |existing| match existing {
            Some(_) => Decision::Put(Cow::Borrowed(value)),
            None => Decision::Keep,
        })?;
        Ok(modified.existed)
    }

    /// Removes a record. `false` if it is not there.
    ///
    /// # Errors
    /// As [`modify`](Self::modify).
    pub fn remove<P: Pages>(&self, pages: &P, key: &[u8]) -> Result<bool, TreeError> {
        Ok(self.simply(pages, key, None, |_| Decision::Remove)?.existed)
    }

    /// A change that is of the tree alone.
    fn simply<'v, P: Pages>(
        &self,
        pages: &P,
        key: &[u8],
        value_bytes_max: Option<usize>,
        decide: impl Fn(Option<&[u8]>) -> Decision<'v, Infallible>,
    ) -> Result<Modified, TreeError> {
        let reserve = Reserve::default();
        self.modify(pages, key, value_bytes_max, reserve, |existing, _| {
            decide(existing)
        })
        .map_err(|error| match error {
            ModifyError::Tree(error) => error,
            ModifyError::Aborted(never) => match never {},
        })
    }
}

/// Bytes of the record of a key with a value of so many.
fn record_bytes(key: &[u8], value_bytes: usize) -> usize {
    2 + key.len() + value_bytes
}

/// Bytes that a record of so many takes in a page beyond what its place, where
/// the search for its key ended, has now.
fn needed_bytes(slots: Slotted<'_>, found: Result<usize, usize>, record_bytes: usize) -> usize {
    match found {
        Ok(slot) => record_bytes.saturating_sub(slots.record(slot).len()),
        Err(_) => record_bytes + SLOT_BYTES,
    }
}

/// Whether a page has room for such a record.
pub(super) fn has_room(
    slots: Slotted<'_>,
    found: Result<usize, usize>,
    record_bytes: usize,
) -> bool {
    needed_bytes(slots, found, record_bytes) <= slots.free_bytes()
}

impl<M: MiniTransaction> LatchedLeaf<M> {
    /// Its records.
    pub(crate) fn slots(&self) -> Slotted<'_> {
        Slotted::new(self.mini.page(self.id))
    }

    /// Bytes that the record of a key with a value of so many takes beyond what
    /// its place, where the search for the key ended, has now.
    pub(crate) fn needed_bytes(
        &self,
        found: Result<usize, usize>,
        key: &[u8],
        value_bytes: usize,
    ) -> usize {
        needed_bytes(self.slots(), found, record_bytes(key, value_bytes))
    }

    /// Puts a value where the search for its key ended, where there is room for
    /// it.
    pub(crate) fn put(&mut self, found: Result<usize, usize>, key: &[u8], value: &[u8]) {
        let old_bytes = found.map(|slot| self.slots().value(slot).len());
        if let Ok(slot) = found
            && old_bytes == Ok(value.len())
        {
            return self.patch(slot, value);
        }
        self.shrunk |= old_bytes.is_ok_and(|old_bytes| value.len() < old_bytes);
        let mut record = Vec::with_capacity(record_bytes(key, value.len()));
        leaf_record(key, value, &mut record);
        let record = &record[..];
        let op = match found {
            Ok(slot) => Op::Replace {
                slot: slot as u16,
                record,
            },
            Err(slot) => Op::Insert {
                slot: slot as u16,
                record,
            },
        };
        self.mini.apply(self.id, &op);
    }

    /// Overwrites a value by one of the same length. Logs only the bytes from
    /// the first that differs to the last: of an update, mostly a few.
    fn patch(&mut self, slot: usize, new: &[u8]) {
        let slots = self.slots();
        let old = slots.value(slot);
        let differs = |(a, b): (&u8, &u8)| a != b;
        let Some(first) = old.iter().zip(new).position(differs) else {
            return;
        };
        let last = old.iter().zip(new).rposition(differs).unwrap_or(first);
        let offset = slots.value_offset(slot) + first;
        self.mini.apply(
            self.id,
            &Op::Patch {
                offset: u16::try_from(offset).expect("within a page"),
                bytes: &new[first..=last],
            },
        );
    }

    fn remove(&mut self, slot: usize) {
        let from = slot as u16;
        self.mini.apply(self.id, &Op::Remove { from, to: from + 1 });
        self.shrunk = true;
    }
}
