//! What the thread that reads ahead needs of the kernel.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use iolane_protocol::sys::raw::syscall6;

use super::aio::{self, Block};
use crate::{ahead, client};

/// Completions that are taken at once.
pub const EVENTS_MAX: usize = 64;

/// A context of Linux AIO of the library's own, for as long as the process lives.
pub struct Context(usize);

impl Context {
    /// For so many requests. `None`: the kernel gives none.
    pub fn open(requests: usize) -> Option<Context> {
        aio::open_context(requests).map(Context)
    }

    pub fn number(&self) -> usize {
        self.0
    }

    /// Sleeps until so many have ended or the time is over. Gives how many: each with its
    /// control block and result.
    pub fn wait(&self, least: usize, ns: u64, ended: &mut [(usize, i64); EVENTS_MAX]) -> usize {
        let mut events = [aio::Event::none(); EVENTS_MAX];
        let time = libc::timespec {
            tv_sec: 0,
            tv_nsec: ns as libc::c_long,
        };
        let arguments = [
            self.0,
            least,
            EVENTS_MAX,
            events.as_mut_ptr().expose_provenance(),
            ptr::from_ref(&time).expose_provenance(),
            0,
        ];
        // SAFETY: room for as many events as the call is told, and a time; all live as long as
        // the call. What it wrote is looked at, and no more.
        unsafe {
            let result = syscall6(libc::SYS_io_getevents, arguments);
            let count = usize::try_from(result).unwrap_or(0);
            aio::translate(events.as_mut_ptr().expose_provenance(), count);
            for (to, event) in ended.iter_mut().zip(&events[..count]) {
                *to = event.outcome();
            }
            count
        }
    }
}

/// Where the control blocks of the frames lie.
static BLOCKS: AtomicUsize = AtomicUsize::new(0);

/// They stay there: the thread never moves them.
pub fn set_blocks(blocks: &[Block]) {
    BLOCKS.store(blocks.as_ptr().addr(), Ordering::SeqCst);
}

/// The control block of a frame.
pub fn block_address(frame: usize) -> Option<usize> {
    let first = BLOCKS.load(Ordering::SeqCst);
    (first != 0).then(|| first + frame * size_of::<Block>())
}

unsafe extern "C" {
    fn pthread_atfork(
        before: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> libc::c_int;
}

/// A process that forks shares its descriptors with its child: what they name is not read ahead after
/// that.
pub fn looks_at_forks() -> bool {
    extern "C" fn before() {
        ahead::share_all();
    }
    // SAFETY: the function lives as long as the library, which is never unloaded.
    unsafe { pthread_atfork(Some(before), None, None) == 0 }
}

/// Starts the thread.
pub fn start_thread() -> bool {
    extern "C" fn main(_: *mut libc::c_void) -> *mut libc::c_void {
        client::start_submitter(aio::start_thread);
        if let Some(client) = client::of_request() {
            ahead::run(client);
        }
        ptr::null_mut()
    }
    aio::start(main)
}
