//! Loading sorted records into an empty tree: full pages, bottom-up, each
//! written once.

use super::split::separator_between;
use super::{Interrupt, Tree, TreeError, until_loaded};
use crate::access::{MiniTransaction, Pages};
use crate::ids::{Lsn, PageId};
use crate::page::Op;
use crate::page::header;
use crate::page::slotted::{Slotted, capacity, footprint, put_record};
use crate::unlogged::NewPages;

/// A load that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Records loaded.
    pub records: u64,
    /// Up to where the log must be durable for the load to be.
    pub lsn: Lsn,
}

/// The page of a level that is being filled.
struct Filling {
    /// Its records, as [`Op::InsertMany`] takes them.
    records: Vec<u8>,
    /// Bytes that these and their slots take in a page.
    used_bytes: usize,
    /// The least key that it may have.
    separator: Vec<u8>,
    /// The page of its level before it: the next one shall lie beside it.
    neighbour: Option<PageId>,
}

/// A load under way: takes records whose keys ascend.
pub(crate) struct TreeLoader<'a, P: Pages> {
    tree: Tree,
    pages: &'a P,
    /// Bytes of records and slots that a page gets.
    fill_bytes: usize,
    /// From the leaves up.
    levels: Vec<Filling>,
    records: u64,
    last_key: Vec<u8>,
    /// Makes the leaves, if they are not to be logged.
    leaves: Option<Box<dyn NewPages + 'a>>,
}

impl Tree {
    /// Loads records whose keys ascend into an empty tree. Of a page
    /// `fill_percent` are used, at least half: 100 where few records will come
    /// between them.
    ///
    /// The pages are reachable only when the last mini-transaction has written
    /// the root. Before that, a crash or an error leaves an empty tree and
    /// pages that nobody points to: so load a tree whose segments nobody knows
    /// yet, and drop them if it does not end well. Nobody else may change the
    /// tree meanwhile.
    ///
    /// # Errors
    /// [`TreeError::NotEmpty`], [`TreeError::Unsorted`] (equal keys too), and
    /// those of lengths and pages.
    pub fn bulk_load<P: Pages, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        pages: &P,
        records: impl IntoIterator<Item = (K, V)>,
        fill_percent: u32,
    ) -> Result<Loaded, TreeError> {
        let mut loader = self.loader(pages, fill_percent, None)?;
        for (key, value) in records {
            loader.push(key.as_ref(), value.as_ref())?;
        }
        loader.finish()
    }

    /// The same, record by record. What makes the leaves is used for those that
    /// are not the root.
    pub(crate) fn loader<'a, P: Pages>(
        &self,
        pages: &'a P,
        fill_percent: u32,
        leaves: Option<Box<dyn NewPages + 'a>>,
    ) -> Result<TreeLoader<'a, P>, TreeError> {
        let empty = until_loaded(pages, || {
            let root = pages.shared(self.root)?;
            self.expect(&root, self.root, None)?;
            Ok(header::level(&root) == 0 && Slotted::new(&root).is_empty())
        })?;
        if !empty {
            return Err(TreeError::NotEmpty);
        }
        let fill = fill_percent.clamp(50, 100) as usize;
        Ok(TreeLoader {
            tree: *self,
            pages,
            fill_bytes: capacity(pages.page_bytes()) * fill / 100,
            levels: vec![Filling::new(Vec::new())],
            records: 0,
            last_key: Vec::new(),
            leaves,
        })
    }
}

impl<P: Pages> TreeLoader<'_, P> {
    /// Whether `key` is above all that were pushed.
    pub(crate) fn is_above(&self, key: &[u8]) -> bool {
        self.records == 0 || key > &self.last_key[..]
    }

    /// Appends a record.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), TreeError> {
        Tree::check_lengths(self.pages, key, value.len())?;
        if !self.is_above(key) {
            return Err(TreeError::Unsorted {
                position: self.records,
            });
        }
        if !self.fits(0, footprint(key.len(), value.len())) {
            self.next_page(0, separator_between(&self.last_key, key))?;
        }
        self.levels[0].append(key, value);
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.records += 1;
        Ok(())
    }

    fn fits(&self, level: usize, footprint: usize) -> bool {
        let filling = &self.levels[level];
        // One has room in any page.
        filling.records.is_empty() || filling.used_bytes + footprint <= self.fill_bytes
    }

    /// Writes the page of a level, tells its parent, and begins the next, which
    /// has the keys from `separator` on.
    fn next_page(&mut self, level: usize, separator: Vec<u8>) -> Result<(), TreeError> {
        self.write_below(level)?;
        let filling = &mut self.levels[level];
        filling.records.clear();
        filling.used_bytes = 0;
        filling.separator = separator;
        Ok(())
    }

    /// Writes the page of a level that is not the root, and enters it in its
    /// parent.
    fn write_below(&mut self, level: usize) -> Result<(), TreeError> {
        let filling = &self.levels[level];
        let id = match &mut self.leaves {
            Some(leaves) if level == 0 => {
                let ops = page_of(&self.tree, 0, &filling.records);
                leaves.add(&mut |id, page| {
                    for op in &ops {
                        op.apply(page, id).expect("as many as fit");
                    }
                })?
            }
            _ => {
                let segment = self.tree.segment_of(level as u8);
                let mut mini = self.pages.begin(&[segment], 1)?;
                let id = mini.allocate(segment, filling.neighbour);
                write(&mut mini, &self.tree, id, level as u8, &filling.records);
                mini.commit();
                id
            }
        };
        self.levels[level].neighbour = Some(id);

        let separator = std::mem::take(&mut self.levels[level].separator);
        let parent = level + 1;
        if parent == self.levels.len() {
            self.levels.push(Filling::new(Vec::new()));
        }
        if !self.fits(parent, footprint(separator.len(), 4)) {
            self.next_page(parent, separator.clone())?;
        }
        self.levels[parent].append(&separator, &id.page.to_le_bytes());
        Ok(())
    }

    /// Writes what is still being filled, the highest level into the root.
    pub(crate) fn finish(mut self) -> Result<Loaded, TreeError> {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            self.write_below(level)?;
            level += 1;
        }
        if let Some(leaves) = &mut self.leaves {
            leaves.finish()?;
        }
        let root = self.tree.root;
        let lsn = until_loaded(self.pages, || {
            let mut mini = self.pages.begin(&[], 0)?;
            mini.exclusive(root)?;
            if !Slotted::new(mini.page(root)).is_empty() {
                return Err(Interrupt::Error(TreeError::NotEmpty));
            }
            write(
                &mut mini,
                &self.tree,
                root,
                level as u8,
                &self.levels[level].records,
            );
            Ok(mini.commit())
        })?;
        Ok(Loaded {
            records: self.records,
            lsn,
        })
    }
}

impl Filling {
    fn new(separator: Vec<u8>) -> Filling {
        Filling {
            records: Vec::new(),
            used_bytes: 0,
            separator,
            neighbour: None,
        }
    }

    fn append(&mut self, key: &[u8], rest: &[u8]) {
        put_record(key, rest, &mut self.records);
        self.used_bytes += footprint(key.len(), rest.len());
    }
}

/// What makes a page of records. It is logged as these: nothing else is in it.
fn page_of<'r>(tree: &Tree, level: u8, records: &'r [u8]) -> [Op<'r>; 2] {
    [tree.formatted(level), Op::InsertMany { slot: 0, records }]
}

fn write(mini: &mut impl MiniTransaction, tree: &Tree, id: PageId, level: u8, records: &[u8]) {
    for op in page_of(tree, level, records) {
        mini.apply(id, &op);
    }
}
