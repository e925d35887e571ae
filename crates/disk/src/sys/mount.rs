//! Taking a mount away: umount2(2).

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Not while anything uses it (`EBUSY`).
    WhenUnused,
    /// Out of sight at once, ended when nothing uses it any more.
    Detach,
    /// Aborts what is under way there, whoever serves it, and then as
    /// [`WhenUnused`](Self::WhenUnused).
    Force,
}

/// Takes away what is mounted at `directory`.
///
/// # Errors
/// As umount2(2).
pub fn unmount(directory: &Path, how: Unmount) -> io::Result<()> {
    let directory = CString::new(directory.as_os_str().as_bytes())?;
    let flags = match how {
        Unmount::WhenUnused => libc::UMOUNT_NOFOLLOW,
        Unmount::Detach => libc::UMOUNT_NOFOLLOW | libc::MNT_DETACH,
        Unmount::Force => libc::UMOUNT_NOFOLLOW | libc::MNT_FORCE,
    };
    // SAFETY: a path that ends with a zero, not kept beyond the call.
    match unsafe { libc::umount2(directory.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
