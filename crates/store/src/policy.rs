//! Who does I/O in a store, how urgent it is, and how eagerly it is done.
//!
//! Each choice has InnoDB's conservative behaviour beside the eager one, and
//! where Hall and Bonnet ("Getting Priorities Straight", 2005) proposed steps
//! of their own, those too, so that all can be measured on one store.

use iolane::Level;

/// What a request is for. Levels and the ledger go by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Role {
    /// Writes to the redo log, and their syncs.
    Log,
    /// A page that somebody waits for.
    Read,
    /// Leaves that a scan will come to, known from the branches above them.
    Scan,
    /// Rows that a range of a secondary index will come to.
    Index,
    /// Neighbours of pages that were read, by a guess.
    Guess,
    /// Changed pages written so that frames are free when somebody needs them.
    Preflush,
    /// Changed pages written so that the log can forget their changes.
    Checkpoint,
    /// A page that a transaction of low priority waits for, or will come to.
    Bulk,
    /// Pages read for a copy of the store.
    Backup,
    /// Pages read to see whether they are in order.
    Check,
    /// Undo that has left memory, read to be purged.
    Purge,
    /// Pages read and written before the store is open.
    Recovery,
    /// Making, growing and opening files.
    Space,
}

impl Role {
    /// How many there are.
    pub const COUNT: usize = 13;
    /// All of them.
    pub const ALL: [Role; Role::COUNT] = [
        Role::Log,
        Role::Read,
        Role::Scan,
        Role::Index,
        Role::Guess,
        Role::Preflush,
        Role::Checkpoint,
        Role::Bulk,
        Role::Backup,
        Role::Check,
        Role::Purge,
        Role::Recovery,
        Role::Space,
    ];

    /// 0 to [`COUNT`](Self::COUNT) - 1, in the order of [`ALL`](Self::ALL).
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Name in tables and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Log => "log",
            Role::Read => "read",
            Role::Scan => "scan",
            Role::Index => "index",
            Role::Guess => "guess",
            Role::Preflush => "preflush",
            Role::Checkpoint => "checkpoint",
            Role::Bulk => "bulk",
            Role::Backup => "backup",
            Role::Check => "check",
            Role::Purge => "purge",
            Role::Recovery => "recovery",
            Role::Space => "space",
        }
    }

    /// How urgent it is while nobody is held up by it. Work ahead of need is
    /// promoted when the need comes: to [`Level::Normal`] for a range, which has
    /// many pages on their way, and else to [`Level::Foreground`].
    pub const fn level(self) -> Level {
        match self {
            Role::Log => Level::Critical,
            Role::Read | Role::Recovery | Role::Space => Level::Foreground,
            Role::Scan | Role::Index | Role::Guess | Role::Preflush => Level::Prefetch,
            Role::Checkpoint | Role::Bulk | Role::Backup | Role::Check | Role::Purge => {
                Level::Background
            }
        }
    }
}

/// How eagerly a store does I/O, and whether urgent requests go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoPolicy {
    /// Before a scan comes to them, its leaves are read.
    pub scan: ScanReadAhead,
    /// Of an extent whose pages are being read in sequence, the next is read:
    /// InnoDB's `innodb_read_ahead_threshold`, 56 of 64.
    pub linear: bool,
    /// Of an extent with 13 of 64 pages in memory, the rest is read: InnoDB's
    /// `innodb_random_read_ahead`.
    pub random: bool,
    /// The rows of a range of a secondary index.
    pub index: IndexReadAhead,
    /// Writing of changed pages.
    pub preflush: Preflush,
    /// Do requests carry the level of their role? If not, all are alike.
    pub priorities: bool,
}

/// Reading ahead of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanReadAhead {
    /// Each page when the scan comes to it.
    None,
    /// The pages that the branches name, so far ahead that the device is never
    /// idle: "logical read-ahead".
    Logical,
}

/// Reading of rows ahead of a range of a secondary index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexReadAhead {
    /// Each row when its entry comes.
    None,
    /// The pages of the next entries, in batches.
    Batches,
}

/// When changed pages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preflush {
    /// When there is nothing else to do, in small batches; otherwise when
    /// frames or log room run out. InnoDB's of 2005, by the paper's section 5.
    Idle,
    /// Once a second, by the share of free frames: the paper's own policy.
    Steps,
    /// All the time, at the pace at which pages become dirty.
    Steady,
}

impl IoPolicy {
    /// What InnoDB does by default.
    pub const CONSERVATIVE: IoPolicy = IoPolicy {
        scan: ScanReadAhead::None,
        linear: true,
        random: false,
        index: IndexReadAhead::None,
        preflush: Preflush::Idle,
        priorities: false,
    };
    /// What Hall and Bonnet changed about it.
    pub const PAPER: IoPolicy = IoPolicy {
        scan: ScanReadAhead::Logical,
        linear: false,
        random: false,
        index: IndexReadAhead::Batches,
        preflush: Preflush::Steps,
        priorities: true,
    };
    /// As much as the device takes: the default.
    pub const AGGRESSIVE: IoPolicy = IoPolicy {
        preflush: Preflush::Steady,
        ..IoPolicy::PAPER
    };

    /// Level of a role's requests.
    pub const fn level(&self, role: Role) -> Level {
        if self.priorities {
            role.level()
        } else {
            Level::Normal
        }
    }

    /// Does a thread that acts for this role stand back behind queries, for
    /// pages?
    pub(crate) fn waits_quietly(&self, role: Role) -> bool {
        self.level(role) > self.level(Role::Read)
    }

    /// And for frames and room in the log? Purge makes room. Where the flusher
    /// writes for those only who wait, or once a second, nothing would come of it:
    /// each page of a scan would take as long as its patience.
    pub(crate) fn stands_back(&self, role: Role) -> bool {
        self.preflush == Preflush::Steady && role != Role::Purge && self.waits_quietly(role)
    }
}

impl Default for IoPolicy {
    fn default() -> IoPolicy {
        IoPolicy::AGGRESSIVE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stands_back_has_a_flusher_that_writes_meanwhile() {
        let aggressive = IoPolicy::AGGRESSIVE;
        assert!(aggressive.stands_back(Role::Scan));
        assert!(!aggressive.stands_back(Role::Purge));
        assert!(!aggressive.stands_back(Role::Read));
        let all_alike = IoPolicy {
            priorities: false,
            ..aggressive
        };
        assert!(!all_alike.stands_back(Role::Scan));
        for preflush in [Preflush::Idle, Preflush::Steps] {
            let policy = IoPolicy {
                preflush,
                ..aggressive
            };
            assert!(policy.waits_quietly(Role::Scan));
            assert!(!policy.stands_back(Role::Scan), "{preflush:?}");
        }
    }
}
