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
    /// The shared memory may not be so large.
    #[error(
        "the hard limit of a file's size is less than the {} MiB of memory that is shared with the command", bytes >> 20
    )]
    FileSize {
        /// Bytes of the memory.
        bytes: usize,
    },
}

impl BrokerError {
    pub(crate) fn when(what: &'static str) -> impl FnOnce(io::Error) -> BrokerError {
        move |source| BrokerError::System { what, source }
    }

    /// There is no memory of so many bytes.
    pub(crate) fn without_memory(bytes: usize) -> impl FnOnce(io::Error) -> BrokerError {
        move |source| match source.raw_os_error() {
            Some(libc::EFBIG) => BrokerError::FileSize { bytes },
            _ => BrokerError::when("share memory")(source),
        }
    }
}
