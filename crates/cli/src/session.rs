//! What one run of a command carries along.

use std::path::PathBuf;
use std::sync::Mutex;

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
    warnings: Mutex<Vec<String>>,
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

    /// Says something that the reader of the figures must know: on stderr at
    /// once, and in the result.
    pub fn warn(&self, message: impl Into<String>) {
        let message = message.into();
        self.progress.say(&format!("warning: {message}"));
        if let Ok(mut warnings) = self.warnings.lock() {
            warnings.push(message);
        }
    }

    pub fn warnings(&self) -> Vec<String> {
        self.warnings
            .lock()
            .map(|list| list.clone())
            .unwrap_or_default()
    }
}
