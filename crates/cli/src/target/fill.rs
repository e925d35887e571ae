//! Fills a scratch file, so that reads of it reach the disk.
//!
//! Blocks that are only reserved are answered with zeros by the file system,
//! and data that compresses is answered faster by some devices: so real
//! transfers of random bytes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{TargetError, open};
use crate::error::Failure;
use crate::session::Session;
use crate::sys::file::{allocate, drop_cached};

const CHUNK_BYTES: usize = 1 << 20;

/// Enough for the direct I/O of every device known.
const BUFFER_ALIGNMENT_BYTES: usize = 4096;

pub fn fill(
    file: &File,
    open_path: &Path,
    shown: &Path,
    size_bytes: u64,
    session: &Session,
) -> Result<(), Failure> {
    reserve(file, shown, size_bytes)?;
    // Direct, where possible, to leave the page cache of others alone.
    let whole_chunks = size_bytes.is_multiple_of(BUFFER_ALIGNMENT_BYTES as u64);
    let direct = whole_chunks
        .then(|| open(open_path, true, true).ok())
        .flatten();
    let writer = direct.as_ref().unwrap_or(file);
    let mut random = RandomBytes::new(u64::from(std::process::id()));
    let mut room = vec![0; CHUNK_BYTES + BUFFER_ALIGNMENT_BYTES];
    let start = room.as_ptr().align_offset(BUFFER_ALIGNMENT_BYTES);
    let buffer = &mut room[start..start + CHUNK_BYTES];
    let progress = session
        .progress
        .bytes("writing the scratch file", size_bytes);
    let mut at = 0;
    while at < size_bytes {
        session.stop.check()?;
        let length = CHUNK_BYTES.min(usize::try_from(size_bytes - at).unwrap_or(CHUNK_BYTES));
        random.fill(&mut buffer[..length]);
        writer
            .write_all_at(&buffer[..length], at)
            .map_err(|error| failure(shown, error))?;
        at += length as u64;
        progress.advance(length as u64);
    }
    file.sync_data().map_err(|error| failure(shown, error))?;
    // Only a courtesy: without it the first buffered reads may hit the cache.
    let _ = drop_cached(file);
    Ok(())
}

/// Takes all the blocks at once: fewer extents, and a full disk shows now.
fn reserve(file: &File, shown: &Path, size_bytes: u64) -> Result<(), TargetError> {
    match allocate(file, size_bytes) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        result => result.map_err(|error| failure(shown, error)),
    }
}

fn failure(shown: &Path, source: io::Error) -> TargetError {
    let path = shown.to_owned();
    match source.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT) => TargetError::Filled { path },
        _ => TargetError::FillFailed { path, source },
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014): fast, and no compressor finds a
/// pattern in it.
struct RandomBytes(u64);

impl RandomBytes {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut value = self.0;
            value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            value ^= value >> 31;
            chunk.copy_from_slice(&value.to_ne_bytes()[..chunk.len()]);
        }
    }
}
