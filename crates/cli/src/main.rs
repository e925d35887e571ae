//! The `iolane` command.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use iolane_cli::app::{self, Surroundings};
use iolane_cli::commands;
use iolane_cli::output::progress::Progress;
use iolane_cli::output::stdout::Stdout;
use iolane_cli::output::text::Style;
use iolane_cli::run;
use iolane_cli::survivor;
use iolane_cli::system::SystemPaths;

/// Threads at a nice value run beside others here. The system's allocator has locks that
/// they share: one that was preempted with such a lock kept transactions waiting for 130 ms.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let [_, word, rest @ ..] = &arguments[..]
        && word == survivor::NAME
    {
        survivor::survive(rest);
        return ExitCode::SUCCESS;
    }
    let mut stdout = Stdout::new();
    let no_color = std::env::var_os("NO_COLOR");
    let term = std::env::var_os("TERM");
    let style = |is_terminal| Style::detect(is_terminal, no_color.as_deref(), term.as_deref());
    ExitCode::from(app::run(
        commands::all(),
        &arguments,
        Surroundings {
            stdout: &mut stdout,
            paths: SystemPaths::default(),
            progress: Progress::detect(term.as_deref()),
            style: style(io::stdout().is_terminal()),
            stderr_style: style(io::stderr().is_terminal()),
            // `iolane run` hands them on to its command.
            signals: arguments.get(1).is_none_or(|word| word != run::NAME),
        },
    ))
}
