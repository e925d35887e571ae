//! What is going on, on stderr: bars on a terminal, otherwise one line per
//! phase; stdout carries data only.

use std::ffi::OsStr;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::text::DUMB_TERMINAL;

/// Where progress goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Bars,
    Lines,
    Silent,
}

#[derive(Clone, Copy, Debug)]
pub struct Progress {
    mode: Mode,
}

impl Progress {
    /// Bars when stderr is a terminal that can move its cursor (by `TERM`), plain
    /// lines when it is not.
    pub fn detect(term: Option<&OsStr>) -> Self {
        let is_dumb = term.is_some_and(|term| term == DUMB_TERMINAL);
        Self {
            mode: if std::io::stderr().is_terminal() && !is_dumb {
                Mode::Bars
            } else {
                Mode::Lines
            },
        }
    }

    pub fn silent() -> Self {
        Self { mode: Mode::Silent }
    }

    /// One line.
    pub fn say(&self, line: &str) {
        if self.mode != Mode::Silent {
            // A closed stderr is no reason to end.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// A phase that takes a known time.
    pub fn phase(&self, what: &str, time: Duration) -> Phase {
        let length_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.start(what, length_ms, "{msg:40} [{bar:30}] {percent:>3} %")
    }

    /// A phase that moves a known number of bytes.
    pub fn bytes(&self, what: &str, length: u64) -> Phase {
        self.start(
            what,
            length,
            "{msg:40} [{bar:30}] {binary_bytes}/{binary_total_bytes}",
        )
    }

    fn start(&self, what: &str, length: u64, template: &str) -> Phase {
        if self.mode == Mode::Lines {
            self.say(what);
        }
        let target = match self.mode {
            Mode::Bars => ProgressDrawTarget::stderr_with_hz(5),
            Mode::Lines | Mode::Silent => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(what.to_owned());
        Phase { bar }
    }
}

/// A running phase; its bar goes away when dropped.
pub struct Phase {
    bar: ProgressBar,
}

impl Phase {
    pub fn advance(&self, by: u64) {
        self.bar.inc(by);
    }

    /// For timed phases: how much of the time has passed.
    pub fn elapsed(&self, time: Duration) {
        self.bar
            .set_position(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    }
}

impl Drop for Phase {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
