//! What a command on a modelled flash disk costs the simulation.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use iolane_disk::model::FlashParameters;
use iolane_disk::{Command, Done, Kind, Model};

/// A host that keeps its commands outstanding.
struct Host {
    disk: iolane_disk::model::Flash,
    now_ns: u64,
    done: Vec<Done>,
    random: u64,
    places: u64,
    write_share: u64,
}

impl Host {
    fn new(parameters: FlashParameters, depth: u32, write_share: u64) -> Host {
        let places = parameters.capacity_bytes / 4096;
        let mut host = Host {
            disk: iolane_disk::model::Flash::new(parameters, 1).expect("the presets are sound"),
            now_ns: 0,
            done: Vec::with_capacity(depth as usize),
            random: 1,
            places,
            write_share,
        };
        for tag in 0..depth {
            host.submit(tag);
        }
        host
    }

    fn submit(&mut self, tag: u32) {
        // A linear congruential generator (Knuth's MMIX): next to nothing
        // beside what is measured.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let place = (u128::from(self.random) * u128::from(self.places)) >> 64;
        let write = (self.random >> 20) % 100 < self.write_share;
        let command = Command {
            tag,
            kind: if write { Kind::Write } else { Kind::Read },
            offset: place as u64 * 4096,
            length: 4096,
            durable: false,
        };
        self.disk.submit(self.now_ns, command);
    }

    /// Runs until `commands` have ended.
    fn run(&mut self, commands: usize) {
        let mut ended = 0;
        while ended < commands {
            self.now_ns = self.disk.next_event_ns().expect("commands are outstanding");
            let mut done = std::mem::take(&mut self.done);
            self.disk.advance(self.now_ns, &mut done);
            ended += done.len();
            for command in done.drain(..) {
                self.submit(command.tag);
            }
            self.done = done;
        }
        black_box(self.now_ns);
    }
}

fn bench(criterion: &mut Criterion) {
    const COMMANDS: usize = 10_000;
    let mut group = criterion.benchmark_group("flash");
    group.throughput(Throughput::Elements(COMMANDS as u64));
    group.sample_size(20);
    group.warm_up_time(std::time::Duration::from_millis(300));
    group.measurement_time(std::time::Duration::from_secs(1));
    for (name, parameters, depth, write_share) in [
        ("nvme read depth 1", FlashParameters::nvme_ssd(), 1, 0),
        ("nvme read depth 32", FlashParameters::nvme_ssd(), 32, 0),
        ("nvme read depth 256", FlashParameters::nvme_ssd(), 256, 0),
        ("nvme write depth 32", FlashParameters::nvme_ssd(), 32, 100),
        (
            "nvme 30 % write depth 32",
            FlashParameters::nvme_ssd(),
            32,
            30,
        ),
        ("sata read depth 32", FlashParameters::sata_ssd(), 32, 0),
    ] {
        let mut host = Host::new(parameters, depth, write_share);
        group.bench_function(name, |bencher| bencher.iter(|| host.run(COMMANDS)));
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
