//! A file of a simulated disk, open.

use super::disk::{Disk, OpenAccess, OpenFile};
use super::file::{Tearing, Work};
use iolane_disk::power::{CowMedium, Recorder};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

/// How to open by name; as `open(2)`.
#[derive(Clone, Copy)]
pub(crate) struct OpenFlags {
    pub access: OpenAccess,
    pub create: bool,
    pub create_new: bool,
    pub truncate: bool,
}

/// Closed when dropped.
pub(crate) struct SimulatedHandle {
    disk: Arc<Disk>,
    fd: RawFd,
}

impl SimulatedHandle {
    pub(crate) fn open(disk: &Arc<Disk>, name: &str, flags: OpenFlags) -> io::Result<Self> {
        let mut names = crate::completion::lock(&disk.names);
        let file = match names.files.get(name) {
            Some(_) if flags.create_new => return Err(error(libc::EEXIST)),
            Some(file) => Arc::clone(file),
            None if flags.create || flags.create_new => {
                disk.adopt(&mut names, name, CowMedium::new(), Recorder::create)?
            }
            None => return Err(error(libc::ENOENT)),
        };
        drop(names);
        if flags.truncate && flags.access.write {
            file.resize(&disk.space, 0)?;
        }
        let access = flags.access;
        Ok(SimulatedHandle {
            fd: disk.insert(OpenFile { file, access }),
            disk: Arc::clone(disk),
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }

    /// As an inode's number.
    pub(crate) fn number(&self) -> u64 {
        self.file().file.number
    }

    pub(crate) fn read_at(&self, memory: &mut [u8], offset: u64) -> io::Result<usize> {
        self.disk.run(self.fd, offset, Work::Read(memory))
    }

    pub(crate) fn write_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        self.disk
            .run(self.fd, offset, Work::Write(data, Tearing::Possible))
    }

    pub(crate) fn write_atomic_at(&self, data: &[u8], offset: u64) -> io::Result<usize> {
        self.disk
            .run(self.fd, offset, Work::Write(data, Tearing::Never))
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.disk.run(self.fd, 0, Work::Sync).map(|_| ())
    }

    pub(crate) fn size(&self) -> u64 {
        self.file().file.size_bytes()
    }

    /// Moves its end. A longer one has space for all of it.
    pub(crate) fn resize(&self, size_bytes: u64) -> io::Result<()> {
        self.file().file.resize(&self.disk.space, size_bytes)
    }

    fn file(&self) -> OpenFile {
        let Some(open) = self.disk.open_file(self.fd) else {
            unreachable!("a handle's descriptor is open until it is dropped");
        };
        open
    }
}

impl Drop for SimulatedHandle {
    fn drop(&mut self) {
        self.disk.close(self.fd);
    }
}

fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}
