//! The engine's futures without any runtime: a thread polls them, and sleeps
//! until the waker of one that completed wakes it.
//!
//! `cargo run --release -p iolane --example without_runtime -- FOLDER`

use iolane::{Engine, Level, OpenOptions};
use std::error::Error;
use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

const PAGE: usize = 16 << 10;
const PAGES: u64 = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("which folder?")?;
    println!("{} bytes", run(Path::new(&folder))?);
    Ok(())
}

/// Bytes written to and read from a file of this folder.
pub fn run(folder: &Path) -> Result<usize, Box<dyn Error>> {
    let engine = Engine::new()?;
    let file = engine.open(
        folder.join("pages"),
        OpenOptions::new().read(true).write(true).create(true),
    )?;
    let contents = vec![5; PAGES as usize * PAGE];
    let written = block_on(file.write(contents, 0, Level::Normal)?).result?;
    let mut reads = Vec::new();
    for page in 0..PAGES {
        let level = Level::ALL[page as usize % Level::COUNT];
        reads.push(file.read(vec![0; PAGE], page * PAGE as u64, level)?);
    }
    let mut read = 0;
    for page in block_on(all(reads)) {
        read += page.result?;
        assert_eq!(page.buffer, [5; PAGE]);
    }
    Ok(written + read)
}

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future on this thread until it is ready.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// All of them at once, in whichever order they complete.
fn all<F: Future + Unpin>(futures: Vec<F>) -> impl Future<Output = Vec<F::Output>> {
    let mut futures: Vec<_> = futures.into_iter().map(Some).collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(move |context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if let Some(waiting) = future
                && let Poll::Ready(ready) = Pin::new(waiting).poll(context)
            {
                *output = Some(ready);
                *future = None;
            }
        }
        match futures.iter().any(Option::is_some) {
            true => Poll::Pending,
            false => Poll::Ready(outputs.iter_mut().filter_map(Option::take).collect()),
        }
    })
}
