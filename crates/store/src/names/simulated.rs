//! The names of a simulated disk, which has no directories.

use super::{DirectoryLock, Names};
use iolane::SimulatedDisk;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A directory is what the names of its files begin with.
#[derive(Clone)]
pub struct SimulatedNames(SimulatedDisk);

impl SimulatedNames {
    /// Those of this disk.
    pub fn new(disk: &SimulatedDisk) -> Self {
        Self(disk.clone())
    }
}

impl fmt::Debug for SimulatedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimulatedNames")
    }
}

impl Names for SimulatedNames {
    fn make_directory(&self, _directory: &Path) -> io::Result<()> {
        Ok(())
    }

    fn exists(&self, path: &Path) -> bool {
        self.0.names().iter().any(|name| Path::new(name) == path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let names = self.0.names().into_iter().map(PathBuf::from);
        Ok(names.filter(|name| name.starts_with(directory)).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.exists(from) {
            return self.0.rename(from, to);
        }
        let files = self.list(from)?;
        if files.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        files.iter().try_for_each(|file| {
            let within = file.strip_prefix(from).map_err(io::Error::other)?;
            self.0.rename(file, to.join(within))
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn remove_directory(&self, _directory: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self, _directory: &Path) -> io::Result<()> {
        self.0.sync_names();
        Ok(())
    }

    /// No other process knows the disk.
    fn lock(&self, _directory: &Path) -> io::Result<Option<DirectoryLock>> {
        Ok(Some(Box::new(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane::{Engine, OpenOptions};

    #[test]
    fn files_have_names_and_directories_are_their_beginnings() {
        let disk = SimulatedDisk::builder().build().unwrap();
        let engine = Engine::builder().simulated(&disk).build().unwrap();
        let mut options = OpenOptions::new();
        options.write(true).create(true);
        engine.open("a/b", &options).unwrap();
        let names = SimulatedNames::new(&disk);
        assert!(names.exists(Path::new("a/b")));
        assert_eq!(names.list(Path::new("a")).unwrap(), [Path::new("a/b")]);
        names.rename(Path::new("a"), Path::new("c")).unwrap();
        assert_eq!(names.list(Path::new("c")).unwrap(), [Path::new("c/b")]);
        let absent = names.rename(Path::new("a"), Path::new("d")).unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
        names.remove(Path::new("c/b")).unwrap();
        assert!(names.list(Path::new("c")).unwrap().is_empty());
    }
}
