//! One connection: one thread sends, another receives.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use iolane_disk::served::nbd::{Receiver, Sender};
use iolane_disk::served::now_ns;

use super::{Client, Moments, Offsets, Sample, be_exact, sleep_until};

/// A connection to an NBD server.
pub struct NbdClient {
    sending: Arc<Mutex<Sending>>,
    receiver: Mutex<Receiver>,
}

struct Sending {
    sender: Sender,
    outstanding: HashMap<u64, Sample>,
    next_cookie: u64,
    /// What is written.
    data: Vec<u8>,
    writes: bool,
}

impl NbdClient {
    pub fn new(
        (sender, receiver): (Sender, Receiver),
        block_bytes: usize,
        writes: bool,
    ) -> io::Result<Self> {
        let sending = Sending {
            sender,
            outstanding: HashMap::new(),
            next_cookie: 0,
            data: vec![0; block_bytes],
            writes,
        };
        Ok(Self {
            sending: Arc::new(Mutex::new(sending)),
            receiver: Mutex::new(receiver),
        })
    }

    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(&self) -> io::Result<Sample> {
        let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = receiver.receive()?;
        let end_ns = now_ns();
        drop(receiver);
        if answer.error != 0 {
            return Err(io::Error::from_raw_os_error(answer.error as i32));
        }
        let begun = self.sending().outstanding.remove(&answer.cookie);
        let begun = begun.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Sample { end_ns, ..begun })
    }
}

impl Sending {
    fn send(&mut self, offset: u64) -> io::Result<()> {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let start_ns = now_ns();
        let begun = Sample {
            start_ns,
            end_ns: start_ns,
            offset,
        };
        self.outstanding.insert(cookie, begun);
        if self.writes {
            self.sender.write(cookie, offset, &self.data, false)
        } else {
            self.sender.read(cookie, offset, self.data.len() as u32)
        }
    }
}

impl Client for NbdClient {
    fn open(&self, moments: Moments) -> io::Result<Vec<Sample>> {
        let count = moments.moments.len();
        thread::scope(|scope| {
            let receiving = scope.spawn(|| -> io::Result<Vec<Sample>> {
                be_exact();
                (0..count).map(|_| self.receive()).collect()
            });
            let sending = scope.spawn(|| -> io::Result<()> {
                be_exact();
                for (after_ns, offset) in moments.moments {
                    sleep_until(moments.start_ns + after_ns);
                    self.sending().send(offset)?;
                }
                Ok(())
            });
            join(sending)?;
            join(receiving)
        })
    }

    fn closed(&self, depth: u64, until_ns: u64, mut offsets: Offsets) -> io::Result<Vec<Sample>> {
        let work = move || {
            be_exact();
            for _ in 0..depth {
                self.sending().send(offsets())?;
            }
            let mut samples = Vec::new();
            let mut outstanding = depth;
            while outstanding > 0 {
                let sample = self.receive()?;
                samples.push(sample);
                if sample.end_ns < until_ns {
                    self.sending().send(offsets())?;
                } else {
                    outstanding -= 1;
                }
            }
            Ok(samples)
        };
        thread::scope(|scope| join(scope.spawn(work)))
    }
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Drop for NbdClient {
    fn drop(&mut self) {
        // The server notices the end by itself too.
        let _ = self.sending().sender.disconnect();
    }
}
