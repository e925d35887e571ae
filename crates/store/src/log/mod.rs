//! The redo log: a stream of records in a file written in circles.
//!
//! Appending copies to memory. [`Log::make_durable`] writes what has gathered
//! and waits; while one thread writes, the others gather behind it, and the
//! next write takes all of them: group commit without a timer. Who was written
//! with the last group will mostly be back at once, so a group waits for a moment
//! for those that were there the last time, and the last of them writes; where the
//! volume has a budget of requests, others wait for it and the log's are a good part of
//! it, for as long as a write takes and for others too (`gather`). The file is
//! opened so that a write is durable when it returns, one system call; and once
//! more without that, for [`Log::make_written`].
//!
//! A checkpoint gives the room before it back. Whoever wants to append
//! [reserves](Log::reserve) first and waits there for a checkpoint, holding no
//! latch; appending itself never waits for I/O.

mod circle;
mod gather;
mod header;
#[cfg(all(test, feature = "shuttle"))]
mod model;
mod open;
mod record;
mod scan;
#[cfg(test)]
mod tests;
mod waiter;
mod write;

pub use scan::{LogRecord, LogScan};

use crate::ids::Lsn;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, wait_briefly};
use crate::waits::{WaitStatistics, Waits};
use circle::{BLOCK, Circle};
use gather::Gathering;
use header::Header;
use iolane::{Buffer, Device, File};
use record::{HEAD, PAYLOAD_MAX};
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use waiter::Waiter;

/// The smallest circle: what a few large mini-transactions need.
pub const CAPACITY_BYTES_MIN: u64 = 1 << 20;
/// The largest.
pub const CAPACITY_BYTES_MAX: u64 = 64 << 30;

/// More than this in memory is written before more is taken in.
const STAGED_BYTES_MAX: usize = 4 << 20;
/// Share of the circle that those may fill who stand back, so that there is room
/// for others while they wait ...
const SHARE_BEHIND: f64 = 0.6;
/// ... and how long they do before they take what there is.
const PATIENCE_BEHIND: Duration = Duration::from_millis(20);
/// Most that one write carries. A commit behind a large batch waits for one
/// such write, not for all of it.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// Why a log cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Neither header is one of ours.
    #[error("the file is not a redo log of iolane, or both of its headers are damaged")]
    Foreign,
    /// Written by a newer program.
    #[error("the log has format version {found}, this program knows {known}: use a newer one")]
    Version {
        /// What the file says.
        found: u32,
        /// What this code writes.
        known: u32,
    },
    /// Shorter than its header says.
    #[error("the log file ends at byte {at}: it was truncated")]
    Truncated {
        /// Where it ends.
        at: u64,
    },
    /// A capacity with which no log can be made.
    #[error(
        "a log of {bytes} bytes: it must be a multiple of 4096 from {CAPACITY_BYTES_MIN} to \
         {CAPACITY_BYTES_MAX}"
    )]
    Capacity {
        /// What was asked for.
        bytes: u64,
    },
    /// A record that can never fit.
    #[error("a record of {bytes} bytes in a log that takes {limit}: make the log larger")]
    TooLarge {
        /// What was asked for.
        bytes: usize,
        /// What fits.
        limit: usize,
    },
    /// A write or read failed. Nothing can be appended until it is reopened:
    /// what the disk holds is not known.
    #[error("the log has failed and must be reopened: {reason}")]
    Failed {
        /// The first cause.
        reason: String,
    },
}

impl LogError {
    fn failed(error: iolane::Error) -> LogError {
        LogError::Failed {
            reason: error.to_string(),
        }
    }
}

/// Called when a reservation has to wait for a checkpoint.
type Waker = Box<dyn Fn() + Send + Sync>;

/// The redo log of a store. Shared by threads.
pub struct Log {
    circle: Circle,
    /// The same file, whose writes are not durable when they return.
    plain: Option<File>,
    state: Mutex<State>,
    /// `written` and `durable`, for those who are told of a change.
    reached: [AtomicU64; 2],
    /// `checkpoint` or `promised` has changed.
    room: Condvar,
    /// So much has gathered that it is better written before anybody waits for
    /// it.
    plenty: Condvar,
    /// The memory that is written from: only the thread that set `writing`
    /// takes it.
    writer: Mutex<Buffer>,
    /// One checkpoint at a time.
    header: Mutex<Header>,
    waker: Mutex<Option<Waker>>,
    waits: Waits,
}

struct State {
    /// Where the next record begins, and the checksum of the last.
    end: u64,
    chain: u32,
    /// All bytes from `staged_from`, the beginning of the block in which
    /// `written` lies, to `end`.
    staged: Vec<u8>,
    staged_from: u64,
    /// Everything before it is in the file ...
    written: u64,
    /// ... and before this it is durable.
    durable: u64,
    checkpoint: u64,
    /// Bytes reserved and not appended.
    promised: u64,
    /// Whoever [writes ahead](Log::write_ahead) waits for plenty, or has ended.
    ahead: Ahead,
    /// Threads that wait for room: those in a hurry, and those that stand
    /// back.
    waiting: [usize; 2],
    /// Who waits for others before it writes, which is in its group too, and how
    /// many that had.
    gathering: Option<(Arc<Waiter>, usize)>,
    gathers: Gathering,
    /// A thread writes.
    writing: bool,
    /// Up to where the write that has begun goes.
    writing_to: u64,
    /// Which of `groups` is in that write; before it begins, will be.
    turn: usize,
    /// Those who wait for that write, and for the one after it.
    groups: [Vec<Arc<Waiter>>; 2],
    /// How many waited in all when the last write was complete, and the thread
    /// that wrote.
    committers: usize,
    /// How long that write took.
    write_time: Duration,
    failed: Option<LogError>,
}

/// What the thread does that [writes ahead](Log::write_ahead).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    Writes,
    Waits,
    Ended,
}

/// A promise that so many bytes can be appended at once.
pub struct LogRoom<'a> {
    log: &'a Log,
    bytes: u64,
}

impl Drop for LogRoom<'_> {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut state = self.log.lock();
        state.promised -= self.bytes;
        self.log.room_was_made(&state);
    }
}

impl Log {
    fn at(circle: Circle, header: Header, end: Lsn, chain: u32, staged: Vec<u8>) -> Log {
        debug_assert_eq!(staged.len() as u64, end.0 % BLOCK);
        Log {
            circle,
            plain: None,
            state: Mutex::new(State {
                end: end.0,
                chain,
                staged_from: end.0 - staged.len() as u64,
                staged,
                written: end.0,
                durable: end.0,
                checkpoint: header.checkpoint.0,
                promised: 0,
                ahead: Ahead::Writes,
                waiting: [0; 2],
                gathering: None,
                gathers: Gathering::NEW,
                writing: false,
                writing_to: end.0,
                turn: 0,
                groups: Default::default(),
                committers: 1,
                write_time: Duration::ZERO,
                failed: None,
            }),
            reached: Default::default(),
            room: Condvar::new(),
            plenty: Condvar::new(),
            writer: Mutex::new(Buffer::new(BLOCK as usize)),
            header: Mutex::new(header),
            waker: Mutex::new(None),
            waits: Waits::default(),
        }
    }

    /// Writes through `plain`, the same file, what need not be durable. Without
    /// it, everything that is written is.
    #[must_use]
    pub fn with_plain(mut self, plain: File) -> Log {
        self.plain = Some(plain);
        self
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how many transfers a second its volume does at the most, if others wait
    /// for them, and how long ago the last call was. Where its writes are many of
    /// them, more commits share one.
    pub(crate) fn set_budget(&self, per_second: Option<f64>, passed: Duration) {
        self.lock().gathers.set_budget(per_second, passed);
    }

    /// The device that its file lies on.
    pub(crate) fn device(&self) -> Device {
        self.circle.file().device()
    }

    /// The store's number, as given to [`create`](Log::create).
    pub fn store(&self) -> u64 {
        self.header
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .store
    }

    /// Bytes that may lie between the checkpoint and the end. Two blocks are
    /// kept free, as the first and the last may be used in part.
    pub fn capacity(&self) -> u64 {
        self.circle.bytes() - 2 * BLOCK
    }

    /// Calls `waker` whenever a reservation has to wait for a checkpoint, from
    /// the thread that waits.
    pub fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        *self.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(waker));
    }

    /// Promises room for one record of `bytes`. Blocks while there is none
    /// before a [checkpoint](Log::set_checkpoint), so the caller must hold no
    /// latch. Who `stands_back` leaves a part of the room to others for a while.
    ///
    /// # Errors
    /// [`LogError::TooLarge`] for more than a quarter of the log,
    /// [`LogError::Failed`].
    pub fn reserve(&self, bytes: usize, stands_back: bool) -> Result<LogRoom<'_>, LogError> {
        let limit = ((self.capacity() / 4) as usize).min(PAYLOAD_MAX);
        if bytes > limit {
            return Err(LogError::TooLarge { bytes, limit });
        }
        let needed = (bytes + HEAD) as u64;
        let mut state = self.lock();
        // Since when it waits, for the disk or for room.
        let mut since = None;
        // As whom it has been counted: one who stands back and then no longer
        // does is another one.
        let mut counted = None;
        let result = loop {
            if let Some(error) = &state.failed {
                break Err(error.clone());
            }
            if state.staged.len() > STAGED_BYTES_MAX {
                since.get_or_insert_with(Instant::now);
                let end = state.end;
                drop(state);
                let written = self.make_written(Lsn(end));
                state = self.lock();
                match written {
                    Ok(()) => continue,
                    Err(error) => break Err(error),
                }
            }
            let waited = since.map_or(Duration::ZERO, |since: Instant| since.elapsed());
            let is_patient = stands_back && waited < PATIENCE_BEHIND;
            let share = if is_patient { SHARE_BEHIND } else { 1.0 };
            let held = state.end - state.checkpoint + state.promised;
            if held + needed <= (self.capacity() as f64 * share) as u64 {
                state.promised += needed;
                break Ok(LogRoom {
                    log: self,
                    bytes: needed,
                });
            }
            since.get_or_insert_with(Instant::now);
            let place = usize::from(is_patient);
            if counted != Some(place) {
                if let Some(before) = counted.replace(place) {
                    state.waiting[before] -= 1;
                }
                state.waiting[place] += 1;
                drop(state);
                let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(waker) = &*waker {
                    waker();
                }
                drop(waker);
                state = self.lock();
                continue;
            }
            state = if is_patient {
                let left = PATIENCE_BEHIND - waited;
                wait_briefly(&self.room, &self.state, state, left)
            } else {
                let waited = self.room.wait(state);
                waited.unwrap_or_else(PoisonError::into_inner)
            };
        };
        if let Some(place) = counted {
            state.waiting[place] -= 1;
        }
        drop(state);
        if let Some(since) = since {
            self.waits.add(since.elapsed());
        }
        result
    }

    /// Each call of the system costs as much as appending a record: none for
    /// nobody.
    fn room_was_made(&self, state: &State) {
        if state.waiting != [0; 2] {
            self.room.notify_all();
        }
    }

    /// How long [`reserve`](Log::reserve) has waited.
    pub fn waits(&self) -> WaitStatistics {
        self.waits.read()
    }

    /// Threads that wait for room now and do not stand back.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiting[0]
    }

    /// Appends a record to what is in memory, and calls `under_lock` with its
    /// first LSN and the one behind it before anyone can append the next: in
    /// this order pages become dirty. Never waits for I/O.
    ///
    /// # Panics
    /// If the record is empty or larger than was reserved.
    pub fn append(
        &self,
        mut room: LogRoom<'_>,
        payload: &[u8],
        under_lock: impl FnOnce(Lsn, Lsn),
    ) -> (Lsn, Lsn) {
        let bytes = (payload.len() + HEAD) as u64;
        assert!(
            !payload.is_empty() && bytes <= room.bytes,
            "a record of {bytes} bytes where {} are reserved",
            room.bytes
        );
        let mut state = self.lock();
        let start = Lsn(state.end);
        let checksum = record::checksum(start, state.chain, payload);
        let head = record::head(payload.len(), checksum, state.chain);
        state.staged.extend_from_slice(&head);
        state.staged.extend_from_slice(payload);
        state.chain = checksum;
        state.end += bytes;
        state.promised -= bytes;
        room.bytes -= bytes;
        let end = Lsn(state.end);
        under_lock(start, end);
        let is_plenty = state.is_plenty();
        drop(state);
        if is_plenty {
            self.plenty.notify_one();
        }
        (start, end)
    }

    /// Lets every later call fail, and those that wait: the store cannot go on.
    pub fn fail(&self, reason: String) {
        self.failed(&mut self.lock(), LogError::Failed { reason });
    }

    /// Keeps the first cause, and tells all who wait.
    fn failed(&self, state: &mut State, error: LogError) {
        state.failed.get_or_insert(error);
        for waiter in state.groups.iter_mut().flat_map(std::mem::take) {
            waiter.tell();
        }
        self.room.notify_all();
        self.plenty.notify_all();
    }

    /// The LSN of the next record.
    pub fn end(&self) -> Lsn {
        Lsn(self.lock().end)
    }

    /// Everything before it is durable.
    pub fn durable(&self) -> Lsn {
        Lsn(self.lock().durable)
    }

    /// Where redo would begin.
    pub fn checkpoint_lsn(&self) -> Lsn {
        Lsn(self.lock().checkpoint)
    }

    /// How full it is: 0 just after a checkpoint, 1 when whoever wants to
    /// append must wait for one.
    pub fn pressure(&self) -> f64 {
        let state = self.lock();
        (state.end - state.checkpoint + state.promised) as f64 / self.capacity() as f64
    }

    /// Lets redo begin at `lsn`, the beginning of a record or the end, and
    /// gives the room before it back. All pages changed before it must be
    /// durable. Waits until the checkpoint is.
    ///
    /// # Errors
    /// [`LogError::Failed`].
    ///
    /// # Panics
    /// If `lsn` lies before the last checkpoint or behind the end.
    pub fn set_checkpoint(&self, lsn: Lsn) -> Result<(), LogError> {
        let mut header = self.header.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(
            lsn >= header.checkpoint && lsn <= self.end(),
            "a checkpoint at {lsn} turns back or lies beyond the end"
        );
        if lsn == header.checkpoint {
            return Ok(());
        }
        self.make_durable(lsn)?;
        let mut next = Header {
            checkpoint: lsn,
            chain: self.chain_at(lsn)?,
            ..*header
        };
        // Both blocks, before room is given back: if one is damaged later, the
        // other is no older, and the log from its checkpoint on is still there.
        for _ in 0..2 {
            next.count += 1;
            if let Err(error) = next.put(self.circle.file()) {
                self.failed(&mut self.lock(), error.clone());
                return Err(error);
            }
        }
        *header = next;
        self.lock().checkpoint = lsn.0;
        self.room.notify_all();
        Ok(())
    }

    /// The chain that stands, or will stand, in the record at `lsn`.
    fn chain_at(&self, lsn: Lsn) -> Result<u32, LogError> {
        // The head may lie in two blocks, and of these the second in memory.
        let mut head = [0; HEAD];
        let from_memory = {
            let state = self.lock();
            if lsn.0 == state.end {
                return Ok(state.chain);
            }
            let begin = state.staged_from.max(lsn.0).min(lsn.0 + HEAD as u64);
            let at = (begin - lsn.0) as usize;
            let staged = begin.saturating_sub(state.staged_from) as usize;
            head[at..].copy_from_slice(&state.staged[staged..staged + HEAD - at]);
            at
        };
        if from_memory > 0 {
            let first = lsn.0 / BLOCK * BLOCK;
            let length = (lsn.0 + from_memory as u64 - first).next_multiple_of(BLOCK) as usize;
            let mut buffer = Buffer::new(length);
            self.circle.read(first, &mut buffer, length)?;
            let at = (lsn.0 - first) as usize;
            head[..from_memory].copy_from_slice(&buffer[at..at + from_memory]);
        }
        Ok(record::Head::parse(&head).chain)
    }
}
