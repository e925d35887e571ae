//! Which file a command runs, and whether the library can enter it.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::Failure;
use crate::sys::attribute;

/// The headers of an executable lie at its beginning.
const HEADER_BYTES_MAX: u64 = 64 << 10;
/// Interpreters of interpreters.
const SCRIPTS_MAX: usize = 4;
/// Of the ELF specification.
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const INSTEAD: &str = "Use --mode kernel, which needs no library (docs/run.md), or a dynamically \
linked build that runs without file capabilities.";

/// As a shell looks for it.
///
/// # Errors
/// There is none.
pub fn find(command: &OsStr) -> Result<PathBuf, Failure> {
    if command.as_bytes().contains(&b'/') {
        let path = PathBuf::from(command);
        return match fs::metadata(&path) {
            _ if is_executable(&path) => Ok(path),
            Ok(_) => Err(Failure::setup(
                format!("'{}' cannot be executed", command.to_string_lossy()),
                "Name a program, or make it one: chmod +x.",
            )),
            Err(_) => Err(missing(command)),
        };
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&folders)
        .map(|folder| folder.join(command))
        .find(|path| is_executable(path));
    found.ok_or_else(|| missing(command))
}

fn missing(command: &OsStr) -> Failure {
    Failure::setup(
        format!("there is no program '{}'", command.to_string_lossy()),
        "Check its name and path.",
    )
}

fn is_executable(path: &Path) -> bool {
    let metadata = fs::metadata(path);
    metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Why the dynamic loader would preload no library into it; `None` if it would.
///
/// # Errors
/// It cannot be read.
pub fn obstacle(path: &Path) -> Result<Option<Failure>, Failure> {
    let mut path = path.to_owned();
    for _ in 0..SCRIPTS_MAX {
        match look(&path)? {
            Seen::Open => return Ok(None),
            Seen::Closed(obstacle) => return Ok(Some(obstacle)),
            Seen::Script(interpreter) => path = interpreter,
        }
    }
    Ok(None)
}

/// Whether it is a program that Go's linker made: these make system calls by instructions of
/// their own, also where they are linked to the C library.
pub fn is_go(path: &Path) -> bool {
    header(path).is_ok_and(|header| has_go_note(&header))
}

/// The first bytes of a file.
fn header(path: &Path) -> io::Result<Vec<u8>> {
    let mut header = Vec::new();
    File::open(path)?
        .take(HEADER_BYTES_MAX)
        .read_to_end(&mut header)?;
    Ok(header)
}

/// What a file is for the library.
enum Seen {
    Open,
    Closed(Failure),
    /// Its interpreter's path.
    Script(PathBuf),
}

fn look(path: &Path) -> Result<Seen, Failure> {
    let closed = |why: &str| {
        let message = format!("{} {why}", path.display());
        Ok(Seen::Closed(Failure::setup(message, INSTEAD)))
    };
    let unreadable = |error| {
        let remedy = "iolane run has to see whether its library can enter the program.";
        Failure::setup(format!("cannot read {}: {error}", path.display()), remedy)
    };
    let header = header(path).map_err(unreadable)?;
    if let Some(script) = header.strip_prefix(b"#!") {
        let line = script.split(|&byte| byte == b'\n').next().unwrap_or(script);
        let word = line
            .split(u8::is_ascii_whitespace)
            .find(|word| !word.is_empty());
        return Ok(match word {
            Some(word) => Seen::Script(PathBuf::from(OsStr::from_bytes(word))),
            // A shell takes it.
            None => Seen::Open,
        });
    }
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if metadata.mode() & 0o6000 != 0 && !is_own(&metadata) {
        return closed(
            "runs as another user (set-user-ID or set-group-ID): no library is preloaded into it",
        );
    }
    if attribute::exists(path, c"security.capability") {
        return closed("has file capabilities: no library is preloaded into it");
    }
    match executable(&header) {
        Executable::Dynamic => Ok(Seen::Open),
        Executable::Static => closed("is statically linked: no library can be preloaded into it"),
        Executable::OtherLibrary => closed(
            "is linked to another C library (musl): the library that is preloaded needs glibc",
        ),
        Executable::Foreign => closed("is no 64-bit program of this machine"),
    }
}

/// Root changes to nobody else by it.
fn is_own(metadata: &fs::Metadata) -> bool {
    let own = fs::metadata("/proc/self");
    own.is_ok_and(|own| own.uid() == metadata.uid() && own.gid() == metadata.gid())
}

#[derive(Debug, PartialEq, Eq)]
enum Executable {
    Dynamic,
    Static,
    /// Its loader is musl's, which would end it before it begins, for what the library lacks.
    OtherLibrary,
    Foreign,
}

/// Whether it begins as an ELF file of 64 bits for this processor.
pub fn is_of_this_machine(header: &[u8]) -> bool {
    let machine: u16 = if cfg!(target_arch = "aarch64") {
        183
    } else {
        62
    };
    header.starts_with(b"\x7fELF\x02\x01") && half(header, 18) == Some(machine)
}

/// Reads an ELF header of 64 bits and its table of segments.
fn executable(header: &[u8]) -> Executable {
    if !is_of_this_machine(header) {
        return Executable::Foreign;
    }
    let Some(mut segments) = segments(header) else {
        return Executable::Foreign;
    };
    match segments.find(|segment| word(segment, 0) == Some(PT_INTERP)) {
        Some(segment) if is_of_musl(content(header, segment).unwrap_or_default()) => {
            Executable::OtherLibrary
        }
        Some(_) => Executable::Dynamic,
        None => Executable::Static,
    }
}

/// Whether a loader's path, such as `/lib/ld-musl-x86_64.so.1`, is that of musl's.
fn is_of_musl(loader: &[u8]) -> bool {
    let name = loader.rsplit(|&byte| byte == b'/').next();
    name.is_some_and(|name| name.starts_with(b"ld-musl-"))
}

/// What of the file a segment has, if that lies in the header.
fn content<'a>(header: &'a [u8], segment: &[u8]) -> Option<&'a [u8]> {
    let at = usize::try_from(long(segment, 8)?).ok()?;
    let length = usize::try_from(long(segment, 32)?).ok()?;
    header.get(at..at.checked_add(length)?)
}

/// Entries of an ELF file's table of segments, as far as they are there.
fn segments(header: &[u8]) -> Option<impl Iterator<Item = &[u8]>> {
    let (offset, size, count) = (long(header, 32)?, half(header, 54)?, half(header, 56)?);
    let (offset, size) = (usize::try_from(offset).ok()?, usize::from(size));
    Some((0..usize::from(count)).map_while(move |index| {
        let at = offset.checked_add(index * size)?;
        header.get(at..at.checked_add(size)?)
    }))
}

/// Whether a note has the owner "Go": its linker names the build there.
fn has_go_note(header: &[u8]) -> bool {
    let of_note = |segment| {
        let is_note = word(segment, 0) == Some(PT_NOTE);
        content(header, segment).filter(|_| is_note)
    };
    let Some(mut segments) = segments(header).filter(|_| is_of_this_machine(header)) else {
        return false;
    };
    segments.any(|segment| {
        let mut notes = of_note(segment).unwrap_or_default();
        // A name's length, a description's, a type; both texts begin at multiples of four.
        while let (Some(name), Some(text)) = (word(notes, 0), word(notes, 4)) {
            let padded = |length: u32| (length as usize).next_multiple_of(4);
            if notes
                .get(12..)
                .is_some_and(|rest| name == 4 && rest.starts_with(b"Go\0\0"))
            {
                return true;
            }
            notes = notes
                .get(12 + padded(name) + padded(text)..)
                .unwrap_or_default();
        }
        false
    })
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn programs_are_found_as_a_shell_does() {
        let shell = find(OsStr::new("sh")).unwrap();
        assert!(shell.is_absolute());
        assert!(obstacle(&shell).unwrap().is_none());
        let refused = |command: &str| find(OsStr::new(command)).unwrap_err().to_string();
        assert_eq!(refused("/etc/passwd"), "'/etc/passwd' cannot be executed");
        assert_eq!(refused("/etc"), "'/etc' cannot be executed");
        assert_eq!(refused("/no/such"), "there is no program '/no/such'");
        assert!(find(&OsString::from("no-such-program-here")).is_err());
    }

    /// A shell whose program headers were changed to one with the note of Go's linker.
    #[test]
    fn programs_in_go_are_told() {
        let shell = find(OsStr::new("sh")).unwrap();
        assert!(!is_go(&shell));
        let mut header = vec![0u8; 64 + 56 + 4];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[18] = if cfg!(target_arch = "aarch64") {
            183
        } else {
            62
        };
        header[32] = 64;
        header[54] = 56;
        header[56] = 1;
        header[64] = PT_NOTE as u8;
        let notes = b"\x05\0\0\0\x03\0\0\0\x01\0\0\0GNU-\0\0\0\0abc\0\x04\0\0\0\x08\0\0\0\x04\0\0\0Go\0\0some id\0";
        let at = header.len();
        header[64 + 8] = at as u8;
        header[64 + 32] = notes.len() as u8;
        header.extend_from_slice(notes);
        assert!(has_go_note(&header));
        header[at + notes.len() - 12] = b'X';
        assert!(!has_go_note(&header), "another's note");
        header[64 + 8] = 255;
        assert!(!has_go_note(&header), "it lies elsewhere");
        // A length that is none ends the search.
        header[64 + 8] = at as u8;
        header[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(!has_go_note(&header));
    }

    #[test]
    fn what_no_library_can_enter_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let shell = fs::read(find(OsStr::new("sh")).unwrap()).unwrap();
        assert_eq!(executable(&shell), Executable::Dynamic);
        // The same without the segment that names the loader.
        let mut bare = shell.clone();
        let offset = u64::from_le_bytes(bare[32..40].try_into().unwrap()) as usize;
        let size = usize::from(half(&bare, 54).unwrap());
        for index in 0..usize::from(half(&bare, 56).unwrap()) {
            let at = offset + index * size;
            if bare[at..at + 4] == PT_INTERP.to_le_bytes() {
                bare[at..at + 4].copy_from_slice(&4u32.to_le_bytes());
            }
        }
        fs::write(&path, &bare).unwrap();
        let refused = obstacle(&path).unwrap().unwrap();
        assert!(
            refused.to_string().contains("statically linked"),
            "{refused}"
        );
        // The same with the name of another loader.
        let segment = segments(&shell).unwrap();
        let segment = { segment }.find(|one| word(one, 0) == Some(PT_INTERP));
        let at = long(segment.unwrap(), 8).unwrap() as usize;
        let mut other = shell.clone();
        let name = b"/lib/ld-musl-m.so.1\0";
        other[at..at + name.len()].copy_from_slice(name);
        assert_eq!(executable(&other), Executable::OtherLibrary);
        fs::write(&path, &other).unwrap();
        let refused = obstacle(&path).unwrap().unwrap();
        assert!(refused.to_string().contains("musl"), "{refused}");
        fs::write(&path, "#!/bin/sh -e\n").unwrap();
        assert!(obstacle(&path).unwrap().is_none());
        fs::write(&path, "\x7fELF\x01\x01").unwrap();
        let refused = obstacle(&path).unwrap().unwrap();
        assert_eq!(refused.kind().exit_code(), 2);
        assert!(obstacle(&folder.path().join("none")).is_err());
    }
}
