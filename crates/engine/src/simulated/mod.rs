//! Disks that are not there: for tests of what stands on the engine, and for
//! disks that one does not have.
//!
//! An engine that is made with a [`SimulatedDisk`]
//! ([`EngineBuilder::simulated`](crate::EngineBuilder::simulated)) opens the
//! files *of that disk*, by name, instead of the machine's. Everything else is
//! the same: fast path, queue, promotion, poisoning by a failed sync.
//!
//! | file | subject |
//! |---|---|
//! | `disk` | names, descriptors, operations from begin to end |
//! | `file` | one file: contents, record, faults |
//! | `handle` | a file that is open |
//! | `layout` | where on the disk a file's bytes lie |
//! | `clock` | a model in real time |

mod clock;
mod disk;
mod file;
mod handle;
mod layout;

pub(crate) use clock::DoneList;
pub(crate) use disk::{Disk, OpenAccess, Started};
pub(crate) use file::{Tearing, Work};
pub(crate) use handle::{OpenFlags, SimulatedHandle};

use crate::backend::SimulatedBackend;
use crate::completion::lock;
use crate::device::DeviceInfo;
use crate::file::AtomicWriteUnit;
use clock::Clock;
use disk::Time;
use iolane_disk::fault::{FaultPlan, FaultPlanError, Faults};
use iolane_disk::power::{CowMedium, Image, Recorder, RecorderLimits};
use iolane_disk::{Medium, Model};
use layout::Space;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Of a disk without a model, if nothing else is said: 1 TiB.
const CAPACITY_BYTES: u64 = 1 << 40;

/// Why a [`SimulatedDisk`] could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulatedDiskError {
    /// The faults.
    #[error(transparent)]
    Faults(#[from] FaultPlanError),
    /// The files of the image need more room.
    #[error("the image's file {name} does not fit on a disk of {capacity_bytes} bytes")]
    TooSmall {
        /// The first that does not.
        name: String,
        /// Of the disk.
        capacity_bytes: u64,
    },
    /// The thread that runs the model.
    #[error("the thread of the disk's model could not be started: {0}")]
    Thread(#[source] io::Error),
}

/// How to make a [`SimulatedDisk`].
#[derive(Default)]
pub struct SimulatedDiskBuilder {
    model: Option<Box<dyn Model>>,
    seed: u64,
    capacity_bytes: Option<u64>,
    atomic: Option<AtomicWriteUnit>,
    faults: Option<FaultPlan>,
    record: Option<RecorderLimits>,
    files: Vec<(String, CowMedium)>,
}

impl SimulatedDiskBuilder {
    /// Operations take the time that this model says, in real time; stalls of
    /// the fault plan come in addition.
    ///
    /// Default: none, and operations take no time. Those that a thread carries
    /// to the disk itself end at once; queued ones end in an order that the
    /// seed gives, and may stay in flight while others end.
    #[must_use]
    pub fn model(mut self, model: Box<dyn Model>) -> Self {
        self.model = Some(model);
        self
    }

    /// Shuffles the ends of queued operations on a disk without a model.
    /// Default: 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Room for all files together; behind it writes fail with `ENOSPC`, after
    /// a short one. Default: the model's capacity, 1 TiB without a model.
    #[must_use]
    pub fn capacity_bytes(mut self, capacity_bytes: u64) -> Self {
        self.capacity_bytes = Some(capacity_bytes);
        self
    }

    /// Direct writes of a power of two of bytes from `min_bytes` to `max_bytes`
    /// can arrive whole or not at all ([`File::atomic`](crate::File::atomic)):
    /// neither faults nor power cuts tear them then. Default: no disk is that
    /// careful.
    #[must_use]
    pub fn atomic_unit(mut self, min_bytes: u32, max_bytes: u32) -> Self {
        self.atomic = Some(AtomicWriteUnit {
            min_bytes,
            max_bytes,
        });
        self
    }

    /// What goes wrong. Operations of all files are counted together; ranges
    /// are those of each file; misdirected writes stay in their file.
    #[must_use]
    pub fn faults(mut self, plan: FaultPlan) -> Self {
        self.faults = Some(plan);
        self
    }

    /// Keeps everything that is written, for images of power cuts. Faults come
    /// before it: what they lost was not written.
    #[must_use]
    pub fn record(mut self, limits: RecorderLimits) -> Self {
        self.record = Some(limits);
        self
    }

    /// Begins with the files that a power cut left.
    #[must_use]
    pub fn image(mut self, image: &Image) -> Self {
        self.files = image
            .names()
            .filter_map(|name| Some((name.to_owned(), image.open(name)?)))
            .collect();
        self
    }

    /// The disk.
    ///
    /// # Errors
    /// [`SimulatedDiskError`].
    pub fn build(self) -> Result<SimulatedDisk, SimulatedDiskError> {
        // Tells disks apart, as minor numbers do.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let minor = NUMBER.fetch_add(1, Ordering::Relaxed);
        let model = self.model.as_deref();
        let capacity_bytes = match (self.capacity_bytes, model) {
            (Some(wanted), Some(model)) => wanted.min(model.capacity_bytes()),
            (None, Some(model)) => model.capacity_bytes(),
            (wanted, None) => wanted.unwrap_or(CAPACITY_BYTES),
        };
        let space = Space::new(capacity_bytes, model);
        let info = DeviceInfo {
            name: format!("simulated-{minor}"),
            major: 0,
            minor,
            rotational: model.is_some_and(Model::rotating),
            logical_block_bytes: space.block_bytes() as u32,
            transfer_bytes_max: None,
        };
        let time = match self.model {
            Some(model) => Time::Modelled(Clock::start(model).map_err(SimulatedDiskError::Thread)?),
            None => Time::Shuffled { seed: self.seed },
        };
        let faults = self.faults.map(Faults::new).transpose()?.map(Arc::new);
        let recorder = self.record.map(Recorder::new);
        let disk = Disk::new(info, time, space, self.atomic, faults, recorder);
        for (name, contents) in self.files {
            let adopted = disk.adopt(&mut lock(&disk.names), &name, contents, Recorder::file);
            adopted.map_err(|_| SimulatedDiskError::TooSmall {
                name,
                capacity_bytes,
            })?;
        }
        Ok(SimulatedDisk(Arc::new(disk)))
    }
}

impl fmt::Debug for SimulatedDiskBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDiskBuilder")
            .field("modelled", &self.model.is_some())
            .field("seed", &self.seed)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

/// A disk in memory with files of its own, for
/// [`EngineBuilder::simulated`](crate::EngineBuilder::simulated). Cheap to
/// clone; all clones are one disk. Needs the crate's feature `simulated`.
///
/// Names are whole paths, compared as they are written; there are no folders.
/// Creating, renaming and removing a file is durable after
/// [`sync_names`](Self::sync_names).
///
/// Without a model, one thread that makes blocking calls only gets the same
/// faults and the same recording each time. What goes through the queue
/// depends on the threads' timing too; the recording then is that of this
/// run.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, Level, OpenOptions, SimulatedDisk};
/// use iolane_disk::power::{CrashPlan, Images, RecorderLimits};
///
/// let disk = SimulatedDisk::builder().record(RecorderLimits::default()).build()?;
/// let engine = Engine::builder().simulated(&disk).build()?;
/// let options = OpenOptions::new().read(true).write(true).create(true).clone();
/// let log = engine.open("log", &options)?;
/// log.write_at(b"commit 1", 0, Level::Critical)?;
/// log.sync_data(Level::Critical)?;
/// disk.sync_names(); // as a program syncs the directory
/// let recorder = disk.recorder().expect("it was asked for");
/// recorder.mark(1); // whoever waited for commit 1 was told
///
/// for image in Images::new(&recorder.recording(), CrashPlan::sampled(7, 10))?.iter() {
///     let disk = SimulatedDisk::from_image(&image)?;
///     let engine = Engine::builder().simulated(&disk).build()?;
///     if image.mark() == Some(1) {
///         let log = engine.open("log", &options)?;
///         let mut record = [0; 8];
///         log.read_at(&mut record, 0, Level::Foreground)?;
///         assert_eq!(&record, b"commit 1", "{image}");
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct SimulatedDisk(Arc<Disk>);

impl SimulatedDisk {
    /// For settings.
    pub fn builder() -> SimulatedDiskBuilder {
        SimulatedDiskBuilder::default()
    }

    /// With the files that a power cut left; takes no time, has no faults.
    ///
    /// # Errors
    /// As [`SimulatedDiskBuilder::build`].
    pub fn from_image(image: &Image) -> Result<SimulatedDisk, SimulatedDiskError> {
        SimulatedDisk::builder().image(image).build()
    }

    /// What is written, if [`record`](SimulatedDiskBuilder::record) asked for
    /// it.
    pub fn recorder(&self) -> Option<&Recorder> {
        self.0.recorder.as_ref()
    }

    /// The faults at work, with their log, if there are any.
    pub fn faults(&self) -> Option<&Faults> {
        self.0.faults.as_deref()
    }

    /// Names of all files, sorted.
    pub fn names(&self) -> Vec<String> {
        lock(&self.0.names).files.keys().cloned().collect()
    }

    /// A copy of a file's contents as they are now, without faults and
    /// without time.
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let names = lock(&self.0.names);
        let file = names.files.get(&name_of(path.as_ref()))?;
        let mut bytes = vec![0; file.size_bytes() as usize];
        let read = file.contents().read(0, &mut bytes).unwrap_or(0);
        bytes.truncate(read);
        Some(bytes)
    }

    /// Gives a file another name, and takes that from whoever has it.
    ///
    /// # Errors
    /// No file has the name `from`.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
        let (from, to) = (name_of(from.as_ref()), name_of(to.as_ref()));
        let mut names = lock(&self.0.names);
        let file = names.files.remove(&from).ok_or(io::ErrorKind::NotFound)?;
        if let (Some(recorder), Some(recorded)) = (&self.0.recorder, file.recorded()) {
            recorder.rename(recorded, &to);
        }
        if let Some(replaced) = names.files.insert(to, file) {
            replaced.release(&self.0.space);
        }
        Ok(())
    }

    /// Removes a file. Who has it open can go on.
    ///
    /// # Errors
    /// There is no such file.
    pub fn remove(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let mut names = lock(&self.0.names);
        let removed = names.files.remove(&name_of(path.as_ref()));
        let file = removed.ok_or(io::ErrorKind::NotFound)?;
        if let (Some(recorder), Some(recorded)) = (&self.0.recorder, file.recorded()) {
            recorder.remove(recorded);
        }
        file.release(&self.0.space);
        Ok(())
    }

    /// Makes the names of all files durable as they are, as `fsync(2)` of every
    /// directory does: until then a power cut may take any of their changes,
    /// which shows in [`record`](SimulatedDiskBuilder::record)ed images only.
    pub fn sync_names(&self) {
        if let Some(recorder) = &self.0.recorder {
            recorder.sync_names();
        }
    }

    /// Cuts the power, as far as the fault plan has writes that a power cut
    /// takes ([`Visible::AfterPowerCut`](iolane_disk::fault::Visible)): bytes
    /// that got their old content back. For all that a power cut can do,
    /// record and enumerate images.
    ///
    /// # Errors
    /// None of its own: those of the contents, which memory does not have.
    pub fn power_cut(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for file in lock(&self.0.names).files.values() {
            if let Some(faulty) = file.faulty() {
                bytes += faulty.power_cut()?;
            }
        }
        Ok(bytes)
    }

    pub(crate) fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    pub(crate) fn atomic_unit(&self) -> Option<AtomicWriteUnit> {
        self.0.atomic
    }

    pub(crate) fn open(&self, path: &Path, flags: OpenFlags) -> io::Result<SimulatedHandle> {
        SimulatedHandle::open(&self.0, &name_of(path), flags)
    }

    /// To be driven by the calling thread.
    pub(crate) fn backend(&self, capacity: u32) -> SimulatedBackend {
        SimulatedBackend::new(Arc::clone(&self.0), capacity)
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDisk")
            .field("name", &self.0.info.name)
            .field("names", &self.names())
            .finish_non_exhaustive()
    }
}

fn name_of(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
