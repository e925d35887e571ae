//! What commits waited for: what else the disk had when a request of the log ended.

use std::collections::BTreeMap;

use iolane_protocol::{KIND_READ, LEVELS};

use crate::statistics::Key;

/// Of all disks.
#[derive(Default)]
pub struct Commits {
    /// Requests that are with the devices. No more keys than disks, rules and levels make.
    flying: BTreeMap<Key, u64>,
    of_disks: BTreeMap<usize, Commit>,
}

/// Of one disk.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Writes and syncs of level `Critical`.
    pub requests: u64,
    pub queued_ns: u64,
    pub device_ns: u64,
    /// Other requests that were with the device at their ends, all together.
    pub beside: BTreeMap<Key, u64>,
}

/// Whether a commit waits for it.
pub fn is_commit(key: &Key) -> bool {
    key.level == 0 && key.kind != KIND_READ
}

impl Commits {
    /// A request goes to the device.
    pub fn starts(&mut self, key: Key) {
        debug_assert!(usize::from(key.level) < LEVELS);
        *self.flying.entry(key).or_default() += 1;
    }

    /// It is no longer there, whatever became of it.
    pub fn leaves(&mut self, key: &Key) {
        if let Some(count) = self.flying.get_mut(key) {
            *count = count.saturating_sub(1);
        }
    }

    /// One that has left has ended.
    pub fn ended(&mut self, key: &Key, queued_ns: u64, device_ns: u64) {
        if !is_commit(key) {
            return;
        }
        let commit = self.of_disks.entry(key.disk).or_default();
        commit.requests += 1;
        commit.queued_ns += queued_ns;
        commit.device_ns += device_ns;
        let others = self.flying.iter();
        for (other, &count) in others.filter(|(other, count)| other.disk == key.disk && **count > 0)
        {
            *commit.beside.entry(*other).or_default() += count;
        }
    }

    /// Of a disk, if any has ended there.
    pub fn of(&self, disk: usize) -> Option<&Commit> {
        self.of_disks.get(&disk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_protocol::{KIND_SYNC, KIND_WRITE};

    fn key(disk: usize, level: u8, kind: u8) -> Key {
        Key {
            disk,
            rule: level,
            level,
            kind,
        }
    }

    #[test]
    fn what_is_beside_a_commit_is_counted_on_its_disk() {
        let (log, scan) = (key(0, 0, KIND_SYNC), key(0, 4, KIND_READ));
        let mut commits = Commits::default();
        for started in [log, scan, scan, key(1, 4, KIND_WRITE)] {
            commits.starts(started);
        }
        commits.leaves(&log);
        commits.ended(&log, 1, 20);
        commits.leaves(&scan);
        commits.ended(&scan, 5, 5);
        commits.starts(log);
        commits.leaves(&log);
        commits.ended(&log, 2, 30);
        let commit = commits.of(0).unwrap();
        assert_eq!(
            (commit.requests, commit.queued_ns, commit.device_ns),
            (2, 3, 50)
        );
        assert_eq!(commit.beside, BTreeMap::from([(scan, 3)]));
        assert!(commits.of(1).is_none());
    }
}
