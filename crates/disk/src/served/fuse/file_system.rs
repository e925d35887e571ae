//! What the kernel asks of the file system.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs, ReplyWrite,
    Request as Asked, TimeOrNow, WriteFlags,
};

use crate::served::server::{Request, Server};
use crate::sys::{POWER_CUT, go_first};

/// The kernel asks for no more at once; its own limit
/// (`fs.fuse.max_pages_limit`) is as much by default.
const TRANSFER_BYTES_MAX: u32 = 1 << 20;
/// Asynchronous requests that the kernel hands over at once; its default of
/// 16 would be the depth of every disk served. Loop devices have 128 or, with a
/// scheduler, twice as many. Unprivileged servers get as much as
/// `/sys/module/fuse/parameters/max_user_bgreq` allows.
const BACKGROUND_MAX: u16 = 4096;
/// Nothing but this server changes what is here, and it never does.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
const DISK: INodeNo = INodeNo(2);
const BLOCK_BYTES: u32 = 4096;

/// One directory, one file.
pub(super) struct FileSystem {
    pub server: Arc<Server>,
    /// Of the file.
    pub name: &'static str,
    pub uid: u32,
    pub gid: u32,
    pub since: SystemTime,
}

impl FileSystem {
    fn directory(&self) -> FileAttr {
        self.attributes(INodeNo::ROOT, FileType::Directory, 0o755, 4096)
    }

    fn disk(&self) -> FileAttr {
        let size = self.server.size_bytes();
        self.attributes(DISK, FileType::RegularFile, 0o600, size)
    }

    fn attributes(&self, ino: INodeNo, kind: FileType, perm: u16, size: u64) -> FileAttr {
        FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: self.since,
            mtime: self.since,
            ctime: self.since,
            crtime: self.since,
            kind,
            perm,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: BLOCK_BYTES,
            flags: 0,
        }
    }

    fn of(&self, ino: INodeNo) -> Option<FileAttr> {
        match ino {
            INodeNo::ROOT => Some(self.directory()),
            DISK => Some(self.disk()),
            _ => None,
        }
    }
}

/// As the kernel wants it; EIO for errors of our own making.
fn errno(error: &io::Error) -> Errno {
    match error.raw_os_error() {
        Some(number) => Errno::from_i32(number),
        None if error.kind() == io::ErrorKind::InvalidInput => Errno::EINVAL,
        None => Errno::EIO,
    }
}

impl Filesystem for FileSystem {
    fn init(&mut self, _asked: &Asked, config: &mut KernelConfig) -> io::Result<()> {
        // An old kernel may not have the last; without the first, a loop
        // device waits for each of its requests.
        config
            .add_capabilities(InitFlags::FUSE_ASYNC_DIO)
            .map_err(|_| io::Error::from_raw_os_error(libc::ENOSYS))?;
        let refused = |_| io::Error::from_raw_os_error(libc::EINVAL);
        config.set_max_write(TRANSFER_BYTES_MAX).map_err(refused)?;
        let _ = config.set_max_readahead(TRANSFER_BYTES_MAX);
        config
            .set_max_background(BACKGROUND_MAX)
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        config
            .set_congestion_threshold(BACKGROUND_MAX)
            .map_err(|_| io::ErrorKind::InvalidInput)?;
        Ok(())
    }

    fn lookup(&self, _asked: &Asked, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == self.name {
            reply.entry(&FOREVER, &self.disk(), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _asked: &Asked, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.of(ino) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    /// A disk has the size that it has; times and owners do not matter.
    fn setattr(
        &self,
        _asked: &Asked,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.of(ino) {
            Some(attributes) if size.is_none_or(|size| size == attributes.size) => {
                reply.attr(&FOREVER, &attributes);
            }
            Some(_) => reply.error(Errno::EPERM),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _asked: &Asked, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if ino != DISK {
            reply.error(Errno::EISDIR);
            return;
        }
        // The page cache would answer in the disk's stead, and writes that
        // overlap nothing need not wait for each other.
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn read(
        &self,
        _asked: &Asked,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        go_first();
        let left = self.server.size_bytes().saturating_sub(offset);
        let length = u64::from(size).min(left) as u32;
        if length == 0 {
            reply.data(&[]);
            return;
        }
        let answer = move |result: io::Result<Vec<u8>>| match result {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(errno(&error)),
        };
        self.server
            .submit(Request::Read { offset, length }, Box::new(answer));
    }

    fn write(
        &self,
        _asked: &Asked,
        _ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        go_first();
        let left = self.server.size_bytes().saturating_sub(offset);
        if left == 0 && !data.is_empty() {
            reply.error(Errno::ENOSPC);
            return;
        }
        let length = left.min(data.len() as u64) as usize;
        if length == 0 {
            reply.written(0);
            return;
        }
        let answer = move |result: io::Result<Vec<u8>>| match result {
            Ok(_) => reply.written(length as u32),
            Err(error) => reply.error(errno(&error)),
        };
        // With O_DSYNC the kernel sends an fsync after it.
        let request = Request::Write {
            offset,
            data: &data[..length],
            durable: false,
        };
        self.server.submit(request, Box::new(answer));
    }

    /// On each close(2): nothing is kept back that it could write.
    fn flush(&self, _: &Asked, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Asked, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        let answer = move |result: io::Result<Vec<u8>>| match result {
            Ok(_) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        };
        self.server.submit(Request::Flush, Box::new(answer));
    }

    /// Cuts the power. Other threads read requests meanwhile.
    fn ioctl(
        &self,
        _asked: &Asked,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        command: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        if (ino, command) != (DISK, POWER_CUT) {
            reply.error(Errno::ENOTTY);
            return;
        }
        match self.server.power_cut() {
            Ok(bytes) => reply.ioctl(0, &bytes.to_ne_bytes()),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdir(
        &self,
        _asked: &Asked,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if ino != INodeNo::ROOT {
            reply.error(Errno::ENOTDIR);
            return;
        }
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (DISK, FileType::RegularFile, self.name),
        ];
        for (next, (ino, kind, name)) in (1..).zip(entries).skip(offset as usize) {
            if reply.add(ino, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _asked: &Asked, _ino: INodeNo, reply: ReplyStatfs) {
        let blocks = self.server.size_bytes() / u64::from(BLOCK_BYTES);
        reply.statfs(blocks, 0, 0, 1, 0, BLOCK_BYTES, 255, BLOCK_BYTES);
    }
}
