//! A hold on a request whose completion is a callback.

use crate::batch::Batch;
use crate::device::DeviceShared;
use crate::pending::Identify;
use iolane_sched::{Level, RequestId};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Promotes or withdraws a request with a callback, as the methods of a
/// [`Pending`](crate::Pending) do for others. Usable from any thread; of no
/// effect once the request has completed.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, Level, OpenOptions};
/// use std::sync::mpsc;
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("data");
/// # std::fs::write(&path, vec![7; 65536])?;
/// let engine = Engine::new()?;
/// let file = engine.open(&path, OpenOptions::new().read(true))?;
/// let (sender, receiver) = mpsc::channel();
/// let mut batch = file.device().batch();
/// batch.read_then(&file, vec![0; 16384], 0, Level::Prefetch, move |done| {
///     sender.send(done.result.unwrap()).unwrap();
/// })?;
/// let ticket = batch.ticket().unwrap();
/// batch.submit();
/// // A query needs the page now.
/// ticket.promote(Level::Foreground);
/// assert_eq!(receiver.recv()?, 16384);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Ticket {
    device: Arc<DeviceShared>,
    id: Arc<Id>,
}

/// Empty until the request is submitted.
#[derive(Default)]
struct Id(OnceLock<RequestId>);

impl Identify for Id {
    fn identify(&self, id: RequestId) {
        // Set once: a request is submitted once.
        let _ = self.0.set(id);
    }
}

impl Ticket {
    /// Something now waits for it: gives it a more urgent level (never a less
    /// urgent one). Returns whether it was outstanding; what is already with
    /// the device cannot be hurried.
    pub fn promote(&self, level: Level) -> bool {
        match self.id.0.get() {
            Some(&id) => self.device.promote(id, level),
            None => false,
        }
    }

    /// Withdraws it, if it has not yet gone to the device. Returns whether it
    /// was withdrawn: then its callback was dropped, with its buffer, without
    /// being called.
    pub fn cancel(&self) -> bool {
        match self.id.0.get() {
            Some(&id) => self.device.cancel(id),
            None => false,
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("id", &self.id.0.get())
            .finish_non_exhaustive()
    }
}

impl Batch {
    /// A hold on the request that was added last. `None` in an empty batch, and
    /// when that request is a [`Pending`](crate::Pending), which has these
    /// methods itself.
    pub fn ticket(&mut self) -> Option<Ticket> {
        let device = Arc::clone(self.device());
        let unidentified = self.last_identity()?;
        let id = Arc::<Id>::default();
        *unidentified = Some(Arc::clone(&id) as Arc<dyn Identify>);
        Some(Ticket { device, id })
    }
}
