//! Linux AIO by raw system calls: io_setup(2), io_submit(2),
//! io_getevents(2), io_destroy(2).

use std::io;
use std::mem::offset_of;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::op::PinnedOp;
use crate::backend::OpCode;

// include/uapi/linux/aio_abi.h
const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;
const IOCB_CMD_FSYNC: u16 = 2;
const IOCB_CMD_FDSYNC: u16 = 3;
const IOCB_CMD_POLL: u16 = 5;
const IOCB_CMD_PREADV: u16 = 7;
const IOCB_CMD_PWRITEV: u16 = 8;
const IOCB_FLAG_IOPRIO: u32 = 1 << 1;

// fs/aio.c: what the kernel maps into the process at the context's address.
const AIO_RING_MAGIC: u32 = 0xa10a_10a1;
const AIO_RING_INCOMPAT_FEATURES: u32 = 0;

/// `struct iocb`, 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    rw_flags: u32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    reqprio: i16,
    fd: u32,
    buf: u64,
    nbytes: u64,
    offset: i64,
    reserved2: u64,
    flags: u32,
    resfd: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct IoEvent {
    data: u64,
    obj: u64,
    res: i64,
    res2: i64,
}

/// Head of `struct aio_ring`; the events follow.
#[repr(C)]
struct RingHeader {
    id: u32,
    nr: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compat_features: u32,
    incompat_features: u32,
    header_length: u32,
}

const _: () = assert!(size_of::<Iocb>() == 64 && offset_of!(Iocb, buf) == 24);
const _: () = assert!(size_of::<IoEvent>() == 32 && size_of::<RingHeader>() == 32);

/// One finished control block: its slot and what came of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AioEvent {
    pub slot: u32,
    pub result: i32,
}

/// One context, with a control block for each slot.
pub(crate) struct AioContext {
    /// The kernel's handle, and the address of the mapped event ring. Zero in
    /// no living context.
    context: usize,
    iocbs: Box<[Iocb]>,
    pointers: Vec<*mut Iocb>,
    events: Box<[IoEvent]>,
    /// The event ring has the layout known here.
    ring_readable: bool,
}

impl AioContext {
    pub fn new(slots: u32) -> io::Result<AioContext> {
        let mut context: usize = 0;
        // SAFETY: the kernel writes one word to `context`.
        check(unsafe { libc::syscall(libc::SYS_io_setup, slots, &raw mut context) })?;
        let header = ptr::with_exposed_provenance::<RingHeader>(context);
        // SAFETY: io_setup mapped the ring there, and it begins with a header.
        let ring_readable = unsafe {
            (*header).magic == AIO_RING_MAGIC
                && (*header).incompat_features == AIO_RING_INCOMPAT_FEATURES
                && (*header).header_length as usize == size_of::<RingHeader>()
        };
        let slots = slots as usize;
        Ok(AioContext {
            context,
            iocbs: vec![Iocb::default(); slots].into_boxed_slice(),
            pointers: Vec::with_capacity(slots),
            events: vec![IoEvent::default(); slots].into_boxed_slice(),
            ring_readable,
        })
    }

    /// Fills the control block of a free slot.
    ///
    /// The operation must stay promised (see [`PinnedOp::new`]) until
    /// the slot's event was taken.
    pub fn prepare(&mut self, slot: u32, pinned: &PinnedOp) {
        let op = pinned.op();
        let mut iocb = Iocb {
            data: u64::from(slot),
            fd: op.fd as u32,
            ..Iocb::default()
        };
        match op.code {
            // The kernel refuses a sync with any of the other fields set.
            OpCode::SyncData => iocb.opcode = IOCB_CMD_FDSYNC,
            OpCode::SyncAll => iocb.opcode = IOCB_CMD_FSYNC,
            OpCode::Read | OpCode::Write => {
                let read = op.code == OpCode::Read;
                iocb.offset = op.offset as i64;
                iocb.rw_flags = pinned.rw_flags() as u32;
                if let Some(vector) = pinned.single_vector() {
                    iocb.opcode = if read {
                        IOCB_CMD_PREAD
                    } else {
                        IOCB_CMD_PWRITE
                    };
                    iocb.buf = vector.iov_base.expose_provenance() as u64;
                    iocb.nbytes = vector.iov_len as u64;
                } else {
                    iocb.opcode = if read {
                        IOCB_CMD_PREADV
                    } else {
                        IOCB_CMD_PWRITEV
                    };
                    iocb.buf = op.iov.expose_provenance() as u64;
                    iocb.nbytes = u64::from(op.iov_count);
                }
                if op.ioprio != 0 {
                    iocb.flags = IOCB_FLAG_IOPRIO;
                    iocb.reqprio = op.ioprio as i16;
                }
            }
        }
        self.iocbs[slot as usize] = iocb;
    }

    /// Fills the control block of a free slot: its event comes when `fd` is
    /// readable.
    pub fn prepare_poll(&mut self, slot: u32, fd: RawFd) {
        self.iocbs[slot as usize] = Iocb {
            data: u64::from(slot),
            opcode: IOCB_CMD_POLL,
            fd: fd as u32,
            buf: libc::POLLIN as u64,
            ..Iocb::default()
        };
    }

    /// Hands the prepared slots to the kernel: how many it took. An error
    /// concerns the first of them.
    pub fn submit(&mut self, slots: &[u32]) -> io::Result<usize> {
        let base = self.iocbs.as_mut_ptr();
        self.pointers.clear();
        for &slot in slots {
            assert!((slot as usize) < self.iocbs.len());
            // SAFETY: inside the table.
            self.pointers.push(unsafe { base.add(slot as usize) });
        }
        // SAFETY: each pointer names a control block in the table; their
        // memory is vouched for by the `PinnedOp`s, and `drop` waits.
        let taken = check(unsafe {
            libc::syscall(
                libc::SYS_io_submit,
                self.context,
                self.pointers.len(),
                self.pointers.as_mut_ptr(),
            )
        })?;
        Ok(taken as usize)
    }

    /// Takes the events that are there, without a system call where the
    /// ring can be read.
    pub fn poll(&mut self, out: &mut Vec<AioEvent>) -> io::Result<()> {
        if !self.ring_readable {
            return self.get_events(0, Some(Duration::ZERO), out);
        }
        let header = ptr::with_exposed_provenance::<RingHeader>(self.context);
        // SAFETY: the ring stays mapped until io_destroy. Only this thread
        // moves the head; the kernel accepts it from here (fs/aio.c,
        // `user_refill_reqs_available`) and publishes events by the tail.
        unsafe {
            let count = (*header).nr;
            let events = header.add(1).cast::<IoEvent>();
            let mut head = (*header).head.load(Ordering::Relaxed);
            let tail = (*header).tail.load(Ordering::Acquire);
            if head == tail {
                return Ok(());
            }
            while head != tail {
                out.push(AioEvent::from(events.add(head as usize).read()));
                head = if head + 1 >= count { 0 } else { head + 1 };
            }
            (*header).head.store(head, Ordering::Release);
        }
        Ok(())
    }

    /// Waits for an event, and takes all that are there. A timeout that
    /// passed is not an error.
    pub fn wait(&mut self, timeout: Option<Duration>, out: &mut Vec<AioEvent>) -> io::Result<()> {
        self.get_events(1, timeout, out)
    }

    fn get_events(
        &mut self,
        count_min: usize,
        timeout: Option<Duration>,
        out: &mut Vec<AioEvent>,
    ) -> io::Result<()> {
        let mut timespec = timeout.map(|timeout| libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        });
        // SAFETY: the kernel writes at most `events.len()` events.
        let count = check(unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                count_min,
                self.events.len(),
                self.events.as_mut_ptr(),
                timespec.as_mut().map_or(ptr::null_mut(), ptr::from_mut),
            )
        })?;
        out.extend(
            self.events[..count as usize]
                .iter()
                .copied()
                .map(AioEvent::from),
        );
        Ok(())
    }
}

impl From<IoEvent> for AioEvent {
    fn from(event: IoEvent) -> AioEvent {
        AioEvent {
            slot: event.data as u32,
            // Transfers are below 2^31 bytes, and errors are small.
            result: event.res as i32,
        }
    }
}

impl Drop for AioContext {
    /// io_destroy(2) cancels the poll and waits for all transfers.
    fn drop(&mut self) {
        // SAFETY: the context is alive, and not used again.
        let destroyed = check(unsafe { libc::syscall(libc::SYS_io_destroy, self.context) });
        if let Err(error) = destroyed {
            // Returning would free memory that the kernel still writes.
            eprintln!("iolane: cannot wait for operations in flight: io_destroy: {error}");
            std::process::abort();
        }
    }
}

fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}
