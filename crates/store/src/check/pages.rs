//! Trees, and whether every page in use is somebody's, and of one alone.

use super::{CheckReport, GoOn};
use crate::access::PagesError;
use crate::attempt::until_loaded;
use crate::backing::Backing;
use crate::ids::{Lsn, PageId, SegmentId};
use crate::page::header;
use crate::policy::Role;
use crate::stream::{BEGIN_EXTENTS, LeafAhead};
use crate::system::System;
use crate::tree::Tree;
use crate::txn::Error;

/// Numbers of pages that a finding names.
const NAMED_MAX: usize = 8;
/// How often a step of a walk is made beside changes, before they have to wait
/// for it.
const TRIES: u32 = 4;

/// Pages of a segment before a walk.
pub(super) struct Census {
    segment: SegmentId,
    pages: Vec<u32>,
    /// What was changed since has an LSN behind it.
    since: Lsn,
}

impl Census {
    /// Whether nothing was changed since.
    pub(super) fn is_of_now<B: Backing>(&self, backing: &B) -> bool {
        self.since >= backing.log_end()
    }
}

impl<B: Backing> System<B> {
    /// What a segment has now.
    pub(super) fn census(&self, segment: SegmentId) -> Census {
        self.at_rest(|| Census {
            segment,
            pages: self.backing.segment_pages(segment),
            since: self.backing.log_end(),
        })
    }

    /// Compares the pages of all known segments of a tablespace with those that
    /// are in use in it.
    pub(super) fn compare_space(
        &self,
        segments: impl Iterator<Item = SegmentId> + Clone,
        report: &mut CheckReport,
    ) {
        let known = segments
            .clone()
            .map(|it| self.backing.segment_pages(it).len() as u64);
        let known: u64 = known.sum();
        for space in segments.map(|segment| segment.space).take(1) {
            if let Some(used) = self.backing.data_pages(space)
                && used != known
            {
                let what = format!("{used} pages are in use, {known} of them in known segments");
                report.note(&format!("tablespace {space}"), what);
            }
        }
    }

    /// Compares the pages that were found since `before`, and those that are in
    /// use otherwise, with those that their segment has. Pages that were changed
    /// meanwhile may have come, gone or moved: of these it knows nothing.
    pub(super) fn compare_pages(
        &self,
        place: &str,
        mut found: Vec<u32>,
        before: &Census,
        used_else: impl Fn(u32) -> bool,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        report.pages += found.len() as u64;
        found.sort_unstable();
        let same = found.windows(2).filter(|pair| pair[0] == pair[1]);
        let mut twice: Vec<u32> = same.map(|pair| pair[0]).collect();
        found.dedup();
        let segment = before.segment;
        let has = self.at_rest(|| self.backing.segment_pages(segment));
        let missing = |from: &[u32], of: &[u32]| -> Vec<u32> {
            let missing = from.iter().filter(|page| of.binary_search(page).is_err());
            missing.copied().collect()
        };
        let mut foreign = missing(&found, &has);
        // Freed since, which does not change a page.
        foreign.retain(|page| before.pages.binary_search(page).is_err());
        let mut unused = missing(&has, &found);
        unused.retain(|&page| !used_else(page));
        for pages in [&mut twice, &mut foreign, &mut unused] {
            let mut kept = Vec::new();
            for &page in &*pages {
                let id = PageId::new(segment.space, page);
                if !self.was_changed(id, before.since)? {
                    kept.push(page);
                }
            }
            *pages = kept;
        }
        let number = segment.number;
        let mut note = |pages: Vec<u32>, what: &str| {
            if !pages.is_empty() {
                let first = &pages[..pages.len().min(NAMED_MAX)];
                let count = pages.len();
                report.note(place, format!("{count} pages {what}, among them {first:?}"));
            }
        };
        note(twice, "are in use twice");
        note(foreign, &format!("are in use and not segment {number}'s"));
        note(
            unused,
            &format!("are segment {number}'s and nobody uses them"),
        );
        Ok(())
    }

    /// Whether a page was changed after `since`; one that cannot be had was not.
    fn was_changed(&self, id: PageId, since: Lsn) -> Result<bool, Error> {
        let end = self.backing.log_end();
        if since >= end {
            return Ok(false);
        }
        let lsn = until_loaded(&self.backing, || {
            let page = self.backing.shared(id)?;
            Ok(header::lsn(&page))
        });
        match lsn {
            // Later than all are garbage.
            Ok(lsn) => Ok(lsn > since && lsn <= self.backing.log_end()),
            Err(error @ PagesError::Failed { .. }) => Err(error.into()),
            Err(_) => Ok(false),
        }
    }

    /// Checks a tree, and that its segments hold its pages and `others`.
    pub(super) fn check_tree(
        &self,
        place: &str,
        tree: &Tree,
        others: &[u32],
        go_on: GoOn<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let branches = self.census(tree.branch_segment);
        let leaves = self.census(tree.leaf_segment);
        let mut found = self.walk(tree, branches.since, go_on)?;
        for finding in &found.findings {
            report.note(place, finding);
        }
        // Below a damaged page the others were not seen.
        if found.findings.is_empty() {
            found.branch_pages.extend_from_slice(others);
            self.compare_pages(place, found.branch_pages, &branches, |_| false, report)?;
            self.compare_pages(place, found.leaf_pages, &leaves, |_| false, report)?;
        }
        Ok(())
    }

    fn walk(
        &self,
        tree: &Tree,
        since: Lsn,
        go_on: GoOn<'_>,
    ) -> Result<crate::tree::CheckReport, Error> {
        let mut ahead = LeafAhead::new(&self.backing, Role::Check, BEGIN_EXTENTS);
        let mut walk = tree.walk(&self.backing, since, go_on, &mut ahead);
        let mut tries = 0;
        while !walk.is_done() {
            tries += 1;
            let is_sure = match tries <= TRIES {
                true => walk.step(false)?,
                false => self.at_rest(|| walk.step(true))?,
            };
            if is_sure {
                tries = 0;
            }
        }
        Ok(walk.end())
    }
}
