//! What one setting did while it was in force.

use super::super::pace::{RateScope, RateUnit};
use super::served::Served;
use crate::request::Direction;

/// An epoch has at least so many transfers of the lower levels (of the first ones,
/// which show large differences, a half); where some are much larger than others, as
/// many as say as much.
const LOWER_MIN: u32 = 48;
/// ... the window has passed so many times through the device, ...
const TURNOVERS_MIN: u32 = 4;
/// ... and somebody has waited for so many, unless it has this many times the least
/// number of transfers: then they are too rare to say anything.
const URGENT_MIN: u32 = 24;
const LOWER_MAX: u32 = 16 * LOWER_MIN;
const TRANSFERS_MAX: u32 = 4 * LOWER_MIN;
/// It lasts so many times the longest time that usually passes without a completion:
/// devices announce what is done in rounds.
const ROUNDS_MIN: f64 = 8.0;
/// That longest time is forgotten by this factor with each epoch.
pub(super) const GAP_KEEP: f64 = 0.8;
/// Under a pace, and where one is compared with none, no shorter than this, nor cut short
/// before: a budget is one of a tenth of a second, and what exceeds it is felt at the
/// end of that.
pub(super) const PACED_NS_MIN: u64 = 300_000_000;
/// And no longer, however slow the device is.
const NS_MAX: u64 = 2_000_000_000;
/// Of `n` completions at random the longest gap is ln(n) times the mean one: a device with
/// one of so many times that stalls.
const STALLS: f64 = 3.0;
/// The length of that queue is a moving average over so many transfers, and begins with that of
/// the first so many.
const BACKLOG_TRANSFERS: u32 = 16;
/// Of what they owe at least this part of their work is left: a burst is no queue.
const OWED_LEFT: f64 = 0.25;
/// A request's work is its bytes and so many more.
const REQUEST_BYTES: f64 = 16_384.0;

/// Latencies, the long ones counting more: the root of their mean square.
#[derive(Clone, Copy, Debug, Default)]
struct Latencies {
    count: u32,
    squares: f64,
}

impl Latencies {
    fn add(&mut self, ns: f64) {
        self.count += 1;
        self.squares += ns * ns;
    }

    fn ln(&self, least: u32) -> Option<f64> {
        (self.count >= least).then(|| (self.squares / f64::from(self.count)).max(1.0).ln() / 2.0)
    }
}

/// What is known at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// Logarithm of the lower levels' work per time in which they had something outstanding.
    pub work: f64,
    /// And per time.
    pub work_in_all: f64,
    /// Logarithm of what somebody waited, if enough did.
    pub urgent: Option<f64>,
    /// And of what transfers of the lower levels took.
    pub lower: Option<f64>,
    /// How many of these there were.
    pub lower_transfers: f64,
    /// The share of the lower levels' completions at which nobody waited for anything.
    pub calm: f64,
    /// What somebody waits for, outstanding on average.
    pub backlog: f64,
    /// When it ended.
    pub last_ns: u64,
    pub elapsed_ns: f64,
    /// The longest time between two completions.
    pub gap_ns: f64,
    pub served: Served,
}

impl Seen {
    pub(super) fn transfers(&self) -> f64 {
        self.served.amount(RateUnit::Transfers, RateScope::Both)
    }

    /// Whether the device stops now and then, as a volume does whose budget is used up.
    pub(super) fn stalls(&self) -> bool {
        let mean_ns = self.elapsed_ns / self.transfers().max(1.0);
        self.gap_ns > STALLS * mean_ns * self.transfers().max(std::f64::consts::E).ln()
    }
}

/// How much an epoch has to see.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Transfers that fill the window.
    pub in_flight: u32,
    /// The longest time that usually passes without a completion.
    pub gap_ns: f64,
    pub is_paced: bool,
    /// A first look.
    pub is_first: bool,
    /// Only how much is outstanding of what somebody waits for.
    pub is_sounding: bool,
    /// It may last so long.
    pub ns_max: f64,
}

/// A finished transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    pub direction: Direction,
    /// With its time in the queue, if somebody waited for it.
    pub latency_ns: f64,
    pub bytes: f64,
    pub requests: f64,
    pub urgent: bool,
    /// What somebody waits for, outstanding after it.
    pub backlog: u32,
}

/// One that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    begin_ns: u64,
    last_ns: u64,
    gap_ns: u64,
    /// Completions still to come until the setting is felt: what was in flight when
    /// it came into force, and a windowful.
    settling: u32,
    /// And until when what was queued then may wait.
    settled_ns: u64,
    /// Completions still to come of what went while another setting was in force.
    skipping: u32,
    /// What somebody waits for was so much when it began, and last.
    backlog: (f64, f64),
    urgent_work: f64,
    /// Since when the lower levels do nothing, and for how long they did in all.
    idle_ns: Option<u64>,
    idled_ns: u64,
    transfers: u32,
    calm: u32,
    served: Served,
    work: f64,
    work_squares: f64,
    urgent: Latencies,
    lower: Latencies,
}

impl Epoch {
    /// It begins when `settling` transfers have ended, and not before `settled_ns`.
    pub(super) fn new(now_ns: u64, settling: u32, settled_ns: u64) -> Epoch {
        Epoch {
            begin_ns: now_ns,
            last_ns: now_ns,
            gap_ns: 0,
            settling,
            settled_ns,
            skipping: 0,
            backlog: (0.0, 0.0),
            urgent_work: 0.0,
            idle_ns: None,
            idled_ns: 0,
            transfers: 0,
            calm: 0,
            served: Served::default(),
            work: 0.0,
            work_squares: 0.0,
            urgent: Latencies::default(),
            lower: Latencies::default(),
        }
    }

    /// Its setting was not in force for so long; the next `transfers` are of another one.
    pub(super) fn skip(&mut self, elapsed_ns: u64, transfers: u32) {
        self.begin_ns += elapsed_ns;
        self.last_ns += elapsed_ns;
        // What passed in that time is not the lower levels' pause as well.
        if let Some(idle_ns) = &mut self.idle_ns {
            *idle_ns += elapsed_ns;
        }
        self.skipping = transfers;
    }

    /// The lower levels have nothing outstanding.
    pub(super) fn pause(&mut self, now_ns: u64) {
        self.idle_ns.get_or_insert(now_ns);
    }

    /// They have again.
    pub(super) fn resume(&mut self, now_ns: u64) {
        if let Some(idle_ns) = self.idle_ns.take() {
            let idle_ns = now_ns.saturating_sub(idle_ns);
            self.begin_ns += idle_ns;
            self.last_ns += idle_ns;
            self.idled_ns += idle_ns;
        }
    }

    /// Notes a completion while the lower levels have something outstanding.
    pub(super) fn completed(&mut self, now_ns: u64, finished: &Finished) {
        // Something may wait that nothing has gone of.
        self.resume(now_ns);
        let gap_ns = now_ns.saturating_sub(self.last_ns);
        self.last_ns = now_ns;
        if self.skipping > 0 {
            self.skipping -= 1;
            self.begin_ns += gap_ns;
            return;
        }
        let backlog = f64::from(finished.backlog);
        self.backlog.1 += (backlog - self.backlog.1) / f64::from(BACKLOG_TRANSFERS);
        if self.settling > 0 || now_ns < self.settled_ns {
            self.settling = self.settling.saturating_sub(1);
            self.begin_ns = now_ns;
            self.idled_ns = 0;
            self.backlog = (backlog, backlog);
            return;
        }
        if self.transfers < BACKLOG_TRANSFERS {
            self.backlog.0 = self.backlog.1;
        }
        self.gap_ns = self.gap_ns.max(gap_ns);
        let work = finished.bytes + REQUEST_BYTES * finished.requests;
        self.transfers += 1;
        self.served.add(0, finished.direction, finished.bytes);
        if !finished.urgent {
            self.calm += u32::from(finished.backlog == 0);
            self.work += work;
            self.work_squares += work * work;
            self.lower.add(finished.latency_ns);
            return;
        }
        self.urgent_work += work;
        self.urgent.add(finished.latency_ns);
    }

    /// What it has seen, if that is enough. It ends with the last completion
    /// before now, so that of several that were announced together it has
    /// either all or none.
    pub(super) fn end(&self, now_ns: u64, wanted: &Wanted) -> Option<Seen> {
        let least_ns = if wanted.is_paced {
            PACED_NS_MIN
        } else {
            (ROUNDS_MIN * wanted.gap_ns.max(self.gap_ns as f64)) as u64
        };
        let parts = if wanted.is_first { 2 } else { 1 };
        let elapsed_ns = self.last_ns.saturating_sub(self.begin_ns);
        let enough = elapsed_ns >= least_ns
            && self.is_telling(parts)
            && self.transfers >= TURNOVERS_MIN / parts * wanted.in_flight
            && (self.urgent.count >= URGENT_MIN / parts
                || self.transfers >= TRANSFERS_MAX / parts && !self.is_held_up())
            || wanted.is_sounding && self.transfers >= URGENT_MIN;
        if now_ns == self.last_ns
            || !enough && elapsed_ns < NS_MAX.min(PACED_NS_MIN.max(wanted.ns_max as u64))
        {
            return None;
        }
        let elapsed_ns = elapsed_ns.max(1) as f64;
        Some(Seen {
            work: (self.lasting_work() / elapsed_ns).ln(),
            work_in_all: (self.lasting_work() / (elapsed_ns + self.idled_ns as f64)).ln(),
            urgent: self.waited(elapsed_ns),
            lower: self.lower.ln(1),
            lower_transfers: f64::from(self.lower.count),
            calm: f64::from(self.calm) / f64::from(self.lower.count.max(1)),
            backlog: self.backlog.1,
            last_ns: self.last_ns,
            elapsed_ns,
            gap_ns: self.gap_ns as f64,
            served: self.served,
        })
    }

    /// What somebody waited. Where hardly anything ended, what is still outstanding has
    /// waited for all of the epoch.
    fn waited(&self, elapsed_ns: f64) -> Option<f64> {
        if !self.is_held_up() {
            return self.urgent.ln(URGENT_MIN / 2);
        }
        let mut urgent = self.urgent;
        urgent.add(elapsed_ns);
        urgent.ln(1)
    }

    /// Somebody waits all the while, and hardly anything that somebody waits for ends:
    /// a short epoch would take the wait for no longer than itself.
    fn is_held_up(&self) -> bool {
        self.urgent.count < URGENT_MIN / 2 && self.backlog.1 >= 0.5
    }

    /// Whether enough of the lower levels' transfers have ended: the square of a sum over
    /// the sum of squares is how many of the same size say as much (Kish's effective
    /// sample size).
    fn is_telling(&self, parts: u32) -> bool {
        let effective = self.work * self.work / self.work_squares.max(1.0);
        effective >= f64::from(LOWER_MIN) / f64::from(parts) || self.lower.count >= LOWER_MAX
    }

    /// The lower levels' work, less what they owe to a foreground whose queue has grown
    /// meanwhile: that will have to be done, and they would not have had the device for
    /// it. One that has become shorter they have helped to serve.
    fn lasting_work(&self) -> f64 {
        let (before, after) = self.backlog;
        let each = self.urgent_work / f64::from(self.urgent.count.max(1));
        let owed = (after - before) * each;
        (self.work - owed)
            .max(OWED_LEFT * self.work)
            .max(REQUEST_BYTES / 2.0)
    }
}
