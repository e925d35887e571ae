//! A check in steps, during which others change the tree.

#[cfg(test)]
mod tests;

use super::super::descend::{Aim, Fences};
use super::super::{Tree, TreeError, Watch, until_loaded};
use super::{CheckReport, TreeFault, Visit, push_children};
use crate::access::{Pages, PagesError};
use crate::ids::{Lsn, PageId};
use crate::page::header;
use crate::page::slotted::Slotted;
use std::collections::HashSet;

/// Leaves that a step looks at ...
const LEAVES_OF_STEP: usize = 64;
/// ... and with everything standing still: for some milliseconds at most.
const LEAVES_AT_REST: usize = 8;

/// How far a check has come.
///
/// Each step goes down to where the one before it has ended, and looks at some
/// leaves of one branch, copying page by page. If that branch and the way to it
/// are the same afterwards, they were its children all the time, and what was
/// seen is so. Otherwise, and where something looks wrong, the step has proved
/// nothing and is made again; in the end with everything standing still, for
/// fewer leaves.
pub(crate) struct Walk<'a, P, W> {
    tree: &'a Tree,
    pages: &'a P,
    /// Pages that were changed during the walk have an LSN behind it: they may
    /// come to another place, and be met again or never.
    since: Lsn,
    /// What is asked before each page.
    go_on: &'a dyn Fn() -> bool,
    watch: &'a mut W,
    report: CheckReport,
    seen: HashSet<u32>,
    /// What lies below this key has been looked at.
    at: Vec<u8>,
    done: bool,
    /// The branches that the last step went through: the next one may, too.
    above: Vec<PageId>,
}

/// What a step has seen, until it is known to be so.
#[derive(Default)]
struct Taken {
    report: CheckReport,
    /// Pages that nobody had seen before.
    pages: Vec<u32>,
    above: Vec<PageId>,
    /// Where the next step begins; `None` at the end.
    next: Option<Vec<u8>>,
}

/// What is wrong with a page, and its bytes if they can be had.
type Wrong = (TreeFault, Option<Vec<u8>>);

impl Tree {
    /// A check in steps, while others change the tree. All that was changed
    /// until now has an LSN of `since` or below. Asks `go_on` before each page,
    /// and tells `watch` where it is.
    pub(crate) fn walk<'a, P: Pages, W: Watch>(
        &'a self,
        pages: &'a P,
        since: Lsn,
        go_on: &'a dyn Fn() -> bool,
        watch: &'a mut W,
    ) -> Walk<'a, P, W> {
        Walk {
            tree: self,
            pages,
            since,
            go_on,
            watch,
            report: CheckReport::default(),
            seen: HashSet::new(),
            at: Vec::new(),
            done: false,
            above: Vec::new(),
        }
    }
}

impl<P: Pages, W: Watch> Walk<'_, P, W> {
    /// Whether it has come to the end.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// What it has seen.
    pub(crate) fn end(self) -> CheckReport {
        self.report
    }

    /// Looks at some leaves more. `false`: what was seen proves nothing, as
    /// others have changed it meanwhile, or is wrong; never while everything
    /// stands still, in which case what is wrong is noted.
    ///
    /// # Errors
    /// As [`Tree::check`], and [`TreeError::Stopped`].
    pub(crate) fn step(&mut self, stands_still: bool) -> Result<bool, TreeError> {
        let mut taken = Taken::default();
        if !self.look_further(stands_still, &mut taken)? {
            for page in taken.pages {
                self.seen.remove(&page);
            }
            return Ok(false);
        }
        self.report.add(taken.report);
        self.above = taken.above;
        match taken.next {
            Some(next) => self.at = next,
            None => self.done = true,
        }
        Ok(true)
    }

    fn look_further(&mut self, stands_still: bool, taken: &mut Taken) -> Result<bool, TreeError> {
        let mut visit = Visit::root(self.tree);
        loop {
            let page = match self.look(&visit, taken)? {
                Ok(page) => page,
                Err(_) if !stands_still => return Ok(false),
                Err(wrong) => {
                    // Where its children cannot be looked for by key.
                    taken.next.clone_from(&visit.upper);
                    let stack = self.children_of_wrong(visit, wrong, taken);
                    self.go_through(stack, taken)?;
                    return Ok(true);
                }
            };
            taken.above.push(visit.page);
            match header::level(&page) {
                0 => return Ok(true),
                1 => return self.look_at_leaves(&visit, &page, stands_still, taken),
                _ => {
                    let slot = Slotted::new(&page).child_slot_at(&self.at);
                    visit = visit.child(&page, slot);
                }
            }
        }
    }

    /// Looks at the next children of a branch of level 1.
    fn look_at_leaves(
        &mut self,
        visit: &Visit,
        branch: &[u8],
        stands_still: bool,
        taken: &mut Taken,
    ) -> Result<bool, TreeError> {
        let slots = Slotted::new(branch);
        let first = slots.child_slot_at(&self.at);
        let most = match stands_still {
            true => LEAVES_AT_REST,
            false => LEAVES_OF_STEP,
        };
        let end = slots.count().min(first + most);
        for slot in first..end {
            let leaf = visit.child(branch, slot);
            match self.look(&leaf, taken)? {
                Ok(_) => self.watch.came_to(leaf.page),
                Err(_) if !stands_still => return Ok(false),
                Err(wrong) => {
                    self.children_of_wrong(leaf, wrong, taken);
                }
            }
        }
        taken.next = match end < slots.count() {
            true => Some(slots.key(end).to_vec()),
            false => visit.upper.clone(),
        };
        Ok(stands_still || self.is_still_so(visit, header::lsn(branch))?)
    }

    /// Looks at a page that nobody has met, unless it was changed since, or the
    /// step before came through it.
    fn look(
        &mut self,
        visit: &Visit,
        taken: &mut Taken,
    ) -> Result<Result<Vec<u8>, Wrong>, TreeError> {
        if !(self.go_on)() {
            return Err(TreeError::Stopped);
        }
        let id = visit.page;
        let page = match self.tree.copy(self.pages, visit, self.watch) {
            Ok(page) => page,
            Err(error @ PagesError::Failed { .. }) => return Err(error.into()),
            Err(error) => return Ok(Err((TreeFault::Unreadable(error), None))),
        };
        let is_changed = header::lsn(&page) > self.since;
        let is_new = self.seen.insert(id.page);
        if is_new {
            taken.pages.push(id.page);
        } else if !is_changed && !self.above.contains(&id) {
            return Ok(Err((TreeFault::Twice, None)));
        }
        if let Err(fault) = self.tree.check_page(&page, visit) {
            return Ok(Err((fault, Some(page))));
        }
        if is_new {
            self.tree.count(&mut taken.report, id, &page);
        }
        Ok(Ok(page))
    }

    /// Notes what is wrong with a page. Returns its children, the first on top,
    /// if they can be told.
    fn children_of_wrong(
        &self,
        visit: Visit,
        (fault, page): Wrong,
        taken: &mut Taken,
    ) -> Vec<Visit> {
        let mut children = Vec::new();
        let page = page.filter(|_| fault.leaves_children());
        taken.report.note(visit.page, fault);
        if let Some(page) = page {
            self.tree.count(&mut taken.report, visit.page, &page);
            push_children(&page, &visit, &mut children);
        }
        children
    }

    /// Looks at these pages and all below them, while everything stands still.
    fn go_through(&mut self, mut stack: Vec<Visit>, taken: &mut Taken) -> Result<(), TreeError> {
        while let Some(visit) = stack.pop() {
            match self.look(&visit, taken)? {
                Ok(page) => {
                    if visit.level == Some(0) {
                        self.watch.came_to(visit.page);
                    }
                    push_children(&page, &visit, &mut stack);
                }
                Err(wrong) => stack.append(&mut self.children_of_wrong(visit, wrong, taken)),
            }
        }
        Ok(())
    }

    /// Whether a branch of level 1 is still where it was, and as it was.
    fn is_still_so(&self, visit: &Visit, lsn: Lsn) -> Result<bool, TreeError> {
        let mut fences = Fences::default();
        let found = until_loaded(self.pages, || {
            fences.reset();
            let narrow = |slots: Slotted<'_>, slot| fences.narrow(slots, slot);
            let aim = Aim::At(&self.at);
            let (page, id) = self.tree.shared_at(self.pages, aim, 1, narrow)?;
            Ok((id, header::level(&page), header::lsn(&page)))
        });
        match found {
            Ok(found) => Ok(found == (visit.page, 1, lsn)
                && fences.lower == visit.lower
                && fences.upper() == visit.upper.as_deref()),
            Err(error @ TreeError::Pages(PagesError::Failed { .. })) => Err(error),
            Err(_) => Ok(false),
        }
    }
}
