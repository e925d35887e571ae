//! Numbers of files for the scheduler, and what all handles of a file share.

use crate::error::Error;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

/// Which file: device number and inode number; for a block device its own
/// number and no inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InodeKey {
    pub dev: u64,
    pub inode: Option<u64>,
}

/// A file that is open, however often.
#[derive(Debug)]
pub(crate) struct Inode {
    base: u32,
    /// The first failed sync. Stays until the last handle is closed.
    pub poison: OnceLock<Error>,
}

impl Inode {
    /// The number that the scheduler knows it by. Handles of different kinds
    /// get different ones: their requests must not be merged, since one
    /// descriptor carries a merged transfer.
    pub(crate) fn number(&self, direct: bool, data_sync: bool) -> u32 {
        self.base * KINDS + u32::from(direct) * 2 + u32::from(data_sync)
    }
}

const KINDS: u32 = 4;

/// The open files of one device.
#[derive(Default)]
pub(crate) struct Inodes {
    /// With the base of each, which outlives a closed one until the next sweep.
    open: HashMap<InodeKey, (u32, Weak<Inode>)>,
    free: Vec<u32>,
    /// How many bases were ever in use.
    bases: u32,
    /// With this many entries, those of closed files are swept out.
    sweep_at: usize,
}

/// First size at which sweeping pays.
const SWEEP_MIN: usize = 64;

impl Inodes {
    /// The shared part of a file, new if no handle of it is open.
    pub(crate) fn get(&mut self, key: InodeKey) -> Arc<Inode> {
        // A closed file's base is unused: every request holds its file.
        let base = match self.open.get(&key) {
            Some((base, inode)) => match inode.upgrade() {
                Some(inode) => return inode,
                None => *base,
            },
            None => self.unused_base(),
        };
        let inode = Arc::new(Inode {
            base,
            poison: OnceLock::new(),
        });
        self.open.insert(key, (base, Arc::downgrade(&inode)));
        inode
    }

    fn unused_base(&mut self) -> u32 {
        if self.open.len() >= self.sweep_at {
            let free = &mut self.free;
            self.open.retain(|_, (base, inode)| {
                let open = inode.strong_count() > 0;
                if !open {
                    free.push(*base);
                }
                open
            });
            self.sweep_at = (self.open.len() * 2).max(SWEEP_MIN);
        }
        self.free.pop().unwrap_or_else(|| {
            // 2^30 open files are beyond the kernel's limit (`fs.nr_open`).
            assert!(self.bases < u32::MAX / KINDS);
            self.bases += 1;
            self.bases - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(inode: u64) -> InodeKey {
        InodeKey {
            dev: 1,
            inode: Some(inode),
        }
    }

    #[test]
    fn handles_of_a_file_share_and_files_do_not() {
        let mut inodes = Inodes::default();
        let first = inodes.get(key(1));
        let again = inodes.get(key(1));
        let other = inodes.get(key(2));
        assert!(Arc::ptr_eq(&first, &again));
        let numbers = [
            first.number(false, false),
            first.number(true, false),
            first.number(true, true),
            other.number(false, false),
        ];
        for (at, number) in numbers.iter().enumerate() {
            assert!(!numbers[..at].contains(number), "{numbers:?}");
        }
    }

    #[test]
    fn memory_follows_the_files_that_are_open() {
        let mut inodes = Inodes::default();
        let kept = inodes.get(key(0));
        for inode in 1..10_000 {
            drop(inodes.get(key(inode)));
        }
        assert!(inodes.open.len() <= SWEEP_MIN);
        assert!(inodes.bases as usize <= SWEEP_MIN);
        assert!(Arc::ptr_eq(&kept, &inodes.get(key(0))));
    }
}
