//! `statx(2)`: what direct I/O needs, and what is written as a whole.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::fd::AsRawFd;

/// `STATX_WRITE_ATOMIC` of include/uapi/linux/stat.h (6.11).
const STATX_WRITE_ATOMIC: u32 = 0x0001_0000;

/// `struct statx` of include/uapi/linux/stat.h, with the fields that libc does
/// not name yet. An older kernel leaves them as they are, and says so in the
/// mask.
#[repr(C)]
struct Statx {
    mask: u32,
    before_direct: [u32; 37],
    dio_mem_align: u32,
    dio_offset_align: u32,
    subvol: u64,
    atomic_write_unit_min: u32,
    atomic_write_unit_max: u32,
    atomic_write_segments_max: u32,
    behind: [u32; 19],
}

const _: () = assert!(size_of::<Statx>() == 256 && size_of::<libc::statx>() == 256);
const _: () = assert!(
    offset_of!(Statx, dio_mem_align) == offset_of!(libc::statx, stx_dio_mem_align)
        && offset_of!(Statx, atomic_write_unit_min) == 0xa8
);

/// The grid of direct I/O on one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectAlign {
    pub memory_bytes: u32,
    pub offset_bytes: u32,
}

/// What one write may have that arrives whole or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtomicUnits {
    pub min_bytes: u32,
    pub max_bytes: u32,
    pub segments_max: u32,
}

/// `None` where the kernel (before 6.1) or the filesystem does not tell;
/// `Some` with zeros where it says that there is no direct I/O.
pub(crate) fn direct_align(file: &File) -> io::Result<Option<DirectAlign>> {
    let stat = statx(file, libc::STATX_DIOALIGN)?;
    Ok(
        (stat.mask & libc::STATX_DIOALIGN != 0).then_some(DirectAlign {
            memory_bytes: stat.dio_mem_align,
            offset_bytes: stat.dio_offset_align,
        }),
    )
}

/// `None` where the kernel (before 6.11), the filesystem or the device offers
/// none.
pub(crate) fn atomic_units(file: &File) -> io::Result<Option<AtomicUnits>> {
    let stat = statx(file, STATX_WRITE_ATOMIC)?;
    let told = stat.mask & STATX_WRITE_ATOMIC != 0 && stat.atomic_write_unit_max > 0;
    Ok(told.then_some(AtomicUnits {
        min_bytes: stat.atomic_write_unit_min,
        max_bytes: stat.atomic_write_unit_max,
        segments_max: stat.atomic_write_segments_max,
    }))
}

fn statx(file: &File, mask: u32) -> io::Result<Statx> {
    // SAFETY: all-zero is a valid value of plain integers.
    let mut stat: Statx = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, the path an empty C string (the file
    // itself), and `stat` has the size of the kernel's structure.
    let rc = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            mask,
            (&raw mut stat).cast(),
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stat)
}
