//! What a rate-limited volume is described by.

use serde::{Deserialize, Serialize};

use super::super::ParameterError;
use super::super::check;

/// More than any instance keeps outstanding on one volume.
const QUEUE_MAX: usize = 65_536;

/// Parameters of [`Cloud`](super::Cloud).
///
/// Vendors publish the limits; how many I/Os may pass at once, and the
/// distribution of latency below the limit, they do not. Those are typical
/// figures in the presets.
///
/// Million bytes are 10^6 bytes; where a vendor speaks of MiB/s the presets
/// have converted it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CloudParameters {
    /// Bytes of the volume.
    pub capacity_bytes: u64,
    /// Commands that the virtual machine's driver keeps outstanding.
    pub queue_max: usize,

    /// I/Os per second that it sustains for ever. Source: vendor's limit.
    pub iops: f64,
    /// I/Os per second while there are credits; `iops` on a volume that does
    /// not burst. Source: vendor.
    pub iops_burst: f64,
    /// I/Os saved at most, and at the beginning, for going beyond `iops`: they
    /// are used up at `iops_burst` - `iops` per second. Source: vendor's burst
    /// credits; about `iops_at_once` on a volume that does not burst.
    pub iops_credits: f64,
    /// I/Os that the limiter lets pass at the same instant after a pause.
    pub iops_at_once: f64,
    /// Bytes that count as one I/O: a larger one counts as several. Source:
    /// vendor, 256 KiB for volumes on flash.
    pub io_unit_bytes: u32,

    /// Whether reads have all of these limits, and writes the same again; otherwise both
    /// share them.
    #[serde(default)]
    pub each_way: bool,

    /// Million bytes per second that it sustains for ever. Source: vendor's
    /// limit.
    pub mb_per_second: f64,
    /// Million bytes per second while there are credits; `mb_per_second` on a
    /// volume that does not burst. Source: vendor.
    pub mb_per_second_burst: f64,
    /// Million bytes saved at most, and at the beginning, for going beyond
    /// `mb_per_second`.
    pub mb_credits: f64,
    /// Million bytes that the limiter lets pass at the same instant after a
    /// pause.
    pub mb_at_once: f64,

    /// Microseconds of network and service that half of the reads stay below.
    /// Latency is lognormal, and independent from one command to the next.
    pub read_median_us: f64,
    /// Microseconds that 99 % of the reads stay below.
    pub read_p99_us: f64,
    /// Microseconds of network and service that half of the writes stay below.
    pub write_median_us: f64,
    /// Microseconds that 99 % of the writes stay below.
    pub write_p99_us: f64,
}

impl CloudParameters {
    /// # Errors
    /// The first parameter with which there is no such volume.
    pub fn validate(&self) -> Result<(), ParameterError> {
        check::capacity(self.capacity_bytes, 512)?;
        check::at_least_one("queue_max", self.queue_max as u64)?;
        if self.queue_max > QUEUE_MAX {
            let requirement = format!("must be at most {QUEUE_MAX}");
            return Err(ParameterError::new(
                "queue_max",
                self.queue_max,
                requirement,
            ));
        }
        if self.io_unit_bytes < 512 {
            return Err(ParameterError::new(
                "io_unit_bytes",
                self.io_unit_bytes,
                "must be at least 512",
            ));
        }
        self.validate_rates()?;
        Self::validate_latency(
            ("read_median_us", self.read_median_us),
            ("read_p99_us", self.read_p99_us),
        )?;
        Self::validate_latency(
            ("write_median_us", self.write_median_us),
            ("write_p99_us", self.write_p99_us),
        )
    }

    fn validate_rates(&self) -> Result<(), ParameterError> {
        for (name, value) in [
            ("iops", self.iops),
            ("mb_per_second", self.mb_per_second),
            ("iops_credits", self.iops_credits),
            ("mb_credits", self.mb_credits),
            ("iops_at_once", self.iops_at_once),
            ("mb_at_once", self.mb_at_once),
        ] {
            check::above_zero(name, value)?;
        }
        for (name, burst, sustained_name, sustained) in [
            ("iops_burst", self.iops_burst, "iops", self.iops),
            (
                "mb_per_second_burst",
                self.mb_per_second_burst,
                "mb_per_second",
                self.mb_per_second,
            ),
        ] {
            if !burst.is_finite() || burst < sustained {
                return Err(ParameterError::new(
                    name,
                    burst,
                    format!("must be at least {sustained_name}, {sustained}"),
                ));
            }
        }
        Ok(())
    }

    fn validate_latency(median: (&str, f64), p99: (&str, f64)) -> Result<(), ParameterError> {
        check::time_above_zero_us(median.0, median.1)?;
        check::time_us(p99.0, p99.1)?;
        if p99.1 < median.1 {
            return Err(ParameterError::new(
                p99.0,
                p99.1,
                format!("must be at least {}, {}", median.0, median.1),
            ));
        }
        Ok(())
    }
}
