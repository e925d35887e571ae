//! The program's descriptors, as files of the engine.
//!
//! The kernel holds on to a file from `io_submit` to the completion, so that a
//! program may close its descriptor meanwhile. Here, a duplicate does that. It is
//! kept for the next request, which first looks whether the program's descriptor
//! still names the same; one that does not is let go of within
//! [`SWEEP_EVERY`], when the program next calls, and not before a lock of the
//! program's on the file is gone, which closing the duplicate would release.

use crate::sys::abi::Errno;
use crate::sys::descriptor::{Event, duplicate, is_event, is_locked, is_same};
use iolane::{Engine, File, OpenError};
use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a file may stay open that the program closed, while it calls.
const SWEEP_EVERY: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Files(Mutex<Table>);

#[derive(Default)]
struct Table {
    files: HashMap<RawFd, (File, RawFd)>,
    events: HashMap<RawFd, Arc<Event>>,
    /// Closed by the program, and not yet here.
    retired: Vec<(File, RawFd)>,
    swept: Option<Instant>,
}

impl Files {
    /// The file that the program's `fd` names.
    pub(crate) fn file(&self, engine: &Engine, fd: RawFd) -> Result<File, Errno> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((file, ours)) = table.files.get(&fd) {
            if is_same(fd, *ours) {
                return Ok(file.clone());
            }
            if let Some(replaced) = table.files.remove(&fd) {
                table.retired.push(replaced);
            }
        }
        let ours = duplicate(fd)?;
        let number = ours.as_raw_fd();
        let file = engine
            .adopt(ours.into(), format!("descriptor {fd}"))
            .map_err(|error| match error {
                OpenError::Open { source, .. } => source.into(),
                // Not a file, or one to append to: positions have no meaning.
                _ => Errno(libc::EINVAL),
            })?;
        table.files.insert(fd, (file.clone(), number));
        Ok(file)
    }

    /// The eventfd that the program's `fd` names.
    pub(crate) fn event(&self, fd: RawFd) -> Result<Arc<Event>, Errno> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(event) = table.events.get(&fd)
            && is_same(fd, event.as_raw_fd())
        {
            return Ok(Arc::clone(event));
        }
        let ours = duplicate(fd)?;
        if !is_event(ours.as_raw_fd()) {
            return Err(Errno(libc::EINVAL));
        }
        let event = Arc::new(Event::from(ours));
        table.events.insert(fd, Arc::clone(&event));
        Ok(event)
    }

    /// Lets go of what the program has closed, if it is time to look.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = table
            .swept
            .is_none_or(|swept| now.duration_since(swept) >= SWEEP_EVERY);
        if due {
            table.sweep(now);
        }
    }

    /// The same at once.
    pub(crate) fn sweep_now(&self) {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.sweep(Instant::now());
    }
}

impl Table {
    fn sweep(&mut self, now: Instant) {
        self.swept = Some(now);
        let closed = self.files.extract_if(|fd, (_, ours)| !is_same(*fd, *ours));
        self.retired.extend(closed.map(|(_, file)| file));
        self.retired.retain(|(_, ours)| is_locked(*ours));
        self.events
            .retain(|fd, event| is_same(*fd, event.as_raw_fd()));
    }
}
