//! Whether a tree is in order.

use super::{LEVELS_MAX, Tree, TreeError, Watch, kind_of};
use crate::access::{Pages, PagesError};
use crate::ids::PageId;
use crate::page::header;
use crate::page::slotted::{Slotted, SlottedFault, verify};
use std::collections::HashSet;

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
    #[error("it is a page of kind {kind} and level {level}, level {expected} is due")]
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
        self.check_while(pages, &|| true, &mut ())
    }

    /// The same as long as `go_on` says so, which is asked before each page;
    /// tells `watch` where it is.
    ///
    /// # Errors
    /// As [`check`](Self::check), and [`TreeError::Stopped`].
    pub(crate) fn check_while<P: Pages>(
        &self,
        pages: &P,
        go_on: &dyn Fn() -> bool,
        watch: &mut impl Watch,
    ) -> Result<CheckReport, TreeError> {
        let mut report = CheckReport::default();
        let mut seen = HashSet::new();
        let mut stack = vec![Visit {
            page: self.root,
            level: None,
            lower: Vec::new(),
            upper: None,
        }];
        while let Some(visit) = stack.pop() {
            if !go_on() {
                return Err(TreeError::Stopped);
            }
            let id = visit.page;
            if !seen.insert(id.page) {
                report.note(id, TreeFault::Twice);
                continue;
            }
            let page = match self.copy(pages, id, watch) {
                Ok(page) => page,
                Err(error @ PagesError::Failed { .. }) => return Err(error.into()),
                Err(error) => {
                    report.note(id, TreeFault::Unreadable(error));
                    continue;
                }
            };
            if visit.level == Some(0) {
                watch.came_to(id);
            }
            match self.check_page(&page, &visit) {
                Ok(()) => {}
                Err(fault) => {
                    let whole = fault.leaves_children();
                    report.note(id, fault);
                    if !whole {
                        continue;
                    }
                }
            }
            self.count(&mut report, id, &page);
            push_children(&page, visit, &mut stack);
        }
        Ok(report)
    }

    fn copy<P: Pages>(
        &self,
        pages: &P,
        id: PageId,
        watch: &mut impl Watch,
    ) -> Result<Vec<u8>, PagesError> {
        loop {
            match pages.shared(id) {
                Ok(page) => return Ok(page.to_vec()),
                Err(miss) => {
                    watch.waits_for(id, || self.pages_of_level(0));
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
fn push_children(page: &[u8], visit: Visit, stack: &mut Vec<Visit>) {
    let Some(level) = header::level(page).checked_sub(1) else {
        return;
    };
    let slots = Slotted::new(page);
    let mut upper = visit.upper;
    for slot in (0..slots.count()).rev() {
        let lower = if slot == 0 {
            visit.lower.clone()
        } else {
            slots.key(slot).to_vec()
        };
        stack.push(Visit {
            page: slots.child(slot),
            level: Some(level),
            lower: lower.clone(),
            upper: upper.replace(lower),
        });
    }
}
