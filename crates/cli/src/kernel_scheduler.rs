//! The kernel's I/O scheduler of a disk: which there are, which one is in use,
//! and a change of it that is always undone.
//!
//! A change also resets `nr_requests`, the scheduler's own tunables and the
//! writeback throttle to their defaults, so these are put back as well.
//! What to put back is written to a file below `/run/iolane` before the first
//! change: after a `kill -9` the next run finds it there.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::cleanup::{Cleanups, Registration};
use crate::error::Kind;
use crate::system::{SystemPaths, read_line, stat_from_state};

/// Why a scheduler could not be changed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SchedulerError {
    #[error("{device} has no I/O scheduler that can be chosen")]
    NotSelectable { device: String },
    #[error("the kernel has no I/O scheduler {name:?} for {device}; it offers {}", available.join(", "))]
    Unknown {
        device: String,
        name: String,
        available: Vec<String>,
    },
    #[error("cannot set the I/O scheduler of {device} to {name}: {source}")]
    Refused {
        device: String,
        name: String,
        source: io::Error,
    },
    #[error(
        "another run (process {process}) has changed the I/O scheduler of {device} and is still at work"
    )]
    Busy { device: String, process: u32 },
    #[error("cannot note the present I/O scheduler in {}: {source}", path.display())]
    State { path: PathBuf, source: io::Error },
}

impl SchedulerError {
    pub fn kind(&self) -> Kind {
        Kind::Setup
    }

    pub fn remedy(&self) -> String {
        match self {
            Self::NotSelectable { .. } => {
                "Leave out --kernel-schedulers, or measure on another disk.".to_owned()
            }
            Self::Unknown { available, .. } => format!(
                "Name some of {} (or all), or load the module (modprobe).",
                available.join(", ")
            ),
            Self::Refused { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "Only root may change it: run as root, or leave out --kernel-schedulers.".to_owned()
            }
            Self::Refused { .. } => "See the kernel's messages (dmesg).".to_owned(),
            Self::Busy { .. } => "Wait for it to end.".to_owned(),
            Self::State { .. } => {
                "Run as root: the note lets the next run restore the scheduler if this one is killed."
                    .to_owned()
            }
        }
    }
}

/// The schedulers of a disk, as its `queue/scheduler` lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub current: String,
    pub available: Vec<String>,
}

/// Reads what the kernel offers for a whole disk, by its name in `/sys/block`.
///
/// # Errors
/// [`SchedulerError::NotSelectable`] when there is nothing to choose from.
pub fn offer(paths: &SystemPaths, device: &str) -> Result<Offer, SchedulerError> {
    paths
        .queue(device, "scheduler")
        .and_then(|line| parse_offer(&line))
        .ok_or_else(|| SchedulerError::NotSelectable {
            device: device.to_owned(),
        })
}

/// From `none [mq-deadline] kyber bfq`. A device without a choice says `none`
/// alone, without brackets.
fn parse_offer(line: &str) -> Option<Offer> {
    let mut current = None;
    let available = line
        .split_whitespace()
        .map(|word| {
            let name = word.trim_start_matches('[').trim_end_matches(']');
            if word.starts_with('[') {
                current = Some(name.to_owned());
            }
            name.to_owned()
        })
        .collect();
    Some(Offer {
        current: current?,
        available,
    })
}

/// The names that `--kernel-schedulers` asked for, `all` resolved.
///
/// # Errors
/// A name that the kernel does not offer for this disk.
pub fn resolve(
    paths: &SystemPaths,
    device: &str,
    names: &[String],
) -> Result<Vec<String>, SchedulerError> {
    let offer = offer(paths, device)?;
    if names.iter().any(|name| name == "all") {
        return Ok(offer.available);
    }
    match names.iter().find(|name| !offer.available.contains(name)) {
        None => Ok(names.to_vec()),
        Some(name) => Err(SchedulerError::Unknown {
            device: device.to_owned(),
            name: name.clone(),
            available: offer.available,
        }),
    }
}

/// What has to be put back, and who has to do it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    device: String,
    process: u32,
    /// Tells the process from a later one with the same number.
    process_start_ticks: u64,
    scheduler: String,
    /// Of the queue directory, by name, in the order of writing.
    attributes: BTreeMap<String, String>,
    /// Of the scheduler's own directory `iosched`.
    tunables: BTreeMap<String, String>,
}

/// Queue attributes that a change of scheduler resets.
const RESET_BY_CHANGE: [&str; 2] = ["nr_requests", "wbt_lat_usec"];

impl Saved {
    fn read(paths: &SystemPaths, device: &str, scheduler: &str) -> Self {
        let process = std::process::id();
        let attributes = RESET_BY_CHANGE
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), paths.queue(device, name)?)))
            .collect();
        let tunables = fs::read_dir(paths.block(device).join("queue/iosched"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                Some((name, chosen(read_line(&entry.path())?)))
            })
            .collect();
        Self {
            device: device.to_owned(),
            process,
            process_start_ticks: start_ticks(paths, process).unwrap_or(0),
            scheduler: scheduler.to_owned(),
            attributes,
            tunables,
        }
    }

    /// Puts everything back. Only the scheduler itself must succeed: some
    /// tunables are read-only or cap each other, and some kernels lack some.
    fn restore(&self, paths: &SystemPaths) -> io::Result<()> {
        let queue = paths.block(&self.device).join("queue");
        let current = offer(paths, &self.device).map(|offer| offer.current);
        if current.ok().as_deref() != Some(self.scheduler.as_str()) {
            fs::write(queue.join("scheduler"), &self.scheduler)?;
        }
        for (name, value) in &self.tunables {
            write_if_different(&queue.join("iosched").join(name), value);
        }
        for (name, value) in &self.attributes {
            write_if_different(&queue.join(name), value);
        }
        Ok(())
    }

    /// Whether the process that noted this still runs.
    fn is_alive(&self, paths: &SystemPaths) -> bool {
        start_ticks(paths, self.process) == Some(self.process_start_ticks)
    }
}

/// What to write for a value that was read: a file that offers a choice lists
/// all there is, the chosen one in brackets.
fn chosen(value: String) -> String {
    let bracketed = value
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match bracketed {
        Some(word) => word.to_owned(),
        None => value,
    }
}

fn write_if_different(path: &Path, value: &str) {
    if read_line(path).is_some_and(|current| current != value) {
        let _ = fs::write(path, value);
    }
}

/// Field 22 of `/proc/PID/stat`: the time of the process's start.
fn start_ticks(paths: &SystemPaths, process: u32) -> Option<u64> {
    let from_field_3 = stat_from_state(&paths.proc, process)?;
    from_field_3.split_whitespace().nth(19)?.parse().ok()
}

fn state_directory(paths: &SystemPaths) -> PathBuf {
    paths.run.join("iolane")
}

fn state_path(paths: &SystemPaths, device: &str) -> PathBuf {
    state_directory(paths).join(format!("scheduler-{device}.json"))
}

/// Notes what has to be put back. The file must be new, so that it also keeps
/// two runs from changing the same disk.
fn write_state(paths: &SystemPaths, saved: &Saved) -> io::Result<()> {
    fs::create_dir_all(state_directory(paths))?;
    let path = state_path(paths, &saved.device);
    let partial = path.with_extension(format!("{}.partial", saved.process));
    fs::write(&partial, serde_json::to_vec(saved)?)?;
    // A link, unlike a rename, fails when the name is taken.
    let linked = fs::hard_link(&partial, &path);
    fs::remove_file(&partial)?;
    linked
}

/// A change of a disk's scheduler, undone when dropped.
pub struct SchedulerGuard {
    paths: SystemPaths,
    device: String,
    _restore: Registration,
}

impl SchedulerGuard {
    /// Sets the scheduler of a whole disk, and remembers the present one.
    ///
    /// # Errors
    /// When the name is unknown, root's rights are missing, or another run is
    /// at it. The scheduler is unchanged then.
    pub fn switch(
        paths: &SystemPaths,
        cleanups: &Cleanups,
        device: &str,
        name: &str,
    ) -> Result<Self, SchedulerError> {
        resolve(paths, device, &[name.to_owned()])?;
        let saved = Saved::read(paths, device, &offer(paths, device)?.current);
        note(paths, &saved)?;
        let for_restore = paths.clone();
        let restore = cleanups.register(move || {
            // The note stays when putting back failed: the next run tries again.
            if saved.restore(&for_restore).is_ok() {
                let _ = fs::remove_file(state_path(&for_restore, &saved.device));
            }
        });
        let mut guard = Self {
            paths: paths.clone(),
            device: device.to_owned(),
            _restore: restore,
        };
        guard.set(name)?;
        Ok(guard)
    }

    /// Goes on to another scheduler; what is put back stays the first one.
    ///
    /// # Errors
    /// As [`switch`](Self::switch).
    pub fn set(&mut self, name: &str) -> Result<(), SchedulerError> {
        fs::write(self.paths.block(&self.device).join("queue/scheduler"), name).map_err(|source| {
            SchedulerError::Refused {
                device: self.device.clone(),
                name: name.to_owned(),
                source,
            }
        })
    }
}

fn note(paths: &SystemPaths, saved: &Saved) -> Result<(), SchedulerError> {
    let path = state_path(paths, &saved.device);
    write_state(paths, saved).map_err(|source| {
        if source.kind() != io::ErrorKind::AlreadyExists {
            return SchedulerError::State { path, source };
        }
        let process = read_state(&path).map_or(0, |other| other.process);
        SchedulerError::Busy {
            device: saved.device.clone(),
            process,
        }
    })
}

fn read_state(path: &Path) -> Option<Saved> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Puts back what killed runs have left changed. Returns a sentence for each.
pub fn restore_leftovers(paths: &SystemPaths) -> Vec<String> {
    let Ok(entries) = fs::read_dir(state_directory(paths)) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|ext| ext == "json"))
        .filter_map(|entry| restore_leftover(paths, &entry.path()))
        .collect()
}

fn restore_leftover(paths: &SystemPaths, path: &Path) -> Option<String> {
    let saved = read_state(path)?;
    if saved.is_alive(paths) {
        return None;
    }
    match saved.restore(paths) {
        Ok(()) => {
            let _ = fs::remove_file(path);
            Some(format!(
                "an earlier run was killed; the I/O scheduler of {} is {} again",
                saved.device, saved.scheduler
            ))
        }
        Err(error) => Some(format!(
            "an earlier run was killed and left the I/O scheduler of {} changed, and setting it back to {} failed: {error}",
            saved.device, saved.scheduler
        )),
    }
}

#[cfg(test)]
mod tests;
