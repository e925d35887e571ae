//! Moving an operation's data: the one place where faults come in.

use std::io;
use std::sync::Arc;

use super::server::Request;
use crate::fault::{Access, Covered, Faults, FaultyMedium};
use crate::medium::Medium;

/// What the disk holds, with faults or without.
pub enum Contents {
    Sound(Arc<dyn Medium>),
    Faulty(FaultyMedium),
}

/// What came of a transfer.
pub struct Transferred {
    /// What was read, or nothing.
    pub result: io::Result<Vec<u8>>,
    /// So much longer than the model says.
    pub stall_ns: u64,
    /// What is durable when this is answered.
    pub covered: Covered,
}

impl Contents {
    pub fn new(medium: Arc<dyn Medium>, faults: Option<Arc<Faults>>) -> Contents {
        match faults {
            None => Contents::Sound(medium),
            Some(faults) => Contents::Faulty(FaultyMedium::new(medium, faults)),
        }
    }

    pub fn size_bytes(&self) -> u64 {
        match self {
            Contents::Sound(medium) => medium.size_bytes(),
            Contents::Faulty(medium) => medium.size_bytes(),
        }
    }

    /// As [`FaultyMedium::power_cut`].
    pub fn power_cut(&self) -> io::Result<u64> {
        match self {
            Contents::Sound(_) => Ok(0),
            Contents::Faulty(medium) => medium.power_cut(),
        }
    }

    /// As [`FaultyMedium::synced`]: an answer that says so goes out. Never waits.
    pub fn synced(&self, covered: Covered) {
        if let Contents::Faulty(medium) = self {
            medium.synced(covered);
        }
    }

    /// Carries out what is asked for. Takes as long as the medium does.
    pub fn transfer(&self, request: Request<'_>) -> Transferred {
        let (mut stall_ns, mut covered) = (0, Covered::default());
        let result = self.carry_out(request, &mut stall_ns, &mut covered);
        Transferred {
            result,
            stall_ns,
            covered,
        }
    }

    fn carry_out(
        &self,
        request: Request<'_>,
        stall_ns: &mut u64,
        covered: &mut Covered,
    ) -> io::Result<Vec<u8>> {
        match request {
            Request::Read { offset, length } => {
                let mut memory = vec![0; length as usize];
                whole(memory.len(), |done| {
                    self.read(offset + done as u64, &mut memory[done..], stall_ns)
                })?;
                Ok(memory)
            }
            Request::Write {
                offset,
                data,
                durable,
            } => {
                whole(data.len(), |done| {
                    self.write(offset + done as u64, &data[done..], stall_ns)
                })?;
                if durable {
                    *covered = self.sync(stall_ns)?;
                }
                Ok(Vec::new())
            }
            Request::Flush => {
                *covered = self.sync(stall_ns)?;
                Ok(Vec::new())
            }
        }
    }

    fn read(&self, offset: u64, memory: &mut [u8], stall_ns: &mut u64) -> io::Result<usize> {
        match self {
            Contents::Sound(medium) => medium.read(offset, memory),
            Contents::Faulty(medium) => {
                let operation = medium.begin(Access::Read, offset, memory.len() as u64);
                *stall_ns += operation.stall_ns();
                medium.read_as(&operation, offset, memory)
            }
        }
    }

    fn write(&self, offset: u64, data: &[u8], stall_ns: &mut u64) -> io::Result<usize> {
        match self {
            Contents::Sound(medium) => medium.write(offset, data),
            Contents::Faulty(medium) => {
                let operation = medium.begin(Access::Write, offset, data.len() as u64);
                *stall_ns += operation.stall_ns();
                medium.write_as(&operation, offset, data)
            }
        }
    }

    fn sync(&self, stall_ns: &mut u64) -> io::Result<Covered> {
        match self {
            Contents::Sound(medium) => medium.sync().map(|()| Covered::default()),
            Contents::Faulty(medium) => {
                let operation = medium.begin(Access::Sync, 0, 0);
                *stall_ns += operation.stall_ns();
                medium.begin_sync_as(&operation)
            }
        }
    }
}

/// Goes on after short transfers.
fn whole(length: usize, mut go_on: impl FnMut(usize) -> io::Result<usize>) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        match go_on(done) {
            // It would be asked forever.
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the backing file is shorter than it was",
                ));
            }
            Ok(moved) => done += moved,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
