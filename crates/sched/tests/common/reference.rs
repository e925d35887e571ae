//! The scheduler as its documentation describes it, in the plainest way: one
//! list of all outstanding requests, searched from end to end for everything.
//! No trees, no chains, no tables. Only fixed windows.

use iolane_sched::{
    Config, Deadline, Direction, EnqueueError, Kind, Level, Policy, Request, RequestId, Terms,
    WindowConfig,
};

const BATCH_MAX: u32 = 16;
const WRITES_STARVED_MAX: u32 = 2;
const EXPIRED_EVERY: u32 = 8;
/// The service time before one was measured; the fixed windows of these tests
/// complete faster only where `Deadline::Fixed` is used.
const SERVICE_NS: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits to go to the device; listed by this deadline.
    Waiting { deadline_ns: u64 },
    /// Behind an earlier one that it overlaps.
    Held,
    /// In the transfer of this request.
    InFlight { transfer: RequestId },
}

#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub id: RequestId,
    pub request: Request,
    group: Level,
    arrival: u64,
    enqueued_ns: u64,
    within_ns: Option<u64>,
    state: State,
}

impl Known {
    pub fn waits(&self) -> bool {
        !matches!(self.state, State::InFlight { .. })
    }

    fn queued(&self) -> Option<u64> {
        match self.state {
            State::Waiting { deadline_ns } => Some(deadline_ns),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub id: RequestId,
    pub level: Level,
    pub members: Vec<RequestId>,
}

pub struct Reference {
    config: Config,
    /// In the order of arrival.
    known: Vec<Known>,
    flights: Vec<(RequestId, Level)>,
    arrivals: u64,
    // Sorted policies: the running batch, and where each direction stands.
    batch: u32,
    starved: u32,
    writing: bool,
    position: [(u32, u64); 2],
    // Lanes.
    since_expired: u32,
    lane_position: [(u32, u64); Level::COUNT],
}

pub fn end(request: &Request) -> u64 {
    request.offset + u64::from(request.length)
}

/// Whether the order of the two matters.
pub fn conflicting(a: &Request, b: &Request) -> bool {
    a.kind != Kind::Sync
        && b.kind != Kind::Sync
        && (a.kind == Kind::Write || b.kind == Kind::Write)
        && a.file == b.file
        && a.offset < end(b)
        && b.offset < end(a)
}

impl Reference {
    pub fn new(config: Config) -> Reference {
        Reference {
            config,
            known: Vec::new(),
            flights: Vec::new(),
            arrivals: 0,
            batch: 0,
            starved: 0,
            writing: false,
            position: [(0, 0); 2],
            since_expired: 0,
            lane_position: [(0, 0); Level::COUNT],
        }
    }

    pub fn known(&self) -> &[Known] {
        &self.known
    }

    /// Requests that wait, per level.
    pub fn queued(&self) -> [u32; Level::COUNT] {
        Level::ALL.map(|level| {
            let of_level = |known: &&Known| known.waits() && known.request.level == level;
            self.known.iter().filter(of_level).count() as u32
        })
    }

    /// Transfers in flight, per level.
    pub fn in_flight(&self) -> [u32; Level::COUNT] {
        Level::ALL.map(|level| self.active(level))
    }

    pub fn held(&self) -> u32 {
        let held = |known: &&Known| known.state == State::Held;
        self.known.iter().filter(held).count() as u32
    }

    /// Whether `enqueue` must be refused.
    pub fn refuses(&self, request: &Request) -> Option<EnqueueError> {
        let level = request.level;
        let limit = self.config.levels[level.index()].queued_max;
        let grouped = self.known.iter().filter(|k| k.waits() && k.group == level);
        (grouped.count() as u32 >= limit).then_some(EnqueueError::GroupFull { level, limit })
    }

    /// Takes a request that the real one calls `id`.
    pub fn enqueue(&mut self, now_ns: u64, id: RequestId, request: Request, terms: Terms) {
        self.arrivals += 1;
        let mut known = Known {
            id,
            request,
            group: request.level,
            arrival: self.arrivals,
            enqueued_ns: now_ns,
            within_ns: terms.within_ns,
            state: State::Held,
        };
        if self.free_to_go(&known) {
            // A new request is never listed before one of the same list, unless it has
            // a deadline of its own.
            let list = self.list(&request);
            let last_ns = self.known.iter().filter(|k| self.list(&k.request) == list);
            let last_ns = last_ns.filter_map(Known::queued).max().unwrap_or(0);
            let deadline_ns = match known.within_ns {
                Some(_) => self.deadline_ns(&known),
                None => self.deadline_ns(&known).max(last_ns),
            };
            known.state = State::Waiting { deadline_ns };
        }
        self.known.push(known);
        self.raise_blockers(self.known.len() - 1);
    }

    /// Whether the fast path must take `request`.
    pub fn may_start(&self, request: &Request) -> bool {
        let unobstructed = !self.known.iter().any(|k| conflicting(&k.request, request));
        let first = match self.config.policy {
            Policy::Lanes => {
                let urgent = |k: &Known| k.queued().is_some() && k.request.level <= request.level;
                !self.known.iter().any(urgent) && !self.all_reserved()
            }
            _ => !self.known.iter().any(Known::waits),
        };
        unobstructed && first && self.has_room(request.level)
    }

    pub fn start(&mut self, now_ns: u64, id: RequestId, request: Request) {
        self.arrivals += 1;
        self.known.push(Known {
            id,
            request,
            group: request.level,
            arrival: self.arrivals,
            enqueued_ns: now_ns,
            within_ns: None,
            state: State::InFlight { transfer: id },
        });
        self.depart(id, request.level, &request, end(&request));
    }

    pub fn promote(&mut self, id: RequestId, level: Level) -> bool {
        let Some(at) = self.known.iter().position(|k| k.id == id) else {
            return false;
        };
        if self.known[at].waits() && level < self.known[at].request.level {
            self.raise(at, level);
            self.raise_blockers(at);
        }
        true
    }

    pub fn cancel(&mut self, id: RequestId) -> bool {
        let Some(at) = self.known.iter().position(|k| k.id == id && k.waits()) else {
            return false;
        };
        self.known.remove(at);
        self.release();
        true
    }

    pub fn complete(&mut self, id: RequestId) {
        let flight = self.flights.iter().position(|f| f.0 == id).unwrap();
        self.flights.remove(flight);
        self.known
            .retain(|k| k.state != State::InFlight { transfer: id });
        self.release();
    }

    pub fn set_policy(&mut self, policy: Policy, window: WindowConfig) {
        let known = std::mem::take(&mut self.known);
        let flights = std::mem::take(&mut self.flights);
        let config = Config {
            policy,
            window,
            ..self.config.clone()
        };
        *self = Reference {
            known,
            flights,
            arrivals: self.arrivals,
            ..Reference::new(config)
        };
        for at in 0..self.known.len() {
            if self.known[at].queued().is_some() {
                let deadline_ns = self.deadline_ns(&self.known[at]);
                self.known[at].state = State::Waiting { deadline_ns };
            }
        }
    }

    pub fn dispatch(&mut self, now_ns: u64) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some(picked) = self.pick(now_ns) {
            sent.push(self.send(picked));
        }
        sent
    }

    fn deadline_ns(&self, known: &Known) -> u64 {
        let level = &self.config.levels[known.request.level.index()];
        let offset_ns = match (self.config.policy, known.request.kind) {
            (Policy::Noop, _) => 0,
            (Policy::Deadline, Kind::Read) => self.config.deadline_read_ns,
            (Policy::Deadline, _) => self.config.deadline_write_ns,
            _ => match level.deadline {
                Deadline::Fixed(ns) => ns,
                Deadline::ServiceTimes(times) => u64::from(times) * SERVICE_NS,
            },
        };
        let offset_ns = known.within_ns.unwrap_or(offset_ns).min(offset_ns);
        known.enqueued_ns.saturating_add(offset_ns)
    }

    /// Which list a request is in: those of different lists are not compared.
    fn list(&self, request: &Request) -> usize {
        match (self.config.policy, request.kind) {
            (Policy::Noop, _) => 0,
            (Policy::Lanes, _) => request.level.index(),
            (_, Kind::Sync) => 9,
            (Policy::PrioDeadline, _) => request.level.index(),
            (Policy::Deadline, Kind::Read) => 0,
            (Policy::Deadline, Kind::Write) => 1,
        }
    }

    fn free_to_go(&self, known: &Known) -> bool {
        let earlier = |other: &&Known| other.arrival < known.arrival;
        let mut earlier = self.known.iter().filter(earlier);
        !earlier.any(|other| conflicting(&other.request, &known.request))
    }

    /// Queues every held request that nothing holds any more.
    fn release(&mut self) {
        for at in 0..self.known.len() {
            if self.known[at].state == State::Held && self.free_to_go(&self.known[at]) {
                let deadline_ns = self.deadline_ns(&self.known[at]);
                self.known[at].state = State::Waiting { deadline_ns };
            }
        }
    }

    fn raise(&mut self, at: usize, level: Level) {
        let list = self.list(&self.known[at].request);
        self.known[at].request.level = level;
        let sooner_ns = self.deadline_ns(&self.known[at]);
        let moved = list != self.list(&self.known[at].request);
        if let State::Waiting { deadline_ns } = &mut self.known[at].state
            && moved
        {
            *deadline_ns = sooner_ns.min(*deadline_ns);
        }
    }

    fn raise_blockers(&mut self, at: usize) {
        let waiter = self.known[at].request;
        for earlier in 0..at {
            let blocker = &self.known[earlier];
            if blocker.waits()
                && conflicting(&blocker.request, &waiter)
                && blocker.request.level > waiter.level
            {
                self.raise(earlier, waiter.level);
                self.raise_blockers(earlier);
            }
        }
    }

    fn active(&self, level: Level) -> u32 {
        self.flights.iter().filter(|f| f.1 == level).count() as u32
    }

    fn places(&self) -> usize {
        self.config.in_flight_max as usize - self.flights.len()
    }

    fn has_room(&self, level: Level) -> bool {
        let WindowConfig::Fixed(window) = self.config.window else {
            panic!("only fixed windows");
        };
        let bound = self.config.policy != Policy::Lanes || level > Level::Foreground;
        self.places() > 0 && (!bound || self.flights.len() < window as usize)
    }

    /// The queued requests that `of` takes, by deadline and arrival.
    fn by_deadline(&self, of: impl Fn(&Known) -> bool) -> Option<usize> {
        let queued = (0..self.known.len()).filter(|&at| of(&self.known[at]));
        queued
            .filter_map(|at| Some((self.known[at].queued()?, self.known[at].arrival, at)))
            .min()
            .map(|(_, _, at)| at)
    }

    /// The queued requests that `of` takes, by position, equal ones by number.
    fn by_position(&self, of: impl Fn(&Known) -> bool) -> Vec<usize> {
        let mut queued: Vec<usize> = (0..self.known.len())
            .filter(|&at| self.known[at].queued().is_some() && of(&self.known[at]))
            .collect();
        queued.sort_by_key(|&at| {
            let Known { id, request, .. } = self.known[at];
            (request.file, request.offset, id.slot())
        });
        queued
    }

    fn at_or_after(&self, sorted: &[usize], position: (u32, u64)) -> Option<usize> {
        let here = |at: &usize| {
            let request = self.known[*at].request;
            (request.file, request.offset) >= position
        };
        sorted.iter().copied().find(here)
    }

    fn pick(&mut self, now_ns: u64) -> Option<usize> {
        if self.config.policy == Policy::Lanes {
            return self.pick_lanes(now_ns);
        }
        if !self.has_room(Level::Background) {
            return None;
        }
        if self.config.policy == Policy::Noop {
            return self.by_deadline(|_| true);
        }
        let sync = self.by_deadline(|k| k.request.kind == Kind::Sync);
        if sync.is_some() {
            return sync;
        }
        let expired = |at: &usize| self.known[*at].queued().unwrap() <= now_ns;
        if self.config.policy == Policy::PrioDeadline {
            let oldest = Level::ALL.map(|level| self.by_deadline(|k| k.request.level == level));
            let expired = oldest.into_iter().flatten().filter(expired);
            // The first of the smallest: the more urgent level.
            if let Some(at) = expired.min_by_key(|&at| self.known[at].queued()) {
                return Some(at);
            }
        }
        let kinds = [Kind::Read, Kind::Write];
        let sorted = kinds.map(|kind| self.by_position(|k| k.request.kind == kind));
        let going = usize::from(self.writing);
        if (1..BATCH_MAX).contains(&self.batch) {
            let next = self.at_or_after(&sorted[going], self.position[going]);
            if next.is_some() {
                return next;
            }
        }
        let turn = match (sorted[0].is_empty(), sorted[1].is_empty()) {
            (true, true) => return None,
            (false, true) => 0,
            (false, false) if self.starved < WRITES_STARVED_MAX => {
                self.starved += 1;
                0
            }
            _ => {
                self.starved = 0;
                1
            }
        };
        self.writing = turn == 1;
        self.batch = 0;
        if self.config.policy == Policy::Deadline {
            let oldest = self.by_deadline(|k| k.request.kind == kinds[turn]);
            if oldest.as_ref().is_some_and(expired) {
                return oldest;
            }
        }
        let next = self.at_or_after(&sorted[turn], self.position[turn]);
        next.or(sorted[turn].first().copied())
    }

    fn missing(&self, level: Level) -> u32 {
        let since_ns = |level| {
            let oldest = self.oldest(level);
            oldest.map_or(u64::MAX, |at| self.known[at].enqueued_ns)
        };
        let urgent = [Level::Critical, Level::Foreground].map(since_ns);
        if level > Level::Foreground && urgent.iter().any(|&ns| ns < since_ns(level)) {
            return 0;
        }
        let min_active = self.config.levels[level.index()].min_active;
        min_active.saturating_sub(self.active(level))
    }

    fn oldest(&self, level: Level) -> Option<usize> {
        self.by_deadline(|k| k.request.level == level)
    }

    fn all_reserved(&self) -> bool {
        let waiting = Level::ALL
            .into_iter()
            .filter(|&level| self.oldest(level).is_some());
        self.places() <= waiting.map(|level| self.missing(level) as usize).sum()
    }

    fn pick_lanes(&mut self, now_ns: u64) -> Option<usize> {
        if self.places() == 0 {
            return None;
        }
        let waiting = Level::ALL
            .into_iter()
            .filter(|&level| self.oldest(level).is_some());
        let waiting: Vec<Level> = waiting.collect();
        let may_go = |level: &Level| {
            self.missing(*level) > 0 || self.has_room(*level) && !self.all_reserved()
        };
        let normal = waiting.iter().copied().find(may_go);
        let expired = waiting
            .iter()
            .copied()
            .filter(|level| may_go(level) || self.active(*level) == 0)
            .map(|level| {
                (
                    self.known[self.oldest(level).unwrap()].queued().unwrap(),
                    level,
                )
            })
            .filter(|&(deadline_ns, _)| deadline_ns <= now_ns)
            .min()
            .map(|(_, level)| level);
        if let Some(expired) = expired {
            if normal.is_none_or(|normal| normal >= expired) {
                return self.oldest(expired);
            }
            self.since_expired += 1;
            if self.since_expired == EXPIRED_EVERY {
                self.since_expired = 0;
                return self.oldest(expired);
            }
        }
        let level = normal?;
        let oldest = self.oldest(level)?;
        let kind = self.known[oldest].request.kind;
        if !self.config.rotational || kind == Kind::Sync {
            return Some(oldest);
        }
        let sorted = self.by_position(|k| k.request.level == level && k.request.kind == kind);
        let next = self.at_or_after(&sorted, self.lane_position[level.index()]);
        next.or(sorted.first().copied())
    }

    /// The neighbours of `picked`: forward until one does not fit, then
    /// backward.
    fn merge(&self, picked: usize) -> Vec<usize> {
        let request = self.known[picked].request;
        let members_max = self.config.transfer_members_max as usize;
        if request.kind == Kind::Sync {
            return vec![picked];
        }
        let separate = self.config.policy == Policy::Lanes;
        let sorted = self.by_position(|k| {
            k.request.kind == request.kind && (!separate || k.request.level == request.level)
        });
        let levels_matter = separate || self.config.policy == Policy::PrioDeadline;
        let gap_max = match request.kind {
            Kind::Read => u64::from(self.config.merge_gap_bytes_max),
            _ => 0,
        };
        // Whether `left` and `right` may be neighbours in one transfer.
        let adjoin = |left: &Request, right: &Request| {
            left.file == right.file
                && (!levels_matter || left.level == right.level)
                && (end(left)..=end(left) + gap_max).contains(&right.offset)
        };
        let at = sorted.iter().position(|&at| at == picked).unwrap();
        let request = |index: usize| &self.known[sorted[index]].request;
        let fits = |first: usize, last: usize| {
            last - first < members_max
                && end(request(last)) - request(first).offset
                    <= u64::from(self.config.transfer_bytes_max)
        };
        let (mut first, mut last) = (at, at);
        while last + 1 < sorted.len()
            && adjoin(request(last), request(last + 1))
            && fits(first, last + 1)
        {
            last += 1;
        }
        while first > 0 && adjoin(request(first - 1), request(first)) && fits(first - 1, last) {
            first -= 1;
        }
        sorted[first..=last].to_vec()
    }

    fn send(&mut self, picked: usize) -> Sent {
        let members = self.merge(picked);
        let transfer = self.known[members[0]].id;
        let level = members
            .iter()
            .map(|&at| self.known[at].request.level)
            .min()
            .unwrap();
        let (first, last) = (members[0], members[members.len() - 1]);
        let (head, stop) = (self.known[first].request, end(&self.known[last].request));
        for &at in &members {
            self.known[at].state = State::InFlight { transfer };
        }
        self.depart(transfer, level, &head, stop);
        Sent {
            id: transfer,
            level,
            members: members.iter().map(|&at| self.known[at].id).collect(),
        }
    }

    fn depart(&mut self, transfer: RequestId, level: Level, head: &Request, stop: u64) {
        self.flights.push((transfer, level));
        let direction = match head.kind {
            Kind::Sync => return,
            Kind::Read => Direction::Read as usize,
            Kind::Write => Direction::Write as usize,
        };
        if self.writing != (direction == 1) {
            self.writing = direction == 1;
            self.batch = 0;
        }
        self.batch += 1;
        self.position[direction] = (head.file, stop);
        self.lane_position[level.index()] = (head.file, stop);
    }
}
