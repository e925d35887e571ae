//! How fast virtual time goes: simulated requests per second of real time, on
//! one core. Closed loops of random reads of 4 KiB.
//! Run with `cargo bench -p iolane-disk --bench simulation`.

#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use iolane_disk::elevator::{BlockLayerParameters, Core, LinuxNoop};
use iolane_disk::model::{Constant, ConstantParameters};
use iolane_disk::simulation::{Arrival, Simulation, Stream, Time};
use iolane_disk::{Elevator, Model};
use iolane_sched::{Config, Policy};
use std::hint::black_box;

/// Latency of the yardstick: a fast flash disk's.
const LATENCY_NS: u64 = 100_000;
/// Requests of one measured run, about.
const REQUESTS: u64 = 200_000;

fn disk() -> Constant {
    Constant::new(ConstantParameters {
        capacity_bytes: 1 << 40,
        queue_max: 1024,
        latency_ns: LATENCY_NS,
    })
    .expect("the parameters are in range")
}

fn core() -> Core {
    Core::new(Config::new(Policy::Noop)).expect("the defaults are in range")
}

fn linux() -> LinuxNoop {
    LinuxNoop::noop(BlockLayerParameters::default()).expect("the defaults are in range")
}

fn simulate(model: impl Model, elevator: impl Elevator, outstanding: u32) -> u64 {
    let stream = Stream {
        arrival: Arrival::Closed {
            outstanding,
            think: Time::Fixed(0),
        },
        ..Stream::default()
    };
    let duration_ns = REQUESTS / u64::from(outstanding) * LATENCY_NS;
    let report = Simulation::new(model, elevator, 1)
        .stream(stream)
        .run(0, duration_ns)
        .expect("the disk can have the workload");
    report.requests
}

fn requests_per_second(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulated-requests");
    group.sample_size(10);
    for outstanding in [32, 128] {
        group.throughput(Throughput::Elements(simulate(disk(), core(), outstanding)));
        group.bench_function(BenchmarkId::new("core-noop", outstanding), |bencher| {
            bencher.iter(|| black_box(simulate(disk(), core(), outstanding)));
        });
        group.bench_function(BenchmarkId::new("linux-noop", outstanding), |bencher| {
            bencher.iter(|| black_box(simulate(disk(), linux(), outstanding)));
        });
        group.bench_function(
            BenchmarkId::new("core-noop-boxed", outstanding),
            |bencher| {
                bencher.iter(|| {
                    let model: Box<dyn Model> = Box::new(disk());
                    let elevator: Box<dyn Elevator> = Box::new(core());
                    black_box(simulate(model, elevator, outstanding))
                });
            },
        );
    }
    group.finish();
}

criterion_group!(benches, requests_per_second);
criterion_main!(benches);
