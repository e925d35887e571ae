//! Which tablespaces a directory has, and whether a file is what it should be.
//!
//! The name of a file says the number of its tablespace: `NAME@NUMBER.ts`. So a
//! store is opened without looking into its files, of which there may be
//! thousands; each is looked at when its pages are needed first. Those of
//! format 1 have no number in their names, and must be looked at.

use super::Owner;
use super::files::{SYSTEM_NAME, SYSTEM_SPACE};
use super::layout::{EXTENT_PLACE, HEADER_PAGE, Header, VERSION, VERSION_OF_EXTENTS};
use crate::access::PagesError;
use crate::error::StoreError;
use crate::files::{Damage, OpenFiles, open_options};
use crate::flush::Doublewrite;
use crate::names::Names;
use crate::page::header;
use iolane::{Buffer, Engine, File, Level};
use std::path::{Path, PathBuf};

/// Ending of a tablespace's file.
const FILE_SUFFIX: &str = ".ts";
/// Ending while it is being made: not a tablespace yet.
const NEW_SUFFIX: &str = ".ts.new";
/// Stands before the number in its name. No tablespace has it in its own.
const BEFORE_NUMBER: char = '@';

/// Where a tablespace is.
pub(crate) fn space_file(directory: &Path, name: &str, space: u32) -> PathBuf {
    directory.join(match space {
        SYSTEM_SPACE => format!("{name}{FILE_SUFFIX}"),
        _ => format!("{name}{BEFORE_NUMBER}{space}{FILE_SUFFIX}"),
    })
}

/// Where it is while it is being made.
pub(super) fn new_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}{NEW_SUFFIX}"))
}

/// A tablespace by the name of its file, and its number if that says it.
fn parse(path: &Path) -> Option<(&str, Option<u32>)> {
    let name = path.file_name()?.to_str()?.strip_suffix(FILE_SUFFIX)?;
    if name == SYSTEM_NAME {
        return Some((name, Some(SYSTEM_SPACE)));
    }
    match name.rsplit_once(BEFORE_NUMBER) {
        Some((name, number)) => {
            let number = number.parse().ok().filter(|&it| it != SYSTEM_SPACE)?;
            Some((name, Some(number)))
        }
        None => Some((name, None)),
    }
}

/// Who looks for tablespaces.
pub(crate) struct Finder<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) names: &'a dyn Names,
    pub(crate) directory: &'a Path,
    pub(crate) direct: bool,
    /// If it goes past damage, also those whose first pages say nothing are found.
    pub(crate) judge: Judge,
    pub(crate) doublewrite: &'a Doublewrite,
}

impl Finder<'_> {
    /// Finds all tablespaces, and tells `files` of them.
    ///
    /// # Errors
    /// There is none of the system, or one twice; the system's.
    pub(crate) fn find(&self, files: &OpenFiles) -> Result<(), StoreError> {
        let failed = |source| StoreError::system(self.directory, source);
        for path in self.names.list(self.directory).map_err(failed)? {
            let file_name = path.file_name().and_then(|name| name.to_str());
            if file_name.is_some_and(|name| name.ends_with(NEW_SUFFIX)) {
                let removed = self.names.remove(&path);
                removed.map_err(|source| StoreError::system(&path, source))?;
                continue;
            }
            let Some((name, number)) = parse(&path) else {
                continue;
            };
            let space = match number {
                Some(number) => number,
                None => self.number_of(&path, name)?,
            };
            if files.has(space) {
                return Err(StoreError::SpaceTwice { path, space });
            }
            files.know(space, name, &path);
        }
        if !files.has(SYSTEM_SPACE) {
            let path = space_file(self.directory, SYSTEM_NAME, SYSTEM_SPACE);
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(StoreError::system(&path, source));
        }
        Ok(())
    }

    /// What a file says whose name does not.
    fn number_of(&self, path: &Path, name: &str) -> Result<u32, StoreError> {
        let Judge {
            page_bytes,
            past_damage,
            ..
        } = self.judge;
        let file = self.engine.open(path, &open_options(self.direct))?;
        match first_page(&file, name, None, page_bytes, self.doublewrite) {
            Ok((head, _)) => Ok(head.space),
            Err(why) => {
                let is_its = is_damage(&why) || matches!(why, StoreError::Io(_));
                let space = (past_damage && is_its)
                    .then(|| second_page(&file, page_bytes))
                    .flatten();
                space.ok_or(why)
            }
        }
    }
}

/// Whether an error says that a tablespace's own pages are damaged, and nothing
/// of the others.
pub(super) fn is_damage(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Foreign { .. }
            | StoreError::Damaged { .. }
            | StoreError::Pages(PagesError::Unreadable { .. })
    )
}

/// Whether an error says that a file is not one that this store could use.
pub(super) fn is_foreign(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::OtherStore { .. } | StoreError::Version { .. }
    )
}

/// Whether an error says that a file is not the tablespace that it should be.
pub(crate) fn is_not_its(error: &StoreError) -> bool {
    is_damage(error) || is_foreign(error)
}

/// Looks at files before their pages are read or written for the first time.
#[derive(Clone, Copy)]
pub(crate) struct Judge {
    pub(crate) page_bytes: usize,
    /// Number of the store, in all of its files.
    pub(crate) store: u64,
    /// A damaged file is no error: what the log has changes of is made in it.
    pub(crate) past_damage: bool,
}

impl Judge {
    /// # Errors
    /// It is not that tablespace of this store, or of a newer version.
    pub(crate) fn judge(
        &self,
        file: &File,
        name: &str,
        space: u32,
        doublewrite: &Doublewrite,
    ) -> Result<Option<Damage>, StoreError> {
        let path = file.path();
        let past_damage = self.past_damage && space != SYSTEM_SPACE;
        let said = first_page(file, name, Some(space), self.page_bytes, doublewrite);
        let (head, truncated) = match said {
            Ok(says) => says,
            Err(why) => {
                let is_its = is_damage(&why) || matches!(why, StoreError::Io(_));
                let is_known = || second_page(file, self.page_bytes) == Some(space);
                if !(past_damage && is_its && is_known()) {
                    return Err(why);
                }
                return Ok(Some(Damage {
                    reason: why.to_string(),
                    owner: Owner::Unknown,
                }));
            }
        };
        if head.version != VERSION && head.version != VERSION_OF_EXTENTS {
            return Err(StoreError::Version {
                path: path.to_owned(),
                found: head.version,
                known: VERSION,
            });
        }
        if head.store != self.store {
            let path = path.to_owned();
            return Err(StoreError::OtherStore { path });
        }
        if head.space != space {
            return Err(StoreError::Damaged {
                path: path.to_owned(),
                reason: format!("it says that it is tablespace {}", head.space),
            });
        }
        match truncated {
            Some(why) if !past_damage => Err(why),
            truncated => Ok(truncated.map(|why| Damage {
                reason: why.to_string(),
                owner: Owner::Store,
            })),
        }
    }
}

/// The number of a tablespace whose first page does not say it.
fn second_page(file: &File, page_bytes: usize) -> Option<u32> {
    let mut page = Buffer::new(page_bytes);
    let offset = u64::from(EXTENT_PLACE) * page_bytes as u64;
    let read = file.read_at(&mut page, offset, Level::Foreground).ok()?;
    let own = header::id(&page);
    let whole = read == page_bytes && own.page == EXTENT_PLACE && header::check(&page, own).is_ok();
    (whole && own.space != SYSTEM_SPACE).then_some(own.space)
}

/// A tablespace's header, from its copy if a crash cut its writing short; and
/// why the file is not as long as it says.
fn first_page(
    file: &File,
    name: &str,
    space: Option<u32>,
    page_bytes: usize,
    doublewrite: &Doublewrite,
) -> Result<(Header, Option<StoreError>), StoreError> {
    let mut page = Buffer::new(page_bytes);
    let read = file.read_at(&mut page, 0, Level::Foreground)?;
    let own = header::id(&page);
    let whole = read == page_bytes && own.page == HEADER_PAGE && header::check(&page, own).is_ok();
    let parsed = if whole { Header::parse(&page) } else { None };
    if let Some(head) = parsed {
        // A header is durable in its place only after the file's length. One
        // that redo makes larger is another matter.
        let truncated = truncated(file, &head, page_bytes)?;
        return Ok((head, truncated));
    }
    let is_its = |copy: &[u8]| {
        let head = Header::parse(copy);
        head.is_some_and(|head| {
            head.name == name.as_bytes() && space.is_none_or(|space| space == head.space)
        })
    };
    if doublewrite.first_page(&mut page, is_its)?
        && let Some(head) = Header::parse(&page)
    {
        return Ok((head, None));
    }
    Err(StoreError::foreign(file.path(), "tablespace"))
}

fn truncated(
    file: &File,
    head: &Header,
    page_bytes: usize,
) -> Result<Option<StoreError>, StoreError> {
    let needed = u64::from(head.size_pages) * page_bytes as u64;
    let path = file.path();
    let bytes = file
        .size()
        .map_err(|source| StoreError::system(path, source))?;
    Ok((bytes < needed).then(|| StoreError::Truncated {
        path: path.to_owned(),
        bytes,
        needed,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_the_number_again() {
        let directory = Path::new("store");
        for (name, space) in [("table-7", 12), ("a.b_c", u32::MAX), ("system", 0)] {
            let path = space_file(directory, name, space);
            assert_eq!(parse(&path), Some((name, Some(space))));
        }
        let parsed = |name| parse(Path::new(name));
        assert_eq!(parsed("store/table-7.ts"), Some(("table-7", None)));
        for not in [
            "redo.log",
            "t@0.ts",
            "t@x.ts",
            "t@4294967296.ts",
            "t@1.ts.new",
        ] {
            assert_eq!(parsed(not), None, "{not}");
        }
    }
}
