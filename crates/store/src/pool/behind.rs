//! What those who stand back may do while many frames hold changes.
//!
//! On a slow disk changes in bulk would come much faster than they can be written,
//! and all who miss a page would wait for one to be. So they stop below the share from
//! which on the flusher writes ahead of other backgrounds. Elsewhere what they read is
//! of what the disk has left; on a volume with a budget all that they do is taken from
//! what writes pages, so there they stop earlier, and from a share on that only
//! others' changes lead to they read none either.

/// Share of the frames with changes above which they change no more pages, ...
const CHANGED_MAX: f64 = 0.45;
/// ... and on a volume with a budget.
const CHANGED_MAX_BUDGET: f64 = 0.35;
/// Above this one they read none there.
const READ_MAX_BUDGET: f64 = 0.45;

/// Whether they may change pages while this share of the frames holds changes.
pub(super) fn may_change(changed: f64, budgeted: bool) -> bool {
    changed
        <= match budgeted {
            true => CHANGED_MAX_BUDGET,
            false => CHANGED_MAX,
        }
}

/// Whether they may read pages. `changed` counts under a lock, and this is asked for
/// each page that is read ahead: only where it matters.
pub(super) fn may_read(changed: impl FnOnce() -> f64, budgeted: bool) -> bool {
    !budgeted || changed() <= READ_MAX_BUDGET
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flush::DIRTY_RAISED;

    fn shares() -> impl Iterator<Item = f64> {
        (0..=100).map(|percent| f64::from(percent) / 100.0)
    }

    #[test]
    fn a_pool_at_ease_is_for_all() {
        for budgeted in [false, true] {
            assert!(may_change(0.25, budgeted), "{budgeted}");
            assert!(may_read(|| 0.25, budgeted), "{budgeted}");
        }
    }

    /// What the flusher then writes, it does not write for them.
    #[test]
    fn they_change_nothing_where_the_flusher_is_in_a_hurry() {
        for share in shares().filter(|&share| share >= DIRTY_RAISED) {
            assert!(!may_change(share, false), "{share}");
            assert!(!may_change(share, true), "{share}");
        }
    }

    #[test]
    fn what_the_disk_has_left_is_theirs_unless_it_is_a_budget() {
        for share in shares() {
            assert!(may_read(|| share, false), "{share}");
            let is_hurried = share >= DIRTY_RAISED;
            assert!(!(is_hurried && may_read(|| share, true)), "{share}");
        }
    }

    /// Those who wait to read would wait for the changes that they go on to make.
    #[test]
    fn who_may_change_may_read() {
        for share in shares() {
            for budgeted in [false, true] {
                let (reads, changes) = (may_read(|| share, budgeted), may_change(share, budgeted));
                assert!(reads || !changes, "{share} {budgeted}");
            }
        }
    }
}
