//! What the integration tests share.
#![allow(dead_code, reason = "each test binary uses its own part")]

use iolane::{BackendChoice, BackendKind, Engine, File, Level, OpenOptions, Policy};
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use tempfile::TempDir;

pub const PAGE: usize = 16384;

pub const BACKENDS: [BackendKind; 3] = [
    BackendKind::Uring,
    BackendKind::LinuxAio,
    BackendKind::Threads,
];

/// A folder on a filesystem with direct I/O (`/tmp` often has none).
pub fn folder() -> TempDir {
    TempDir::new_in("/var/tmp").unwrap()
}

/// `None`, and a line that says so, where the machine lacks this backend.
pub fn engine(backend: BackendKind, policy: Policy) -> Option<Engine> {
    let engine = Engine::builder()
        .backend(BackendChoice::Only(backend))
        .policy(policy)
        .build()
        .unwrap();
    let folder = folder();
    let path = folder.path().join("probe");
    std::fs::write(&path, b"x").unwrap();
    let file = engine.open(&path, OpenOptions::new().read(true)).unwrap();
    match file.device().backend() {
        Ok(_) => Some(engine),
        Err(error) => {
            iolane_testing::skipped(error);
            None
        }
    }
}

/// A new file of `pages` pages, page n filled with n.
pub fn numbered(folder: &TempDir, pages: usize) -> PathBuf {
    let path = folder.path().join("numbered");
    let contents: Vec<u8> = (0..pages).flat_map(|page| [page as u8; PAGE]).collect();
    std::fs::write(&path, contents).unwrap();
    path
}

pub fn open(engine: &Engine, path: &std::path::Path, direct: bool) -> File {
    let mut options = OpenOptions::new();
    engine
        .open(path, options.read(true).write(true).direct(direct))
        .unwrap()
}

/// The smallest executor: parks the thread until woken.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// xorshift64*: small and reproducible.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }
}

/// Keeps a device's driver inside a completion callback, so that nothing
/// completes, until it is dropped.
pub struct Held(#[allow(dead_code, reason = "its drop is its use")] mpsc::Sender<()>);

impl Held {
    pub fn hold(file: &File) -> Held {
        let (release, released) = mpsc::channel();
        let (enter, entered) = mpsc::channel();
        let then = move |_| {
            enter.send(()).unwrap();
            let _ = released.recv();
        };
        file.read_then(vec![0; PAGE], 0, Level::Normal, then)
            .unwrap();
        entered.recv().unwrap();
        Held(release)
    }
}
