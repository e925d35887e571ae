//! Which backend: names, probing, and the report of what was chosen and why.

use std::fmt;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::str::FromStr;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::aio::AioBackend;
use super::threads::ThreadsBackend;
use super::uring::UringBackend;
use super::{Backend, CAPACITY_MAX};
use crate::sys::op::read_for_probe;
use crate::sys::syscalls;

/// Longest wait for the transfer that proves a backend to work: a few bytes
/// from memory.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// What carries transfers to the kernel.
///
/// ```
/// use iolane::BackendKind;
///
/// assert_eq!(BackendKind::LinuxAio.to_string(), "linux-aio");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// io_uring (Linux 5.11 and newer; fastest from 6.1).
    Uring,
    /// Linux AIO, `io_submit` (Linux 4.19 and newer).
    LinuxAio,
    /// A pool of threads that block in `preadv` and `pwritev`.
    Threads,
    /// A simulated disk, which an engine has only if it was made with one
    /// (feature `simulated`).
    Simulated,
}

impl BackendKind {
    /// Those of the kernel, in the order in which [`BackendChoice::Auto`]
    /// tries them.
    const ALL: [BackendKind; 3] = [
        BackendKind::Uring,
        BackendKind::LinuxAio,
        BackendKind::Threads,
    ];
}

impl fmt::Display for BackendKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            BackendKind::Uring => "io_uring",
            BackendKind::LinuxAio => "linux-aio",
            BackendKind::Threads => "threads",
            BackendKind::Simulated => "simulated",
        })
    }
}

/// Which backend is wanted.
///
/// ```
/// use iolane::{BackendChoice, BackendKind};
///
/// assert_eq!("auto".parse(), Ok(BackendChoice::Auto));
/// assert_eq!("threads".parse(), Ok(BackendChoice::Only(BackendKind::Threads)));
/// assert!("epoll".parse::<BackendChoice>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BackendChoice {
    /// The first that works of io_uring, Linux AIO and threads.
    #[default]
    Auto,
    /// This one, or an error.
    Only(BackendKind),
}

impl fmt::Display for BackendChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackendChoice::Auto => f.pad("auto"),
            BackendChoice::Only(kind) => kind.fmt(f),
        }
    }
}

impl FromStr for BackendChoice {
    type Err = BackendError;

    fn from_str(name: &str) -> Result<BackendChoice, BackendError> {
        if name == "auto" {
            return Ok(BackendChoice::Auto);
        }
        BackendKind::ALL
            .into_iter()
            .find(|kind| kind.to_string() == name)
            .map(BackendChoice::Only)
            .ok_or_else(|| BackendError::UnknownName { name: name.into() })
    }
}

/// Which backend was chosen, and why none of those before it.
///
/// ```
/// fn explain(report: &iolane::BackendReport) {
///     println!("backend {} ({})", report.chosen(), report.detail());
///     for (kind, reason) in report.refused() {
///         println!("  not {kind}: {reason}");
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendReport {
    chosen: BackendKind,
    detail: String,
    refused: Vec<(BackendKind, String)>,
}

impl BackendReport {
    /// What is in use.
    pub fn chosen(&self) -> BackendKind {
        self.chosen
    }

    /// How it is set up, for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What was tried before it, and why it cannot be used here.
    pub fn refused(&self) -> &[(BackendKind, String)] {
        &self.refused
    }
}

impl fmt::Display for BackendReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.chosen, self.detail)?;
        for (kind, reason) in &self.refused {
            write!(f, "; not {kind}: {reason}")?;
        }
        Ok(())
    }
}

/// Why no backend could be opened.
///
/// ```
/// let error = "epoll".parse::<iolane::BackendChoice>().unwrap_err();
/// assert!(error.to_string().contains("io_uring, linux-aio, threads"));
/// ```
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackendError {
    /// No backend has this name.
    #[error("unknown backend {name:?}: use auto, io_uring, linux-aio, threads")]
    UnknownName {
        /// As given.
        name: String,
    },
    /// The number of operations in flight is out of range.
    #[error("a backend for {capacity} operations in flight: use 1 to {CAPACITY_MAX}")]
    Capacity {
        /// As given.
        capacity: u32,
    },
    /// The backend that was asked for cannot be used here.
    #[error("backend {kind} cannot be used: {reason}; use auto for one that can")]
    Refused {
        /// Which.
        kind: BackendKind,
        /// What failed, and why where that is known.
        reason: String,
    },
    /// This process is a child of the one that made the
    /// [`Engine`](crate::Engine).
    #[error("the engine belongs to the process that forked this one; make one after the fork")]
    Forked,
    /// None can.
    #[error("no backend can be used: {}", join(.refused))]
    NoneUsable {
        /// Each with what failed.
        refused: Vec<(BackendKind, String)>,
    },
}

/// What [`Device::backend`](crate::Device::backend) says in a child process.
pub(crate) static FORKED: BackendError = BackendError::Forked;

fn join(refused: &[(BackendKind, String)]) -> String {
    let reasons: Vec<String> = refused
        .iter()
        .map(|(kind, reason)| format!("{kind}: {reason}"))
        .collect();
    reasons.join("; ")
}

/// Opens a backend for `capacity` operations in flight, to be driven by the
/// calling thread. It has done a transfer before it is returned.
pub(crate) fn open(
    choice: BackendChoice,
    capacity: u32,
) -> Result<(Box<dyn Backend>, BackendReport), BackendError> {
    open_with(choice, capacity, try_open)
}

/// A backend that works and how it is set up, or why it does not work.
type Tried = Result<(Box<dyn Backend>, String), String>;

/// [`open`], by another way to try one: so that a test can refuse some.
pub(super) fn open_with(
    choice: BackendChoice,
    capacity: u32,
    mut try_open: impl FnMut(BackendKind, u32) -> Tried,
) -> Result<(Box<dyn Backend>, BackendReport), BackendError> {
    if !(1..=CAPACITY_MAX).contains(&capacity) {
        return Err(BackendError::Capacity { capacity });
    }
    let mut refused = Vec::new();
    let candidates = match &choice {
        BackendChoice::Auto => &BackendKind::ALL[..],
        BackendChoice::Only(kind) => std::slice::from_ref(kind),
    };
    for &kind in candidates {
        match try_open(kind, capacity) {
            Ok((backend, detail)) => {
                let report = BackendReport {
                    chosen: kind,
                    detail,
                    refused,
                };
                return Ok((backend, report));
            }
            Err(reason) => refused.push((kind, reason)),
        }
    }
    match (choice, refused.pop()) {
        (BackendChoice::Only(_), Some((kind, reason))) => {
            Err(BackendError::Refused { kind, reason })
        }
        (_, last) => {
            refused.extend(last);
            Err(BackendError::NoneUsable { refused })
        }
    }
}

/// The backend of a simulated disk, whatever else the engine would choose:
/// the disk's files are known to no other.
#[cfg(feature = "simulated")]
pub(crate) fn open_simulated(
    disk: &crate::simulated::SimulatedDisk,
    capacity: u32,
) -> Result<(Box<dyn Backend>, BackendReport), BackendError> {
    if !(1..=CAPACITY_MAX).contains(&capacity) {
        return Err(BackendError::Capacity { capacity });
    }
    let backend = disk.backend(capacity);
    let report = BackendReport {
        chosen: BackendKind::Simulated,
        detail: backend.detail(),
        refused: Vec::new(),
    };
    Ok((Box::new(backend), report))
}

pub(super) fn try_open(kind: BackendKind, capacity: u32) -> Tried {
    let (mut backend, detail): (Box<dyn Backend>, String) = match kind {
        BackendKind::Uring => {
            let backend = UringBackend::new(capacity)?;
            let detail = backend.mode().to_string();
            (Box::new(backend), detail)
        }
        BackendKind::LinuxAio => (
            Box::new(AioBackend::new(capacity)?),
            "buffered files by threads".into(),
        ),
        BackendKind::Threads => (
            Box::new(ThreadsBackend::new(capacity)),
            format!("at most {}", super::pool::THREADS_MAX),
        ),
        BackendKind::Simulated => {
            return Err("the engine was not made with a simulated disk".into());
        }
    };
    round_trip(backend.as_mut())?;
    Ok((backend, detail))
}

/// Reads a few bytes from a file in memory: a filter may allow to set up what
/// it does not allow to use.
fn round_trip(backend: &mut dyn Backend) -> Result<(), String> {
    const MARK: [u8; 8] = *b"iolane\x01\x02";
    let mut file =
        syscalls::memory_file().map_err(|error| format!("memfd_create for the probe: {error}"))?;
    file.write_all(&MARK)
        .map_err(|error| format!("write for the probe: {error}"))?;

    let (result, bytes) = read_for_probe(backend, file.as_raw_fd(), Instant::now() + PROBE_TIMEOUT)
        .map_err(|error| format!("a read to probe it: {error}"))?;
    if result < 0 {
        let error = std::io::Error::from_raw_os_error(-result);
        return Err(format!("a read to probe it: {error}"));
    }
    if result as usize != MARK.len() || bytes != MARK {
        return Err(format!(
            "a read to probe it gave {result} bytes, not those written"
        ));
    }
    Ok(())
}
