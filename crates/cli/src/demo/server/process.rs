//! Programs that are ended with the demo, however it ends.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGKILL, SIGTERM};

use super::database::WITHOUT_IT;
use crate::cleanup::Registration;
use crate::error::Failure;
use crate::session::Session;
use crate::sys::signal;

/// A server that was told to end may take so long.
const END_MAX: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(10);

/// A program and what it has started, in a process group of their own: Ctrl-C in a terminal
/// does not reach them, and they end with this.
pub struct Process {
    group: Arc<Mutex<Group>>,
    _end: Registration,
}

struct Group {
    child: Child,
    /// That tells it to end.
    signal: i32,
    /// Once it was waited for: then its number may be another's.
    status: Option<ExitStatus>,
}

impl Process {
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command, session: &Session) -> Result<Self, Failure> {
        Self::start_ended_by(command, SIGTERM, session)
    }

    /// The same for one that another signal ends.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start_ended_by(
        command: &mut Command,
        signal: i32,
        session: &Session,
    ) -> Result<Self, Failure> {
        let child = signal::start_group(command).map_err(|error| {
            let name = command.get_program().to_string_lossy().into_owned();
            Failure::setup(format!("cannot start {name}: {error}"), "Check its file.")
        })?;
        let status = None;
        let group = Arc::new(Mutex::new(Group {
            child,
            signal,
            status,
        }));
        let own = Arc::clone(&group);
        let end = session.cleanups.register(move || lock(&own).end());
        Ok(Self { group, _end: end })
    }

    /// How it has ended, if it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        lock(&self.group).ended()
    }

    /// Its pipes, once.
    pub fn take<T>(&self, pipe: impl FnOnce(&mut Child) -> Option<T>) -> Result<T, Failure> {
        pipe(&mut lock(&self.group).child).ok_or_else(|| Failure::Internal {
            message: "a program without its pipe".to_owned(),
        })
    }

    /// Until it has ended by itself.
    ///
    /// # Errors
    /// It failed, or an interruption.
    pub fn wait(&self, what: &str, session: &Session) -> Result<(), Failure> {
        loop {
            session.stop.check()?;
            match self.ended() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    return Err(Failure::setup(
                        format!("{what} failed ({status})"),
                        WITHOUT_IT,
                    ));
                }
                None => thread::sleep(LOOK),
            }
        }
    }
}

/// What it says goes to a file.
///
/// # Errors
/// There can be none.
pub fn silenced(command: &mut Command, folder: &Path) -> Result<(), Failure> {
    let path = folder.join("log");
    let log = File::options().create(true).append(true).open(&path);
    let both = log.and_then(|log| Ok((log.try_clone()?, log)));
    let (log, other) = both.map_err(|source| Failure::Output { path, source })?;
    command.stdin(Stdio::null()).stdout(log).stderr(other);
    Ok(())
}

fn lock(group: &Mutex<Group>) -> MutexGuard<'_, Group> {
    group.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Group {
    fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() && signal::has_ended(&self.child) {
            self.reap();
        }
        self.status
    }

    /// By its number, politely first.
    fn end(&mut self) {
        if self.ended().is_some() {
            return;
        }
        let begun = Instant::now();
        signal::send_to_group(&self.child, self.signal);
        while !signal::has_ended(&self.child) && begun.elapsed() < END_MAX {
            thread::sleep(LOOK);
        }
        self.reap();
    }

    /// With all of its group, which may still use its files a moment longer.
    fn reap(&mut self) {
        signal::send_to_group(&self.child, SIGKILL);
        self.status = self.child.wait().ok();
        let begun = Instant::now();
        while !signal::is_group_gone(self.child.id()) && begun.elapsed() < END_MAX {
            thread::sleep(LOOK);
        }
    }
}
