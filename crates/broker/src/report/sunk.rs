//! Whose reads sank.

use serde::Serialize;

use super::{Writer, level};

/// From sinking to rising.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SunkReport {
    /// The rule's name.
    pub role: String,
    /// Number of the process.
    pub process: u32,
    /// The lowest level that it sank to.
    pub level: &'static str,
    /// End of the first request below its rule's level, since the start of the run.
    pub from_ns: u64,
    /// End of the last one.
    pub to_ns: u64,
    /// How many there were.
    pub requests: u64,
    /// Bytes of them.
    pub bytes: u64,
}

impl Writer<'_> {
    pub(super) fn sunk(&self, disk: usize) -> Vec<SunkReport> {
        let spans = self.sinking.spans().into_iter();
        spans
            .filter(|span| span.sinker.disk == disk)
            .map(|span| SunkReport {
                role: self.role_name(span.sinker.rule),
                process: span.sinker.process,
                level: level(span.level),
                from_ns: span.from_ns,
                to_ns: span.to_ns,
                requests: span.requests,
                bytes: span.bytes,
            })
            .collect()
    }
}
