//! The command as a child of this program.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use iolane_broker::Broker;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGXFSZ,
};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use super::confined;
use super::report::Place;
use crate::error::Failure;
use crate::sys::signal::{self, Inherited};
use crate::sys::standard;

/// What would end this program, or what daemons are told by, but for what is the report's.
const HANDED_ON: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR2, SIGALRM, SIGWINCH];
/// What is the report's: it is asked for, or its file may not be so long, which the write says, too.
const OWN: [i32; 2] = [SIGUSR1, SIGXFSZ];
/// Between two looks at signals and at what the host has to do.
const LOOK: Duration = Duration::from_millis(20);
/// The first pause after the command has ended: its last process is mostly gone by then.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
const PRELOAD: &str = "LD_PRELOAD";

/// What the command runs under.
pub trait Host {
    /// Before the start.
    fn prepare(&self, command: &mut Command);
    /// After it.
    fn started(&mut self, process: u32);
    /// Called again and again while the command runs.
    fn look(&mut self);
    /// Whether processes that the command has started are still served.
    fn is_used(&self) -> bool;
    /// Reports what was done so far.
    fn tell(&self);
}

/// Runs it; gives the exit code that a shell would. Goes on while processes that it
/// has started are served: a server that puts itself into the background.
///
/// # Errors
/// It cannot be started.
pub fn run(command: &[OsString], host: &mut dyn Host) -> Result<u8, Failure> {
    let inherited = Inherited::look();
    signal::wait_for_children();
    // Before it is started: no signal is lost between.
    let mut signals =
        SignalsInfo::<WithRawSiginfo>::new(HANDED_ON.iter().chain(&OWN)).map_err(|error| {
            Failure::setup(format!("cannot listen for signals: {error}"), "Try again.")
        })?;
    let mut child = start(command, host, &inherited)?;
    host.started(child.id());
    let end = signal::EndOf::of(&child);
    let mut pause = LOOK_AGAIN;
    let mut ended: Option<ExitStatus> = None;
    loop {
        for arrived in signals.pending() {
            match arrived.si_signo {
                SIGUSR1 => host.tell(),
                SIGXFSZ => {}
                // The terminal sends it to the command, too, through the kernel. Who sends it by kill(2) sends it to this process alone.
                SIGINT | SIGQUIT | SIGWINCH
                    if ended.is_none()
                        && arrived.si_code == libc::SI_KERNEL
                        && signal::keys_reach_children() => {}
                number if ended.is_none() => signal::send(&child, number),
                SIGWINCH => {}
                number if inherited.ignores(number) => {}
                // The rest goes on unscheduled.
                _ => return Ok(ended.map_or(0, exit_code)),
            }
        }
        host.look();
        if ended.is_none() {
            ended = child.try_wait().map_err(|source| {
                Failure::course(
                    format!("waiting for the command failed: {source}"),
                    "Try again.",
                )
            })?;
        }
        if let Some(status) = ended
            && !host.is_used()
        {
            return Ok(exit_code(status));
        }
        if ended.is_none() {
            end.wait(LOOK);
        } else {
            thread::sleep(pause);
            pause = LOOK.min(pause * 2);
        }
    }
}

fn start(command: &[OsString], host: &dyn Host, inherited: &Inherited) -> Result<Child, Failure> {
    let mut made = Command::new(&command[0]);
    made.args(&command[1..]);
    host.prepare(&mut made);
    inherited.clone().hand_on(&mut made);
    standard::hand_on(&mut made);
    made.spawn().map_err(|error| {
        let name = command[0].to_string_lossy();
        Failure::setup(format!("cannot start {name}: {error}"), "Check its file.")
    })
}

/// Mode `user`: the library is preloaded, and finds the broker.
pub struct Preloaded<'a> {
    library: &'a Path,
    broker: &'a Broker,
    report: &'a Place,
    /// The command and when it was started, until it is known whether something keeps it away.
    started: Option<(u32, Instant)>,
}

impl<'a> Preloaded<'a> {
    pub fn new(library: &'a Path, broker: &'a Broker, report: &'a Place) -> Preloaded<'a> {
        Preloaded {
            library,
            broker,
            report,
            started: None,
        }
    }
}

impl Host for Preloaded<'_> {
    fn prepare(&self, command: &mut Command) {
        let (name, address) = self.broker.environment();
        let mut preload = OsString::from(self.library);
        if let Some(others) = env::var_os(PRELOAD) {
            preload.push(":");
            preload.push(others);
        }
        command.env(PRELOAD, preload).env(name, address);
    }

    fn started(&mut self, process: u32) {
        self.started = Some((process, Instant::now()));
    }

    fn look(&mut self) {
        let is_due = |(_, at): &mut (u32, Instant)| at.elapsed() >= confined::PATIENCE;
        let Some((process, _)) = self.started.take_if(is_due) else {
            return;
        };
        let Some(profile) = confined::profile_of(process) else {
            return;
        };
        // What has started the server may have come.
        let has_come = confined::has_come(process).unwrap_or_else(|| self.is_used());
        if !has_come {
            eprintln!(
                "warning: AppArmor confines the command by the profile {profile}, and no request of its has come in \
                 {} s: its I/O goes on unscheduled; add the line 'include <abstractions/iolane>' to that profile \
                 (docs/run.md)",
                confined::PATIENCE.as_secs()
            );
        }
    }

    fn is_used(&self) -> bool {
        self.broker.clients() > 0
    }

    fn tell(&self) {
        if let Some(report) = self.broker.report() {
            warn(self.report.write(&report));
        }
    }
}

/// While the command runs, nothing ends because a report cannot be written.
pub fn warn(written: Result<(), Failure>) {
    if let Err(failure) = written {
        eprintln!("warning: {failure}");
    }
}

/// As a shell's.
fn exit_code(status: ExitStatus) -> u8 {
    match status.code() {
        Some(code) => code as u8,
        None => 128 + status.signal().unwrap_or(0) as u8,
    }
}
