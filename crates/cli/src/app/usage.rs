//! What clap says about a command line, in this program's words.

use std::ffi::OsString;

use clap::Command;
use clap::error::ErrorKind;

use crate::error::Failure;
use crate::output::text::Style;

/// A help text or the version.
pub fn help(error: &clap::Error, style: Style) -> String {
    let text = error.render();
    match style.colour {
        true => text.ansi().to_string(),
        false => text.to_string(),
    }
}

/// The command that a command line names, as far as there is one: `iolane bench mix`.
pub fn named(whole: &Command, arguments: &[OsString]) -> String {
    let names: Vec<&str> = path(whole, arguments).map(Command::get_name).collect();
    names.join(" ")
}

/// The same as clap knows it.
pub fn found<'a>(whole: &'a Command, arguments: &'a [OsString]) -> &'a Command {
    path(whole, arguments).last().unwrap_or(whole)
}

/// From the program down.
fn path<'a>(
    whole: &'a Command,
    arguments: &'a [OsString],
) -> impl Iterator<Item = &'a Command> + 'a {
    let mut words = arguments.iter().skip(1);
    std::iter::successors(Some(whole), move |command| {
        words
            .next()
            .and_then(|word| command.find_subcommand(word.to_str()?))
    })
}

/// clap's message without its own decoration, and its hints as the remedy.
pub fn refused(error: &clap::Error, command: &str) -> Failure {
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage("a sub-command is missing", text);
    }
    let mut paragraphs = text.trim().split("\n\n");
    let message = paragraphs.next().unwrap_or_default();
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let hints = paragraphs
        .flat_map(str::lines)
        .filter_map(|line| line.trim().strip_prefix("tip: "));
    let hints: String = hints.map(sentence).collect();
    Failure::usage(
        message.trim(),
        format!("{hints}See {command} --help for its options."),
    )
}

/// A hint of clap's, with a space for the next.
fn sentence(hint: &str) -> String {
    let mut letters = hint.chars();
    let first: String = letters
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    format!("{first}{}. ", letters.as_str())
}
