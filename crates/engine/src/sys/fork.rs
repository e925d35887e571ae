//! Noticing `fork(2)`: a child has a copy of its parent's memory, and none of
//! its threads. Locks that those held stay locked there for ever, and what they
//! were to complete never completes.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the first. Written only in a
/// child that has one thread; so that a look costs a load of memory that every
/// processor may keep in its cache.
static FORKS: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The process in which something was made: for what stands on an
/// [`Engine`](crate::Engine), and has locks or threads of its own.
///
/// ```
/// let made_in = iolane::Process::this();
/// assert!(made_in.is_this()); // not in a child that fork(2) makes later
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u32);

impl Process {
    /// This one. From now on its children are told apart.
    ///
    /// # Panics
    /// Without the memory for one entry of the C library's list.
    pub fn this() -> Process {
        WATCH.call_once(|| {
            if cfg!(miri) {
                return; // It has no processes.
            }
            // SAFETY: the handler is a function without arguments that does
            // nothing but add to an atomic, which is safe after a fork.
            let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            assert_eq!(refused, 0, "pthread_atfork: out of memory");
        });
        Process(FORKS.load(Ordering::Relaxed))
    }

    /// Is it still the same? Otherwise this is a child, which a `fork` made.
    pub fn is_this(self) -> bool {
        self.0 == FORKS.load(Ordering::Relaxed)
    }
}
