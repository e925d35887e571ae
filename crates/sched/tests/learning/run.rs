//! A load on a device through a scheduler, in virtual time.

use crate::device::{Device, Model};
use iolane_sched::{Batch, Config, Kind, Level, Request, RequestId, Scheduler};
use std::collections::HashMap;

/// What the background asks for, with so many requests outstanding.
#[derive(Clone)]
pub struct Background {
    pub depth: u32,
    pub sizes: Vec<u32>,
    /// The share of writes.
    pub writes: f64,
}

pub struct Load {
    /// Requests that the foreground keeps outstanding...
    pub foreground_depth: u32,
    /// ... or, if not 0, the nanoseconds from one to the next.
    pub foreground_every_ns: u64,
    pub background: Background,
}

impl Load {
    pub fn mix(sizes: &[u32]) -> Load {
        Load {
            foreground_depth: 1,
            foreground_every_ns: 0,
            background: Background {
                depth: 128,
                sizes: sizes.to_vec(),
                writes: 0.0,
            },
        }
    }
}

pub struct Measured {
    pub transfers_per_second: f64,
    pub bytes_per_second: f64,
    pub foreground_p99_ns: u64,
    pub foreground_mean_ns: f64,
    /// Root of the mean square.
    pub foreground_rms_ns: f64,
}

struct Outstanding {
    foreground: bool,
    submitted_ns: u64,
    bytes: u64,
}

/// Keeps going where the last measurement ended.
pub struct Run {
    pub scheduler: Scheduler,
    pub device: Device,
    pub now_ns: u64,
    outstanding: HashMap<RequestId, Outstanding>,
    transfers: HashMap<u64, RequestId>,
    foreground_next_ns: u64,
    foreground: u32,
    background: u32,
    next_transfer: u64,
}

impl Run {
    pub fn new(config: Config, model: Model) -> Run {
        Run {
            scheduler: Scheduler::new(config).unwrap(),
            device: Device::new(model),
            now_ns: 0,
            outstanding: HashMap::new(),
            transfers: HashMap::new(),
            foreground_next_ns: 0,
            foreground: 0,
            background: 0,
            next_transfer: 0,
        }
    }

    fn submit(&mut self, level: Level, kind: Kind, bytes: u32) {
        let page = (self.device.random() * 1e9) as u64;
        let request = Request {
            kind,
            file: 0,
            offset: page * (1 << 21),
            length: bytes,
            level,
            durable: false,
        };
        let id = self.scheduler.enqueue(self.now_ns, request).unwrap();
        let foreground = level == Level::Foreground;
        *(if foreground {
            &mut self.foreground
        } else {
            &mut self.background
        }) += 1;
        self.outstanding.insert(
            id,
            Outstanding {
                foreground,
                submitted_ns: self.now_ns,
                bytes: u64::from(bytes),
            },
        );
    }

    fn submit_due(&mut self, load: &Load) {
        if load.foreground_every_ns > 0 {
            while self.foreground_next_ns <= self.now_ns {
                self.foreground_next_ns += load.foreground_every_ns;
                self.submit(Level::Foreground, Kind::Read, 16_384);
            }
        } else {
            while self.foreground < load.foreground_depth {
                self.submit(Level::Foreground, Kind::Read, 16_384);
            }
        }
        while self.background < load.background.depth {
            let sizes = &load.background.sizes;
            let size = sizes[(self.device.random() * sizes.len() as f64) as usize];
            let writes = load.background.writes;
            let kind = match writes > 0.0 && self.device.random() < writes {
                true => Kind::Write,
                false => Kind::Read,
            };
            self.submit(Level::Background, kind, size);
        }
    }

    /// Runs for `seconds` of virtual time, and measures.
    pub fn measure(&mut self, load: &Load, seconds: f64) -> Measured {
        if load.foreground_every_ns > 0 {
            self.foreground_next_ns = self.now_ns;
        }
        let begin_ns = self.now_ns;
        let end_ns = begin_ns + (seconds * 1e9) as u64;
        let mut batch = Batch::default();
        let (mut count, mut bytes) = (0u64, 0u64);
        let mut latencies: Vec<u64> = Vec::new();
        while self.now_ns < end_ns {
            self.submit_due(load);
            batch.clear();
            self.scheduler.dispatch(self.now_ns, &mut batch);
            for transfer in &batch.transfers {
                self.next_transfer += 1;
                self.transfers.insert(self.next_transfer, transfer.id);
                let length = u64::from(transfer.length);
                let is_write = transfer.kind == Kind::Write;
                self.device
                    .submit(self.now_ns, self.next_transfer, is_write, length);
            }
            let timer = self.scheduler.next_timer();
            let arrival = (load.foreground_every_ns > 0).then_some(self.foreground_next_ns);
            self.now_ns = [self.device.next_ns(), timer, arrival]
                .into_iter()
                .flatten()
                .min()
                .expect("something happens next")
                .max(self.now_ns);
            for transfer in self.device.completed(self.now_ns) {
                let id = self.transfers.remove(&transfer).unwrap();
                self.scheduler.complete(self.now_ns, id, true);
                let request = self.outstanding.remove(&id).unwrap();
                count += 1;
                bytes += request.bytes;
                if request.foreground {
                    self.foreground -= 1;
                    latencies.push(self.now_ns - request.submitted_ns);
                } else {
                    self.background -= 1;
                }
            }
        }
        latencies.sort_unstable();
        let elapsed = (self.now_ns - begin_ns) as f64 / 1e9;
        let last = latencies.len().saturating_sub(1);
        let squares = latencies.iter().map(|&ns| (ns as f64).powi(2)).sum::<f64>();
        Measured {
            transfers_per_second: count as f64 / elapsed,
            bytes_per_second: bytes as f64 / elapsed,
            foreground_p99_ns: latencies.get(last * 99 / 100).copied().unwrap_or(0),
            foreground_mean_ns: latencies.iter().sum::<u64>() as f64
                / latencies.len().max(1) as f64,
            foreground_rms_ns: (squares / latencies.len().max(1) as f64).sqrt(),
        }
    }
}
