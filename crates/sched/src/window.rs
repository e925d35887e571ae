//! How much may be in flight.

use crate::config::WindowConfig;
use crate::request::{Kind, Level};
use crate::scheduler::Flight;

/// What was learned of the device.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowState {
    /// Transfers that may be in flight before lower levels wait.
    pub transfers: f64,
    /// Shortest latency of a transfer seen lately, ns.
    pub service_ns: u64,
}

/// One finished transfer.
pub(crate) struct Sample {
    pub kind: Kind,
    pub level: Level,
    pub bytes: u32,
    pub cost_ns: u64,
    pub dispatched_ns: u64,
    pub ok: bool,
    /// Requests still queued.
    pub queued: u32,
}

pub(crate) struct Window {
    config: WindowConfig,
    service_ns: u64,
}

impl Window {
    pub(crate) fn new(config: WindowConfig) -> Window {
        Window {
            config,
            service_ns: 10_000_000,
        }
    }
    pub(crate) fn config(&self) -> WindowConfig {
        self.config
    }
    pub(crate) fn advance(&mut self, _now_ns: u64) {}
    pub(crate) fn has_room(&self, flight: &Flight, level: Level) -> bool {
        let limit = match self.config {
            WindowConfig::Fixed(n) => n,
            WindowConfig::Learned => 8,
        };
        level <= Level::Foreground || flight.transfers < limit
    }
    pub(crate) fn cost_ns(&self, _kind: Kind, bytes: u32) -> u64 {
        10_000 + u64::from(bytes) / 2
    }
    pub(crate) fn departed(
        &mut self,
        _now_ns: u64,
        _flight: &Flight,
        _level: Level,
        _cost_ns: u64,
    ) {
    }
    pub(crate) fn completed(&mut self, now_ns: u64, _flight: &Flight, sample: &Sample) {
        if sample.ok {
            self.service_ns = self.service_ns.min(now_ns - sample.dispatched_ns);
        }
    }
    pub(crate) fn next_timer(&self, _now_ns: u64) -> Option<u64> {
        None
    }
    pub(crate) fn service_ns(&self) -> u64 {
        self.service_ns
    }
    pub(crate) fn state(&self) -> WindowState {
        WindowState {
            transfers: 8.0,
            service_ns: self.service_ns,
        }
    }
}
