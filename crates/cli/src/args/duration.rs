//! Times as people write them. A number without a unit is refused: nobody can
//! tell whether `10` meant seconds or milliseconds.

use std::time::Duration;

/// Explains the rule in help texts and messages.
pub const RULE: &str = "Times need a unit: ns, us, ms, s, m or h, such as 500ms or 1.5s.";

/// The longest time any option takes; longer ones are typing errors.
pub const MOST: Duration = Duration::from_secs(7 * 24 * 3600);

/// A time from a text such as `10s`, `500ms` or `1.5s`.
///
/// # Errors
/// A message with the rule.
pub fn parse(text: &str) -> Result<Duration, String> {
    let number_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let unit_ns: u64 = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "" => return Err(format!("{text:?} has no unit. {RULE}")),
        _ => return Err(format!("{unit:?} is not a unit of time. {RULE}")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{text:?} is not a time. {RULE}"))?;
    let time_ns = number * unit_ns as f64;
    if time_ns > MOST.as_nanos() as f64 {
        return Err(format!("{text} is more than 7 days"));
    }
    Ok(Duration::from_nanos(time_ns.round() as u64))
}

/// As [`parse`], and more than nothing.
///
/// # Errors
/// As [`parse`], or zero.
pub fn parse_positive(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err(format!("{text} is zero; give more than 0")),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_understood() {
        assert_eq!(parse("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(parse("1h"), Ok(Duration::from_secs(3600)));
        assert_eq!(parse("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse("7ns"), Ok(Duration::from_nanos(7)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
    }

    #[test]
    fn a_missing_unit_is_refused() {
        for text in ["10", "0.5", ""] {
            let message = parse(text).unwrap_err();
            assert!(
                message.contains("has no unit") && message.contains(RULE),
                "{message}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["s", "-1s", "1..5s", "10 s", "10sec", "1e3s", "nans"] {
            assert!(parse(text).unwrap_err().contains(RULE), "{text}");
        }
        assert!(parse("1000h").is_err());
        assert!(parse_positive("0ms").is_err());
    }
}
