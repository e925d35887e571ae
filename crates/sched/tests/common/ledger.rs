//! What must hold of every scheduler, whatever the policy: a record of all
//! requests and transfers, which fails as soon as one of them is lost, goes
//! twice, overtakes one that it overlaps, or exceeds a limit.

use super::reference::conflicting;
use iolane_sched::{
    Batch, Config, EnqueueError, Kind, Level, Policy, Request, RequestId, Scheduler, Terms,
    Transfer, WindowConfig,
};
use std::collections::HashSet;

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: RequestId,
    request: Request,
    /// The most urgent level that it came with or was promoted to.
    level: Level,
    enqueued_ns: u64,
    in_flight: bool,
}

#[derive(Clone, Debug)]
struct Flight {
    id: RequestId,
    level: Level,
    members: Vec<RequestId>,
}

/// A scheduler and the record of what it was told and said.
pub struct Ledger {
    pub scheduler: Scheduler,
    pub now_ns: u64,
    /// Outstanding requests in the order of arrival.
    entries: Vec<Entry>,
    flights: Vec<Flight>,
    /// Ids that are stale: of finished and cancelled requests.
    stale: Vec<RequestId>,
    accepted: usize,
    pub finished: usize,
    cancelled: usize,
}

impl Ledger {
    pub fn new(config: Config) -> Ledger {
        Ledger {
            scheduler: Scheduler::new(config).unwrap(),
            now_ns: 0,
            entries: Vec::new(),
            flights: Vec::new(),
            stale: Vec::new(),
            accepted: 0,
            finished: 0,
            cancelled: 0,
        }
    }

    /// The `index`th outstanding request, round to the first.
    pub fn outstanding(&self, index: usize) -> Option<RequestId> {
        let at = index.checked_rem(self.entries.len())?;
        Some(self.entries[at].id)
    }

    /// The `index`th transfer in flight, round to the first.
    pub fn in_flight(&self, index: usize) -> Option<RequestId> {
        let at = index.checked_rem(self.flights.len())?;
        Some(self.flights[at].id)
    }

    pub fn enqueue(&mut self, request: Request, terms: Terms) -> Result<RequestId, EnqueueError> {
        let answer = self.scheduler.enqueue_with(self.now_ns, request, terms);
        if let Ok(id) = answer {
            self.record(id, request, false);
        }
        answer
    }

    pub fn start(&mut self, request: Request) -> Option<RequestId> {
        let flights = self.flights.len() as u32;
        let id = self.scheduler.start(self.now_ns, request)?;
        self.record(id, request, true);
        self.check_overtakes_nothing(id);
        self.check_window(request.level, flights);
        self.flights.push(Flight {
            id,
            level: request.level,
            members: vec![id],
        });
        Some(id)
    }

    fn record(&mut self, id: RequestId, request: Request, in_flight: bool) {
        let slot = id.slot();
        assert!(slot < self.scheduler.slots());
        assert!(self.entries.iter().all(|entry| entry.id.slot() != slot));
        self.accepted += 1;
        self.entries.push(Entry {
            id,
            request,
            level: request.level,
            enqueued_ns: self.now_ns,
            in_flight,
        });
    }

    pub fn promote(&mut self, id: RequestId, level: Level) {
        assert!(self.scheduler.promote(id, level), "{id:?} is outstanding");
        let entry = self
            .entries
            .iter_mut()
            .find(|entry| entry.id == id)
            .unwrap();
        entry.level = entry.level.min(level);
    }

    pub fn cancel(&mut self, id: RequestId) -> bool {
        let at = self
            .entries
            .iter()
            .position(|entry| entry.id == id)
            .unwrap();
        let withdrawn = self.scheduler.cancel(id);
        assert_eq!(withdrawn, !self.entries[at].in_flight);
        if withdrawn {
            self.entries.remove(at);
            self.cancelled += 1;
            self.retire(id);
        }
        withdrawn
    }

    pub fn complete(&mut self, id: RequestId) {
        let at = self
            .flights
            .iter()
            .position(|flight| flight.id == id)
            .unwrap();
        let flight = self.flights.remove(at);
        self.scheduler.complete(self.now_ns, id, true);
        for member in flight.members {
            let at = self
                .entries
                .iter()
                .position(|entry| entry.id == member)
                .unwrap();
            self.entries.remove(at);
            self.finished += 1;
            self.retire(member);
        }
    }

    /// Notes that `id` has become stale, and tries all stale ones again now
    /// and then: slots are reused.
    fn retire(&mut self, id: RequestId) {
        self.stale.push(id);
        for &id in self.stale.iter().rev().take(8) {
            assert!(
                !self.scheduler.promote(id, Level::Critical),
                "{id:?} is stale"
            );
            assert!(!self.scheduler.cancel(id), "{id:?} is stale");
        }
    }

    /// Dispatches, checks everything that was sent, and gives it.
    pub fn dispatch(&mut self) -> Batch {
        let mut batch = Batch::default();
        let count = self.scheduler.dispatch(self.now_ns, &mut batch);
        assert_eq!(count, batch.transfers.len());
        let mut members = 0;
        for transfer in &batch.transfers {
            assert_eq!(transfer.members.start, members, "every member once");
            members = transfer.members.end;
            self.sent(&batch, transfer);
        }
        assert_eq!(members, batch.members.len());
        self.check_counts();
        batch
    }

    fn sent(&mut self, batch: &Batch, transfer: &Transfer) {
        let config = self.scheduler.config().clone();
        let members = batch.members_of(transfer);
        let flights = self.flights.len() as u32;
        self.check_window(transfer.level, flights);
        assert_eq!(transfer.id, members[0].id);
        assert_eq!(transfer.offset, members[0].offset);
        for member in members {
            self.check_overtakes_nothing(member.id);
            let entry = self.entries.iter_mut().find(|entry| entry.id == member.id);
            let entry = entry.expect("a member is outstanding");
            assert!(!entry.in_flight, "{entry:?} goes twice");
            entry.in_flight = true;
            let Entry { request, level, .. } = *entry;
            assert_eq!(
                (member.offset, member.length),
                (request.offset, request.length)
            );
            assert_eq!(member.enqueued_ns, entry.enqueued_ns);
            assert_eq!((transfer.kind, transfer.file), (request.kind, request.file));
            assert!(transfer.level <= level, "{entry:?} goes below its level");
        }
        let last = members[members.len() - 1];
        let stop = last.offset + u64::from(last.length);
        assert_eq!(transfer.offset + u64::from(transfer.length), stop);
        if members.len() > 1 {
            assert!(transfer.length <= config.transfer_bytes_max);
            assert!(members.len() <= config.transfer_members_max as usize);
            assert_ne!(transfer.kind, Kind::Sync);
        }
        for pair in members.windows(2) {
            let left_end = pair[0].offset + u64::from(pair[0].length);
            let gap = pair[1]
                .offset
                .checked_sub(left_end)
                .expect("position order");
            let gap_max = match transfer.kind {
                Kind::Read => config.merge_gap_bytes_max,
                _ => 0,
            };
            assert!(gap <= u64::from(gap_max));
        }
        self.flights.push(Flight {
            id: transfer.id,
            level: transfer.level,
            members: members.iter().map(|member| member.id).collect(),
        });
    }

    /// Nothing that arrived earlier and overlaps `id` is outstanding; of what
    /// arrived later, nothing is in flight.
    fn check_overtakes_nothing(&self, id: RequestId) {
        let at = self
            .entries
            .iter()
            .position(|entry| entry.id == id)
            .unwrap();
        let entry = &self.entries[at];
        for (index, other) in self.entries.iter().enumerate() {
            if index != at && conflicting(&other.request, &entry.request) {
                assert!(index > at, "{entry:?} overtakes {other:?}");
                assert!(!other.in_flight, "{entry:?} beside {other:?}");
            }
        }
    }

    /// Whether a transfer of `level` may go beside `flights` others.
    fn check_window(&self, level: Level, flights: u32) {
        let config = self.scheduler.config();
        assert!(flights < config.in_flight_max);
        let WindowConfig::Fixed(window) = config.window else {
            return;
        };
        let active = self.flights.iter().filter(|flight| flight.level == level);
        let min_active = config.levels[level.index()].min_active.max(1);
        let beyond = config.policy == Policy::Lanes
            && (level <= Level::Foreground || (active.count() as u32) < min_active);
        assert!(
            beyond || flights < window,
            "{flights} in flight, window {window}"
        );
    }

    fn check_counts(&self) {
        let snapshot = self.scheduler.snapshot();
        let waiting: Vec<&Entry> = self.entries.iter().filter(|e| !e.in_flight).collect();
        assert_eq!(snapshot.queued.iter().sum::<u32>() as usize, waiting.len());
        assert_eq!(self.scheduler.outstanding(), self.entries.len());
        assert_eq!(self.scheduler.has_queued(), !waiting.is_empty());
        let limits = &self.scheduler.config().levels;
        for level in Level::ALL {
            let group = waiting.iter().filter(|entry| entry.request.level == level);
            assert!(group.count() <= limits[level.index()].queued_max as usize);
            let active = self.flights.iter().filter(|flight| flight.level == level);
            assert_eq!(snapshot.in_flight[level.index()] as usize, active.count());
        }
        // The highest level may always go while nothing is in flight, unless a
        // rate limit is believed in, and then there is a moment to wait for.
        if self.flights.is_empty() && !waiting.is_empty() {
            let timer_ns = self.scheduler.next_timer();
            assert!(timer_ns.is_some_and(|at_ns| at_ns > self.now_ns), "stalled");
        }
    }

    /// Lets everything go, oldest transfer first, and checks that nothing is
    /// left.
    pub fn drain(&mut self) {
        let rounds = 64 * (self.entries.len() + 1);
        for _ in 0..rounds {
            self.dispatch();
            if self.entries.is_empty() {
                break;
            }
            self.now_ns += 1_000;
            match self.in_flight(0) {
                Some(id) => self.complete(id),
                None => self.now_ns = self.scheduler.next_timer().unwrap(),
            }
        }
        assert_eq!(self.accepted, self.finished + self.cancelled, "all finish");
        let snapshot = self.scheduler.snapshot();
        assert_eq!(snapshot.queued, [0; Level::COUNT]);
        assert_eq!(snapshot.in_flight, [0; Level::COUNT]);
        assert_eq!(snapshot.held, 0);
        assert_eq!(self.scheduler.outstanding(), 0);
        assert_eq!(self.scheduler.next_timer(), None);
        let stale: HashSet<RequestId> = self.stale.iter().copied().collect();
        assert_eq!(stale.len(), self.accepted, "every id is given once");
        for id in stale {
            assert!(!self.scheduler.promote(id, Level::Critical));
            assert!(!self.scheduler.cancel(id));
        }
    }
}
