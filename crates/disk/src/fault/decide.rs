//! Decides what happens to each operation, and remembers it.

use super::draw::Draw;
use super::log::{Effect, FaultLog, Injected};
use super::plan::{Access, Fault, FaultPlan, FaultPlanError, Rule, Trigger, Visible};
use super::units;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Smallest unit that every disk has.
const SECTOR_BYTES: u64 = 512;

/// Grids on which a misdirected write may land, coarsest first.
const GRIDS_BYTES: [u64; 3] = [4096, SECTOR_BYTES, 1];

/// A plan at work: counts operations and decides about each.
///
/// A decision depends on the plan, the operation's number, kind, range, and
/// the medium's size: the same operations in the same order meet the same
/// faults. May be shared by several mediums, whose operations are then counted
/// together.
pub struct Faults {
    plan: FaultPlan,
    /// Of the last operation.
    number: AtomicU64,
    log: Mutex<FaultLog>,
}

/// An operation that was decided about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    number: u64,
    stall_ns: u64,
    pub(super) effect: Option<Effect>,
}

impl Operation {
    /// Counted from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How much longer than usual it takes, in nanoseconds.
    pub fn stall_ns(&self) -> u64 {
        self.stall_ns
    }

    /// It is a write that arrives whole or not at all. What would tear it does
    /// nothing, or takes all of it at a power cut; what would cut it short
    /// makes it fail. The log says what was drawn.
    pub fn keep_whole(&mut self) {
        self.effect = self.effect.take().and_then(|effect| match effect {
            Effect::Torn {
                visible: visible @ Visible::AfterPowerCut,
                ..
            } => Some(Effect::Lost { visible }),
            Effect::Torn { .. } => None,
            Effect::Short { .. } => Some(Effect::Eio),
            other => Some(other),
        });
    }

    /// What goes wrong with it, apart from a stall.
    pub fn effect(&self) -> Option<&Effect> {
        self.effect.as_ref()
    }
}

impl Faults {
    /// No operation was counted yet.
    ///
    /// # Errors
    /// A plan made by hand that no text could say.
    pub fn new(plan: FaultPlan) -> Result<Faults, FaultPlanError> {
        plan.check()?;
        Ok(Faults {
            plan,
            number: AtomicU64::new(0),
            log: Mutex::default(),
        })
    }

    /// What it does.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// What it did so far.
    pub fn log(&self) -> FaultLog {
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Counts an operation on `length` bytes at `offset` (0 and 0 for a sync)
    /// of a medium of `size_bytes`, and decides about it.
    pub fn begin(&self, access: Access, offset: u64, length: u64, size_bytes: u64) -> Operation {
        let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
        let mut operation = Operation {
            number,
            stall_ns: 0,
            effect: None,
        };
        let range = offset..offset.saturating_add(length);
        for (index, rule) in self.plan.rules.iter().enumerate() {
            let mut draw = Draw::new(self.plan.seed, number, index as u64);
            if !applies(rule, access, &range, number, &mut draw) {
                continue;
            }
            if let Fault::Stall { duration_ns } = rule.fault {
                operation.stall_ns = operation.stall_ns.saturating_add(duration_ns);
                self.note(number, access, &range, Effect::Stalled { duration_ns });
            } else if operation.effect.is_none()
                && let Some(effect) = effect(&rule.fault, &range, size_bytes, &mut draw)
            {
                self.note(number, access, &range, effect.clone());
                operation.effect = Some(effect);
            }
        }
        operation
    }

    /// Whether some fault of the plan needs old contents to be kept.
    pub(super) fn reverts(&self) -> bool {
        let after_cut = |rule: &Rule| rule.fault.visible() == Visible::AfterPowerCut;
        self.plan.rules.iter().any(after_cut)
    }

    fn note(&self, operation: u64, access: Access, range: &Range<u64>, effect: Effect) {
        let injected = Injected {
            seed: self.plan.seed,
            operation,
            access,
            offset: range.start,
            length: range.end - range.start,
            effect,
        };
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(injected);
    }
}

fn applies(rule: &Rule, access: Access, range: &Range<u64>, number: u64, draw: &mut Draw) -> bool {
    if rule.fault.access().is_some_and(|of| of != access) {
        return false;
    }
    if let Some(hit) = &rule.range
        && (access == Access::Sync || range.start >= hit.end || range.end <= hit.start)
    {
        return false;
    }
    match rule.trigger {
        Trigger::Probability(p) => draw.fraction() < p,
        Trigger::Operation(wanted) => number == wanted,
    }
}

/// What the fault makes of this operation; `None` where it cannot happen.
fn effect(fault: &Fault, range: &Range<u64>, size_bytes: u64, draw: &mut Draw) -> Option<Effect> {
    let length = range.end - range.start;
    match *fault {
        Fault::EioRead | Fault::EioWrite | Fault::EioSync => Some(Effect::Eio),
        Fault::NoSpace => Some(Effect::NoSpace),
        Fault::LostSync => Some(Effect::LostSync),
        Fault::Lost { visible } => Some(Effect::Lost { visible }),
        Fault::ShortRead | Fault::ShortWrite => {
            // A disk never stops inside a sector; who asked for whole sectors
            // takes one that ends inside of one for the end of the file.
            let unit = if length.is_multiple_of(SECTOR_BYTES) {
                SECTOR_BYTES
            } else {
                1
            };
            let units = length / unit;
            (units > 1).then(|| Effect::Short {
                bytes: (1 + draw.below(units - 1)) * unit,
            })
        }
        Fault::Torn {
            unit_bytes,
            visible,
        } => {
            let count = units::count(range, unit_bytes);
            (count > 1).then(|| Effect::Torn {
                unit_bytes,
                arrived: units::tear(draw, count),
                visible,
            })
        }
        Fault::Misdirected => {
            let fits =
                |grid: &&u64| range.start.is_multiple_of(**grid) && length.is_multiple_of(**grid);
            let grid = *GRIDS_BYTES.iter().find(fits)?;
            // Places for it, its own left out.
            let others = size_bytes.checked_sub(length)? / grid;
            if others == 0 {
                return None;
            }
            let place = draw.below(others);
            let own = range.start / grid;
            let place = if place >= own { place + 1 } else { place };
            Some(Effect::Misdirected { to: place * grid })
        }
        Fault::FlipOnRead | Fault::FlipAtRest => (length > 0).then(|| Effect::Flipped {
            offset: range.start + draw.below(length),
            bit: draw.below(8) as u8,
            at_rest: *fault == Fault::FlipAtRest,
        }),
        Fault::Stall { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 20;

    fn faults(text: &str) -> Faults {
        Faults::new(text.parse().unwrap()).unwrap()
    }

    /// A mix of operations, the same each time.
    fn run(faults: &Faults) -> Vec<Operation> {
        (0..3000u64)
            .map(|n| match n % 3 {
                0 => faults.begin(Access::Read, n * 512 % SIZE, 4096, SIZE),
                1 => faults.begin(Access::Write, n * 4096 % (SIZE / 2), 16384, SIZE),
                _ => faults.begin(Access::Sync, 0, 0, SIZE),
            })
            .collect()
    }

    const ALL: &str = "eio=0.01,enospc=0.01,short=0.02,torn=4k:0.05,torn=512:0.05:power-cut,\
                       lost=0.02,misdirected=0.02,flip-read=0.02,flip=0.02,lost-sync=0.05,\
                       stall=1ms:0.1,seed=";

    #[test]
    fn the_same_operations_meet_the_same_faults() {
        let one = faults(&format!("{ALL}7"));
        let again = faults(&format!("{ALL}7"));
        let other = faults(&format!("{ALL}8"));
        assert_eq!(run(&one), run(&again));
        assert_eq!(one.log(), again.log());
        run(&other);
        assert_ne!(one.log().first[0].operation, 0);
        assert!(one.log().total > 300, "{}", one.log().total);
        assert_ne!(one.log().first, other.log().first);
    }

    #[test]
    fn probabilities_are_respected() {
        let faults = faults("eio-read=0.1,seed=3");
        let failed = run(&faults)
            .iter()
            .filter(|operation| operation.effect().is_some())
            .count();
        assert!((70..130).contains(&failed), "{failed} of 1000 reads");
    }

    #[test]
    fn a_number_names_one_operation() {
        let faults = faults("lost=#5,stall=3us:#6");
        let hit: Vec<u64> = run(&faults)
            .iter()
            .filter(|operation| operation.effect().is_some() || operation.stall_ns() > 0)
            .map(Operation::number)
            .collect();
        assert_eq!(hit, [5, 6]);
        assert_eq!(
            faults.log().to_string(),
            "seed 0, operation 5: write of 16384 at 16384 lost\n\
             seed 0, operation 6: sync stalled for 3000 ns\n"
        );
    }

    #[test]
    fn a_range_is_hit_where_it_is_touched() {
        let faults = faults("lost=1@8192+1");
        let hit = |offset, length| {
            let operation = faults.begin(Access::Write, offset, length, SIZE);
            operation.effect().is_some()
        };
        assert!(!hit(0, 8192));
        assert!(hit(0, 8193));
        assert!(hit(8192, 512));
        assert!(!hit(8193, 512));
    }

    #[test]
    fn what_cannot_happen_does_not() {
        // One unit, one sector, no other place.
        let faults = faults("torn=4k:1,short=1,misdirected=1");
        let operation = faults.begin(Access::Write, 4096, 512, 4096 + 512);
        assert!(matches!(
            operation.effect(),
            Some(Effect::Misdirected { to }) if to % 512 == 0 && *to != 4096
        ));
        let operation = faults.begin(Access::Write, 0, 512, 512);
        assert_eq!(operation.effect(), None);
        assert_eq!(faults.log().total, 1);
    }

    #[test]
    fn misdirected_writes_land_aligned_inside_and_elsewhere() {
        let faults = faults("misdirected=1,seed=9");
        let mut seen = std::collections::HashSet::new();
        for _ in 0..1000 {
            let operation = faults.begin(Access::Write, 8192, 4096, 8 * 4096);
            let Some(Effect::Misdirected { to }) = operation.effect() else {
                panic!("{operation:?}");
            };
            seen.insert(*to);
        }
        let all = (0..8).filter(|place| *place != 2).map(|place| place * 4096);
        assert_eq!(seen, all.collect());
    }

    #[test]
    fn the_log_is_bounded_and_says_so() {
        let faults = faults("lost=1");
        for _ in 0..super::super::LOG_MAX + 10 {
            faults.begin(Access::Write, 0, 512, SIZE);
        }
        let log = faults.log();
        assert_eq!(log.first.len(), super::super::LOG_MAX);
        assert!(log.to_string().ends_with("and 10 more\n"));
    }

    #[test]
    fn torn_writes_are_told_by_their_units() {
        let faults = faults("torn=4k:1,seed=7");
        let mut after = 0;
        for _ in 0..100 {
            faults.begin(Access::Write, 81920, 16384, SIZE);
        }
        for line in faults.log().to_string().lines() {
            assert!(line.contains("write of 16384 at 81920 torn"), "{line}");
            after += usize::from(line.contains("torn after "));
        }
        assert!((40..90).contains(&after), "{after}");
    }
}
