//! What can be in force, and the steps from one setting to the next.

/// The widest window is 2 to the power of this: what the deepest devices can use.
pub(super) const RUNG_MAX: u8 = 9;

/// What is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// The window, in transfers, is 2 to the power of this.
    pub rung: u8,
    /// Nothing of the lower levels goes while a foreground's transfer is with the
    /// device.
    pub reserved: bool,
    /// Of the lower levels no more than a windowful goes after the oldest transfer
    /// with the device that somebody waits for: a disk that goes where its head is
    /// nearest may serve all of them first.
    pub bounded: bool,
    /// Inside a level, requests go by position.
    pub sorted: bool,
    /// Between two flushes that somebody waits for, 2 to the power of this of the lower
    /// levels' writes go at the most: a drive's volatile cache takes them at once, and
    /// the flush then waits for all of them.
    pub quota: Option<u8>,
    /// All that goes is kept to what the device was seen to do, and to so many times 5 %
    /// more.
    pub pace: Option<i16>,
}

/// The quota begins with 16 writes; one of more than 1024 is none.
const QUOTA_BEGIN: u8 = 4;
const QUOTA_MAX: u8 = 10;
/// One step of the pace, as logarithm.
const PACE_LN: f64 = 0.05;

impl Setting {
    /// How many times what the device was seen to do may go.
    pub(super) fn pace_factor(self) -> Option<f64> {
        self.pace.map(|steps| (f64::from(steps) * PACE_LN).exp())
    }

    pub(super) fn new(rung: u8) -> Setting {
        Setting {
            rung,
            reserved: false,
            bounded: false,
            sorted: false,
            quota: None,
            pace: None,
        }
    }

    /// Transfers that may be in flight before the lower levels wait.
    pub(super) fn transfers(self) -> u32 {
        1 << self.rung
    }
}

/// One step. Each has an opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Narrow,
    Widen,
    Bound,
    Reserve,
    Sort,
    Save,
    Spend,
    Pace,
    Faster,
    Slower,
}

impl Step {
    /// In the order in which they are tried.
    pub(super) const ALL: [Step; 10] = [
        Step::Narrow,
        Step::Widen,
        Step::Bound,
        Step::Save,
        Step::Spend,
        Step::Sort,
        Step::Pace,
        Step::Reserve,
        Step::Slower,
        Step::Faster,
    ];

    pub(super) fn opposite(self) -> Step {
        match self {
            Step::Widen => Step::Narrow,
            Step::Narrow => Step::Widen,
            Step::Save => Step::Spend,
            Step::Spend => Step::Save,
            Step::Faster => Step::Slower,
            Step::Slower => Step::Faster,
            other => other,
        }
    }

    pub(super) fn is_of_pace(self) -> bool {
        matches!(self, Step::Pace | Step::Faster | Step::Slower)
    }

    /// What it leads to; `rungs` are the least and the most, `stride` by how many
    /// parts the pace changes.
    pub(super) fn from(self, setting: Setting, rungs: (u8, u8), stride: i16) -> Option<Setting> {
        let (least, most) = rungs;
        let mut next = setting;
        match self {
            Step::Widen if setting.rung < most => next.rung += 1,
            Step::Narrow if setting.rung > least => next.rung -= 1,
            Step::Widen | Step::Narrow => return None,
            Step::Bound => next.bounded = !setting.bounded,
            Step::Reserve => next.reserved = !setting.reserved,
            Step::Sort => next.sorted = !setting.sorted,
            Step::Save => {
                next.quota = match setting.quota {
                    None => Some(QUOTA_BEGIN),
                    Some(quota) => Some(quota.checked_sub(1)?),
                }
            }
            Step::Spend => {
                next.quota = Some(setting.quota? + 1).filter(|&quota| quota <= QUOTA_MAX)
            }
            Step::Pace if setting.pace.is_none() => next.pace = Some(0),
            Step::Pace => return None,
            Step::Faster => next.pace = Some(setting.pace? + stride),
            Step::Slower => next.pace = Some(setting.pace? - stride),
        }
        Some(next)
    }
}
