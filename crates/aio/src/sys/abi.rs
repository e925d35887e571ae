//! What programs and the kernel agreed on (include/uapi/linux/aio_abi.h).

use std::mem::offset_of;

#[cfg(target_endian = "big")]
compile_error!("the layout of struct iocb is given for little-endian machines");

pub(crate) const IOCB_CMD_PREAD: u16 = 0;
pub(crate) const IOCB_CMD_PWRITE: u16 = 1;
pub(crate) const IOCB_CMD_FSYNC: u16 = 2;
pub(crate) const IOCB_CMD_FDSYNC: u16 = 3;
pub(crate) const IOCB_CMD_PREADV: u16 = 7;
pub(crate) const IOCB_CMD_PWRITEV: u16 = 8;
pub(crate) const IOCB_FLAG_RESFD: u32 = 1;
pub(crate) const IOCB_FLAG_IOPRIO: u32 = 1 << 1;

/// `struct iocb`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Iocb {
    pub(crate) data: u64,
    pub(crate) key: u32,
    pub(crate) rw_flags: u32,
    pub(crate) opcode: u16,
    pub(crate) reqprio: i16,
    pub(crate) fd: i32,
    pub(crate) buf: u64,
    pub(crate) nbytes: u64,
    pub(crate) offset: i64,
    pub(crate) reserved2: u64,
    pub(crate) flags: u32,
    pub(crate) resfd: i32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoEvent {
    /// The control block's.
    pub data: u64,
    /// Address of the control block.
    pub obj: u64,
    /// Bytes, or a negative errno.
    pub res: i64,
    /// 0.
    pub res2: i64,
}

const _: () = assert!(size_of::<Iocb>() == 64 && offset_of!(Iocb, buf) == 24);
const _: () = assert!(size_of::<IoEvent>() == 32);

/// An error number of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}
