//! Threads that each wait for their request, as most programs do.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use iolane::Buffer;
use iolane_disk::served::now_ns;

use super::{Client, Moments, Offsets, Sample, be_exact, sleep_until};

/// Most requests of an open loop that can be outstanding; when all threads
/// are, the next requests come later, on the model too.
const THREADS: u64 = 64;

/// A block device, past the page cache.
pub struct FileClient {
    file: File,
    block_bytes: usize,
    writes: bool,
}

impl FileClient {
    pub fn open(path: &Path, block_bytes: usize, writes: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(writes)
            .custom_flags(libc::O_DIRECT)
            .open(path)?;
        Ok(Self {
            file,
            block_bytes,
            writes,
        })
    }

    /// `next` gives the moment and the offset of the next request, or the end.
    fn run(
        &self,
        threads: u64,
        next: impl FnMut() -> Option<(u64, u64)> + Send,
    ) -> io::Result<Vec<Sample>> {
        let next = Mutex::new(next);
        thread::scope(|scope| {
            let work = || -> io::Result<Vec<Sample>> {
                be_exact();
                let mut buffer = Buffer::new(self.block_bytes);
                let mut samples = Vec::new();
                loop {
                    let mut locked = next.lock().unwrap_or_else(PoisonError::into_inner);
                    let Some((at_ns, offset)) = (*locked)() else {
                        return Ok(samples);
                    };
                    drop(locked);
                    sleep_until(at_ns);
                    samples.push(self.transfer(&mut buffer, offset)?);
                }
            };
            let running: Vec<_> = (0..threads)
                .map(|_| thread::Builder::new().spawn_scoped(scope, work))
                .collect::<io::Result<_>>()?;
            let mut all = Vec::new();
            for thread in running {
                let samples = thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                all.extend(samples?);
            }
            Ok(all)
        })
    }

    fn transfer(&self, buffer: &mut [u8], offset: u64) -> io::Result<Sample> {
        let start_ns = now_ns();
        if self.writes {
            self.file.write_all_at(buffer, offset)?;
        } else {
            self.file.read_exact_at(buffer, offset)?;
        }
        Ok(Sample {
            start_ns,
            end_ns: now_ns(),
            offset,
        })
    }
}

impl Client for FileClient {
    fn open(&self, moments: Moments) -> io::Result<Vec<Sample>> {
        let mut left = moments.moments.into_iter();
        self.run(THREADS, move || {
            left.next()
                .map(|(after_ns, offset)| (moments.start_ns + after_ns, offset))
        })
    }

    fn closed(&self, depth: u64, until_ns: u64, mut offsets: Offsets) -> io::Result<Vec<Sample>> {
        self.run(depth, move || (now_ns() < until_ns).then(|| (0, offsets())))
    }
}
