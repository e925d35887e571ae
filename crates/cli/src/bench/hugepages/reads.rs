//! What it costs to read pages from a file into frames of the cache.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::cache::{Cache, PAGE_BYTES, mix};
use super::measure::Context;
use super::{HugepagesError, Spread};
use crate::sys::cpu_clock::thread_cpu_ns;

/// Cost of 16 KiB reads at random, one at a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadCost {
    /// CPU time of the calling thread per read, user and kernel.
    pub cpu_ns: Spread,
    /// Reads per second of wall-clock time.
    pub reads_per_s: Spread,
}

/// Samples on one kind of pages.
#[derive(Default)]
pub(super) struct ReadSamples {
    cpu_ns: Vec<f64>,
    reads_per_s: Vec<f64>,
}

impl ReadSamples {
    /// One more: `reads` random pages into random frames.
    pub(super) fn measure(
        &mut self,
        source: &Source,
        cache: &mut Cache,
        context: &Context<'_>,
        reads: u64,
    ) -> Result<(), HugepagesError> {
        /// Between two looks at the stop flag: under 100 ms on a slow disk.
        const READS_PER_LOOK: u64 = 8;
        let mut state = context.options.seed;
        let (wall, cpu_start_ns) = (Instant::now(), thread_cpu_ns());
        for index in 0..reads {
            if index % READS_PER_LOOK == 0 {
                context.check()?;
            }
            state = mix(state);
            source.read(cache, state)?;
        }
        let elapsed_s = wall.elapsed().as_secs_f64();
        self.cpu_ns
            .push((thread_cpu_ns() - cpu_start_ns) as f64 / reads as f64);
        self.reads_per_s.push(reads as f64 / elapsed_s);
        Ok(())
    }

    /// What the samples say; `None` when there are none.
    pub(super) fn finish(self) -> Option<ReadCost> {
        Some(ReadCost {
            cpu_ns: Spread::of(self.cpu_ns)?,
            reads_per_s: Spread::of(self.reads_per_s)?,
        })
    }
}

/// A file to read pages from.
pub(super) struct Source {
    file: File,
    path: PathBuf,
    pages: u64,
}

impl Source {
    /// A scratch file without a name, written just now and so in the page
    /// cache: the disk is out of the measurement.
    pub(super) fn scratch(dir: &Path, bytes: u64) -> Result<Self, HugepagesError> {
        let path = dir.join(format!("iolane-hugepages-{}", std::process::id()));
        let pages = (bytes / PAGE_BYTES as u64).max(1);
        match write_scratch(&path, pages) {
            Ok(file) => Ok(Source { file, path, pages }),
            Err(source) => Err(HugepagesError::File {
                what: "writing the scratch file",
                path,
                source,
                remedy: "Choose a --directory with room that you may write to.",
            }),
        }
    }

    /// A file or device that is read past the page cache, and never written.
    pub(super) fn direct(path: &Path) -> Result<Self, HugepagesError> {
        let failed = |source| HugepagesError::File {
            what: "opening for direct reads",
            path: path.to_owned(),
            source,
            remedy: "Name a file or device that you may read, on a file system with O_DIRECT.",
        };
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(path)
            .map_err(failed)?;
        // Also the size of a block device, whose metadata says 0.
        let bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let pages = bytes / PAGE_BYTES as u64;
        if pages == 0 {
            return Err(HugepagesError::DirectTooSmall {
                path: path.to_owned(),
                bytes,
            });
        }
        Ok(Source {
            file,
            path: path.to_owned(),
            pages,
        })
    }

    fn read(&self, cache: &mut Cache, random: u64) -> Result<(), HugepagesError> {
        let offset = (random >> 32) % self.pages * PAGE_BYTES as u64;
        let frame = random as u32 % cache.pages();
        self.file
            .read_exact_at(cache.frame_mut(frame), offset)
            .map_err(|source| HugepagesError::File {
                what: "reading a page of",
                path: self.path.clone(),
                source,
                remedy: "See the kernel's messages (dmesg) for errors of the disk.",
            })
    }
}

/// The name is taken away at once, so that nothing stays behind however the
/// process ends.
fn write_scratch(path: &Path, pages: u64) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    fs::remove_file(path)?;
    const EXTENT_PAGES: u64 = 64;
    let extent = vec![0xA5; PAGE_BYTES * EXTENT_PAGES as usize];
    let mut left = pages;
    while left > 0 {
        let now = left.min(EXTENT_PAGES);
        file.write_all(&extent[..now as usize * PAGE_BYTES])?;
        left -= now;
    }
    Ok(file)
}
