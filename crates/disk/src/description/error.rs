//! What can be wrong with a description.

use std::fmt;
use std::io;

use super::near::NEAR_MAX;
use crate::ParameterError;

/// Where in a description: its file, if it came from one, and the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file's path, as it was given.
    pub file: Option<String>,
    /// Line, from 1.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.line) {
            (Some(file), Some(line)) => write!(formatter, "{file}, line {line}: "),
            (Some(file), None) => write!(formatter, "{file}: "),
            (None, Some(line)) => write!(formatter, "line {line}: "),
            (None, None) => Ok(()),
        }
    }
}

/// What may have been meant by a name that means nothing: names like it, or all.
fn meant(names: &[String]) -> String {
    let list = names.join(", ");
    match names.len() {
        0..=NEAR_MAX => format!("did you mean {list}?"),
        _ => format!("it must be one of {list}"),
    }
}

/// A description with which no disk can be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptionError {
    /// The file cannot be read.
    #[error("{file} cannot be read: {cause}")]
    Unreadable {
        /// The file's path, as it was given.
        file: String,
        /// What the system says.
        cause: io::Error,
    },
    /// The text is not TOML.
    #[error("{place}not TOML: {message}")]
    Syntax {
        /// Where the parser stopped.
        place: Place,
        /// What it had expected.
        message: String,
    },
    /// There is no `[model]` table, or it does not say what is modelled.
    #[error("{place}{message}")]
    Incomplete {
        /// Where something is missing.
        place: Place,
        /// What is missing.
        message: String,
    },
    /// A key that means nothing.
    #[error("{place}there is no parameter {key}; {}", meant(names))]
    UnknownKey {
        /// Where it stands.
        place: Place,
        /// The key.
        key: String,
        /// Keys that are like it, or all.
        names: Vec<String>,
    },
    /// A kind of model that does not exist.
    #[error("{place}there is no kind {kind:?}; it must be one of {}", names.join(", "))]
    UnknownKind {
        /// Where it stands.
        place: Place,
        /// The kind.
        kind: String,
        /// All kinds.
        names: Vec<String>,
    },
    /// A preset that does not exist.
    #[error("{place}there is no preset {name:?}; {}", meant(names))]
    UnknownPreset {
        /// Where it stands.
        place: Place,
        /// The name.
        name: String,
        /// Names that are like it, or all.
        names: Vec<String>,
    },
    /// A value of the wrong type.
    #[error("{place}{parameter}: {message}")]
    Type {
        /// Where it stands.
        place: Place,
        /// The parameter, with the tables around it.
        parameter: String,
        /// What it is, and what it must be.
        message: String,
    },
    /// A value with which there is no such disk.
    #[error("{place}{error}")]
    Impossible {
        /// Where it was set, if it was not the preset's own.
        place: Place,
        /// The parameter, what it is, what it must be.
        error: ParameterError,
    },
}
