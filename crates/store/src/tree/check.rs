//! Whether a tree is in order.

mod steps;

use super::{Direction, LEVELS_MAX, Tree, TreeError, Watch, kind_of};
use crate::access::{Pages, PagesError};
use crate::ids::{Lsn, PageId};
use crate::page::header;
use crate::page::slotted::{Slotted, SlottedFault, verify};
use std::ops::Bound;

/// What is wrong with a page of a tree.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeFault {
    /// It cannot be had.
    #[error(transparent)]
    Unreadable(PagesError),
    /// Its header names another page.
    #[error("its header says that it is {0}")]
    Identity(PageId),
    /// It is of another kind or level than its parent says.
    #[error("it is a page of kind {kind} and level {level}, not of level {expected}")]
    Level {
        /// The kind's number in its header.
        kind: u8,
        /// The level in its header.
        level: u8,
        /// The level below its parent's.
        expected: u8,
    },
    /// It belongs to somebody else.
    #[error("it belongs to {0}")]
    Owner(u64),
    /// Its records do not hold together.
    #[error(transparent)]
    Records(#[from] SlottedFault),
    /// Its first key is below the separator that leads to it.
    #[error("its first key is below its separator")]
    BelowFence,
    /// Its last key is not below the separator that leads past it.
    #[error("its last key is not below the separator of the page behind it")]
    AboveFence,
    /// The first key of a branch is not the separator that leads to it.
    #[error("its first key is not its separator")]
    FirstSeparator,
    /// A branch without a child.
    #[error("it has no child")]
    NoChild,
    /// It is the child of two slots.
    #[error("more than one branch has it as a child")]
    Twice,
}

/// A page and what is wrong with it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{page}: {fault}")]
pub struct Finding {
    /// Which.
    pub page: PageId,
    /// What.
    pub fault: TreeFault,
}

/// What a check has seen.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// All that is wrong. What lies below a page that is damaged is not seen.
    pub findings: Vec<Finding>,
    /// Numbers of the branches, and of the root whatever it is, in the order of
    /// the walk: to be compared with what the branch segment says.
    pub branch_pages: Vec<u32>,
    /// Numbers of the leaves below the root, in the order of their keys.
    pub leaf_pages: Vec<u32>,
    /// Records in the leaves.
    pub records: u64,
    /// Leaves with less than a quarter of a page, the last one included: no
    /// damage.
    pub sparse_leaves: u64,
}

/// A page to be visited.
struct Visit {
    page: PageId,
    /// `None` for the root.
    level: Option<u8>,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

impl Visit {
    fn root(tree: &Tree) -> Visit {
        Visit {
            page: tree.root,
            level: None,
            lower: Vec::new(),
            upper: None,
        }
    }

    /// The child in a slot of this branch, whose page it is.
    fn child(&self, page: &[u8], slot: usize) -> Visit {
        let slots = Slotted::new(page);
        Visit {
            page: slots.child(slot),
            level: Some(header::level(page) - 1),
            lower: match slot {
                0 => self.lower.clone(),
                _ => slots.key(slot).to_vec(),
            },
            upper: match slot + 1 < slots.count() {
                true => Some(slots.key(slot + 1).to_vec()),
                false => self.upper.clone(),
            },
        }
    }
}

impl Tree {
    /// Walks the whole tree: that every page is what its parent says and the
    /// child of one, holds together, and has the keys between its separators
    /// alone, in order, under right heads. Checksums are checked as pages are
    /// loaded.
    ///
    /// Nobody may change the tree meanwhile: a page that moves during the walk
    /// would be taken for damage. Holds no latch while it waits. It takes
    /// memory for a branch per level and four bytes or so per page.
    ///
    /// # Errors
    /// [`TreeError::Pages`] only if the store has failed; a page that cannot be
    /// read is a finding.
    pub fn check<P: Pages>(&self, pages: &P) -> Result<CheckReport, TreeError> {
        // No page is that new.
        let since = Lsn(u64::MAX);
        let mut nobody = ();
        let mut walk = self.walk(pages, since, &|| true, &mut nobody);
        while !walk.is_done() {
            walk.step(true)?;
        }
        Ok(walk.end())
    }

    fn copy<P: Pages>(
        &self,
        pages: &P,
        visit: &Visit,
        watch: &mut impl Watch,
    ) -> Result<Vec<u8>, PagesError> {
        loop {
            match pages.shared(visit.page) {
                Ok(page) => return Ok(page.to_vec()),
                Err(miss) => {
                    watch.waits_for(visit.page, || {
                        let from = Bound::Included(&visit.lower[..]);
                        self.leaves(from, Bound::Unbounded, Direction::Forward)
                    });
                    pages.load(miss)?;
                }
            }
        }
    }

    fn check_page(&self, page: &[u8], visit: &Visit) -> Result<(), TreeFault> {
        if header::id(page) != visit.page {
            return Err(TreeFault::Identity(header::id(page)));
        }
        let level = header::level(page);
        let expected = visit.level.unwrap_or(level.min(LEVELS_MAX));
        if level != expected || page[12] != kind_of(level) as u8 {
            return Err(TreeFault::Level {
                kind: page[12],
                level,
                expected,
            });
        }
        if header::owner(page) != self.owner {
            return Err(TreeFault::Owner(header::owner(page)));
        }
        verify(page)?;
        let slots = Slotted::new(page);
        if slots.is_empty() {
            return if level > 0 {
                Err(TreeFault::NoChild)
            } else {
                Ok(())
            };
        }
        let (first, last) = (slots.key(0), slots.key(slots.count() - 1));
        if level > 0 && first != visit.lower {
            return Err(TreeFault::FirstSeparator);
        }
        if first < &visit.lower[..] {
            return Err(TreeFault::BelowFence);
        }
        if visit.upper.as_deref().is_some_and(|upper| last >= upper) {
            return Err(TreeFault::AboveFence);
        }
        Ok(())
    }

    fn count(&self, report: &mut CheckReport, id: PageId, page: &[u8]) {
        let slots = Slotted::new(page);
        if header::level(page) == 0 {
            report.records += slots.count() as u64;
            report.sparse_leaves += u64::from(self.is_underfull(id, page));
        }
        if header::level(page) > 0 || id == self.root {
            report.branch_pages.push(id.page);
        } else {
            report.leaf_pages.push(id.page);
        }
    }
}

impl CheckReport {
    fn note(&mut self, page: PageId, fault: TreeFault) {
        self.findings.push(Finding { page, fault });
    }

    /// Adds what was seen behind it.
    fn add(&mut self, mut other: CheckReport) {
        self.findings.append(&mut other.findings);
        self.branch_pages.append(&mut other.branch_pages);
        self.leaf_pages.append(&mut other.leaf_pages);
        self.records += other.records;
        self.sparse_leaves += other.sparse_leaves;
    }
}

impl TreeFault {
    /// Whether the children of a branch with this fault can be told.
    fn leaves_children(&self) -> bool {
        matches!(
            self,
            TreeFault::BelowFence
                | TreeFault::AboveFence
                | TreeFault::FirstSeparator
                | TreeFault::Records(
                    SlottedFault::Order { .. }
                        | SlottedFault::Prefix(_)
                        | SlottedFault::Head { .. }
                )
        )
    }
}

/// The children of a branch, the first on top.
fn push_children(page: &[u8], visit: &Visit, stack: &mut Vec<Visit>) {
    if header::level(page) > 0 {
        let children = (0..Slotted::new(page).count()).rev();
        stack.extend(children.map(|slot| visit.child(page, slot)));
    }
}
