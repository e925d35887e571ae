//! Tests of the device layer over a backend that holds and fails operations
//! as told. Tests over the real backends are in the crate's `tests/` folder.

mod errors;
mod faulty;
mod queueing;
mod tags;

use crate::{Deadline, Engine, File, OpenOptions, Policy, WindowConfig};
use faulty::Control;
use std::sync::Arc;
use tempfile::TempDir;

/// An engine on a faulty backend, with one buffered file of 1 MiB of which
/// each 4 KiB block is filled with its number.
struct Rig {
    control: Arc<Control>,
    // Before the folder: it closes its files first.
    file: File,
    engine: Engine,
    folder: TempDir,
}

const BLOCK: usize = 4096;
const BLOCKS: usize = 256;

impl Rig {
    /// With room for `window` transfers in flight and `queued_max` queued
    /// requests per level, first in, first out. No deadline passes, however long
    /// the machine stalls: what is past it goes before what is more urgent.
    fn new(window: u32, queued_max: u32) -> Rig {
        let control = Arc::new(Control::default());
        let engine = Engine::builder()
            .policy(Policy::Noop)
            .open_backend(faulty::opener(&control))
            .configure(move |_, config| {
                config.window = WindowConfig::Fixed(window);
                for level in &mut config.levels {
                    level.queued_max = queued_max;
                    level.deadline = Deadline::Fixed(3_600_000_000_000);
                }
            })
            .build()
            .unwrap();
        let folder = TempDir::new_in("/var/tmp").unwrap();
        let path = folder.path().join("data");
        let contents: Vec<u8> = (0..BLOCKS).flat_map(|block| [block as u8; BLOCK]).collect();
        std::fs::write(&path, contents).unwrap();
        let file = engine
            .open(&path, OpenOptions::new().read(true).write(true))
            .unwrap();
        Rig {
            control,
            file,
            engine,
            folder,
        }
    }

    fn again(&self, options: &OpenOptions) -> File {
        self.engine.open(self.file.path(), options).unwrap()
    }
}

fn at(block: usize) -> u64 {
    (block * BLOCK) as u64
}
