//! One file of a simulated disk: contents, record, faults, place.

use super::layout::{Extents, Space};
use crate::completion::lock;
use iolane_disk::fault::{Access, Faults, FaultyMedium};
use iolane_disk::power::{CowMedium, RecordedFile};
use iolane_disk::{Command, Kind, Medium};
use std::io;
use std::sync::{Arc, Mutex};

/// What is asked of a file.
pub(crate) enum Work<'a> {
    Read(&'a mut [u8]),
    Write(&'a [u8], Tearing),
    Sync,
}

/// Whether a write may arrive in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tearing {
    Possible,
    /// It arrives whole or not at all.
    Never,
}

/// What came of it, and what the disk has to do for it.
pub(super) struct Outcome {
    /// Bytes transferred.
    pub result: io::Result<usize>,
    /// The commands that take time; none for what the disk has no part in.
    pub commands: Vec<Command>,
    pub stall_ns: u64,
}

impl Outcome {
    pub(super) fn refused(errno: i32) -> Outcome {
        Outcome {
            result: Err(io::Error::from_raw_os_error(errno)),
            commands: Vec::new(),
            stall_ns: 0,
        }
    }
}

pub(super) struct SimulatedFile {
    /// As a filesystem's inode number.
    pub number: u64,
    contents: Arc<CowMedium>,
    recorded: Option<Arc<RecordedFile>>,
    /// The recorded contents, if there is a recorder.
    medium: Arc<dyn Medium>,
    faulty: Option<FaultyMedium>,
    extents: Mutex<Extents>,
}

impl SimulatedFile {
    pub(super) fn new(
        number: u64,
        contents: Arc<CowMedium>,
        recorded: Option<RecordedFile>,
        faults: Option<&Arc<Faults>>,
    ) -> SimulatedFile {
        let recorded = recorded.map(Arc::new);
        let medium: Arc<dyn Medium> = match &recorded {
            Some(recorded) => Arc::clone(recorded) as _,
            None => Arc::clone(&contents) as _,
        };
        SimulatedFile {
            number,
            contents,
            recorded,
            faulty: faults.map(|faults| FaultyMedium::new(Arc::clone(&medium), Arc::clone(faults))),
            medium,
            extents: Mutex::default(),
        }
    }

    /// Gives space to contents that are there already.
    pub(super) fn settle_down(&self, space: &Space) -> io::Result<()> {
        let size_bytes = self.size_bytes();
        let end = space.allocate(&mut lock(&self.extents), 0..size_bytes);
        if end < size_bytes {
            self.release(space);
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }

    pub(super) fn recorded(&self) -> Option<&RecordedFile> {
        self.recorded.as_deref()
    }

    pub(super) fn faulty(&self) -> Option<&FaultyMedium> {
        self.faulty.as_ref()
    }

    /// Without faults and without time.
    pub(super) fn contents(&self) -> &CowMedium {
        &self.contents
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.contents.size_bytes()
    }

    /// Moves the end. Fails when the disk has no room.
    pub(super) fn resize(&self, space: &Space, size_bytes: u64) -> io::Result<()> {
        let mut extents = lock(&self.extents);
        let now = self.size_bytes();
        if size_bytes > now {
            let end = space.allocate(&mut extents, now..size_bytes);
            if end < size_bytes {
                space.cut(&mut extents, now);
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
        } else {
            space.cut(&mut extents, size_bytes);
        }
        match &self.recorded {
            Some(recorded) => recorded.resize(size_bytes),
            None => self.contents.resize(size_bytes),
        }
        Ok(())
    }

    /// Gives all space back; the contents stay for who has the file open.
    pub(super) fn release(&self, space: &Space) {
        space.cut(&mut lock(&self.extents), 0);
    }

    /// Does the work on the contents now, and says what the disk has to do.
    pub(super) fn carry_out(
        &self,
        space: &Space,
        offset: u64,
        work: Work<'_>,
        durable: bool,
    ) -> Outcome {
        match work {
            Work::Read(memory) => {
                let length = memory.len() as u64;
                let (result, stall_ns) = match &self.faulty {
                    None => (self.medium.read(offset, memory), 0),
                    Some(faulty) => {
                        let operation = faulty.begin(Access::Read, offset, length);
                        let result = faulty.read_as(&operation, offset, memory);
                        (result, operation.stall_ns())
                    }
                };
                let end = (offset + length).min(self.size_bytes()).max(offset);
                let extents = lock(&self.extents);
                Outcome {
                    result,
                    commands: space.commands(&extents, Kind::Read, offset..end, false),
                    stall_ns,
                }
            }
            Work::Write(data, tearing) => self.write(space, offset, data, durable, tearing),
            Work::Sync => {
                let (result, stall_ns) = match &self.faulty {
                    None => (self.medium.sync(), 0),
                    Some(faulty) => {
                        let operation = faulty.begin(Access::Sync, 0, 0);
                        (faulty.sync_as(&operation), operation.stall_ns())
                    }
                };
                let flush = Command {
                    tag: 0,
                    kind: Kind::Flush,
                    offset: 0,
                    length: 0,
                    durable: false,
                };
                Outcome {
                    result: result.map(|()| 0),
                    commands: vec![flush],
                    stall_ns,
                }
            }
        }
    }

    fn write(
        &self,
        space: &Space,
        offset: u64,
        data: &[u8],
        durable: bool,
        tearing: Tearing,
    ) -> Outcome {
        // Held to the end: the size must not change between.
        let mut extents = lock(&self.extents);
        let wanted = offset..offset + data.len() as u64;
        let end = space.allocate(&mut extents, wanted.clone());
        let short = tearing == Tearing::Never && end < wanted.end;
        if short || end == offset && !data.is_empty() {
            return Outcome::refused(libc::ENOSPC);
        }
        let data = &data[..(end - offset) as usize];
        let (result, stall_ns) = match &self.faulty {
            None => (self.medium.write(offset, data), 0),
            Some(faulty) => {
                let mut operation = faulty.begin(Access::Write, offset, data.len() as u64);
                if tearing == Tearing::Never {
                    operation.keep_whole();
                }
                let result = faulty.write_as(&operation, offset, data);
                (result, operation.stall_ns())
            }
        };
        Outcome {
            result,
            commands: space.commands(&extents, Kind::Write, offset..end, durable),
            stall_ns,
        }
    }
}
