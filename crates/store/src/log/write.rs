//! From memory to the file: one thread writes for all that wait.

use super::circle::BLOCK;
use super::waiter::Waiter;
use super::{Ahead, Log, LogError, State, WRITE_BYTES_MAX};
use crate::ids::Lsn;
use crate::sync::{Arc, MutexGuard};
use iolane::{Buffer, Level};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// When so much has gathered, it is written before anybody waits for it: then
/// the commit of a large transaction has only its rest to write.
const PLENTY_BYTES: u64 = 256 << 10;

/// How far a write has come when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// In the file: it survives the end of the program.
    File,
    /// On the disk: it survives the end of the machine.
    Disk,
}

impl State {
    /// After something was appended: must whoever writes ahead be woken?
    pub(super) fn is_plenty(&mut self) -> bool {
        let is_plenty = self.ahead == Ahead::Waits && self.unwritten() >= PLENTY_BYTES;
        if is_plenty {
            self.ahead = Ahead::Writes;
        }
        is_plenty
    }

    fn unwritten(&self) -> u64 {
        self.end - self.written
    }

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

    /// Writes what gathers, whenever it is plenty, until the log fails or
    /// [`end_writing_ahead`](Log::end_writing_ahead) is called. For a thread of
    /// its own.
    pub(crate) fn write_ahead(&self) {
        loop {
            let mut state = self.lock();
            while state.unwritten() < PLENTY_BYTES
                && state.ahead != Ahead::Ended
                && state.failed.is_none()
            {
                state.ahead = Ahead::Waits;
                let waited = self.plenty.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
            if state.ahead == Ahead::Ended || state.failed.is_some() {
                // Those who need it are told.
                return;
            }
            let end = Lsn(state.end);
            drop(state);
            if self.make_written(end).is_err() {
                return;
            }
        }
    }

    pub(crate) fn end_writing_ahead(&self) {
        self.lock().ahead = Ahead::Ended;
        self.plenty.notify_all();
    }

    fn bring(&self, lsn: Lsn, reach: Reach) -> Result<(), LogError> {
        loop {
            let state = self.lock();
            if state.at(reach) >= lsn.0 {
                return Ok(());
            }
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            assert!(lsn.0 <= state.end, "written up to {lsn}, beyond the end");
            if state.writing {
                // Of the next write, if this one has begun without it.
                let next = usize::from(lsn.0 > state.writing_to);
                let place = (state.turn + next) % 2;
                join(state, place).wait();
            } else if state.groups[state.turn].len() + 1 >= state.gathers.enough(state.committers) {
                self.write_staged(state, reach);
            } else if state.gathering.is_some() {
                let place = state.turn;
                join(state, place).wait();
            } else {
                self.gather(state, reach);
            }
            if self.reached[reach as usize].load(Ordering::Acquire) >= lsn.0 {
                return Ok(());
            }
        }
    }

    /// Waits for those who committed with the last write and will be back, so
    /// that one write takes all of them: had it only this thread's record, they
    /// would wait for it first. The last of them writes; this thread does if
    /// they do not come.
    fn gather(&self, mut state: MutexGuard<'_, State>, reach: Reach) {
        let place = state.turn;
        let patience = state.gathers.patience(state.write_time);
        let waiter = Arc::new(Waiter::default());
        state.groups[place].push(Arc::clone(&waiter));
        let present = state.groups[place].len();
        state.gathering = Some((Arc::clone(&waiter), present));
        drop(state);
        if waiter.wait_briefly(patience) {
            return;
        }
        let mut state = self.lock();
        let is_mine = |other: &Arc<Waiter>| Arc::ptr_eq(other, &waiter);
        let is_due = matches!(&state.gathering, Some((first, _)) if is_mine(first));
        if !is_due || state.failed.is_some() {
            // Another writes for all who are in the group.
            drop(state);
            waiter.wait();
            return;
        }
        state.groups[place].retain(|other| !is_mine(other));
        self.write_staged(state, reach);
    }

    /// Writes what is staged, a part of it when it is much.
    fn write_staged(&self, mut state: MutexGuard<'_, State>, reach: Reach) {
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
        // And this thread, which is in no group.
        let committing = state.groups[state.turn].len() + 1;
        let came = state
            .gathering
            .take()
            .map(|(_, present)| committing.saturating_sub(present));
        state.gathers.wrote(came);
        state.writing = true;
        state.writing_to = from + length as u64;
        drop(state);
        let begin = Instant::now();
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
        let write_time = begin.elapsed();
        drop(writer);
        let mut state = self.lock();
        state.write_time = write_time;
        state.writing = false;
        state.committers = 1 + state.groups[0].len() + state.groups[1].len();
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
                self.failed(&mut state, error);
                return;
            }
        }
        self.reached[Reach::File as usize].store(state.written, Ordering::Release);
        self.reached[Reach::Disk as usize].store(state.durable, Ordering::Release);
        let turn = state.turn;
        let group = std::mem::take(&mut state.groups[turn]);
        state.turn = 1 - turn;
        // One of those who wait for the next write carries it out.
        let next = state.groups[1 - turn].pop();
        // Whoever is woken may take the processor at once, and needs the lock.
        drop(state);
        next.iter().chain(&group).for_each(|waiter| waiter.tell());
    }
}

/// A waiter in a group, for after the lock.
fn join(mut state: MutexGuard<'_, State>, place: usize) -> Arc<Waiter> {
    let waiter = Arc::new(Waiter::default());
    state.groups[place].push(Arc::clone(&waiter));
    waiter
}
