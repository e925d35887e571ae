//! First in, first out.

use super::{BlockLayer, BlockLayerParameters, LinuxNoop, LinuxScheduler, Queued};
use crate::model::ParameterError;
use std::collections::VecDeque;

/// Linux's `noop`: requests go in the order in which they came; merging is the
/// block layer's (Love, "Linux Kernel Development", 2nd edition, chapter 13).
#[derive(Default)]
pub struct NoopScheduler {
    fifo: VecDeque<u32>,
}

impl LinuxNoop {
    /// `noop`, with its block layer.
    ///
    /// # Errors
    /// A parameter with which there could be no requests.
    pub fn noop(parameters: BlockLayerParameters) -> Result<LinuxNoop, ParameterError> {
        BlockLayer::new(NoopScheduler::default(), parameters)
    }
}

impl LinuxScheduler for NoopScheduler {
    fn add(&mut self, _now_ns: u64, tag: u32, _requests: &[Queued]) {
        self.fifo.push_back(tag);
    }

    fn moved(&mut self, _tag: u32, _start_before: u64, _requests: &[Queued]) {}

    fn dispatch(&mut self, _now_ns: u64, _requests: &[Queued]) -> Option<u32> {
        self.fifo.pop_front()
    }
}
