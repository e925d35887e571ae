//! What the kernel says of a descriptor.

use std::mem::MaybeUninit;

use iolane_protocol::sys::raw::syscall6;

/// Longest path that is held against rules; a longer one is as none.
const PATH_BYTES_MAX: usize = 1024;

/// What is needed of `struct stat`.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    pub device: u64,
    pub inode: u64,
    pub special_device: u64,
    /// A user's number.
    pub owner: u32,
    pub size: u64,
    /// Of 512 bytes.
    pub blocks: u64,
    pub is_regular: bool,
    pub is_block_device: bool,
    pub is_socket: bool,
}

/// fstat(2).
pub fn stat(descriptor: i32) -> Option<Stat> {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    let arguments = [descriptor as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: on 64-bit machines the kernel's `struct stat` is the C library's. It is
    // written when the call succeeds.
    let stat = unsafe {
        if syscall6(libc::SYS_fstat, arguments) < 0 {
            return None;
        }
        stat.assume_init()
    };
    Some(Stat {
        device: stat.st_dev,
        inode: stat.st_ino,
        special_device: stat.st_rdev,
        owner: stat.st_uid,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        is_regular: stat.st_mode & libc::S_IFMT == libc::S_IFREG,
        is_block_device: stat.st_mode & libc::S_IFMT == libc::S_IFBLK,
        is_socket: stat.st_mode & libc::S_IFMT == libc::S_IFSOCK,
    })
}

/// Whether the descriptor goes past the page cache, and whether writes to it are
/// durable when they end.
pub fn flags(descriptor: i32) -> (bool, bool) {
    let flags = status_flags(descriptor);
    // O_SYNC has O_DSYNC's bit.
    (flags & libc::O_DIRECT != 0, flags & libc::O_DSYNC != 0)
}

/// Those of open(2).
fn status_flags(descriptor: i32) -> i32 {
    let arguments = [descriptor as usize, libc::F_GETFL as usize, 0, 0, 0, 0];
    // SAFETY: reads no memory.
    let flags = unsafe { syscall6(libc::SYS_fcntl, arguments) };
    i32::try_from(flags).unwrap_or(0).max(0)
}

/// Whether the kernel does an asynchronous write while it is being submitted: through the page cache, and where a file
/// grows by it.
pub fn is_written_at_once(descriptor: i32, offset: u64, length: u64) -> bool {
    let flags = status_flags(descriptor);
    let grows = || {
        let stat = stat(descriptor).filter(|stat| stat.is_regular);
        stat.is_some_and(|stat| stat.size < offset.saturating_add(length))
    };
    flags & libc::O_DIRECT == 0 || flags & libc::O_APPEND != 0 || grows()
}

/// The kernel reads what is asked for and no more (`POSIX_FADV_RANDOM`).
pub fn read_nothing_ahead(descriptor: i32) {
    let advice = libc::POSIX_FADV_RANDOM as usize;
    // SAFETY: takes numbers.
    unsafe {
        syscall6(
            libc::SYS_fadvise64,
            [descriptor as usize, 0, 0, advice, 0, 0],
        )
    };
}

/// Begins to read a range into the page cache (readahead(2)).
pub fn read_ahead(descriptor: i32, offset: u64, length: usize) {
    let arguments = [descriptor as usize, offset as usize, length, 0, 0, 0];
    // SAFETY: takes numbers.
    unsafe { syscall6(libc::SYS_readahead, arguments) };
}

/// Writes a range back and waits for it (sync_file_range(2)). Minus an error's number
/// on failure, which the kernel then does not tell again.
pub fn write_back(descriptor: i32, offset: u64, length: u64) -> isize {
    let flags = libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let result = sync_range(descriptor, offset, length, flags);
    // Where a filter forbids the call, or the descriptor names no file any more, it fails also when it is to
    // do nothing: that is no error of the disk's, which the program would have to be told.
    if result < 0 && sync_range(descriptor, offset, length, 0) < 0 {
        return 0;
    }
    result
}

/// Begins to write a range back. Errors are told by whoever syncs the file.
pub fn begin_write_back(descriptor: i32, offset: u64, length: u64) {
    sync_range(descriptor, offset, length, libc::SYNC_FILE_RANGE_WRITE);
}

fn sync_range(descriptor: i32, offset: u64, length: u64, flags: libc::c_uint) -> isize {
    let arguments = [
        descriptor as usize,
        offset as usize,
        length as usize,
        flags as usize,
        0,
        0,
    ];
    // SAFETY: takes numbers.
    unsafe { syscall6(libc::SYS_sync_file_range, arguments) }
}

/// Where the descriptor's next byte is; 0 where it has no place.
pub fn position(descriptor: i32) -> u64 {
    let arguments = [descriptor as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0];
    // SAFETY: reads no memory and moves nothing.
    let position = unsafe { syscall6(libc::SYS_lseek, arguments) };
    u64::try_from(position).unwrap_or(0)
}

/// The path by which the file was opened. `None`: it is too long, or there is no `/proc` that says it.
pub fn with_path<T>(descriptor: i32, use_it: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let mut path = [0u8; PATH_BYTES_MAX];
    let length = with_link(descriptor, |link| {
        let arguments = [
            libc::AT_FDCWD as usize,
            link.as_ptr() as usize,
            path.as_mut_ptr() as usize,
            path.len(),
            0,
            0,
        ];
        // SAFETY: the link is a C string (its last bytes are zeros), the buffer as long
        // as the call is told.
        unsafe { syscall6(libc::SYS_readlinkat, arguments) }
    });
    let length = usize::try_from(length)
        .ok()
        .filter(|&length| length < path.len())?;
    Some(use_it(&path[..length]))
}

/// The name of the link to what is behind a descriptor, with zeros behind it.
pub fn with_link<T>(descriptor: i32, use_it: impl FnOnce(&[u8; 32]) -> T) -> T {
    let mut link = [0u8; 32];
    write_link(descriptor, &mut link);
    use_it(&link)
}

/// `/proc/self/fd/N`, with zeros behind.
fn write_link(descriptor: i32, link: &mut [u8; 32]) {
    const FOLDER: &[u8] = b"/proc/self/fd/";
    link[..FOLDER.len()].copy_from_slice(FOLDER);
    let (mut digits, mut count, mut left) = ([0u8; 10], 0, descriptor.max(0));
    loop {
        digits[count] = b'0' + (left % 10) as u8;
        count += 1;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    for (at, &digit) in digits[..count].iter().rev().enumerate() {
        link[FOLDER.len() + at] = digit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_file_is_described() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(77).unwrap();
        let descriptor = file.as_file().as_raw_fd();
        let stat = stat(descriptor).unwrap();
        assert!(stat.is_regular && !stat.is_block_device);
        assert_eq!(stat.size, 77);
        let path = with_path(descriptor, |path| path.to_vec()).unwrap();
        assert_eq!(path, file.path().as_os_str().as_encoded_bytes());
        assert_eq!(flags(descriptor), (false, false));
        assert!(super::stat(-1).is_none());
        assert!(with_path(1 << 30, |_| ()).is_none());
    }
}
