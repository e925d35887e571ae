//! Finds the knee: the amount in flight beyond which more of it buys latency
//! and little throughput.
//!
//! Two windows are compared in turn, the one in use and a larger one. Their
//! throughputs X and the mean amounts in flight L (by Little's law, throughput
//! x latency: what really was in flight, which whole transfers and the
//! foreground's pauses make differ from the window) give the elasticity
//! `e = ln(X' / X) / ln(L' / L)`: the percentage of throughput that one percent
//! more in flight brings, at the cost of `1 - e` percent of latency. The window
//! rises while `e` is above its target and falls while it is below. A target of
//! 0.15 maximises X^5.7 / R (throughput X, latency R): Kleinrock's power, with
//! throughput counting nearly six times as much as latency, as a device that
//! idles helps nobody. Nothing is assumed of the device's inside: it works for one
//! head, parallel flash, a hypervisor that serves batches, and a volume with a
//! rate limit, where it ends at the smallest window that reaches the limit.
//! Comparing neighbours in time cancels a noisy neighbour's slow drift. The
//! smaller window is the one in use, so that probing adds latency only while it
//! lasts, and that is rare once the window has settled. At the start the larger
//! window is twice the one in use, and becomes it at once as long as it obviously
//! pays: a scan may last a second.
//!
//! The alternative, bandwidth x shortest latency (BBR's rule), is not enough on
//! disks whose latency rises from the first request on: 50,000 reads a second
//! at 52 us alone make 2.6 in flight, where such a disk was measured to do half
//! of that rate.

use super::comparisons::{Comparisons, Point, Tally};
use super::shortest::Shortest;

/// How far a mean must be from the target before the window moves, in parts
/// of the target.
const MARGIN: f64 = 0.25;
/// Ratio of the compared windows.
const PROBE: f64 = 1.35;
/// And at the start, when one comparison is enough for a move, until the first
/// that does not make it obvious that there is far to go: TCP's slow start.
const PROBE_AT_START: f64 = 2.0;
/// Ratio of a move, as logarithm: 1.35 at the most. Halved at each turn, down to
/// 1.05, and doubled when it goes the same way for the third time.
const STEP_LN_MAX: f64 = 0.3;
const STEP_LN_MIN: f64 = 0.05;
/// A move after an obvious comparison is at least this (1.15).
const STEP_LN_OBVIOUS: f64 = 0.14;
/// Moves the same way after which it is under way, not about there.
const UNDER_WAY: u32 = 3;
/// Comparisons before a move, at the least.
const COMPARISONS_MIN: usize = 3;
/// Fewer are enough if what they say is this far off.
const OBVIOUS: f64 = 0.4;
const OBVIOUS_COMPARISONS: usize = 2;
/// In any case it must be off by this many standard errors. A wrong move is
/// found out at the next window; waiting for certainty takes longer.
const NOISE_ERRORS: f64 = 1.0;
/// Up to this many times what it takes at the least window, the foreground's
/// mean latency may grow at the usual price. With 3, a virtual disk's 99th
/// percentile over minutes was 1.7 times that with 2, for 10 % more throughput.
const SLOWDOWN: f64 = 2.0;
/// Beyond this strictness (nearly four times) the window does not
/// rise, unless that is nearly free.
const STRICTNESS_MAX: f64 = 1.6;
/// An elasticity from which on more in flight is nearly free: so much of it
/// becomes throughput that latency hardly grows. Strictness ends here.
const NEARLY_FREE: f64 = 0.8;
/// A window that was obviously too small is not tried again for so long: where
/// one transfer more or less decides, it would be in use half of the time.
const TOO_SMALL_NS: u64 = 10_000_000_000;
/// Between two rests: what the foreground takes without the others is measured
/// anew, as BBR measures its shortest round trip.
const REST_EVERY_NS: u64 = 10_000_000_000;
/// A rest sees so many requests that somebody waits for, or takes so long.
const REST_URGENT: f64 = 24.0;
const REST_NS_MAX: u64 = 100_000_000;
/// Fewer say nothing of the mean.
const URGENT_MIN: f64 = 8.0;
/// What takes this many times less than usual did not reach the device: a hit
/// in the page cache says nothing of what the device can do.
const CACHE_HIT: f64 = 16.0;
/// Comparisons without a lasting move after which probing becomes rare.
const CALM_AFTER: u32 = 16;
/// And how near the mean must be to the target: noise alone is no calm.
const CALM_WITHIN: f64 = 0.1;
/// When calm, this many epochs for each probing one. Fewer than one in a
/// hundred, so that even the 99th percentile does not see them.
const CALM_EPOCHS: u32 = 127;
/// A change of throughput or size by this factor, in this many epochs
/// running, ends the calm.
const CHANGE: f64 = 1.3;
const CHANGED_EPOCHS: u32 = 3;

/// Shortest and longest time to measure one window.
const EPOCH_NS_MIN: u64 = 8_000_000;
const EPOCH_NS_MAX: u64 = 500_000_000;
/// Transfers that make an epoch, unless the longest time passes first.
const EPOCH_TRANSFERS: f64 = 150.0;
/// And how often the whole window must have passed through the device.
const EPOCH_TURNOVERS: f64 = 12.0;

/// Most transfers the window can reach.
const TRANSFERS_MAX: f64 = 512.0;
/// Where the window begins, in multiples of its least.
const START: f64 = 4.0;

/// Which of the compared windows is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Use,
    Probe,
    /// The least window, to see what the foreground takes without the others.
    Rest,
}

/// What an epoch has seen so far.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    begin_ns: u64,
    last_ns: u64,
    /// Completions still to come of what was in flight when it began: they
    /// were sent under another window.
    settling: u32,
    transfers: f64,
    bytes: f64,
    cost: f64,
    cost_x_latency_ns: f64,
    latency_ns: f64,
    /// Transfers that somebody waited for, and their latencies' sum.
    urgent: f64,
    urgent_latency_ns: f64,
}

/// One transfer that has completed.
pub(crate) struct Completed {
    pub latency_ns: f64,
    pub cost: f64,
    pub bytes: f64,
    /// Whether somebody waited for it.
    pub urgent: bool,
}

/// One finished epoch in which the lower levels used the window.
pub(crate) struct Measured {
    pub elapsed_ns: f64,
    pub transfers: f64,
    pub bytes: f64,
    /// In cost / ns.
    pub throughput: f64,
    /// Transfers in flight on average, and their cost.
    pub in_flight: f64,
    pub cost_in_flight: f64,
    /// The window was [the least](Knee::limit), to see what it does to others.
    pub is_rest: bool,
}

/// What was the case when the window had settled.
#[derive(Clone, Copy, Debug)]
struct Calm {
    throughput: f64,
    typical: f64,
    changed_epochs: u32,
}

/// The learning window, in units of cost.
#[derive(Clone, Debug)]
pub(crate) struct Knee {
    /// The elasticity at which the window stays as it is.
    target: f64,
    /// Transfers below which it never falls, beside what others have in flight.
    least: f64,
    /// What that costs. It takes from the window; one that it fills is as small as
    /// one can be, and all that are smaller are the same.
    others: f64,
    window: f64,
    /// More is never in use.
    most: f64,
    /// No comparison has yet said that it is far enough.
    starting: bool,
    phase: Phase,
    epoch: Option<Epoch>,
    /// Mean cost of a transfer of the lower levels.
    typical: f64,
    /// Throughput of the last epoch of each phase.
    used: Option<Point>,
    probed: Option<Point>,
    comparisons: Comparisons,
    /// Logarithms of how many times its least the foreground takes.
    slowdown: Tally,
    /// Least mean latency of the foreground in an epoch lately. Single requests
    /// say little: a few are served from a cache of the device or below it.
    urgent_least: Shortest,
    rested_ns: Option<u64>,
    /// A window that was obviously too small, and when.
    too_small: Option<(f64, u64)>,
    /// Moving average of what the foreground waits.
    urgent_usual_ns: f64,
    still: u32,
    /// Direction of the last move, how many went that way, and how far.
    rose: Option<bool>,
    same_way: u32,
    step_ln: f64,
    calm: Option<Calm>,
    calm_epochs: u32,
}

impl Knee {
    /// `typical`: cost of a usual transfer; `least`: transfers that may always
    /// be in flight.
    pub(crate) fn new(typical: f64, target: f64, least: f64) -> Knee {
        Knee {
            target,
            least,
            others: 0.0,
            window: START * least * typical,
            most: f64::INFINITY,
            starting: true,
            phase: Phase::Use,
            epoch: None,
            typical,
            used: None,
            probed: None,
            comparisons: Comparisons::default(),
            slowdown: Tally::default(),
            urgent_least: Shortest::new(),
            rested_ns: None,
            too_small: None,
            urgent_usual_ns: 0.0,
            still: 0,
            rose: None,
            same_way: 0,
            step_ln: STEP_LN_MAX,
            calm: None,
            calm_epochs: 0,
        }
    }

    /// The window in use, in transfers of the typical cost.
    pub(crate) fn transfers(&self) -> f64 {
        let least = self.least();
        let most = TRANSFERS_MAX.min(self.most / self.typical);
        (self.window / self.typical).clamp(least, most.max(least))
    }

    fn least(&self) -> f64 {
        self.least + self.others / self.typical
    }

    /// Notes what others have in flight.
    pub(crate) fn beside(&mut self, others: f64) {
        self.others = others;
    }

    /// Limits the window to this cost, or not any more.
    pub(crate) fn limit_to(&mut self, most: Option<f64>) {
        self.most = most.unwrap_or(f64::INFINITY);
    }

    /// Least mean latency lately of what somebody waits for.
    pub(crate) fn urgent_least_ns(&self) -> Option<u64> {
        self.urgent_least.get()
    }

    /// The window in force, in units of cost.
    pub(crate) fn limit(&self) -> f64 {
        let transfers = match self.phase {
            Phase::Use => self.transfers(),
            Phase::Probe => self.larger(),
            Phase::Rest => self.least(),
        };
        transfers * self.typical
    }

    /// Whether a larger window is being tried, and this much in flight is more
    /// than the one in use allows.
    pub(crate) fn probes_beyond(&self, in_flight: f64) -> bool {
        self.phase == Phase::Probe && in_flight > self.transfers() * self.typical
    }

    /// Mean cost of a transfer of the lower levels.
    pub(crate) fn typical(&self) -> f64 {
        self.typical
    }

    /// Forgets the running epoch: its time does not count, because the lower
    /// levels did not use the window or a rate limit held them back.
    ///
    /// A probe that is never filled would otherwise stay in force for ever:
    /// what there is to send fits into the larger window.
    pub(crate) fn interrupt(&mut self) {
        let epoch = self.epoch.take();
        if self.phase == Phase::Rest {
            self.phase = Phase::Use;
            self.rested_ns = epoch.map(|epoch| epoch.last_ns).or(self.rested_ns);
        }
        if self.phase == Phase::Probe {
            self.phase = Phase::Use;
            self.still += 1;
            self.rest();
        }
    }

    /// Notes a transfer of a lower level.
    pub(crate) fn departed(&mut self, cost: f64) {
        self.typical += (cost - self.typical) / 32.0;
    }

    /// Notes a completion while the lower levels have more to send. Returns
    /// the epoch if this ended one.
    pub(crate) fn completed(
        &mut self,
        now_ns: u64,
        in_flight: u32,
        transfer: &Completed,
    ) -> Option<Measured> {
        let measured = self.end_epoch(now_ns, in_flight);
        let Some(epoch) = &mut self.epoch else {
            self.begin_epoch(now_ns, in_flight);
            return measured;
        };
        epoch.last_ns = now_ns;
        if epoch.settling > 0 {
            epoch.settling -= 1;
            epoch.begin_ns = now_ns;
            return measured;
        }
        epoch.transfers += 1.0;
        epoch.bytes += transfer.bytes;
        epoch.cost += transfer.cost;
        epoch.cost_x_latency_ns += transfer.cost * transfer.latency_ns;
        epoch.latency_ns += transfer.latency_ns;
        if transfer.urgent {
            self.urgent_usual_ns += (transfer.latency_ns - self.urgent_usual_ns) / 64.0;
        }
        if transfer.urgent && transfer.latency_ns * CACHE_HIT > self.urgent_usual_ns {
            epoch.urgent += 1.0;
            epoch.urgent_latency_ns += transfer.latency_ns;
        }
        measured
    }

    fn begin_epoch(&mut self, now_ns: u64, settling: u32) {
        self.epoch = Some(Epoch {
            begin_ns: now_ns,
            last_ns: now_ns,
            settling,
            ..Epoch::default()
        });
    }

    /// Ends the epoch if it has seen enough. It ends with the last completion
    /// before now, so that of several that were announced together it has
    /// either all or none: a part would be a large error in a short epoch.
    fn end_epoch(&mut self, now_ns: u64, in_flight: u32) -> Option<Measured> {
        let epoch = self.epoch?;
        let elapsed_ns = epoch.last_ns - epoch.begin_ns;
        let enough = elapsed_ns >= EPOCH_NS_MIN
            && if self.phase == Phase::Rest {
                epoch.urgent >= REST_URGENT || elapsed_ns >= REST_NS_MAX
            } else {
                epoch.transfers >= EPOCH_TRANSFERS && epoch.cost >= EPOCH_TURNOVERS * self.limit()
            };
        if now_ns == epoch.last_ns || epoch.transfers < 1.0 || !enough && elapsed_ns < EPOCH_NS_MAX
        {
            return None;
        }
        let elapsed_ns = elapsed_ns as f64;
        let urgent_latency_ns =
            (epoch.urgent >= URGENT_MIN).then(|| epoch.urgent_latency_ns / epoch.urgent);
        if let Some(mean) = urgent_latency_ns {
            self.urgent_least.add(now_ns, mean as u64);
        }
        let point = Point {
            throughput: epoch.cost / elapsed_ns,
            in_flight: epoch.cost_x_latency_ns / elapsed_ns,
            urgent_latency_ns,
        };
        let is_rest = self.phase == Phase::Rest;
        self.judge(now_ns, point);
        self.begin_epoch(now_ns, in_flight);
        Some(Measured {
            elapsed_ns,
            transfers: epoch.transfers,
            bytes: epoch.bytes,
            throughput: point.throughput,
            in_flight: epoch.latency_ns / elapsed_ns,
            cost_in_flight: point.in_flight,
            is_rest,
        })
    }

    /// Takes what a finished epoch says, and chooses the next window.
    fn judge(&mut self, now_ns: u64, point: Point) {
        match self.phase {
            Phase::Use => (),
            Phase::Probe => {
                self.probed = Some(point);
                self.phase = Phase::Use;
                return;
            }
            Phase::Rest => {
                self.rested_ns = Some(now_ns);
                self.phase = Phase::Use;
                return;
            }
        }
        // The probe between two epochs in use is compared with both.
        let before = self.used.replace(point);
        if let (Some(before), Some(probed)) = (before, self.probed.take()) {
            let used = Point {
                throughput: (before.throughput * point.throughput).sqrt(),
                in_flight: (before.in_flight * point.in_flight).sqrt(),
                ..point
            };
            self.compare(now_ns, used, probed);
        }
        self.wake_if_changed(point.throughput);
        let rested = self.rested_ns;
        if point.urgent_latency_ns.is_some()
            && rested.is_none_or(|then| now_ns.saturating_sub(then) > REST_EVERY_NS)
        {
            // What comes after it is far from what came before.
            self.used = None;
            self.phase = Phase::Rest;
            return;
        }
        if self.calm.is_some() && self.calm_epochs < CALM_EPOCHS {
            self.calm_epochs += 1;
        } else {
            self.calm_epochs = 0;
            self.phase = Phase::Probe;
        }
    }

    fn wake_if_changed(&mut self, throughput: f64) {
        let typical = self.typical;
        let Some(calm) = &mut self.calm else { return };
        let factor = |a: f64, b: f64| (a / b).max(b / a);
        if factor(throughput, calm.throughput) < CHANGE && factor(typical, calm.typical) < CHANGE {
            calm.changed_epochs = 0;
            return;
        }
        calm.changed_epochs += 1;
        if calm.changed_epochs >= CHANGED_EPOCHS {
            self.wake();
        }
    }

    /// Looks for the right window anew.
    pub(crate) fn wake(&mut self) {
        self.calm = None;
        self.still = 0;
        self.comparisons = Comparisons::default();
        self.rose = None;
        self.step_ln = STEP_LN_MAX;
    }

    /// Takes one comparison.
    fn compare(&mut self, now_ns: u64, point: Point, probed: Point) {
        let used = self.transfers();
        self.comparisons.add(point, probed);
        let (elasticity, error) = self.comparisons.elasticity();
        let strictness = self.strictness(&point);
        let target = (self.target * strictness).min(self.target.max(NEARLY_FREE));
        let excess = elasticity - target;
        if self.starting {
            self.starting = excess > OBVIOUS;
            if self.starting {
                self.move_to(self.larger());
            } else {
                // Of the usual ratio from now on.
                self.comparisons = Comparisons::default();
            }
            return;
        }
        // Noise asks for more comparisons, up to all that are kept.
        let noise = NOISE_ERRORS * error;
        let beyond = |margin: f64| excess.abs() > margin.max(noise);
        let sure = self.comparisons.count() >= COMPARISONS_MIN && beyond(MARGIN * target);
        let obvious = self.comparisons.count() >= OBVIOUS_COMPARISONS && beyond(OBVIOUS);
        let bottom = excess < 0.0 && self.smaller(now_ns, used) == used;
        // Noise must not carry the window where the foreground suffers.
        let enough = excess > 0.0 && strictness > STRICTNESS_MAX && elasticity < NEARLY_FREE;
        if (sure || obvious) && !bottom && !enough {
            self.step(now_ns, used, excess > 0.0, obvious);
            return;
        }
        self.still += 1;
        if excess.abs() < CALM_WITHIN || bottom {
            self.rest();
        }
    }

    /// Probes rarely from now on, if nothing has moved for long enough.
    fn rest(&mut self) {
        if self.still >= CALM_AFTER
            && self.calm.is_none()
            && let Some(Point { throughput, .. }) = self.used
        {
            self.calm = Some(Calm {
                throughput,
                typical: self.typical,
                changed_epochs: 0,
            });
        }
    }

    /// How much more throughput than usual a larger window must bring, because
    /// what somebody waits for takes much longer than at the least window already.
    /// Without it the window wanders off where throughput rises slowly but
    /// steadily, on disks that amortise their overhead over large batches.
    fn strictness(&mut self, point: &Point) -> f64 {
        let Some((mean, least)) = point.urgent_latency_ns.zip(self.urgent_least.get()) else {
            return 1.0;
        };
        self.slowdown.add((mean / least.max(1) as f64).ln());
        (self.slowdown.middle().exp() / SLOWDOWN).max(1.0).powi(2)
    }

    /// The next smaller window that is worth a try, or `used`.
    fn smaller(&self, now_ns: u64, used: f64) -> f64 {
        let next = (used / self.step_ln.exp())
            .min(used - 0.5)
            .max(self.least());
        let too_small = self
            .too_small
            .filter(|&(window, then)| next <= window && now_ns.saturating_sub(then) < TOO_SMALL_NS);
        if too_small.is_some() {
            used
        } else {
            next.min(used)
        }
    }

    fn step(&mut self, now_ns: u64, used: f64, up: bool, obvious: bool) {
        if up && obvious {
            self.too_small = Some((used, now_ns));
        }
        if self.rose == Some(up) {
            self.same_way += 1;
        } else {
            if self.rose.is_some() {
                self.step_ln = (self.step_ln / 2.0).max(STEP_LN_MIN);
            }
            self.same_way = 1;
        }
        self.rose = Some(up);
        if self.same_way >= UNDER_WAY {
            self.step_ln = (self.step_ln * 2.0).min(STEP_LN_MAX);
            self.calm = None;
            self.still = 0;
        } else {
            self.still += 2;
        }
        if obvious {
            self.calm = None;
            self.still = 0;
        }
        let step_ln = if obvious {
            self.step_ln.max(STEP_LN_OBVIOUS)
        } else {
            self.step_ln
        };
        // A window of a few transfers moves by whole ones.
        let whole = if step_ln == STEP_LN_MAX { 1.0 } else { 0.5 };
        let next = if up {
            (used * step_ln.exp()).max(used + whole)
        } else {
            (used / step_ln.exp()).min(used - whole)
        };
        self.move_to(next);
    }

    fn move_to(&mut self, transfers: f64) {
        self.window = transfers.clamp(self.least, TRANSFERS_MAX) * self.typical;
        // What was measured at the old window says little about the new one.
        self.used = None;
        self.comparisons = Comparisons::default();
        self.slowdown = Tally::default();
    }

    /// The window that is compared with the one in use.
    fn larger(&self) -> f64 {
        let used = self.transfers();
        let ratio = if self.starting { PROBE_AT_START } else { PROBE };
        (used * ratio).max(used + 1.0)
    }
}
