//! Figures for people. Documents for programs carry base units instead.

/// Sizes that users typed or the system has: in 1024s, exact where that is
/// short.
pub fn binary_size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value.fract() == 0.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// Three significant digits.
pub fn figure(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// Counts: `14.4K`, `1.25M`.
pub fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", "K", "M", "G"], "")
}

/// Bytes per second in millions, as disks are sold.
pub fn bytes_per_second(value: f64) -> String {
    scaled(value, 1000.0, &["B/s", "kB/s", "MB/s", "GB/s"], " ")
}

/// A time from nanoseconds.
pub fn time(value_ns: f64) -> String {
    scaled(value_ns, 1000.0, &["ns", "µs", "ms", "s"], " ")
}

fn scaled(value: f64, base: f64, units: &[&str], gap: &str) -> String {
    let mut value = value;
    let mut unit = 0;
    // What would be rounded to a thousand is one of the next unit.
    while value.abs() >= base * 0.9995 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let text = if unit == 0 && value.fract() == 0.0 {
        format!("{value}")
    } else {
        figure(value)
    };
    format!("{text}{gap}{}", units[unit]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(binary_size(512), "512 B");
        assert_eq!(binary_size(16384), "16 KiB");
        assert_eq!(binary_size(1536), "1.5 KiB");
        assert_eq!(binary_size(3 << 30), "3 GiB");
    }

    #[test]
    fn figures_keep_three_digits() {
        assert_eq!(count(14_432.0), "14.4K");
        assert_eq!(count(7.0), "7");
        assert_eq!(count(999_990.0), "1.00M");
        assert_eq!(count(49_900.0), "49.9K");
        assert_eq!(time(52_300.0), "52.3 µs");
        assert_eq!(time(1_277_000.0), "1.28 ms");
        assert_eq!(time(850.0), "850 ns");
        assert_eq!(time(0.0), "0 ns");
        assert_eq!(bytes_per_second(817_000_000.0), "817 MB/s");
    }
}
