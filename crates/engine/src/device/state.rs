//! What the lock of a device protects: its scheduler, and beside it the table
//! of outstanding requests.

use super::Refused;
use super::flight::{Flight, Target};
use super::flights::Flights;
use crate::backend::OpCode;
use crate::completion::Completer;
use crate::error::{Cause, Error, Operation};
use crate::file::FileShared;
use crate::statistics::{DeviceStatistics, Done, Tag};
use crate::sys::span::Span;
use iolane_sched::{
    Batch, Config, ConfigError, EnqueueError, Kind, Level, Request, RequestId, Scheduler, Terms,
};
use std::sync::Arc;

/// One request in the table: everything that the driver needs.
pub(crate) struct Entry {
    pub file: Arc<FileShared>,
    pub operation: Operation,
    pub level: Level,
    pub span: Span,
    pub offset: u64,
    pub length: u32,
    pub submitted_ns: u64,
    pub dispatched_ns: u64,
    pub tag: Option<Tag>,
    /// A write that arrives whole or not at all.
    pub atomic: bool,
    /// Its own deadline, from its submission on.
    pub within_ns: Option<u64>,
    pub completer: Completer,
}

impl Entry {
    pub(crate) fn request(&self) -> Request {
        Request {
            kind: kind_of(self.operation),
            file: self.file.number,
            offset: self.offset,
            length: self.length,
            level: self.level,
            durable: self.operation == Operation::Write && self.file.data_sync,
        }
    }

    pub(crate) fn error(&self, cause: Cause) -> Error {
        self.file
            .error(self.operation, self.offset, u64::from(self.length), cause)
    }
}

pub(crate) const fn kind_of(operation: Operation) -> Kind {
    match operation {
        Operation::Read => Kind::Read,
        Operation::Write => Kind::Write,
        Operation::SyncData | Operation::SyncAll => Kind::Sync,
    }
}

const fn code_of(operation: Operation) -> OpCode {
    match operation {
        Operation::Read => OpCode::Read,
        Operation::Write => OpCode::Write,
        Operation::SyncData => OpCode::SyncData,
        Operation::SyncAll => OpCode::SyncAll,
    }
}

/// A request that left the table with its result.
pub(crate) type Finished = (Entry, Result<usize, Error>);

pub(crate) struct State {
    pub scheduler: Scheduler,
    /// By [`RequestId::slot`]. A request that its own thread carries to the
    /// device has no entry.
    entries: Vec<Option<Entry>>,
    entry_count: usize,
    /// Dispatched, and not yet taken by the driver; from `ready_next` on.
    ready: Batch,
    ready_next: usize,
    /// The driver blocks, or is about to, and takes nothing without a wake-up.
    pub driver_asleep: bool,
    /// When it wakes by itself.
    pub driver_timer_ns: Option<u64>,
    /// Threads that wait for room in the allocation group of a level.
    pub waiting_for_room: [u32; Level::COUNT],
    pub closing: bool,
    pub statistics: DeviceStatistics,
}

impl State {
    pub(crate) fn new(config: Config) -> Result<State, ConfigError> {
        Ok(State {
            scheduler: Scheduler::new(config)?,
            entries: Vec::new(),
            entry_count: 0,
            ready: Batch::default(),
            ready_next: 0,
            driver_asleep: false,
            driver_timer_ns: None,
            waiting_for_room: [0; Level::COUNT],
            closing: false,
            statistics: DeviceStatistics::default(),
        })
    }

    /// The fast path: in flight at once, on the caller's thread.
    pub(crate) fn start(
        &mut self,
        now_ns: u64,
        request: Request,
        tag: Option<Tag>,
    ) -> Option<RequestId> {
        let id = self.scheduler.start(now_ns, request)?;
        self.statistics.started(now_ns, tag);
        Some(id)
    }

    /// The end of what [`start`](State::start) began.
    pub(crate) fn finish_started(
        &mut self,
        now_ns: u64,
        id: RequestId,
        request: &Request,
        done: &Done,
    ) {
        self.scheduler.complete(now_ns, id, !done.failed);
        self.statistics
            .completed(now_ns, request.level, request.kind, done);
    }

    /// Queues a request.
    pub(crate) fn enqueue(
        &mut self,
        now_ns: u64,
        mut entry: Entry,
    ) -> Result<RequestId, Box<Refused>> {
        let request = entry.request();
        let terms = Terms {
            alone: entry.atomic,
            within_ns: entry.within_ns,
        };
        let id = match self.scheduler.enqueue_with(now_ns, request, terms) {
            Ok(id) => id,
            Err(error) => {
                let cause = match error {
                    EnqueueError::GroupFull { level, limit } => Cause::QueueFull { level, limit },
                    _ => Cause::BeyondEnd,
                };
                return Err(Box::new(Refused { entry, cause }));
            }
        };
        entry.submitted_ns = now_ns;
        self.statistics.enqueued(now_ns, entry.tag);
        if id.slot() >= self.entries.len() {
            self.entries
                .resize_with(self.scheduler.slots().max(id.slot() + 1), || None);
        }
        self.entries[id.slot()] = Some(entry);
        self.entry_count += 1;
        Ok(id)
    }

    /// Withdraws a queued request. Its entry is the caller's to drop, outside
    /// of the lock.
    pub(crate) fn cancel(&mut self, now_ns: u64, id: RequestId) -> Option<Entry> {
        if !self.scheduler.cancel(id) {
            return None;
        }
        let entry = self.remove(id)?;
        self.statistics.cancelled(now_ns, entry.tag);
        Some(entry)
    }

    pub(crate) fn promote(&mut self, id: RequestId, level: Level) -> bool {
        let promoted = self.scheduler.promote(id, level);
        if promoted && let Some(Some(entry)) = self.entries.get_mut(id.slot()) {
            entry.level = entry.level.min(level);
        }
        promoted
    }

    fn remove(&mut self, id: RequestId) -> Option<Entry> {
        let entry = self.entries.get_mut(id.slot())?.take();
        self.entry_count -= usize::from(entry.is_some());
        entry
    }

    /// Moves to `ready` what should go to the device now. Returns whether
    /// there is anything.
    pub(crate) fn dispatch(&mut self, now_ns: u64) -> bool {
        if self.scheduler.has_queued() {
            let first = self.ready.transfers.len();
            self.scheduler.dispatch(now_ns, &mut self.ready);
            for transfer in &self.ready.transfers[first..] {
                let members = self.ready.members_of(transfer);
                self.statistics.dispatched(now_ns, members.len() as u32);
                for member in members {
                    if let Some(entry) = &mut self.entries[member.id.slot()] {
                        entry.dispatched_ns = now_ns;
                    }
                }
            }
        }
        self.ready_next < self.ready.transfers.len()
    }

    /// For everyone but the driver, after a change: dispatches on behalf of a
    /// sleeping driver, and returns whether it must be woken. An awake one
    /// comes by itself before it sleeps.
    pub(crate) fn pump(&mut self, now_ns: u64) -> bool {
        if !self.driver_asleep {
            return false;
        }
        let due = self.dispatch(now_ns) || self.timer_moved_forward();
        if due {
            self.driver_asleep = false;
        }
        due
    }

    fn timer_moved_forward(&self) -> bool {
        match (self.scheduler.next_timer(), self.driver_timer_ns) {
            (Some(needed), Some(set)) => needed < set,
            (needed, None) => needed.is_some(),
            (None, _) => false,
        }
    }

    /// Turns what is ready into flights, as many as there is room for, and
    /// appends their tokens to `tokens`.
    pub(crate) fn hand_over(
        &mut self,
        flights: &mut Flights,
        ioprio: &[u16; Level::COUNT],
        tokens: &mut Vec<u32>,
    ) {
        while self.ready_next < self.ready.transfers.len() && flights.has_room() {
            let transfer = &self.ready.transfers[self.ready_next];
            self.ready_next += 1;
            let Some(Some(head)) = self.entries.get(transfer.id.slot()) else {
                unreachable!("a dispatched request is in the table until it completes");
            };
            let (token, flight) = flights.take(Target {
                head: transfer.id,
                code: code_of(head.operation),
                fd: head.file.fd(),
                ioprio: ioprio[transfer.level.index()],
                direct: head.file.direct,
                offset_align: head.file.align.offset_bytes,
                atomic: head.atomic,
            });
            for member in self.ready.members_of(transfer) {
                let span = self.entries[member.id.slot()]
                    .as_ref()
                    .map_or(Span::EMPTY, |entry| entry.span);
                flight.add(*member, span);
            }
            flights.prepare(token);
            tokens.push(token);
        }
        if self.ready_next == self.ready.transfers.len() {
            self.ready.clear();
            self.ready_next = 0;
        }
    }

    /// Takes the requests of a flight that is done out of the table.
    pub(crate) fn finish(&mut self, now_ns: u64, flight: &Flight, finished: &mut Vec<Finished>) {
        self.scheduler
            .complete(now_ns, flight.head(), flight.is_ok());
        let merged = flight.members().len() > 1;
        for (index, member) in flight.members().iter().enumerate() {
            let Some(entry) = self.remove(member.id) else {
                unreachable!("a request in flight is in the table");
            };
            let result = entry.file.judge(
                entry.operation,
                entry.offset,
                entry.length,
                flight.result(index),
            );
            let done = Done {
                submitted_ns: entry.submitted_ns,
                dispatched_ns: entry.dispatched_ns,
                bytes: *result.as_ref().unwrap_or(&0) as u32,
                merged,
                failed: result.is_err(),
                tag: entry.tag,
            };
            self.statistics
                .completed(now_ns, entry.level, kind_of(entry.operation), &done);
            finished.push((entry, result));
        }
    }

    /// Nothing is queued, ready or in flight on the driver.
    pub(crate) fn is_drained(&self) -> bool {
        self.entry_count == 0
    }

    /// How many more requests of `level` may be queued.
    pub(crate) fn room(&self, level: Level) -> u32 {
        self.scheduler.group_room(level)
    }
}
