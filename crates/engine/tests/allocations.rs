//! In the steady state a request costs the one allocation of its own callback
//! or handle, and the fast path none.

mod common;

use common::{PAGE, folder, numbered, open};
use iolane::{Buffer, Engine, File, Level, Policy};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Counts allocations.
struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls go to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
    let before = COUNT.load(Ordering::Relaxed);
    run(&file);
    let allocations = COUNT.load(Ordering::Relaxed) - before;
    let requests = DEPTH * READS_EACH;
    println!("{allocations} allocations for {requests} requests");
    assert!(allocations <= requests + DEPTH + SLACK, "{allocations}");

    let mut buffer = Buffer::new(PAGE);
    file.read_at(&mut buffer, 0, Level::Foreground).unwrap();
    let before = COUNT.load(Ordering::Relaxed);
    for _ in 0..1000 {
        file.read_at(&mut buffer, 0, Level::Foreground).unwrap();
    }
    let allocations = COUNT.load(Ordering::Relaxed) - before;
    assert!(
        allocations <= SLACK / 2,
        "{allocations} in 1000 blocking reads"
    );
}
