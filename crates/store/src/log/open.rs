//! Making a log, and opening one.

use super::circle::{BLOCK, Circle};
use super::header::{CIRCLE, Header, VERSION};
use super::record::{self, OPENING};
use super::{CAPACITY_BYTES_MAX, CAPACITY_BYTES_MIN, Log, LogError, LogScan};
use crate::ids::Lsn;
use iolane::{Buffer, File, Level};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Zeros written at once to a new log: others wait for a disk of 128 MiB/s for
/// 2 ms then.
const ZEROS_BYTES: usize = 256 << 10;
/// Of them that a disk may keep in its cache until they are made durable, as others'
/// flushes wait for that too.
const ZEROS_UNSYNCED_BYTES: u64 = 8 << 20;

impl Log {
    /// Options with which a log file must be opened, or created.
    pub fn open_options() -> iolane::OpenOptions {
        let mut options = iolane::OpenOptions::new();
        options.read(true).write(true).direct(true).data_sync(true);
        options
    }

    /// Options with which the same file is opened [for writes that need not be
    /// durable](Log::with_plain).
    pub fn plain_options() -> iolane::OpenOptions {
        let mut options = Log::open_options();
        options.data_sync(false);
        options
    }

    /// Bytes that a log file with a circle of `capacity_bytes` takes.
    pub const fn file_bytes(capacity_bytes: u64) -> u64 {
        CIRCLE + capacity_bytes
    }

    /// Makes an empty log in `file` and begins it at `start`; `plain` is the same
    /// file for [writes that need not be durable](Log::with_plain). Every block is
    /// written: a later write then changes nothing but its data, and the file
    /// system has no journal to write for it. That is done with `level`: it may
    /// be most of the work of whoever makes a store, and nobody else waits for
    /// it. It is done through `plain`, and made durable by much at once: a durable write
    /// to a new block is a commit of the file system's journal, and no flush of any
    /// other file begins while the disk writes such a commit's record.
    ///
    /// # Errors
    /// [`LogError::Capacity`], or [`LogError::Failed`] with the cause.
    pub fn create(
        file: File,
        plain: File,
        capacity_bytes: u64,
        store: u64,
        start: Lsn,
        level: Level,
    ) -> Result<Log, LogError> {
        if !(CAPACITY_BYTES_MIN..=CAPACITY_BYTES_MAX).contains(&capacity_bytes)
            || !capacity_bytes.is_multiple_of(BLOCK)
        {
            return Err(LogError::Capacity {
                bytes: capacity_bytes,
            });
        }
        let circle = Circle::new(file, capacity_bytes);
        let zeros = Buffer::new(ZEROS_BYTES);
        let mut at = 0;
        while at < capacity_bytes {
            let length = (capacity_bytes - at).min(ZEROS_BYTES as u64);
            plain
                .write_at(&zeros[..length as usize], CIRCLE + at, level)
                .map_err(LogError::failed)?;
            at += length;
            if at.is_multiple_of(ZEROS_UNSYNCED_BYTES) {
                plain.sync_data(level).map_err(LogError::failed)?;
            }
        }
        plain.sync(level).map_err(LogError::failed)?;
        let header = Header {
            version: VERSION,
            store,
            circle_bytes: capacity_bytes,
            count: 0,
            checkpoint: start,
            chain: 0,
        };
        // Both blocks: a torn second one must leave a first.
        for count in [1, 2] {
            Header { count, ..header }.put(circle.file())?;
        }
        circle.file().sync(level).map_err(LogError::failed)?;
        let header = Header { count: 2, ..header };
        let before = vec![0; (start.0 % BLOCK) as usize];
        Ok(Log::at(circle, header, start, 0, before).with_plain(plain))
    }

    /// Opens a log, finds its end, and returns it with the records since the
    /// checkpoint. All that was found is made durable first: a process that
    /// was killed may have left it in the disk's cache. Nothing that lies behind
    /// the end will ever follow it.
    ///
    /// # Errors
    /// [`LogError`]: not a log, of a newer version, truncated, not readable or
    /// not writable.
    pub fn open(file: File) -> Result<(Log, LogScan), LogError> {
        let mut header = Header::of(&file)?;
        if header.circle_bytes < CAPACITY_BYTES_MIN || !header.circle_bytes.is_multiple_of(BLOCK) {
            return Err(LogError::Foreign);
        }
        let size = file.size().map_err(|error| LogError::Failed {
            reason: error.to_string(),
        })?;
        if size < Log::file_bytes(header.circle_bytes) {
            return Err(LogError::Truncated { at: size });
        }
        file.sync_data(Level::Critical).map_err(LogError::failed)?;
        if header.version < VERSION {
            // Before there is anything that the older version does not know.
            header.version = VERSION;
            for _ in 0..2 {
                header.count += 1;
                header.put(&file)?;
            }
        }
        let circle = || Circle::new(file.clone(), header.circle_bytes);
        let scan = || LogScan::new(circle(), header.checkpoint, header.chain);
        let mut to_the_end = scan();
        while to_the_end.next()?.is_some() {}
        let (at, chain) = to_the_end.goes_on_at();
        let (end, chain, tail) = write_opening(&circle(), at, chain)?;
        Ok((Log::at(circle(), header, end, chain, tail), scan()))
    }
}

/// Writes an [opening](record::opening) at `at` and nothing else: all around it
/// is written as it stands on the disk, so that of a write that power cuts short
/// nothing but the opening itself is new, or less. The log ends before it or
/// behind it, and what lay at `at` can never become whole again. Returns the end,
/// the checksum of the opening, and the bytes before the end in its block.
///
/// It needs no room to be reserved. The last record ended within the capacity,
/// behind it is no more than one opening, as the next overwrites one that
/// nothing follows, and [blocks are kept free](Log::capacity).
fn write_opening(circle: &Circle, at: Lsn, chain: u32) -> Result<(Lsn, u32, Vec<u8>), LogError> {
    let end = Lsn(at.0 + OPENING as u64);
    let first = at.0 / BLOCK * BLOCK;
    let mut blocks = Buffer::new((end.0 - first).next_multiple_of(BLOCK) as usize);
    let mut block = Buffer::new(BLOCK as usize);
    for (index, place) in blocks.chunks_mut(BLOCK as usize).enumerate() {
        let from = first + index as u64 * BLOCK;
        match circle.read(from, &mut block, BLOCK as usize) {
            Ok(()) => place.copy_from_slice(&block),
            // Nothing that is needed stands there: what cannot be read cannot
            // become whole either.
            Err(_) if from >= at.0 => place.fill(0),
            Err(error) => return Err(error),
        }
    }
    let random = || u128::from(RandomState::new().hash_one(at.0));
    let (opening, checksum) = record::opening(at, chain, random() << 64 | random());
    let begin = (at.0 - first) as usize;
    blocks[begin..begin + OPENING].copy_from_slice(&opening);
    circle.write(first, &blocks)?;
    let tail = end.0 / BLOCK * BLOCK - first;
    let tail = tail as usize..(end.0 - first) as usize;
    Ok((end, checksum, blocks[tail].to_vec()))
}
