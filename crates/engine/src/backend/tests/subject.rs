//! What the suite runs on: the kernel's files by one of its backends, or a
//! simulated disk's.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::*;
use crate::simulated::{OpenAccess, OpenFlags, SimulatedDisk, SimulatedHandle};
use iolane_disk::model::{Constant, ConstantParameters};

#[derive(Clone)]
pub(super) enum Subject {
    Kernel(BackendKind),
    Simulated {
        disk: SimulatedDisk,
        module: &'static str,
    },
}

impl Subject {
    /// Without time.
    pub fn shuffled() -> Subject {
        let disk = SimulatedDisk::builder().seed(5).build();
        Subject::Simulated {
            disk: disk.expect("a disk"),
            module: "on_simulated",
        }
    }

    /// In the time of a model, whose queue is shorter than the backend's.
    pub fn modelled() -> Subject {
        let model = Constant::new(ConstantParameters {
            capacity_bytes: 1 << 30,
            queue_max: 32,
            latency_ns: 20_000,
        });
        let model = Box::new(model.expect("a model"));
        let disk = SimulatedDisk::builder().model(model).build();
        Subject::Simulated {
            disk: disk.expect("a disk"),
            module: "on_modelled",
        }
    }

    /// Another simulated disk, with room for so many bytes.
    pub fn with_capacity(&self, capacity_bytes: usize) -> Subject {
        let disk = SimulatedDisk::builder().capacity_bytes(capacity_bytes as u64);
        Subject::Simulated {
            disk: disk.build().expect("a disk"),
            module: self.module(),
        }
    }

    pub fn module(&self) -> &'static str {
        match self {
            Subject::Kernel(BackendKind::Uring) => "on_uring",
            Subject::Kernel(BackendKind::LinuxAio) => "on_linux_aio",
            Subject::Kernel(_) => "on_threads",
            Subject::Simulated { module, .. } => module,
        }
    }

    pub fn opened(&self, capacity: u32) -> Box<dyn Backend> {
        match self {
            Subject::Kernel(kind) => opened(*kind, capacity),
            Subject::Simulated { disk, .. } => {
                let (backend, report) = open_simulated(disk, capacity).expect("backend opens");
                assert_eq!(report.chosen(), BackendKind::Simulated);
                assert_eq!(backend.kind(), BackendKind::Simulated);
                backend
            }
        }
    }

    pub fn scratch(&self) -> TestScratch {
        let scratch = Scratch::new();
        TestScratch {
            path: scratch.path.clone(),
            kernel_scratch: scratch,
            subject: self.clone(),
        }
    }
}

/// One file, to be opened in different ways.
pub(super) struct TestScratch {
    kernel_scratch: Scratch,
    pub path: PathBuf,
    subject: Subject,
}

impl TestScratch {
    pub fn buffered(&self) -> TestFile {
        match &self.subject {
            Subject::Kernel(_) => TestFile::Kernel(self.kernel_scratch.buffered()),
            Subject::Simulated { disk, .. } => TestFile::simulated(disk, &self.path, false),
        }
    }

    pub fn direct(&self) -> Option<TestFile> {
        match &self.subject {
            Subject::Kernel(_) => self.kernel_scratch.direct().map(TestFile::Kernel),
            Subject::Simulated { disk, .. } => Some(TestFile::simulated(disk, &self.path, true)),
        }
    }
}

pub(super) enum TestFile {
    Kernel(File),
    Simulated(SimulatedHandle),
}

impl TestFile {
    fn simulated(disk: &SimulatedDisk, path: &Path, direct: bool) -> TestFile {
        let flags = OpenFlags {
            access: OpenAccess {
                read: true,
                write: true,
                direct,
                data_sync: false,
            },
            create: true,
            create_new: false,
            truncate: false,
        };
        TestFile::Simulated(disk.open(path, flags).expect("scratch file"))
    }

    pub fn write_all_at(&self, mut data: &[u8], mut offset: u64) -> io::Result<()> {
        match self {
            TestFile::Kernel(file) => file.write_all_at(data, offset),
            TestFile::Simulated(file) => {
                while !data.is_empty() {
                    let bytes = file.write_at(data, offset)?;
                    data = &data[bytes..];
                    offset += bytes as u64;
                }
                Ok(())
            }
        }
    }

    pub fn read_exact_at(&self, memory: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            TestFile::Kernel(file) => file.read_exact_at(memory, offset),
            TestFile::Simulated(file) => {
                let length = memory.len();
                if file.read_at(memory, offset)? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(())
            }
        }
    }

    pub fn sync_all(&self) -> io::Result<()> {
        match self {
            TestFile::Kernel(file) => file.sync_all(),
            TestFile::Simulated(file) => file.sync(),
        }
    }

    pub fn set_len(&self, size_bytes: u64) -> io::Result<()> {
        match self {
            TestFile::Kernel(file) => file.set_len(size_bytes),
            TestFile::Simulated(file) => file.resize(size_bytes),
        }
    }
}

impl AsRawFd for TestFile {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            TestFile::Kernel(file) => file.as_raw_fd(),
            TestFile::Simulated(file) => file.fd(),
        }
    }
}
