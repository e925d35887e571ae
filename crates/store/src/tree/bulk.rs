//! Loading sorted records into an empty tree: full pages, bottom-up, each
//! written once.

use super::split::separator_between;
use super::{Interrupt, Tree, TreeError, kind_of, until_loaded};
use crate::access::{MiniTransaction, Pages};
use crate::ids::{Lsn, PageId};
use crate::page::Op;
use crate::page::header::{self, SPECIFIC};
use crate::page::slotted::{Slotted, branch_record, capacity, footprint, leaf_record};

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
    page: Vec<u8>,
    /// The least key that it may have.
    separator: Vec<u8>,
    /// The page of its level before it: the next one shall lie beside it.
    neighbour: Option<PageId>,
}

struct Loader<'a, P: Pages> {
    tree: &'a Tree,
    pages: &'a P,
    /// Bytes of records and slots that a page gets.
    fill_bytes: usize,
    /// From the leaves up.
    levels: Vec<Filling>,
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
        let empty = until_loaded(pages, || {
            let root = pages.shared(self.root)?;
            self.expect(&root, self.root, None)?;
            Ok(header::level(&root) == 0 && Slotted::new(&root).is_empty())
        })?;
        if !empty {
            return Err(TreeError::NotEmpty);
        }
        let fill = fill_percent.clamp(50, 100) as usize;
        let mut loader = Loader {
            tree: self,
            pages,
            fill_bytes: capacity(pages.page_bytes()) * fill / 100,
            levels: Vec::new(),
        };
        loader.levels.push(loader.filling(0, Vec::new()));
        let (mut count, mut last_key, mut record) = (0, Vec::new(), Vec::new());
        for (key, value) in records {
            let (key, value) = (key.as_ref(), value.as_ref());
            Tree::check_lengths(pages, key, value.len())?;
            if count > 0 && key <= &last_key[..] {
                return Err(TreeError::Unsorted { position: count });
            }
            if !loader.fits(0, footprint(key.len(), value.len())) {
                loader.next_page(0, separator_between(&last_key, key))?;
            }
            leaf_record(key, value, &mut record);
            loader.append(0, &record);
            last_key.clear();
            last_key.extend_from_slice(key);
            count += 1;
        }
        Ok(Loaded {
            records: count,
            lsn: loader.finish()?,
        })
    }
}

impl<P: Pages> Loader<'_, P> {
    fn filling(&self, level: u8, separator: Vec<u8>) -> Filling {
        let mut filling = Filling {
            page: vec![0; self.pages.page_bytes()],
            separator,
            neighbour: None,
        };
        filling.clear(self.tree, level);
        filling
    }

    fn fits(&self, level: usize, footprint: usize) -> bool {
        let slots = Slotted::new(&self.levels[level].page);
        // One has room in any page.
        slots.is_empty() || slots.used_bytes() + footprint <= self.fill_bytes
    }

    /// Appends a record, which fits, to the page of a level.
    fn append(&mut self, level: usize, record: &[u8]) {
        let page = &mut self.levels[level].page;
        let op = Op::Insert {
            slot: Slotted::new(page).count() as u16,
            record,
        };
        op.apply(page, self.tree.root).expect("it fits");
    }

    /// Writes the page of a level, tells its parent, and begins the next, which
    /// has the keys from `separator` on.
    fn next_page(&mut self, level: usize, separator: Vec<u8>) -> Result<(), TreeError> {
        self.write_below(level)?;
        let filling = &mut self.levels[level];
        filling.clear(self.tree, level as u8);
        filling.separator = separator;
        Ok(())
    }

    /// Writes the page of a level that is not the root, and enters it in its
    /// parent.
    fn write_below(&mut self, level: usize) -> Result<(), TreeError> {
        let filling = &self.levels[level];
        let segment = self.tree.segment_of(level as u8);
        let mut mini = self.pages.begin(&[segment], 1)?;
        let id = mini.allocate(segment, filling.neighbour);
        write(&mut mini, self.tree, id, level as u8, &filling.page);
        mini.commit();
        self.levels[level].neighbour = Some(id);

        let separator = std::mem::take(&mut self.levels[level].separator);
        let parent = level + 1;
        if parent == self.levels.len() {
            self.levels.push(self.filling(parent as u8, Vec::new()));
        }
        if !self.fits(parent, footprint(separator.len(), 4)) {
            self.next_page(parent, separator.clone())?;
        }
        let mut record = Vec::new();
        branch_record(&separator, id, &mut record);
        self.append(parent, &record);
        Ok(())
    }

    /// Writes what is still being filled, the highest level into the root.
    fn finish(mut self) -> Result<Lsn, TreeError> {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            self.write_below(level)?;
            level += 1;
        }
        let root = self.tree.root;
        until_loaded(self.pages, || {
            let mut mini = self.pages.begin(&[], 0)?;
            mini.exclusive(root)?;
            if !Slotted::new(mini.page(root)).is_empty() {
                return Err(Interrupt::Error(TreeError::NotEmpty));
            }
            write(
                &mut mini,
                self.tree,
                root,
                level as u8,
                &self.levels[level].page,
            );
            Ok(mini.commit())
        })
    }
}

impl Filling {
    fn clear(&mut self, tree: &Tree, level: u8) {
        let formatted = tree.formatted(level).apply(&mut self.page, tree.root);
        formatted.expect("any page can be formatted");
    }
}

fn write(mini: &mut impl MiniTransaction, tree: &Tree, id: PageId, level: u8, page: &[u8]) {
    debug_assert_eq!(header::kind(page), Some(kind_of(level)));
    mini.apply(id, &tree.formatted(level));
    mini.apply(
        id,
        &Op::Image {
            level,
            bytes: &page[SPECIFIC..],
        },
    );
}
