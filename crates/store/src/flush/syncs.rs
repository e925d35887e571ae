//! Syncs that batches share.
//!
//! A sync covers all writes that were complete when it was submitted, of
//! whichever batch. So there is at most one of a file at a time: the batches
//! that are written meanwhile wait for it, and the next one is for all of them.

use iolane::{Error, File, Level, Operation, Pending};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// From the beginning of a file's sync to that of the next, unless somebody
/// waits: on a disk whose syncs are quick, small batches would otherwise be one
/// storm of them, through which the log's own syncs have to come.
const APART: Duration = Duration::from_millis(2);

/// What is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The doublewrite area.
    Area,
    /// A tablespace.
    Space(u32),
}

/// A sync that is over.
pub(super) struct Synced {
    pub(super) target: Target,
    /// The batches that it covers.
    pub(super) batches: Vec<u64>,
}

#[derive(Default)]
pub(super) struct Syncs {
    running: Vec<Running>,
    /// When each file's last one began.
    begun: Vec<(Target, Instant)>,
    /// When the first that was held back becomes due.
    pub(super) due: Option<Instant>,
}

struct Running {
    covers: Synced,
    request: Pending<()>,
}

impl Syncs {
    /// Begins to sync a file for these batches, all of whose writes to it are
    /// complete, unless there is a sync of it or was one just now. Returns
    /// whether it has begun.
    pub(super) fn begin(
        &mut self,
        target: Target,
        file: &File,
        batches: &[u64],
        level: Level,
        hurry: bool,
    ) -> Result<bool, Error> {
        if self.running.iter().any(|one| one.covers.target == target) {
            return Ok(false);
        }
        let now = Instant::now();
        self.begun.retain(|(_, at)| now.duration_since(*at) < APART);
        let last = self.begun.iter().find(|(other, _)| *other == target);
        if let (Some((_, at)), false) = (last, hurry) {
            let due = *at + APART;
            self.due = Some(self.due.map_or(due, |other| other.min(due)));
            return Ok(false);
        }
        let request = file.submit_sync(Operation::SyncData, level);
        self.running.push(Running {
            covers: Synced {
                target,
                batches: batches.to_vec(),
            },
            request: request.map_err(|refused| refused.error)?,
        });
        self.begun.retain(|(other, _)| *other != target);
        self.begun.push((target, now));
        Ok(true)
    }

    /// Those that are over. The context hears of each that is not.
    pub(super) fn finished(&mut self, context: &mut Context<'_>) -> Result<Vec<Synced>, Error> {
        let mut finished = Vec::new();
        let mut index = 0;
        while index < self.running.len() {
            match Pin::new(&mut self.running[index].request).poll(context) {
                Poll::Pending => index += 1,
                Poll::Ready(done) => {
                    let Running { covers, .. } = self.running.swap_remove(index);
                    done.result?;
                    finished.push(covers);
                }
            }
        }
        Ok(finished)
    }

    pub(super) fn promote(&self, level: Level) {
        for one in &self.running {
            one.request.promote(level);
        }
    }
}
