//! Where the store with the table is.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use iolane::{EngineBuilder, OpenOptions};
use iolane_store::StoreOptions;

use super::witness::Witness;
use crate::bench::through_engine::open_failure;
use crate::disk::{InProcess, Volume};
use crate::error::Failure;
use crate::session::Session;
use crate::sys::file::drop_cached;
use crate::system::SystemPaths;
use crate::target::ScratchDirectory;

/// Of a file that is removed, at once, and before the next part. Each part is a
/// commit of the filesystem's journal, and no flush of the log begins while a
/// disk writes that commit's record: they should not be many.
const REMOVED_BYTES: u64 = 8 << 20;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// A directory, or a disk in memory.
pub struct Place {
    within: Within,
    parent: PathBuf,
}

enum Within {
    Files {
        _directory: ScratchDirectory,
        /// Below the directory, and so dropped after it.
        _volume: Option<Box<Volume>>,
    },
    Memory(InProcess),
}

impl Place {
    /// A directory of its own below `parent`.
    ///
    /// # Errors
    /// What the system says.
    pub fn directory(parent: &Path, session: &Session) -> Result<Self, Failure> {
        Self::files(parent, None, session)
    }

    /// A directory on a modelled disk, which it keeps.
    ///
    /// # Errors
    /// What the system says.
    pub fn volume(volume: Volume, session: &Session) -> Result<Self, Failure> {
        let parent = volume.path.clone();
        Self::files(&parent, Some(volume), session)
    }

    fn files(parent: &Path, volume: Option<Volume>, session: &Session) -> Result<Self, Failure> {
        let directory = ScratchDirectory::make(parent, "iolane-bench-store", session)?;
        Ok(Self {
            parent: directory.path.clone(),
            within: Within::Files {
                _directory: directory,
                _volume: volume.map(Box::new),
            },
        })
    }

    /// A modelled disk in this process.
    pub fn memory(disk: InProcess) -> Self {
        Self {
            within: Within::Memory(disk),
            parent: PathBuf::from("iolane"),
        }
    }

    /// The store's.
    pub fn path(&self) -> PathBuf {
        self.parent.join("store")
    }

    /// Where a backup may be made.
    pub fn backup_path(&self) -> PathBuf {
        self.parent.join("backup")
    }

    /// An engine that knows the place's files.
    pub fn engine(&self, builder: EngineBuilder) -> EngineBuilder {
        match &self.within {
            Within::Files { .. } => builder,
            Within::Memory(volume) => builder.simulated(volume.disk()),
        }
    }

    /// For a store there.
    pub fn name_files(&self, options: &mut StoreOptions) {
        if let Within::Memory(volume) = &self.within {
            options.pages.names = volume.names();
        }
    }

    /// The store has been filled.
    pub fn take_time(&self) {
        if let Within::Memory(volume) = &self.within {
            volume.take_time();
        }
    }

    /// What looks at its disk and at the machine.
    ///
    /// # Errors
    /// When the kernel gives no thread.
    pub fn witness(&self, paths: &SystemPaths, begin: std::time::Instant) -> io::Result<Witness> {
        let directory = match &self.within {
            Within::Files { .. } => Some(self.path()),
            Within::Memory(_) => None,
        };
        Witness::start(directory.as_deref(), paths, begin)
    }

    /// All files of the store and their sizes.
    ///
    /// # Errors
    /// What the system says.
    pub fn files_of_store(&self) -> Result<Vec<(PathBuf, u64)>, Failure> {
        let path = self.path();
        let unreadable = |error| Failure::transfer(format!("reading {}", path.display()), error);
        match &self.within {
            Within::Files { .. } => listed(&path).map_err(unreadable),
            Within::Memory(volume) => {
                let files = volume.names().list(&path).map_err(unreadable)?;
                let engine = self.engine(iolane::Engine::builder()).build();
                let engine = engine.map_err(|error| Failure::Internal {
                    message: error.to_string(),
                })?;
                let sized = files.into_iter().map(|path| {
                    let file = engine.open(&path, OpenOptions::new().read(true));
                    let file = file.map_err(|error| open_failure(&error))?;
                    Ok((path, file.size().map_err(unreadable)?))
                });
                sized.collect()
            }
        }
    }

    /// Drops what the kernel has of a file in memory.
    ///
    /// # Errors
    /// What the system says.
    pub fn drop_cached(&self, path: &Path) -> io::Result<()> {
        match &self.within {
            Within::Files { .. } => File::open(path).and_then(|file| drop_cached(&file)),
            Within::Memory(_) => Ok(()),
        }
    }

    /// Removes the backup, without hurting others.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove_backup(&self, is_hurried: &dyn Fn() -> bool) -> io::Result<()> {
        let path = self.backup_path();
        match &self.within {
            Within::Files { .. } => remove_slowly(&path, is_hurried),
            Within::Memory(volume) => {
                let names = volume.names();
                let mut files = names.list(&path)?.into_iter();
                files.try_for_each(|file| names.remove(&file))
            }
        }
    }
}

fn listed(directory: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        if metadata.is_file() {
            files.push((entry.path(), metadata.len()));
        }
    }
    Ok(files)
}

/// Removes a directory of files, from their ends. On a filesystem that tells
/// its device what is free (mount option `discard`), the device may serve
/// nobody while it frees a large file: 20 ms for 256 MiB on a virtual disk.
fn remove_slowly(directory: &Path, is_hurried: &dyn Fn() -> bool) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let file = File::options().write(true).open(entry?.path())?;
        let mut length = file.metadata()?.len();
        while length > 0 && !is_hurried() {
            length = length.saturating_sub(REMOVED_BYTES);
            file.set_len(length)?;
            // Or the filesystem gathers what is free.
            file.sync_all()?;
            thread::sleep(REMOVAL_PAUSE);
        }
    }
    fs::remove_dir_all(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_removed_from_their_ends_unless_in_a_hurry() {
        for is_hurried in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            let copy = directory.path().join("copy");
            fs::create_dir(&copy).unwrap();
            let file = copy.join("a.ts");
            fs::write(&file, vec![1; 3 * REMOVED_BYTES as usize / 2]).unwrap();
            fs::write(copy.join("empty"), []).unwrap();
            let mut lengths = std::cell::RefCell::new(Vec::new());
            let look = || {
                let length = fs::metadata(&file).unwrap().len();
                lengths.borrow_mut().push(length);
                is_hurried
            };
            remove_slowly(&copy, &look).unwrap();
            assert!(!copy.exists());
            lengths.get_mut().dedup();
            let half = REMOVED_BYTES / 2;
            match is_hurried {
                true => assert_eq!(lengths.get_mut(), &[3 * half]),
                false => assert_eq!(lengths.get_mut(), &[3 * half, half]),
            }
        }
    }
}
