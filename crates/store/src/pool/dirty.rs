//! Which frames hold changes that are not in their files, by the position in
//! the log where the first of them begins.
//!
//! Changes are noted while the log is locked, so they come in the order of
//! their positions, and the list needs no sorting: an entry is put at the end,
//! and counts until its frame is taken to be written.

use super::frame::{DIRTY, Frame, WRITING};
use super::primitives::Mutex;
use crate::ids::Lsn;
use std::collections::VecDeque;

pub(crate) struct Dirty {
    inner: Mutex<Inner>,
}

struct Inner {
    /// In order of LSN; entries whose frame says otherwise no longer count.
    order: VecDeque<(Lsn, u32)>,
    /// Per frame, where its first unwritten change begins.
    since: Vec<Option<Lsn>>,
    /// Oldest change in the frames being written.
    writing_since: Option<Lsn>,
    /// Up to where changes have been noted.
    end: Lsn,
    count: usize,
}

impl Dirty {
    /// None of `frames` frames is dirty, at position `end`.
    pub(crate) fn new(frames: usize, end: Lsn) -> Dirty {
        Dirty {
            inner: Mutex::new(Inner {
                order: VecDeque::new(),
                since: vec![None; frames],
                writing_since: None,
                end,
                count: 0,
            }),
        }
    }

    /// The log record from `start` to `end` changed these frames.
    pub(crate) fn mark(
        &self,
        all: &[Frame],
        changed: impl Iterator<Item = u32>,
        start: Lsn,
        end: Lsn,
    ) {
        let mut inner = self.inner.lock();
        for frame in changed {
            let since = &mut inner.since[frame as usize];
            if since.is_none() {
                *since = Some(start);
                inner.order.push_back((start, frame));
                inner.count += 1;
                all[frame as usize].set(DIRTY);
            }
        }
        inner.end = inner.end.max(end);
        inner.compact();
    }

    /// Takes up to `max` frames with changes before `line`, oldest first, to be
    /// written.
    pub(crate) fn take_oldest(&self, all: &[Frame], max: usize, line: Lsn) -> Vec<u32> {
        let mut inner = self.inner.lock();
        let mut taken = Vec::new();
        while taken.len() < max {
            match inner.order.front() {
                Some(&(lsn, _)) if lsn < line => {}
                _ => break,
            }
            let (lsn, frame) = inner.order.pop_front().expect("looked at above");
            if inner.since[frame as usize] == Some(lsn) {
                if all[frame as usize].is(WRITING) {
                    // Changed again while this batch was put together.
                    inner.order.push_front((lsn, frame));
                    break;
                }
                inner.take(all, frame);
                taken.push(frame);
            }
        }
        taken
    }

    /// Takes `frame` to be written. `false` when it is clean or already taken.
    pub(crate) fn take(&self, all: &[Frame], frame: u32) -> bool {
        let mut inner = self.inner.lock();
        if inner.since[frame as usize].is_none() || all[frame as usize].is(WRITING) {
            return false;
        }
        inner.take(all, frame);
        true
    }

    /// All that was taken has been written. Frames that were changed again
    /// meanwhile stay dirty.
    pub(crate) fn written(&self, all: &[Frame], frames: &[u32]) {
        let mut inner = self.inner.lock();
        for &frame in frames {
            if inner.since[frame as usize].is_none() {
                all[frame as usize].clear(DIRTY);
            }
            all[frame as usize].clear(WRITING);
        }
        inner.writing_since = None;
    }

    /// The page of a frame is no more: its changes need not be written. The
    /// caller holds its latch.
    pub(crate) fn forget(&self, all: &[Frame], frame: u32) {
        let mut inner = self.inner.lock();
        if inner.since[frame as usize].take().is_some() {
            inner.count -= 1;
        }
        if !all[frame as usize].is(WRITING) {
            all[frame as usize].clear(DIRTY);
        }
    }

    /// Nothing before this position is needed to bring the files up to date.
    pub(crate) fn oldest(&self) -> Lsn {
        let mut inner = self.inner.lock();
        while let Some(&(lsn, frame)) = inner.order.front() {
            if inner.since[frame as usize] == Some(lsn) {
                break;
            }
            inner.order.pop_front();
        }
        let first = inner.order.front().map(|&(lsn, _)| lsn);
        let writing = inner.writing_since;
        [first, writing]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(inner.end)
    }

    /// Says up to where there are changes, after recovery.
    pub(crate) fn set_end(&self, end: Lsn) {
        let mut inner = self.inner.lock();
        inner.end = inner.end.max(end);
    }

    pub(crate) fn count(&self) -> usize {
        self.inner.lock().count
    }
}

impl Inner {
    fn take(&mut self, all: &[Frame], frame: u32) {
        let since = self.since[frame as usize].take();
        self.count -= 1;
        let oldest = [since, self.writing_since].into_iter().flatten().min();
        self.writing_since = oldest;
        all[frame as usize].set(WRITING);
    }

    /// Keeps the list at most about twice as long as there are frames.
    fn compact(&mut self) {
        if self.order.len() > 2 * self.since.len() + 64 {
            let since = &self.since;
            self.order
                .retain(|&(lsn, frame)| since[frame as usize] == Some(lsn));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane::Buffer;

    fn frames(count: usize) -> Vec<Frame> {
        (0..count).map(|_| Frame::new(Buffer::new(1))).collect()
    }

    #[test]
    fn the_oldest_change_holds_the_checkpoint() {
        let all = frames(4);
        let dirty = Dirty::new(4, Lsn(10));
        assert_eq!(dirty.oldest(), Lsn(10));
        dirty.mark(&all, [0, 1].into_iter(), Lsn(10), Lsn(20));
        dirty.mark(&all, [1, 2].into_iter(), Lsn(20), Lsn(30));
        assert_eq!((dirty.oldest(), dirty.count()), (Lsn(10), 3));
        assert_eq!(dirty.take_oldest(&all, 2, Lsn(30)), [0, 1]);
        // Being written is not yet written.
        assert_eq!(dirty.oldest(), Lsn(10));
        dirty.mark(&all, [0].into_iter(), Lsn(30), Lsn(40));
        dirty.written(&all, &[0, 1]);
        assert_eq!(dirty.oldest(), Lsn(20));
        assert!(all[0].is(DIRTY) && !all[1].is(DIRTY) && !all[0].is(WRITING));
        assert!(dirty.take(&all, 2) && !dirty.take(&all, 2) && !dirty.take(&all, 3));
        dirty.written(&all, &[2]);
        assert_eq!(dirty.oldest(), Lsn(30));
        dirty.forget(&all, 0);
        assert_eq!((dirty.oldest(), dirty.count()), (Lsn(40), 0));
    }

    #[test]
    fn the_list_stays_bounded() {
        let all = frames(8);
        let dirty = Dirty::new(8, Lsn(0));
        // One old change that is never written, and a hot page that is.
        dirty.mark(&all, [0].into_iter(), Lsn(0), Lsn(1));
        for lsn in 1..10_000 {
            dirty.mark(&all, [1].into_iter(), Lsn(lsn), Lsn(lsn + 1));
            assert!(dirty.take(&all, 1));
            dirty.written(&all, &[1]);
        }
        assert_eq!(dirty.oldest(), Lsn(0));
        assert!(dirty.inner.lock().order.len() <= 2 * 8 + 64);
    }
}
