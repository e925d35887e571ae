//! Finds the knee: the amount in flight beyond which more of it buys latency
//! and little throughput.
//!
//! Two windows are compared in turn, the one in use and a smaller one, so that
//! probing never adds latency. Their throughputs give the elasticity
//! `e = ln(X / X') / ln(W / W')`: the percentage of throughput that one percent
//! of window brings. By Little's law latency grows by `1 - e` percent for it.
//! The window rises while `e` is above its target and falls while it is
//! below. A target of 0.2 maximises X^4 / R (throughput X, latency R):
//! Kleinrock's power, with throughput counting four times as much as latency,
//! as a device that idles helps nobody. Nothing is assumed of the device's inside: it works for
//! one head, parallel flash, a hypervisor that serves batches, and a volume
//! with a rate limit, where it ends at the smallest window that reaches the
//! limit. Comparing neighbours in time cancels a noisy neighbour's slow drift.
//!
//! The alternative, bandwidth x shortest latency (BBR's rule), was measured
//! too: on disks whose latency rises from the first request on, it stops at a
//! third of the throughput.

/// How far a mean must be from it before the window moves.
const MARGIN: f64 = 0.04;
/// Ratio of the compared windows, and the step of a move.
const STEP: f64 = 1.35;
/// Comparisons averaged, at the least, before a move.
const COMPARISONS_MIN: u32 = 3;
/// One comparison alone moves the window if it is this far off.
const OBVIOUS: f64 = 0.45;
/// Comparisons without a move after which probing becomes rare.
const CALM_AFTER: u32 = 12;
/// At a window of one transfer, comparisons until two are tried again.
const RETRY_AFTER: u32 = 64;
/// When calm, this many epochs at the full window for each probing one.
const CALM_EPOCHS: u32 = 16;
/// A change of throughput or cost by this factor ends the calm.
const CHANGE: f64 = 1.25;

/// Shortest and longest time to measure one window.
const EPOCH_NS_MIN: u64 = 8_000_000;
const EPOCH_NS_MAX: u64 = 500_000_000;
/// Transfers that make an epoch, unless the longest time passes first.
const EPOCH_TRANSFERS: f64 = 150.0;

/// Most transfers the window can reach.
const TRANSFERS_MAX: f64 = 512.0;
const TRANSFERS_START: f64 = 4.0;

/// Which of the compared windows is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Full,
    Less,
}

/// What an epoch has seen so far.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    begin_ns: u64,
    /// Completions still to come of what was in flight when it began: they
    /// were sent under another window.
    settling: u32,
    transfers: f64,
    bytes: f64,
    cost_ns: f64,
}

/// One finished epoch, for the cost model.
pub(crate) struct Measured {
    pub elapsed_ns: f64,
    pub transfers: f64,
    pub bytes: f64,
}

/// The learning window, in nanoseconds of predicted device time.
#[derive(Clone, Debug)]
pub(crate) struct Knee {
    /// The elasticity at which the window stays as it is.
    target: f64,
    window_ns: f64,
    probe: Probe,
    epoch: Option<Epoch>,
    /// Mean cost of a transfer of the lower levels.
    typical_ns: f64,
    /// Throughput of the last epoch at the full window, and of the probe
    /// after it.
    full: Option<f64>,
    less: Option<f64>,
    mean: f64,
    comparisons: u32,
    still: u32,
    /// Direction of the last move.
    rose: Option<bool>,
    calm_epochs: u32,
    /// Throughput and typical cost when the calm began.
    calm: Option<(f64, f64)>,
}

impl Knee {
    pub(crate) fn new(cost_ns: f64, target: f64) -> Knee {
        Knee {
            target,
            window_ns: TRANSFERS_START * cost_ns,
            probe: Probe::Full,
            epoch: None,
            typical_ns: cost_ns,
            full: None,
            less: None,
            mean: 0.0,
            comparisons: 0,
            still: 0,
            rose: None,
            calm_epochs: 0,
            calm: None,
        }
    }

    /// The window in force, in transfers of the typical cost.
    pub(crate) fn transfers(&self) -> f64 {
        let full = (self.window_ns / self.typical_ns).clamp(1.0, TRANSFERS_MAX);
        match self.probe {
            Probe::Full => full,
            Probe::Less => lesser(full),
        }
    }

    /// The window in force, in predicted device time.
    pub(crate) fn limit_ns(&self) -> f64 {
        self.transfers() * self.typical_ns
    }

    /// Mean cost of a transfer of the lower levels.
    pub(crate) fn typical_ns(&self) -> f64 {
        self.typical_ns
    }

    /// Forgets the running epoch: its time does not count, because the lower
    /// levels did not use the window or a rate limit held them back.
    pub(crate) fn interrupt(&mut self) {
        self.epoch = None;
    }

    /// Notes a transfer of a lower level.
    pub(crate) fn departed(&mut self, cost_ns: f64) {
        self.typical_ns += (cost_ns - self.typical_ns) / 32.0;
    }

    /// Notes a completion while the lower levels have more to send. Returns
    /// the epoch if this ended one.
    pub(crate) fn completed(
        &mut self,
        now_ns: u64,
        in_flight: u32,
        cost_ns: f64,
        bytes: f64,
    ) -> Option<Measured> {
        let Some(epoch) = &mut self.epoch else {
            self.epoch = Some(Epoch {
                begin_ns: now_ns,
                settling: in_flight,
                ..Epoch::default()
            });
            return None;
        };
        if epoch.settling > 0 {
            epoch.settling -= 1;
            epoch.begin_ns = now_ns;
            return None;
        }
        epoch.transfers += 1.0;
        epoch.bytes += bytes;
        epoch.cost_ns += cost_ns;
        let elapsed_ns = now_ns - epoch.begin_ns;
        let enough = elapsed_ns >= EPOCH_NS_MIN && epoch.transfers >= EPOCH_TRANSFERS;
        if !enough && elapsed_ns < EPOCH_NS_MAX {
            return None;
        }
        let measured = Measured {
            elapsed_ns: elapsed_ns as f64,
            transfers: epoch.transfers,
            bytes: epoch.bytes,
        };
        let throughput = epoch.cost_ns / elapsed_ns as f64;
        self.epoch = Some(Epoch {
            begin_ns: now_ns,
            settling: in_flight,
            ..Epoch::default()
        });
        self.judge(throughput);
        Some(measured)
    }

    /// Takes the throughput of a finished epoch, and chooses the next window.
    fn judge(&mut self, throughput: f64) {
        match self.probe {
            Probe::Full => {
                // The probe between two full epochs is compared with both.
                if let (Some(before), Some(less)) = (self.full, self.less.take()) {
                    self.compare((before * throughput).sqrt() / less);
                }
                self.full = Some(throughput);
                self.wake_if_changed(throughput);
                if self.calm.is_some() && self.calm_epochs < CALM_EPOCHS {
                    self.calm_epochs += 1;
                } else {
                    self.calm_epochs = 0;
                    self.probe = Probe::Less;
                }
            }
            Probe::Less => {
                self.less = Some(throughput);
                self.probe = Probe::Full;
            }
        }
    }

    fn wake_if_changed(&mut self, throughput: f64) {
        let Some((then, typical_ns)) = self.calm else {
            return;
        };
        let factor = |a: f64, b: f64| (a / b).max(b / a);
        if factor(throughput, then) > CHANGE || factor(self.typical_ns, typical_ns) > CHANGE {
            self.calm = None;
            self.still = 0;
        }
    }

    /// Takes one comparison: throughput at the full window / at the lesser.
    fn compare(&mut self, ratio: f64) {
        let full = (self.window_ns / self.typical_ns).clamp(1.0, TRANSFERS_MAX);
        let elasticity = if full <= 1.0 {
            // Nothing less to compare with: try more, now and then.
            if self.still.is_multiple_of(RETRY_AFTER) {
                1.0
            } else {
                self.target
            }
        } else {
            (ratio.ln() / (full / lesser(full)).ln()).clamp(-1.0, 1.5)
        };
        self.comparisons += 1;
        let weight = 1.0 / f64::from(self.comparisons.min(8));
        self.mean += (elasticity - self.mean) * weight;
        let excess = self.mean - self.target;
        let sure = self.comparisons >= COMPARISONS_MIN && excess.abs() > MARGIN;
        if sure || excess.abs() > OBVIOUS {
            self.step(full, excess > 0.0);
        } else {
            self.still += 1;
            if self.still >= CALM_AFTER && self.calm.is_none() {
                self.calm = self.full.map(|full| (full, self.typical_ns));
            }
        }
    }

    fn step(&mut self, full: f64, up: bool) {
        let next = if up {
            (full * STEP).max(full + 1.0)
        } else {
            lesser(full)
        };
        self.window_ns = next.clamp(1.0, TRANSFERS_MAX) * self.typical_ns;
        // What was measured at the old window says little about the new one.
        self.full = None;
        self.mean = self.target;
        self.comparisons = 0;
        if self.rose == Some(up) {
            // Two moves the same way: it is on its way, not about there.
            self.calm = None;
            self.still = 0;
        } else {
            self.still += 3;
        }
        self.rose = Some(up);
    }
}

/// The window that is compared with `full`.
fn lesser(full: f64) -> f64 {
    (full / STEP).min(full - 1.0).max(1.0)
}
