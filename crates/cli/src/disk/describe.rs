//! Which disks there are, and what they are.

use std::path::Path;

use iolane_disk::{Description, DescriptionError, Model};

use crate::args::disk::{ListArgs, ModelArgs, ShowArgs};
use crate::error::Failure;
use crate::output::text::{Style, Table};
use crate::session::Session;

pub const LIST: &str = "list";
pub const LIST_ABOUT: &str = "List the disks that are known by name";
pub const SHOW: &str = "show";
pub const SHOW_ABOUT: &str = "Show a disk's parameters as TOML, to be changed and given as --model";

/// One line each.
///
/// # Errors
/// None.
pub fn list(_arguments: ListArgs, _session: &Session) -> Result<String, Failure> {
    let mut table = Table::new(2, ["MODEL", "WHAT IT IS"]);
    for preset in Description::presets() {
        table.row([preset.name, preset.description]);
    }
    Ok(table.render(Style::PLAIN))
}

/// The parameters.
///
/// # Errors
/// A disk that does not exist, or that cannot be.
pub fn show(arguments: ShowArgs, _session: &Session) -> Result<String, Failure> {
    let description = find(&arguments.model)?;
    // What is shown is there to be served; no seed makes it impossible.
    let built = description.build(0);
    built.map_err(|error| impossible(&error))?;
    Ok(description.to_toml())
}

/// A preset, or a file. A name with a dot or slash in it can only be a file,
/// and a preset of the same name as a file goes first.
pub fn find(model: &str) -> Result<Description, Failure> {
    let is_path = model.contains(['/', '.']);
    if is_path || (!is_preset(model) && Path::new(model).is_file()) {
        return Description::load(model).map_err(|error| impossible(&error));
    }
    Description::preset(model).map_err(|error| impossible(&error))
}

fn is_preset(name: &str) -> bool {
    Description::presets()
        .iter()
        .any(|preset| preset.name == name)
}

/// The disk itself.
pub fn build(description: &Description, arguments: &ModelArgs) -> Result<Box<dyn Model>, Failure> {
    let built = description.build(arguments.seed);
    built.map_err(|error| impossible(&error))
}

fn impossible(error: &DescriptionError) -> Failure {
    let remedy = match error {
        DescriptionError::UnknownPreset { .. } => {
            "iolane disk list shows the presets; a TOML file is named with its path, such as ./disk.toml."
        }
        DescriptionError::Unreadable { .. } => {
            "Check the path; iolane disk list shows the disks that need no file."
        }
        _ => "iolane disk show MODEL prints a complete description to begin with.",
    };
    Failure::usage(error.to_string(), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_shown_built_and_read_back() {
        let directory = tempfile::tempdir().unwrap();
        for preset in Description::presets() {
            let shown = show(
                ShowArgs {
                    model: preset.name.to_owned(),
                },
                &Session::quiet(),
            )
            .unwrap();
            let file = directory.path().join("disk.toml");
            std::fs::write(&file, &shown).unwrap();
            let back = find(file.to_str().unwrap()).unwrap();
            assert_eq!(back.to_toml(), shown, "{}", preset.name);
            assert!(back.build(1).unwrap().capacity_bytes() > 0);
        }
    }

    #[test]
    fn the_list_has_a_line_for_each() {
        let text = list(ListArgs {}, &Session::quiet()).unwrap();
        assert_eq!(text.lines().count(), Description::presets().len() + 1);
    }

    #[test]
    fn an_unknown_disk_is_a_usage_error_with_a_remedy() {
        let failure = find("no-such-disk").unwrap_err();
        assert_eq!(failure.kind().exit_code(), 1);
        assert!(failure.remedy().contains("iolane disk list"));
        let failure = find("./no-such-disk.toml").unwrap_err();
        assert!(failure.to_string().contains("no-such-disk.toml"));
    }
}
