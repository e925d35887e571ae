//! Memory follows the number of requests outstanding, not that of files and
//! threads (the paper of 2003, section 4.1: 150 devices and 120 processes took
//! 3534 MB with static tables).

mod common;
mod sys;

use common::folder;
use iolane::{Buffer, Engine, Level, OpenOptions, Policy, WindowConfig};
use std::sync::Barrier;

#[global_allocator]
static ALLOCATOR: sys::Counting = sys::Counting;

const FILES: usize = 150;
const THREADS: usize = 120;
const OUTSTANDING: usize = 200;
const BLOCK: usize = 4096;
const LIMIT: usize = 1 << 20;

#[test]
fn memory_follows_the_outstanding_requests() {
    let folder = folder();
    let before = sys::allocated_bytes();
    let engine = Engine::builder().policy(Policy::Noop).build().unwrap();
    let files: Vec<_> = (0..FILES)
        .map(|n| {
            let path = folder.path().join(n.to_string());
            std::fs::write(&path, [n as u8; BLOCK]).unwrap();
            engine
                .open(&path, OpenOptions::new().read(true).write(true))
                .unwrap()
        })
        .collect();
    let files_bytes = sys::allocated_bytes() - before;
    let device = files[0].device();
    device.set_window(WindowConfig::Fixed(32)).unwrap();

    // Threads that read and write at every level, all kinds of them at work.
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, files) = (&barrier, &files);
            let body = move || {
                barrier.wait();
                let mut block = vec![0; BLOCK];
                for n in 0..10 {
                    let level = Level::ALL[(thread + n) % Level::COUNT];
                    let file = &files[(thread + n * 7) % FILES];
                    file.read_at(&mut block, 0, level).unwrap();
                    file.write_at(&block, 0, level).unwrap();
                    file.sync_data(level).unwrap();
                }
            };
            std::thread::Builder::new()
                .stack_size(64 * 1024)
                .spawn_scoped(scope, body)
                .unwrap();
        }
    });

    let buffers: Vec<_> = (0..OUTSTANDING).map(|_| Buffer::new(BLOCK)).collect();
    let with_buffers = sys::allocated_bytes();
    let pending: Vec<_> = buffers
        .into_iter()
        .enumerate()
        .map(|(n, buffer)| files[n % FILES].read(buffer, 0, Level::Background).unwrap())
        .collect();
    let (all, buffer_bytes) = (sys::allocated_bytes(), OUTSTANDING * BLOCK);
    // Between the two, requests were added: their tables and handles.
    assert!(all > with_buffers);
    let engine_bytes = all - before - buffer_bytes;
    println!(
        "{FILES} files {files_bytes} bytes; with {THREADS} threads and {OUTSTANDING} outstanding \
         {engine_bytes} bytes"
    );
    assert!(engine_bytes < LIMIT, "{engine_bytes} bytes, limit {LIMIT}");
    for pending in pending {
        pending.wait().result.unwrap();
    }
    assert!(device.statistics().total().read.requests >= (OUTSTANDING + THREADS * 10) as u64);
}
