//! What several models ask of their parameters.

use super::ParameterError;

/// Longest time that a parameter may state: 1000 seconds. More is a slip of
/// the unit, and far from overflowing the clock.
const TIME_MAX_US: f64 = 1e9;

/// Whatever else a model requires.
pub(super) fn ensure(
    name: &str,
    value: impl ToString,
    good: bool,
    requirement: impl Into<String>,
) -> Result<(), ParameterError> {
    if good {
        Ok(())
    } else {
        Err(ParameterError::new(name, value, requirement))
    }
}

/// A number of things of which there must be one at least.
pub(super) fn at_least_one(name: &str, value: u64) -> Result<(), ParameterError> {
    if value == 0 {
        return Err(ParameterError::new(name, value, "must be at least 1"));
    }
    Ok(())
}

/// A capacity in whole sectors.
pub(super) fn capacity(value: u64, bytes_min: u64) -> Result<(), ParameterError> {
    if value < bytes_min || !value.is_multiple_of(512) {
        return Err(ParameterError::new(
            "capacity_bytes",
            value,
            format!("must be a multiple of 512, at least {bytes_min}"),
        ));
    }
    Ok(())
}

/// A rate, or whatever else must be a number above nothing.
pub(super) fn above_zero(name: &str, value: f64) -> Result<(), ParameterError> {
    if !value.is_finite() || value <= 0.0 {
        return Err(ParameterError::new(
            name,
            value,
            "must be a finite number above 0",
        ));
    }
    Ok(())
}

/// A share or a ratio within its bounds, inclusive.
pub(super) fn within(name: &str, value: f64, least: f64, most: f64) -> Result<(), ParameterError> {
    // A comparison with NaN is false: NaN is refused too.
    if !(value >= least && value <= most) {
        return Err(ParameterError::new(
            name,
            value,
            format!("must be from {least} to {most}"),
        ));
    }
    Ok(())
}

/// A time in microseconds that may be none.
pub(super) fn time_us(name: &str, value: f64) -> Result<(), ParameterError> {
    if !(0.0..=TIME_MAX_US).contains(&value) {
        return Err(ParameterError::new(
            name,
            value,
            "must be a time from 0 to 1e9 microseconds",
        ));
    }
    Ok(())
}

/// A time in microseconds that takes some.
pub(super) fn time_above_zero_us(name: &str, value: f64) -> Result<(), ParameterError> {
    if value == 0.0 {
        return Err(ParameterError::new(name, value, "must be above 0"));
    }
    time_us(name, value)
}

/// Microseconds, already checked, as whole nanoseconds.
pub(super) fn us_to_ns(us: f64) -> u64 {
    (us * 1e3).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_refused_everywhere() {
        for value in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(above_zero("x", value).is_err(), "{value}");
            assert!(within("x", value, 0.0, 1.0).is_err(), "{value}");
            assert!(time_us("x", value).is_err(), "{value}");
            assert!(time_above_zero_us("x", value).is_err(), "{value}");
        }
        assert!(above_zero("x", 0.0).is_err());
        assert!(time_us("x", 0.0).is_ok());
        assert!(time_above_zero_us("x", 0.0).is_err());
        assert!(capacity(513, 512).is_err());
        assert!(capacity(0, 512).is_err());
    }
}
