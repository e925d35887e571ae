//! Which files of tablespaces are open.
//!
//! There may be far more tablespaces than a process can have descriptors, so a
//! file is opened when its pages are needed, and the one that was not used for
//! the longest time is closed for it. Whoever works with a file keeps it open:
//! from the first write of a batch to its sync, nothing is lost by closing.

use crate::error::StoreError;
use crate::ledger::{FileClass, tag};
use crate::policy::Role;
use crate::space::Owner;
use iolane::{Engine, File, OpenOptions};
use parking_lot::RwLock;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What open(2) says when the process, or the system, has too many.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// Why a tablespace cannot be used, though its file is there.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    pub(crate) reason: String,
    /// [`Owner::Store`] if its first page says so, [`Owner::Unknown`] if only its
    /// second says its number.
    pub(crate) owner: Owner,
}

/// A tablespace, open or not.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) path: Arc<Path>,
    pub(crate) name: Arc<str>,
    /// What its first pages said when they were looked at.
    judged: Option<Option<Damage>>,
}

struct Opened {
    file: File,
    /// When it was used last, in openings of any file.
    used: AtomicU64,
}

#[derive(Default)]
struct State {
    known: HashMap<u32, Known>,
    open: HashMap<u32, Opened>,
    /// Not closed, as it could not be opened again: the one that is being dropped.
    dropping: Option<u32>,
}

impl State {
    /// Which of them stay open in any case: `kept`, and one that is being dropped.
    fn stays(&self, kept: u32) -> impl Fn(u32) -> bool + use<> {
        let dropping = self.dropping;
        move |space| space == kept || Some(space) == dropping
    }
}

/// The files of all tablespaces.
pub(crate) struct OpenFiles {
    engine: Arc<Engine>,
    direct: bool,
    /// Open ones at most, but for those that somebody works with.
    open_max: usize,
    /// Never closed: the first that there was.
    kept: u32,
    state: RwLock<State>,
    /// Counts openings.
    clock: AtomicU64,
}

/// How a tablespace is opened.
pub(crate) fn open_options(direct: bool) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).direct(direct);
    options
}

impl OpenFiles {
    /// None yet. That of `kept` will stay open.
    pub(crate) fn new(engine: Arc<Engine>, direct: bool, open_max: usize, kept: u32) -> OpenFiles {
        OpenFiles {
            engine,
            direct,
            open_max,
            kept,
            state: RwLock::default(),
            clock: AtomicU64::new(0),
        }
    }

    /// There is such a tablespace.
    pub(crate) fn know(&self, space: u32, name: &str, path: &Path) {
        let known = Known {
            path: path.into(),
            name: name.into(),
            judged: None,
        };
        self.state.write().known.insert(space, known);
    }

    /// There is one whose file was just made.
    pub(crate) fn add(&self, space: u32, name: &str, file: File) {
        self.know(space, name, file.path());
        self.put(space, tagged(file), Some(None));
    }

    /// There is none any more.
    pub(crate) fn remove(&self, space: u32) {
        let mut state = self.state.write();
        state.known.remove(&space);
        let closed = state.open.remove(&space);
        state.dropping.take_if(|it| *it == space);
        // Closing a large file that has no name any more takes a while: readers of
        // others do not wait for it.
        drop(state);
        drop(closed);
    }

    /// Its file's name is about to go: from now on an open one stays open until it
    /// is [removed](Self::remove), or until `None`. One at a time.
    pub(crate) fn set_dropping(&self, space: Option<u32>) {
        self.state.write().dropping = space;
    }

    pub(crate) fn known(&self, space: u32) -> Option<Known> {
        self.state.read().known.get(&space).cloned()
    }

    pub(crate) fn has(&self, space: u32) -> bool {
        self.state.read().known.contains_key(&space)
    }

    /// The numbers of all.
    pub(crate) fn spaces(&self) -> BTreeSet<u32> {
        self.state.read().known.keys().copied().collect()
    }

    /// Has one of them this name?
    pub(crate) fn is_taken(&self, name: &str) -> bool {
        let state = self.state.read();
        state.known.values().any(|known| &*known.name == name)
    }

    /// Any of them.
    pub(crate) fn any(&self) -> Option<File> {
        let state = self.state.read();
        state.open.values().next().map(|open| open.file.clone())
    }

    /// A tablespace's file if it is open.
    pub(crate) fn opened(&self, space: u32) -> Option<File> {
        let state = self.state.read();
        let open = state.open.get(&space)?;
        let now = self.clock.load(Ordering::Relaxed);
        // Mostly so: threads do not write to the same memory then.
        if open.used.load(Ordering::Relaxed) != now {
            open.used.store(now, Ordering::Relaxed);
        }
        Some(open.file.clone())
    }

    /// A tablespace's file, opened if need be; `judge` looks at one that was not
    /// opened before. `None`: there is no such tablespace.
    ///
    /// # Errors
    /// The system's, and those of `judge`.
    pub(crate) fn get(
        &self,
        space: u32,
        judge: impl FnOnce(&File, &Known) -> Result<Option<Damage>, StoreError>,
    ) -> Result<Option<File>, StoreError> {
        if let Some(file) = self.opened(space) {
            return Ok(Some(file));
        }
        let Some(known) = self.known(space) else {
            return Ok(None);
        };
        let file = match self.open(&known.path) {
            Ok(file) => tagged(file),
            // It lost its name between the look and this: it is open until it is gone.
            Err(error) => match self.opened(space) {
                None if self.has(space) => return Err(error),
                dropping => return Ok(dropping),
            },
        };
        let judged = match &known.judged {
            Some(_) => None,
            None => Some(judge(&file, &known)?),
        };
        Ok(self.put(space, file, judged))
    }

    /// What the first pages of a file said that was opened before.
    pub(crate) fn damage(&self, space: u32) -> Option<Damage> {
        let state = self.state.read();
        state.known.get(&space)?.judged.clone().flatten()
    }

    fn open(&self, path: &Path) -> Result<File, StoreError> {
        let options = open_options(self.direct);
        match self.engine.open(path, &options) {
            Err(error) if is_out_of_descriptors(&error) => {
                // Others have the rest of them.
                let mut state = self.state.write();
                let stays = state.stays(self.kept);
                let closed: Vec<_> = state.open.extract_if(|&it, _| !stays(it)).collect();
                drop(state);
                drop(closed);
                Ok(self.engine.open(path, &options)?)
            }
            opened => Ok(opened?),
        }
    }

    /// Notes a file that was opened, unless another thread was quicker; `None` if
    /// the tablespace was dropped meanwhile.
    fn put(&self, space: u32, file: File, judged: Option<Option<Damage>>) -> Option<File> {
        let mut state = self.state.write();
        let known = state.known.get_mut(&space)?;
        if let Some(judged) = judged {
            known.judged = Some(judged);
        }
        let now = 1 + self.clock.fetch_add(1, Ordering::Relaxed);
        let used = AtomicU64::new(now);
        let opened = Opened { file, used };
        let file = state.open.entry(space).or_insert(opened).file.clone();
        let mut closed = Vec::new();
        while state.open.len() > self.open_max.max(2) {
            let stays = state.stays(self.kept);
            let others = state.open.iter();
            let others = others.filter(|&(&it, _)| it != space && !stays(it));
            let oldest = others.min_by_key(|(_, open)| open.used.load(Ordering::Relaxed));
            let Some((&oldest, _)) = oldest else { break };
            closed.extend(state.open.remove(&oldest));
        }
        drop(state);
        Some(file)
    }
}

fn tagged(file: File) -> File {
    file.tagged(tag(Role::Space, FileClass::Data))
}

fn is_out_of_descriptors(error: &iolane::OpenError) -> bool {
    let iolane::OpenError::Open { source, .. } = error else {
        return false;
    };
    matches!(source.raw_os_error(), Some(EMFILE | ENFILE))
}
