//! The kinds of models, each with its parameters.

use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeTable;

use crate::model::{
    Cloud, CloudParameters, Constant, ConstantParameters, Flash, FlashParameters, Model,
    ParameterError, Raid10, Raid10Parameters, Rotating, RotatingParameters,
};

/// The file's one table.
#[derive(Serialize)]
struct Document<'a, T> {
    model: Tagged<'a, T>,
}

#[derive(Serialize)]
struct Tagged<'a, T> {
    kind: &'a str,
    #[serde(flatten)]
    parameters: &'a T,
}

/// One line per kind: its name in TOML, its parameters, how it is built.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:literal => $variant:ident($parameters:ty), $build:expr;)*) => {
        /// A kind of model and its parameters.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Parameters {
            $($(#[$doc])* $variant($parameters),)*
        }

        impl Parameters {
            /// The names of all kinds.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// The name of the kind.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Parameters::$variant(_) => $kind,)*
                }
            }

            /// Reads the parameters of a kind that exists.
            pub(super) fn read(
                kind: &str,
                table: Spanned<DeTable<'_>>,
            ) -> Result<Parameters, toml::de::Error> {
                let table = toml::de::Deserializer::from(table);
                match kind {
                    $($kind => <$parameters>::deserialize(table).map(Parameters::$variant),)*
                    _ => unreachable!("kinds are looked up before their parameters"),
                }
            }

            pub(super) fn to_toml(&self) -> String {
                let text = match self {
                    $(Parameters::$variant(parameters) => toml::to_string(&Document {
                        model: Tagged { kind: $kind, parameters },
                    }),)*
                };
                text.expect("presets and what was read from TOML can be written as TOML")
            }

            pub(crate) fn build(&self, seed: u64) -> Result<Box<dyn Model>, ParameterError> {
                match self {
                    $(Parameters::$variant(parameters) => {
                        let build: fn($parameters, u64) -> Result<_, ParameterError> = $build;
                        Ok(Box::new(build(parameters.clone(), seed)?))
                    })*
                }
            }
        }
    };
}

kinds! {
    /// Every command takes the same time.
    "constant" => Constant(ConstantParameters), |parameters, _| Constant::new(parameters);
    /// One rotating disk.
    "rotating" => Rotating(RotatingParameters), |parameters, _| Rotating::new(parameters);
    /// Mirrored pairs of rotating disks behind a controller.
    "raid10" => Raid10(Raid10Parameters), |parameters, _| raid10(parameters);
    /// Flash: dies, buffer, garbage collection.
    "flash" => Flash(FlashParameters), Flash::new;
    /// A rate-limited volume on a network.
    "cloud" => Cloud(CloudParameters), Cloud::new;
}

/// The array; what is wrong with its disks is told as the parameter of a disk.
fn raid10(parameters: Raid10Parameters) -> Result<Raid10, ParameterError> {
    Rotating::new(parameters.disk.clone()).map_err(|error| ParameterError {
        parameter: format!("disk.{}", error.parameter),
        ..error
    })?;
    Raid10::new(parameters)
}
