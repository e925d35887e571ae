//! `iolane run`: a database that knows nothing of priorities, with them.

mod child;
mod confined;
mod kernel;
pub mod library;
mod page;
mod program;
mod report;
mod unit;

use std::fs;
use std::path::Path;

use iolane_broker::{Broker, BrokerError, GENERIC, PROFILES, Profile, Rules, profile_of};

use crate::args::run::{Mode, RunArgs};
use crate::error::Failure;
use crate::session::Session;

pub const NAME: &str = "run";
pub const ABOUT: &str = "Run a database with prioritized I/O, unmodified";

/// Runs the command until it and all that it has started have ended. The exit code is
/// the command's.
///
/// # Errors
/// What keeps the command from being started as it should: it is not started then.
pub fn run(arguments: RunArgs, session: &Session) -> Result<String, Failure> {
    if arguments.read_ahead_memory.is_some() && arguments.read_ahead_bytes().is_none() {
        return Err(Failure::usage(
            "--read-ahead-memory is for logical read-ahead: --read-ahead logical",
            "Give --read-ahead logical with it, or leave it out.",
        ));
    }
    if let Some(name) = &arguments.print_unit {
        return print_unit(name, &arguments);
    }
    let mut rules = rules(&arguments)?;
    if let Some(bytes) = arguments.read_ahead_bytes() {
        rules = rules.reading_ahead(bytes);
    }
    let program = program::find(&arguments.command[0])?;
    if arguments.mode == Mode::Kernel {
        return in_kernel(&arguments, &rules, session);
    }
    match program::obstacle(&program)? {
        None => {
            warn_of_guesses(&arguments, &program);
            preloaded(&arguments, &rules, session)
        }
        Some(obstacle) if arguments.mode == Mode::User => Err(obstacle),
        Some(obstacle) => {
            eprintln!("warning: {obstacle}; the mode is kernel");
            in_kernel(&arguments, &rules, session)
        }
    }
}

/// What is less than the user may expect, and goes on all the same.
fn warn_of_guesses(arguments: &RunArgs, program: &Path) {
    let name = arguments.command[0].to_string_lossy();
    if program::is_go(program) {
        eprintln!(
            "warning: {name} is written in Go and makes its system calls by itself: only what it calls in C, and \
             programs that it starts, are scheduled (--check lists the calls)"
        );
    } else if arguments.rules.is_none()
        && arguments.profile == "auto"
        && recognised(arguments).is_none()
    {
        eprintln!(
            "warning: no rules for {name}: its requests have levels by their kind and size alone (--profile generic); \
             --rules gives it its own"
        );
    }
}

fn preloaded(arguments: &RunArgs, rules: &Rules, session: &Session) -> Result<String, Failure> {
    let library = library::find(arguments.library.as_deref())?;
    let report = report::Place::new(arguments.report.clone(), &session.paths)?;
    let broker = Broker::start(rules, arguments.check).map_err(|error| {
        let remedy = match error {
            BrokerError::FileSize { .. } => {
                "Raise it (ulimit -f, LimitFSIZE= of a unit), or use --mode kernel, which shares none."
            }
            _ => "iolane run needs shared memory (memfd_create) and abstract Unix sockets.",
        };
        Failure::setup(error.to_string(), remedy)
    })?;
    let mut host = child::Preloaded::new(&library, &broker, &report);
    let ended = child::run(&arguments.command, &mut host)?;
    session.end_with(ended);
    let Some(result) = broker.finish() else {
        return Err(Failure::Internal {
            message: "the broker ended before the command; it went on unscheduled".to_owned(),
        });
    };
    if arguments.check {
        report.write_calls(&result);
    }
    report.write_last(&result);
    Ok(String::new())
}

fn in_kernel(arguments: &RunArgs, rules: &Rules, session: &Session) -> Result<String, Failure> {
    let reads_ahead = arguments.read_ahead_bytes().is_some();
    if arguments.check || arguments.library.is_some() || reads_ahead {
        return Err(Failure::setup(
            "in mode kernel no library enters the command",
            "Leave out --check, --library and --read-ahead.",
        ));
    }
    let report = report::Place::new(arguments.report.clone(), &session.paths)?;
    let tell = |result: &kernel::KernelReport| child::warn(report.write_kernel(result));
    let mut host = kernel::Kernel::new(rules, session, &tell);
    let ended = child::run(&arguments.command, &mut host)?;
    session.end_with(ended);
    let result = host.report();
    drop(host);
    report.write_last_kernel(&result);
    Ok(String::new())
}

fn print_unit(name: &str, arguments: &RunArgs) -> Result<String, Failure> {
    let library = library::find(arguments.library.as_deref())?;
    let program = std::env::current_exe().map_err(|error| Failure::Internal {
        message: format!("this program's own file is not known: {error}"),
    })?;
    let is_named = arguments.library.is_some();
    unit::drop_in(
        name,
        &unit::Runner {
            program,
            library,
            is_named,
            read_ahead: arguments.read_ahead_bytes(),
        },
    )
}

/// Those of the user, then those of the profile.
fn rules(arguments: &RunArgs) -> Result<Rules, Failure> {
    let profile = profile(arguments)?;
    let Some(path) = &arguments.rules else {
        return Ok(profile);
    };
    let remedy = "docs/run.md has all that rules can say.";
    let text = fs::read(path).map_err(|error| {
        Failure::setup(
            format!("cannot read {}: {error}", path.display()),
            "Name a file with rules.",
        )
    })?;
    let refused = |error| Failure::setup(format!("{}: {error}", path.display()), remedy);
    Rules::read(&text)
        .and_then(|own| own.before(&profile))
        .map_err(refused)
}

fn profile(arguments: &RunArgs) -> Result<Rules, Failure> {
    let found = if arguments.profile == "auto" {
        recognised(arguments).unwrap_or(&GENERIC)
    } else {
        let known = PROFILES.iter().find(|one| one.name == arguments.profile);
        known.ok_or_else(|| {
            let names: Vec<&str> = PROFILES.iter().map(|one| one.name).collect();
            Failure::setup(
                format!("there is no profile '{}'", arguments.profile),
                format!("Use auto, or one of: {}.", names.join(", ")),
            )
        })?
    };
    Rules::parse(found.text).map_err(|error| Failure::Internal {
        message: format!("the profile: {error}"),
    })
}

/// That of a program whose name is known.
fn recognised(arguments: &RunArgs) -> Option<&'static Profile> {
    profile_of(arguments.command.iter().filter_map(|word| word.to_str()))
}
