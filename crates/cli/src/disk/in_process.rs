//! A modelled disk in the memory of this process: it needs no root, no mount and no disk.
//!
//! The engine's simulated disk carries requests out; what is timed is the model's time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use iolane::SimulatedDisk;
use iolane_disk::{Command, Done, Model};
use iolane_store::{Names, SimulatedNames};

use super::describe;
use crate::args::disk::ModelArgs;
use crate::error::Failure;

/// What it holds is gone when it is dropped.
#[derive(Clone)]
pub struct InProcess {
    disk: SimulatedDisk,
    is_timed: Arc<AtomicBool>,
}

impl InProcess {
    /// Takes no time until [`take_time`](Self::take_time), so that it can be filled.
    ///
    /// # Errors
    /// A disk that does not exist, or a system without threads.
    pub fn make(model: &ModelArgs) -> Result<Self, Failure> {
        let description = describe::find(&model.model)?;
        let is_timed = Arc::new(AtomicBool::new(false));
        let timed = Timed {
            model: describe::build(&description, model)?,
            is_timed: Arc::clone(&is_timed),
            at_once: VecDeque::new(),
        };
        let disk = SimulatedDisk::builder().model(Box::new(timed)).build();
        let disk = disk.map_err(|error| {
            Failure::setup(
                format!("no modelled disk: {error}"),
                "Raise the limits on threads and memory (ulimit -u, -v).",
            )
        })?;
        Ok(Self { disk, is_timed })
    }

    /// From here on requests take the model's time.
    pub fn take_time(&self) {
        self.is_timed.store(true, Ordering::Relaxed);
    }

    pub fn disk(&self) -> &SimulatedDisk {
        &self.disk
    }

    /// For a store on it.
    pub fn names(&self) -> Arc<dyn Names> {
        Arc::new(SimulatedNames::new(&self.disk))
    }
}

/// A model that can be left out.
struct Timed {
    model: Box<dyn Model>,
    is_timed: Arc<AtomicBool>,
    /// Commands that came while it was left out.
    at_once: VecDeque<Done>,
}

impl Model for Timed {
    fn capacity_bytes(&self) -> u64 {
        self.model.capacity_bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.model.block_bytes()
    }

    fn queue_max(&self) -> usize {
        self.model.queue_max()
    }

    fn rotating(&self) -> bool {
        self.model.rotating()
    }

    fn submit(&mut self, now_ns: u64, command: Command) {
        if self.is_timed.load(Ordering::Relaxed) {
            self.model.submit(now_ns, command);
        } else {
            self.at_once.push_back(Done {
                tag: command.tag,
                at_ns: now_ns,
            });
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        let at_once = self.at_once.front().map(|done| done.at_ns);
        at_once.into_iter().chain(self.model.next_event_ns()).min()
    }

    fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        done.extend(self.at_once.drain(..));
        self.model.advance(now_ns, done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane::{Engine, Level, OpenOptions};
    use std::path::Path;
    use std::time::{Duration, Instant};

    /// By `aws-gp3`, which answers after 0.6 ms as a rule.
    const READS: u32 = 20;
    const LEAST: Duration = Duration::from_millis(3);

    #[test]
    fn it_is_filled_in_no_time_and_then_takes_that_of_its_model() {
        let volume = InProcess::make(&ModelArgs {
            model: "aws-gp3".to_owned(),
            seed: 1,
        })
        .unwrap();
        let engine = Engine::builder().simulated(volume.disk()).build().unwrap();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        let file = engine.open("a/b", &options).unwrap();
        file.write_at(&[7; 4096], 0, Level::Normal).unwrap();
        volume.take_time();
        let begin = Instant::now();
        let mut page = [0; 4096];
        for _ in 0..READS {
            file.read_at(&mut page, 0, Level::Normal).unwrap();
        }
        assert_eq!(page, [7; 4096]);
        assert!(begin.elapsed() > LEAST, "{:?}", begin.elapsed());
        assert!(volume.names().exists(Path::new("a/b")));
    }
}
