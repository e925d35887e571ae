//! Levels as the kernel's I/O priorities (`ioprio_set(2)`).

use crate::sys;
use iolane_sched::Level;

const CLASS_SHIFT: u16 = 13;
const REAL_TIME: u16 = 1 << CLASS_SHIFT;
const BEST_EFFORT: u16 = 2 << CLASS_SHIFT;

/// Whether levels are handed on to the kernel as I/O priorities.
///
/// A kernel scheduler that knows them (`mq-deadline`, `bfq`) can then help;
/// `none` and `kyber` ignore them. Concerns what goes through the driver; a
/// blocking call that its own thread carries to the device has that thread's
/// priority (`ioprio_set(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoPriority {
    /// The default. `Critical` is real-time 0 where the process may
    /// (`CAP_SYS_NICE`), otherwise best-effort 0; `Foreground` best-effort 1,
    /// `Normal` 4 (as the kernel's own default), `Prefetch` 6, `Background` 7.
    /// The idle class is not used: under `bfq` it gets nothing at all while
    /// anything else is active, and the scheduler here promises every level a
    /// minimum.
    #[default]
    ByLevel,
    /// Requests carry no priority; the kernel takes the submitting thread's.
    Off,
}

impl IoPriority {
    /// The `ioprio` of each level. Asks the kernel what this process may use.
    pub(crate) fn table(self) -> [u16; Level::COUNT] {
        match self {
            IoPriority::Off => [0; Level::COUNT],
            IoPriority::ByLevel => {
                let critical = if sys::ioprio::permitted(REAL_TIME) {
                    REAL_TIME
                } else {
                    BEST_EFFORT
                };
                [
                    critical,
                    BEST_EFFORT | 1,
                    BEST_EFFORT | 4,
                    BEST_EFFORT | 6,
                    BEST_EFFORT | 7,
                ]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_levels_never_get_a_better_priority() {
        let table = IoPriority::ByLevel.table();
        assert!(table.windows(2).all(|pair| pair[0] < pair[1]), "{table:?}");
        assert_eq!(IoPriority::Off.table(), [0; Level::COUNT]);
    }
}
