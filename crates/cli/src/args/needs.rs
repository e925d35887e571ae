//! Options that mean something beside another only.
//!
//! clap knows such options too (`requires`), but its message names what is missing, not what
//! was given: whoever types an option of another mode learns nothing of that mode.

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::error::Failure;

/// An option, and the one that it needs. Both by their names on the command line.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    pub option: &'static str,
    pub beside: &'static str,
    /// What the other is there for: ends "--option is for ...".
    pub mode: &'static str,
    /// What to do: to get that mode, or what is meant without it.
    pub remedy: &'static str,
}

/// Refuses an option whose companion is missing.
///
/// # Errors
/// A message that names the option, and what it belongs to.
pub fn check(matches: &ArgMatches, needs: &[Need]) -> Result<(), Failure> {
    let is_given = |option: &str| {
        let source = matches.value_source(&option.trim_start_matches('-').replace('-', "_"));
        source == Some(ValueSource::CommandLine)
    };
    let broken = needs
        .iter()
        .find(|need| is_given(need.option) && !is_given(need.beside));
    match broken {
        None => Ok(()),
        Some(need) => Err(Failure::usage(
            format!("{} is for {}", need.option, need.mode),
            need.remedy,
        )),
    }
}
