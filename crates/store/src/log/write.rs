//! From memory to the file: one thread writes for all that wait.

use super::circle::BLOCK;
use super::{Log, LogError, State, WRITE_BYTES_MAX};
use crate::ids::Lsn;
use iolane::{Buffer, Level};
use std::sync::{MutexGuard, PoisonError};

/// How far a write has come when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// In the file: it survives the end of the program.
    File,
    /// On the disk: it survives the end of the machine.
    Disk,
}

impl State {
    fn at(&self, reach: Reach) -> u64 {
        match reach {
            Reach::File => self.written,
            Reach::Disk => self.durable,
        }
    }
}

impl Log {
    /// Waits until everything before `lsn` is durable. One thread writes for
    /// all that wait.
    ///
    /// # Errors
    /// [`LogError::Failed`]: then nothing is known of what is not durable yet,
    /// and this and every later call fails.
    pub fn make_durable(&self, lsn: Lsn) -> Result<(), LogError> {
        self.bring(lsn, Reach::Disk)
    }

    /// Waits until everything before `lsn` is in the file, where it survives
    /// the end of the program, but not of the machine. One thread writes for
    /// all that wait.
    ///
    /// # Errors
    /// As [`make_durable`](Log::make_durable).
    pub fn make_written(&self, lsn: Lsn) -> Result<(), LogError> {
        let reach = match self.plain {
            Some(_) => Reach::File,
            None => Reach::Disk,
        };
        self.bring(lsn, reach)
    }

    fn bring(&self, lsn: Lsn, reach: Reach) -> Result<(), LogError> {
        let mut state = self.lock();
        loop {
            if state.at(reach) >= lsn.0 {
                return Ok(());
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            assert!(lsn.0 <= state.end, "written up to {lsn}, beyond the end");
            if state.writing {
                state = self
                    .progress
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            } else {
                state = self.write_staged(state, reach);
            }
        }
    }

    /// Writes what is staged, a part of it when it is much.
    fn write_staged<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        reach: Reach,
    ) -> MutexGuard<'a, State> {
        let length = state.staged.len().min(WRITE_BYTES_MAX);
        let padded = length.next_multiple_of(BLOCK as usize);
        let from = state.staged_from;
        let has_more = from + length as u64 > state.written;
        let is_unsynced = state.written > state.durable;
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.len() < padded {
            *writer = Buffer::new(padded.next_power_of_two());
        }
        writer[..length].copy_from_slice(&state.staged[..length]);
        writer[length..padded].fill(0);
        state.writing = true;
        drop(state);
        let bytes = if has_more { &writer[..padded] } else { &[] };
        let result = match (&self.plain, reach) {
            // A durable write says nothing of those before it: the disk may
            // keep them in its cache and put this one past it.
            (Some(plain), Reach::Disk) if is_unsynced => self
                .circle
                .write_to(plain, from, bytes)
                .and_then(|()| plain.sync_data(Level::Critical).map_err(LogError::failed)),
            (Some(plain), Reach::File) => self.circle.write_to(plain, from, bytes),
            _ => self.circle.write(from, bytes),
        };
        drop(writer);
        let mut state = self.lock();
        state.writing = false;
        match result {
            Ok(()) => {
                state.written = from + length as u64;
                if reach == Reach::Disk {
                    state.durable = state.written;
                }
                // The block that is not full yet is written again.
                let whole = length - length % BLOCK as usize;
                state.staged.drain(..whole);
                state.staged_from = from + whole as u64;
            }
            Err(error) => {
                state.failed.get_or_insert(error);
                self.room.notify_all();
            }
        }
        self.progress.notify_all();
        state
    }
}
