//! Tablespaces: files of pages, and which segment has which of them.
//!
//! | file | subject |
//! |---|---|
//! | `layout` | the bytes of a tablespace's own pages |
//! | `map` | which pages are free, in memory |
//! | `grow` | taking pages, making files longer |
//! | `segments` | making and dropping segments |
//! | `files` | making and dropping tablespaces |
//! | `find` | which there are, and whether a file is what it should be |
//! | `maps` | which of them have their maps in memory |

mod files;
mod find;
mod grow;
pub(crate) mod layout;
mod map;
mod maps;
mod segments;

pub(crate) use files::{SYSTEM_NAME, SYSTEM_SPACE, create_file, new_header, sync_directory};
pub(crate) use find::{Finder, Judge, is_not_its, space_file};
pub use grow::SpaceStatistics;
pub use maps::SpaceState;

use map::SpaceMap;
use maps::Loaded;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// A tablespace whose map is in memory.
pub(crate) struct Space {
    pub(crate) id: u32,
    pub(crate) name: Arc<str>,
    pub(crate) path: Arc<Path>,
    pub(crate) map: Mutex<SpaceMap>,
    /// Held while the file grows or segments come and go. Its holder waits for
    /// I/O; nobody waits for it while holding a latch.
    growth: Mutex<()>,
}

impl Space {
    fn new(id: u32, name: Arc<str>, path: Arc<Path>, map: SpaceMap) -> Space {
        Space {
            id,
            name,
            path,
            map: Mutex::new(map),
            growth: Mutex::new(()),
        }
    }
}

/// Whose a file is that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// This store's: its first page says so.
    Store,
    /// Nobody knows.
    Unknown,
    /// Another store's, or a newer program's: it is not to be removed.
    Other,
}

/// A tablespace that cannot be used.
#[derive(Clone, Debug)]
pub struct Unusable {
    pub(crate) space: u32,
    /// What is wrong.
    pub(crate) reason: String,
    pub(crate) owner: Owner,
}

/// All tablespaces.
#[derive(Default)]
pub(crate) struct Spaces {
    maps: RwLock<HashMap<u32, Loaded>>,
    /// Counts the maps that were made.
    clock: AtomicU64,
    /// Those whose maps are being made, and who waits for one.
    loading: Mutex<HashSet<u32>>,
    loaded: Condvar,
    /// Those that were looked at and cannot be used.
    pub(crate) unusable: Mutex<BTreeMap<u32, Unusable>>,
    /// The system's tablespace was seen to be.
    is_of_present_format: AtomicBool,
    /// Held while tablespaces come and go.
    making: Mutex<()>,
}
