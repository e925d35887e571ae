//! Remembers everything that was written to files, and what was promised.

use super::cow::{CowMedium, Pages};
use crate::medium::Medium;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

/// How much a [`Recorder`] keeps. What happens after that is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderLimits {
    /// Bytes of written data.
    pub bytes_max: u64,
    /// Writes, syncs, their ends, and everything else.
    pub events_max: usize,
}

impl Default for RecorderLimits {
    fn default() -> RecorderLimits {
        RecorderLimits {
            bytes_max: 1 << 30,
            events_max: 4 << 20,
        }
    }
}

/// What a disk promises of the writes of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promise {
    /// They are durable when it ends (forced unit access).
    pub durable: bool,
    /// Each arrives whole or not at all.
    pub whole: bool,
}

/// One thing that happened.
#[derive(Clone)]
pub(crate) enum Event {
    /// The file has this name from now on, alone; `None`: it is removed.
    /// `durable`: so is every name that was given before.
    Name {
        file: u32,
        name: Option<Arc<str>>,
        durable: bool,
    },
    /// All names are durable as they are.
    SyncNames,
    /// A write was handed to the disk.
    Write {
        file: u32,
        operation: u32,
        promise: Promise,
        offset: u64,
        data: Arc<[u8]>,
    },
    /// The end of the file was moved.
    Resize { file: u32, size_bytes: u64 },
    /// A sync was handed to the disk, which is going to acknowledge it.
    Sync { file: u32, operation: u32 },
    /// The disk acknowledged an operation.
    End { operation: u32 },
    /// The caller's note.
    Mark { value: u64 },
}

/// Records the writes and syncs of several files in one order.
///
/// Cheap to clone; all clones are one recorder. Files are
/// [`CowMedium`]s, which [`file`](Recorder::file) wraps.
///
/// ```
/// use iolane_disk::Medium;
/// use iolane_disk::power::{CowMedium, CrashPlan, Images, Recorder, RecorderLimits};
/// use std::sync::Arc;
///
/// let recorder = Recorder::new(RecorderLimits::default());
/// let log = recorder.file("log", Arc::new(CowMedium::new()));
/// log.write(0, b"one")?;
/// log.sync()?;
/// recorder.mark(1); // the caller was told that "one" is safe
/// log.write(3, b"two")?;
///
/// let images = Images::new(&recorder.recording(), CrashPlan::exhaustive())?;
/// for image in images.iter() {
///     // A file that does not exist yet at this power cut is None.
///     let size = image.open("log").map_or(0, |log| log.size_bytes());
///     assert!(image.mark().is_none() || size >= 3, "{image}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    limits: RecorderLimits,
    journal: Mutex<Journal>,
}

#[derive(Default)]
struct Journal {
    /// What each file held when it was handed over.
    starts: Vec<Arc<Pages>>,
    events: Vec<Event>,
    bytes: u64,
    operations: u32,
    /// Operations that threads are inside of [`Recorder::begin`] for.
    current: Vec<(ThreadId, u32, Promise)>,
    /// A limit was reached.
    cut_off: bool,
}

/// An operation that was handed to the disk and not acknowledged.
#[derive(Debug)]
#[must_use = "an operation that is never ended stays in flight for ever"]
pub struct Begun(u32);

impl Recorder {
    /// Nothing is recorded yet.
    pub fn new(limits: RecorderLimits) -> Recorder {
        Recorder(Arc::new(Shared {
            limits,
            journal: Mutex::default(),
        }))
    }

    /// Records `contents` as a file of this name, which exists from now on and
    /// whose present contents are durable, as are all names by then. A file
    /// that has the name loses it.
    pub fn file(&self, name: &str, contents: Arc<CowMedium>) -> RecordedFile {
        self.add(name, contents, true)
    }

    /// The same for a file that is made now, as by `open(2)` with `O_CREAT`: its
    /// name is durable when [`sync_names`](Self::sync_names) has made it so.
    pub fn create(&self, name: &str, contents: Arc<CowMedium>) -> RecordedFile {
        self.add(name, contents, false)
    }

    fn add(&self, name: &str, contents: Arc<CowMedium>, durable: bool) -> RecordedFile {
        let mut journal = self.lock();
        let file = journal.starts.len() as u32;
        journal.starts.push(contents.snapshot());
        self.0.name(&mut journal, file, Some(name), durable);
        RecordedFile {
            shared: Arc::clone(&self.0),
            file,
            contents,
        }
    }

    /// The file has another name from now on, in one step, as by `rename(2)`.
    pub fn rename(&self, file: &RecordedFile, name: &str) {
        self.0.name(&mut self.lock(), file.file, Some(name), false);
    }

    /// The file has no name any more, as by `unlink(2)`.
    pub fn remove(&self, file: &RecordedFile) {
        self.0.name(&mut self.lock(), file.file, None, false);
    }

    /// Makes all names durable as they are, as `fsync(2)` of every directory.
    pub fn sync_names(&self) {
        self.0.push(&mut self.lock(), 0, Event::SyncNames);
    }

    /// For a host that has many operations in flight: what `work` writes and
    /// syncs on this thread is recorded as handed to the disk, and as
    /// acknowledged only by [`end`](Recorder::end). `durable`: the writes are
    /// durable then (forced unit access).
    pub fn begin<R>(&self, durable: bool, work: impl FnOnce() -> R) -> (R, Begun) {
        let whole = false;
        self.begin_as(Promise { durable, whole }, work)
    }

    /// The same, for a disk that promises more.
    pub fn begin_as<R>(&self, promise: Promise, work: impl FnOnce() -> R) -> (R, Begun) {
        let thread = thread::current().id();
        let operation = {
            let mut journal = self.lock();
            let operation = journal.next_operation();
            journal.current.push((thread, operation, promise));
            operation
        };
        let result = work();
        let ours = |(other, number, _): &(ThreadId, u32, Promise)| {
            (*other, *number) == (thread, operation)
        };
        let mut journal = self.lock();
        if let Some(at) = journal.current.iter().position(ours) {
            journal.current.swap_remove(at);
        }
        (result, Begun(operation))
    }

    /// The disk has acknowledged the operation.
    pub fn end(&self, begun: Begun) {
        let operation = begun.0;
        self.0.push(&mut self.lock(), 0, Event::End { operation });
    }

    /// Notes that `value` was promised to somebody: images of power cuts after
    /// this moment give it back ([`Image::mark`](super::Image::mark)).
    pub fn mark(&self, value: u64) {
        self.0.push(&mut self.lock(), 0, Event::Mark { value });
    }

    /// Everything so far.
    pub fn recording(&self) -> Recording {
        let journal = self.lock();
        Recording {
            starts: journal.starts.as_slice().into(),
            events: journal.events.as_slice().into(),
            complete: !journal.cut_off,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Journal> {
        self.0.lock()
    }
}

impl Journal {
    fn next_operation(&mut self) -> u32 {
        self.operations += 1;
        self.operations
    }

    /// The operation that this thread is inside of, with what is promised of
    /// it; otherwise a new one, to be ended at once.
    fn operation(&mut self) -> (u32, Promise, bool) {
        let thread = thread::current().id();
        let inside = self.current.iter().find(|(other, ..)| *other == thread);
        match inside.copied() {
            Some((_, operation, promise)) => (operation, promise, false),
            None => (self.next_operation(), Promise::default(), true),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, journal: &mut Journal, file: u32, name: Option<&str>, durable: bool) {
        let event = Event::Name {
            file,
            name: name.map(Arc::from),
            durable,
        };
        self.push(journal, 0, event);
    }

    fn push(&self, journal: &mut Journal, bytes: u64, event: Event) {
        journal.cut_off |= journal.bytes + bytes > self.limits.bytes_max
            || journal.events.len() >= self.limits.events_max;
        if !journal.cut_off {
            journal.bytes += bytes;
            journal.events.push(event);
        }
    }
}

/// A file of a [`Recorder`].
pub struct RecordedFile {
    shared: Arc<Shared>,
    file: u32,
    contents: Arc<CowMedium>,
}

impl RecordedFile {
    /// Moves the end of the file, as `ftruncate(2)` does.
    pub fn resize(&self, size_bytes: u64) {
        let file = self.file;
        let mut journal = self.shared.lock();
        self.contents.resize(size_bytes);
        self.shared
            .push(&mut journal, 0, Event::Resize { file, size_bytes });
    }
}

impl Medium for RecordedFile {
    fn size_bytes(&self) -> u64 {
        self.contents.size_bytes()
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> io::Result<usize> {
        self.contents.read(offset, memory)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        // Under the journal's lock: both see writes in the same order.
        let mut journal = self.shared.lock();
        let bytes = self.contents.write(offset, data)?;
        let (operation, promise, ends) = journal.operation();
        let event = Event::Write {
            file: self.file,
            operation,
            promise,
            offset,
            data: data[..bytes].into(),
        };
        self.shared.push(&mut journal, bytes as u64, event);
        if ends {
            self.shared.push(&mut journal, 0, Event::End { operation });
        }
        Ok(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.contents.sync()?;
        let file = self.file;
        let mut journal = self.shared.lock();
        let (operation, _, ends) = journal.operation();
        self.shared
            .push(&mut journal, 0, Event::Sync { file, operation });
        if ends {
            self.shared.push(&mut journal, 0, Event::End { operation });
        }
        Ok(())
    }
}

/// What happened to the files of a [`Recorder`] until it was asked.
#[derive(Clone)]
pub struct Recording {
    pub(crate) starts: Arc<[Arc<Pages>]>,
    pub(crate) events: Arc<[Event]>,
    complete: bool,
}

impl Recording {
    /// How many things happened.
    pub fn events(&self) -> usize {
        self.events.len()
    }

    /// Whether everything is in it, or else only what happened until a limit
    /// of the recorder was reached.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}
