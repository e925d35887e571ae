//! `iolane disk cut`.

use std::io;
use std::path::Path;

use iolane_disk::served::{fuse, nbd};

use super::{failure, serve};
use crate::args::disk::CutArgs;
use crate::error::Failure;
use crate::session::Session;

pub const NAME: &str = "cut";
pub const ABOUT: &str = "Cut the power of a served disk: every request fails from then on";

/// Returns when it is done.
///
/// # Errors
/// Where no disk is served, or its server cannot cut the power.
pub fn cut(arguments: CutArgs, _session: &Session) -> Result<String, Failure> {
    let (cut, place): (io::Result<u64>, &Path) = match (&arguments.mount, &arguments.socket) {
        (Some(directory), _) => (
            fuse::cut_power(&directory.join(serve::FILE_NAME)),
            directory,
        ),
        (None, Some(socket)) => (nbd::cut_power(socket), socket),
        (None, None) => {
            return Err(Failure::usage(
                "no disk was named",
                "Give --mount or --socket.",
            ));
        }
    };
    let took_bytes = cut.map_err(|error| failure::cut(place, &error))?;
    Ok(took(took_bytes))
}

/// What to tell of it.
pub fn took(bytes: u64) -> String {
    match bytes {
        0 => "the power cut took nothing\n".to_owned(),
        bytes => format!("the power cut took {bytes} bytes that no flush had made durable\n"),
    }
}
