//! What a disk holds.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// The contents of a disk, without time. Shared by threads; ranges that are
/// written at the same time end up mixed by whole calls, as on a disk.
pub trait Medium: Send + Sync {
    /// Bytes that it holds.
    fn size_bytes(&self) -> u64;

    /// Reads `memory.len()` bytes at `offset`, or fewer, at least one.
    ///
    /// # Errors
    /// What a disk would report.
    fn read(&self, offset: u64, memory: &mut [u8]) -> io::Result<usize>;

    /// Writes `data` at `offset`, or its beginning, at least one byte.
    ///
    /// # Errors
    /// What a disk would report.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize>;

    /// Makes every write that has returned durable.
    ///
    /// # Errors
    /// What a disk would report. What was not durable before may be lost then.
    fn sync(&self) -> io::Result<()>;
}

/// A file as medium.
pub struct FileMedium {
    file: File,
    size_bytes: u64,
}

impl FileMedium {
    /// The first `size_bytes` of `file`, which must be that large.
    pub fn new(file: File, size_bytes: u64) -> FileMedium {
        FileMedium { file, size_bytes }
    }
}

impl Medium for FileMedium {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(memory, offset)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        self.file.write_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Memory as medium. Holds only the chunks that were written; all else reads
/// as zeros.
pub struct MemoryMedium {
    size_bytes: u64,
    chunks: Mutex<HashMap<u64, Box<[u8]>>>,
}

impl MemoryMedium {
    /// Memory comes in pieces of this size.
    const CHUNK: usize = 64 << 10;

    /// An empty medium.
    pub fn new(size_bytes: u64) -> MemoryMedium {
        MemoryMedium {
            size_bytes,
            chunks: Mutex::new(HashMap::new()),
        }
    }

    fn check(&self, offset: u64, length: usize) -> io::Result<()> {
        match offset.checked_add(length as u64) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{length} bytes at {offset} lie beyond the medium's {} bytes",
                    self.size_bytes
                ),
            )),
        }
    }
}

/// The pieces of a range by chunk: chunk's number, where in it, how many
/// bytes.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let chunk = MemoryMedium::CHUNK as u64;
    let end = offset + length as u64;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let next = end.min((at / chunk + 1) * chunk);
        let piece = (at / chunk, (at % chunk) as usize, (next - at) as usize);
        at = next;
        Some(piece)
    })
}

impl Medium for MemoryMedium {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> io::Result<usize> {
        self.check(offset, memory.len())?;
        let chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = &mut *memory;
        for (number, start, length) in pieces(offset, rest.len()) {
            let (piece, tail) = rest.split_at_mut(length);
            match chunks.get(&number) {
                Some(chunk) => piece.copy_from_slice(&chunk[start..start + length]),
                None => piece.fill(0),
            }
            rest = tail;
        }
        Ok(memory.len())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        self.check(offset, data.len())?;
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rest = data;
        for (number, start, length) in pieces(offset, data.len()) {
            let (piece, tail) = rest.split_at(length);
            chunks
                .entry(number)
                .or_insert_with(|| vec![0; MemoryMedium::CHUNK].into())[start..start + length]
                .copy_from_slice(piece);
            rest = tail;
        }
        Ok(data.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_holds_what_was_written_across_chunks_and_zeros_elsewhere() {
        let medium = MemoryMedium::new(1 << 20);
        let data: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        assert_eq!(medium.write(1000, &data).unwrap(), data.len());
        let mut back = vec![7; data.len() + 2000];
        assert_eq!(medium.read(0, &mut back).unwrap(), back.len());
        assert!(back[..1000].iter().all(|&byte| byte == 0));
        assert_eq!(&back[1000..1000 + data.len()], &data[..]);
        assert!(back[1000 + data.len()..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn memory_refuses_what_lies_beyond_its_end() {
        let medium = MemoryMedium::new(4096);
        assert!(medium.write(4095, &[0; 2]).is_err());
        assert!(medium.read(u64::MAX, &mut [0; 2]).is_err());
    }
}
