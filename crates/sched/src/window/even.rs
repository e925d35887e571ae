//! Recognises a volume that lets so many transfers, or bytes, pass a second,
//! whatever they are, and stays just under that.
//!
//! Such a volume delays what comes too early, evenly, so nothing stalls: a
//! window that reaches its rate has a queue behind it, in which whoever comes
//! waits, however urgent. Its signature is that neither the size of transfers
//! nor more of them in flight changes their rate. A device has no such rate:
//! there, what is larger takes longer.
//!
//! While nobody waits for anything it is of no use to stay under the rate.

use super::knee::Measured;
use super::pace::{Pace, RateLimit, RateUnit, TEST_AFTER_NS_MAX, TEST_AFTER_NS_MIN};

/// Epochs that must agree.
const EPOCHS: usize = 24;
const THIRD: usize = EPOCHS / 3;
/// So many of a third must.
const MOST: usize = 5;
/// How wide the middle half of their rates may be, as a part of their median, ...
const AGREE: f64 = 0.05;
/// ... and how far the rates may differ of the third of them with the largest
/// transfers, or the most in flight, and the third with the least, ...
const SAME: f64 = 0.03;
/// ... which must be so many times as large, or as much. Where moving the data of
/// a transfer costs a device half of it, its rate differs twice as far as may be.
const LARGER: f64 = 1.12;
const MORE: f64 = 1.25;
/// So many times what was in flight then may be, under the pace: enough for it
/// to be reached, little enough to be a bound where it is not.
const IN_FLIGHT: f64 = 1.5;
/// A test goes as fast as this many times as much in flight does. What the bucket
/// has saved goes first, for so long; then it is seen, for as long and for so many
/// transfers, whether that brings this much more than the limit: then there is
/// none any more.
const TEST_IN_FLIGHT: f64 = 1.25;
const TEST_HALF_NS: u64 = 30_000_000;
const TEST_TRANSFERS: u32 = 64;
const TEST_BROUGHT: f64 = 1.05;
/// One that lasts longer, or in which the lower levels had no more to send, says
/// nothing...
const TEST_NS_MAX: u64 = 5_000_000_000;
/// ... and is made again after so long.
const TEST_AGAIN_NS: u64 = 1_000_000_000;
/// Weight of one transfer in the share that finds the pace unused.
const UNUSED_PART: f64 = 1.0 / 128.0;
/// From this share on the pace is not what holds the lower levels back.
const UNUSED_MAX: f64 = 0.5;

/// What an epoch has seen.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    transfers_per_ns: f64,
    bytes_per_ns: f64,
    in_flight: f64,
    cost_in_flight: f64,
}

/// A value of an epoch.
type Of = fn(&Seen) -> f64;

impl Seen {
    fn size(&self) -> f64 {
        self.bytes_per_ns / self.transfers_per_ns
    }
}

#[derive(Clone, Debug)]
struct Paced {
    pace: Pace,
    /// Transfers that were in flight when it was recognised, and their cost.
    in_flight: (f64, f64),
    /// When the next test begins, or has begun.
    test_ns: u64,
    test_after_ns: u64,
    /// Transfers that ended in the second half of a test, and their units.
    tested: (u32, f64),
    /// Moving average: the share of transfers at whose end the pace would have let
    /// more go, while there was more to send.
    unused: f64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Even {
    epochs: [Seen; EPOCHS],
    count: usize,
    paced: Option<Paced>,
}

impl Paced {
    fn is_testing(&self, now_ns: u64) -> bool {
        now_ns >= self.test_ns
    }
}

impl Even {
    /// The limit that is known, kept now or not.
    pub fn any_pace(&self) -> Option<&Pace> {
        self.paced.as_ref().map(|paced| &paced.pace)
    }

    /// What to keep to, unless that is tested.
    pub fn pace(&self, now_ns: u64) -> Option<&Pace> {
        let paced = self.paced.as_ref();
        paced
            .filter(|paced| !paced.is_testing(now_ns))
            .map(|paced| &paced.pace)
    }

    pub fn pace_mut(&mut self) -> Option<&mut Pace> {
        self.paced.as_mut().map(|paced| &mut paced.pace)
    }

    /// Transfers that may be in flight under the pace, and their cost.
    pub fn in_flight(&self, now_ns: u64) -> Option<(f64, f64)> {
        let paced = self.paced.as_ref()?;
        let factor = if paced.is_testing(now_ns) {
            TEST_IN_FLIGHT
        } else {
            IN_FLIGHT
        };
        let (transfers, cost) = paced.in_flight;
        Some((factor * transfers, factor * cost))
    }

    /// Learns it anew.
    pub fn forget(&mut self) {
        *self = Even::default();
    }

    /// Notes the end of a transfer while the pace is kept or tested.
    pub fn completed(&mut self, now_ns: u64, bytes: f64, lower_waiting: bool) {
        let Some(paced) = &mut self.paced else { return };
        if paced.is_testing(now_ns) {
            self.go_on_testing(now_ns, bytes, lower_waiting);
        } else if lower_waiting {
            paced.pace.fill(now_ns);
            let unused = f64::from(u8::from(paced.pace.is_unused()));
            paced.unused += (unused - paced.unused) * UNUSED_PART;
            if paced.unused > UNUSED_MAX {
                // Less goes than may: the limit is lower now, or another one.
                self.forget();
            }
        }
    }

    fn go_on_testing(&mut self, now_ns: u64, bytes: f64, lower_waiting: bool) {
        let Some(paced) = &mut self.paced else { return };
        let elapsed_ns = now_ns - paced.test_ns;
        if elapsed_ns > TEST_NS_MAX || !lower_waiting {
            (paced.test_ns, paced.tested) = (now_ns + TEST_AGAIN_NS, (0, 0.0));
            return;
        }
        let Some(seen_ns) = elapsed_ns.checked_sub(TEST_HALF_NS) else {
            return;
        };
        let (transfers, units) = &mut paced.tested;
        *transfers += 1;
        *units += paced.pace.units(bytes);
        if seen_ns < TEST_HALF_NS || *transfers < TEST_TRANSFERS {
            return;
        }
        let per_second = *units / seen_ns as f64 * 1e9;
        if per_second > TEST_BROUGHT * paced.pace.limit().per_second {
            self.forget();
            return;
        }
        paced.tested = (0, 0.0);
        paced.test_after_ns = (paced.test_after_ns * 2).min(TEST_AFTER_NS_MAX);
        paced.test_ns = now_ns + paced.test_after_ns;
    }

    /// Takes an epoch in which the lower levels used the whole window.
    pub fn measured(&mut self, now_ns: u64, measured: &Measured) {
        self.epochs[self.count % EPOCHS] = Seen {
            transfers_per_ns: measured.transfers / measured.elapsed_ns,
            bytes_per_ns: measured.bytes / measured.elapsed_ns,
            in_flight: measured.in_flight,
            cost_in_flight: measured.cost_in_flight,
        };
        self.count += 1;
        if self.count < EPOCHS || self.paced.is_some() {
            return;
        }
        let limit = self.limit();
        self.paced = limit.map(|limit| Paced {
            pace: Pace::new(now_ns, limit),
            in_flight: (
                spread(&self.epochs, |seen| seen.in_flight).0,
                spread(&self.epochs, |seen| seen.cost_in_flight).0,
            ),
            test_ns: now_ns + TEST_AFTER_NS_MIN,
            test_after_ns: TEST_AFTER_NS_MIN,
            tested: (0, 0.0),
            unused: 0.0,
        });
    }

    fn limit(&self) -> Option<RateLimit> {
        let of: [(RateUnit, Of); 2] = [
            (RateUnit::Transfers, |seen| seen.transfers_per_ns),
            (RateUnit::Bytes, |seen| seen.bytes_per_ns),
        ];
        let is_even = |rate: Of| {
            spread(&self.epochs, rate).1 <= AGREE
                && self.is_the_same(rate, Seen::size, LARGER)
                && self.is_the_same(rate, |seen| seen.cost_in_flight, MORE)
        };
        let (unit, rate) = of.into_iter().find(|&(_, rate)| is_even(rate))?;
        Some(RateLimit {
            unit,
            per_second: spread(&self.epochs, rate).0 * 1e9,
        })
    }

    /// Whether the rate is the same where there is at least so many times as much of
    /// `other`: in most of the epochs with the most of it, each by itself. One that
    /// follows a pause is faster, by what the bucket has saved.
    fn is_the_same(&self, rate: Of, other: Of, times: f64) -> bool {
        let mut epochs = self.epochs;
        epochs.sort_unstable_by(|a, b| other(a).total_cmp(&other(b)));
        let (little, much) = (&epochs[..THIRD], &epochs[EPOCHS - THIRD..]);
        let usual = |of: Of| spread(little, of).0;
        let (usual_rate, usual_other) = (usual(rate), usual(other));
        let agree = much.iter().filter(|seen| {
            other(seen) >= times * usual_other && (rate(seen) / usual_rate - 1.0).abs() <= SAME
        });
        agree.count() >= MOST
    }
}

/// The median, and how wide the middle half is as a part of it.
fn spread(epochs: &[Seen], of: Of) -> (f64, f64) {
    let mut values = [0.0; EPOCHS];
    let values = &mut values[..epochs.len()];
    for (value, seen) in values.iter_mut().zip(epochs) {
        *value = of(seen);
    }
    values.sort_unstable_by(f64::total_cmp);
    let at = |part: usize| values[values.len() * part / 4];
    (at(2), (at(3) - at(1)) / at(2))
}
