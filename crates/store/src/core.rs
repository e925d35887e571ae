//! What all parts of an open store share.

use crate::access::PagesError;
use crate::flush::{Asked, Bell, FlushCounters};
use crate::log::{Log, LogError};
use crate::names::Names;
use crate::pool::Pool;
use crate::space::Spaces;
use crate::stream::Streams;
use iolane::Engine;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) struct Core {
    pub(crate) engine: Arc<Engine>,
    pub(crate) directory: PathBuf,
    pub(crate) names: Arc<dyn Names>,
    /// Are tablespaces opened past the page cache?
    pub(crate) direct: bool,
    pub(crate) pool: Pool,
    pub(crate) log: Log,
    pub(crate) spaces: Spaces,
    pub(crate) streams: Streams,
    pub(crate) bell: Arc<Bell>,
    pub(crate) flushed: FlushCounters,
    /// Those who wait for a checkpoint.
    pub(crate) asked: Asked,
    /// Not before redo is complete: the log must stay as it is till then.
    checkpoints: AtomicBool,
    /// Changes made by mini-transactions, for statistics.
    pub(crate) changes: AtomicU64,
}

impl Core {
    pub(crate) fn new(
        engine: Arc<Engine>,
        directory: PathBuf,
        names: Arc<dyn Names>,
        direct: bool,
        pool: Pool,
        log: Log,
    ) -> Core {
        let bell = Arc::new(Bell::default());
        let waker = Arc::clone(&bell);
        pool.set_waker(move || waker.ring());
        let waker = Arc::clone(&bell);
        log.set_waker(move || waker.ring());
        Core {
            engine,
            directory,
            names,
            direct,
            pool,
            log,
            spaces: Spaces::default(),
            streams: Streams::default(),
            bell,
            flushed: FlushCounters::default(),
            asked: Asked::default(),
            checkpoints: AtomicBool::new(false),
            changes: AtomicU64::new(0),
        }
    }

    pub(crate) fn may_checkpoint(&self) -> bool {
        self.checkpoints.load(Ordering::Acquire)
    }

    pub(crate) fn allow_checkpoints(&self) {
        self.checkpoints.store(true, Ordering::Release);
    }

    /// The store cannot go on. Whoever waits is told.
    pub(crate) fn fail(&self, reason: String) {
        self.pool.failure.set(reason.clone());
        self.log.fail(reason);
        self.asked.look_again();
        self.bell.ring();
    }

    pub(crate) fn log_failed(&self, error: LogError) -> PagesError {
        let reason = error.to_string();
        if !matches!(error, LogError::TooLarge { .. }) {
            self.fail(reason.clone());
        }
        PagesError::Failed { reason }
    }
}
