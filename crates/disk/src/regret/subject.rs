//! Which disks there are, and what they say of themselves.

use super::load::Facts;
use crate::ParameterError;
use crate::description::{Description, Parameters};
use crate::model::Model;

/// A modelled disk, and what the scheduler is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The preset's name, and what is wrong with it.
    pub name: String,
    parameters: Parameters,
    /// What `queue/rotational` says: flash that says that it rotates is what
    /// every virtual disk of VirtIO is.
    pub rotational: bool,
}

impl Subject {
    /// All presets as they are; each with its rotational flag wrong; and flash
    /// whose write cache does not survive the loss of power.
    pub fn all() -> Vec<Subject> {
        let mut all = Vec::new();
        for preset in Description::presets() {
            let Ok(description) = Description::preset(preset.name) else {
                continue;
            };
            let parameters = description.parameters().clone();
            let rotates = parameters.build(1).is_ok_and(|disk| disk.rotating());
            let subject = |name: String, parameters, rotational| Subject {
                name,
                parameters,
                rotational,
            };
            let name = preset.name;
            let says = u8::from(!rotates);
            all.push(subject(name.to_owned(), parameters.clone(), rotates));
            let wrong = format!("{name}/rotational={says}");
            all.push(subject(wrong, parameters.clone(), !rotates));
            if let Parameters::Flash(mut flash) = parameters {
                flash.power_loss_protected = false;
                let volatile = format!("{name}/volatile");
                all.push(subject(volatile, Parameters::Flash(flash), rotates));
            }
        }
        all
    }

    /// The one of this name.
    pub fn find(name: &str) -> Option<Subject> {
        Self::all().into_iter().find(|one| one.name == name)
    }

    /// What loads depend on.
    ///
    /// # Errors
    /// Never with the presets that there are.
    pub fn facts(&self) -> Result<Facts, ParameterError> {
        let model = self.build(1)?;
        Ok(Facts {
            capacity_bytes: model.capacity_bytes(),
            block_bytes: model.block_bytes(),
        })
    }

    /// Bytes after which an operation takes another of the commands that are simulated:
    /// an array divides it into stripes.
    pub(super) fn command_bytes(&self) -> f64 {
        match &self.parameters {
            Parameters::Raid10(array) => array.chunk_bytes as f64,
            _ => f64::INFINITY,
        }
    }

    /// A new disk.
    ///
    /// # Errors
    /// Never with the presets that there are.
    pub fn build(&self, seed: u64) -> Result<Box<dyn Model>, ParameterError> {
        self.parameters.build(seed)
    }
}
