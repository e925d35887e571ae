//! What a process has one of.

use super::abi::Errno;
use crate::context::Context;
use crate::files::Files;
use iolane::{Engine, Process};
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The engine, the program's files, and its contexts by their addresses.
pub(crate) struct Runtime {
    process: Process,
    pub engine: Engine,
    pub files: Files,
    contexts: RwLock<HashMap<usize, Arc<Context>>>,
}

/// Never freed: other threads may be in the one that a process ends with. A
/// child of `fork(2)` makes its own, as it has none of the threads behind its
/// parent's.
static RUNTIME: AtomicPtr<Runtime> = AtomicPtr::new(ptr::null_mut());

impl Runtime {
    /// This process's, if it has one.
    pub(crate) fn existing() -> Option<&'static Runtime> {
        // SAFETY: what is stored came from a box and is never freed.
        let runtime = unsafe { RUNTIME.load(Ordering::Acquire).as_ref() }?;
        runtime.process.is_this().then_some(runtime)
    }

    /// This process's, new if it has none.
    pub(crate) fn this() -> Result<&'static Runtime, Errno> {
        if let Some(runtime) = Runtime::existing() {
            return Ok(runtime);
        }
        let before = RUNTIME.load(Ordering::Acquire);
        let made = Box::into_raw(Box::new(Runtime {
            process: Process::this(),
            engine: Engine::new().map_err(|_| Errno(libc::EINVAL))?,
            files: Files::default(),
            contexts: RwLock::default(),
        }));
        let stored = RUNTIME.compare_exchange(before, made, Ordering::AcqRel, Ordering::Acquire);
        if stored.is_err() {
            // SAFETY: another thread was faster, and nobody has seen this one.
            drop(unsafe { Box::from_raw(made) });
        }
        Runtime::existing().ok_or(Errno(libc::EAGAIN))
    }

    /// Takes a new context into the list, and gives its address.
    pub(crate) fn add(&self, context: Arc<Context>) -> usize {
        let address = context.address();
        let mut contexts = self
            .contexts
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        contexts.insert(address, context);
        address
    }

    /// The context with this address.
    pub(crate) fn context(&self, address: usize) -> Result<Arc<Context>, Errno> {
        let contexts = self.contexts.read().unwrap_or_else(PoisonError::into_inner);
        contexts.get(&address).cloned().ok_or(Errno(libc::EINVAL))
    }

    /// Takes it out of the list.
    pub(crate) fn remove(&self, address: usize) -> Result<Arc<Context>, Errno> {
        let mut contexts = self
            .contexts
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        contexts.remove(&address).ok_or(Errno(libc::EINVAL))
    }
}
