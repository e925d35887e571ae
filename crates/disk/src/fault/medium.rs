//! A medium on which a plan's faults happen.

use super::decide::{Faults, Operation};
use super::log::Effect;
use super::plan::{Access, Visible};
use super::units;
use crate::medium::Medium;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Old content kept for power cuts. Beyond it the oldest is let go, which
/// heals the write that it belongs to.
const REVERT_BYTES_MAX: usize = 64 << 20;

/// Any medium, with faults.
///
/// Two ways to use it: as a [`Medium`], where stalls take no time; or by
/// [`begin`](FaultyMedium::begin), which says how long the operation
/// [stalls](Operation::stall_ns), and then the call of the same name with
/// `_as`, once.
///
/// ```
/// use iolane_disk::fault::{Faults, FaultyMedium};
/// use iolane_disk::{Medium, medium::MemoryMedium};
/// use std::sync::Arc;
///
/// let faults = Arc::new(Faults::new("lost=#2,seed=7".parse()?)?);
/// let medium = FaultyMedium::new(Arc::new(MemoryMedium::new(1 << 20)), Arc::clone(&faults));
/// medium.write(0, &[1; 4096])?;
/// medium.write(0, &[2; 4096])?; // acknowledged, and lost
/// let mut back = [0; 4096];
/// medium.read(0, &mut back)?;
/// assert_eq!(back, [1; 4096]);
/// assert_eq!(
///     faults.log().to_string(),
///     "seed 7, operation 2: write of 4096 at 0 lost\n"
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FaultyMedium {
    inner: Arc<dyn Medium>,
    faults: Arc<Faults>,
    /// Whether the plan needs `reverts` at all.
    keeps: bool,
    reverts: Mutex<Reverts>,
    /// All that was kept before this number is durable.
    durable: AtomicU64,
}

/// What a power cut brings back, oldest first.
#[derive(Default)]
struct Reverts {
    old: Vec<Old>,
    bytes: usize,
    /// Of the next that is kept.
    number: u64,
}

/// What was there before a write that only the cache has.
struct Old {
    number: u64,
    offset: u64,
    data: Vec<u8>,
}

impl Old {
    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }
}

/// What a sync makes durable once it is [done](FaultyMedium::synced).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covered(u64);

impl FaultyMedium {
    /// `inner`, with `faults`, which other mediums may share.
    pub fn new(inner: Arc<dyn Medium>, faults: Arc<Faults>) -> FaultyMedium {
        FaultyMedium {
            inner,
            keeps: faults.reverts(),
            faults,
            reverts: Mutex::default(),
            durable: AtomicU64::new(0),
        }
    }

    /// Counts an operation and decides about it: `length` bytes at `offset`,
    /// 0 and 0 for a sync.
    pub fn begin(&self, access: Access, offset: u64, length: u64) -> Operation {
        let size_bytes = self.inner.size_bytes();
        self.faults.begin(access, offset, length, size_bytes)
    }

    /// The read that was begun.
    ///
    /// # Errors
    /// The medium's, and `EIO` by the plan.
    pub fn read_as(
        &self,
        operation: &Operation,
        offset: u64,
        memory: &mut [u8],
    ) -> io::Result<usize> {
        match operation.effect {
            Some(Effect::Eio) => Err(io::Error::from_raw_os_error(EIO)),
            Some(Effect::Short { bytes }) => {
                let bytes = memory.len().min(bytes as usize);
                self.inner.read(offset, &mut memory[..bytes])
            }
            Some(Effect::Flipped {
                offset: at,
                bit,
                at_rest,
            }) => {
                if at_rest {
                    self.flip(at, bit)?;
                }
                let bytes = self.inner.read(offset, memory)?;
                if !at_rest && let Some(byte) = memory[..bytes].get_mut((at - offset) as usize) {
                    *byte ^= 1 << bit;
                }
                Ok(bytes)
            }
            _ => self.inner.read(offset, memory),
        }
    }

    /// The write that was begun.
    ///
    /// # Errors
    /// The medium's, and `EIO` and `ENOSPC` by the plan.
    pub fn write_as(&self, operation: &Operation, offset: u64, data: &[u8]) -> io::Result<usize> {
        // Held through the write: what is kept and what is written agree.
        let mut reverts = self.keeps.then(|| self.lock());
        match &operation.effect {
            Some(Effect::Eio) => Err(io::Error::from_raw_os_error(EIO)),
            Some(Effect::NoSpace) => Err(io::Error::from_raw_os_error(ENOSPC)),
            Some(Effect::Short { bytes }) => {
                let bytes = data.len().min(*bytes as usize);
                self.write_some(&mut reverts, offset, &data[..bytes])
            }
            Some(Effect::Misdirected { to }) => {
                forget(&mut reverts, *to, data.len());
                self.write_all(*to, data)?;
                Ok(data.len())
            }
            Some(Effect::Lost { visible }) => {
                let all = offset..offset + data.len() as u64;
                self.arrive(reverts, *visible, &[], &[all], offset, data)
            }
            Some(Effect::Torn {
                unit_bytes,
                arrived,
                visible,
            }) => {
                let all = offset..offset + data.len() as u64;
                let here = units::parts(&all, *unit_bytes, arrived, true);
                let missing = units::parts(&all, *unit_bytes, arrived, false);
                self.arrive(reverts, *visible, &here, &missing, offset, data)
            }
            _ => self.write_some(&mut reverts, offset, data),
        }
    }

    /// The sync that was begun.
    ///
    /// # Errors
    /// The medium's, and `EIO` by the plan.
    pub fn sync_as(&self, operation: &Operation) -> io::Result<()> {
        let covered = self.begin_sync_as(operation)?;
        self.synced(covered);
        Ok(())
    }

    /// The sync that was begun, for a caller with whom it takes time: until it
    /// is [done](Self::synced), a power cut takes what it covers, too.
    ///
    /// # Errors
    /// As [`sync_as`](Self::sync_as).
    pub fn begin_sync_as(&self, operation: &Operation) -> io::Result<Covered> {
        match operation.effect {
            Some(Effect::Eio) => return Err(io::Error::from_raw_os_error(EIO)),
            Some(Effect::LostSync) => return Ok(Covered::default()),
            _ => {}
        }
        if !self.keeps {
            return self.inner.sync().map(|()| Covered::default());
        }
        // A write that comes meanwhile is not covered by this sync.
        let reverts = self.lock();
        self.inner.sync()?;
        Ok(Covered(reverts.number))
    }

    /// A sync is done. Never waits.
    pub fn synced(&self, covered: Covered) {
        self.durable.fetch_max(covered.0, Ordering::SeqCst);
    }

    /// Cuts the power: what torn and lost writes left in the disk's cache
    /// only ([`Visible::AfterPowerCut`]) is gone. Returns how many bytes of the
    /// medium got their old content back. Operations under way may come before
    /// or after it: who uses the medium sees to it that there are none.
    ///
    /// # Errors
    /// The medium's. What is left to do is done by the next call.
    pub fn power_cut(&self) -> io::Result<u64> {
        let mut reverts = self.lock();
        let bytes = reverts.covered_bytes();
        while let Some(old) = reverts.old.last() {
            self.write_all(old.offset, &old.data)?;
            reverts.old.pop();
        }
        reverts.bytes = 0;
        Ok(bytes)
    }

    /// Writes the parts that arrive. Those that only seem to, arrive too, and
    /// their old content is kept.
    fn arrive(
        &self,
        mut reverts: Option<MutexGuard<'_, Reverts>>,
        visible: Visible,
        here: &[Range<u64>],
        missing: &[Range<u64>],
        offset: u64,
        data: &[u8],
    ) -> io::Result<usize> {
        for part in here {
            let length = (part.end - part.start) as usize;
            forget(&mut reverts, part.start, length);
        }
        match reverts {
            Some(mut reverts) if visible == Visible::AfterPowerCut => {
                for part in missing {
                    reverts.keep(part.start, self.old(part)?);
                }
                self.write_all(offset, data)?;
            }
            _ => {
                for part in here {
                    let from = (part.start - offset) as usize;
                    let to = (part.end - offset) as usize;
                    self.write_all(part.start, &data[from..to])?;
                }
            }
        }
        Ok(data.len())
    }

    fn write_some(
        &self,
        reverts: &mut Option<MutexGuard<'_, Reverts>>,
        offset: u64,
        data: &[u8],
    ) -> io::Result<usize> {
        let bytes = self.inner.write(offset, data)?;
        forget(reverts, offset, bytes);
        Ok(bytes)
    }

    fn old(&self, range: &Range<u64>) -> io::Result<Vec<u8>> {
        let mut old = vec![0; (range.end - range.start) as usize];
        let mut done = 0;
        while done < old.len() {
            match self
                .inner
                .read(range.start + done as u64, &mut old[done..])?
            {
                0 => break, // Past the end: zeros.
                bytes => done += bytes,
            }
        }
        Ok(old)
    }

    fn flip(&self, offset: u64, bit: u8) -> io::Result<()> {
        let mut byte = [0];
        if self.inner.read(offset, &mut byte)? == 1 {
            byte[0] ^= 1 << bit;
            self.write_all(offset, &byte)?;
        }
        Ok(())
    }

    fn write_all(&self, mut offset: u64, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let bytes = self.inner.write(offset, data)?;
            if bytes == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            offset += bytes as u64;
            data = &data[bytes..];
        }
        Ok(())
    }

    /// Without what is durable by now.
    fn lock(&self) -> MutexGuard<'_, Reverts> {
        let mut reverts = self.reverts.lock().unwrap_or_else(PoisonError::into_inner);
        reverts.let_go(self.durable.load(Ordering::SeqCst));
        reverts
    }
}

/// The kernel's numbers (`asm-generic/errno-base.h`), the same on every
/// architecture that Linux calls generic.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A power cut does not bring back what a good write has replaced.
fn forget(reverts: &mut Option<MutexGuard<'_, Reverts>>, offset: u64, length: usize) {
    if let Some(reverts) = reverts {
        reverts.forget(offset..offset + length as u64);
    }
}

impl Reverts {
    fn keep(&mut self, offset: u64, data: Vec<u8>) {
        self.bytes += data.len();
        let number = self.number;
        self.number += 1;
        self.old.push(Old {
            number,
            offset,
            data,
        });
        while self.bytes > REVERT_BYTES_MAX {
            self.bytes -= self.old.remove(0).data.len();
        }
    }

    /// All that was kept before `number`.
    fn let_go(&mut self, number: u64) {
        let count = self.old.partition_point(|old| old.number < number);
        let gone = self.old.drain(..count).map(|old| old.data.len());
        self.bytes -= gone.sum::<usize>();
    }

    /// Bytes of the medium, each of which may have been kept several times.
    fn covered_bytes(&self) -> u64 {
        let mut ranges: Vec<_> = self.old.iter().map(|old| (old.offset, old.end())).collect();
        ranges.sort_unstable();
        let mut counted_to = 0;
        let new_bytes = ranges.into_iter().map(|(start, end)| {
            let start = start.max(counted_to);
            counted_to = counted_to.max(end);
            end.saturating_sub(start)
        });
        new_bytes.sum()
    }

    /// Cuts `range` out of what is kept.
    fn forget(&mut self, range: Range<u64>) {
        let overlaps = |old: &Old| old.offset < range.end && old.end() > range.start;
        if !self.old.iter().any(overlaps) {
            return;
        }
        let mut left = Vec::new();
        for old in self.old.drain(..) {
            let (start, end) = (old.offset, old.end());
            let before = range.start.clamp(start, end);
            let after = range.end.clamp(start, end);
            for part in [start..before, after.max(before)..end] {
                if part.start < part.end {
                    let from = (part.start - start) as usize;
                    let to = (part.end - start) as usize;
                    left.push(Old {
                        number: old.number,
                        offset: part.start,
                        data: old.data[from..to].to_vec(),
                    });
                }
            }
        }
        self.bytes = left.iter().map(|old| old.data.len()).sum();
        self.old = left;
    }
}

impl Medium for FaultyMedium {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> io::Result<usize> {
        let operation = self.begin(Access::Read, offset, memory.len() as u64);
        self.read_as(&operation, offset, memory)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        let operation = self.begin(Access::Write, offset, data.len() as u64);
        self.write_as(&operation, offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        let operation = self.begin(Access::Sync, 0, 0);
        self.sync_as(&operation)
    }
}
