//! Keeps a head where somebody waits for it.
//!
//! A disk with a head serves next what that reaches first, whoever waits for it:
//! each transfer of the lower levels that it has is as likely to go before somebody's
//! as after it, and as long as more are sent there is always one that is nearer. So
//! nothing of theirs goes while somebody's transfer is with the device, not even
//! their minimum; and what went before is no more than the device does in
//! [`AHEAD`] times what somebody's transfer takes alone. Unless somebody's are with the
//! device nearly all the time: then the lower levels would have nothing, and go as
//! they do elsewhere. But they are also there all the time because the lower levels'
//! are in their way, and would be for ever: so now and then it is tried for a while. And
//! unless somebody's reads take less than any head does.

/// How long the device may take for what the lower levels have in flight, in
/// parts of what somebody's transfer takes without them.
pub(super) const AHEAD: f64 = 2.0;
/// No head takes less for a read: half a turn at 15,000 a minute.
const READ_NS_MIN: f64 = 2_000_000.0;
/// Above this part of the time, somebody's transfers leave too little of it.
const BUSY_MAX: f64 = 0.9;
/// Below this, they leave enough for good.
const BUSY_LITTLE: f64 = 0.8;
/// Time over which that part is taken: some foreground transfers of a busy disk, and
/// not so long that what hangs keeps the others waiting.
const BUSY_OVER_NS: f64 = 1e9;
/// Where they leave too little, the head is kept for them for so long all the same:
/// enough for a drive to write what it has in its cache, and for that part to fall.
const TRIAL_NS: u64 = 1_000_000_000;
/// After so long, twice as long after each time that showed nothing.
const TRIAL_AFTER_NS_MIN: u64 = 1_000_000_000;
const TRIAL_AFTER_NS_MAX: u64 = 64_000_000_000;

/// See the file's page.
#[derive(Clone, Debug)]
pub(super) struct Head {
    /// Moving average of the part of the time in which a transfer that somebody
    /// waits for was with the device.
    busy: f64,
    /// And of what a read takes that somebody waits for.
    read_ns: Option<f64>,
    trial: Trial,
    now_ns: u64,
}

/// Keeping the head although there seems to be no time.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    /// When the latest ends or has ended.
    until_ns: u64,
    /// When the next begins, while it is wanted, and how long it was waited for.
    at_ns: Option<u64>,
    after_ns: u64,
}

impl Trial {
    /// Lets time pass. It is wanted where there seems to be no time.
    fn advance(&mut self, now_ns: u64, busy: f64) {
        if busy < BUSY_LITTLE {
            *self = Trial {
                until_ns: self.until_ns,
                ..Trial::default()
            };
        }
        if busy <= BUSY_MAX {
            return;
        }
        match self.at_ns {
            Some(at_ns) if now_ns < at_ns => (),
            Some(_) => {
                self.until_ns = now_ns + TRIAL_NS;
                self.wait_from(self.until_ns);
            }
            None => self.wait_from(now_ns),
        }
    }

    fn wait_from(&mut self, from_ns: u64) {
        self.after_ns = (2 * self.after_ns).clamp(TRIAL_AFTER_NS_MIN, TRIAL_AFTER_NS_MAX);
        self.at_ns = Some(from_ns + self.after_ns);
    }
}

impl Default for Head {
    /// Busy, until it is known that there is time.
    fn default() -> Head {
        Head {
            busy: 1.0,
            read_ns: None,
            trial: Trial::default(),
            now_ns: 0,
        }
    }
}

impl Head {
    /// Lets time pass: such a transfer was with the device since the last call, or
    /// none.
    pub(super) fn advance(&mut self, now_ns: u64, busy: bool) {
        let passed = now_ns.saturating_sub(self.now_ns) as f64 / BUSY_OVER_NS;
        self.busy += (f64::from(busy) - self.busy) * passed.min(1.0);
        self.now_ns = self.now_ns.max(now_ns);
        // What reads nothing may be flash.
        if self.read_ns.is_some() {
            self.trial.advance(self.now_ns, self.busy);
        }
    }

    /// A read that somebody waited for took so long.
    pub(super) fn served(&mut self, latency_ns: f64) {
        let usual_ns = self.read_ns.unwrap_or(latency_ns);
        self.read_ns = Some(usual_ns + (latency_ns - usual_ns) / 32.0);
    }

    /// Whether there is time enough in which nobody waits, if somebody has waited
    /// since the last call.
    pub(super) fn is_spared(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns()
    }

    /// Until when, if nothing completes before.
    pub(super) fn spared_until_ns(&self, now_ns: u64) -> Option<u64> {
        Some(self.until_ns()).filter(|&until_ns| until_ns > now_ns)
    }

    fn until_ns(&self) -> u64 {
        if self.read_ns.is_some_and(|read_ns| read_ns < READ_NS_MIN) {
            return 0;
        }
        // What rounding leaves would be timers of a nanosecond.
        let left = Some(BUSY_MAX - self.busy).filter(|&left| left > 1e-6);
        let passed = left.map_or(0.0, |left| left / (1.0 - self.busy));
        let until_ns = self.now_ns + (passed * BUSY_OVER_NS) as u64;
        until_ns.max(self.trial.until_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Somebody's transfers take so much of each 10 ms.
    fn after_transfers_of(busy_ms: u64) -> Head {
        let mut head = Head::default();
        for round in 1..1000 {
            head.advance(round * 10 * MS - busy_ms * MS, false);
            head.advance(round * 10 * MS, true);
        }
        head
    }

    #[test]
    fn what_comes_now_and_then_has_the_head_for_itself() {
        let head = after_transfers_of(5);
        assert!(head.is_spared(head.now_ns));
    }

    /// From so many to so many seconds: the part of the time in which it is spared.
    fn spared(head: &mut Head, seconds: std::ops::Range<u64>, busy: impl Fn(bool) -> bool) -> f64 {
        let times: Vec<u64> = (seconds.start * 100..seconds.end * 100).collect();
        let spared = times.iter().filter(|&&time| {
            let now_ns = time * 10 * MS;
            let spared = head.is_spared(now_ns);
            head.advance(now_ns, busy(spared));
            spared
        });
        spared.count() as f64 / times.len() as f64
    }

    #[test]
    fn what_never_ends_has_it_for_a_trial_now_and_then() {
        let mut head = Head::default();
        assert_eq!(spared(&mut head, 0..100, |_| true), 0.0);
        let mut head = Head::default();
        head.served(8e6);
        let first = spared(&mut head, 1..10, |_| true);
        assert!((0.1..0.5).contains(&first), "{first}");
        let later = spared(&mut head, 100..1000, |_| true);
        assert!((0.01..0.05).contains(&later), "{later}");
    }

    /// Where the lower levels' are in its way, somebody's is there all the time.
    #[test]
    fn what_takes_long_because_of_others_is_spared_after_a_trial() {
        let mut head = Head::default();
        head.served(90e6);
        let turn = std::cell::Cell::new(0);
        let busy = |spared: bool| {
            turn.set(turn.get() + 1);
            !spared || turn.get() % 2 == 0
        };
        spared(&mut head, 1..10, busy);
        assert_eq!(spared(&mut head, 10..100, busy), 1.0);
    }

    #[test]
    fn what_is_quick_has_none() {
        let mut head = after_transfers_of(5);
        head.served(8e6);
        assert!(head.is_spared(head.now_ns));
        (0..100).for_each(|_| head.served(0.3e6));
        assert!(!head.is_spared(head.now_ns));
        assert_eq!(head.spared_until_ns(head.now_ns), None);
    }

    /// A transfer that hangs keeps the others waiting for less than a second.
    #[test]
    fn what_hangs_keeps_it_for_a_while() {
        let head = after_transfers_of(5);
        let until_ns = head.spared_until_ns(head.now_ns).expect("it is spared");
        assert!(!head.is_spared(until_ns));
        assert!(until_ns - head.now_ns < 1000 * MS);
        let mut head = head;
        head.advance(until_ns, true);
        assert!(!head.is_spared(until_ns));
    }
}
