//! Rates of requests, always per second: `500/s`.

/// The highest rate that makes sense for one device.
pub const PER_SECOND_MAX: f64 = 10_000_000.0;

/// Requests per second from a text such as `500/s`.
///
/// # Errors
/// When `/s` is missing, or the number is not above 0.
pub fn parse(text: &str) -> Result<f64, String> {
    let number = text
        .strip_suffix("/s")
        .ok_or_else(|| format!("{text:?} is not a rate; write requests per second, as in 500/s"))?;
    match number.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= PER_SECOND_MAX => Ok(rate),
        _ => Err(format!(
            "{text} is not a rate above 0/s and up to {PER_SECOND_MAX:.0}/s"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_needs_its_unit() {
        assert_eq!(parse("500/s"), Ok(500.0));
        assert_eq!(parse("0.5/s"), Ok(0.5));
        for text in [
            "500", "/s", "0/s", "-1/s", "nan/s", "inf/s", "500/m", "1e9/s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
