//! The requests of one process, or those of a priority that nobody waits for.

use super::super::deadline::remove_from;
use super::super::history::History;
use super::super::positions::Positions;
use super::{CfqParameters, Queued};
use std::collections::VecDeque;

/// Samples without which nothing is concluded about a process.
const SAMPLES_MIN: u32 = 3;

/// Whose queue it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    Process { process: u32, priority: u8 },
    Async { priority: u8 },
}

impl Owner {
    pub fn of(request: &Queued, priority: u8) -> Owner {
        if request.sync {
            Owner::Process {
                process: request.process,
                priority,
            }
        } else {
            Owner::Async { priority }
        }
    }

    pub fn is_sync(self) -> bool {
        matches!(self, Owner::Process { .. })
    }

    pub fn priority(self) -> u8 {
        match self {
            Owner::Process { priority, .. } | Owner::Async { priority } => priority,
        }
    }

    pub fn process(self) -> Option<u32> {
        match self {
            Owner::Process { process, .. } => Some(process),
            Owner::Async { .. } => None,
        }
    }
}

pub struct Queue {
    pub owner: Owner,
    pub positions: Positions,
    pub fifo: VecDeque<u32>,
    pub in_drive: u32,
    /// When it is served: the least goes first.
    pub turn: (u64, u64),
    /// Whether the disk is kept idle for it.
    pub idles: bool,
    history: History,
}

impl Queue {
    pub fn new(owner: Owner) -> Queue {
        Queue {
            owner,
            positions: Positions::default(),
            fifo: VecDeque::new(),
            in_drive: 0,
            turn: (0, 0),
            // A process of which nothing is known gets the benefit of the doubt.
            idles: owner.is_sync(),
            history: History::default(),
        }
    }

    pub fn add(
        &mut self,
        now_ns: u64,
        tag: u32,
        request: &Queued,
        drive_queues: bool,
        parameters: &CfqParameters,
    ) {
        self.positions.insert(request.start, tag);
        self.fifo.push_back(tag);
        // Longer pauses count as twice what the disk would wait.
        let think_max_ns = 2 * parameters.slice_idle_ns();
        self.history
            .submitted(now_ns, request.start, request.end, think_max_ns);
        if self.owner.is_sync() {
            self.update_idles(drive_queues, parameters);
        }
    }

    fn update_idles(&mut self, drive_queues: bool, parameters: &CfqParameters) {
        if parameters.slice_idle_ms == 0 || (drive_queues && self.is_seeky(parameters)) {
            self.idles = false;
        } else if let Some(think_ns) = self.history.think_ns.get(SAMPLES_MIN) {
            self.idles = think_ns <= parameters.slice_idle_ns();
        }
    }

    pub fn is_seeky(&self, parameters: &CfqParameters) -> bool {
        let seek_bytes = self.history.seek_bytes.get(SAMPLES_MIN);
        seek_bytes.is_some_and(|bytes| bytes > parameters.seeky_bytes)
    }

    pub fn dispatch(&mut self, tag: u32, request: &Queued) {
        self.positions.remove(request.start, tag);
        remove_from(&mut self.fifo, tag);
        self.in_drive += 1;
    }

    pub fn finish(&mut self, now_ns: u64) {
        self.in_drive -= 1;
        self.history.finished(now_ns);
    }
}
