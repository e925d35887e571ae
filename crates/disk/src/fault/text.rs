//! Plans as text: `eio=1e-4,torn=4k:1e-3,seed=7`.

use super::plan::{Access, Fault, FaultPlan, FaultPlanError, RULES_MAX, Rule, Trigger, Visible};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// An hour: longer ones are slips of the pen.
const STALL_NS_MAX: u64 = 3_600_000_000_000;

const UNIT_BYTES: [(&str, u32); 6] = [
    ("512", 512),
    ("1k", 1024),
    ("2k", 2048),
    ("4k", 4096),
    ("1024", 1024),
    ("4096", 4096),
];

impl FaultPlan {
    /// Refuses what no text could say.
    pub(super) fn check(&self) -> Result<(), FaultPlanError> {
        if self.rules.len() > RULES_MAX {
            let count = self.rules.len();
            return Err(FaultPlanError::TooMany { count });
        }
        for rule in &self.rules {
            let name = name(&rule.fault).to_owned();
            match rule.trigger {
                Trigger::Probability(p) if (0.0..=1.0).contains(&p) => {}
                Trigger::Operation(1..) => {}
                Trigger::Probability(p) => {
                    let value = p.to_string();
                    return Err(FaultPlanError::When { name, value });
                }
                Trigger::Operation(number) => {
                    let value = format!("#{number}");
                    return Err(FaultPlanError::When { name, value });
                }
            }
            if let Some(range) = &rule.range
                && (range.is_empty() || rule.fault.access() == Some(Access::Sync))
            {
                let value = format!("{range:?}");
                return Err(FaultPlanError::Range { name, value });
            }
            match rule.fault {
                Fault::Torn { unit_bytes, .. }
                    if !(512..=4096).contains(&unit_bytes) || !unit_bytes.is_power_of_two() =>
                {
                    let value = unit_bytes.to_string();
                    return Err(FaultPlanError::Unit { value });
                }
                Fault::Stall { duration_ns } if duration_ns > STALL_NS_MAX => {
                    let value = format!("{duration_ns}ns");
                    return Err(FaultPlanError::Time { value });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<FaultPlan, FaultPlanError> {
        let mut plan = FaultPlan::default();
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let (name, value) = item
                .split_once('=')
                .filter(|(name, value)| !name.is_empty() && !value.is_empty())
                .ok_or_else(|| FaultPlanError::NoItem { item: item.into() })?;
            if name == "seed" {
                let value = value.to_owned();
                plan.seed = value.parse().map_err(|_| FaultPlanError::Seed { value })?;
                continue;
            }
            read_item(name, value, &mut plan.rules)?;
        }
        plan.check()?;
        Ok(plan)
    }
}

/// The rules of one item: one, or several where the name stands for them.
fn read_item(name: &str, value: &str, rules: &mut Vec<Rule>) -> Result<(), FaultPlanError> {
    let mut parts = value.split(':');
    let mut part = || parts.next().unwrap_or("");
    let mut faults = match name {
        "eio" => vec![Fault::EioRead, Fault::EioWrite, Fault::EioSync],
        "eio-read" => vec![Fault::EioRead],
        "eio-write" => vec![Fault::EioWrite],
        "eio-sync" => vec![Fault::EioSync],
        "enospc" => vec![Fault::NoSpace],
        "short" => vec![Fault::ShortRead, Fault::ShortWrite],
        "short-read" => vec![Fault::ShortRead],
        "short-write" => vec![Fault::ShortWrite],
        "torn" => vec![Fault::Torn {
            unit_bytes: read_unit(part())?,
            visible: Visible::AtOnce,
        }],
        "misdirected" => vec![Fault::Misdirected],
        "lost" => vec![Fault::Lost {
            visible: Visible::AtOnce,
        }],
        "flip-read" => vec![Fault::FlipOnRead],
        "flip" => vec![Fault::FlipAtRest],
        "lost-sync" => vec![Fault::LostSync],
        "stall" => vec![Fault::Stall {
            duration_ns: read_time(part())?,
        }],
        _ => return Err(FaultPlanError::UnknownName { name: name.into() }),
    };
    let (trigger, range) = read_when(name, part())?;
    for extra in parts {
        match (&mut faults[0], extra) {
            (Fault::Torn { visible, .. } | Fault::Lost { visible }, "power-cut") => {
                *visible = Visible::AfterPowerCut;
            }
            _ => {
                return Err(FaultPlanError::Extra {
                    name: name.into(),
                    value: extra.into(),
                });
            }
        }
    }
    // Of a name that stands for several, those without a range have none.
    let several = faults.len() > 1;
    for fault in faults {
        if several && range.is_some() && fault.access() == Some(Access::Sync) {
            continue;
        }
        rules.push(Rule {
            fault,
            trigger,
            range: range.clone(),
        });
    }
    Ok(())
}

fn read_unit(value: &str) -> Result<u32, FaultPlanError> {
    UNIT_BYTES
        .iter()
        .find(|(name, _)| *name == value)
        .map(|(_, bytes)| *bytes)
        .ok_or_else(|| FaultPlanError::Unit {
            value: value.into(),
        })
}

fn read_time(value: &str) -> Result<u64, FaultPlanError> {
    // "s" last: the others end in it.
    [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ]
    .iter()
    .find_map(|(unit, ns)| {
        let number: u64 = value.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*ns)
    })
    .filter(|ns| *ns <= STALL_NS_MAX)
    .ok_or_else(|| FaultPlanError::Time {
        value: value.into(),
    })
}

fn read_when(name: &str, text: &str) -> Result<(Trigger, Option<Range<u64>>), FaultPlanError> {
    let (when, range) = match text.split_once('@') {
        Some((when, range)) => (when, Some(range)),
        None => (text, None),
    };
    let trigger = match when.strip_prefix('#') {
        Some(number) => number.parse().ok().map(Trigger::Operation),
        None => when.parse().ok().map(Trigger::Probability),
    };
    let trigger = trigger.ok_or_else(|| FaultPlanError::When {
        name: name.into(),
        value: when.into(),
    })?;
    let range = range.map(|range| {
        read_range(range).ok_or_else(|| FaultPlanError::Range {
            name: name.into(),
            value: range.into(),
        })
    });
    Ok((trigger, range.transpose()?))
}

fn read_range(text: &str) -> Option<Range<u64>> {
    let (offset, length) = text.split_once('+')?;
    let offset = read_bytes(offset)?;
    let end = offset.checked_add(read_bytes(length)?)?;
    (end > offset).then_some(offset..end)
}

fn read_bytes(text: &str) -> Option<u64> {
    let shift = match text.chars().last()?.to_ascii_lowercase() {
        'k' => 10,
        'm' => 20,
        'g' => 30,
        't' => 40,
        _ => return text.parse().ok(),
    };
    let number: u64 = text[..text.len() - 1].parse().ok()?;
    number.checked_mul(1 << shift)
}

/// As written in a plan.
pub(super) fn name(fault: &Fault) -> &'static str {
    match fault {
        Fault::EioRead => "eio-read",
        Fault::EioWrite => "eio-write",
        Fault::EioSync => "eio-sync",
        Fault::NoSpace => "enospc",
        Fault::ShortRead => "short-read",
        Fault::ShortWrite => "short-write",
        Fault::Torn { .. } => "torn",
        Fault::Misdirected => "misdirected",
        Fault::Lost { .. } => "lost",
        Fault::FlipOnRead => "flip-read",
        Fault::FlipAtRest => "flip",
        Fault::LostSync => "lost-sync",
        Fault::Stall { .. } => "stall",
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", name(&self.fault))?;
        match self.fault {
            Fault::Torn { unit_bytes, .. } => {
                let unit = UNIT_BYTES.iter().find(|(_, bytes)| *bytes == unit_bytes);
                write!(f, "{}:", unit.map_or("?", |(name, _)| name))?;
            }
            Fault::Stall { duration_ns } => write!(f, "{duration_ns}ns:")?,
            _ => {}
        }
        match self.trigger {
            Trigger::Probability(p) => write!(f, "{p}")?,
            Trigger::Operation(number) => write!(f, "#{number}")?,
        }
        if let Some(range) = &self.range {
            write!(f, "@{}+{}", range.start, range.end - range.start)?;
        }
        if self.fault.visible() == Visible::AfterPowerCut {
            write!(f, ":power-cut")?;
        }
        Ok(())
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.rules {
            write!(f, "{rule},")?;
        }
        write!(f, "seed={}", self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> FaultPlan {
        text.parse()
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn every_fault_can_be_written_and_read_back() {
        let text = "eio=1e-4,enospc=0.5,short=#3,torn=512:1@1m+64k,torn=4k:0.1:power-cut,lost=0.2,\
                    lost=#9:power-cut,misdirected=1,flip-read=0,flip=1e-9@0+512,lost-sync=0.25,\
                    stall=50ms:1e-3,stall=2s:#1,seed=7";
        let plan = plan(text);
        assert_eq!(plan.rules.len(), 16);
        assert_eq!(plan.to_string().parse::<FaultPlan>().unwrap(), plan);
        assert_eq!(
            plan.rules[6],
            Rule {
                fault: Fault::Torn {
                    unit_bytes: 512,
                    visible: Visible::AtOnce
                },
                trigger: Trigger::Probability(1.0),
                range: Some(1 << 20..(1 << 20) + (64 << 10)),
            }
        );
    }

    #[test]
    fn nothing_is_a_plan_without_faults() {
        assert_eq!(plan(""), FaultPlan::default());
        assert_eq!(plan(" seed=3 , ").seed, 3);
    }

    /// With a range `eio` stands for reads and writes only.
    #[test]
    fn syncs_have_no_range() {
        assert_eq!(plan("eio=1@0+512").rules.len(), 2);
        let refused = "eio-sync=1@0+512".parse::<FaultPlan>().unwrap_err();
        assert!(matches!(refused, FaultPlanError::Range { .. }), "{refused}");
    }

    #[test]
    fn errors_name_what_is_wrong_and_what_would_be_right() {
        for (text, part) in [
            ("eio", "write NAME=WHEN"),
            ("=3", "write NAME=WHEN"),
            ("eoi=1", "unknown fault \"eoi\""),
            ("eio=often", "\"often\" does not say when"),
            ("eio=1.5", "probability from 0 to 1"),
            ("eio=-0.1", "probability from 0 to 1"),
            ("eio=NaN", "probability from 0 to 1"),
            ("eio=#0", "counted from 1"),
            ("lost=1@5", "OFFSET+LENGTH"),
            ("lost=1@5+0", "length above 0"),
            ("lost=1@99999999999g+1", "OFFSET+LENGTH"),
            ("torn=1e-3", "is not a unit"),
            ("torn=8k:1", "512, 1k, 2k or 4k"),
            ("stall=5:1", "use ns, us, ms or s"),
            ("stall=2000000h:1", "use ns, us, ms or s"),
            ("stall=3601s:1", "at most an hour"),
            ("misdirected=1:power-cut", "is too much"),
            ("lost=1:later", "\"later\" is too much"),
            ("seed=x", "whole one below 2^64"),
        ] {
            let error = text.parse::<FaultPlan>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let many = "lost=1,".repeat(RULES_MAX + 1);
        let error = many.parse::<FaultPlan>().unwrap_err().to_string();
        assert!(error.contains("at most 64"), "{error}");
    }
}
