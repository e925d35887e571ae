//! Kernel settings raised for the run and put back however it ends.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::facts::HUGEPAGES_DIR;

/// Pages added to one hugetlb pool; taken away again on drop.
///
/// The change is relative, so that what an administrator or a second run does
/// to the pool meanwhile stays.
#[derive(Debug)]
pub struct PoolGuard {
    nr_path: PathBuf,
    added: u64,
}

impl PoolGuard {
    /// Sees to it that `needed` pages of `page_bytes` can be mapped.
    ///
    /// # Errors
    /// When the kernel has no such pages, refuses the change, or finds too
    /// little memory in one piece; the pool is then as before.
    pub fn raise(page_bytes: u64, needed: u64) -> io::Result<Self> {
        let pool = format!("hugepages-{}kB", page_bytes / 1024);
        Self::raise_in(&Path::new(HUGEPAGES_DIR).join(pool), needed)
    }

    fn raise_in(dir: &Path, needed: u64) -> io::Result<Self> {
        let nr_path = dir.join("nr_hugepages");
        let free = read_count(&dir.join("free_hugepages"))?;
        let reserved = read_count(&dir.join("resv_hugepages"))?;
        let before = read_count(&nr_path)?;
        let missing = needed.saturating_sub(free.saturating_sub(reserved));
        let mut guard = PoolGuard { nr_path, added: 0 };
        if missing == 0 {
            return Ok(guard);
        }
        fs::write(&guard.nr_path, (before + missing).to_string())?;
        // The kernel adds what it finds, and calls that success.
        guard.added = read_count(&guard.nr_path)?.saturating_sub(before);
        if guard.added < missing {
            return Err(io::Error::other(format!(
                "the kernel found memory in one piece for {} of {missing} more pages",
                guard.added
            )));
        }
        Ok(guard)
    }
}

impl Drop for PoolGuard {
    fn drop(&mut self) {
        if self.added == 0 {
            return;
        }
        let put_back = read_count(&self.nr_path)
            .map(|now| now.saturating_sub(self.added))
            .and_then(|count| fs::write(&self.nr_path, count.to_string()));
        report_failure(&self.nr_path, put_back);
    }
}

/// A setting of the form `always [advise] never`, changed and put back on drop.
#[derive(Debug)]
pub struct ChoiceGuard {
    path: PathBuf,
    before: String,
}

impl ChoiceGuard {
    /// Chooses `value`.
    ///
    /// # Errors
    /// When the setting is not there or may not be changed.
    pub fn set(path: &Path, value: &str) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let before = chosen(&text)
            .ok_or_else(|| io::Error::other(format!("no choice is marked in {text:?}")))?
            .to_owned();
        fs::write(path, value)?;
        Ok(ChoiceGuard {
            path: path.to_owned(),
            before,
        })
    }
}

impl Drop for ChoiceGuard {
    fn drop(&mut self) {
        report_failure(&self.path, fs::write(&self.path, &self.before));
    }
}

/// The word in brackets.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

fn read_count(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| {
        io::Error::other(format!(
            "{} holds {:?}, not a number",
            path.display(),
            text.trim()
        ))
    })
}

/// A drop cannot return an error, and a changed machine must not go unnoticed.
fn report_failure(path: &Path, put_back: io::Result<()>) {
    if let Err(error) = put_back {
        eprintln!("warning: {} could not be put back: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(counts: [&str; 3]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let files = ["nr_hugepages", "free_hugepages", "resv_hugepages"];
        for (file, count) in files.into_iter().zip(counts) {
            fs::write(dir.path().join(file), count).unwrap();
        }
        dir
    }

    fn nr(dir: &tempfile::TempDir) -> u64 {
        read_count(&dir.path().join("nr_hugepages")).unwrap()
    }

    #[test]
    fn a_pool_is_raised_by_what_is_missing_and_put_back() {
        let dir = pool(["10", "8", "3"]);
        let guard = PoolGuard::raise_in(dir.path(), 20).unwrap();
        assert_eq!(nr(&dir), 25);
        fs::write(dir.path().join("nr_hugepages"), "125").unwrap();
        drop(guard);
        assert_eq!(nr(&dir), 110, "another's change stays");
    }

    #[test]
    fn a_sufficient_pool_is_left_alone() {
        let dir = pool(["10", "8", "3"]);
        drop(PoolGuard::raise_in(dir.path(), 5).unwrap());
        assert_eq!(nr(&dir), 10);
    }

    #[test]
    fn a_panic_puts_the_pool_back() {
        let dir = pool(["0", "0", "0"]);
        let path = dir.path().to_owned();
        let panicked = std::thread::spawn(move || {
            let _guard = PoolGuard::raise_in(&path, 7).unwrap();
            panic!("on purpose");
        })
        .join();
        assert!(panicked.is_err());
        assert_eq!(nr(&dir), 0);
    }

    #[test]
    fn a_missing_pool_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(PoolGuard::raise_in(dir.path(), 1).is_err());
    }

    #[test]
    fn a_choice_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shmem_enabled");
        fs::write(&path, "always advise [never] deny\n").unwrap();
        let guard = ChoiceGuard::set(&path, "advise").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "advise");
        drop(guard);
        assert_eq!(fs::read_to_string(&path).unwrap(), "never");
    }
}
