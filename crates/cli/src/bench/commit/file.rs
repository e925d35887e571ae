//! The log file through the engine, and the look at what it holds afterwards.
//!
//! Everything goes at the level `Critical` and by the blocking calls: the
//! leader's own thread does the system calls, unless something of the same
//! level is ahead of it.

use std::sync::atomic::{AtomicU64, Ordering};

use iolane::{Buffer, Engine, Error, File, Level, OpenOptions};

use super::CommitSetting;
use super::log::LogFile;
use super::record::{Tag, decode};
use crate::args::choices::{IoMode, SyncMethod};
use crate::bench::through_engine::{open_failure, transfer_failure};
use crate::error::Failure;
use crate::target::Target;

/// Through the page cache, blocks are whole pages of it: of a page written in
/// part, the kernel would have to read the rest first (what InnoDB's
/// `innodb_log_write_ahead_size` avoids).
const PAGE_BYTES: usize = 4096;

/// Past it, blocks are as small as the device takes them, but not below
/// InnoDB's.
const BLOCK_BYTES_MIN: usize = 512;

/// A log file of fixed size, synced by one method.
pub struct EngineLogFile {
    file: File,
    method: SyncMethod,
    block_bytes: usize,
    capacity_bytes: u64,
    syncs: AtomicU64,
}

impl EngineLogFile {
    /// # Errors
    /// The target cannot be opened in this way.
    pub fn open(engine: &Engine, target: &Target, setting: CommitSetting) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .direct(setting.io == IoMode::Direct)
            .data_sync(setting.method == SyncMethod::ODsync);
        let file = engine
            .open(&target.open_path, &options)
            .map_err(|error| open_failure(&error))?;
        let block_bytes = match setting.io {
            IoMode::Buffered => PAGE_BYTES,
            IoMode::Direct => {
                let alignment = file.alignment();
                let needed = alignment.offset_bytes.max(alignment.memory_bytes);
                BLOCK_BYTES_MIN.max(needed as usize)
            }
        };
        Ok(Self {
            file,
            method: setting.method,
            block_bytes,
            capacity_bytes: target.size_bytes / block_bytes as u64 * block_bytes as u64,
            syncs: AtomicU64::new(0),
        })
    }

    /// Syncs, or writes that were durable at once, so far.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn synced(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// The tags of the records from `start_lsn` to `end_lsn`, which are all of
    /// one length, as a recovery would read them.
    ///
    /// # Errors
    /// A read failed, or a record is not there.
    pub fn read_back(
        &self,
        start_lsn: u64,
        end_lsn: u64,
        record_bytes: usize,
    ) -> Result<Vec<Tag>, Failure> {
        let block = self.block_bytes as u64;
        let first = start_lsn / block * block;
        let blocks = (end_lsn - first).next_multiple_of(block);
        let mut buffer = Buffer::new(usize::try_from(blocks).unwrap_or(usize::MAX));
        self.read(&mut buffer, first % self.capacity_bytes)
            .map_err(|error| transfer_failure(&error))?;
        let records = &buffer[(start_lsn - first) as usize..(end_lsn - first) as usize];
        let starts = (start_lsn..).step_by(record_bytes);
        records
            .chunks(record_bytes)
            .zip(starts)
            .map(|(record, lsn)| decode(record, lsn).ok_or_else(|| lost(lsn)))
            .collect()
    }

    /// In two parts where it goes over the end of the file.
    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), Error> {
        let to_end = usize::try_from(self.capacity_bytes - offset).unwrap_or(usize::MAX);
        let length = buffer.len();
        let (first, second) = buffer.split_at_mut(length.min(to_end));
        self.file.read_at(first, offset, Level::Foreground)?;
        if !second.is_empty() {
            self.file.read_at(second, 0, Level::Foreground)?;
        }
        Ok(())
    }
}

/// A record that was acknowledged and is not in the file.
pub fn lost(lsn: u64) -> Failure {
    Failure::transfer(
        "reading the log back",
        std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            format!("the committed record at {lsn} is not there"),
        ),
    )
}

impl LogFile for EngineLogFile {
    type Error = Error;

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn write(&self, blocks: &[u8], offset: u64) -> Result<(), Error> {
        self.file.write_at(blocks, offset, Level::Critical)?;
        if self.method == SyncMethod::ODsync {
            self.synced();
        }
        Ok(())
    }

    fn make_durable(&self) -> Result<(), Error> {
        match self.method {
            SyncMethod::ODsync | SyncMethod::None => return Ok(()),
            SyncMethod::Fdatasync => self.file.sync_data(Level::Critical)?,
            SyncMethod::Fsync => self.file.sync(Level::Critical)?,
        }
        self.synced();
        Ok(())
    }
}
