//! Where the library lies that is preloaded.

use std::path::{Path, PathBuf};

use crate::error::Failure;

const FILE_NAME: &str = "libiolane_interpose.so";

/// The one that was named, or the one that belongs to this program.
///
/// # Errors
/// There is none, or the dynamic loader could not preload it.
pub fn find(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = match named {
        Some(path) => path.canonicalize().map_err(|error| {
            Failure::setup(
                format!("cannot use {}: {error}", path.display()),
                format!("Name the file {FILE_NAME}."),
            )
        }),
        None => beside_this_program(),
    }?;
    // The dynamic loader splits the variable at both.
    if path.to_string_lossy().contains([' ', ':']) {
        return Err(Failure::setup(
            format!("{} has a blank or a colon in its path", path.display()),
            "The dynamic loader cannot preload it; copy it elsewhere and name it with --library.",
        ));
    }
    Ok(path)
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
