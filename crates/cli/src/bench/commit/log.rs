//! A log with group commit, without a timer.
//!
//! Committers add their records to the group that is gathering. If no flush is
//! under way, the committer becomes the leader: it takes the group, writes it,
//! makes it durable, and wakes the group's members. Meanwhile the next group
//! gathers; as soon as the device is free, one of that group leads. So nobody
//! ever waits for company, and a group is as large as the device is slow.
//!
//! The log is written in whole blocks. The last one is mostly not full: the
//! next group begins with it and writes it again, as InnoDB does with its
//! blocks of 512 bytes and PostgreSQL with its pages. What a block already held
//! does not change, so a write of it that a crash tears loses nothing.
//!
//! The file is written round and round, as InnoDB's and as PostgreSQL's
//! recycled segments: it never grows, and a sync has no metadata to write.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use iolane::Buffer;

use super::record::{Tag, encode, record_bytes};

/// Largest group. A committer who finds no room waits for the next one.
const GROUP_BYTES_MAX: u64 = 4 << 20;
/// And this part of the file, so that a group never overwrites itself.
const GROUP_FILE_PART: u64 = 4;

/// Where the log goes.
pub trait LogFile: Sync {
    type Error: Clone + Send;

    /// Writes start, and are as long as, multiples of it.
    fn block_bytes(&self) -> usize;

    /// A multiple of the block.
    fn capacity_bytes(&self) -> u64;

    /// # Errors
    /// The write failed.
    fn write(&self, blocks: &[u8], offset: u64) -> Result<(), Self::Error>;

    /// Makes everything durable that was written before; nothing to do where
    /// [`write`](Self::write) did that already.
    ///
    /// # Errors
    /// Nothing written since the last success is known to be durable.
    fn make_durable(&self) -> Result<(), Self::Error>;
}

/// Smallest file for records of this payload.
pub fn capacity_bytes_min(payload_bytes: usize, block_bytes: usize) -> u64 {
    (record_bytes(payload_bytes) + 2 * block_bytes) as u64 * GROUP_FILE_PART
}

/// Records that will be written together, from a block's start on.
struct Group {
    buffer: Buffer,
    start_lsn: u64,
    length: usize,
}

impl Group {
    fn end_lsn(&self) -> u64 {
        self.start_lsn + self.length as u64
    }
}

struct State<E> {
    gathering: Group,
    /// The second buffer; away while a flush is under way.
    spare: Option<Buffer>,
    /// How many flushes have begun. Members of one group have seen the same.
    flushes: u64,
    durable_lsn: u64,
    failure: Option<E>,
}

/// The log. All methods may be called from any thread.
pub struct Log<F: LogFile> {
    file: F,
    block_bytes: usize,
    state: Mutex<State<F::Error>>,
    /// Where members of a group wait for its end: two, by turns, so that the
    /// next group sleeps on.
    turns: [Condvar; 2],
    /// Where committers wait who found the gathering group full.
    room: Condvar,
    /// Without group commit: who holds it has the log alone until its own
    /// record is durable.
    alone: Option<Mutex<()>>,
}

impl<F: LogFile> Log<F> {
    /// An empty log that begins at an LSN, which is a multiple of the block.
    pub fn new(file: F, group_commit: bool, start_lsn: u64) -> Self {
        let block_bytes = file.block_bytes();
        assert!(start_lsn.is_multiple_of(block_bytes as u64));
        let bytes = (file.capacity_bytes() / GROUP_FILE_PART).min(GROUP_BYTES_MAX);
        let buffer_bytes = bytes as usize / block_bytes * block_bytes;
        Self {
            block_bytes,
            state: Mutex::new(State {
                gathering: Group {
                    buffer: Buffer::new(buffer_bytes),
                    start_lsn,
                    length: 0,
                },
                spare: Some(Buffer::new(buffer_bytes)),
                flushes: 0,
                durable_lsn: start_lsn,
                failure: None,
            }),
            turns: [Condvar::new(), Condvar::new()],
            room: Condvar::new(),
            alone: (!group_commit).then(Mutex::default),
            file,
        }
    }

    pub fn file(&self) -> &F {
        &self.file
    }

    /// End of what is durable.
    pub fn durable_lsn(&self) -> u64 {
        self.lock().durable_lsn
    }

    /// Appends a record, and returns its LSN when it is durable: after a sync
    /// that began when the record's write had completed.
    ///
    /// # Errors
    /// A write or sync failed, this one's or an earlier one's: whether the
    /// record will be found is unknown. The log takes no more records.
    ///
    /// # Panics
    /// When the file is smaller than [`capacity_bytes_min`] of the payload.
    pub fn commit(&self, tag: Tag, payload: &[u8]) -> Result<u64, F::Error> {
        let _alone = self.alone.as_ref().map(lock);
        let mut state = self.with_room(record_bytes(payload.len()))?;
        let lsn = append(&mut state.gathering, tag, payload);
        let end_lsn = state.gathering.end_lsn();
        let turn = turn(state.flushes);
        loop {
            if state.durable_lsn >= end_lsn {
                return Ok(lsn);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state = match state.spare.take() {
                Some(spare) => self.flush(state, spare),
                None => wait(&self.turns[turn], state),
            };
        }
    }

    /// The state, with room for a record in the gathering group.
    fn with_room(&self, record_bytes: usize) -> Result<MutexGuard<'_, State<F::Error>>, F::Error> {
        let mut state = self.lock();
        // The padding of the last block needs none: the buffer is whole blocks.
        let fits = record_bytes + self.block_bytes <= state.gathering.buffer.len();
        assert!(fits, "a record of {record_bytes} bytes in too small a log");
        while state.gathering.length + record_bytes > state.gathering.buffer.len() {
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state = match state.spare.take() {
                Some(spare) => self.flush(state, spare),
                None => wait(&self.room, state),
            };
        }
        Ok(state)
    }

    /// As the leader: writes what has gathered, and wakes its members.
    fn flush<'a>(
        &'a self,
        mut state: MutexGuard<'a, State<F::Error>>,
        spare: Buffer,
    ) -> MutexGuard<'a, State<F::Error>> {
        let turn = turn(state.flushes);
        state.flushes += 1;
        let mut group = self.next_group(&mut state.gathering, spare);
        self.room.notify_all();
        drop(state);

        let end = group.length.next_multiple_of(self.block_bytes);
        group.buffer[group.length..end].fill(0);
        let written = self
            .write(&group.buffer[..end], group.start_lsn)
            .and_then(|()| self.file.make_durable());

        let mut state = self.lock();
        match written {
            Ok(()) => state.durable_lsn = group.end_lsn(),
            Err(failure) => {
                state.failure.get_or_insert(failure);
                self.turns[1 - turn].notify_all();
                self.room.notify_all();
            }
        }
        state.spare = Some(group.buffer);
        self.turns[turn].notify_all();
        // The device is free: one of those who gathered meanwhile leads.
        self.turns[1 - turn].notify_one();
        state
    }

    /// Takes the gathering group; the next one begins with its last block,
    /// where that is not full.
    fn next_group(&self, gathering: &mut Group, mut spare: Buffer) -> Group {
        let tail = gathering.length - gathering.length % self.block_bytes;
        let tail_length = gathering.length - tail;
        spare[..tail_length].copy_from_slice(&gathering.buffer[tail..gathering.length]);
        let next = Group {
            buffer: spare,
            start_lsn: gathering.start_lsn + tail as u64,
            length: tail_length,
        };
        std::mem::replace(gathering, next)
    }

    /// In two parts where it goes over the end of the file.
    fn write(&self, blocks: &[u8], start_lsn: u64) -> Result<(), F::Error> {
        let capacity = self.file.capacity_bytes();
        let offset = start_lsn % capacity;
        let to_end = usize::try_from(capacity - offset).unwrap_or(usize::MAX);
        let (first, second) = blocks.split_at(blocks.len().min(to_end));
        self.file.write(first, offset)?;
        if second.is_empty() {
            Ok(())
        } else {
            self.file.write(second, 0)
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<F::Error>> {
        lock(&self.state)
    }
}

fn append(group: &mut Group, tag: Tag, payload: &[u8]) -> u64 {
    let lsn = group.end_lsn();
    let end = group.length + record_bytes(payload.len());
    encode(&mut group.buffer[group.length..end], lsn, tag, payload);
    group.length = end;
    lsn
}

fn turn(flushes: u64) -> usize {
    (flushes % 2) as usize
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition
        .wait(guard)
        .unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
