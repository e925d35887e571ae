//! The state machine.

use crate::config::{Config, ConfigError, Deadline, Policy, WindowConfig};
use crate::merge;
use crate::policy::lanes::{self, Lanes, Room};
use crate::policy::{Sweep, deadline, noop, prio_deadline};
use crate::position::NIL;
use crate::queue::{Layout, Place, Queue, Slot};
use crate::request::{Held, Kind, Level, Request, RequestId, Terms};
use crate::window::{Sample, Window, WindowState};
use std::ops::Range;

/// Longest request: what the kernel transfers in one call (`MAX_RW_COUNT`,
/// 2 GiB less a page) rounded down.
pub const REQUEST_BYTES_MAX: u32 = 1 << 30;

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The level's allocation group is used up. Try again when requests that
    /// came with this level have gone to the device.
    #[error(
        "{limit} requests that came with level {level} are queued, \
         which is the limit of its allocation group"
    )]
    GroupFull {
        /// The level.
        level: Level,
        /// Its limit.
        limit: u32,
    },
    /// A read or write of 0 bytes, one longer than [`REQUEST_BYTES_MAX`], one
    /// whose end is beyond 2^63, or a sync with a range.
    #[error("a request for {length} bytes at {offset} is not valid")]
    Range {
        /// Its offset.
        offset: u64,
        /// Its length.
        length: u32,
    },
}

/// One I/O for the device: one request, or several neighbours merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Names it in [`Scheduler::complete`].
    pub id: RequestId,
    /// What it does.
    pub kind: Kind,
    /// On which file.
    pub file: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes from the first to the last, gaps included; 0 for a sync.
    pub length: u32,
    /// The most urgent level of its members.
    pub level: Level,
    /// Its requests in [`Batch::members`], in position order. Between two
    /// there may be a gap, in reads only.
    pub members: Range<usize>,
}

/// One request inside a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// The request.
    pub id: RequestId,
    /// Its first byte.
    pub offset: u64,
    /// Its bytes.
    pub length: u32,
    /// When it was submitted.
    pub enqueued_ns: u64,
}

/// What [`Scheduler::dispatch`] fills. Reuse one: it keeps its memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// To hand to the device, in this order.
    pub transfers: Vec<Transfer>,
    /// Their requests.
    pub members: Vec<Member>,
}

impl Batch {
    /// Empties it.
    pub fn clear(&mut self) {
        self.transfers.clear();
        self.members.clear();
    }

    /// The requests of one of its transfers.
    pub fn members_of(&self, transfer: &Transfer) -> &[Member] {
        &self.members[transfer.members.clone()]
    }
}

/// A look at a scheduler's state.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Which rule is in force.
    pub policy: Policy,
    /// Requests queued, per level, the promoted ones at their new level.
    pub queued: [u32; Level::COUNT],
    /// Transfers in flight, per level.
    pub in_flight: [u32; Level::COUNT],
    /// Requests behind an earlier one that they overlap (also in `queued`).
    pub held: u32,
    /// Requests that went to the device inside another one's transfer.
    pub merged: u64,
    /// Requests that were picked when their deadline had passed. Those merged
    /// with them do not count, nor does anything under `noop`.
    pub expired: u64,
    /// What was learned of the device.
    pub window: WindowState,
}

/// What is with the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flight {
    pub transfers: u32,
    pub levels: [u32; Level::COUNT],
    /// Transfers of the others that ever went, and how many of them after the
    /// oldest in flight of the two upper levels: a device that orders its queue by
    /// itself may serve them first.
    lower_sent: u64,
    pub overtakers: u32,
}

impl Flight {
    /// Whether it holds a transfer that somebody waits for.
    pub fn has_urgent(&self) -> bool {
        self.urgent() > 0
    }

    /// Transfers of the two upper levels.
    pub fn urgent(&self) -> u32 {
        self.levels[0] + self.levels[1]
    }

    /// Transfers of the others.
    pub fn lower(&self) -> u32 {
        self.transfers - self.urgent()
    }
}

/// Decides which request goes to one device next. See the crate's page.
///
/// Not thread-safe by itself: put it behind the device's lock. No method
/// blocks or allocates in the steady state; the tables grow, by doubling, to
/// the most requests that were ever outstanding.
pub struct Scheduler {
    config: Config,
    queue: Queue,
    sweep: Sweep,
    lanes: Lanes,
    window: Window,
    flight: Flight,
    merged: u64,
    expired: u64,
}

impl Scheduler {
    /// A scheduler for one idle device.
    ///
    /// # Errors
    /// A setting out of its range.
    pub fn new(config: Config) -> Result<Scheduler, ConfigError> {
        config.validate()?;
        Ok(Scheduler {
            queue: Queue::new(Layout::of(config.policy)),
            sweep: Sweep::default(),
            lanes: Lanes::default(),
            window: Window::new(config.window, config.objective),
            flight: Flight::default(),
            merged: 0,
            expired: 0,
            config,
        })
    }

    /// The settings in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Takes a request. It goes to the device when [`dispatch`] says so.
    ///
    /// # Errors
    /// [`EnqueueError::GroupFull`] when as many that came with this level are
    /// queued as may be (a promoted request stays in the group it came with),
    /// [`EnqueueError::Range`] when the range makes no sense. Nothing changed.
    ///
    /// [`dispatch`]: Scheduler::dispatch
    pub fn enqueue(&mut self, now_ns: u64, request: Request) -> Result<RequestId, EnqueueError> {
        self.enqueue_with(now_ns, request, Terms::default())
    }

    /// The same for a request with a deadline of its own, or one that is never
    /// merged.
    ///
    /// # Errors
    /// Those of [`enqueue`](Scheduler::enqueue).
    pub fn enqueue_with(
        &mut self,
        now_ns: u64,
        request: Request,
        terms: Terms,
    ) -> Result<RequestId, EnqueueError> {
        check_range(&request)?;
        let level = request.level;
        if self.group_room(level) == 0 {
            let limit = self.config.levels[level.index()].queued_max;
            return Err(EnqueueError::GroupFull { level, limit });
        }
        let blockers = self.queue.mark_blockers(&request);
        let slot = self.queue.allocate(now_ns, request, terms);
        if blockers.count > 0 {
            self.queue.hold(slot, blockers.count);
            if blockers.less_urgent {
                let (config, window) = (&self.config, &self.window);
                self.queue
                    .raise_blockers(slot, |slot| deadline_ns(config, window, slot));
            }
        } else {
            let mut deadline_ns = deadline_ns(&self.config, &self.window, self.queue.slot(slot));
            if terms.within_ns.is_none() {
                deadline_ns = deadline_ns.max(self.queue.list_deadline_ns_max(&request));
            }
            self.queue.queue(slot, deadline_ns);
        }
        Ok(self.queue.id(slot))
    }

    /// How many more requests that come with `level` can be queued: what
    /// [`enqueue`](Scheduler::enqueue) goes by. Not the limit less
    /// [`Snapshot::queued`], which counts promoted requests on the level that
    /// they were promoted to.
    pub fn group_room(&self, level: Level) -> u32 {
        let limit = self.config.levels[level.index()].queued_max;
        limit.saturating_sub(self.queue.grouped[level.index()])
    }

    /// The fast path of a thread that is about to wait for `request`: if it
    /// may go to the device at once, it is in flight when this returns, as a
    /// transfer of its own that [`complete`](Scheduler::complete) ends. `None`
    /// says that it must queue, and changes nothing.
    pub fn start(&mut self, now_ns: u64, request: Request) -> Option<RequestId> {
        if check_range(&request).is_err() || !self.may_start(&request) {
            return None;
        }
        Some(self.send(now_ns, request))
    }

    /// Takes note of `request`, which went to the device without asking: it is in flight,
    /// beyond every limit if need be, as a transfer of its own that
    /// [`complete`](Scheduler::complete) ends. Whoever sent it answers for what it overlaps.
    ///
    /// # Errors
    /// A range that is not valid. Nothing changed.
    pub fn note_started(
        &mut self,
        now_ns: u64,
        request: Request,
    ) -> Result<RequestId, EnqueueError> {
        check_range(&request)?;
        Ok(self.send(now_ns, request))
    }

    /// Sends a request that was never queued.
    fn send(&mut self, now_ns: u64, request: Request) -> RequestId {
        let terms = Terms {
            alone: true,
            within_ns: None,
        };
        let slot = self.queue.allocate(now_ns, request, terms);
        self.depart(now_ns, slot, request.length, 1);
        self.queue.id(slot)
    }

    /// Whether `request` could overtake everything queued.
    fn may_start(&self, request: &Request) -> bool {
        if self.flight.transfers >= self.config.in_flight_max {
            return false;
        }
        let first = match self.config.policy {
            // Nothing may be queued that the policy would take before it; and
            // the window of these policies knows no levels.
            Policy::Noop | Policy::Deadline | Policy::PrioDeadline => {
                self.has_room(Level::Background) && !self.has_queued()
            }
            Policy::Lanes => {
                let (levels, room) = (&self.config.levels, self.room());
                lanes::may_overtake(&self.queue, levels, &room, request)
            }
        };
        first && !self.queue.is_blocked(request)
    }

    /// Appends to `batch` what should go to the device now, in order, and
    /// counts it as in flight. Returns how many transfers it appended.
    pub fn dispatch(&mut self, now_ns: u64, batch: &mut Batch) -> usize {
        let before = batch.transfers.len();
        self.window.advance(now_ns, &self.flight);
        loop {
            let slot = self.pick(now_ns);
            if slot == NIL {
                return batch.transfers.len() - before;
            }
            let has_deadline = self.config.policy != Policy::Noop;
            if has_deadline && self.queue.deadline_ns(slot) <= now_ns {
                self.expired += 1;
            }
            self.build(now_ns, slot, batch);
        }
    }

    fn pick(&mut self, now_ns: u64) -> u32 {
        if self.config.policy == Policy::Lanes {
            let room = LanesRoom {
                window: &self.window,
                flight: &self.flight,
                in_flight_max: self.config.in_flight_max,
            };
            let levels = &self.config.levels;
            let sorted = self.window.sorts(self.config.rotational);
            return self.lanes.pick(&self.queue, levels, sorted, &room, now_ns);
        }
        if !self.has_room(Level::Background) {
            return NIL;
        }
        match self.config.policy {
            Policy::Noop => noop::pick(&self.queue),
            Policy::Deadline => deadline::pick(&mut self.sweep, &self.queue, now_ns),
            _ => prio_deadline::pick(&mut self.sweep, &self.queue, now_ns),
        }
    }

    fn room(&self) -> LanesRoom<'_> {
        LanesRoom {
            window: &self.window,
            flight: &self.flight,
            in_flight_max: self.config.in_flight_max,
        }
    }

    /// Whether the window lets one more transfer of `level` go. Those policies that know no
    /// levels go by that of [`Level::Background`].
    pub fn has_room(&self, level: Level) -> bool {
        self.room().has_room(level)
    }

    /// Makes a transfer of `slot` and its neighbours, and sends it.
    fn build(&mut self, now_ns: u64, slot: u32, batch: &mut Batch) {
        let span = merge::collect(&self.queue, &self.config, slot);
        let first_member = batch.members.len();
        let (mut at, mut last, mut level) = (span.first, NIL, Level::Background);
        let mut end = 0;
        for _ in 0..span.count {
            let next = self.queue.positions.next(at);
            self.queue.unqueue(at);
            let entry = self.queue.slot(at);
            let request = entry.request;
            level = level.min(request.level);
            end = request.offset + u64::from(request.length);
            batch.members.push(Member {
                id: self.queue.id(at),
                offset: request.offset,
                length: request.length,
                enqueued_ns: entry.enqueued_ns,
            });
            if last != NIL {
                self.queue.ride(now_ns, last, at);
            }
            (last, at) = (at, next);
        }
        self.merged += u64::from(span.count - 1);

        let head = self.queue.slot(span.first).request;
        let length = (end - head.offset) as u32;
        self.queue.set_level(span.first, level);
        self.depart(now_ns, span.first, length, span.count);
        batch.transfers.push(Transfer {
            id: self.queue.id(span.first),
            kind: head.kind,
            file: head.file,
            offset: head.offset,
            length,
            level,
            members: first_member..batch.members.len(),
        });
    }

    /// Counts the transfer of `head` as in flight.
    fn depart(&mut self, now_ns: u64, head: u32, length: u32, requests: u32) {
        let request = self.queue.slot(head).request;
        let end = request.offset + u64::from(length);
        self.queue.depart(now_ns, head, end);
        if let Some(direction) = crate::queue::direction(request.kind) {
            self.sweep.dispatched(direction, request.file, end);
            self.lanes.dispatched(request.level, request.file, end);
        }
        self.window.departed(now_ns, &self.flight, &request, length);
        self.queue.set_requests(head, requests);
        if request.level <= Level::Foreground {
            self.queue.watch(head, self.flight.lower_sent);
        } else {
            self.flight.lower_sent += 1;
        }
        self.count_overtakers();
        self.flight.transfers += 1;
        self.flight.levels[request.level.index()] += 1;
    }

    fn count_overtakers(&mut self) {
        let before = self.queue.before_oldest_watched();
        let after = before.map(|before| self.flight.lower_sent - before);
        self.flight.overtakers = after.unwrap_or(0) as u32;
    }

    /// Reports that a transfer has ended. Its requests are finished and their
    /// ids stale. `ok` is false if it failed: then its time teaches nothing.
    ///
    /// # Panics
    /// If `transfer` is not in flight.
    pub fn complete(&mut self, now_ns: u64, transfer: RequestId, ok: bool) {
        let head = self
            .queue
            .find(transfer)
            .filter(|&slot| self.queue.slot(slot).place == Place::Head)
            .expect("completing a transfer that is not in flight");
        let entry = *self.queue.slot(head);
        let requests = self.queue.requests(head);
        let length = self.queue.transfer_length(head);
        if entry.request.level <= Level::Foreground {
            self.queue.unwatch(head);
            self.count_overtakers();
        }
        self.flight.transfers -= 1;
        self.flight.levels[entry.request.level.index()] -= 1;
        let lower_waiting = self.queue.queued[2..].iter().any(|&queued| queued > 0);
        self.window.completed(
            now_ns,
            &self.flight,
            &Sample {
                direction: entry.request.kind.takes_from(),
                bytes: length,
                requests,
                enqueued_ns: entry.enqueued_ns,
                dispatched_ns: entry.dispatched_ns,
                ok,
                urgent: entry.request.level <= Level::Foreground,
                durable: entry.request.makes_durable(),
                lower_waiting,
                urgent_queued: self.queue.queued[0] + self.queue.queued[1],
            },
        );
        let (config, window) = (&self.config, &self.window);
        self.queue
            .arrive(head, |slot| deadline_ns(config, window, slot));
    }

    /// Gives a request a more urgent level, because something now waits for
    /// it; also all the earlier ones that it overlaps and so waits for, and
    /// what those wait for. Never gives a less urgent one. Returns whether the
    /// request was outstanding; one in flight cannot be hurried.
    pub fn promote(&mut self, id: RequestId, level: Level) -> bool {
        let Some(slot) = self.queue.find(id) else {
            return false;
        };
        let entry = self.queue.slot(slot);
        let waits = matches!(entry.place, Place::Queued | Place::Held);
        if waits && level < entry.request.level {
            let (config, window) = (&self.config, &self.window);
            self.queue
                .raise(slot, level, |slot| deadline_ns(config, window, slot));
        }
        true
    }

    /// Withdraws a request. `true`: it never goes to the device, and its id is
    /// stale. `false`: it is in flight or finished already.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        let Some(slot) = self.queue.find(id) else {
            return false;
        };
        if !matches!(self.queue.slot(slot).place, Place::Queued | Place::Held) {
            return false;
        }
        let (config, window) = (&self.config, &self.window);
        self.queue
            .withdraw(slot, |slot| deadline_ns(config, window, slot));
        true
    }

    /// When to call [`dispatch`](Scheduler::dispatch) again even if nothing
    /// completes and nothing comes, because a rate limit holds requests back, or
    /// what the next flush already has to write holds writes back.
    /// `None`: there is no such moment.
    pub fn next_timer(&self) -> Option<u64> {
        if self.queue.queued.iter().all(|&queued| queued == 0) {
            return None;
        }
        self.window.next_timer()
    }

    /// Changes the policy and the window; what is queued stays.
    ///
    /// # Errors
    /// A setting out of its range. Nothing changed.
    pub fn set_policy(&mut self, policy: Policy, window: WindowConfig) -> Result<(), ConfigError> {
        let config = Config {
            policy,
            window,
            ..self.config.clone()
        };
        config.validate()?;
        self.config = config;
        if self.window.config() != window {
            self.window = Window::new(window, self.config.objective);
        }
        self.sweep = Sweep::default();
        self.lanes = Lanes::default();
        let (config, window) = (&self.config, &self.window);
        self.queue
            .set_layout(Layout::of(policy), |slot| deadline_ns(config, window, slot));
        Ok(())
    }

    /// Requests that are queued or in flight.
    pub fn outstanding(&self) -> usize {
        self.queue.outstanding()
    }

    /// Whether anything waits to go to the device.
    pub fn has_queued(&self) -> bool {
        self.queue.queued.iter().any(|&queued| queued > 0)
    }

    /// How many [`RequestId::slot`] numbers are in use at the most: all are
    /// below this.
    pub fn slots(&self) -> usize {
        self.queue.slots_allocated()
    }

    /// A look at the state.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            policy: self.config.policy,
            queued: self.queue.queued,
            in_flight: self.flight.levels,
            held: self.queue.held_count,
            merged: self.merged,
            expired: self.expired,
            window: self.window.state(),
        }
    }
}

/// The window as the policy sees it.
struct LanesRoom<'a> {
    window: &'a Window,
    flight: &'a Flight,
    in_flight_max: u32,
}

impl Room for LanesRoom<'_> {
    fn has_room(&self, level: Level) -> bool {
        self.places() > 0 && self.window.has_room(self.flight, level)
    }

    fn active(&self, level: Level) -> u32 {
        self.flight.levels[level.index()]
    }

    fn places(&self) -> u32 {
        // What has gone unasked may be beyond it.
        self.in_flight_max.saturating_sub(self.flight.transfers)
    }

    fn is_shut_out(&self, level: Level) -> bool {
        self.window.is_shut_out(self.flight, level)
    }

    fn held(&self) -> Held {
        self.window.held()
    }
}

fn check_range(request: &Request) -> Result<(), EnqueueError> {
    let Request { offset, length, .. } = *request;
    let valid = match request.kind {
        Kind::Sync => length == 0 && offset == 0,
        Kind::Read | Kind::Write => {
            (1..=REQUEST_BYTES_MAX).contains(&length)
                && offset <= i64::MAX as u64 - u64::from(length)
        }
    };
    if valid {
        Ok(())
    } else {
        Err(EnqueueError::Range { offset, length })
    }
}

/// Submit time plus the offset that the policy gives the request, or its own if
/// that is less: were it more, those behind it in its list would wait for it.
fn deadline_ns(config: &Config, window: &Window, slot: &Slot) -> u64 {
    let offset_ns = match config.policy {
        Policy::Noop => 0,
        Policy::Deadline => match slot.request.kind {
            Kind::Read => config.deadline_read_ns,
            Kind::Write | Kind::Sync => config.deadline_write_ns,
        },
        Policy::PrioDeadline | Policy::Lanes => {
            match config.levels[slot.request.level.index()].deadline {
                Deadline::Fixed(ns) => ns,
                Deadline::ServiceTimes(times) => {
                    window.service_ns().saturating_mul(u64::from(times))
                }
            }
        }
    };
    let offset_ns = offset_ns.min(slot.terms.within_ns.unwrap_or(u64::MAX));
    slot.enqueued_ns.saturating_add(offset_ns)
}
