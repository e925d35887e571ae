//! Devices in virtual time, as simple as shows what the window must cope with.

use iolane_sched::RateUnit;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// How a device serves.
pub enum Model {
    /// So many units work at once, each `base_ns + bytes x ns_per_byte`, give
    /// or take a quarter: flash.
    Parallel {
        units: usize,
        base_ns: u64,
        ns_per_byte: f64,
    },
    /// One after the other, and completions are announced when nothing is left:
    /// a hypervisor's disk. `doorbell_ns` until it begins, `announce_ns` until
    /// the guest knows.
    Batches {
        doorbell_ns: u64,
        announce_ns: u64,
        base_ns: u64,
        ns_per_byte: f64,
    },
    /// As `Parallel`, behind a page cache that has this share of what is read.
    Cached {
        hit_share: f64,
        hit_ns: u64,
        units: usize,
        base_ns: u64,
    },
    /// One after the other, `near_ns` each; before this share of them the head
    /// seeks, for `seek_ns` give or take a half: a rotating disk.
    Seeks {
        seek_share: f64,
        seek_ns: u64,
        near_ns: u64,
    },
    /// `transfers` (or, if not 0, `bytes`) in each slice of time, at full
    /// speed; then everything waits for the next slice. With `each`, so many reads, and
    /// as many writes.
    Budget {
        slice_ns: u64,
        transfers: u64,
        bytes: u64,
        each: bool,
        latency_ns: u64,
    },
    /// So many transfers, or bytes, a second, and what was saved in 10 ms: what
    /// comes earlier is delayed.
    Even {
        unit: RateUnit,
        per_second: f64,
        latency_ns: u64,
    },
}

/// A slice of time, and what is left of its budget.
#[derive(Clone, Copy, Default)]
struct Slice {
    number: u64,
    transfers: u64,
    bytes: u64,
}

pub struct Device {
    model: Model,
    /// (when, id)
    done: BinaryHeap<Reverse<(u64, u64)>>,
    /// Parallel: when each unit is free.
    free: Vec<u64>,
    /// Batches: what is served, and what it will announce.
    waiting: VecDeque<(u64, u64)>,
    served: Vec<u64>,
    busy_until: Option<u64>,
    /// Budget: the running slices, of reads and writes if they have one each.
    slices: [Slice; 2],
    /// Even: until when the budget is spent.
    spent_ns: f64,
    random: u64,
}

impl Device {
    pub fn new(model: Model) -> Device {
        let units = match model {
            Model::Parallel { units, .. } | Model::Cached { units, .. } => units,
            Model::Seeks { .. } => 1,
            _ => 0,
        };
        Device {
            model,
            done: BinaryHeap::new(),
            free: vec![0; units],
            waiting: VecDeque::new(),
            served: Vec::new(),
            busy_until: None,
            slices: [Slice::default(); 2],
            spent_ns: 0.0,
            random: 88_172_645_463_325_252,
        }
    }

    pub fn set_model(&mut self, model: Model) {
        if let Model::Parallel { units, .. } | Model::Cached { units, .. } = model {
            self.free.resize(units, 0);
        }
        self.model = model;
    }

    /// Uniform in 0..1.
    pub fn random(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn submit(&mut self, now_ns: u64, id: u64, is_write: bool, bytes: u64) {
        let jitter = 0.75 + self.random() / 2.0;
        match self.model {
            Model::Parallel {
                base_ns,
                ns_per_byte,
                ..
            } => {
                let cost = ((base_ns as f64 + bytes as f64 * ns_per_byte) * jitter) as u64;
                self.occupy(now_ns, id, cost);
            }
            Model::Cached {
                hit_share,
                hit_ns,
                base_ns,
                ..
            } => {
                if self.random() < hit_share {
                    self.done.push(Reverse((now_ns + hit_ns, id)));
                } else {
                    self.occupy(now_ns, id, (base_ns as f64 * jitter) as u64);
                }
            }
            Model::Seeks {
                seek_share,
                seek_ns,
                near_ns,
            } => {
                let mut cost = near_ns as f64 * jitter;
                if self.random() < seek_share {
                    cost += seek_ns as f64 * (0.5 + self.random());
                }
                self.occupy(now_ns, id, cost as u64);
            }
            Model::Batches {
                doorbell_ns,
                base_ns,
                ns_per_byte,
                ..
            } => {
                let cost = ((base_ns as f64 + bytes as f64 * ns_per_byte) * jitter) as u64;
                match self.busy_until {
                    Some(_) => self.waiting.push_back((id, cost)),
                    None => {
                        self.busy_until = Some(now_ns + doorbell_ns + cost);
                        self.served.push(id);
                    }
                }
            }
            Model::Budget {
                slice_ns,
                transfers,
                bytes: budget,
                each,
                latency_ns,
            } => {
                let slice = &mut self.slices[usize::from(each && is_write)];
                let full = |number| Slice {
                    number,
                    transfers,
                    bytes: budget,
                };
                // The first one begins at 1, so that none is full by default.
                let now = now_ns / slice_ns + 1;
                if now > slice.number {
                    *slice = full(now);
                }
                if slice.transfers == 0 && transfers > 0 || slice.bytes < bytes && budget > 0 {
                    *slice = full(slice.number + 1);
                }
                slice.transfers = slice.transfers.saturating_sub(1);
                slice.bytes = slice.bytes.saturating_sub(bytes);
                let start_ns = now_ns.max((slice.number - 1) * slice_ns);
                let at = start_ns + (latency_ns as f64 * jitter) as u64;
                self.done.push(Reverse((at, id)));
            }
            Model::Even {
                unit,
                per_second,
                latency_ns,
            } => {
                let units = match unit {
                    RateUnit::Transfers => 1.0,
                    RateUnit::Bytes => bytes as f64,
                };
                let now = now_ns as f64;
                self.spent_ns = self.spent_ns.max(now - 1e7) + units / per_second * 1e9;
                let at = self.spent_ns.max(now) + latency_ns as f64 * jitter;
                self.done.push(Reverse((at as u64, id)));
            }
        }
    }

    /// Keeps the unit that is free first busy for `cost` nanoseconds.
    fn occupy(&mut self, now_ns: u64, id: u64, cost: u64) {
        let unit = (0..self.free.len())
            .min_by_key(|&unit| self.free[unit])
            .expect("a device has a unit");
        self.free[unit] = self.free[unit].max(now_ns) + cost;
        self.done.push(Reverse((self.free[unit], id)));
    }

    /// When something happens next.
    pub fn next_ns(&self) -> Option<u64> {
        let done = self.done.peek().map(|Reverse((at, _))| *at);
        match (done, self.busy_until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// What has completed at `now_ns`.
    pub fn completed(&mut self, now_ns: u64) -> Vec<u64> {
        if self.busy_until.is_some_and(|at| at <= now_ns) {
            match self.waiting.pop_front() {
                Some((id, cost)) => {
                    self.served.push(id);
                    self.busy_until = Some(now_ns + cost);
                }
                None => {
                    self.busy_until = None;
                    let Model::Batches { announce_ns, .. } = self.model else {
                        unreachable!("only this model is busy as a whole");
                    };
                    for id in self.served.drain(..) {
                        self.done.push(Reverse((now_ns + announce_ns, id)));
                    }
                }
            }
        }
        let mut completed = Vec::new();
        while let Some(&Reverse((at, id))) = self.done.peek() {
            if at > now_ns {
                break;
            }
            self.done.pop();
            completed.push(id);
        }
        completed
    }
}
