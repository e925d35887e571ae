//! How long one that commits waits for others before it writes.

use std::time::Duration;

/// Before it writes, a thread waits for others for at most this share of the
/// last write's time ...
const SHARE: u32 = 4;
/// ... and no longer than this.
const MOST: Duration = Duration::from_micros(50);
/// Where writes are scarce, it waits as long as a write takes, so that a commit
/// takes twice as long at most, and no longer than this.
const SCARCE_MOST: Duration = Duration::from_millis(2);
/// They are where the log's are at least this part of what a volume does at the most.
/// Of 3000 requests a second 700 were, and of 16,000 960 were not: to share them would
/// have given others 3 % more, and each commit 0.5 ms.
const SCARCE_SHARE: f64 = 0.1;
/// There so many that commit are enough not to wait for more. On a volume of
/// 3000 requests a second 765 commits a second took 700 writes without, 459 with two,
/// and 418 with four.
const SCARCE_ENOUGH: usize = 4;
/// Weight of the last time that one waited for others there.
const WEIGHT: f32 = 1.0 / 16.0;
/// Others must come in so many of the times that one waits for them, or it is
/// only tried ...
const COME_MIN: f32 = 0.25;
/// ... each time after so many writes.
const TRIED_APART: u32 = 16;

/// What is known of those who will come.
#[derive(Debug)]
pub(super) struct Gathering {
    is_scarce: bool,
    /// Writes since that was last looked at.
    writes: u32,
    /// Part of the times in which others came.
    come: f32,
    /// Times since that has last been tried.
    untried: u32,
}

impl Gathering {
    pub(super) const NEW: Gathering = Gathering {
        is_scarce: false,
        writes: 0,
        come: 1.0,
        untried: 0,
    };

    /// So many transfers a second are all that there are, and others wait for them;
    /// or none do. It is so long since the last call.
    pub(super) fn set_budget(&mut self, per_second: Option<f64>, passed: Duration) {
        let writes = f64::from(std::mem::take(&mut self.writes));
        // Where they are shared, they are fewer.
        let share = if self.is_scarce {
            SCARCE_SHARE / 2.0
        } else {
            SCARCE_SHARE
        };
        self.is_scarce = per_second
            .is_some_and(|per_second| writes >= share * per_second * passed.as_secs_f64());
    }

    /// Whether it is worth the time of those who commit that more of them share a
    /// write: where nobody else commits, they would wait for nothing.
    fn is_worth_while(&self) -> bool {
        self.is_scarce && (self.come >= COME_MIN || self.untried >= TRIED_APART)
    }

    /// With so many a write begins at once, if `before` waited for the last.
    pub(super) fn enough(&self, before: usize) -> usize {
        if self.is_worth_while() {
            before.max(SCARCE_ENOUGH)
        } else {
            before
        }
    }

    /// How long to wait for them, if the last write took `write`.
    pub(super) fn patience(&self, write: Duration) -> Duration {
        if self.is_worth_while() {
            SCARCE_MOST.min(write)
        } else {
            MOST.min(write / SHARE)
        }
    }

    /// A write begins, for which nobody waited, or one did, and so many came
    /// meanwhile.
    pub(super) fn wrote(&mut self, came: Option<usize>) {
        self.writes = self.writes.saturating_add(1);
        match came {
            Some(came) if self.is_worth_while() => {
                self.come += WEIGHT * (f32::from(u8::from(came > 0)) - self.come);
                self.untried = 0;
            }
            _ => self.untried = self.untried.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);
    const SCARCE: Option<f64> = Some(0.0);

    fn is_long(gathering: &Gathering) -> bool {
        gathering.patience(WRITE) == WRITE && gathering.enough(1) == SCARCE_ENOUGH
    }

    #[test]
    fn a_commit_waits_for_others_where_writes_are_scarce() {
        let mut gathering = Gathering::NEW;
        assert_eq!(gathering.patience(WRITE), MOST);
        assert_eq!(gathering.patience(MOST), MOST / SHARE);
        assert_eq!(gathering.enough(1), 1);
        gathering.set_budget(SCARCE, SECOND);
        assert!(is_long(&gathering));
        assert_eq!(gathering.enough(9), 9);
        assert_eq!(gathering.patience(100 * WRITE), SCARCE_MOST);
        gathering.set_budget(None, SECOND);
        assert_eq!(gathering.patience(WRITE), MOST);
    }

    #[test]
    fn few_writes_are_nothing_to_others() {
        let mut gathering = Gathering::NEW;
        let mut after = |writes, budget, passed| {
            (0..writes).for_each(|_| gathering.wrote(None));
            gathering.set_budget(Some(budget), passed);
            is_long(&gathering)
        };
        assert!(after(70, 3_000.0, SECOND / 10));
        assert!(after(44, 3_000.0, SECOND / 10));
        assert!(after(20, 3_000.0, SECOND / 10));
        assert!(!after(0, 3_000.0, SECOND / 10));
        assert!(!after(20, 3_000.0, SECOND / 10));
        assert!(!after(96, 16_000.0, SECOND / 10));
    }

    #[test]
    fn one_that_commits_alone_seldom_waits() {
        let mut gathering = Gathering::NEW;
        gathering.set_budget(SCARCE, SECOND);
        // As it is not known at first that nobody comes.
        let long = (0..1000).filter(|_| {
            let long = is_long(&gathering);
            gathering.wrote(Some(0));
            long
        });
        let long = long.count();
        assert!((60..=100).contains(&long), "{long}");
    }

    #[test]
    fn others_that_come_again_are_waited_for_again() {
        let mut gathering = Gathering::NEW;
        gathering.set_budget(SCARCE, SECOND);
        for _ in 0..1000 {
            gathering.wrote(Some(0));
        }
        for write in 0..1000 {
            let others = is_long(&gathering) && write % 5 < 3;
            gathering.wrote(Some(usize::from(others)));
        }
        assert!(is_long(&gathering));
    }
}
