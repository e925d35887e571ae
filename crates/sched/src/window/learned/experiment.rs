//! Which setting is best, found by trying.
//!
//! One setting is in force, the *champion*. Now and then another one, the
//! *challenger*, one [`Step`] away, is in force for an [epoch](super::epoch), and
//! compared with the champion's epochs before and after: so a slow drift of the
//! device cancels. (Another pace is compared with the epoch before alone.) The
//! challenger takes over if the comparisons say by the [goal](Goal) that it is
//! better. A step that has failed is tried again after four times as many epochs as
//! the last time, and what its comparisons showed counts a half then. It begins with
//! half as many transfers as are waited for. At the start one comparison is enough,
//! and the champion need not come in between: like TCP's slow start.

use super::epoch::{PACED_NS_MIN, Seen};
use super::goal::Goal;
use super::setting::{Setting, Step};

/// While it is not known how much is waited for, the window is 2 to the power of this.
const RUNG_SOUNDING: u8 = 1;
/// It begins with so many times as many transfers as are waited for: a deep foreground
/// leaves narrower ones next to nothing of the device.
const BEGIN_SHARE: f64 = 0.5;
/// And with 4 to 64.
const RUNG_BEGIN_MIN: u8 = 2;
const RUNG_BEGIN_MAX: u8 = 6;
/// Epochs until a step that failed is tried again, at first ...
const WAIT_MIN: u64 = 8;
/// ... so many times longer each time that it fails, ...
const WAIT_GROWS: u64 = 4;
/// ... and at the most: one epoch in a hundred with too wide a window would be all of
/// the foreground's 99th percentile.
const WAIT_MAX: u64 = 512;
/// Epochs until the way back is tried from a setting that was just reached.
const WAIT_OPPOSITE: u64 = 4;
/// Comparisons before a verdict, and after which a step without one has failed.
const COMPARISONS_MIN: u32 = 2;
const COMPARISONS_MAX: u32 = 6;
/// Gains and losses that one comparison is enough for.
const OBVIOUS: f64 = 0.5;
const OBVIOUSLY_WORSE: f64 = 0.1;
/// Evidence of an earlier trial counts as this part of what it was.
const EVIDENCE_KEEP: f64 = 0.5;
/// Smaller gains must exceed so many of their standard errors.
const SURE_ERRORS: f64 = 1.5;
/// What a limit must gain at the least: it is blind to what the device could do
/// without it.
const LIMIT_GAIN: f64 = 0.05;
/// And a wider window: of two that are the same, the narrower.
const WIDER_GAIN: f64 = 0.02;
const NARROWER_LOSS: f64 = 0.01;
/// The load or the device is another if work or latency differ by this factor's
/// logarithm (2.2) in so many epochs running.
const CHANGED: f64 = 0.8;
const CHANGED_EPOCHS: u32 = 3;
/// By so many times that, an epoch counts twice.
const FAR: f64 = 2.0;
/// A pace changes by at most so many parts at once: to five times what it was.
const STRIDE_MAX: i16 = 32;
/// A challenger's epoch lasts at most so many times the champion's.
const LONGER: f64 = 2.0;
/// Weight of an epoch in what is usual.
const USUAL_PART: f64 = 0.125;

/// What comparisons have shown: Welford's method.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Evidence {
    fn add(&mut self, gain: f64) {
        self.count += 1.0;
        let off = gain - self.mean;
        self.mean += off / self.count;
        self.squares += off * (gain - self.mean);
    }

    /// Standard error of the mean.
    fn error(&self) -> f64 {
        (self.squares / (self.count - 1.0).max(1.0) / self.count).sqrt()
    }

    /// Of the step back.
    fn reversed(self) -> Evidence {
        Evidence {
            mean: -self.mean,
            ..self
        }
    }

    /// Older, it counts less.
    fn aged(self) -> Evidence {
        Evidence {
            count: self.count * EVIDENCE_KEEP,
            mean: self.mean,
            squares: self.squares * EVIDENCE_KEEP,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Trial {
    step: Step,
    setting: Setting,
    seen: Option<Seen>,
    /// Comparisons since it was begun.
    count: u32,
    evidence: Evidence,
}

enum Verdict {
    Better,
    Worse,
    Open,
}

impl Trial {
    /// `evidence`: of the same step before.
    fn new(step: Step, setting: Setting, evidence: Evidence) -> Trial {
        Trial {
            step,
            setting,
            seen: None,
            count: 0,
            evidence,
        }
    }

    fn add(&mut self, gain: f64) {
        self.count += 1;
        self.evidence.add(gain);
    }

    /// What it has to gain at the least.
    fn least(&self) -> f64 {
        match self.step {
            Step::Bound if self.setting.bounded => LIMIT_GAIN,
            Step::Reserve if self.setting.reserved => LIMIT_GAIN,
            Step::Sort if self.setting.sorted => LIMIT_GAIN,
            Step::Save | Step::Pace => LIMIT_GAIN,
            Step::Widen => WIDER_GAIN,
            Step::Narrow => -NARROWER_LOSS,
            _ => 0.0,
        }
    }

    fn verdict(&self, starting: bool) -> Verdict {
        // A step of the pace is a small one, and the next is twice as large.
        let starting = starting && !self.step.is_of_pace();
        let excess = self.evidence.mean - self.least();
        let error = self.evidence.error();
        let enough = self.count >= COMPARISONS_MIN;
        if excess <= 0.0 {
            if starting || enough || excess < -OBVIOUSLY_WORSE {
                return Verdict::Worse;
            }
        } else if starting || excess > OBVIOUS || enough && excess > SURE_ERRORS * error {
            return Verdict::Better;
        } else if self.count >= COMPARISONS_MAX {
            return Verdict::Worse;
        }
        Verdict::Open
    }
}

/// Which limits there is a reason to try.
#[derive(Clone, Copy, Debug)]
pub(super) struct Can {
    /// A rate is known.
    pub pace: bool,
    /// There are flushes, and writes before them.
    pub save: bool,
    /// There are moments in which nobody waits.
    pub reserve: bool,
}

/// When a step is tried next.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    due: u64,
    wait: u64,
    /// From the present champion.
    evidence: Evidence,
}

/// What is usual under the champion.
#[derive(Clone, Copy, Debug)]
struct Usual {
    work: f64,
    latency: f64,
    changed: u32,
}

impl Usual {
    fn new(seen: &Seen) -> Usual {
        Usual {
            work: seen.work,
            latency: seen.urgent.or(seen.lower).unwrap_or(0.0),
            changed: 0,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Experiment {
    goal: Goal,
    rungs: (u8, u8),
    steps: &'static [Step],
    champion: Setting,
    before: Option<Seen>,
    trial: Option<Trial>,
    /// The challenger is in force.
    is_trying: bool,
    starting: bool,
    /// It begins where [`BEGIN_SHARE`] says; nothing is known of that yet.
    sounding: bool,
    plans: [Plan; Step::ALL.len()],
    epochs: u64,
    /// By how much the pace changes next: twice as much each time that it has.
    stride: i16,
    usual: Option<Usual>,
    /// What there was before the pace, and in how many epochs running that was better.
    unpaced: Option<Seen>,
    paced_worse: u32,
    /// The device stopped now and then in the last epoch.
    stalls: bool,
}

impl Experiment {
    /// `rungs`: the least and the most; without `begin`, what is waited for says
    /// where it begins.
    pub(super) fn new(
        goal: Goal,
        rungs: (u8, u8),
        begin: Option<u8>,
        steps: &'static [Step],
    ) -> Experiment {
        Experiment {
            goal,
            rungs,
            steps,
            champion: Setting::new(begin.unwrap_or(RUNG_SOUNDING)),
            before: None,
            trial: None,
            is_trying: false,
            starting: true,
            sounding: begin.is_none(),
            plans: Default::default(),
            epochs: 0,
            stride: 1,
            usual: None,
            unpaced: None,
            paced_worse: 0,
            stalls: false,
        }
    }

    pub(super) fn goal_mut(&mut self) -> &mut Goal {
        &mut self.goal
    }

    /// What is in force.
    pub(super) fn setting(&self) -> Setting {
        match &self.trial {
            Some(trial) if self.is_trying => trial.setting,
            _ => self.champion,
        }
    }

    pub(super) fn champion(&self) -> Setting {
        self.champion
    }

    /// The first setting is not found yet.
    pub(super) fn is_starting(&self) -> bool {
        self.starting
    }

    pub(super) fn is_trying(&self) -> bool {
        self.is_trying
    }

    /// A pace is in force, or compared with none: epochs have to be as long then.
    pub(super) fn is_about_pace(&self) -> bool {
        let trial = self.trial.as_ref();
        self.champion.pace.is_some() || trial.is_some_and(|trial| trial.step == Step::Pace)
    }

    /// How long the epoch under way may last: a challenger that lets much less go
    /// need not show it for longer.
    pub(super) fn epoch_ns_max(&self) -> f64 {
        let before = self.before.filter(|_| self.is_trying);
        before.map_or(f64::INFINITY, |before| LONGER * before.elapsed_ns)
    }

    /// Nothing is to be seen but how much is waited for.
    pub(super) fn is_sounding(&self) -> bool {
        self.sounding
    }

    /// Takes an epoch of what is in force, and chooses what is next.
    pub(super) fn judge(&mut self, seen: Seen, can: Can) {
        if self.sounding {
            self.sound(seen);
            return;
        }
        self.epochs += 1;
        self.stalls = seen.stalls();
        if self.is_pace_worse(&seen) {
            self.end_pace();
            return;
        }
        if self.is_trying {
            self.is_trying = false;
            self.challenged(seen);
        } else {
            self.reigned(seen);
        }
        self.choose(can);
    }

    /// Begins by how much is waited for the second time: what the lower levels sent before
    /// there was a foreground has ended then.
    fn sound(&mut self, seen: Seen) {
        if self.before.is_none() {
            self.before = Some(seen);
            return;
        }
        self.before = None;
        self.sounding = false;
        let rung = (BEGIN_SHARE * seen.backlog).max(1.0).log2().round() as u8;
        self.champion.rung = rung.clamp(RUNG_BEGIN_MIN, RUNG_BEGIN_MAX);
    }

    fn challenged(&mut self, seen: Seen) {
        let Some(trial) = &mut self.trial else { return };
        if let (true, Some(before)) = (self.starting, self.before) {
            trial.add(self.goal.gain(&before, &seen));
            self.decide(Some(seen));
        } else {
            trial.seen = Some(seen);
        }
    }

    fn reigned(&mut self, seen: Seen) {
        let before = self.before.replace(seen);
        if let Some(trial) = &mut self.trial
            && let Some(tried) = trial.seen.take()
        {
            let after = self.goal.gain(&seen, &tried);
            let gain = before.map_or(after, |before| {
                let gain = self.goal.gain(&before, &tried);
                // A pace that is too fast leaves the volume more than it can do, and it is
                // the champion that waits for that.
                if trial.step.is_of_pace() {
                    gain
                } else {
                    (gain + after) / 2.0
                }
            });
            trial.add(gain);
            self.decide(None);
        }
        self.watch(&seen);
    }

    /// A foreground that waits less may come more often, and leave the lower levels
    /// nothing of a pace: it has to stay better than none was.
    fn is_pace_worse(&mut self, seen: &Seen) -> bool {
        let unpaced = self.unpaced.filter(|_| self.champion.pace.is_some());
        let Some(unpaced) = unpaced else { return false };
        let is_worse = self.goal.gain(&unpaced, seen) < -OBVIOUSLY_WORSE;
        self.paced_worse = if is_worse { self.paced_worse + 1 } else { 0 };
        self.paced_worse >= COMPARISONS_MIN
    }

    /// `seen`: of the challenger, if it may be the champion's as well.
    fn decide(&mut self, seen: Option<Seen>) {
        let Some(trial) = self.trial else { return };
        let step = trial.step;
        match trial.verdict(self.starting) {
            Verdict::Open => return,
            Verdict::Better => {
                if step == Step::Pace {
                    self.unpaced = self.before;
                    self.paced_worse = 0;
                }
                self.champion = trial.setting;
                self.stride = match step {
                    Step::Faster | Step::Slower => (2 * self.stride).min(STRIDE_MAX),
                    _ => self.stride,
                };
                self.before = seen;
                self.usual = seen.map(|seen| Usual::new(&seen));
                for plan in &mut self.plans {
                    plan.evidence = Evidence::default();
                }
                let back = step.opposite();
                self.plans[back as usize].evidence = trial.evidence.reversed();
                self.plan(step, 0, WAIT_MIN);
                self.plan(back, WAIT_OPPOSITE, WAIT_OPPOSITE);
            }
            Verdict::Worse => {
                self.stride = 1;
                self.plans[step as usize].evidence = trial.evidence;
                let wait = self.plans[step as usize].wait.clamp(WAIT_MIN, WAIT_MAX);
                self.plan(step, wait, (WAIT_GROWS * wait).min(WAIT_MAX));
            }
        }
        self.trial = None;
    }

    fn plan(&mut self, step: Step, after: u64, wait: u64) {
        let plan = &mut self.plans[step as usize];
        plan.due = self.epochs + after;
        plan.wait = wait;
    }

    /// Looks for the right setting anew if what is usual is no more.
    fn watch(&mut self, seen: &Seen) {
        let now = Usual::new(seen);
        let usual = self.usual.get_or_insert(now);
        let (work, latency) = (now.work - usual.work, now.latency - usual.latency);
        if work.abs() < CHANGED && latency.abs() < CHANGED {
            usual.changed = 0;
            usual.work += work * USUAL_PART;
            usual.latency += latency * USUAL_PART;
            return;
        }
        let far = work.abs().max(latency.abs()) > FAR * CHANGED;
        usual.changed += if far { 2 } else { 1 };
        if usual.changed >= CHANGED_EPOCHS {
            let is_better = work > self.goal.loss(usual.latency, now.latency);
            self.usual = None;
            self.plans = Default::default();
            if !is_better {
                self.restart();
            }
        }
    }

    /// The pace stays: steps up and down find another one, and without any a volume's
    /// budget is used up until one is found again.
    fn restart(&mut self) {
        self.champion = Setting {
            pace: self.champion.pace,
            ..Setting::new(self.champion.rung)
        };
        self.starting = true;
        self.trial = None;
    }

    fn choose(&mut self, can: Can) {
        if let Some(trial) = &self.trial {
            self.is_trying = trial.seen.is_none() && self.before.is_some();
            return;
        }
        let Some(before) = self.before else { return };
        let possible = self.steps.iter().filter_map(|&step| {
            let can = match step {
                Step::Pace => can.pace,
                Step::Save => can.save,
                Step::Reserve => can.reserve || self.champion.reserved,
                _ => true,
            };
            let setting = step.from(self.champion, self.rungs, self.stride)?;
            let due = self.plans[step as usize].due;
            (can && due <= self.epochs).then_some((due, step, setting))
        });
        // What has helped a device that stalls before; then of those that have waited longest
        // the first, or what may help where it stalls without a flush.
        let helps = |step| step == Step::Pace && self.stalls;
        let has_paid = self.unpaced.is_some();
        let rank = |&(due, step, _): &(u64, Step, Setting)| {
            let may_help = helps(step) && !can.save;
            (!(helps(step) && has_paid), due, !may_help)
        };
        if let Some((_, step, setting)) = possible.min_by_key(rank) {
            let evidence = self.plans[step as usize].evidence.aged();
            self.trial = Some(Trial::new(step, setting, evidence));
            let paced_ns = PACED_NS_MIN as f64;
            self.is_trying = !self.is_about_pace() || before.elapsed_ns >= paced_ns;
            return;
        }
        self.starting = false;
    }

    /// A pace that holds nothing back is none.
    pub(super) fn end_pace(&mut self) {
        self.champion.pace = None;
        self.trial = None;
        self.is_trying = false;
        self.before = None;
        self.plan(Step::Pace, WAIT_OPPOSITE, WAIT_OPPOSITE);
    }

    /// The epoch under way says nothing: the challenger is not tried for ever
    /// where the lower levels do too little for one.
    pub(super) fn interrupt(&mut self) {
        if self.is_trying {
            self.is_trying = false;
            if let Some(trial) = self.trial.take() {
                self.plan(trial.step, WAIT_MIN, WAIT_MIN);
            }
        }
    }
}

#[cfg(test)]
mod tests;
