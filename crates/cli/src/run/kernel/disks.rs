//! The disks that the command uses, and what their scheduler makes of priorities.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use super::report::DiskReport;
use crate::kernel_scheduler::{SchedulerGuard, offer};
use crate::session::Session;

/// The module of kernel/.
const MODULE: &str = "prio-deadline";
/// Looks at the descriptors come once in so many looks at the threads.
const EVERY: u32 = 10;

/// See the file's page.
pub struct Disks<'a> {
    session: &'a Session,
    looks: u32,
    known: BTreeMap<String, Disk>,
}

struct Disk {
    before: Option<String>,
    now: Option<String>,
    /// The scheduler before comes back with it.
    _changed: Option<SchedulerGuard>,
}

impl<'a> Disks<'a> {
    pub fn new(session: &'a Session) -> Self {
        Disks {
            session,
            looks: 0,
            known: BTreeMap::new(),
        }
    }

    pub fn look(&mut self, processes: impl Iterator<Item = u32>) {
        let is_time = self.looks.is_multiple_of(EVERY);
        self.looks += 1;
        if !is_time {
            return;
        }
        for process in processes {
            let folder = self.session.paths.proc.join(format!("{process}/fd"));
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                // What lies behind the descriptor, not the link.
                let Ok(metadata) = fs::metadata(entry.path()) else {
                    continue;
                };
                if let Some(name) = metadata
                    .is_file()
                    .then(|| iolane_broker::disk_of(metadata.dev()))
                    .flatten()
                {
                    self.meet(name);
                }
            }
        }
    }

    fn meet(&mut self, name: String) {
        if self.known.contains_key(&name) {
            return;
        }
        let (paths, cleanups) = (&self.session.paths, &self.session.cleanups);
        let offered = offer(paths, &name).ok();
        let before = offered.as_ref().map(|offer| offer.current.clone());
        let has_module =
            offered.is_some_and(|offer| offer.available.iter().any(|one| one == MODULE));
        let mut changed = None;
        if has_module && before.as_deref() != Some(MODULE) {
            match SchedulerGuard::switch(paths, cleanups, &name, MODULE) {
                Ok(guard) => changed = Some(guard),
                Err(error) => eprintln!("warning: {error}"),
            }
        }
        let now = match changed {
            Some(_) => Some(MODULE.to_owned()),
            None => before.clone(),
        };
        let honours = honours(now.as_deref());
        if honours != Honours::Levels {
            eprintln!("warning: {name}: {}", honours.sentence());
        }
        self.known.insert(
            name,
            Disk {
                before,
                now,
                _changed: changed,
            },
        );
    }

    pub fn report(&self) -> Vec<DiskReport> {
        let known = self.known.iter();
        known
            .map(|(name, disk)| DiskReport {
                disk: name.clone(),
                scheduler_before: disk.before.clone(),
                scheduler: disk.now.clone(),
                honours: honours(disk.now.as_deref()).name(),
            })
            .collect()
    }
}

/// What a scheduler makes of I/O priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Honours {
    Levels,
    /// Class idle alone.
    Background,
    Nothing,
}

fn honours(scheduler: Option<&str>) -> Honours {
    match scheduler {
        Some(MODULE | "bfq") => Honours::Levels,
        Some("mq-deadline") => Honours::Background,
        _ => Honours::Nothing,
    }
}

impl Honours {
    fn name(self) -> &'static str {
        match self {
            Self::Levels => "levels",
            Self::Background => "background",
            Self::Nothing => "nothing",
        }
    }

    fn sentence(self) -> &'static str {
        match self {
            Self::Levels => "the scheduler knows all levels",
            Self::Background => {
                "mq-deadline puts background behind everything else, and knows no other level; \
                 prio-deadline (kernel/README.md) and bfq do"
            }
            Self::Nothing => {
                "its scheduler knows no priorities, nothing is gained; prio-deadline \
                 (kernel/README.md), bfq and mq-deadline do"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedulers_that_know_no_priorities_are_told_from_those_that_do() {
        assert_eq!(honours(Some(MODULE)), Honours::Levels);
        assert_eq!(honours(Some("mq-deadline")), Honours::Background);
        for other in [Some("none"), Some("kyber"), None] {
            assert_eq!(honours(other), Honours::Nothing);
        }
    }
}
