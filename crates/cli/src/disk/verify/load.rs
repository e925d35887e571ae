//! Loads: which ones, on the served disk, and on the model.

use iolane_disk::served::{Arrival, Lead, LoneTimer, Loop, closed_loop, now_ns};
use iolane_disk::{Kind, Model};

use super::client::{Client, Moments, Sample};
use super::rig::{Place, Rig};
use super::{JUDGED_PER_SECOND_MAX, Load, Measured, VerifyOptions, VerifyRun, course};
use crate::args::choices::Operation;
use crate::args::disk::Transport;
use crate::disk::{describe, failure};
use crate::error::Failure;
use crate::session::Session;

/// Of the fastest load that is judged.
const SHARES: [f64; 3] = [0.2, 0.5, 1.0];
/// So much of what a disk can do: beyond, waiting times grow without end.
const FULL_SHARE: f64 = 0.8;
/// What a rate that was asked for may be at most.
const ASKED_SHARE_MAX: f64 = 0.95;
/// How many requests find out what a disk can do, and how long at most.
const CAPACITY_DEPTH_MAX: usize = 256;
const CAPACITY_NS: u64 = 2_000_000_000;
/// Offsets and gaps, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// splitmix64, by Sebastiano Vigna (public domain).
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn offset(&mut self, options: &VerifyOptions) -> u64 {
        let blocks = options.size_bytes / options.block_size_bytes;
        ((u128::from(self.next()) * u128::from(blocks)) >> 64) as u64 * options.block_size_bytes
    }

    /// Until the next of arrivals that know nothing of each other.
    fn gap_ns(&mut self, per_second: f64) -> u64 {
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        (-(1.0 - uniform).ln() / per_second * 1e9) as u64
    }
}

fn arrival(options: &VerifyOptions, at_ns: u64, offset: u64) -> Arrival {
    Arrival {
        at_ns,
        kind: match options.operation {
            Operation::Read => Kind::Read,
            Operation::Write => Kind::Write,
        },
        offset,
        length: options.block_size_bytes as u32,
    }
}

pub fn model(options: &VerifyOptions) -> Result<Box<dyn Model>, Failure> {
    describe::build(&options.description, &options.model_arguments)
}

/// Those that the disk can bear.
pub fn choose(options: &VerifyOptions, session: &Session) -> Result<Vec<Load>, Failure> {
    let model = model(options)?;
    let depth = model.queue_max().min(CAPACITY_DEPTH_MAX) as u32;
    let shape = Loop {
        depth,
        until_ns: CAPACITY_NS,
    };
    let mut random = Random::new(options.seed);
    let ended = closed_loop(model, shape, || arrival(options, 0, random.offset(options)));
    let possible = ended.len() as f64 / (CAPACITY_NS as f64 / 1e9);
    let rates: Vec<f64> = match &options.rates {
        Some(rates) => rates.iter().map(|&rate| rate as f64).collect(),
        None => {
            let full = (possible * FULL_SHARE).min(JUDGED_PER_SECOND_MAX);
            SHARES.map(|share| (full * share).round().max(1.0)).into()
        }
    };
    let (bearable, too_many): (Vec<f64>, Vec<f64>) = rates
        .into_iter()
        .partition(|&rate| rate <= possible * ASKED_SHARE_MAX);
    for rate in too_many {
        session.warn(format!(
            "{rate} requests/s are left out: the model does {possible:.0} at most"
        ));
    }
    let open = bearable.into_iter().map(|requests_per_second| Load::Open {
        requests_per_second,
    });
    let closed = options.depths.iter().map(|&depth| Load::Closed { depth });
    Ok(open.chain(closed).collect())
}

/// Puts a load on a disk that is served for it, then on the model.
pub fn run(
    place: &Place<'_>,
    transport: Transport,
    lead: Lead,
    load: Load,
) -> Result<VerifyRun, Failure> {
    let options = place.options;
    let rig = Rig::serve(place, transport, lead, model(options)?)?;
    let client = rig.client()?;
    rig.server().take_statistics();
    let timer = LoneTimer::start().map_err(|error| failure::machine(&error))?;
    let samples = put_on(&*client, options, load);
    let alarms = timer.end();
    let samples = samples?;
    let statistics = rig.server().take_statistics();
    let lead_correction_ns = rig.server().lead_correction_ns();
    // With what opening the disk read: it moved the head.
    let taken = rig.server().take_taken();
    drop(client);
    drop(rig);
    let pairs = course::pair(options, &samples, &taken, model(options)?)?;
    let (served, expected) = course::figures(load, &pairs);
    let measured = Measured {
        requests: samples.len() as u64,
        served,
        model: expected,
        machine: course::machine(transport, &pairs, &alarms, options.seed),
        lateness_ns: (statistics.lateness_ns(0.5), statistics.lateness_ns(0.99)),
        lead_correction_ns,
        alarms,
    };
    Ok(VerifyRun::new(transport, load, &measured))
}

fn put_on(
    client: &dyn Client,
    options: &VerifyOptions,
    load: Load,
) -> Result<Vec<Sample>, Failure> {
    let mut random = Random::new(options.seed);
    let duration_ns = course::WARM_UP.as_nanos() as u64 + options.runtime_ns;
    let samples = match load {
        Load::Open {
            requests_per_second,
        } => {
            let mut gaps = Random::new(!options.seed);
            let mut at_ns = 0;
            let mut moments = Vec::new();
            while at_ns < duration_ns {
                moments.push((at_ns, random.offset(options)));
                at_ns += gaps.gap_ns(requests_per_second);
            }
            client.open(Moments {
                start_ns: now_ns() + 10_000_000,
                moments,
            })
        }
        Load::Closed { depth } => {
            let until_ns = now_ns() + duration_ns;
            let own = options.clone();
            client.closed(depth, until_ns, Box::new(move || random.offset(&own)))
        }
    };
    let mut samples =
        samples.map_err(|error| Failure::transfer("a request to the served disk", error))?;
    samples.sort_by_key(|sample| sample.start_ns);
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_have_their_rate() {
        let mut random = Random::new(3);
        let sum: u64 = (0..10_000).map(|_| random.gap_ns(1000.0)).sum();
        assert!((9.5e9..10.5e9).contains(&(sum as f64)), "{sum}");
    }
}
