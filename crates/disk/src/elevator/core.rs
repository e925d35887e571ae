//! The project's own scheduler in virtual time.

use super::{Dispatched, Elevator, Request, Transfer, at_tag};
use crate::model::Kind;
use iolane_sched::{Batch, Config, ConfigError, REQUEST_BYTES_MAX, RequestId, Scheduler};

/// `iolane-sched` with any of its policies: the same code that runs in the
/// engine.
///
/// [`Config::in_flight_max`] is lowered to what the disk takes at once.
/// Allocation groups ([`queued_max`](iolane_sched::LevelConfig::queued_max))
/// block the submitter.
pub struct Core {
    scheduler: Scheduler,
    batch: Batch,
    /// By [`RequestId::slot`]: the request's tag.
    tags: Vec<u32>,
    /// By tag: the name of the transfer in flight under it.
    transfers: Vec<Option<RequestId>>,
    /// By tag: whether the request must be durable when it ends.
    durable: Vec<bool>,
}

impl Core {
    /// A scheduler with these settings.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn new(config: Config) -> Result<Core, ConfigError> {
        Ok(Core {
            scheduler: Scheduler::new(config)?,
            batch: Batch::default(),
            tags: Vec::new(),
            transfers: Vec::new(),
            durable: Vec::new(),
        })
    }

    /// The scheduler itself: its snapshot tells what it has learned.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }
}

impl Elevator for Core {
    fn attach(&mut self, queue_max: usize) {
        let mut config = self.scheduler.config().clone();
        let queue_max = u32::try_from(queue_max).unwrap_or(u32::MAX);
        config.in_flight_max = config.in_flight_max.min(queue_max);
        self.scheduler = Scheduler::new(config).expect("a lower limit is in range as well");
    }

    fn request_bytes_max(&self) -> u32 {
        REQUEST_BYTES_MAX
    }

    fn admits(&self, request: &Request) -> bool {
        self.scheduler.group_room(request.level) > 0
    }

    fn add(&mut self, now_ns: u64, tag: u32, request: &Request) {
        let id = self
            .scheduler
            .enqueue(now_ns, to_sched(request))
            .expect("only requests that it admits are added");
        *at_tag(&mut self.tags, id.slot() as u32, 0) = tag;
        *at_tag(&mut self.durable, tag, false) = request.durable;
    }

    fn dispatch(&mut self, now_ns: u64, room: usize, out: &mut Dispatched) {
        self.batch.clear();
        self.scheduler.dispatch(now_ns, &mut self.batch);
        debug_assert!(self.batch.transfers.len() <= room);
        for transfer in &self.batch.transfers {
            let mut durable = false;
            for member in self.batch.members_of(transfer) {
                let tag = self.tags[member.id.slot()];
                durable |= self.durable[tag as usize];
                out.members.push(tag);
            }
            let tag = self.tags[transfer.id.slot()];
            *at_tag(&mut self.transfers, tag, None) = Some(transfer.id);
            out.transfers.push(Transfer {
                tag,
                kind: from_sched(transfer.kind),
                offset: transfer.offset,
                length: transfer.length,
                durable,
                members_end: out.members.len(),
            });
        }
    }

    fn complete(&mut self, now_ns: u64, tag: u32) {
        let transfer = self.transfers[tag as usize]
            .take()
            .expect("a transfer ends once");
        self.scheduler.complete(now_ns, transfer, true);
    }

    fn next_timer_ns(&self) -> Option<u64> {
        self.scheduler.next_timer()
    }
}

fn to_sched(request: &Request) -> iolane_sched::Request {
    iolane_sched::Request {
        kind: match request.kind {
            Kind::Read => iolane_sched::Kind::Read,
            Kind::Write => iolane_sched::Kind::Write,
            Kind::Flush => iolane_sched::Kind::Sync,
        },
        file: 0,
        offset: request.offset,
        length: request.length,
        level: request.level,
        durable: request.durable,
    }
}

fn from_sched(kind: iolane_sched::Kind) -> Kind {
    match kind {
        iolane_sched::Kind::Read => Kind::Read,
        iolane_sched::Kind::Write => Kind::Write,
        iolane_sched::Kind::Sync => Kind::Flush,
    }
}
