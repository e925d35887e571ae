use super::*;
use crate::elevator::{BlockLayerParameters, LinuxNoop};
use crate::model::{Constant, ConstantParameters};

#[test]
fn a_closed_loop_on_a_constant_disk_gets_its_depth_over_the_latency() {
    let disk = Constant::new(ConstantParameters {
        capacity_bytes: 1 << 30,
        queue_max: 32,
        latency_ns: 100_000,
    })
    .unwrap();
    let elevator = LinuxNoop::noop(BlockLayerParameters::default()).unwrap();
    let report = Simulation::new(disk, elevator, 1)
        .stream(Stream {
            arrival: Arrival::Closed {
                outstanding: 16,
                think: Time::Fixed(0),
            },
            ..Stream::default()
        })
        .run(1_000_000, 10_000_000)
        .unwrap();
    assert_eq!(report.streams[0].per_second(), 160_000.0);
    assert_eq!(report.in_disk_mean(), 16.0);
}
