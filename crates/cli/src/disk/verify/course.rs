//! One course of requests, as a client saw it and as the model has it.

use std::time::Duration;

use iolane_disk::Model;
use iolane_disk::served::{AlarmsLate, Taken, latencies_ns};

use super::client::Sample;
use super::load::Random;
use super::{Figures, Load, Machine, VerifyOptions};
use crate::args::disk::Transport;
use crate::error::Failure;

/// From the beginning of each run, not counted: caches and threads wake up, and
/// the lead settles.
pub const WARM_UP: Duration = Duration::from_millis(500);
/// Longest range of a command of the served disk: what FUSE hands over.
const COMMAND_BYTES_MAX: u64 = 1 << 20;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// When the client sent it.
    pub start_ns: u64,
    /// What it took, for the client.
    pub served_ns: u64,
    /// What it took by the model.
    pub model_ns: u64,
}

impl Pair {
    fn end_ns(&self) -> u64 {
        self.start_ns + self.served_ns
    }
}

/// Runs what the served disk's model was given on another one in virtual time,
/// and finds for each request of the client what it came to: one command, or
/// several where the kernel divided it, or a part of one where it merged.
///
/// # Errors
/// A request that no command belongs to; none left after the warm-up.
pub fn pair(
    options: &VerifyOptions,
    samples: &[Sample],
    taken: &[Taken],
    model: Box<dyn Model>,
) -> Result<Vec<Pair>, Failure> {
    let latencies = latencies_ns(model, taken);
    let mut commands: Vec<(Taken, u64)> = taken.iter().copied().zip(latencies).collect();
    commands.sort_by_key(|(taken, _)| taken.command.offset);
    let pairs: Option<Vec<Pair>> = samples
        .iter()
        .map(|sample| find(sample, options.block_size_bytes, &commands))
        .collect();
    let mut pairs = pairs.ok_or_else(|| {
        Failure::setup(
            "a request was answered of which the served disk has no record",
            "Give a shorter --runtime: records of one run are limited.",
        )
    })?;
    let first_ns = pairs.first().map_or(0, |pair| pair.start_ns);
    let from_ns = first_ns + WARM_UP.as_nanos() as u64;
    pairs.retain(|pair| pair.start_ns >= from_ns);
    if pairs.is_empty() {
        return Err(Failure::usage(
            "the disk did not complete a single request in the time of a run",
            "Give a longer --runtime.",
        ));
    }
    Ok(pairs)
}

/// `commands` with their latencies, in the order of their offsets.
fn find(sample: &Sample, length: u64, commands: &[(Taken, u64)]) -> Option<Pair> {
    let (start, end) = (sample.offset, sample.offset + length);
    let from =
        commands.partition_point(|(taken, _)| taken.command.offset + COMMAND_BYTES_MAX <= start);
    let near = commands[from..]
        .iter()
        .take_while(|(taken, _)| taken.command.offset < end);
    let own = near.filter(|(taken, _)| {
        taken.command.offset + u64::from(taken.command.length) > start
            && (sample.start_ns..=sample.end_ns).contains(&taken.arrived_ns)
    });
    let (first_ns, last_ns) = own.fold((u64::MAX, 0), |(first_ns, last_ns), (taken, latency)| {
        (
            first_ns.min(taken.taken_ns),
            last_ns.max(taken.taken_ns + latency),
        )
    });
    (first_ns < u64::MAX).then(|| Pair {
        start_ns: sample.start_ns,
        served_ns: sample.end_ns - sample.start_ns,
        model_ns: last_ns - first_ns,
    })
}

/// Of the served disk, and of the model. `pairs` in the order of their starts.
pub fn figures(load: Load, pairs: &[Pair]) -> (Figures, Figures) {
    let mut served = of(pairs, |pair| pair.served_ns);
    let mut model = of(pairs, |pair| pair.model_ns);
    if let Load::Closed { depth } = load {
        let (rate, busy) = steady(depth, pairs);
        served.requests_per_second = rate;
        // By Little's law, of a loop whose requests take the model's time and
        // that loses none between them: its whole depth is always under way,
        // of this one's the part that is `busy`.
        model.requests_per_second = rate * served.mean_latency_ns / (model.mean_latency_ns * busy);
    }
    (served, model)
}

fn of(pairs: &[Pair], latency_ns: impl Fn(&Pair) -> u64) -> Figures {
    let from_ns = pairs.iter().map(|pair| pair.start_ns).min();
    let last_ns = pairs
        .iter()
        .map(|pair| pair.start_ns + latency_ns(pair))
        .max();
    let elapsed_ns = last_ns.unwrap_or_default() - from_ns.unwrap_or_default();
    let (mean_latency_ns, p99_latency_ns) = mean_and_p99(pairs.iter().map(latency_ns).collect());
    Figures {
        mean_latency_ns,
        p99_latency_ns,
        requests_per_second: pairs.len() as f64 / (elapsed_ns as f64 / 1e9),
    }
}

/// Of a closed loop between its first and its last start, as it empties after
/// that: requests per second, and which part of its depth was under way.
fn steady(depth: u64, pairs: &[Pair]) -> (f64, f64) {
    let from_ns = pairs.first().map_or(0, |pair| pair.start_ns);
    let until_ns = pairs.last().map_or(0, |pair| pair.start_ns);
    let seconds = (until_ns - from_ns).max(1) as f64 / 1e9;
    let ended = pairs.iter().filter(|pair| pair.end_ns() <= until_ns);
    let under_way_ns: u64 = pairs
        .iter()
        .map(|pair| pair.end_ns().min(until_ns) - pair.start_ns)
        .sum();
    let busy = under_way_ns as f64 / 1e9 / seconds / depth as f64;
    (ended.count() as f64 / seconds, busy)
}

fn mean_and_p99(mut latencies: Vec<u64>) -> (f64, u64) {
    latencies.sort_unstable();
    let count = latencies.len() as f64;
    let mean = latencies.iter().map(|&latency| latency as f64).sum::<f64>() / count;
    let at = ((count * 0.99) as usize).min(latencies.len() - 1);
    (mean, latencies[at])
}

/// Threads on a request's way that sleep until somebody wakes them: the one
/// that reads requests, the one that keeps time, and the client's; with a loop
/// device also the kernel's worker.
fn sleepers(transport: Transport) -> u32 {
    match transport {
        Transport::Nbd => 3,
        Transport::Loop => 4,
    }
}

/// The model's latencies, each with what a timer was late by, at random, for
/// each thread on its way; the lead makes up for what is usual.
pub fn machine(transport: Transport, pairs: &[Pair], alarms: &AlarmsLate, seed: u64) -> Machine {
    let mut random = Random::new(seed);
    let mut late_ns = || {
        let count = alarms.all_ns.len().max(1) as u64;
        let drawn = alarms.all_ns.get((random.next() % count) as usize);
        let drawn = drawn.copied().unwrap_or_default();
        drawn.saturating_sub(alarms.p50_ns)
    };
    let late = |pair: &Pair| {
        let late_ns: u64 = (0..sleepers(transport)).map(|_| late_ns()).sum();
        pair.model_ns + late_ns
    };
    let (mean_latency_ns, p99_latency_ns) = mean_and_p99(pairs.iter().map(late).collect());
    Machine {
        mean_latency_ns,
        p99_latency_ns,
    }
}

#[cfg(test)]
mod tests {
    use iolane_disk::Kind;
    use iolane_disk::model::Command;

    use super::*;

    fn pairs(count: u64, gap_ns: u64, served_ns: u64, model_ns: u64) -> Vec<Pair> {
        let at = |number| Pair {
            start_ns: 7_000 + number * gap_ns,
            served_ns,
            model_ns,
        };
        (0..count).map(at).collect()
    }

    #[test]
    fn an_open_loop_has_its_rate_whatever_its_latency() {
        let load = Load::Open {
            requests_per_second: 1000.0,
        };
        let (served, model) = figures(load, &pairs(1000, 1_000_000, 150_000, 100_000));
        assert_eq!(served.mean_latency_ns, 150_000.0);
        assert_eq!(model.p99_latency_ns, 100_000);
        let off = served.requests_per_second / model.requests_per_second - 1.0;
        assert!(off.abs() < 1e-3, "{off}");
    }

    #[test]
    fn a_closed_loop_is_slow_by_its_latency_and_by_what_it_loses_between() {
        let load = Load::Closed { depth: 1 };
        // 100 us by the model, 110 for the client, the next after another 40.
        let (served, model) = figures(load, &pairs(1001, 150_000, 110_000, 100_000));
        let close = |rate: f64, to: f64| (rate / to - 1.0).abs() < 1e-3;
        assert!(
            close(served.requests_per_second, 1e9 / 150_000.0),
            "{served:?}"
        );
        assert!(
            close(model.requests_per_second, 1e9 / 100_000.0),
            "{model:?}"
        );
    }

    fn command(offset: u64, length: u32, arrived_ns: u64) -> (Taken, u64) {
        let taken = Taken {
            arrived_ns,
            taken_ns: arrived_ns,
            command: Command {
                tag: 0,
                kind: Kind::Read,
                offset,
                length,
                durable: false,
            },
        };
        (taken, 100)
    }

    #[test]
    fn requests_find_their_commands_whole_divided_and_merged() {
        let commands = [
            command(0, 8192, 1010),
            command(4096, 4096, 9000),
            command(1 << 20, 2048, 1010),
            command((1 << 20) + 2048, 2048, 1030),
        ];
        let sample = |offset| Sample {
            start_ns: 1000,
            end_ns: 1200,
            offset,
        };
        let model_ns = |offset| find(&sample(offset), 4096, &commands).map(|pair| pair.model_ns);
        assert_eq!(model_ns(4096), Some(100));
        assert_eq!(model_ns(1 << 20), Some(120));
        assert_eq!(model_ns(2 << 20), None);
    }

    #[test]
    fn each_sleeper_on_the_way_is_late_as_a_timer_is() {
        let pairs = pairs(1000, 1_000_000, 0, 100_000);
        let alarms = |late_ns: u64| AlarmsLate {
            p50_ns: 10,
            p99_ns: late_ns,
            all_ns: vec![late_ns; 5],
        };
        let none = machine(Transport::Nbd, &pairs, &AlarmsLate::default(), 1);
        assert_eq!(none.mean_latency_ns, 100_000.0);
        let nbd = machine(Transport::Nbd, &pairs, &alarms(1010), 1);
        assert_eq!(nbd.p99_latency_ns, 103_000);
        let loops = machine(Transport::Loop, &pairs, &alarms(1010), 1);
        assert_eq!(loops.mean_latency_ns, 104_000.0);
    }
}
