//! Streams of pages: reading ahead for whoever knows which pages come next.
//!
//! | file | subject |
//! |---|---|
//! | `distance` | how far ahead |
//! | `pace` | how pages come, one by one or with neighbours, and how fast |
//! | `share` | what the streams that run at a time may have |
//! | `leaves` | the leaves that a cursor will come to |
//! | `entries` | the rows that entries of a secondary index lead to |
//! | `keys` | rows whose keys are known beforehand |
//! | `offered` | pages whose numbers are known beforehand |
//! | `acting` | for which role a thread reads |
//! | `guess` | neighbours of pages that were read |
//! | `trails` | ranges that go on where others ended |
//!
//! A [`PageStream`] asks a [`Source`] for page numbers, keeps some of them on
//! their way, and is told where its consumer is. It reads nothing for the
//! consumer: that latches and loads pages as if there were no stream, and finds
//! them in memory, or on their way and then promotes them. So a stream that is
//! wrong (numbers change while they wait) costs a read, and nothing else.
//!
//! - **How far ahead.** A stream begins at the first page that is missing, so ranges in
//!   memory cost nothing: with two extents, or 16 rows for an index. The distance doubles when
//!   the consumer has to wait. It is bounded by a share of the frames (a quarter, an
//!   eighth for bulk work) and by four times the engine's learned window or sixteen extents;
//!   by twice the window where single pages come faster than from any disk with heads.
//! - **At which level.** `Prefetch`, or the role's of the thread. A page that its consumer waits
//!   for is promoted to `Foreground` while it may be one of a short range, which a query waits for,
//!   and then to `Normal` only: a consumer with a window of reads under way pays with throughput,
//!   and waits counted as a query's would keep the device's window small.
//! - **What stays.** Pages are held (`pool/ahead`): in no queue of the replacement until
//!   the consumer came for them. A scan longer than the small queue lets its pages leave first, and
//!   reads into their frames again. A stream that is dropped withdraws what has not begun.
//! - **Ranges behind each other** (`trails`): one that begins where another ended reads from its
//!   first page on, as far ahead as that one, and beyond its own end as many pages as the
//!   small queue keeps.
//! - **Branches** are read ahead too, as many as name a distance of leaves. Given keys are
//!   sorted and looked up in the branches (`keys`).

mod acting;
mod distance;
mod entries;
mod guess;
mod keys;
mod leaves;
mod offered;
mod pace;
mod share;
mod trails;

pub use acting::pages_awaited;
pub(crate) use acting::{
    Acting, Hurry, acting, acting_as, acting_until, awaits_page, in_range, role_of, role_of_load,
    waiting_level, when_hurried,
};
pub(crate) use entries::{Entry, EntryRows};
pub(crate) use guess::Guesses;
pub(crate) use keys::{KeysAhead, keys_at_once};
pub(crate) use leaves::LeafAhead;
pub(crate) use offered::Offered;
pub use share::StreamStatistics;
pub(crate) use share::Streams;
use trails::{Course, Trail};

use crate::core::Core;
use crate::ids::{EXTENT_PAGES, PageId};
use crate::policy::{IoPolicy, Role};
use crate::pool::{Awaited, Leaves};
use pace::Pace;
use std::collections::VecDeque;
use std::time::Instant;

/// A couple of extents: what Hall and Bonnet let a scan begin with.
pub(crate) const BEGIN_EXTENTS: usize = 2 * EXTENT_PAGES as usize;
/// What they let a range of a secondary index begin with.
pub(crate) const BEGIN_ROWS: usize = 16;
/// Keys or entries that wait for branches and are looked at for which: these are
/// asked for in parallel, and so many reads are more than devices carry out at a
/// time.
const UNNAMED_MAX: usize = 256;
/// Branches named ahead at most: where they are small, as many as a distance
/// needs, and no more than a small pool can spare.
const BRANCHES_MAX: usize = 32;
/// Questions to a source in one go: for entries of an index so many chunks.
const ASKS_MAX: usize = 16;
/// Part of a stream's limit that one within another has.
const WITHIN_SHARE: usize = 8;
/// Part of the frames that pages may take which a stream leaves behind: they are
/// in the replacement's small queue, a tenth of all, with those of others.
const LEFT_SHARE: usize = 32;

/// Pages within which a range may end that a query waits for. Whoever has passed more
/// goes through a table.
const SHORT_PAGES: u32 = EXTENT_PAGES;

/// Pages that ranges which go on behind each other find in memory before their next
/// ones are looked for no more, which each of them pays for: as many as one that has
/// read farther than those behind it may have left them.
const UNREAD_MAX: u32 = share::OUTSTANDING_MIN as u32;

/// The part of an open store that reads ahead.
#[derive(Clone, Copy)]
pub struct ReadAhead<'p>(pub(crate) &'p Core);

impl ReadAhead<'_> {
    /// How eager it is.
    pub(crate) fn policy(&self) -> &IoPolicy {
        &self.0.pool.files.policy
    }

    /// Begins to read pages that are looked at one by one, as far as there are frames for them.
    pub(crate) fn begin(&self, pages: &[PageId]) {
        let begun = self.0.pool.prefetch(pages, Role::Index, None);
        self.0.streams.read(Role::Index, begun.reads);
    }

    /// Its consumer has changed what it wanted of a leaf, and gone on.
    pub(crate) fn passed(&self, leaf: PageId) {
        self.0.pool.passed(leaf);
    }

    /// Pages that a stream leaves behind for another, at most.
    fn left_max(&self) -> usize {
        self.0.pool.frames().len() / LEFT_SHARE
    }
}

/// What a source says.
#[derive(Default)]
pub(crate) struct Next {
    /// The next pages, in the order in which they are needed.
    pub(crate) pages: Vec<PageId>,
    /// Pages that must be in memory before the source can say more.
    pub(crate) branches: Vec<PageId>,
}

impl Next {
    fn needs(&mut self, branch: PageId) {
        if !self.branches.contains(&branch) {
            self.branches.push(branch);
        }
    }
}

/// Knows which pages come next.
pub(crate) trait Source {
    /// Appends what it knows without waiting, and the branches that it needs to
    /// name about `ahead` pages more, so that these come in time.
    fn more(&mut self, next: &mut Next, ahead: usize) -> More;
}

/// What a source has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum More {
    /// It knew something, and may know more.
    Found,
    /// Nothing before a branch or its consumer has come.
    NotNow,
    /// There is no more.
    Ended,
}

/// What part of the frames and of the device a stream has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Own,
    /// It serves another stream, and has a part of that one's.
    Within,
    /// It reads what its consumer leaves behind, and no more than may stay.
    Beyond,
}

/// Reads what a [`Source`] names ahead of whoever goes through it. Dropped, it
/// withdraws what has not begun.
pub(crate) struct PageStream<'p, S> {
    ahead: ReadAhead<'p>,
    role: Role,
    part: Part,
    pub(crate) source: S,
    ended: bool,
    /// Named and not asked for.
    known: VecDeque<PageId>,
    /// Asked for, and the consumer has not come there.
    window: VecDeque<Awaited>,
    course: Course,
    pace: Pace,
    /// Pages that it began to read.
    reads: u32,
    /// Reused.
    next: Next,
}

impl<'p, S: Source> PageStream<'p, S> {
    pub(crate) fn new(ahead: ReadAhead<'p>, role: Role, begin: usize, source: S) -> Self {
        Self::begin(ahead, role, Course::new(begin), source, Part::Own)
    }

    /// One that names to another stream what that needs to go on. If it took as
    /// much as that, a range of an index would have half of what is its due.
    pub(crate) fn within(ahead: ReadAhead<'p>, role: Role, begin: usize, source: S) -> Self {
        Self::begin(ahead, role, Course::new(begin), source, Part::Within)
    }

    /// One that goes on where another ended, begins before its consumer does, and
    /// reads on for the next: as the other, which has read the first of its pages.
    pub(crate) fn beyond(ahead: ReadAhead<'p>, role: Role, course: Course, source: S) -> Self {
        let mut stream = Self::begin(ahead, role, course, source, Part::Beyond);
        stream.top_up(None);
        stream
    }

    fn begin(ahead: ReadAhead<'p>, role: Role, course: Course, source: S, part: Part) -> Self {
        ahead.0.streams.begin(role, part == Part::Within);
        PageStream {
            ahead,
            role,
            part,
            source,
            ended: false,
            known: VecDeque::new(),
            window: VecDeque::new(),
            course,
            pace: Pace::NEW,
            reads: 0,
            next: Next::default(),
        }
    }

    /// The consumer has come to a page, and past all that the source named
    /// before it.
    pub(crate) fn came_to(&mut self, page: PageId) {
        if let Some(at) = self.window.iter().position(|(id, _)| *id == page) {
            let passed = self.window.drain(..at);
            self.ahead.0.pool.give_up(passed);
            self.leaves_behind();
        } else if let Some(at) = self.known.iter().position(|&id| id == page) {
            self.known.drain(..=at);
            let passed = self.window.drain(..);
            self.ahead.0.pool.give_up(passed);
        }
        self.passed();
    }

    /// The consumer has what it wanted of the first page of the window.
    fn leaves_behind(&mut self) {
        let pool = &self.ahead.0.pool;
        let leaves = if self.reads as usize > pool.passing_pages() {
            Leaves::First
        } else {
            Leaves::InTurn
        };
        if let Some(page) = self.window.pop_front() {
            pool.came_for(page, leaves);
        }
    }

    /// The consumer needs a page no more, whether it came there or not.
    pub(crate) fn is_through_with(&mut self, page: PageId) {
        if let Some(at) = self.window.iter().position(|(id, _)| *id == page) {
            let passed = self.window.remove(at);
            self.ahead.0.pool.give_up(passed);
        } else if let Some(at) = self.known.iter().position(|&id| id == page) {
            // It was in memory. Asked for now it would stay in the window, as
            // nobody comes there again.
            self.known.remove(at);
        }
        self.passed();
    }

    /// The consumer has come farther.
    pub(crate) fn passed(&mut self) {
        self.course.unread = self.course.unread.saturating_add(1);
        self.course.passed = self.course.passed.saturating_add(1);
        self.course.distance.passed();
        self.top_up(None);
    }

    /// The consumer has to wait for a page, which it reads by itself unless it
    /// is on its way.
    pub(crate) fn waits_for(&mut self, page: PageId) {
        if self.course.passed >= SHORT_PAGES {
            acting::waits_ahead();
        }
        if self.window.iter().any(|(id, _)| *id == page) {
            let limit = self.limit();
            self.course.distance.waited(limit);
            self.ahead.0.streams.waited(self.role);
        }
        self.top_up(Some(page));
    }

    fn limit(&self) -> usize {
        let space = self.window.back().map(|(id, _)| id.space);
        // As far in each of the ranges that go on behind each other: where one has read
        // farther, those behind it find all in memory until it is used up, and then all
        // is read at once, while nothing is written.
        let pace = match self.part {
            Part::Own | Part::Within => self.pace,
            Part::Beyond => Pace::NEW,
        };
        let ahead = &self.ahead.0;
        let limit = ahead
            .streams
            .limit(&ahead.pool, self.role_now(), pace, space);
        let limit = match self.part {
            Part::Own => limit,
            Part::Within => limit / WITHIN_SHARE,
            Part::Beyond => limit.min(self.ahead.left_max()),
        };
        limit.max(1)
    }

    /// Asks for more pages when a good part of the distance is used up. What
    /// the consumer reads by itself is left to it.
    fn top_up(&mut self, but: Option<PageId>) {
        let full = self.course.distance.pages(usize::MAX);
        if self.window.len() + batch(full) > full || self.is_through() {
            return;
        }
        let distance = self.course.distance.pages(self.limit());
        if self.window.len() + batch(distance) > distance {
            return;
        }
        let wanted = distance - self.window.len();
        self.learn(wanted, distance, but);
        self.submit(wanted, but);
        // A distance more is known, so that the branch behind comes in time.
        self.learn(distance, distance, but);
    }

    fn is_through(&self) -> bool {
        self.ended && self.known.is_empty()
    }

    /// For which role it asks now: of a change in bulk that others wait for,
    /// what comes next is as urgent as a query's.
    fn role_now(&self) -> Role {
        match (self.role, acting()) {
            (Role::Bulk, Role::Read) => Role::Scan,
            (own, _) => own,
        }
    }

    /// Asks the source until so many pages are known that were not asked for.
    fn learn(&mut self, pages: usize, ahead: usize, but: Option<PageId>) {
        for _ in 0..ASKS_MAX {
            if self.ended || self.known.len() >= pages || self.ask(ahead, but) != More::Found {
                return;
            }
        }
    }

    fn ask(&mut self, ahead: usize, but: Option<PageId>) -> More {
        let more = self.source.more(&mut self.next, ahead);
        self.ended = more == More::Ended;
        self.known.extend(self.next.pages.drain(..));
        self.next.branches.retain(|&branch| Some(branch) != but);
        if !self.next.branches.is_empty() {
            let pool = &self.ahead.0.pool;
            let begun = pool.prefetch(&self.next.branches, self.role_now(), None);
            self.ahead.0.streams.read(self.role, begun.reads);
            self.next.branches.clear();
        }
        more
    }

    fn submit(&mut self, wanted: usize, but: Option<PageId>) {
        if let Some(but) = but
            && self.known.front() == Some(&but)
        {
            self.known.pop_front();
            self.window.push_back((but, None));
        }
        let wanted = wanted.min(self.known.len());
        if wanted == 0 {
            return;
        }
        let pool = &self.ahead.0.pool;
        let role = self.role_now();
        let ids = &self.known.make_contiguous()[..wanted];
        let held = self.window.len();
        let begun = pool.prefetch(ids, role, Some(&mut self.window));
        let asked_for = self.window.range(held..);
        let read = asked_for.filter_map(|(id, reading)| reading.as_ref().map(|_| *id));
        self.pace.asked_for(read, Instant::now());
        self.known.drain(..begun.looked_at);
        if begun.reads > 0 {
            self.course.unread = 0;
            self.reads = self.reads.saturating_add(begun.reads as u32);
        }
        self.ahead.0.streams.read(self.role, begun.reads);
        self.ahead.0.streams.reached(self.role, self.window.len());
    }
}

/// Pages that are asked for at a time: so many that requests are merged, but no
/// more, however large the distance. A device that tells of its work only when it
/// has nothing left would else stand still while the consumer goes through a
/// large part, and the consumer while the device does.
fn batch(distance: usize) -> usize {
    (distance / 4).clamp(1, EXTENT_PAGES as usize)
}

impl<S> PageStream<'_, S> {
    /// Its consumer is through, but another may go on from `trail`: what it has
    /// asked for stays, as much as the replacement keeps of pages that nobody
    /// holds. Unless all has been in memory for a while: that of a few ranges is,
    /// where one of them has read farther ahead than those behind it.
    fn leave(&mut self, trail: Trail) {
        if self.course.unread > UNREAD_MAX {
            return;
        }
        let count = self.window.len().min(self.ahead.left_max());
        self.ahead.0.pool.release(self.window.drain(..count));
        self.ahead.0.streams.trails.leave(trail, self.course);
    }
}

impl<S> Drop for PageStream<'_, S> {
    fn drop(&mut self) {
        self.ahead.0.pool.give_up(self.window.drain(..));
        self.ahead
            .0
            .streams
            .end(self.role, self.part == Part::Within);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A large distance is refilled by the extent, not by a quarter.
    #[test]
    fn pages_are_asked_for_by_quarters_and_at_most_by_the_extent() {
        assert_eq!([1, 3, 16, 128].map(batch), [1, 1, 4, 32]);
        assert_eq!(
            [256, 1024, usize::MAX].map(batch),
            [EXTENT_PAGES as usize; 3]
        );
    }
}
