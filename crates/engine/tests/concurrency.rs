//! Many threads, overlapping requests, one model of the contents.

mod common;

use common::{BACKENDS, Random, engine, folder, open};
use iolane::{Buffer, Engine, File, Level, OpenOptions, Policy, SimulatedDisk, WindowConfig};
use iolane_disk::model::{Constant, ConstantParameters};
use std::sync::atomic::{AtomicBool, Ordering};

const BLOCK: usize = 4096;
const THREADS: usize = 4;
const BLOCKS_EACH: u64 = 48;
const STEPS: usize = 150;

fn level(random: &mut Random) -> Level {
    Level::from_index(random.below(5) as usize).unwrap()
}

/// A thread has every fourth stretch of three blocks to itself, so that its
/// neighbours' requests touch its own; within, its requests overlap.
fn position(thread: usize, block: u64) -> u64 {
    let (stretch, inside) = (block / 3, block % 3);
    ((stretch * THREADS as u64 + thread as u64) * 3 + inside) * BLOCK as u64
}

/// Writes and reads at random, several outstanding, and compares with what
/// this thread wrote last, in the order of submission.
fn work(file: &File, thread: usize, seed: u64) {
    let mut random = Random::new(seed + thread as u64);
    let mut model = vec![0u8; BLOCKS_EACH as usize];
    let mut reads = Vec::new();
    let mut writes = Vec::new();
    for step in 0..STEPS {
        let first = random.below(BLOCKS_EACH);
        let count = 1 + random.below(3 - first % 3);
        let range = first as usize..(first + count) as usize;
        let (at, bytes) = (position(thread, first), count as usize * BLOCK);
        let value = step as u8 | 1;
        match random.below(4) {
            0 => {
                let mut buffer = Buffer::new(bytes);
                buffer.fill(value);
                model[range].fill(value);
                writes.push(file.write(buffer, at, level(&mut random)).unwrap());
            }
            1 => {
                let read = file
                    .read(Buffer::new(bytes), at, level(&mut random))
                    .unwrap();
                reads.push((read, model[range].to_vec()));
            }
            2 => {
                let mut buffer = Buffer::new(bytes);
                buffer.fill(value);
                model[range].fill(value);
                file.write_at(&buffer, at, level(&mut random)).unwrap();
            }
            _ => {
                let mut buffer = Buffer::new(bytes);
                file.read_at(&mut buffer, at, level(&mut random)).unwrap();
                compare(&buffer, &model[range], seed);
            }
        }
        if reads.len() > 8 {
            for (read, expected) in reads.drain(..) {
                let completion = read.wait();
                completion.result.unwrap();
                compare(&completion.buffer, &expected, seed);
            }
        }
    }
    for (read, expected) in reads {
        let completion = read.wait();
        completion.result.unwrap();
        compare(&completion.buffer, &expected, seed);
    }
    for write in writes {
        write.wait().result.unwrap();
    }
}

fn compare(buffer: &[u8], expected: &[u8], seed: u64) {
    for (block, value) in buffer.chunks(BLOCK).zip(expected) {
        assert!(block.iter().all(|byte| byte == value), "seed {seed}");
    }
}

#[test]
fn threads_see_their_own_writes_in_order() {
    let seed = std::env::var("IOLANE_TEST_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20050905);
    println!("IOLANE_TEST_SEED={seed}");
    for backend in BACKENDS {
        for policy in Policy::ALL {
            for direct in [false, true] {
                let Some(engine) = engine(backend, policy) else {
                    continue;
                };
                let folder = folder();
                let path = folder.path().join("model");
                std::fs::write(&path, vec![0; THREADS * BLOCKS_EACH as usize * BLOCK]).unwrap();
                let file = open(&engine, &path, direct);
                file.device().set_window(WindowConfig::Fixed(4)).unwrap();
                std::thread::scope(|scope| {
                    for thread in 0..THREADS {
                        let file = file.clone();
                        scope.spawn(move || work(&file, thread, seed));
                    }
                });
                let statistics = file.device().statistics();
                assert_eq!(statistics.outstanding.count(), 0);
                assert_eq!(statistics.in_flight.count(), 0);
                assert_eq!(statistics.total().read.errors, 0);
            }
        }
    }
}

#[test]
fn threads_on_a_simulated_disk_do_too() {
    let model = Constant::new(ConstantParameters {
        capacity_bytes: 1 << 30,
        queue_max: 8,
        latency_ns: 30_000,
    });
    let disks = [
        SimulatedDisk::builder().seed(11),
        SimulatedDisk::builder().model(Box::new(model.unwrap())),
    ];
    for disk in disks {
        let disk = disk.build().unwrap();
        for policy in Policy::ALL {
            let engine = Engine::builder().simulated(&disk).policy(policy);
            let engine = engine.build().unwrap();
            let size = THREADS as u64 * BLOCKS_EACH * BLOCK as u64;
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).size(size);
            let file = engine.open(policy.to_string(), &options).unwrap();
            file.device().set_window(WindowConfig::Fixed(4)).unwrap();
            std::thread::scope(|scope| {
                for thread in 0..THREADS {
                    let file = file.clone();
                    scope.spawn(move || work(&file, thread, 17));
                }
            });
            let statistics = file.device().statistics();
            assert_eq!(statistics.outstanding.count(), 0);
            assert_eq!(statistics.total().write.errors, 0);
        }
    }
}

#[test]
fn the_policy_may_change_under_load() {
    let Some(engine) = engine(BACKENDS[2], Policy::Lanes) else {
        return;
    };
    let folder = folder();
    let path = folder.path().join("model");
    std::fs::write(&path, vec![0; THREADS * BLOCKS_EACH as usize * BLOCK]).unwrap();
    let file = open(&engine, &path, false);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut window = 1;
            while !done.load(Ordering::Relaxed) {
                for policy in Policy::ALL {
                    window = window % 7 + 1;
                    file.device()
                        .set_policy(policy, WindowConfig::Fixed(window))
                        .unwrap();
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            }
        });
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let file = file.clone();
                scope.spawn(move || work(&file, thread, 7))
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(file.device().statistics().outstanding.count(), 0);
}
