//! What one run of a command carries along.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::cleanup::{Cleanups, StopFlag};
use crate::output::progress::Progress;
use crate::system::SystemPaths;

/// Handed to everything that measures.
pub struct Session {
    pub stop: StopFlag,
    pub cleanups: Cleanups,
    pub paths: SystemPaths,
    pub progress: Progress,
    /// This program's file, for what must go on when the process is killed. None
    /// in tests, whose program is another one.
    pub program: Option<PathBuf>,
    warnings: Mutex<Vec<Warning>>,
    /// Warnings are told later, all together.
    gathers: bool,
    exit_code: AtomicU8,
}

/// Who could do something against what a warning tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Other programs of this machine.
    Programs,
    /// Other machines of this one's host: nobody here.
    Host,
    /// What the warning says.
    Other,
}

#[derive(Clone, Debug)]
pub struct Warning {
    pub cause: Cause,
    pub message: String,
}

impl Session {
    pub fn new(stop: StopFlag, cleanups: Cleanups, paths: SystemPaths, progress: Progress) -> Self {
        Self {
            stop,
            cleanups,
            paths,
            progress,
            program: None,
            warnings: Mutex::default(),
            gathers: false,
            exit_code: AtomicU8::new(0),
        }
    }

    /// For a part of the work, whose warnings are put together before anything is told.
    pub fn gathering(&self) -> Self {
        Self {
            stop: self.stop.clone(),
            cleanups: self.cleanups.clone(),
            paths: self.paths.clone(),
            progress: self.progress,
            program: self.program.clone(),
            warnings: Mutex::default(),
            gathers: true,
            exit_code: AtomicU8::new(0),
        }
    }

    /// For tests: says nothing and listens to no signal.
    pub fn quiet() -> Self {
        Self::quiet_at(SystemPaths::default())
    }

    pub fn quiet_at(paths: SystemPaths) -> Self {
        Self::new(
            StopFlag::default(),
            Cleanups::default(),
            paths,
            Progress::silent(),
        )
    }

    /// The exit code of a run that went well: that of another program.
    pub fn end_with(&self, exit_code: u8) {
        self.exit_code.store(exit_code, Ordering::Relaxed);
    }

    /// 0 unless something else was said.
    pub fn exit_code(&self) -> u8 {
        self.exit_code.load(Ordering::Relaxed)
    }

    /// Says something that the reader of the figures must know: on stderr at
    /// once, and in the result.
    pub fn warn(&self, message: impl Into<String>) {
        self.warn_of(Cause::Other, message);
    }

    /// The same of a known cause.
    pub fn warn_of(&self, cause: Cause, message: impl Into<String>) {
        let message = message.into();
        if !self.gathers {
            self.progress.say(&format!("warning: {message}"));
        }
        if let Ok(mut warnings) = self.warnings.lock() {
            warnings.push(Warning { cause, message });
        }
    }

    pub fn warnings(&self) -> Vec<String> {
        let warnings = self.gathered().into_iter();
        warnings.map(|warning| warning.message).collect()
    }

    pub fn gathered(&self) -> Vec<Warning> {
        let warnings = self.warnings.lock();
        warnings.map(|list| list.clone()).unwrap_or_default()
    }
}
