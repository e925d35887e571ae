//! Why a file or device cannot be measured, and what to do about it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::error::Kind;
use crate::output::units::binary_size;

/// Why a target cannot be measured.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TargetError {
    #[error("{} does not exist", path.display())]
    Missing { path: PathBuf },
    #[error("{} is a directory", path.display())]
    Directory { path: PathBuf },
    #[error("{} is not a directory", path.display())]
    NotDirectory { path: PathBuf },
    #[error("{} is neither a regular file nor a block device", path.display())]
    WrongKind { path: PathBuf },
    #[error("{} has {}, and {} are needed", path.display(), binary_size(*size_bytes), binary_size(*needed_bytes))]
    TooSmall {
        path: PathBuf,
        size_bytes: u64,
        needed_bytes: u64,
    },
    #[error("no permission to {} {}", if *write { "write to" } else { "read" }, path.display())]
    Permission { path: PathBuf, write: bool },
    #[error("{} lies on a read-only file system or device", path.display())]
    ReadOnly { path: PathBuf },
    #[error("{} takes no direct I/O (file system: {filesystem})", path.display())]
    NoDirectIo { path: PathBuf, filesystem: String },
    #[error("{} takes direct I/O only in multiples of {alignment_bytes} bytes, and {} is none", path.display(), binary_size(*transfer_bytes))]
    Unaligned {
        path: PathBuf,
        alignment_bytes: u32,
        transfer_bytes: u64,
    },
    #[error("writing would destroy what is in {}", path.display())]
    NotDestructive { path: PathBuf },
    #[error("{} is mounted on {}", path.display(), mount_point.display())]
    Mounted { path: PathBuf, mount_point: PathBuf },
    #[error("{} is swap space", path.display())]
    Swap { path: PathBuf },
    #[error("{} is used by {holder}", path.display())]
    Held { path: PathBuf, holder: String },
    #[error("{} is in use by another program or the kernel", path.display())]
    Busy { path: PathBuf },
    #[error("{} has {} free; {} are needed, and {} stay in reserve",
        path.display(), binary_size(*available_bytes), binary_size(*size_bytes), binary_size(*reserve_bytes))]
    NoSpace {
        path: PathBuf,
        available_bytes: u64,
        size_bytes: u64,
        reserve_bytes: u64,
    },
    #[error("the disk filled up while the scratch file in {} was written", path.display())]
    Filled { path: PathBuf },
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        source: io::Error,
    },
    #[error("the scratch file in {} cannot be written: {source}", path.display())]
    FillFailed { path: PathBuf, source: io::Error },
}

impl TargetError {
    /// Sorts out what the kernel said about opening `path`.
    pub fn from_open(path: PathBuf, write: bool, source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => Self::Missing { path },
            Some(libc::EACCES | libc::EPERM) => Self::Permission { path, write },
            Some(libc::EROFS) => Self::ReadOnly { path },
            Some(libc::EISDIR) => Self::Directory { path },
            Some(libc::EBUSY) => Self::Busy { path },
            _ => Self::Io {
                path,
                action: "open",
                source,
            },
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            // The command line as it stands can never work.
            Self::NotDestructive { .. } => Kind::Usage,
            // The disk filled up, or failed, after work had begun.
            Self::Filled { .. } | Self::FillFailed { .. } => Kind::Runtime,
            _ => Kind::Setup,
        }
    }

    pub fn remedy(&self) -> String {
        match self {
            Self::Missing { .. } => "Check the path; without --file, a scratch file in --directory is measured, and removed.",
            Self::Directory { .. } => "Name a file or device, or give the directory as --directory to have a scratch file made in it.",
            Self::NotDirectory { .. } => "Give --directory a directory, or name the file with --file.",
            Self::WrongKind { .. } => "Name a regular file or a block device.",
            Self::TooSmall { .. } => "Give a smaller --size or --block-size, or a larger file.",
            Self::Permission { .. } => "Run as a user who may (root for devices), or name another file.",
            Self::ReadOnly { .. } => "Measure reads only, or choose a place that can be written to.",
            Self::NoDirectIo { .. } => "Use --io buffered, or a --directory on ext4, xfs, btrfs or a block device.",
            Self::Unaligned { alignment_bytes, .. } => {
                return format!("Use block sizes that are multiples of {alignment_bytes} bytes, or --io buffered.");
            }
            Self::NotDestructive { .. } => "Add --destructive if its contents may be lost, or give --directory instead of --file: a scratch file.",
            Self::Mounted { .. } => "Unmount it first, or measure with a scratch file (--directory) on it.",
            Self::Swap { .. } => "Turn it off first (swapoff), or choose another device.",
            Self::Held { .. } => "Measure the device that stands on it, or take that one down first.",
            Self::Busy { .. } => "Close whatever uses it (lsblk and fuser -v show what), or choose another device.",
            Self::NoSpace { .. } => "Give a smaller size, another --directory, or free some space.",
            Self::Filled { .. } => "Free some space, or give a smaller --size. The scratch file has been removed.",
            Self::Io { .. } => "See the kernel's messages (dmesg) for details.",
            Self::FillFailed { .. } => "See the kernel's messages (dmesg). The scratch file has been removed.",
        }
        .to_owned()
    }
}
