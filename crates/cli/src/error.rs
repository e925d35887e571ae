//! How a command fails: what happened, what to do about it, and the exit code.

use std::io;
use std::path::PathBuf;

use serde::Serialize;
use thiserror::Error;

use crate::kernel_scheduler::SchedulerError;
use crate::target::TargetError;

/// Decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The command line makes no sense: exit code 1.
    Usage,
    /// The command line is fine, this machine cannot do it: exit code 2.
    Setup,
    /// It began and went wrong: exit code 3.
    Runtime,
}

impl Kind {
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Usage => 1,
            Self::Setup => 2,
            Self::Runtime => 3,
        }
    }
}

/// Why a command failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// Options that contradict each other, or that clap refused.
    #[error("{message}")]
    Usage { message: String, remedy: String },
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    /// Something else that the measurement needs is not there.
    #[error("{message}")]
    Setup { message: String, remedy: String },
    #[error("cannot write {}: {source}", path.display())]
    Output { path: PathBuf, source: io::Error },
    /// A transfer or a sync failed while measuring.
    #[error("{what} failed: {source}")]
    Transfer { what: String, source: io::Error },
    #[error("stopped by {signal} before the end; nothing was left behind")]
    Interrupted { signal: &'static str },
    /// Something else went wrong on the way.
    #[error("{message}")]
    Course { message: String, remedy: String },
    /// It ran to its end and found what should not be; the result says what.
    #[error("{message}")]
    Found {
        result: String,
        message: String,
        remedy: String,
    },
    /// A defect of this program.
    #[error("internal error: {message}")]
    Internal { message: String },
}

impl Failure {
    pub fn usage(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            remedy: remedy.into(),
        }
    }

    pub fn setup(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Setup {
            message: message.into(),
            remedy: remedy.into(),
        }
    }

    pub fn course(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Course {
            message: message.into(),
            remedy: remedy.into(),
        }
    }

    pub fn transfer(what: impl Into<String>, source: io::Error) -> Self {
        Self::Transfer {
            what: what.into(),
            source,
        }
    }

    /// A result that cannot be written: to standard output, or into a file.
    pub fn writing(place: &str, source: &io::Error) -> Self {
        let remedy = match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => "Free some space there, or write it elsewhere.",
            Some(libc::EIO) => {
                "The device reported an error; see the kernel's messages (dmesg), or write it elsewhere."
            }
            _ => "Write it elsewhere.",
        };
        Self::course(format!("writing to {place} failed: {source}"), remedy)
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Usage { .. } => Kind::Usage,
            Self::Target(error) => error.kind(),
            Self::Scheduler(error) => error.kind(),
            Self::Setup { .. } | Self::Output { .. } => Kind::Setup,
            Self::Transfer { .. }
            | Self::Interrupted { .. }
            | Self::Course { .. }
            | Self::Found { .. }
            | Self::Internal { .. } => Kind::Runtime,
        }
    }

    /// What the user can do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Usage { remedy, .. }
            | Self::Setup { remedy, .. }
            | Self::Course { remedy, .. }
            | Self::Found { remedy, .. } => remedy.clone(),
            Self::Target(error) => error.remedy(),
            Self::Scheduler(error) => error.remedy(),
            Self::Output { .. } => "Name a file in a directory that you may write to.".to_owned(),
            Self::Transfer { source, .. } => transfer_remedy(source),
            Self::Interrupted { .. } => {
                "Run it again; a shorter --runtime makes it end earlier.".to_owned()
            }
            Self::Internal { .. } => {
                "This is a defect of iolane; please report it with the command line.".to_owned()
            }
        }
    }

    /// The document that `--output-format json` gives instead of a result.
    pub fn document(&self) -> serde_json::Value {
        serde_json::json!({
            "schema": "iolane.error/1",
            "error": {
                "kind": self.kind(),
                "message": self.to_string(),
                "remedy": self.remedy(),
            },
        })
    }
}

fn transfer_remedy(source: &io::Error) -> String {
    match source.raw_os_error() {
        Some(libc::EIO) => "The device reported an error; see the kernel's messages (dmesg).",
        Some(libc::ENOSPC) => "Free some space, or give a smaller --size.",
        Some(libc::EINVAL) => {
            "The device refused the transfer; try a --block-size that is a multiple of 4k."
        }
        _ => "See the kernel's messages (dmesg) for what the device said.",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_fixed_exit_codes() {
        assert_eq!(Kind::Usage.exit_code(), 1);
        assert_eq!(Kind::Setup.exit_code(), 2);
        assert_eq!(Kind::Runtime.exit_code(), 3);
    }

    #[test]
    fn a_result_that_has_no_room_asks_for_no_size() {
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        let failure = Failure::writing("standard output", &full);
        assert!(
            failure
                .to_string()
                .starts_with("writing to standard output failed: ")
        );
        assert_eq!(failure.kind(), Kind::Runtime);
        assert!(!failure.remedy().contains("--size"));
        assert!(
            Failure::transfer("writing", full)
                .remedy()
                .contains("--size")
        );
    }

    #[test]
    fn the_error_document_has_the_documented_fields() {
        let failure = Failure::transfer(
            "reading 16384 bytes at 0",
            io::Error::from_raw_os_error(libc::EIO),
        );
        let document = failure.document();
        assert_eq!(document["schema"], "iolane.error/1");
        assert_eq!(document["error"]["kind"], "runtime");
        assert!(
            document["error"]["message"]
                .as_str()
                .unwrap()
                .starts_with("reading 16384 bytes at 0 failed: ")
        );
        assert!(
            document["error"]["remedy"]
                .as_str()
                .unwrap()
                .contains("dmesg")
        );
    }
}
