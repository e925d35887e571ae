//! Opening: options, checks, finding the device.

use super::handle::{Handle, Opened};
use super::{Alignment, As, AtomicWriteUnit, File, FileShared};
use crate::device::{InodeKey, identify};
use crate::engine::EngineShared;
use crate::error::OpenError;
use crate::sys::statx::{DirectAlign, direct_align};
use crate::sys::syscalls::status_flags;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// How to open a file; as `std::fs::OpenOptions`, with what storage needs.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, OpenOptions};
/// # let dir = tempfile::tempdir()?;
/// let engine = Engine::new()?;
/// let file = engine.open(
///     dir.path().join("table"),
///     OpenOptions::new().read(true).write(true).create(true).size(1 << 20),
/// )?;
/// assert_eq!(file.size()?, 1 << 20);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    create: bool,
    create_new: bool,
    truncate: bool,
    direct: bool,
    data_sync: bool,
    exclusive: bool,
    size_bytes: Option<u64>,
}

impl OpenOptions {
    /// Nothing set: at least [`read`](Self::read) or [`write`](Self::write)
    /// must be.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// For reading.
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.read = read;
        self
    }

    /// For writing.
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.write = write;
        self
    }

    /// Creates it if it does not exist.
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.create = create;
        self
    }

    /// Creates it, and fails if it exists.
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.create_new = create_new;
        self
    }

    /// Empties it.
    pub fn truncate(&mut self, truncate: bool) -> &mut OpenOptions {
        self.truncate = truncate;
        self
    }

    /// Past the page cache (`O_DIRECT`). Requests must then fit
    /// [`File::alignment`]; nothing is copied or split to make them fit.
    pub fn direct(&mut self, direct: bool) -> &mut OpenOptions {
        self.direct = direct;
        self
    }

    /// Every write is durable when it completes (`O_DSYNC`).
    pub fn data_sync(&mut self, data_sync: bool) -> &mut OpenOptions {
        self.data_sync = data_sync;
        self
    }

    /// For a block device: fails with `EBUSY` when it is mounted or otherwise
    /// in use (`O_EXCL`).
    pub fn exclusive(&mut self, exclusive: bool) -> &mut OpenOptions {
        self.exclusive = exclusive;
        self
    }

    /// Makes it at least this long. The space is allocated where the filesystem
    /// can, so that later writes into it do not run out of it. Not for block
    /// devices, where it checks only.
    pub fn size(&mut self, size_bytes: u64) -> &mut OpenOptions {
        self.size_bytes = Some(size_bytes);
        self
    }

    fn open(&self, path: &Path) -> Result<fs::File, OpenError> {
        let mut flags = libc::O_NOCTTY;
        if self.direct {
            flags |= libc::O_DIRECT;
        }
        if self.data_sync {
            flags |= libc::O_DSYNC;
        }
        if self.exclusive {
            flags |= libc::O_EXCL;
        }
        fs::OpenOptions::new()
            .read(self.read)
            .write(self.write)
            .create(self.create)
            .create_new(self.create_new)
            .truncate(self.truncate)
            .custom_flags(flags)
            .open(path)
            .map_err(|source| self.explain(path, source))
    }

    fn explain(&self, path: &Path, source: io::Error) -> OpenError {
        let path = path.to_owned();
        // What open(2) says for a filesystem without O_DIRECT.
        if self.direct && source.raw_os_error() == Some(libc::EINVAL) {
            return OpenError::NoDirect { path };
        }
        OpenError::Open { path, source }
    }

    fn extend(&self, handle: &Handle, path: &Path) -> Result<(), OpenError> {
        let Some(size_bytes) = self.size_bytes else {
            return Ok(());
        };
        let failed = |source| OpenError::Size {
            path: path.to_owned(),
            size_bytes,
            source,
        };
        let now = handle.size().map_err(failed)?;
        if now >= size_bytes {
            return Ok(());
        }
        handle.extend(now, size_bytes).map_err(failed)
    }
}

impl EngineShared {
    pub(crate) fn open_file(&self, path: &Path, options: &OpenOptions) -> Result<File, OpenError> {
        self.check_process(path)?;
        if !options.read && !options.write {
            let path = path.to_owned();
            return Err(OpenError::NoAccess { path });
        }
        #[cfg(feature = "simulated")]
        let opened = match &self.simulated {
            Some(disk) => open_simulated(disk, path, options)?,
            None => open_kernel(path, options)?,
        };
        #[cfg(not(feature = "simulated"))]
        let opened = open_kernel(path, options)?;
        self.file_of(opened, path, options)
    }

    pub(crate) fn adopt_file(&self, file: fs::File, path: &Path) -> Result<File, OpenError> {
        self.check_process(path)?;
        let flags = status_flags(&file).map_err(|source| OpenError::Open {
            path: path.to_owned(),
            source,
        })?;
        let access = flags & libc::O_ACCMODE;
        let mut options = OpenOptions::new();
        options
            .read(access != libc::O_WRONLY)
            .write(access != libc::O_RDONLY)
            .direct(flags & libc::O_DIRECT != 0)
            .data_sync(flags & libc::O_DSYNC != 0);
        if options.write && flags & libc::O_APPEND != 0 {
            let path = path.to_owned();
            return Err(OpenError::Append { path });
        }
        self.file_of(examine(file, path, options.direct)?, path, &options)
    }

    fn file_of(
        &self,
        opened: Opened,
        path: &Path,
        options: &OpenOptions,
    ) -> Result<File, OpenError> {
        let device = self.device(opened.info, path)?;
        options.extend(&opened.handle, path)?;
        let inode = crate::completion::lock(&device.inodes).get(opened.key);
        let shared = Arc::new(FileShared {
            number: inode.number(options.direct, options.data_sync),
            handle: opened.handle,
            path: path.into(),
            device,
            inode,
            align: opened.align,
            atomic: opened.atomic,
            direct: options.direct,
            data_sync: options.data_sync,
            readable: options.read,
            writable: options.write,
        });
        Ok(File(shared, As::default()))
    }
}

fn open_kernel(path: &Path, options: &OpenOptions) -> Result<Opened, OpenError> {
    // Before opening: that of a pipe would wait for its other end. What does
    // not exist is left to `open`, which may create it.
    if let Ok(metadata) = fs::metadata(path) {
        check_type(path, &metadata)?;
    }
    examine(options.open(path)?, path, options.direct)
}

/// What an open file is, and what it needs.
fn examine(file: fs::File, path: &Path, direct: bool) -> Result<Opened, OpenError> {
    let metadata = file.metadata().map_err(|source| OpenError::Open {
        path: path.to_owned(),
        source,
    })?;
    let block_device = check_type(path, &metadata)?;
    let key = if block_device {
        InodeKey {
            dev: metadata.rdev(),
            inode: None,
        }
    } else {
        InodeKey {
            dev: metadata.dev(),
            inode: Some(metadata.ino()),
        }
    };
    let info = identify(key.dev);
    let align = if direct {
        alignment(&file, path, info.logical_block_bytes)?
    } else {
        Alignment::ANY
    };
    // The kernel takes them past the page cache only.
    let atomic = direct.then(|| AtomicWriteUnit::of(&file)).flatten();
    Ok(Opened {
        handle: Handle::Kernel { file, block_device },
        key,
        info,
        align,
        atomic,
    })
}

#[cfg(feature = "simulated")]
fn open_simulated(
    disk: &crate::simulated::SimulatedDisk,
    path: &Path,
    options: &OpenOptions,
) -> Result<Opened, OpenError> {
    use crate::simulated::{OpenAccess, OpenFlags};
    let flags = OpenFlags {
        access: OpenAccess {
            read: options.read,
            write: options.write,
            direct: options.direct,
            data_sync: options.data_sync,
        },
        create: options.create,
        create_new: options.create_new,
        truncate: options.truncate,
    };
    let file = disk.open(path, flags).map_err(|source| OpenError::Open {
        path: path.to_owned(),
        source,
    })?;
    let info = disk.info().clone();
    let align = if options.direct {
        Alignment {
            offset_bytes: info.logical_block_bytes,
            memory_bytes: 1,
        }
    } else {
        Alignment::ANY
    };
    Ok(Opened {
        key: InodeKey {
            dev: libc::makedev(info.major, info.minor),
            inode: Some(file.number()),
        },
        handle: Handle::Simulated(file),
        info,
        align,
        atomic: disk.atomic_unit().filter(|_| options.direct),
    })
}

/// Is it a block device, or else a regular file?
fn check_type(path: &Path, metadata: &fs::Metadata) -> Result<bool, OpenError> {
    let kind = metadata.file_type();
    let what = if kind.is_file() {
        return Ok(false);
    } else if kind.is_block_device() {
        return Ok(true);
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "a socket"
    };
    let path = path.to_owned();
    Err(OpenError::NotAFile { path, what })
}

/// What the kernel says (`STATX_DIOALIGN`, Linux 6.1), or else the device's
/// logical block for both.
fn alignment(
    handle: &fs::File,
    path: &Path,
    logical_block_bytes: u32,
) -> Result<Alignment, OpenError> {
    let told = direct_align(handle).map_err(|source| OpenError::Open {
        path: path.to_owned(),
        source,
    })?;
    let DirectAlign {
        memory_bytes,
        offset_bytes,
    } = told.unwrap_or(DirectAlign {
        memory_bytes: logical_block_bytes,
        offset_bytes: logical_block_bytes,
    });
    if !memory_bytes.is_power_of_two() || !offset_bytes.is_power_of_two() {
        // Zeros: this file cannot (an encrypted one, for instance).
        let path = path.to_owned();
        return Err(OpenError::NoDirect { path });
    }
    Ok(Alignment {
        offset_bytes,
        memory_bytes,
    })
}
