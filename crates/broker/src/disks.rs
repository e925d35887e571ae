//! One disk: its scheduler, and which cell each of its requests is in.

use crate::course::{Course, Sample};
use crate::statistics::Ended;
use iolane_protocol::{Asked, GATE_ALL, GATE_NONE, GATE_URGENT, KIND_READ, KIND_SYNC};
use iolane_sched::{
    Batch, Config, EnqueueError, Kind, Level, Objective, Policy, Request, RequestId, Scheduler,
    WindowState,
};

/// A disk with a scheduler.
pub struct Disk {
    pub name: String,
    course: Course,
    /// Entry of the device whose gate counts.
    pub leader: usize,
    scheduler: Scheduler,
    /// By [`RequestId::slot`].
    cells: Vec<usize>,
    batch: Batch,
    /// The latest time that the scheduler was told: it must not go back.
    now_ns: u64,
}

/// What a request becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It waits.
    Queued(RequestId),
    /// It goes at once: as many of its level wait as may.
    Crowded(RequestId),
    /// It goes without the scheduler's account: the kernel has to refuse its range.
    Loose,
}

impl Disk {
    /// `at_ns`: since the start of the run.
    pub fn new(name: String, leader: usize, objective: Option<Objective>, at_ns: u64) -> Disk {
        let mut config = Config::new(Policy::Lanes);
        config.objective = objective.unwrap_or_default();
        // Each process does its own system call: nothing is merged.
        config.transfer_members_max = 1;
        Disk {
            name,
            course: Course::new(at_ns),
            leader,
            scheduler: Scheduler::new(config).expect("the defaults are valid"),
            cells: Vec::new(),
            batch: Batch::default(),
            now_ns: 0,
        }
    }

    /// A request went unasked at `then_ns`: it counts whether there was room for it or not.
    /// `None`: the kernel has to refuse its range.
    pub fn started(&mut self, cell: usize, asked: &Asked, then_ns: u64) -> Option<RequestId> {
        let now_ns = self.advance(then_ns);
        let id = self.scheduler.note_started(now_ns, request(asked)).ok()?;
        self.remember(id, cell);
        Some(id)
    }

    /// A request asks for leave.
    pub fn ask(&mut self, cell: usize, asked: &Asked, then_ns: u64) -> Taken {
        let now_ns = self.advance(then_ns);
        match self.scheduler.enqueue(now_ns, request(asked)) {
            Ok(id) => {
                self.remember(id, cell);
                Taken::Queued(id)
            }
            Err(EnqueueError::GroupFull { .. }) => match self.started(cell, asked, now_ns) {
                Some(id) => Taken::Crowded(id),
                None => Taken::Loose,
            },
            Err(_) => Taken::Loose,
        }
    }

    /// A request has ended.
    pub fn ended(&mut self, id: RequestId, then_ns: u64, ok: bool) {
        let now_ns = self.advance(then_ns);
        self.scheduler.complete(now_ns, id, ok);
    }

    /// A request that waited is not wanted any more.
    pub fn withdraw(&mut self, id: RequestId) {
        self.scheduler.cancel(id);
    }

    /// Somebody of this level waits for a request that waits.
    pub fn promote(&mut self, id: RequestId, level: u8) {
        if let Some(level) = Level::from_index(usize::from(level)) {
            self.scheduler.promote(id, level);
        }
    }

    /// Gives what may go now to `grant`, by its cell.
    pub fn dispatch(&mut self, now_ns: u64, mut grant: impl FnMut(usize, RequestId)) {
        let now_ns = self.advance(now_ns);
        self.batch.clear();
        self.scheduler.dispatch(now_ns, &mut self.batch);
        for transfer in &self.batch.transfers {
            grant(self.cells[transfer.id.slot()], transfer.id);
        }
    }

    fn remember(&mut self, id: RequestId, cell: usize) {
        if self.cells.len() <= id.slot() {
            self.cells.resize(id.slot() + 1, usize::MAX);
        }
        self.cells[id.slot()] = cell;
    }

    fn advance(&mut self, now_ns: u64) -> u64 {
        self.now_ns = self.now_ns.max(now_ns);
        self.now_ns
    }

    /// Levels that may start unasked.
    pub fn gate(&self) -> u32 {
        let queued = self.scheduler.snapshot().queued;
        let urgent: u32 = queued[..GATE_URGENT as usize].iter().sum();
        if urgent > 0 || !self.scheduler.has_room(Level::Foreground) {
            GATE_NONE
        } else if self.scheduler.has_queued() || !self.scheduler.has_room(Level::Background) {
            GATE_URGENT
        } else {
            GATE_ALL
        }
    }

    pub fn has_queued(&self) -> bool {
        self.scheduler.has_queued()
    }

    pub fn next_timer(&self) -> Option<u64> {
        self.scheduler.next_timer()
    }

    /// A request that was recorded for the report has ended.
    pub fn record(&mut self, level: u8, ended: &Ended) {
        self.course.record(level, ended);
    }

    /// Takes a sample if it is time for one.
    pub fn note(&mut self, at_ns: u64) {
        if self.course.is_due(at_ns) {
            self.course.advance(at_ns, &self.window());
        }
    }

    /// The whole run in samples.
    pub fn samples(&self, at_ns: u64) -> Vec<Sample> {
        self.course.samples(at_ns, &self.window())
    }

    pub fn window(&self) -> WindowState {
        self.scheduler.snapshot().window
    }
}

fn request(asked: &Asked) -> Request {
    let kind = match asked.kind {
        KIND_READ => Kind::Read,
        KIND_SYNC => Kind::Sync,
        _ => Kind::Write,
    };
    let is_sync = kind == Kind::Sync;
    Request {
        kind,
        file: asked.file,
        offset: if is_sync { 0 } else { asked.offset },
        length: if is_sync { 0 } else { asked.length },
        level: Level::from_index(usize::from(asked.level)).unwrap_or(Level::Background),
        durable: asked.durable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_protocol::UNRULED;

    fn asked(offset: u64, level: Level) -> Asked {
        Asked {
            device: 0,
            kind: KIND_READ,
            level: level as u8,
            ruled_level: level as u8,
            rule: UNRULED,
            durable: false,
            asynchronous: false,
            file: 0,
            length: 4096,
            offset,
            asked_ns: 0,
        }
    }

    #[test]
    fn what_starts_unasked_closes_the_gate_when_the_device_is_full_and_opens_it_when_it_ends() {
        let mut disk = Disk::new("disk".to_owned(), 0, None, 0);
        assert_eq!(disk.gate(), GATE_ALL);
        let mut started = Vec::new();
        let mut go = |disk: &mut Disk, level| {
            let cell = started.len();
            let asked = asked(4096 * cell as u64, level);
            started.push(disk.started(cell, &asked, 1).expect("its range is valid"));
        };
        while disk.gate() == GATE_ALL {
            go(&mut disk, Level::Background);
        }
        assert_eq!(disk.gate(), GATE_URGENT);
        while disk.gate() == GATE_URGENT {
            go(&mut disk, Level::Foreground);
        }
        assert_eq!(disk.gate(), GATE_NONE);
        go(&mut disk, Level::Foreground);
        for id in started {
            disk.ended(id, 2, true);
        }
        assert_eq!(disk.gate(), GATE_ALL);
    }
}
