//! The names of a store's files.
//!
//! Their contents go through the engine; making, renaming and removing them is
//! the directory's business, which the engine knows nothing of.

#[cfg(feature = "simulated")]
mod simulated;

#[cfg(feature = "simulated")]
pub use simulated::SimulatedNames;

use std::fmt::Debug;
use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// What keeps a second opener out for as long as it lives.
pub type DirectoryLock = Box<dyn Send + Sync>;

/// Whoever knows the files in a directory by name: the operating system, or a
/// simulated disk in tests.
pub trait Names: Debug + Send + Sync {
    /// Makes a directory, and those above it, where they are missing; durably.
    ///
    /// # Errors
    /// What the system says.
    fn make_directory(&self, directory: &Path) -> io::Result<()>;

    /// Whether there is such a file.
    fn exists(&self, path: &Path) -> bool;

    /// All files in a directory.
    ///
    /// # Errors
    /// What the system says.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// Gives a file another name, in the place of what had that; or a directory, with the files
    /// in it, where nothing is.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a file's name away.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory, if there are directories.
    ///
    /// # Errors
    /// What the system says.
    fn remove_directory(&self, directory: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// What the system says.
    fn sync(&self, directory: &Path) -> io::Result<()>;

    /// Locks a directory against other openers, `None` if there is one.
    ///
    /// # Errors
    /// What the system says.
    fn lock(&self, directory: &Path) -> io::Result<Option<DirectoryLock>>;
}

/// Name of the file that is locked while a store is open.
pub(crate) const LOCK_FILE: &str = "lock";

/// The operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemNames;

impl Names for SystemNames {
    fn make_directory(&self, directory: &Path) -> io::Result<()> {
        let missing = directory.ancestors().take_while(|it| !it.exists()).count();
        fs::create_dir_all(directory)?;
        let mut above = directory.ancestors().skip(1).take(missing);
        above.try_for_each(|above| self.sync(above))
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(directory)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, directory: &Path) -> io::Result<()> {
        fs::remove_dir(directory)
    }

    fn sync(&self, directory: &Path) -> io::Result<()> {
        // What is above a relative name.
        let is_here = directory == Path::new("");
        fs::File::open(if is_here { Path::new(".") } else { directory })?.sync_all()
    }

    fn lock(&self, directory: &Path) -> io::Result<Option<DirectoryLock>> {
        let mut options = fs::OpenOptions::new();
        options.create(true).truncate(false).write(true);
        let file = options.open(directory.join(LOCK_FILE))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Box::new(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
