//! Lists of numbers and sizes, with a short way to write a progression.
//!
//! `1,2,4..16` doubles from the number before the dots: 1,2,4,8,16. The last
//! number is always part of the list (`8..20` is 8,16,20). `1..5+1` counts up
//! in steps: 1,2,3,4,5. A comma beside the dots changes nothing, so that
//! `1,2,..16` reads the same. For shares in percent, where doubling makes no
//! sense, the dots go on in the step of the two numbers before them:
//! `10,20,..,90`.

/// Longest list: a run per entry, so more is a typing error.
pub const ENTRIES_MAX: usize = 1024;

/// Explains the doubling rule in help texts.
pub const RULE: &str = "A list: 1,2,4..16 doubles (1,2,4,8,16), 1..5+1 counts (1,2,3,4,5).";

/// How `..` goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progression {
    /// Doubles the number before the dots.
    Doubling,
    /// Repeats the difference of the two numbers before the dots.
    Steps,
}

/// A parsed list; a type of its own, because clap treats a bare `Vec` as an
/// option given many times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List(pub Vec<u64>);

/// Numbers from a list.
///
/// # Errors
/// Which entry is wrong and why.
pub fn parse(
    text: &str,
    progression: Progression,
    number: impl Fn(&str) -> Result<u64, String>,
) -> Result<List, String> {
    let mut values: Vec<u64> = Vec::new();
    let mut dots_pending = false;
    for entry in text.split(',').map(str::trim) {
        let (before, after) = match entry.split_once("..") {
            Some((before, after)) => (before, Some(after)),
            None => (entry, None),
        };
        if after.is_none() && before.is_empty() {
            return Err(format!("{text:?} has an empty entry. {RULE}"));
        }
        if !before.is_empty() {
            let value = number(before)?;
            extend(
                &mut values,
                value,
                std::mem::take(&mut dots_pending),
                progression,
                None,
            )?;
        }
        match after {
            None => {}
            Some("") => dots_pending = true,
            Some(end) => {
                let (end, step) = match end.split_once('+') {
                    Some((end, step)) => (end, Some(number(step)?)),
                    None => (end, None),
                };
                extend(&mut values, number(end)?, true, progression, step)?;
            }
        }
    }
    if dots_pending {
        return Err(format!(
            "{text:?} ends in dots; write the last number after them"
        ));
    }
    Ok(List(values))
}

/// Appends `end`, and before it, when `dots` stood there, what lies between.
fn extend(
    values: &mut Vec<u64>,
    end: u64,
    dots: bool,
    progression: Progression,
    step: Option<u64>,
) -> Result<(), String> {
    if dots {
        let last = *values
            .last()
            .ok_or("dots need a number before them, as in 1..16")?;
        if end <= last {
            return Err(format!("{last}..{end} does not go up"));
        }
        let step = match (step, progression) {
            (Some(0), _) => return Err("a step of 0 never arrives".to_owned()),
            (Some(step), _) => Some(step),
            (None, Progression::Doubling) => None,
            (None, Progression::Steps) => Some(difference(values)?),
        };
        let mut next = last;
        loop {
            next = match step {
                Some(step) => next.saturating_add(step),
                // From 0, doubling would stand still.
                None => next.saturating_mul(2).max(1),
            };
            if next >= end {
                break;
            }
            push(values, next)?;
        }
    }
    push(values, end)
}

fn difference(values: &[u64]) -> Result<u64, String> {
    match values {
        [.., a, b] if b > a => Ok(b - a),
        _ => Err("dots need two rising numbers before them, as in 10,20,..90".to_owned()),
    }
}

fn push(values: &mut Vec<u64>, value: u64) -> Result<(), String> {
    if values.len() == ENTRIES_MAX {
        return Err(format!("more than {ENTRIES_MAX} entries"));
    }
    // Twice the same run would only cost time, and make rows that look alike.
    if values.contains(&value) {
        return Err(format!("{value} is in the list twice"));
    }
    values.push(value);
    Ok(())
}

/// A whole number within limits, for list entries and single options.
///
/// # Errors
/// Not a whole number, or outside the limits.
pub fn number_within(text: &str, least: u64, most: u64) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        Ok(_) => Err(format!("{text} is outside {least} to {most}")),
        Err(_) => Err(format!(
            "{text:?} is not a whole number from {least} to {most}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubling(text: &str) -> Result<Vec<u64>, String> {
        parse(text, Progression::Doubling, |t| number_within(t, 1, 4096)).map(|list| list.0)
    }

    fn steps(text: &str) -> Result<Vec<u64>, String> {
        parse(text, Progression::Steps, |t| number_within(t, 1, 100)).map(|list| list.0)
    }

    #[test]
    fn dots_double() {
        assert_eq!(doubling("1,2,4..16"), Ok(vec![1, 2, 4, 8, 16]));
        assert_eq!(doubling("1,2,4,..32"), Ok(vec![1, 2, 4, 8, 16, 32]));
        assert_eq!(doubling("1,2,..,16"), Ok(vec![1, 2, 4, 8, 16]));
        assert_eq!(doubling("8..20"), Ok(vec![8, 16, 20]));
        assert_eq!(doubling("1,32,..256"), Ok(vec![1, 32, 64, 128, 256]));
        assert_eq!(doubling("7"), Ok(vec![7]));
    }

    #[test]
    fn a_step_counts() {
        assert_eq!(doubling("1..5+1"), Ok(vec![1, 2, 3, 4, 5]));
        assert_eq!(doubling("1..8+3"), Ok(vec![1, 4, 7, 8]));
    }

    #[test]
    fn shares_go_on_in_steps() {
        assert_eq!(steps("10,20,..,50"), Ok(vec![10, 20, 30, 40, 50]));
        assert_eq!(steps("10,20,30"), Ok(vec![10, 20, 30]));
        assert!(steps("10..90").unwrap_err().contains("two rising numbers"));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "", ",", "1,,2", "..4", "4..", "4..2", "a", "0", "5000", "1,1", "1..4+0", "-1",
        ] {
            assert!(doubling(text).is_err(), "{text}");
        }
        assert!(
            doubling("1..4000+1")
                .unwrap_err()
                .contains("more than 1024")
        );
    }
}
