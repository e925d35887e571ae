//! The file that holds what a served disk holds.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use crate::medium::{FileMedium, Medium};
use crate::sys::{Locking, lock_exclusively};

/// Why a backing file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackingError {
    /// Neither a regular file nor a block device.
    #[error("{} is {what}, not a file", path.display())]
    NotAFile {
        /// As it was given.
        path: PathBuf,
        /// Such as "a directory".
        what: &'static str,
    },
    /// It holds less than the disk.
    #[error(
        "{} has {} bytes, the disk needs {needed_bytes}", path.display(), size_bytes
    )]
    TooSmall {
        /// As it was given.
        path: PathBuf,
        /// What it has.
        size_bytes: u64,
        /// What it should have.
        needed_bytes: u64,
    },
    /// Another server has it.
    #[error("{} is in use by another server", path.display())]
    InUse {
        /// As it was given.
        path: PathBuf,
    },
    /// The operating system refuses.
    #[error("cannot {doing} {}: {source}", path.display())]
    System {
        /// Such as "open".
        doing: &'static str,
        /// As it was given.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Opens the backing file of a disk of `size_bytes` and locks it against other
/// servers. Where there is none, it is made, sparse: it takes room as it is
/// written.
///
/// # Errors
/// [`BackingError`]; nothing is left behind then.
pub fn open(path: &Path, size_bytes: u64) -> Result<File, BackingError> {
    let system = |doing| {
        move |source| BackingError::System {
            doing,
            path: path.to_owned(),
            source,
        }
    };
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_file() || metadata.file_type().is_block_device() => {}
        Ok(metadata) => {
            return Err(BackingError::NotAFile {
                path: path.to_owned(),
                what: if metadata.is_dir() {
                    "a directory"
                } else {
                    "something else"
                },
            });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(system("look at")(error)),
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    let (file, made) = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let made = options.clone().create_new(true).open(path);
            (made.map_err(system("create"))?, true)
        }
        opened => (opened.map_err(system("open"))?, false),
    };
    match lock_exclusively(&file).map_err(system("lock"))? {
        Locking::Locked => {}
        Locking::Held => {
            return Err(BackingError::InUse {
                path: path.to_owned(),
            });
        }
    }
    if made && let Err(source) = file.set_len(size_bytes) {
        // It holds nothing that anybody could miss.
        let _ = std::fs::remove_file(path);
        return Err(system("make room in")(source));
    }
    let has_bytes = end(&file).map_err(system("measure"))?;
    if has_bytes < size_bytes {
        return Err(BackingError::TooSmall {
            path: path.to_owned(),
            size_bytes: has_bytes,
            needed_bytes: size_bytes,
        });
    }
    Ok(file)
}

/// Of a block device too, whose metadata say 0.
fn end(mut file: &File) -> io::Result<u64> {
    io::Seek::seek(&mut file, io::SeekFrom::End(0))
}

/// A file whose flushes do not wait for this machine's disk: what was written
/// survives the end of the server, not that of the machine. A flush then takes
/// as long as the model says, and not as long as the disk below.
pub struct Unsynced(pub FileMedium);

impl Medium for Unsynced {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> io::Result<usize> {
        self.0.read(offset, memory)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        self.0.write(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_made_sparse_and_locked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        let file = open(&path, 1 << 30).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 30);
        assert!(matches!(
            open(&path, 1 << 30),
            Err(BackingError::InUse { .. })
        ));
        drop(file);
        open(&path, 1 << 20).unwrap();
    }

    #[test]
    fn what_cannot_hold_the_disk_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk");
        std::fs::write(&path, [0; 512]).unwrap();
        let small = open(&path, 1024).unwrap_err();
        assert!(small.to_string().contains("has 512 bytes"), "{small}");
        let not = open(directory.path(), 512).unwrap_err();
        assert!(not.to_string().contains("is a directory"), "{not}");
        let nowhere = open(&directory.path().join("a/b"), 512).unwrap_err();
        assert!(matches!(nowhere, BackingError::System { .. }));
    }
}
