//! A directory in which files are made that have names, such as a store's.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::scratch::check_room;
use super::{Target, TargetError, TargetKind, TargetRequest, disk_of};
use crate::cleanup::Registration;
use crate::error::Failure;
use crate::session::Session;
use crate::sys::file::space;
use crate::system::DeviceNumber;

impl Target {
    /// Checks that a directory has room for files of the request's size.
    pub(super) fn directory(request: &TargetRequest, session: &Session) -> Result<Self, Failure> {
        let path = request.directory.as_deref().unwrap_or(Path::new("."));
        let size_bytes = request.size_bytes.unwrap_or(request.default_size_bytes);
        let unfit = |error| TargetError::from_open(path.to_owned(), true, error);
        let metadata = fs::metadata(path).map_err(unfit)?;
        if !metadata.is_dir() {
            let path = path.to_owned();
            return Err(TargetError::NotDirectory { path }.into());
        }
        let holder = File::open(path).map_err(unfit)?;
        check_room(path, size_bytes, space(path).map_err(unfit)?)?;
        let device = DeviceNumber::from_raw(metadata.dev());
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        Ok(Self {
            kind: TargetKind::Directory,
            open_path: path.clone(),
            path,
            size_bytes,
            device,
            disk: disk_of(session, device),
            direct_alignment: None,
            _holder: holder,
        })
    }
}

/// A directory of our own, removed with all that is in it when this is
/// dropped, or when a second signal ends the process.
pub struct ScratchDirectory {
    pub path: PathBuf,
    _removal: Registration,
}

impl ScratchDirectory {
    /// # Errors
    /// What the system says.
    pub fn make(parent: &Path, name: &str, session: &Session) -> Result<Self, Failure> {
        let path = parent.join(format!("{name}-{}.tmp", std::process::id()));
        fs::create_dir(&path).map_err(|error| TargetError::from_open(path.clone(), true, error))?;
        let own = path.clone();
        let removal = session.cleanups.register(move || {
            // Nobody is left to tell; what stays has a telling name.
            let _ = fs::remove_dir_all(own);
        });
        Ok(Self {
            path,
            _removal: removal,
        })
    }
}
