//! The thread that reads what was in memory when the store was closed.

use crate::error::StoreError;
use crate::page_store::PageStore;
use crate::system::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub(super) struct Preloader {
    stop: Arc<AtomicBool>,
    /// It came to its end.
    is_through: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Preloader {
    pub(super) fn start(system: &Arc<System<PageStore>>) -> Result<Preloader, StoreError> {
        let stop = Arc::new(AtomicBool::new(false));
        let is_through = Arc::new(AtomicBool::new(false));
        let (stopped, through) = (Arc::clone(&stop), Arc::clone(&is_through));
        let reads = Arc::clone(system);
        let work = move || through.store(reads.backing.preload(&stopped), Ordering::Release);
        let thread = system.backing.spawn("iolane-preload", work)?;
        Ok(Preloader {
            stop,
            is_through,
            thread,
        })
    }

    /// Ends it, and keeps which pages are in memory. Of a store that is closed again at once the list of before says
    /// more. It is a hint: without it pages are read when they are needed.
    pub(super) fn stop(self, system: &System<PageStore>) {
        self.stop.store(true, Ordering::Release);
        // If it panicked the store has failed.
        let _ = self.thread.join();
        if self.is_through.load(Ordering::Acquire) {
            let _ = system.backing.keep_residents();
        }
    }
}
