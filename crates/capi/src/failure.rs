//! Errors as codes, and what the calling thread may ask about the last one.

use crate::sys::error::iolane_error;
use engine::arena::{ArenaError, BufferError};
use engine::{BackendError, Cause, ConfigError, Error, OpenError};
use std::cell::RefCell;
use std::ffi::{CStr, CString};

/// What went wrong, for the thread that is told.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub code: iolane_error,
    pub os_error: i32,
    why: Why,
}

/// A sentence is only made for who asks.
#[derive(Clone, Debug)]
enum Why {
    Text(String),
    Error(Error),
}

#[derive(Default)]
struct Last {
    failure: Option<Failure>,
    /// Made on demand, and kept: C holds a pointer to it.
    text: CString,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

impl Failure {
    pub(crate) fn new(code: iolane_error, text: impl Into<String>) -> Failure {
        Failure {
            code,
            os_error: 0,
            why: Why::Text(text.into()),
        }
    }

    /// The caller gave something that cannot be.
    pub(crate) fn argument(text: impl Into<String>) -> Failure {
        Failure::new(iolane_error::IOLANE_ERROR_ARGUMENT, text)
    }

    /// This process is a child of the one that made the object.
    pub(crate) fn forked() -> Failure {
        Failure::new(
            iolane_error::IOLANE_ERROR_FORKED,
            "it belongs to the process that forked this one; make one after the fork",
        )
    }

    /// Remembers it for this thread, and gives the code to return.
    pub(crate) fn report(self) -> i32 {
        let code = self.code as i32;
        LAST.with_borrow_mut(|last| last.failure = Some(self));
        code
    }
}

/// For functions that return a code.
pub(crate) fn code_of(result: Result<(), Failure>) -> i32 {
    match result {
        Ok(()) => iolane_error::IOLANE_OK as i32,
        Err(failure) => failure.report(),
    }
}

/// For functions that return a number or a code.
pub(crate) fn number_of(result: Result<u64, Failure>) -> i64 {
    match result {
        // Lengths and file sizes: below 2^63.
        Ok(number) => number as i64,
        Err(failure) => i64::from(failure.report()),
    }
}

/// The sentence about this thread's last failure, until the next time.
pub(crate) fn last_text() -> *const std::ffi::c_char {
    LAST.with_borrow_mut(|last| {
        if let Some(failure) = &last.failure {
            let text = match &failure.why {
                Why::Text(text) => text.clone(),
                Why::Error(error) => error.to_string(),
            };
            // A path may hold any byte but this one.
            last.text = CString::new(text.replace('\0', "?")).unwrap_or_default();
        }
        last.text.as_ptr()
    })
}

pub(crate) fn last_os_error() -> i32 {
    LAST.with_borrow(|last| last.failure.as_ref().map_or(0, |failure| failure.os_error))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        use iolane_error::*;
        let code = match error.cause() {
            Cause::Kernel(_) => IOLANE_ERROR_OS,
            Cause::Poisoned(_) => IOLANE_ERROR_POISONED,
            Cause::Misaligned { .. } => IOLANE_ERROR_MISALIGNED,
            Cause::TooLong { .. } | Cause::BeyondEnd => IOLANE_ERROR_TOO_LONG,
            Cause::QueueFull { .. } => IOLANE_ERROR_FULL,
            Cause::InCallback => IOLANE_ERROR_IN_CALLBACK,
            Cause::ShortWrite { .. } => IOLANE_ERROR_SHORT_WRITE,
            Cause::Closed => IOLANE_ERROR_CLOSED,
            Cause::Forked => IOLANE_ERROR_FORKED,
            Cause::Backend(_) => IOLANE_ERROR_NO_BACKEND,
            // Causes of what this interface does not offer.
            _ => IOLANE_ERROR_OTHER,
        };
        Failure {
            code,
            os_error: error.os_error().unwrap_or(0),
            why: Why::Error(error),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        use iolane_error::*;
        let mut os_error = 0;
        let code = match &error {
            OpenError::Open { source, .. } | OpenError::Size { source, .. } => {
                os_error = source.raw_os_error().unwrap_or(0);
                IOLANE_ERROR_OS
            }
            OpenError::NoAccess { .. } => IOLANE_ERROR_ARGUMENT,
            OpenError::NotAFile { .. } | OpenError::Append { .. } => IOLANE_ERROR_NOT_A_FILE,
            OpenError::NoDirect { .. } => IOLANE_ERROR_NO_DIRECT,
            OpenError::Device { .. } => IOLANE_ERROR_SETTINGS,
            OpenError::Closed { .. } => IOLANE_ERROR_CLOSED,
            OpenError::Forked { .. } => IOLANE_ERROR_FORKED,
            _ => IOLANE_ERROR_OTHER,
        };
        let mut failure = Failure::new(code, error.to_string());
        failure.os_error = os_error;
        failure
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::new(iolane_error::IOLANE_ERROR_SETTINGS, error.to_string())
    }
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Failure {
        let code = match error {
            BackendError::Forked => iolane_error::IOLANE_ERROR_FORKED,
            _ => iolane_error::IOLANE_ERROR_NO_BACKEND,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<ArenaError> for Failure {
    fn from(error: ArenaError) -> Failure {
        Failure::new(iolane_error::IOLANE_ERROR_MEMORY, error.to_string())
    }
}

impl From<BufferError> for Failure {
    fn from(error: BufferError) -> Failure {
        let code = match error {
            BufferError::Forked => iolane_error::IOLANE_ERROR_FORKED,
            BufferError::Alignment { .. } => iolane_error::IOLANE_ERROR_ARGUMENT,
            _ => iolane_error::IOLANE_ERROR_MEMORY,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        let mut failure = Failure::new(iolane_error::IOLANE_ERROR_OS, error.to_string());
        failure.os_error = error.raw_os_error().unwrap_or(0);
        failure
    }
}

/// What a code means, whatever the case.
pub(crate) fn text_of(code: i32) -> &'static CStr {
    use iolane_error::*;
    const TEXTS: [(iolane_error, &CStr); 17] = [
        (IOLANE_OK, c"no error"),
        (
            IOLANE_ERROR_OS,
            c"the kernel refused; iolane_last_os_error() has its errno",
        ),
        (
            IOLANE_ERROR_ARGUMENT,
            c"an argument is NULL or out of range",
        ),
        (
            IOLANE_ERROR_POISONED,
            c"an earlier sync of the file failed; close it and recover its contents",
        ),
        (
            IOLANE_ERROR_MISALIGNED,
            c"direct I/O needs other multiples for offset, length or buffer",
        ),
        (
            IOLANE_ERROR_TOO_LONG,
            c"longer than one request can be, or beyond the largest offset",
        ),
        (
            IOLANE_ERROR_FULL,
            c"no room for one more request; try again after one completed",
        ),
        (
            IOLANE_ERROR_IN_CALLBACK,
            c"a callback cannot wait for its own thread",
        ),
        (IOLANE_ERROR_SHORT_WRITE, c"the device accepted only a part"),
        (IOLANE_ERROR_CLOSED, c"the engine was freed"),
        (
            IOLANE_ERROR_FORKED,
            c"it belongs to the process that forked this one",
        ),
        (IOLANE_ERROR_CANCELLED, c"the request was withdrawn"),
        (
            IOLANE_ERROR_NO_BACKEND,
            c"no asynchronous I/O can be had here",
        ),
        (
            IOLANE_ERROR_NOT_A_FILE,
            c"neither a regular file nor a block device with positions",
        ),
        (IOLANE_ERROR_NO_DIRECT, c"the filesystem has no direct I/O"),
        (IOLANE_ERROR_SETTINGS, c"the settings were refused"),
        (IOLANE_ERROR_MEMORY, c"the memory is not to be had"),
    ];
    let known = TEXTS.iter().find(|(known, _)| *known as i32 == code);
    known.map_or(c"unknown error", |(_, text)| text)
}
