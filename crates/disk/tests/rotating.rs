//! The rotating disk against its data sheet and against Hall and Bonnet's
//! measurements (section 2.2), by closed loops on the model.

mod loops;

use iolane_disk::Kind;
use iolane_disk::model::{Rotating, RotatingParameters};

use loops::{Access, Loop, run};

#[test]
#[ignore = "prints"]
fn figures() {
    for write_segments in [1, 2, 3, 4, 6, 8] {
        let mut parameters = RotatingParameters::ultrastar_36lzx();
        parameters.write_segments = write_segments;
        println!("write segments {write_segments}");
        for kind in [Kind::Read, Kind::Write] {
            for outstanding in [1, 4, 16, 32, 64, 128, 200] {
                let mut disk = Rotating::new(parameters.clone()).unwrap();
                let result = run(&mut disk, &Loop::paper(kind, Access::Random, outstanding));
                println!("{kind:?} random {outstanding}: {result:?}");
            }
            for outstanding in [1, 32, 200] {
                let mut disk = Rotating::new(parameters.clone()).unwrap();
                let result = run(&mut disk, &Loop::paper(kind, Access::Sequential, outstanding));
                println!("{kind:?} sequential {outstanding}: {result:?}");
            }
        }
    }
}
