//! One transfer on its way through the backend, to its full length.

use crate::backend::{Op, OpCode};
use crate::error::Cause;
use crate::sys::span::{Junk, Span, Vectors};
use iolane_sched::{Member, RequestId};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

/// How often one operation is repeated after `EINTR` or `EAGAIN` in a row,
/// before the error is believed.
const RETRIES_MAX: u8 = 16;

/// What all requests of a transfer have in common.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub head: RequestId,
    pub code: OpCode,
    pub fd: RawFd,
    pub ioprio: u16,
    /// Direct I/O, with this grid for offsets.
    pub direct: bool,
    pub offset_align: u32,
    /// Its only member is a write that arrives whole or not at all.
    pub atomic: bool,
}

/// What to do with a flight after one of its operations completed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Push its next operation.
    Again,
    /// All its requests have their results.
    Done,
}

/// Its members stand in `members` and `spans`, in position order.
///
/// A transfer that comes up short is continued. One that fails is repeated
/// member by member, one after the other, so that an error hits the request
/// that it belongs to.
pub(crate) struct Flight {
    target: Target,
    members: Vec<Member>,
    spans: Vec<Span>,
    vectors: Vectors,
    /// Where the operation in flight began, and the bytes done from there.
    offset: u64,
    length: u64,
    done: u64,
    retries: u8,
    /// Empty while the transfer goes as one; otherwise the results so far, and
    /// the next member is the one in flight.
    results: Vec<Result<u32, Cause>>,
    one_by_one: bool,
}

impl Flight {
    pub(crate) fn new(target: Target) -> Flight {
        Flight {
            target,
            members: Vec::new(),
            spans: Vec::new(),
            vectors: Vectors::default(),
            offset: 0,
            length: 0,
            done: 0,
            retries: 0,
            results: Vec::new(),
            one_by_one: false,
        }
    }

    /// Makes a flight that has ended ready for another transfer.
    pub(crate) fn reset(&mut self, target: Target) {
        self.target = target;
        self.members.clear();
        self.spans.clear();
        self.results.clear();
        self.one_by_one = false;
    }

    /// The next request in position order.
    pub(crate) fn add(&mut self, member: Member, span: Span) {
        self.members.push(member);
        self.spans.push(span);
    }

    /// Lays out the vectors of the whole transfer; `junk` takes the gaps.
    pub(crate) fn prepare(&mut self, junk: &mut Option<Junk>, gap_bytes_max: u32) {
        let (Some(first), Some(last)) = (self.members.first(), self.members.last()) else {
            unreachable!("a transfer has at least one request");
        };
        self.offset = first.offset;
        self.length = last.offset + u64::from(last.length) - first.offset;
        self.done = 0;
        self.retries = 0;
        self.vectors.clear();
        if self.is_sync() {
            return;
        }
        let mut end = first.offset;
        for (member, span) in self.members.iter().zip(&self.spans) {
            let gap = (member.offset - end) as u32;
            if gap > 0 {
                let junk = junk.get_or_insert_with(|| Junk::new(gap_bytes_max));
                self.vectors.push_gap(junk, gap);
            }
            self.vectors.push(*span);
            end = member.offset + u64::from(member.length);
        }
    }

    pub(crate) fn head(&self) -> RequestId {
        self.target.head
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// The operation to push now.
    pub(crate) fn operation(&self, token: u64) -> Op {
        let (iov, iov_count) = self.vectors.remaining();
        Op {
            token,
            code: self.target.code,
            fd: self.target.fd,
            offset: self.offset + self.done,
            iov,
            iov_count,
            ioprio: self.target.ioprio,
            direct: self.target.direct,
            atomic: self.target.atomic,
        }
    }

    /// Takes the result of the operation in flight: bytes or `-errno`.
    pub(crate) fn completed(&mut self, result: i32) -> Step {
        if result < 0 {
            let repeat = matches!(-result, libc::EINTR | libc::EAGAIN);
            if repeat && self.retries < RETRIES_MAX {
                self.retries += 1;
                return Step::Again;
            }
            return self.failed(kernel(-result));
        }
        self.retries = 0;
        let bytes = result as u64;
        self.done += bytes;
        if self.is_sync() || self.done >= self.length {
            return self.succeeded();
        }
        // A direct transfer that ends off the grid ended at the end of the
        // file; one cannot go on from there. The rest of a write that had to
        // arrive whole would be another write.
        let ended = bytes == 0
            || self.target.atomic
            || self.target.direct && !bytes.is_multiple_of(u64::from(self.target.offset_align));
        match (ended, self.target.code) {
            (false, _) => {
                self.vectors.advance(bytes as usize);
                Step::Again
            }
            (true, OpCode::Read) => self.succeeded(),
            (true, _) => self.failed(Cause::ShortWrite {
                written: self.done as u32,
            }),
        }
    }

    /// The result of member `index` of a flight that is done.
    pub(crate) fn result(&self, index: usize) -> Result<u32, Cause> {
        if let Some(result) = self.results.get(index) {
            return result.clone();
        }
        let member = &self.members[index];
        let transferred = (self.offset + self.done).saturating_sub(member.offset);
        Ok(transferred.min(u64::from(member.length)) as u32)
    }

    /// Whether the device did all that was asked: only then does the time
    /// taken say something about it.
    pub(crate) fn is_ok(&self) -> bool {
        !self.one_by_one && self.results.is_empty()
    }

    fn is_sync(&self) -> bool {
        matches!(self.target.code, OpCode::SyncData | OpCode::SyncAll)
    }

    fn succeeded(&mut self) -> Step {
        if !self.one_by_one {
            return Step::Done;
        }
        self.results.push(Ok(self.done as u32));
        self.next_alone()
    }

    fn failed(&mut self, cause: Cause) -> Step {
        if self.members.len() > 1 && !self.one_by_one {
            self.one_by_one = true;
        } else {
            self.results.push(Err(cause));
        }
        self.next_alone()
    }

    /// Begins the first member without a result as an operation of its own.
    fn next_alone(&mut self) -> Step {
        let Some(member) = self.members.get(self.results.len()) else {
            return Step::Done;
        };
        self.offset = member.offset;
        self.length = u64::from(member.length);
        self.done = 0;
        self.retries = 0;
        self.vectors.clear();
        self.vectors.push(self.spans[self.results.len()]);
        Step::Again
    }
}

pub(crate) fn kernel(errno: i32) -> Cause {
    Cause::Kernel(Arc::new(io::Error::from_raw_os_error(errno)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane_sched::{Config, Kind, Level, Policy, Request, Scheduler};

    const ALIGN: u32 = 512;

    fn flight(code: OpCode, direct: bool, lengths: &[u32]) -> Flight {
        let mut scheduler = Scheduler::new(Config::new(Policy::Noop)).unwrap();
        let mut offset = 8192;
        let mut members = Vec::new();
        for &length in lengths {
            let request = Request {
                kind: Kind::Read,
                file: 0,
                offset,
                length,
                level: Level::Normal,
                durable: false,
            };
            members.push(Member {
                id: scheduler.enqueue(0, request).unwrap(),
                offset,
                length,
                enqueued_ns: 0,
            });
            offset += u64::from(length);
        }
        let mut flight = Flight::new(Target {
            head: members[0].id,
            code,
            fd: -1,
            ioprio: 0,
            direct,
            offset_align: ALIGN,
            atomic: false,
        });
        for member in members {
            // Addresses are not looked at here.
            flight.add(member, Span::of_slice(&[]));
        }
        flight.prepare(&mut None, 0);
        flight
    }

    fn results(flight: &Flight) -> Vec<Option<u32>> {
        (0..flight.members().len())
            .map(|index| flight.result(index).ok())
            .collect()
    }

    #[test]
    fn a_short_transfer_goes_on_where_it_stopped() {
        for code in [OpCode::Read, OpCode::Write] {
            let mut flight = flight(code, true, &[4096, 4096]);
            assert_eq!(flight.completed(512), Step::Again);
            assert_eq!(flight.operation(0).offset, 8192 + 512);
            assert_eq!(flight.completed(-libc::EINTR), Step::Again);
            assert_eq!(flight.completed(7680), Step::Done);
            assert_eq!(results(&flight), [Some(4096), Some(4096)]);
            assert!(flight.is_ok());
        }
    }

    #[test]
    fn the_end_of_the_file_cuts_the_members_behind_it() {
        let mut at_zero = flight(OpCode::Read, false, &[100, 100, 100]);
        assert_eq!(at_zero.completed(150), Step::Again);
        assert_eq!(at_zero.completed(0), Step::Done);
        assert_eq!(results(&at_zero), [Some(100), Some(50), Some(0)]);
        // Direct: 700 is no multiple of 512, so the file ended there.
        let mut off_grid = flight(OpCode::Read, true, &[512, 512]);
        assert_eq!(off_grid.completed(700), Step::Done);
        assert_eq!(results(&off_grid), [Some(512), Some(188)]);
    }

    #[test]
    fn a_write_that_gets_nowhere_fails() {
        let mut flight = flight(OpCode::Write, false, &[4096]);
        assert_eq!(flight.completed(1000), Step::Again);
        assert_eq!(flight.completed(0), Step::Done);
        let result = flight.result(0);
        assert!(
            matches!(result, Err(Cause::ShortWrite { written: 1000 })),
            "{result:?}"
        );
        assert!(!flight.is_ok());
    }

    #[test]
    fn a_write_that_must_arrive_whole_is_not_continued() {
        let mut flight = flight(OpCode::Write, true, &[8192]);
        flight.target.atomic = true;
        assert!(flight.operation(0).atomic);
        assert_eq!(flight.completed(4096), Step::Done);
        let result = flight.result(0);
        assert!(
            matches!(result, Err(Cause::ShortWrite { written: 4096 })),
            "{result:?}"
        );
    }

    #[test]
    fn after_a_failure_each_member_is_tried_once() {
        let mut flight = flight(OpCode::Read, false, &[100, 200, 300]);
        assert_eq!(flight.completed(-libc::EIO), Step::Again);
        assert_eq!(flight.operation(0).offset, 8192);
        assert_eq!(flight.completed(100), Step::Again);
        assert_eq!(flight.operation(0).offset, 8292);
        assert_eq!(flight.completed(-libc::EIO), Step::Again);
        assert_eq!(flight.operation(0).offset, 8492);
        assert_eq!(flight.completed(40), Step::Again);
        assert_eq!(flight.operation(0).offset, 8532);
        assert_eq!(flight.completed(0), Step::Done);
        assert_eq!(results(&flight), [Some(100), None, Some(40)]);
    }
}
