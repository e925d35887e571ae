//! The processes of the command, and the I/O priorities of their threads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use iolane_broker::Rules;
use iolane_sched::Level;

use super::report::RoleReport;
use crate::sys::ioprio::{self, IoPriority};
use crate::system::stat_from_state;

/// Threads that are followed: PostgreSQL has a process for each connection.
const THREADS_MAX: usize = 16_384;

/// See the file's page.
pub struct Tasks<'a> {
    rules: &'a Rules,
    proc: &'a Path,
    processes: BTreeSet<u32>,
    /// By number: what each had before, and has now.
    changed: BTreeMap<u32, Changed>,
    counts: BTreeMap<(String, Level), u64>,
    refused: u64,
}

#[derive(Clone, Copy)]
struct Changed {
    before: IoPriority,
    level: Level,
}

impl<'a> Tasks<'a> {
    pub fn new(rules: &'a Rules, proc: &'a Path) -> Self {
        Tasks {
            rules,
            proc,
            processes: BTreeSet::new(),
            changed: BTreeMap::new(),
            counts: BTreeMap::new(),
            refused: 0,
        }
    }

    /// The command was started.
    pub fn begin(&mut self, process: u32) {
        self.processes.insert(process);
    }

    /// Processes that have not ended.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().copied()
    }

    /// Looks for new processes and threads, and gives them their priority.
    pub fn look(&mut self) {
        let mut there = BTreeSet::new();
        for (process, threads) in self.find() {
            let line = self.command_line(process);
            for thread in threads {
                there.insert(thread);
                self.look_at(process, thread, &line);
            }
        }
        self.changed.retain(|thread, _| there.contains(thread));
    }

    /// The processes that are there, each with its threads. Children are looked for while their
    /// parents live: who has lost its own stays known.
    fn find(&mut self) -> Vec<(u32, Vec<u32>)> {
        let mut waiting: Vec<u32> = self.processes().collect();
        self.processes.clear();
        let mut found = Vec::new();
        while let Some(process) = waiting.pop() {
            if self.has_ended(process) || !self.processes.insert(process) {
                continue;
            }
            let threads = self.threads(process);
            for thread in &threads {
                let children = self.proc.join(format!("{process}/task/{thread}/children"));
                let text = fs::read_to_string(children).unwrap_or_default();
                waiting.extend(
                    text.split_whitespace()
                        .filter_map(|word| word.parse::<u32>().ok()),
                );
            }
            found.push((process, threads));
        }
        found
    }

    fn has_ended(&self, process: u32) -> bool {
        let state = stat_from_state(self.proc, process);
        state.is_none_or(|state| state.starts_with(['Z', 'X']))
    }

    fn threads(&self, process: u32) -> Vec<u32> {
        let folder: PathBuf = self.proc.join(format!("{process}/task"));
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.take(THREADS_MAX).collect()
    }

    /// As the library sees it: words with blanks between.
    fn command_line(&self, process: u32) -> Vec<u8> {
        let mut line = fs::read(self.proc.join(format!("{process}/cmdline"))).unwrap_or_default();
        while line.last() == Some(&0) {
            line.pop();
        }
        for byte in &mut line {
            if *byte == 0 {
                *byte = b' ';
            }
        }
        line
    }

    fn look_at(&mut self, process: u32, thread: u32, line: &[u8]) {
        let name = fs::read(self.proc.join(format!("{process}/task/{thread}/comm")));
        let name = name.unwrap_or_default();
        let found = self.rules.of_thread(line, name.trim_ascii_end());
        let known = self.changed.get(&thread).copied();
        let level = found.map(|(_, level)| level);
        if known.map(|known| known.level) == level {
            return;
        }
        let Some((role, level)) = found else {
            self.put_back(thread);
            return;
        };
        if self.changed.len() == THREADS_MAX {
            self.refused += 1;
            return;
        }
        let before = match known {
            Some(known) => known.before,
            None => match ioprio::of_thread(thread) {
                Ok(before) => before,
                // It has just ended.
                Err(_) => return,
            },
        };
        match ioprio::set_thread(thread, priority(level)) {
            Ok(()) => {
                *self.counts.entry((role.to_owned(), level)).or_default() += 1;
                self.changed.insert(thread, Changed { before, level });
            }
            Err(_) => self.refused += 1,
        }
    }

    fn put_back(&mut self, thread: u32) {
        if let Some(changed) = self.changed.remove(&thread) {
            // It may have ended.
            let _ = ioprio::set_thread(thread, changed.before);
        }
    }

    /// Threads that could not be given theirs: too many, or another user's.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    pub fn report(&self) -> Vec<RoleReport> {
        let counts = self.counts.iter();
        counts
            .map(|((role, level), &threads)| RoleReport {
                role: role.clone(),
                level: level.name(),
                threads,
            })
            .collect()
    }
}

impl Drop for Tasks<'_> {
    fn drop(&mut self) {
        for thread in self.changed.keys().copied().collect::<Vec<_>>() {
            self.put_back(thread);
        }
    }
}

/// What the module takes for the level (kernel/README.md). Background is of class idle,
/// which mq-deadline knows, too.
fn priority(level: Level) -> IoPriority {
    match level {
        Level::Critical => IoPriority::BEST_EFFORT,
        Level::Foreground => IoPriority::best_effort(1),
        Level::Normal => IoPriority::best_effort(4),
        Level::Prefetch => IoPriority::best_effort(6),
        _ => IoPriority::IDLE,
    }
}
