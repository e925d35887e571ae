//! Tablespaces: files of pages, and which segment has which of them.
//!
//! | file | subject |
//! |---|---|
//! | `layout` | the bytes of a tablespace's own pages |
//! | `map` | which pages are free, in memory |
//! | `grow` | taking pages, making files longer |
//! | `segments` | making and dropping segments |
//! | `files` | making, opening and dropping tablespaces |

mod files;
mod grow;
pub(crate) mod layout;
mod map;
mod segments;

pub(crate) use files::{
    SYSTEM_NAME, SYSTEM_SPACE, create_file, find_files, new_header, space_file, sync_directory,
};
pub use grow::SpaceStatistics;

use map::SpaceMap;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// One open tablespace.
pub(crate) struct Space {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) map: Mutex<SpaceMap>,
    /// Held while the file grows or segments come and go. Its holder waits for
    /// I/O; nobody waits for it while holding a latch.
    growth: Mutex<()>,
}

impl Space {
    fn new(id: u32, name: String, path: PathBuf, map: SpaceMap) -> Space {
        Space {
            id,
            name,
            path,
            map: Mutex::new(map),
            growth: Mutex::new(()),
        }
    }
}

/// A tablespace whose own pages are damaged.
#[derive(Clone, Debug)]
pub struct Unusable {
    pub(crate) space: u32,
    path: PathBuf,
    /// What is wrong.
    pub(crate) reason: String,
    /// Is its file known to be this store's?
    pub(crate) is_own: bool,
}

/// All open tablespaces.
#[derive(Default)]
pub(crate) struct Spaces {
    all: RwLock<HashMap<u32, Arc<Space>>>,
    /// Those that could not be opened.
    pub(crate) unusable: Mutex<BTreeMap<u32, Unusable>>,
    /// Held while tablespaces come and go.
    making: Mutex<()>,
}

impl Spaces {
    pub(crate) fn get(&self, id: u32) -> Option<Arc<Space>> {
        self.all.read().get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Space>> {
        self.all.read().values().cloned().collect()
    }

    fn add(&self, space: Space) {
        self.all.write().insert(space.id, Arc::new(space));
    }

    fn remove(&self, id: u32) -> Option<Arc<Space>> {
        self.all.write().remove(&id)
    }
}
