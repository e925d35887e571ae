//! How fast virtual time goes: simulated requests per second of real time, on
//! one core. Closed loops of random reads of 4 KiB.
//! Run with `cargo bench -p iolane-disk --bench simulation`.

#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use iolane_disk::elevator::{BlockLayerParameters, Core, LinuxNoop};
use iolane_disk::model::{Constant, ConstantParameters, Flash, FlashParameters};
use iolane_disk::simulation::{Arrival, Simulation, Stream, Time};
use iolane_disk::{Elevator, Model};
use iolane_sched::{Config, Policy};
use std::hint::black_box;

/// Virtual time of one measured run.
const DURATION_NS: u64 = 500_000_000;

/// The yardstick: a disk that costs next to nothing. All its requests end at
/// the same instants, so that decisions come in bulk.
fn constant() -> Constant {
    Constant::new(ConstantParameters {
        capacity_bytes: 1 << 40,
        queue_max: 1024,
        latency_ns: 100_000,
    })
    .expect("the parameters are in range")
}

fn flash() -> Flash {
    Flash::new(FlashParameters::nvme_ssd(), 1).expect("the preset is in range")
}

fn core(policy: Policy) -> Core {
    Core::new(Config::new(policy)).expect("the defaults are in range")
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
    let report = Simulation::new(model, elevator, 1)
        .stream(stream)
        .run(0, DURATION_NS)
        .expect("the disk can have the workload");
    report.requests
}

fn measure<M: Model, E: Elevator>(
    criterion: &mut Criterion,
    name: &str,
    model: impl Fn() -> M,
    elevator: impl Fn() -> E,
) {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10);
    for outstanding in [32, 128] {
        let requests = simulate(model(), elevator(), outstanding);
        group.throughput(Throughput::Elements(requests));
        group.bench_function(BenchmarkId::from_parameter(outstanding), |bencher| {
            bencher.iter(|| black_box(simulate(model(), elevator(), outstanding)));
        });
    }
    group.finish();
}

fn requests_per_second(criterion: &mut Criterion) {
    measure(criterion, "constant/core-noop", constant, || {
        core(Policy::Noop)
    });
    measure(criterion, "constant/linux-noop", constant, linux);
    measure(criterion, "flash/core-noop", flash, || core(Policy::Noop));
    measure(criterion, "flash/core-lanes", flash, || core(Policy::Lanes));
    measure(criterion, "flash/linux-noop", flash, linux);
    let boxed_disk = || Box::new(flash()) as Box<dyn Model>;
    let boxed_core = || Box::new(core(Policy::Noop)) as Box<dyn Elevator>;
    measure(criterion, "flash/core-noop-boxed", boxed_disk, boxed_core);
}

criterion_group!(benches, requests_per_second);
criterion_main!(benches);
