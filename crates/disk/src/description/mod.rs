//! Disks in words: presets by name, own ones in TOML.
//!
//! ```
//! use iolane_disk::Description;
//!
//! let description = Description::from_toml(
//!     r#"
//!     [model]
//!     base = "nvme-ssd"
//!     capacity_bytes = 107374182400
//!     queue_max = 64
//!     "#,
//! )?;
//! let disk = description.build(1)?;
//! assert_eq!(disk.queue_max(), 64);
//! # Ok::<(), iolane_disk::DescriptionError>(())
//! ```

mod error;
mod near;
mod parameters;
mod presets;
mod read;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use error::{DescriptionError, Place};
pub use parameters::Parameters;
pub use presets::Preset;

use crate::Model;

/// A disk that can be built: a model's kind and parameters.
#[derive(Clone, Debug)]
pub struct Description {
    parameters: Parameters,
    /// File from which it came.
    file: Option<String>,
    /// Line in which each parameter was set, by its path.
    lines: Vec<(String, usize)>,
}

impl Description {
    /// Reads a description. It has one table, `[model]`, with a `kind` and all
    /// parameters of that kind, or a `base`, the name of a preset, and the
    /// parameters that shall differ from it.
    ///
    /// # Errors
    /// [`DescriptionError`] for what is not TOML, and for keys, kinds, presets
    /// and values that do not exist. What values mean, [`build`](Self::build)
    /// judges.
    pub fn from_toml(text: &str) -> Result<Description, DescriptionError> {
        read::read(text, None)
    }

    /// Reads a description from a file.
    ///
    /// # Errors
    /// As [`from_toml`](Self::from_toml), and when the file cannot be read.
    pub fn load(path: impl AsRef<Path>) -> Result<Description, DescriptionError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|cause| DescriptionError::Unreadable {
            file: file.clone(),
            cause,
        })?;
        read::read(&text, Some(&file))
    }

    /// The description of a preset.
    ///
    /// # Errors
    /// [`DescriptionError::UnknownPreset`], with names that are like it.
    pub fn preset(name: &str) -> Result<Description, DescriptionError> {
        match presets::find(name) {
            Some(preset) => Ok(Description {
                parameters: (preset.parameters)(),
                file: None,
                lines: Vec::new(),
            }),
            None => Err(DescriptionError::UnknownPreset {
                place: Place::default(),
                name: name.to_owned(),
                names: near::choose(name, Self::presets().iter().map(|preset| preset.name)),
            }),
        }
    }

    /// All presets.
    pub fn presets() -> &'static [Preset] {
        presets::PRESETS
    }

    /// The model's kind and parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The description as TOML, which [`from_toml`](Self::from_toml) reads.
    pub fn to_toml(&self) -> String {
        self.parameters.to_toml()
    }

    /// Builds the disk. The seed decides all that is left to chance.
    ///
    /// # Errors
    /// [`DescriptionError::Impossible`] for a parameter with which there is no
    /// such disk.
    pub fn build(&self, seed: u64) -> Result<Box<dyn Model>, DescriptionError> {
        self.parameters
            .build(seed)
            .map_err(|error| DescriptionError::Impossible {
                place: Place {
                    file: self.file.clone(),
                    line: self.line_of(&error.parameter),
                },
                error,
            })
    }

    fn line_of(&self, parameter: &str) -> Option<usize> {
        let mut lines = self.lines.iter();
        lines
            .find(|(path, _)| path == parameter)
            .map(|(_, line)| *line)
    }
}
