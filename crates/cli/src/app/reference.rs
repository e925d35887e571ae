//! What comes from the definition of the command line itself: completions for shells,
//! and manual pages.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use crate::error::Failure;

const COMPLETIONS: &str = "completions";
const MAN: &str = "man";
/// Others than these are not packaged, and nobody has asked for them.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

pub fn commands() -> [Command; 2] {
    let shell = Arg::new("shell")
        .value_name("SHELL")
        .help("Shell to print completions for")
        .value_parser(SHELLS)
        .required(true);
    let directory = Arg::new("directory")
        .long("directory")
        .value_name("DIR")
        .help("Directory for the pages, such as /usr/local/share/man/man1; created if missing")
        .value_parser(value_parser!(PathBuf))
        .required(true);
    [
        Command::new(COMPLETIONS)
            .about("Print shell completions for this command")
            .after_help(
                "For one session of bash: source <(iolane completions bash). For all: write them to \
                 /usr/share/bash-completion/completions/iolane, to _iolane in a directory of zsh's fpath, or to \
                 ~/.config/fish/completions/iolane.fish.",
            )
            .arg(shell),
        Command::new(MAN)
            .about("Write the manual pages of this command and its sub-commands")
            .arg(directory),
    ]
}

/// Nothing if it is another command.
pub fn run(matches: &ArgMatches, whole: &Command) -> Option<Result<String, Failure>> {
    let (name, matches) = matches.subcommand()?;
    match name {
        COMPLETIONS => {
            let shell = matches.get_one::<String>("shell")?;
            Some(completions(shell, whole))
        }
        MAN => Some(manual(matches.get_one("directory")?, whole)),
        _ => None,
    }
}

fn completions(shell: &str, whole: &Command) -> Result<String, Failure> {
    let shell: Shell = shell
        .parse()
        .map_err(|message: String| Failure::Internal { message })?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut whole.clone(), whole.get_name(), &mut script);
    String::from_utf8(script).map_err(|error| Failure::Internal {
        message: error.to_string(),
    })
}

/// One page per command that does something, so that `man iolane-bench-mix` is found.
fn manual(directory: &PathBuf, whole: &Command) -> Result<String, Failure> {
    let failure = |source| Failure::Output {
        path: directory.clone(),
        source,
    };
    std::fs::create_dir_all(directory).map_err(failure)?;
    // `help` is in the pages of the others.
    let whole = whole.clone().disable_help_subcommand(true);
    clap_mangen::generate_to(whole, directory).map_err(failure)?;
    Ok(String::new())
}
