//! Directories of databases, removed however the run ends, and their pages
//! dropped from the page cache.

use crate::stop::Stop;
use anyhow::{Context, Result, bail};
use rustix::fs::{Advice, fadvise};
use std::fs;
use std::path::{Path, PathBuf};

/// Begin of the name of a run's directory; the rest is its process.
const PREFIX: &str = "run-";

/// The directory of this run.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes it in `parent`, and removes what runs that were killed have left
    /// there.
    ///
    /// # Errors
    /// What the system says; too little room.
    pub fn create(parent: &Path, bytes_needed: u64, stop: &Stop) -> Result<Scratch> {
        let of = || format!("directory {}", parent.display());
        fs::create_dir_all(parent).with_context(of)?;
        // Some peers take the path of a socket or a file as given.
        let parent = parent.canonicalize().with_context(of)?;
        remove_leftovers(&parent)?;
        let space = rustix::fs::statvfs(&parent).with_context(of)?;
        let free = space.f_bavail * space.f_frsize;
        if free < bytes_needed {
            bail!(
                "{} has {} MiB free, the databases take up to {}: choose another --directory",
                parent.display(),
                free >> 20,
                bytes_needed >> 20
            );
        }
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).with_context(of)?;
        stop.directory_made(path.clone());
        Ok(Scratch { path })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("{} stays behind: {error}", self.path.display());
        }
        // The parent goes with the last run, if nothing else is in it.
        if let Some(parent) = self.path.parent() {
            let _ = fs::remove_dir(parent);
        }
    }
}

fn remove_leftovers(parent: &Path) -> Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if let Some(process) = process
            && process.parse::<u32>().is_ok()
            && !Path::new("/proc").join(process).exists()
        {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Writes the files below a directory to the disk and drops their pages from
/// the page cache. Unlike `/proc/sys/vm/drop_caches`, it needs no privilege and
/// leaves everybody else's alone. The database must be closed.
///
/// # Errors
/// What the system says.
pub fn drop_cached(path: &Path) -> Result<()> {
    each_file(path, &mut |file| {
        let file = fs::File::open(file)?;
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        Ok(())
    })
}

/// Calls `visit` for each regular file below a directory.
///
/// # Errors
/// What `visit` or the system says.
pub fn each_file(path: &Path, visit: &mut dyn FnMut(&Path) -> Result<()>) -> Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            each_file(&entry.path(), visit)?;
        } else if kind.is_file() {
            visit(&entry.path())?;
        }
    }
    Ok(())
}

/// The largest file below a directory.
///
/// # Errors
/// There is none; what the system says.
pub fn largest_file(directory: &Path) -> Result<PathBuf> {
    let mut largest = None;
    each_file(directory, &mut |path| {
        let bytes = fs::metadata(path)?.len();
        if largest.as_ref().is_none_or(|&(most, _)| bytes > most) {
            largest = Some((bytes, path.to_owned()));
        }
        Ok(())
    })?;
    Ok(largest.context("no file")?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_removes_what_a_dead_one_left_and_itself() {
        let parent = std::env::temp_dir().join(format!("peers-scratch-{}", std::process::id()));
        // No process has this number: it is above the kernel's limit of 2^22.
        fs::create_dir_all(parent.join("run-4999999")).unwrap();
        let scratch = Scratch::create(&parent, 1, &Stop::default()).unwrap();
        assert!(!parent.join("run-4999999").exists());
        fs::write(scratch.path().join("file"), vec![1; 10_000]).unwrap();
        drop_cached(scratch.path()).unwrap();
        assert!(largest_file(scratch.path()).unwrap().ends_with("file"));
        drop(scratch);
        assert!(!parent.exists());
    }
}
