//! Writes in the units that a disk stores as wholes.

use super::draw::Draw;
use std::fmt;
use std::ops::Range;

/// Units listed in a message.
const LISTED_MAX: usize = 16;

/// How many units of `unit_bytes`, on multiples of their size, a range
/// touches.
pub(crate) fn count(range: &Range<u64>, unit_bytes: u32) -> usize {
    let unit = u64::from(unit_bytes);
    (range.end.div_ceil(unit) - range.start / unit) as usize
}

/// Which units of a write arrive: some, but not all. Half of the draws cut it
/// off after some unit, as a disk that works in order of position would; the
/// others take any.
pub(crate) fn tear(draw: &mut Draw, count: usize) -> Vec<bool> {
    assert!(count > 1, "one unit arrives or not");
    if draw.below(2) == 0 {
        let first_lost = draw.below(count as u64) as usize;
        return (0..count).map(|unit| unit < first_lost).collect();
    }
    let mut arrived: Vec<bool> = (0..count).map(|_| draw.below(2) == 0).collect();
    let at = draw.below(count as u64) as usize;
    if arrived.iter().all(|arrived| *arrived) {
        arrived[at] = false;
    }
    arrived
}

/// The parts of `range` whose units are marked as `wanted`, neighbours joined.
pub(crate) fn parts(
    range: &Range<u64>,
    unit_bytes: u32,
    arrived: &[bool],
    wanted: bool,
) -> Vec<Range<u64>> {
    let unit = u64::from(unit_bytes);
    let first = range.start / unit;
    let mut parts: Vec<Range<u64>> = Vec::new();
    for (number, _) in arrived
        .iter()
        .enumerate()
        .filter(|(_, arrived)| **arrived == wanted)
    {
        let start = ((first + number as u64) * unit).max(range.start);
        let end = ((first + number as u64 + 1) * unit).min(range.end);
        match parts.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => parts.push(start..end),
        }
    }
    parts
}

/// `0, 2, 3 of 4`.
pub(crate) fn list(f: &mut fmt::Formatter<'_>, arrived: &[bool]) -> fmt::Result {
    let numbers = (0..arrived.len()).filter(|number| arrived[*number]);
    for (listed, number) in numbers.enumerate() {
        if listed == LISTED_MAX {
            write!(f, ", ...")?;
            break;
        }
        let comma = if listed > 0 { ", " } else { "" };
        write!(f, "{comma}{number}")?;
    }
    write!(f, " of {}", arrived.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_lie_on_multiples_of_their_size() {
        assert_eq!(count(&(0..4096), 4096), 1);
        assert_eq!(count(&(100..4097), 4096), 2);
        assert_eq!(count(&(512..2048), 512), 3);
        let arrived = [true, false, true, true, false];
        assert_eq!(
            parts(&(100..2200), 512, &arrived, true),
            [100..512, 1024..2048]
        );
        assert_eq!(
            parts(&(100..2200), 512, &arrived, false),
            [512..1024, 2048..2200]
        );
    }

    #[test]
    fn a_tear_always_loses_something() {
        let mut prefixes = 0;
        for which in 0..1000 {
            let arrived = tear(&mut Draw::new(1, 2, which), 4);
            assert!(arrived.contains(&false));
            let count = arrived.iter().filter(|arrived| **arrived).count();
            prefixes += usize::from(arrived[..count].iter().all(|arrived| *arrived));
        }
        assert!((500..900).contains(&prefixes), "{prefixes}");
    }
}
