//! The one unsafe call: opening an LMDB environment.

use heed::{Env, EnvFlags, EnvOpenOptions};
use std::path::Path;

/// Opens an environment in a directory of this run.
///
/// # Errors
/// What LMDB says.
pub fn open_lmdb(path: &Path, map_bytes: usize, durable: bool) -> heed::Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(map_bytes).max_dbs(2).max_readers(256);
    let mut flags = EnvFlags::NO_READ_AHEAD;
    if !durable {
        flags |= EnvFlags::NO_SYNC;
    }
    // SAFETY: without syncs a crash may destroy the environment, which is
    // removed after a crash anyway; locks stay on.
    unsafe { options.flags(flags) };
    // SAFETY: the files lie in a directory that this run has made for itself
    // and whose name carries its process: nobody else changes them while they
    // are mapped.
    unsafe { options.open(path) }
}
