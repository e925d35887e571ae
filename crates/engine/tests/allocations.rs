//! In the steady state a request costs the one allocation of its own callback
//! or handle, and the fast path none.

mod common;
mod sys;

use common::{PAGE, folder, numbered, open};
use iolane::{Buffer, Engine, File, Level, Policy};
use std::sync::mpsc;

#[global_allocator]
static ALLOCATOR: sys::Counting = sys::Counting;

const PAGES: usize = 64;
const DEPTH: usize = 32;
const READS_EACH: usize = 100;
/// Tables and histograms may still grow here and there.
const SLACK: usize = 100;

fn chain(file: File, left: usize, at: usize, buffer: Buffer, done: mpsc::Sender<()>) {
    if left == 0 {
        done.send(()).unwrap();
        return;
    }
    let again = file.clone();
    let offset = (at % PAGES * PAGE) as u64;
    file.read_then(buffer, offset, Level::Normal, move |completion| {
        completion.result.unwrap();
        chain(again, left - 1, at + 7, completion.buffer, done);
    })
    .unwrap();
}

fn run(file: &File) {
    let (sender, receiver) = mpsc::channel();
    for n in 0..DEPTH {
        chain(
            file.clone(),
            READS_EACH,
            n * 3,
            Buffer::new(PAGE),
            sender.clone(),
        );
    }
    drop(sender);
    assert_eq!(receiver.iter().count(), DEPTH);
}

#[test]
fn a_request_allocates_its_callback_only() {
    let engine = Engine::builder().policy(Policy::Noop).build().unwrap();
    let folder = folder();
    let file = open(&engine, &numbered(&folder, PAGES), true);
    run(&file);
    let before = sys::allocations();
    run(&file);
    let allocations = sys::allocations() - before;
    let requests = DEPTH * READS_EACH;
    println!("{allocations} allocations for {requests} requests");
    assert!(allocations <= requests + DEPTH + SLACK, "{allocations}");

    let mut buffer = Buffer::new(PAGE);
    file.read_at(&mut buffer, 0, Level::Foreground).unwrap();
    let before = sys::allocations();
    for _ in 0..1000 {
        file.read_at(&mut buffer, 0, Level::Foreground).unwrap();
    }
    let allocations = sys::allocations() - before;
    assert!(
        allocations <= SLACK / 2,
        "{allocations} in 1000 blocking reads"
    );
}
