//! Why there is no broker.

use std::io;

/// Why a broker could not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// The kernel gave no shared memory, no socket, or no thread.
    #[error("cannot {what}: {source}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl BrokerError {
    pub(crate) fn when(what: &'static str) -> impl FnOnce(io::Error) -> BrokerError {
        move |source| BrokerError::System { what, source }
    }
}
