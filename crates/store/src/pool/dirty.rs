//! Which frames hold changes that are not in their files, by the position in
//! the log where the first of them begins.
//!
//! Changes are noted while the log is locked, so they come in the order of
//! their positions: a frame that becomes dirty is put at the end of a list
//! through the frames themselves. Every operation takes a few steps, however
//! many frames there are: writers wait for it.

use super::frame::{DIRTY, Frame, WRITING};
use super::primitives::Mutex;
use crate::ids::Lsn;
use std::collections::{HashMap, VecDeque};

/// No frame.
const NONE: u32 = u32::MAX;
/// The flusher is called when there are so many more frames that a change of
/// many pages has passed: each of these would be a storm of calls.
const PASSED_CALL: usize = 32;

pub(crate) struct Dirty {
    inner: Mutex<Inner>,
}

struct Inner {
    nodes: Box<[Node]>,
    first: u32,
    last: u32,
    /// Those of the list that a change of many pages has passed, in the order in
    /// which it did; and frames that were and are not any more.
    passed: VecDeque<u32>,
    passed_count: usize,
    /// Frames being written, with the oldest change in what is written.
    writing: HashMap<u32, Lsn>,
    /// Up to where changes have been noted.
    end: Lsn,
    count: usize,
}

/// A frame's place in the list.
#[derive(Clone, Copy)]
struct Node {
    /// Where its first change that nobody has begun to write begins; in the
    /// list if there is one.
    since: Option<Lsn>,
    /// A change of many pages has passed it since.
    passed: bool,
    before: u32,
    behind: u32,
}

impl Dirty {
    /// None of `frames` frames is dirty, at position `end`.
    pub(crate) fn new(frames: usize, end: Lsn) -> Dirty {
        let clean = Node {
            since: None,
            passed: false,
            before: NONE,
            behind: NONE,
        };
        Dirty {
            inner: Mutex::new(Inner {
                nodes: vec![clean; frames].into_boxed_slice(),
                first: NONE,
                last: NONE,
                passed: VecDeque::new(),
                passed_count: 0,
                writing: HashMap::new(),
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
            if inner.nodes[frame as usize].since.is_none() {
                inner.append(frame, start);
                all[frame as usize].set(DIRTY);
            }
        }
        inner.end = inner.end.max(end);
    }

    /// Takes up to `max` frames with changes before `line`, oldest first, to be
    /// written. Those that are being written and were changed again are left
    /// for later.
    pub(crate) fn take_oldest(&self, all: &[Frame], max: usize, line: Lsn) -> Vec<u32> {
        let mut inner = self.inner.lock();
        let mut taken = Vec::new();
        let mut frame = inner.first;
        while taken.len() < max && frame != NONE {
            let node = inner.nodes[frame as usize];
            if node.since.is_none_or(|since| since >= line) {
                break;
            }
            // Passes over no more than are being written.
            if !inner.writing.contains_key(&frame) {
                inner.take(all, frame);
                taken.push(frame);
            }
            frame = node.behind;
        }
        taken
    }

    /// A change of many pages has come past this frame, and will not change it
    /// again. Returns whether the flusher should hear of it.
    pub(crate) fn passed(&self, frame: u32) -> bool {
        let mut inner = self.inner.lock();
        let node = &mut inner.nodes[frame as usize];
        if node.since.is_none() || node.passed {
            return false;
        }
        node.passed = true;
        // Most of those that were written meanwhile are in front. The others
        // may not make it longer than the pool.
        while let Some(&first) = inner.passed.front()
            && (!inner.nodes[first as usize].passed || inner.passed.len() == inner.nodes.len())
        {
            inner.passed.pop_front();
            inner.leave_to_age(first);
        }
        inner.passed.push_back(frame);
        inner.passed_count += 1;
        inner.passed_count.is_multiple_of(PASSED_CALL)
    }

    /// Takes up to `max` frames that a change of many pages has passed, to be
    /// written.
    pub(crate) fn take_passed(&self, all: &[Frame], max: usize) -> Vec<u32> {
        let mut inner = self.inner.lock();
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some(frame) = inner.passed.pop_front()
        {
            if inner.writing.contains_key(&frame) {
                inner.leave_to_age(frame);
            } else if inner.nodes[frame as usize].passed {
                inner.take(all, frame);
                taken.push(frame);
            }
        }
        taken
    }

    /// Frames that a change of many pages has passed and nobody has begun to
    /// write.
    pub(crate) fn count_passed(&self) -> usize {
        self.inner.lock().passed_count
    }

    /// Are there so many frames with changes before `line`, whether being
    /// written or not? Looks at no more.
    pub(crate) fn has_before(&self, count: usize, line: Lsn) -> bool {
        let inner = self.inner.lock();
        let mut frame = inner.first;
        for _ in 0..count {
            if frame == NONE {
                return false;
            }
            let node = inner.nodes[frame as usize];
            if node.since.is_none_or(|since| since >= line) {
                return false;
            }
            frame = node.behind;
        }
        true
    }

    /// Takes `frame` to be written. `false` when it is clean or already taken.
    pub(crate) fn take(&self, all: &[Frame], frame: u32) -> bool {
        let mut inner = self.inner.lock();
        let clean = inner.nodes[frame as usize].since.is_none();
        if clean || inner.writing.contains_key(&frame) {
            return false;
        }
        inner.take(all, frame);
        true
    }

    /// These frames have been written. Those that were changed again meanwhile
    /// stay dirty.
    pub(crate) fn written(&self, all: &[Frame], frames: &[u32]) {
        let mut inner = self.inner.lock();
        for &frame in frames {
            inner.writing.remove(&frame);
            if inner.nodes[frame as usize].since.is_none() {
                all[frame as usize].clear(DIRTY);
            }
            all[frame as usize].clear(WRITING);
        }
    }

    /// The page of a frame is no more: its changes need not be written. The
    /// caller holds its latch.
    pub(crate) fn forget(&self, all: &[Frame], frame: u32) {
        let mut inner = self.inner.lock();
        if inner.nodes[frame as usize].since.is_some() {
            inner.remove(frame);
        }
        if !all[frame as usize].is(WRITING) {
            all[frame as usize].clear(DIRTY);
        }
    }

    /// Nothing before this position is needed to bring the files up to date.
    pub(crate) fn oldest(&self) -> Lsn {
        let inner = self.inner.lock();
        let first = match inner.first {
            NONE => None,
            frame => inner.nodes[frame as usize].since,
        };
        let writing = inner.writing.values().copied().min();
        first.into_iter().chain(writing).min().unwrap_or(inner.end)
    }

    /// Says up to where there are changes, after recovery.
    pub(crate) fn set_end(&self, end: Lsn) {
        let mut inner = self.inner.lock();
        inner.end = inner.end.max(end);
    }

    /// Frames whose changes are not in their files: of those that were changed again
    /// while they are written, each counts twice.
    pub(crate) fn unwritten(&self) -> usize {
        let inner = self.inner.lock();
        inner.count + inner.writing.len()
    }

    /// Frames with changes that nobody has begun to write.
    pub(crate) fn count(&self) -> usize {
        self.inner.lock().count
    }
}

impl Inner {
    fn append(&mut self, frame: u32, since: Lsn) {
        let last = self.last;
        self.nodes[frame as usize] = Node {
            since: Some(since),
            passed: false,
            before: last,
            behind: NONE,
        };
        match last {
            NONE => self.first = frame,
            last => self.nodes[last as usize].behind = frame,
        }
        self.last = frame;
        self.count += 1;
    }

    /// Takes a frame out of the list; says since when it was in it.
    fn remove(&mut self, frame: u32) -> Lsn {
        let node = &mut self.nodes[frame as usize];
        let since = node.since.take().expect("a frame in the list");
        let passed = std::mem::take(&mut node.passed);
        let (before, behind) = (node.before, node.behind);
        match before {
            NONE => self.first = behind,
            before => self.nodes[before as usize].behind = behind,
        }
        match behind {
            NONE => self.last = before,
            behind => self.nodes[behind as usize].before = before,
        }
        self.count -= 1;
        self.passed_count -= usize::from(passed);
        since
    }

    /// It is one like all others.
    fn leave_to_age(&mut self, frame: u32) {
        let passed = std::mem::take(&mut self.nodes[frame as usize].passed);
        self.passed_count -= usize::from(passed);
    }

    fn take(&mut self, all: &[Frame], frame: u32) {
        let since = self.remove(frame);
        self.writing.insert(frame, since);
        all[frame as usize].set(WRITING);
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
        assert_eq!((dirty.count(), dirty.unwritten()), (1, 3));
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
    fn what_was_passed_is_taken_once_and_in_that_order() {
        let all = frames(8);
        let dirty = Dirty::new(8, Lsn(0));
        let change = |frame: u32, at: u64| {
            dirty.mark(&all, [frame].into_iter(), Lsn(at), Lsn(at + 10));
        };
        for frame in 0..6 {
            change(frame, u64::from(frame) * 10);
        }
        for frame in [3, 1, 2, 4, 1, 7] {
            dirty.passed(frame);
        }
        assert_eq!(dirty.count_passed(), 4, "7 is clean");
        // Written for another reason, and changed since.
        assert!(dirty.take(&all, 1));
        dirty.written(&all, &[1]);
        change(1, 60);
        // Given away.
        dirty.forget(&all, 2);
        assert_eq!(dirty.count_passed(), 2);
        assert_eq!(dirty.take_passed(&all, 1), [3]);
        // Changed and passed while it is written: its age brings it.
        change(3, 70);
        dirty.passed(3);
        assert_eq!(dirty.take_passed(&all, 8), [4]);
        assert_eq!((dirty.count_passed(), dirty.count()), (0, 4));
        dirty.written(&all, &[3, 4]);
        assert_eq!(dirty.take_oldest(&all, 8, Lsn(100)), [0, 5, 1, 3]);
    }

    /// Nobody may ever take them.
    #[test]
    fn what_was_passed_takes_no_more_memory_than_the_pool_has_frames() {
        let all = frames(4);
        let dirty = Dirty::new(4, Lsn(0));
        let mut calls = 0;
        for round in 0..1000 {
            // One that stays keeps what is behind it.
            for frame in 0..3 {
                dirty.mark(&all, [frame].into_iter(), Lsn(round), Lsn(round));
                calls += u32::from(dirty.passed(frame));
                if frame > 0 {
                    dirty.forget(&all, frame);
                }
            }
            assert!(dirty.inner.lock().passed.len() <= 4);
        }
        assert!(dirty.count_passed() <= 1);
        assert_eq!(calls, 0, "never many at once");
    }

    /// Each batch holds the checkpoint for itself, and is over for itself.
    #[test]
    fn batches_under_way_hold_the_checkpoint_each_for_itself() {
        let all = frames(8);
        let dirty = Dirty::new(8, Lsn(0));
        for frame in 0..6 {
            let at = u64::from(frame) * 10;
            dirty.mark(&all, [frame].into_iter(), Lsn(at), Lsn(at + 10));
        }
        let first = dirty.take_oldest(&all, 2, Lsn(100));
        let second = dirty.take_oldest(&all, 2, Lsn(100));
        assert_eq!((&first[..], &second[..]), (&[0, 1][..], &[2, 3][..]));
        // Changed while it is written: passed over, and not lost.
        dirty.mark(&all, [0].into_iter(), Lsn(60), Lsn(70));
        assert!(!dirty.take(&all, 0));
        dirty.written(&all, &second);
        assert_eq!(dirty.oldest(), Lsn(0));
        dirty.written(&all, &first);
        assert_eq!((dirty.oldest(), dirty.count()), (Lsn(40), 3));
        // Given away while it is written.
        assert_eq!(dirty.take_oldest(&all, 1, Lsn(100)), [4]);
        dirty.forget(&all, 4);
        assert!(all[4].is(WRITING));
        assert_eq!(dirty.oldest(), Lsn(40));
        dirty.written(&all, &[4]);
        assert!(!all[4].is(DIRTY | WRITING));
        // Out of the middle.
        dirty.mark(&all, [6].into_iter(), Lsn(70), Lsn(80));
        dirty.forget(&all, 0);
        assert_eq!(dirty.take_oldest(&all, 8, Lsn(75)), [5, 6]);
        assert_eq!(dirty.oldest(), Lsn(50));
        dirty.written(&all, &[5, 6]);
        assert_eq!((dirty.oldest(), dirty.count()), (Lsn(80), 0));
    }
}
