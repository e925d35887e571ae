use super::*;
use crate::model::{FlashParameters, Raid10Parameters, RotatingParameters};

fn message(text: &str) -> String {
    match Description::from_toml(text).and_then(|description| description.build(1).map(|_| ())) {
        Ok(()) => panic!("must be refused: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_preset_is_built_and_survives_being_written_and_read() {
    for preset in Description::presets() {
        let description = Description::preset(preset.name).unwrap();
        let text = description.to_toml();
        let back = Description::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(back.parameters(), description.parameters(), "{text}");
        let disk = back.build(1).unwrap();
        assert!(disk.capacity_bytes() > 0, "{}", preset.name);
        assert!(!preset.description.is_empty() && !preset.source.is_empty());
    }
}

#[test]
fn a_base_gives_all_that_is_not_set() {
    let description =
        Description::from_toml("[model]\nbase = \"nvme-ssd\"\nread_us = 50\nqueue_max = 7\n")
            .unwrap();
    let expected = FlashParameters {
        read_us: 50.0,
        queue_max: 7,
        ..FlashParameters::nvme_ssd()
    };
    assert_eq!(*description.parameters(), Parameters::Flash(expected));
}

#[test]
fn a_table_of_the_base_is_changed_value_by_value() {
    let text = "[model]\nbase = \"percona-4x7200\"\ndisk.write_back = false\ndisks = 6\n";
    let description = Description::from_toml(text).unwrap();
    let base = Raid10Parameters::percona_4x7200();
    let expected = Raid10Parameters {
        disks: 6,
        disk: RotatingParameters {
            write_back: false,
            ..base.disk.clone()
        },
        ..base
    };
    assert_eq!(*description.parameters(), Parameters::Raid10(expected));
}

#[test]
fn a_kind_with_all_parameters_needs_no_base() {
    let description = Description::from_toml(
        "[model]\nkind = \"constant\"\ncapacity_bytes = 4096\nqueue_max = 3\nlatency_ns = 9\n",
    )
    .unwrap();
    let disk = description.build(1).unwrap();
    assert_eq!((disk.capacity_bytes(), disk.queue_max()), (4096, 3));
}

#[test]
fn what_is_not_toml_is_refused_with_its_line() {
    let text = message("[model]\nkind = \"flash\"\nread_us = = 3\n");
    assert!(text.starts_with("line 3: not TOML: "), "{text}");
}

#[test]
fn unknown_keys_are_refused_with_line_and_near_names() {
    assert_eq!(
        message("[model]\nbase = \"nvme-ssd\"\n\nreads_us = 3\n"),
        "line 4: there is no parameter reads_us; did you mean read_us?"
    );
    assert_eq!(
        message("[model]\nbase = \"nvme-ssd\"\n[modell]\n"),
        "line 3: there is no parameter modell; did you mean [model]?"
    );
}

#[test]
fn unknown_presets_and_kinds_are_refused_with_names() {
    assert_eq!(
        message("[model]\nbase = \"nvme_sd\"\n"),
        "line 2: there is no preset \"nvme_sd\"; did you mean nvme-ssd?"
    );
    assert_eq!(
        Description::preset("aws-gp4").unwrap_err().to_string(),
        "there is no preset \"aws-gp4\"; did you mean aws-gp3?"
    );
    let none = Description::preset("floppy").unwrap_err().to_string();
    assert!(
        none.contains("it must be one of constant-100us, "),
        "{none}"
    );
    assert_eq!(
        message("[model]\nkind = \"tape\"\n"),
        format!(
            "line 2: there is no kind \"tape\"; it must be one of {}",
            Parameters::KINDS.join(", ")
        )
    );
    let all = Description::preset("floppy").unwrap_err().to_string();
    assert!(
        Description::presets()
            .iter()
            .all(|preset| all.contains(preset.name)),
        "{all}"
    );
}

#[test]
fn wrong_types_are_refused_with_what_they_are_and_must_be() {
    let with = |line| message(&format!("[model]\nbase = \"nvme-ssd\"\n{line}\n"));
    assert_eq!(
        with("read_us = \"fast\""),
        "line 3: read_us: is the string \"fast\", must be a number"
    );
    assert_eq!(
        with("queue_max = -1"),
        "line 3: queue_max: is the integer `-1`, must be a whole number, 0 or above"
    );
    assert_eq!(
        with("channels = 5000000000"),
        "line 3: channels: is the integer `5000000000`, must be a whole number from 0 to 4294967295"
    );
    assert_eq!(
        with("aged = 1"),
        "line 3: aged: is the integer `1`, must be true or false"
    );
    assert_eq!(
        message("[model]\nbase = 3\n"),
        "line 2: base: is of type integer, must be a text in quotes"
    );
    assert_eq!(
        message("model = 3\n"),
        "line 1: model: is of type integer, must be a table"
    );
}

#[test]
fn what_is_missing_is_named() {
    assert_eq!(
        message(""),
        "there is no [model] table; begin with [model] and its kind or base"
    );
    assert_eq!(
        message("[model]\nqueue_max = 3\n"),
        "line 1: [model] has neither kind nor base; name a preset as base, or a kind and all of its parameters"
    );
    assert_eq!(
        message("[model]\nkind = \"constant\"\nqueue_max = 3\nlatency_ns = 1\n"),
        "line 1: capacity_bytes is missing; a constant without a base needs all parameters"
    );
    assert_eq!(
        message("[model]\nbase = \"nvme-ssd\"\nkind = \"cloud\"\n"),
        "line 3: kind: is \"cloud\", but base is a \"flash\"; leave kind out"
    );
}

#[test]
fn impossible_values_are_refused_with_their_line() {
    let with = |base, line| message(&format!("[model]\nbase = \"{base}\"\n{line}\n"));
    assert_eq!(
        with("nvme-ssd", "program_us = -5"),
        "line 3: program_us is -5: must be a time from 0 to 1e9 microseconds"
    );
    assert_eq!(
        with("aws-gp3", "iops = nan"),
        "line 3: iops is NaN: must be a finite number above 0"
    );
    assert_eq!(
        with("constant-100us", "queue_max = 0"),
        "line 3: queue_max is 0: must be at least 1"
    );
    assert_eq!(
        with("percona-4x7200", "[model.disk]\nqueue_max = 0"),
        "line 4: disk.queue_max is 0: must lie in 1..256"
    );
    // A value of the preset that another one makes impossible has no line.
    assert_eq!(
        with("aws-gp3", "iops = 4000"),
        "iops_burst is 3000: must be at least iops, 4000"
    );
}

#[test]
fn keys_in_lists_are_checked_too() {
    let text = "[model]\nbase = \"ultrastar-36lzx\"\n[[model.zones]]\ncylinders = 9\nsector = 3\n";
    assert_eq!(
        message(text),
        "line 5: there is no parameter zones.sector; did you mean cylinders, sectors_per_track?"
    );
}

#[test]
fn a_file_is_named_in_what_is_wrong_with_it() {
    let missing = Description::load("no-such-directory/disk.toml").unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("no-such-directory/disk.toml cannot be read: "),
        "{missing}"
    );
    let directory = std::env::temp_dir().join(format!("iolane-description-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let path = directory.join("disk.toml");
    std::fs::write(&path, "[model]\nbase = \"nvme-ssd\"\nqueue_max = 0\n").unwrap();
    let loaded = Description::load(&path);
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(
        loaded.unwrap().build(1).err().unwrap().to_string(),
        format!(
            "{}, line 3: queue_max is 0: must be at least 1",
            path.display()
        )
    );
}

const MANUAL: &str = include_str!("../../../../docs/disks.md");

#[test]
fn the_manual_names_every_preset_and_parameter() {
    for preset in Description::presets() {
        assert!(
            MANUAL.contains(&format!("| `{}` |", preset.name)),
            "{}",
            preset.name
        );
        let text = Description::preset(preset.name).unwrap().to_toml();
        for line in text.lines() {
            if let Some((key, _)) = line.split_once(" = ") {
                assert!(
                    MANUAL.contains(&format!("`{key}`")) || key == "kind",
                    "{key}"
                );
            }
        }
    }
    for kind in Parameters::KINDS {
        assert!(MANUAL.contains(&format!("## `{kind}`")), "{kind}");
    }
}

#[test]
fn the_manuals_examples_are_disks() {
    let mut examples = 0;
    for part in MANUAL.split("```toml\n").skip(1) {
        let (text, _) = part.split_once("```").unwrap();
        Description::from_toml(text)
            .and_then(|description| description.build(1))
            .map(|_| ())
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        examples += 1;
    }
    assert!(examples >= 3);
}
