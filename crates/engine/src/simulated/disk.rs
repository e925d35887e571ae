//! The disk behind its public face: names, descriptors, time.

use super::clock::{Clock, DoneList, Waiter};
use super::file::{Outcome, SimulatedFile, Tearing, Work};
use super::layout::Space;
use crate::completion::lock;
use crate::device::DeviceInfo;
use crate::file::AtomicWriteUnit;
use iolane_disk::Command;
use iolane_disk::fault::Faults;
use iolane_disk::power::{Begun, CowMedium, Promise, RecordedFile, Recorder};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex};

/// How operations take time.
pub(super) enum Time {
    /// None at all. Queued operations end in an order that the seed gives.
    Shuffled { seed: u64 },
    /// What the model says, in real time.
    Modelled(Clock),
}

pub(crate) struct Disk {
    pub(super) info: DeviceInfo,
    pub(super) time: Time,
    pub(super) space: Space,
    pub(super) atomic: Option<AtomicWriteUnit>,
    pub(super) faults: Option<Arc<Faults>>,
    pub(super) recorder: Option<Recorder>,
    pub(super) names: Mutex<Names>,
    table: Mutex<Table>,
}

#[derive(Default)]
pub(super) struct Names {
    pub files: BTreeMap<String, Arc<SimulatedFile>>,
    last_number: u64,
}

/// Open files by descriptor.
#[derive(Default)]
struct Table {
    open: Vec<Option<OpenFile>>,
    free: Vec<usize>,
}

/// What a descriptor stands for.
#[derive(Clone)]
pub(super) struct OpenFile {
    pub file: Arc<SimulatedFile>,
    pub access: OpenAccess,
}

#[derive(Clone, Copy)]
pub(crate) struct OpenAccess {
    pub read: bool,
    pub write: bool,
    /// Offsets and lengths are whole blocks.
    pub direct: bool,
    /// Writes are durable when they end.
    pub data_sync: bool,
}

/// An operation that the disk has begun. Its effect on the contents has
/// happened; that it ended is not said yet.
pub(crate) struct Started {
    /// Bytes or `-errno`.
    result: i32,
    commands: Vec<Command>,
    stall_ns: u64,
    recorded: Option<Begun>,
}

impl Disk {
    pub(super) fn new(
        info: DeviceInfo,
        time: Time,
        space: Space,
        atomic: Option<AtomicWriteUnit>,
        faults: Option<Arc<Faults>>,
        recorder: Option<Recorder>,
    ) -> Disk {
        Disk {
            info,
            time,
            space,
            atomic,
            faults,
            recorder,
            names: Mutex::default(),
            table: Mutex::default(),
        }
    }

    /// A file with these contents, which is new to this disk; takes the name
    /// from another. `record` says whether the name is durable.
    pub(super) fn adopt(
        &self,
        names: &mut Names,
        name: &str,
        contents: CowMedium,
        record: impl FnOnce(&Recorder, &str, Arc<CowMedium>) -> RecordedFile,
    ) -> io::Result<Arc<SimulatedFile>> {
        names.last_number += 1;
        let contents = Arc::new(contents);
        let recorder = self.recorder.as_ref();
        let recorded = recorder.map(|recorder| record(recorder, name, Arc::clone(&contents)));
        let faults = self.faults.as_ref();
        let file = SimulatedFile::new(names.last_number, contents, recorded, faults);
        file.settle_down(&self.space)?;
        let file = Arc::new(file);
        if let Some(replaced) = names.files.insert(name.to_owned(), Arc::clone(&file)) {
            replaced.release(&self.space);
        }
        Ok(file)
    }

    pub(super) fn insert(&self, open: OpenFile) -> RawFd {
        let mut table = lock(&self.table);
        let at = match table.free.pop() {
            Some(at) => {
                table.open[at] = Some(open);
                at
            }
            None => {
                table.open.push(Some(open));
                table.open.len() - 1
            }
        };
        // Memory ends long before the numbers do.
        at as RawFd
    }

    pub(super) fn close(&self, fd: RawFd) {
        let mut table = lock(&self.table);
        let closed = table.open.get_mut(fd as usize).and_then(Option::take);
        if closed.is_some() {
            table.free.push(fd as usize);
        }
        drop(table);
        // Removed, and this was the last handle: what it wrote since goes too.
        if let Some(closed) = closed
            && Arc::strong_count(&closed.file) == 1
        {
            closed.file.release(&self.space);
        }
    }

    pub(super) fn open_file(&self, fd: RawFd) -> Option<OpenFile> {
        let at = usize::try_from(fd).ok()?;
        lock(&self.table).open.get(at)?.clone()
    }

    /// Begins an operation.
    pub(crate) fn start(&self, fd: RawFd, offset: u64, work: Work<'_>) -> Started {
        let Some(open) = self.open_file(fd) else {
            return Started::refused(libc::EBADF);
        };
        let (permitted, length) = match &work {
            Work::Read(memory) => (open.access.read, memory.len()),
            Work::Write(data, _) => (open.access.write, data.len()),
            Work::Sync => (true, 0),
        };
        if !permitted {
            return Started::refused(libc::EBADF);
        }
        let block = self.space.block_bytes();
        let aligned = offset.is_multiple_of(block) && (length as u64).is_multiple_of(block);
        if open.access.direct && !aligned {
            return Started::refused(libc::EINVAL);
        }
        let whole = matches!(work, Work::Write(_, Tearing::Never));
        if whole && !self.can_be_whole(&open, offset, length as u64) {
            return Started::refused(libc::EINVAL);
        }
        if i64::try_from(offset).map_or(true, |at| at.checked_add(length as i64).is_none()) {
            return Started::refused(libc::EFBIG);
        }
        let durable = open.access.data_sync && matches!(work, Work::Write(..));
        let reads = matches!(work, Work::Read(_));
        let carry_out = || open.file.carry_out(&self.space, offset, work, durable);
        let (outcome, recorded) = match &self.recorder {
            Some(recorder) if !reads => {
                let promise = Promise { durable, whole };
                let (outcome, begun) = recorder.begin_as(promise, carry_out);
                (outcome, Some(begun))
            }
            _ => (carry_out(), None),
        };
        Started::new(outcome, recorded)
    }

    /// As the kernel decides it.
    fn can_be_whole(&self, open: &OpenFile, offset: u64, length: u64) -> bool {
        let allowed = self.atomic.is_some_and(|unit| unit.allows(length));
        open.access.direct && allowed && offset.is_multiple_of(length)
    }

    /// Lets a begun operation take its time; its slot is in the list when it
    /// has ended. On a disk without a model it has at once.
    pub(crate) fn submit(&self, started: &mut Started, done: &Arc<DoneList>, slot: u32) {
        let done = Arc::clone(done);
        let waiter = Waiter::Backend { done, slot };
        let commands = std::mem::take(&mut started.commands);
        match &self.time {
            Time::Modelled(clock) => clock.submit(commands, started.stall_ns, waiter),
            Time::Shuffled { .. } => waiter.tell(),
        }
    }

    /// Of a disk without a model.
    pub(crate) fn seed(&self) -> Option<u64> {
        match &self.time {
            Time::Shuffled { seed } => Some(*seed),
            Time::Modelled(_) => None,
        }
    }

    /// The operation has ended, as far as the host can know. Bytes, or
    /// `-errno`.
    pub(crate) fn finish(&self, started: Started) -> i32 {
        if let (Some(recorder), Some(begun)) = (&self.recorder, started.recorded) {
            recorder.end(begun);
        }
        started.result
    }

    /// The whole operation, on the calling thread.
    pub(super) fn run(&self, fd: RawFd, offset: u64, work: Work<'_>) -> io::Result<usize> {
        let mut started = self.start(fd, offset, work);
        if let Time::Modelled(clock) = &self.time {
            clock.wait(std::mem::take(&mut started.commands), started.stall_ns);
        }
        match self.finish(started) {
            bytes @ 0.. => Ok(bytes as usize),
            errno => Err(io::Error::from_raw_os_error(-errno)),
        }
    }
}

impl Started {
    fn new(outcome: Outcome, recorded: Option<Begun>) -> Started {
        let result = match outcome.result {
            // A request is at most 1 GiB long.
            Ok(bytes) => bytes as i32,
            Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
        };
        Started {
            result,
            commands: outcome.commands,
            stall_ns: outcome.stall_ns,
            recorded,
        }
    }

    /// Transferred.
    pub(crate) fn bytes(&self) -> usize {
        self.result.max(0) as usize
    }

    fn refused(errno: i32) -> Started {
        Started::new(Outcome::refused(errno), None)
    }
}
