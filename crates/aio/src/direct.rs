//! The short way: a request that the scheduler lets go at once is submitted to
//! the kernel by the program's own thread, as libaio would. One thread of the
//! context takes the kernel's events, so that the scheduler learns of each
//! completion when it happens, whenever the program looks.

use crate::context::Context;
use crate::sys::abi::{Errno, IOCB_FLAG_RESFD, Iocb};
use crate::sys::kernel::KernelContext;
use iolane::Leave;
use std::sync::{Arc, OnceLock};
use std::thread;

/// The thread calls nothing deep.
const STACK_BYTES: usize = 128 * 1024;

/// A context's way to the kernel, made on first use.
#[derive(Default)]
pub(crate) struct Direct(OnceLock<Option<Arc<KernelContext>>>);

/// A request that may go.
pub(crate) struct Departure {
    pub number: u32,
    pub leave: Leave,
    pub iocb: Iocb,
}

impl Direct {
    /// `None` where the kernel has no context to give: then all requests go by
    /// the engine.
    pub(crate) fn kernel(&self, context: &Arc<Context>) -> Option<&Arc<KernelContext>> {
        self.0
            .get_or_init(|| {
                let kernel = Arc::new(KernelContext::new(context.capacity()).ok()?);
                let (own, of) = (Arc::clone(&kernel), Arc::downgrade(context));
                let thread = thread::Builder::new()
                    .name("iolane-aio".into())
                    .stack_size(STACK_BYTES)
                    .spawn(move || {
                        // An error is the end of the context.
                        while own
                            .events(|event| {
                                if let Some(context) = of.upgrade() {
                                    context.carried(event.data as u32, event.res);
                                }
                            })
                            .is_ok()
                        {}
                    });
                if thread.is_err() {
                    kernel.destroy();
                    return None;
                }
                Some(kernel)
            })
            .as_ref()
    }

    /// Nothing is outstanding.
    pub(crate) fn destroy(&self) {
        if let Some(Some(kernel)) = self.0.get() {
            kernel.destroy();
        }
    }
}

/// Submits what may go, together.
pub(crate) fn depart(context: &Context, kernel: &KernelContext, departures: &mut Vec<Departure>) {
    let mut blocks = Vec::with_capacity(departures.len());
    let mut numbers = Vec::with_capacity(departures.len());
    for departure in departures.drain(..) {
        let number = departure.number;
        blocks.push(Iocb {
            data: u64::from(number),
            // The context signals it, when its event is there.
            flags: departure.iocb.flags & !IOCB_FLAG_RESFD,
            ..departure.iocb
        });
        numbers.push(number);
        context.carry(number, departure.leave);
    }
    let mut next = 0;
    while next < blocks.len() {
        match kernel.submit(&mut blocks[next..]) {
            Ok(taken) if taken > 0 => next += taken,
            refused => {
                let Errno(errno) = refused.err().unwrap_or(Errno(libc::EAGAIN));
                context.carried(numbers[next], -i64::from(errno));
                next += 1;
            }
        }
    }
}
