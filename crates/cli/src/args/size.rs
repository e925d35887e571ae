//! Sizes as people write them.
//!
//! One rule: a unit that ends in `B` alone after its letter counts in
//! thousands (`4kB` = 4000), every other one in 1024s (`4k` = `4KiB` = 4096).
//! Upper and lower case mean the same. No unit means bytes.

/// Explains the rule in help texts.
pub const RULE: &str =
    "Sizes: 4k = 4KiB = 4096 bytes, 4kB = 4000 bytes (also m, g, t); no unit means bytes.";

/// Bytes from a text such as `16k`, `16KiB`, `16kB` or `16384`.
///
/// # Errors
/// A message with the rule, when it is not a whole number with a known unit,
/// or more than `u64` holds.
pub fn parse(text: &str) -> Result<u64, String> {
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(digits_end);
    if digits.is_empty() {
        return Err(format!(
            "{text:?} is not a size; write a whole number, then a unit. {RULE}"
        ));
    }
    let scale = scale(unit).ok_or_else(|| format!("{unit:?} is not a unit of size. {RULE}"))?;
    digits
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(scale))
        .ok_or_else(|| format!("{text} is more than 64 bits hold"))
}

fn scale(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    if unit.is_empty() || unit == "b" {
        return Some(1);
    }
    let (letter, rest) = unit.split_at_checked(1)?;
    let power = match letter {
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    match rest {
        "" | "i" | "ib" => Some(1024u64.pow(power)),
        "b" => Some(1000u64.pow(power)),
        _ => None,
    }
}

/// A size inside limits, for options that have them.
///
/// # Errors
/// As [`parse`], or outside the limits.
pub fn parse_within(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let size = parse(text)?;
    if (least..=most).contains(&size) {
        return Ok(size);
    }
    Err(format!(
        "{text} is outside {} to {}",
        crate::output::units::binary_size(least),
        crate::output::units::binary_size(most)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_letter_and_ib_count_in_1024s() {
        for text in ["4k", "4K", "4ki", "4KiB", "4kib", "4096", "4096b"] {
            assert_eq!(parse(text), Ok(4096), "{text}");
        }
        assert_eq!(parse("3m"), Ok(3 << 20));
        assert_eq!(parse("2GiB"), Ok(2 << 30));
        assert_eq!(parse("1t"), Ok(1 << 40));
    }

    #[test]
    fn a_letter_and_b_counts_in_thousands() {
        for text in ["4kB", "4KB", "4kb"] {
            assert_eq!(parse(text), Ok(4000), "{text}");
        }
        assert_eq!(parse("2GB"), Ok(2_000_000_000));
    }

    #[test]
    fn nonsense_is_refused_with_the_rule() {
        for text in [
            "", "k", "-4k", "4x", "1.5g", "4 k", "4kk", "4kibb", "0x10", "4é",
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(RULE), "{text}: {message}");
        }
        assert!(parse("99999999999t").unwrap_err().contains("64 bits"));
        assert!(
            parse("99999999999999999999999")
                .unwrap_err()
                .contains("64 bits")
        );
    }

    #[test]
    fn limits_are_named() {
        assert_eq!(parse_within("512", 512, 1 << 20), Ok(512));
        let message = parse_within("0", 512, 1 << 20).unwrap_err();
        assert_eq!(message, "0 is outside 512 B to 1 MiB");
    }
}
