//! Whose requests sank or were promoted, and when.

use serde::Serialize;

use super::{Writer, level};
use crate::spans::Spans;

/// From the first to the last, without a pause of a second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpanReport {
    /// The rule's name.
    pub role: String,
    /// Number of the process whose requests they were.
    pub process: u32,
    /// The lowest level that they sank to, or the highest that they were promoted to.
    pub level: &'static str,
    /// End of the first request, since the start of the run.
    pub from_ns: u64,
    /// End of the last one.
    pub to_ns: u64,
    /// How many there were.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl Writer<'_> {
    pub(super) fn spans(&self, spans: &Spans, disk: usize) -> Vec<SpanReport> {
        let spans = spans.spans().into_iter();
        spans
            .filter(|span| span.whose.disk == disk)
            .map(|span| SpanReport {
                role: self.role_name(span.whose.rule),
                process: span.whose.process,
                level: level(span.level),
                from_ns: span.from_ns,
                to_ns: span.to_ns,
                requests: span.requests,
                bytes: span.bytes,
            })
            .collect()
    }
}
