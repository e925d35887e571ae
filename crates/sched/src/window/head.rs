//! Keeps a head where somebody waits for it.
//!
//! A disk with a head serves next what that reaches first, whoever waits for it:
//! each transfer of the lower levels that it has is as likely to go before somebody's
//! as after it, and as long as more are sent there is always one that is nearer. So
//! nothing of theirs goes while somebody's transfer is with the device, not even
//! their minimum; and what went before is no more than the device does in
//! [`AHEAD`] times what somebody's transfer takes alone. Unless somebody's are with the
//! device nearly all the time: then the lower levels would have nothing, and go as
//! they do elsewhere. And unless somebody's reads take less than any head does.

/// How long the device may take for what the lower levels have in flight, in
/// parts of what somebody's transfer takes without them.
pub(super) const AHEAD: f64 = 2.0;
/// No head takes less for a read: half a turn at 15,000 a minute.
const READ_NS_MIN: f64 = 2_000_000.0;
/// Above this part of the time, somebody's transfers leave too little of it.
const BUSY_MAX: f64 = 0.9;
/// Time over which that part is taken: some foreground transfers of a busy disk, and
/// not so long that what hangs keeps the others waiting.
const BUSY_OVER_NS: f64 = 1e9;

/// See the file's page.
#[derive(Clone, Debug)]
pub(super) struct Head {
    /// Moving average of the part of the time in which a transfer that somebody
    /// waits for was with the device.
    busy: f64,
    /// And of what a read takes that somebody waits for.
    read_ns: Option<f64>,
    now_ns: u64,
}

impl Default for Head {
    /// Busy, until it is known that there is time.
    fn default() -> Head {
        Head {
            busy: 1.0,
            read_ns: None,
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
        self.now_ns + (passed * BUSY_OVER_NS) as u64
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

    #[test]
    fn what_never_ends_does_not() {
        let head = after_transfers_of(10);
        assert!(!head.is_spared(head.now_ns));
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
