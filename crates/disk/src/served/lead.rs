//! What is taken off the model's time to make up for the transport's own.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::server::{Server, ServerOptions};
use crate::medium::MemoryMedium;
use crate::model::{Constant, ConstantParameters};
use crate::sys::{go_first, now_ns};

/// By how much an answer is sent before the instant that the model says: the
/// time that a request and its answer spend in the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lead {
    /// Of every operation, in nanoseconds.
    pub base_ns: u64,
    /// And so many more for each MiB that is moved, for copying.
    pub per_mebibyte_ns: u64,
}

impl Lead {
    /// Answers at the instant that the model says, and never before.
    pub const NONE: Lead = Lead {
        base_ns: 0,
        per_mebibyte_ns: 0,
    };

    /// Of an operation of so many bytes.
    pub fn of(self, length: u32) -> u64 {
        self.base_ns + ((u128::from(self.per_mebibyte_ns) * u128::from(length)) >> 20) as u64
    }
}

/// The lead could not be measured.
#[derive(Debug, thiserror::Error)]
#[error("the round trip of the transport could not be measured: {0}")]
pub struct NotMeasured(#[from] pub io::Error);

/// Long enough for processors and threads to fall asleep between requests as
/// they do in use: after 300 us, virtual ones are woken faster than after 1 ms.
const LATENCY_NS: u64 = 1_000_000;
const SHORT_BYTES: u32 = 4 << 10;
const LONG_BYTES: u32 = 256 << 10;
/// Of each length, in each turn.
const ROUNDS: usize = 30;
/// Every other request comes after a pause, as clients come that do not only
/// wait for the disk: threads and processors on its way sleep deeper then.
const PAUSE: Duration = Duration::from_micros(1_500);
/// What the machine does besides changes from moment to moment: measured in
/// turns, of which the middle one counts, by its mean: what is usually late by
/// a little is made up for too, and on average no answer is early or late.
const TURNS: usize = 5;
const BETWEEN_TURNS: Duration = Duration::from_millis(50);
/// More would be no round trip, but a stall of the machine.
const BASE_MAX_NS: u64 = 1_000_000;
const PER_MEBIBYTE_MAX_NS: u64 = 5_000_000;

/// A disk of 1 MiB and constant latency, without a lead: what the round trip
/// is measured on.
///
/// # Errors
/// As [`Server::start`].
pub fn round_trip_server() -> io::Result<Server> {
    let parameters = ConstantParameters {
        capacity_bytes: 1 << 20,
        queue_max: 32,
        latency_ns: LATENCY_NS,
    };
    let model = Constant::new(parameters).map_err(io::Error::other)?;
    let medium = MemoryMedium::new(1 << 20);
    Server::start(Box::new(model), Arc::new(medium), &ServerOptions::default())
}

/// Measures it: `read` reads so many bytes at 0 of a [`round_trip_server`]
/// through the transport, and everything beyond that disk's latency is the
/// transport's. One request at a time; takes about a second.
///
/// # Errors
/// Those of `read`.
pub fn measure_lead(read: impl FnMut(u32) -> io::Result<()> + Send) -> Result<Lead, NotMeasured> {
    // On a thread of its own, as it goes first: what else the machine does at
    // this moment is not the transport's.
    thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            go_first();
            measure(read)
        });
        let measured = measuring.join();
        measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
    .map_err(NotMeasured)
}

fn measure(mut read: impl FnMut(u32) -> io::Result<()>) -> io::Result<Lead> {
    let mut overhead = |length| -> io::Result<u64> {
        let mut times = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS {
            if round % 2 == 1 {
                thread::sleep(PAUSE);
            }
            let start = now_ns();
            read(length)?;
            times.push((now_ns() - start).saturating_sub(LATENCY_NS));
        }
        Ok(times.iter().sum::<u64>() / times.len() as u64)
    };
    let (mut shorts, mut longs) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        if turn > 0 {
            thread::sleep(BETWEEN_TURNS);
        }
        shorts.push(overhead(SHORT_BYTES)?);
        longs.push(overhead(LONG_BYTES)?);
    }
    let (short, long) = (median(&mut shorts), median(&mut longs));
    let per_mebibyte_ns = (long.saturating_sub(short) << 20) / u64::from(LONG_BYTES - SHORT_BYTES);
    Ok(Lead {
        base_ns: short.min(BASE_MAX_NS),
        per_mebibyte_ns: per_mebibyte_ns.min(PER_MEBIBYTE_MAX_NS),
    })
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lead_grows_with_what_is_copied() {
        let lead = Lead {
            base_ns: 1000,
            per_mebibyte_ns: 4096,
        };
        assert_eq!(lead.of(0), 1000);
        assert_eq!(lead.of(256 << 10), 2024);
        assert_eq!(Lead::NONE.of(u32::MAX), 0);
    }

    #[test]
    fn what_a_transport_adds_is_measured_without_the_disk() {
        let lead = measure_lead(|length| {
            let extra = 50_000 + u64::from(length) / 4;
            std::thread::sleep(std::time::Duration::from_nanos(LATENCY_NS + extra));
            Ok(())
        })
        .unwrap();
        // 51 us at least; a busy machine sleeps longer.
        assert!(lead.base_ns >= 51_000, "{lead:?}");
        assert!(lead.base_ns <= BASE_MAX_NS);
    }

    #[test]
    fn a_failing_transport_is_reported() {
        let error = measure_lead(|_| Err(io::ErrorKind::NotConnected.into())).unwrap_err();
        assert!(error.to_string().contains("round trip"));
    }
}
