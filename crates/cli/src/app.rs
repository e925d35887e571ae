//! From the command line to the exit code.

mod out;
mod reference;
mod usage;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use clap::{ArgMatches, Args, Command};
use serde::Serialize;

use crate::args::common::{OutputArgs, OutputFormat};
use crate::args::needs;
use crate::bench::{Bench, Measure, Outcome};
use crate::cleanup::{Cleanups, SignalListener, StopFlag};
use crate::environment::{Environment, command_line};
use crate::error::Failure;
use crate::kernel_scheduler::restore_leftovers;
use crate::output::html::page;
use crate::output::json::Envelope;
use crate::output::progress::Progress;
use crate::output::text::Style;
use crate::session::Session;
use crate::system::SystemPaths;
use crate::target::Target;
use out::Out;

/// What it returns goes to standard output.
type Run = Box<dyn Fn(&ArgMatches, &str, &Session, Style) -> Result<String, Failure>>;
#[cfg(test)]
type Check = Box<dyn Fn(&ArgMatches) -> Result<(), Failure>>;

/// A sub-command, with what measures for it.
pub struct BenchCommand {
    place: Place,
    command: Command,
    run: Run,
    /// Everything about a command line that can be said before anything is done.
    #[cfg(test)]
    check: Check,
}

/// Under which word a sub-command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// `iolane NAME`
    Top,
    /// `iolane bench NAME`
    Bench,
    /// `iolane disk NAME`
    Disk,
    /// `iolane store NAME`
    Store,
}

impl Place {
    fn title(self, name: &str) -> String {
        match self {
            Self::Top => format!("iolane {name}"),
            Self::Bench => format!("iolane bench {name}"),
            Self::Disk => format!("iolane disk {name}"),
            Self::Store => format!("iolane store {name}"),
        }
    }
}

/// Puts a sub-command of `iolane bench` together with the function that
/// measures for it.
pub fn bench<B: Bench>(measure: Measure<B>) -> BenchCommand {
    place::<B>(Place::Bench, measure)
}

/// The same for a command that stands beside `bench`.
pub fn top<B: Bench>(measure: Measure<B>) -> BenchCommand {
    place::<B>(Place::Top, measure)
}

/// The same for a command of `iolane disk`.
pub fn disk<B: Bench>(measure: Measure<B>) -> BenchCommand {
    place::<B>(Place::Disk, measure)
}

/// A command of `iolane disk` that measures nothing: what it returns is
/// printed as it is.
pub fn disk_action<A: Args + 'static>(
    name: &'static str,
    about: &'static str,
    act: fn(A, &Session) -> Result<String, Failure>,
) -> BenchCommand {
    action(Place::Disk, name, about, act)
}

/// The same for a command that stands beside `bench`.
pub fn top_action<A: Args + 'static>(
    name: &'static str,
    about: &'static str,
    act: fn(A, &Session) -> Result<String, Failure>,
) -> BenchCommand {
    action(Place::Top, name, about, act)
}

/// The same for a command of `iolane store`.
pub fn store_action<A: Args + 'static>(
    name: &'static str,
    about: &'static str,
    act: fn(A, &Session) -> Result<String, Failure>,
) -> BenchCommand {
    action(Place::Store, name, about, act)
}

fn action<A: Args + 'static>(
    place: Place,
    name: &'static str,
    about: &'static str,
    act: fn(A, &Session) -> Result<String, Failure>,
) -> BenchCommand {
    BenchCommand {
        place,
        command: A::augment_args(Command::new(name))
            .about(about)
            .long_about(None),
        run: Box::new(move |matches, _, session, _| {
            act(parsed(matches, &place.title(name))?, session)
        }),
        #[cfg(test)]
        check: Box::new(move |matches| parsed::<A>(matches, &place.title(name)).map(|_| ())),
    }
}

fn place<B: Bench>(place: Place, measure: Measure<B>) -> BenchCommand {
    BenchCommand {
        place,
        // Last, as the comments of flattened option groups would replace it.
        command: B::Arguments::augment_args(Command::new(B::NAME))
            .about(B::ABOUT)
            .long_about(None),
        run: Box::new(move |matches, line, session, style| {
            let title = place.title(B::NAME);
            run_bench::<B>(matches, &Heading { title, line }, session, style, measure)
        }),
        #[cfg(test)]
        check: Box::new(move |matches| {
            let arguments = bench_arguments::<B>(matches, &place.title(B::NAME))?;
            B::options(arguments).map(|_| ())
        }),
    }
}

fn parsed<A: Args>(matches: &ArgMatches, title: &str) -> Result<A, Failure> {
    A::from_arg_matches(matches).map_err(|error| usage::refused(&error, title))
}

fn bench_arguments<B: Bench>(matches: &ArgMatches, title: &str) -> Result<B::Arguments, Failure> {
    needs::check(matches, B::NEEDS)?;
    parsed(matches, title)
}

/// Where the process stands.
pub struct Surroundings<'a> {
    pub stdout: &'a mut dyn Write,
    pub paths: SystemPaths,
    pub progress: Progress,
    /// For text on standard output.
    pub style: Style,
    /// For failures on standard error.
    pub stderr_style: Style,
    /// Off in tests, which share their process.
    pub signals: bool,
}

/// Runs one command line; gives the exit code.
pub fn run(
    commands: Vec<BenchCommand>,
    arguments: &[OsString],
    surroundings: Surroundings<'_>,
) -> u8 {
    let style = surroundings.style;
    let whole = command(&commands);
    let mut out = Out {
        stdout: surroundings.stdout,
        json: wants_json(&whole, arguments),
        stderr_style: surroundings.stderr_style,
    };
    let matches = match whole.clone().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) if !error.use_stderr() => return out.print(&usage::help(&error, style)),
        Err(error) => {
            let command = usage::named(&whole, arguments);
            return out.fail(&usage::refused(&error, &command));
        }
    };
    if let Some(result) = reference::run(&matches, &whole) {
        return out.end(&result);
    }
    let stop = StopFlag::default();
    let cleanups = Cleanups::default();
    let mut session = Session::new(
        stop.clone(),
        cleanups.clone(),
        surroundings.paths,
        surroundings.progress,
    );
    let _listener = if surroundings.signals {
        session.program = std::env::current_exe().ok();
        match SignalListener::start(stop, cleanups) {
            Ok(listener) => Some(listener),
            Err(error) => {
                let failure = Failure::setup(
                    format!("cannot listen for signals: {error}"),
                    "Raise the limits on threads and open files (ulimit -u, -n).",
                );
                return out.fail(&failure);
            }
        }
    } else {
        None
    };
    for message in restore_leftovers(&session.paths) {
        session.warn(message);
    }
    match out.end(&dispatch(&commands, &matches, arguments, &session, style)) {
        0 => session.exit_code(),
        code => code,
    }
}

fn command(commands: &[BenchCommand]) -> Command {
    let at = |place| {
        let entries = commands.iter().filter(move |entry| entry.place == place);
        entries.map(|entry| entry.command.clone())
    };
    let bench = Command::new("bench")
        .about("Measure a disk, alone and under each scheduler")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(at(Place::Bench));
    let disk = Command::new("disk")
        .about("Modelled disks, served as real block devices")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(at(Place::Disk));
    let store = Command::new("store")
        .about("Tables in files: load, print, check, copy")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(at(Place::Store));
    Command::new("iolane")
        .version(env!("IOLANE_VERSION"))
        .about("Prioritized asynchronous I/O for databases: measure a disk, and what priorities gain on it")
        .after_help(EXIT_CODES)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(at(Place::Top))
        .subcommand(bench)
        .subcommand(disk)
        .subcommand(store)
        .subcommands(reference::commands())
}

const EXIT_CODES: &str = "Exit codes: 0 good, 1 usage, 2 set-up, 3 run-time. Standard output carries results only; \
progress and warnings go to standard error.";

fn dispatch(
    commands: &[BenchCommand],
    matches: &ArgMatches,
    arguments: &[OsString],
    session: &Session,
    style: Style,
) -> Result<String, Failure> {
    let chosen = match matches.subcommand() {
        Some(("bench", matches)) => matches.subcommand().map(|chosen| (Place::Bench, chosen)),
        Some(("disk", matches)) => matches.subcommand().map(|chosen| (Place::Disk, chosen)),
        Some(("store", matches)) => matches.subcommand().map(|chosen| (Place::Store, chosen)),
        other => other.map(|chosen| (Place::Top, chosen)),
    };
    let Some((entry, matches)) = chosen.and_then(|(place, (name, matches))| {
        let entry = commands
            .iter()
            .find(|entry| entry.place == place && entry.command.get_name() == name)?;
        Some((entry, matches))
    }) else {
        return Err(Failure::usage(
            "no sub-command was given",
            "See iolane help.",
        ));
    };
    let line = command_line(arguments);
    // A defect must not cost the one valid document that JSON promises.
    catch_unwind(AssertUnwindSafe(|| {
        (entry.run)(matches, &line, session, style)
    }))
    .unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("unknown");
        Err(Failure::Internal {
            message: message.to_owned(),
        })
    })
}

/// Before clap has understood anything: an error must already be in the format
/// that was asked for. What follows `--`, and all words of a command that hands words on
/// to another program, are not this program's.
fn wants_json(whole: &Command, arguments: &[OsString]) -> bool {
    let hands_on = usage::found(whole, arguments)
        .get_arguments()
        .any(clap::Arg::is_trailing_var_arg_set);
    let own = arguments.iter().take_while(|one| *one != "--");
    let own: Vec<_> = own.collect();
    !hands_on
        && (own.iter().any(|one| *one == "--output-format=json")
            || own
                .windows(2)
                .any(|pair| pair[0] == "--output-format" && pair[1] == "json"))
}

/// What stands above a result.
struct Heading<'a> {
    title: String,
    /// The command line.
    line: &'a str,
}

fn run_bench<B: Bench>(
    matches: &ArgMatches,
    heading: &Heading<'_>,
    session: &Session,
    style: Style,
    measure: Measure<B>,
) -> Result<String, Failure> {
    let arguments = bench_arguments::<B>(matches, &heading.title)?;
    let output = B::output(&arguments).clone();
    let repeat = B::repeat(&arguments);
    let mut options = B::options(arguments)?;
    // Before the measurement, which may take long: a wrong path shows at once.
    check_outputs(&output)?;
    let target = B::target(&options)
        .map(|request| Target::prepare(&request, session))
        .transpose()?;
    B::check(&mut options, target.as_ref(), session)?;
    let environment = Environment::read(&session.paths, target.as_ref(), heading.line.to_owned());
    let mut outcome = measure(&options, target.as_ref(), session)?;
    for _ in 1..repeat {
        outcome.merge(measure(&options, target.as_ref(), session)?);
    }
    session.stop.check()?;
    let warnings = session.warnings();
    if let Some(report) = &output.report {
        let page = page(&heading.title, &environment, &warnings, &outcome.html());
        write_file(report, &page)?;
    }
    let text = match output.output_format {
        OutputFormat::Text => outcome.text(style),
        OutputFormat::Json => {
            json_document::<B>(&environment, target.as_ref(), &warnings, &options, &outcome)?
        }
    };
    match &output.output {
        None => Ok(text),
        Some(path) => write_file(path, &text).map(|()| String::new()),
    }
}

/// Options and result side by side.
#[derive(Serialize)]
struct WithOptions<'a, O: Serialize, R: Serialize> {
    options: &'a O,
    #[serde(flatten)]
    outcome: &'a R,
}

fn json_document<B: Bench>(
    environment: &Environment,
    target: Option<&Target>,
    warnings: &[String],
    options: &B::Options,
    outcome: &B::Outcome,
) -> Result<String, Failure> {
    let envelope = Envelope {
        schema: B::SCHEMA,
        environment,
        target: target.map(Target::document),
        warnings,
        result: &WithOptions { options, outcome },
    };
    let text = serde_json::to_string_pretty(&envelope).map_err(|error| Failure::Internal {
        message: error.to_string(),
    })?;
    Ok(text + "\n")
}

/// Checks that the result files can be written, and leaves nothing: the
/// measurement may take long, and may be killed.
fn check_outputs(arguments: &OutputArgs) -> Result<(), Failure> {
    if arguments.output.is_some() && arguments.output == arguments.report {
        return Err(Failure::usage(
            "--output and --report name the same file",
            "Name two files.",
        ));
    }
    let paths = [&arguments.output, &arguments.report];
    for path in paths.into_iter().flatten() {
        check_writable(path).map_err(|source| Failure::Output {
            path: path.clone(),
            source,
        })?;
    }
    Ok(())
}

fn check_writable(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() || metadata.is_dir() => {
            OpenOptions::new().write(true).open(path).map(drop)
        }
        // Opening a pipe would wait for its reader.
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            OpenOptions::new().write(true).create_new(true).open(path)?;
            fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}

fn write_file(path: &Path, content: &str) -> Result<(), Failure> {
    fs::write(path, content)
        .map_err(|source| Failure::writing(&path.display().to_string(), &source))
}

#[cfg(test)]
mod tests;
