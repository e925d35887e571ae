//! The kernel's own AIO, by raw system calls: libaio's functions are the ones
//! that this library stands for.

use super::abi::{Errno, IoEvent, Iocb};
use std::io;

/// Events that are taken by one call.
const EVENTS_AT_ONCE: usize = 64;

/// A context of the kernel's.
#[derive(Debug)]
pub(crate) struct KernelContext(usize);

impl KernelContext {
    /// For `events` outstanding. Fails with EAGAIN beyond the machine's limit
    /// (`/proc/sys/fs/aio-max-nr`).
    pub(crate) fn new(events: u32) -> Result<KernelContext, Errno> {
        let mut context = 0usize;
        // SAFETY: the place outlives the call.
        let made = unsafe { libc::syscall(libc::SYS_io_setup, events, &raw mut context) };
        match made {
            0 => Ok(KernelContext(context)),
            _ => Err(io::Error::last_os_error().into()),
        }
    }

    /// Submits these control blocks, which name memory of the program that stays
    /// until they have completed (the contract of `io_submit`): how many were
    /// taken, or why the first was not.
    pub(crate) fn submit(&self, blocks: &mut [Iocb]) -> Result<usize, Errno> {
        let mut pointers: Vec<*mut Iocb> = blocks.iter_mut().map(std::ptr::from_mut).collect();
        // SAFETY: the kernel reads the blocks during the call, and writes their
        // keys; afterwards it knows their addresses only as numbers.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_io_submit,
                self.0,
                pointers.len(),
                pointers.as_mut_ptr(),
            )
        };
        usize::try_from(taken).map_err(|_| io::Error::last_os_error().into())
    }

    /// Waits for events, and gives them.
    ///
    /// # Errors
    /// EINVAL: the context was destroyed.
    pub(crate) fn events(&self, mut give: impl FnMut(IoEvent)) -> Result<(), Errno> {
        let mut events = [IoEvent::default(); EVENTS_AT_ONCE];
        // SAFETY: a place for so many.
        let taken = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.0,
                1usize,
                EVENTS_AT_ONCE,
                events.as_mut_ptr(),
                std::ptr::null_mut::<libc::timespec>(),
            )
        };
        match usize::try_from(taken) {
            Ok(taken) => {
                events[..taken].iter().copied().for_each(&mut give);
                Ok(())
            }
            Err(_) => match io::Error::last_os_error().into() {
                Errno(libc::EINTR) => Ok(()),
                errno => Err(errno),
            },
        }
    }

    /// Nothing is outstanding; whoever waits is sent away.
    pub(crate) fn destroy(&self) {
        // SAFETY: no memory is passed.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}
