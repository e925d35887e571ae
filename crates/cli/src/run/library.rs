//! Where the library lies that is preloaded.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::program;
use crate::error::Failure;

/// Of an ELF file.
const HEADER_BYTES: u64 = 64;
const FILE_NAME: &str = "libiolane_interpose.so";

/// The one that was named, or the one that belongs to this program.
///
/// # Errors
/// There is none, or the dynamic loader could not preload it.
pub fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = match named {
        Some(path) => path
            .canonicalize()
            .map_err(|error| unusable(path, &error.to_string()))?,
        None => beside_this_program()?,
    };
    // The dynamic loader splits the variable at both.
    if path.to_string_lossy().contains([' ', ':']) {
        return Err(Failure::setup(
            format!("{} has a blank or a colon in its path", path.display()),
            "The dynamic loader cannot preload it; copy it elsewhere and name it with --library.",
        ));
    }
    match is_library(&path) {
        Ok(true) => Ok(path),
        // The loader would say so, and start the program without it.
        Ok(false) => Err(unusable(&path, "it is no library for this machine")),
        Err(error) => Err(unusable(&path, &error.to_string())),
    }
}

fn unusable(path: &Path, why: &str) -> Failure {
    Failure::setup(
        format!("cannot use {}: {why}", path.display()),
        format!("Name the file {FILE_NAME}."),
    )
}

fn is_library(path: &Path) -> io::Result<bool> {
    let mut header = Vec::new();
    File::open(path)?
        .take(HEADER_BYTES)
        .read_to_end(&mut header)?;
    Ok(program::is_of_this_machine(&header))
}

fn beside_this_program() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe().ok();
    let folder = program.as_deref().and_then(Path::parent);
    let places = ["", "deps", "../lib/iolane", "../deps"];
    let found = folder
        .into_iter()
        .flat_map(|folder| places.map(|place| folder.join(place).join(FILE_NAME)))
        .find_map(|path| path.canonicalize().ok());
    found.ok_or_else(|| {
        Failure::setup(
            format!("{FILE_NAME} lies neither beside this program nor in ../lib/iolane"),
            "Install it there, or name it with --library.",
        )
    })
}
