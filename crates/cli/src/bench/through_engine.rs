//! Between the options of a measurement and the engine that carries it.

use std::io;

use iolane::{BackendChoice, BackendError, BackendKind, Error, OpenError};

use crate::args::choices::Backend;
use crate::error::Failure;

/// What the engine calls it.
pub fn choice(backend: Backend) -> BackendChoice {
    match backend {
        Backend::Auto => BackendChoice::Auto,
        Backend::IoUring => BackendChoice::Only(BackendKind::Uring),
        Backend::LinuxAio => BackendChoice::Only(BackendKind::LinuxAio),
        Backend::Threads => BackendChoice::Only(BackendKind::Threads),
    }
}

/// What the user calls it.
pub fn backend(kind: BackendKind) -> Backend {
    match kind {
        BackendKind::Uring => Backend::IoUring,
        BackendKind::LinuxAio => Backend::LinuxAio,
        BackendKind::Threads => Backend::Threads,
        BackendKind::Simulated => unreachable!("no measurement has a simulated disk"),
    }
}

pub fn open_failure(error: &OpenError) -> Failure {
    Failure::setup(
        error.to_string(),
        "Check that the target is still there, and the limit on open files (ulimit -n).",
    )
}

pub fn backend_failure(error: &BackendError) -> Failure {
    Failure::setup(
        error.to_string(),
        "Name another backend, or auto for the best one that works here.",
    )
}

/// A transfer or sync that failed while measuring.
pub fn transfer_failure(error: &Error) -> Failure {
    let what = if error.operation().is_sync() {
        error.operation().to_string()
    } else {
        format!(
            "{} of {} bytes at offset {}",
            error.operation(),
            error.length(),
            error.offset()
        )
    };
    // The number decides the remedy; only the kernel's refusals have one.
    let source = match error.os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.cause().to_string()),
    };
    Failure::transfer(what, source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane::{Engine, Level, OpenOptions};

    #[test]
    fn names_go_both_ways() {
        for one in [Backend::IoUring, Backend::LinuxAio, Backend::Threads] {
            let BackendChoice::Only(kind) = choice(one) else {
                panic!("{one:?} is one backend");
            };
            assert_eq!(backend(kind), one);
        }
    }

    #[test]
    fn a_failed_write_says_what_and_where() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, [0; 4096]).unwrap();
        let engine = Engine::new().unwrap();
        let file = engine.open(&path, OpenOptions::new().read(true)).unwrap();
        let error = file.write_at(&[1; 512], 1024, Level::Normal).unwrap_err();
        let failure = transfer_failure(&error);
        assert!(
            failure
                .to_string()
                .starts_with("write of 512 bytes at offset 1024 failed"),
            "{failure}"
        );
        let missing = engine.open(path.join("x"), OpenOptions::new().read(true));
        assert!(
            open_failure(&missing.unwrap_err())
                .to_string()
                .contains("cannot open")
        );
    }
}
