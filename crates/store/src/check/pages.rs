//! Whether every page in use is somebody's, and of one alone.

use super::CheckReport;
use crate::backing::Backing;
use crate::ids::SegmentId;
use crate::system::System;

/// Numbers of pages that a finding names.
const NAMED_MAX: usize = 8;

impl<B: Backing> System<B> {
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

    /// Compares the pages that were found with those that a segment has.
    pub(super) fn compare_pages(
        &self,
        place: &str,
        segment: SegmentId,
        mut found: Vec<u32>,
        report: &mut CheckReport,
    ) {
        report.pages += found.len() as u64;
        found.sort_unstable();
        let mut twice = found.clone();
        found.dedup();
        for page in &found {
            let at = twice.binary_search(page).expect("it was there before");
            twice.remove(at);
        }
        let has = self.backing.segment_pages(segment);
        let missing = |from: &[u32], of: &[u32]| -> Vec<u32> {
            let missing = from.iter().filter(|page| of.binary_search(page).is_err());
            missing.copied().collect()
        };
        let number = segment.number;
        let mut note = |pages: Vec<u32>, what: &str| {
            if !pages.is_empty() {
                let first = &pages[..pages.len().min(NAMED_MAX)];
                let count = pages.len();
                report.note(place, format!("{count} pages {what}, among them {first:?}"));
            }
        };
        note(twice, "are in use twice");
        note(
            missing(&found, &has),
            &format!("are in use and not segment {number}'s"),
        );
        note(
            missing(&has, &found),
            &format!("are segment {number}'s and nobody uses them"),
        );
    }
}
