//! Whether somebody's requests come, or have just come.

/// After a request that somebody waits for, the lower levels keep to the window
/// that spares its latency for a while. Should the next come later, it has to wait
/// until the device has done what they filled it with: so many times what that
/// takes, so that such waits are 2 % of the time at the most...
const LINGERS_DRAINS: f64 = 50.0;
/// ... but where that takes less than `SHORT_NS`, no longer than this: a range of an
/// index, which begins with somebody's reads, may be over before. From there on it
/// is rather more, and the first rule's at twice as much.
const LINGERS_SHORT_NS: f64 = 20e6;
const SHORT_NS: f64 = 1e6;
/// ... but at least this many times the usual time from one to the next: if they
/// come at random, fewer than one in a hundred is later...
const LINGERS_GAPS: f64 = 5.0;
/// The usual time is that of a foreground at random whose gaps have the same
/// mean logarithm: their geometric mean times e^0.5772 (Euler's constant). A mean
/// would take a burst, a long pause and another burst, as a checkpoint writes
/// to the log, for a foreground that comes all the time.
const RANDOM_GAP_LN: f64 = 0.5772;
/// ... and no longer than this. A foreground that is too rare to be sheltered
/// within it waits, once for each drain; a rotating disk, which takes half a
/// second to drain, always shelters for so long.
const LINGERS_NS_MAX: f64 = 1e9;

/// See the file's page.
#[derive(Default)]
pub(super) struct Foreground {
    last_ns: Option<u64>,
    /// Moving average of the logarithm of the time from one to the next, none
    /// counted as longer than what can be sheltered.
    gap_ln: Option<f64>,
    until_ns: u64,
}

impl Foreground {
    pub fn is_active(&self, now_ns: u64) -> bool {
        now_ns < self.until_ns
    }

    /// `drain_ns`: how long the device takes for what the lower levels fill it
    /// with where there is no foreground.
    pub fn came(&mut self, now_ns: u64, drain_ns: f64) {
        if let Some(last_ns) = self.last_ns {
            let gap_ns = ((now_ns - last_ns) as f64).clamp(1.0, LINGERS_NS_MAX);
            let gap_ln = gap_ns.ln();
            let usual = self.gap_ln.unwrap_or(gap_ln);
            self.gap_ln = Some(usual + (gap_ln - usual) / 8.0);
        }
        self.last_ns = Some(now_ns);
        self.judge(drain_ns);
    }

    /// How long it lingers after the last one, now that more is known of the device.
    pub fn judge(&mut self, drain_ns: f64) {
        if let Some(last_ns) = self.last_ns {
            self.until_ns = last_ns + self.lingers_ns(drain_ns);
        }
    }

    fn lingers_ns(&self, drain_ns: f64) -> u64 {
        let gaps_ns = self
            .gap_ln
            .map(|usual| LINGERS_GAPS * (usual + RANDOM_GAP_LN).exp())
            .filter(|&gaps_ns| gaps_ns <= LINGERS_NS_MAX)
            .unwrap_or(0.0);
        let drains_ns = LINGERS_DRAINS * drain_ns;
        let part = (drain_ns / SHORT_NS - 1.0).clamp(0.0, 1.0);
        let short_ns = drains_ns.min(LINGERS_SHORT_NS);
        let drains_ns = short_ns + part * (drains_ns - short_ns);
        drains_ns.max(gaps_ns).min(LINGERS_NS_MAX) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Comes `count` times, so far apart, or at random as far apart on average;
    /// returns how long it lingers then.
    fn lingers_ms(foreground: &mut Foreground, count: u64, gap_ns: u64, drain_ns: u64) -> u64 {
        come(foreground, (0..count).map(|_| gap_ns as f64), drain_ns)
    }

    fn lingers_at_random_ms(foreground: &mut Foreground, gap_ns: u64, drain_ns: u64) -> u64 {
        // Quantiles of the exponential distribution, near and far ones in turn.
        let parts = (0..400).map(|step| (f64::from(step) * 0.618_034 + 0.5).fract());
        let gaps = parts.map(|part| gap_ns as f64 * -(1.0 - part).ln());
        come(foreground, gaps, drain_ns)
    }

    fn come(foreground: &mut Foreground, gaps: impl Iterator<Item = f64>, drain_ns: u64) -> u64 {
        for gap_ns in gaps {
            let now_ns = foreground.last_ns.unwrap_or(0) + gap_ns as u64;
            foreground.came(now_ns, drain_ns as f64);
        }
        let until_ns = foreground.until_ns;
        assert!(foreground.is_active(until_ns - 1) && !foreground.is_active(until_ns));
        (until_ns - foreground.last_ns.unwrap()) / MS
    }

    #[test]
    fn a_foreground_lingers_as_long_as_its_rate_and_the_device_make_worth_while() {
        let mut foreground = Foreground::default();
        // The first: fifty times what it may cost the next to come.
        assert_eq!(lingers_ms(&mut foreground, 1, 60_000 * MS, 2 * MS), 100);
        assert_eq!(lingers_ms(&mut foreground, 300, MS, 2 * MS), 100);
        // Ten a second, at random: five times their mean, as well as that is
        // known from the latest few.
        let lingers = lingers_at_random_ms(&mut foreground, 100 * MS, 2 * MS);
        assert!((300..800).contains(&lingers), "{lingers} ms");
        // One a second is not: nearly all of the time would go to it.
        assert_eq!(lingers_ms(&mut foreground, 100, 1_000 * MS, 2 * MS), 100);
        // But where the device takes long, it is.
        assert_eq!(lingers_ms(&mut foreground, 1, 1_000 * MS, 300 * MS), 1000);
    }

    #[test]
    fn a_short_drain_is_lingered_for_less_and_no_drain_for_less_than_a_shorter() {
        let lingers = |drain_us: u64| {
            let mut foreground = Foreground::default();
            foreground.came(1, (drain_us * 1000) as f64);
            foreground.until_ns / 1000
        };
        let known = [100, 400, 1000, 1500, 2000, 5000].map(lingers);
        assert_eq!(known, [5000, 20_000, 20_000, 47_500, 100_000, 250_000]);
        let all: Vec<u64> = (0..300).map(|step| lingers(step * 10)).collect();
        assert!(all.is_sorted(), "{all:?}");
    }

    #[test]
    fn it_lingers_for_less_once_the_device_is_known_to_be_quick() {
        let mut foreground = Foreground::default();
        foreground.judge(1e6);
        assert!(!foreground.is_active(0));
        foreground.came(7 * MS, 320e6);
        assert!(foreground.is_active(1000 * MS));
        foreground.judge(2e6);
        assert!(foreground.is_active(106 * MS) && !foreground.is_active(107 * MS));
    }

    #[test]
    fn bursts_with_a_pause_between_are_no_foreground_that_comes_all_the_time() {
        let mut foreground = Foreground::default();
        lingers_ms(&mut foreground, 30, MS / 5, 2 * MS);
        assert_eq!(lingers_ms(&mut foreground, 1, 650 * MS, 2 * MS), 100);
        assert_eq!(lingers_ms(&mut foreground, 2, MS, 2 * MS), 100);
    }
}
