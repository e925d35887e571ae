//! Every option of every command alone: it is taken, or what is said names it.

use std::ffi::OsString;

use clap::Arg;

use super::super::*;
use crate::commands;

/// Of these, each option takes one; others than its own are refused by its parser.
const VALUES: [&str; 8] = [
    "16k",
    "64m",
    "2",
    "500/s",
    "1s",
    "1s,2s,3s,4s,5s",
    "latency=1ms",
    "x",
];
const MODEL: &str = "aws-gp3";
/// Fewer than there are: the test must not pass by finding none.
const OPTIONS_MIN: usize = 150;

fn words(place: Place, name: &str) -> Vec<String> {
    let title = place.title(name);
    title.split(' ').map(str::to_owned).collect()
}

/// The failure of a command line, from clap or from what the command checks itself.
fn failure(commands: &[BenchCommand], entry: &BenchCommand, line: &[String]) -> Option<Failure> {
    let arguments: Vec<OsString> = line.iter().map(Into::into).collect();
    let whole = command(commands);
    let matches = match whole.clone().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) => {
            let named = usage::named(&whole, &arguments);
            return Some(usage::refused(&error, &named));
        }
    };
    let mut chosen = &matches;
    while let Some((_, below)) = chosen.subcommand() {
        chosen = below;
    }
    (entry.check)(chosen).err()
}

/// The words for one argument.
fn typed(argument: &Arg) -> Vec<String> {
    let name = argument.get_long().map(|long| format!("--{long}"));
    if !argument.get_action().takes_values() {
        return name.into_iter().collect();
    }
    name.into_iter().chain([value(argument)]).collect()
}

fn value(argument: &Arg) -> String {
    let possible = argument.get_possible_values();
    if let Some(first) = possible.first() {
        return first.get_name().to_owned();
    }
    let default = argument.get_default_values().first();
    if let Some(default) = default.and_then(|value| value.to_str()) {
        return default.to_owned();
    }
    let names = argument.get_value_names().unwrap_or_default();
    if names.iter().any(|name| name == "MODEL") {
        return MODEL.to_owned();
    }
    let fits = |value: &&str| {
        let parser = argument.get_value_parser().clone();
        let alone = Command::new("value").no_binary_name(true);
        let alone = alone.arg(Arg::new("value").value_parser(parser));
        alone.try_get_matches_from([value]).is_ok()
    };
    let found = VALUES.into_iter().find(fits);
    found
        .unwrap_or_else(|| panic!("no value for {}", argument.get_id()))
        .to_owned()
}

/// What a command cannot do without.
fn required(entry: &BenchCommand) -> Vec<String> {
    let command = &entry.command;
    let of_groups = command
        .get_groups()
        .filter(|group| group.is_required_set())
        .filter_map(|group| {
            let first = group.get_args().next()?;
            command.get_arguments().find(|one| one.get_id() == first)
        });
    let alone = command
        .get_arguments()
        .filter(|argument| argument.is_required_set());
    alone.chain(of_groups).flat_map(typed).collect()
}

/// Options that a text names.
fn named_options(text: &str) -> Vec<&str> {
    let word = |character: char| !(character.is_ascii_alphanumeric() || character == '-');
    text.split(word)
        .filter(|word| word.len() > 2 && word.starts_with("--"))
        .collect()
}

#[test]
fn an_option_alone_is_taken_or_named_in_what_is_said() {
    let commands = commands::all();
    let mut tried = 0;
    for entry in &commands {
        let name = words(entry.place, entry.command.get_name());
        let mut base = [name.clone(), required(entry)].concat();
        // What only one of several ways needs: the table of store load, the command of run.
        let mut complete = failure(&commands, entry, &base).is_none();
        if !complete && ["load", "run"].contains(&entry.command.get_name()) {
            base.push("x".to_owned());
            complete = failure(&commands, entry, &base).is_none();
        }
        assert!(complete, "{base:?} lacks something");
        let known: Vec<String> = entry
            .command
            .get_arguments()
            .filter_map(|argument| Some(format!("--{}", argument.get_long()?)))
            .chain(["--help".to_owned()])
            .collect();
        for argument in entry.command.get_arguments() {
            let Some(long) = argument.get_long().map(|long| format!("--{long}")) else {
                continue;
            };
            if base.contains(&long) {
                continue;
            }
            tried += 1;
            // Before what is required: all that follows the command of `iolane run` is its.
            let mut line = base.clone();
            line.splice(name.len()..name.len(), typed(argument));
            let Some(failure) = failure(&commands, entry, &line) else {
                continue;
            };
            let (said, remedy) = (failure.to_string(), failure.remedy());
            assert_eq!(
                failure.kind(),
                crate::error::Kind::Usage,
                "{line:?}: {said}"
            );
            assert!(
                named_options(&said).contains(&long.as_str()),
                "{line:?} is answered without a word about {long}: {said}"
            );
            for option in named_options(&said)
                .into_iter()
                .chain(named_options(&remedy))
            {
                let is_known = known.iter().any(|known| known == option);
                assert!(is_known, "{line:?} is told of {option}, which is not there");
            }
        }
    }
    assert!(tried >= OPTIONS_MIN, "only {tried} options");
}

#[test]
fn an_option_of_another_mode_names_the_one_that_was_meant() {
    let commands = commands::all();
    for (line, said, meant) in [
        (
            "bench mix --block-size 16k",
            "--outstanding",
            "--background-block-size",
        ),
        (
            "bench mix --operation read",
            "--outstanding",
            "--foreground-operation",
        ),
        (
            "bench mix --outstanding 2",
            "--high-share",
            "--background-depth",
        ),
        (
            "bench mix --high-share 10",
            "--outstanding",
            "--outstanding",
        ),
        (
            "bench mix --kernel-schedulers all",
            "I/O scheduler",
            "--allow-scheduler-change",
        ),
        ("bench hugepages --direct-reads 2", "--file", "--reads"),
        ("bench store scan --beside-cpu 5", "--beside", "--beside"),
        ("bench store scan --range-rows 5", "range", "range"),
        ("figures --table-size 64m", "--real", "--real"),
    ] {
        let line: Vec<String> = ["iolane"]
            .into_iter()
            .chain(line.split(' '))
            .map(str::to_owned)
            .collect();
        let entry = commands
            .iter()
            .find(|entry| line.starts_with(&words(entry.place, entry.command.get_name())))
            .unwrap();
        let failure = failure(&commands, entry, &line).unwrap();
        assert!(failure.to_string().contains(said), "{failure}");
        assert!(failure.remedy().contains(meant), "{}", failure.remedy());
    }
}
