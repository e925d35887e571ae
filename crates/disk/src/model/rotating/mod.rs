//! A disk with platters, an arm and a buffer.
//!
//! The parts, each in its file: how long the arm takes (`seek`), where the
//! sectors lie and when they pass (`geometry`), which command goes next
//! (`queue`), what the buffer holds (`buffer`), and how it is filled ahead of
//! who reads on (`ahead`). Here they are put together.
//!
//! One command's way: it arrives, and is served from the buffer if its data
//! are there, or it waits with the others. The arm goes for the one that it
//! reaches first. Its sectors pass under the head, and go over the interface
//! while they pass. Behind a read the head reads on into the buffer until
//! something else is to be done. A write is done when it is in the buffer,
//! as long as a write segment is free; the writes that find none are taken in
//! the order in which they came, as segments become free.
//!
//! Left out: defects, retries, recalibration, several disks on one bus, and
//! reading a track from its middle.

mod ahead;
mod buffer;
mod geometry;
mod parameters;
mod presets;
mod queue;
mod seek;

use std::collections::VecDeque;

pub use parameters::{RotatingParameters, Zone};

use self::buffer::{Dirty, ReadBuffer, WriteCache};
use self::geometry::{Geometry, Place, Run};
use self::parameters::SECTOR_BYTES;
use self::queue::{Arm, Choice, Mechanics};
use self::seek::{SeekCurve, ms_to_ns};
use super::{Command, Done, Kind, Model, ParameterError, assert_valid};

/// A command that needs the medium.
#[derive(Clone, Copy)]
struct Waiting {
    tag: u32,
    write: bool,
    first: u64,
    end: u64,
    place: Place,
    since_ns: u64,
    /// When the controller has prepared it.
    ready_ns: u64,
    /// Whether its range begins where that of another one ends, which then
    /// goes first.
    follows: bool,
}

/// What the sectors that pass under the head belong to.
#[derive(Clone, Copy)]
enum Work {
    Read {
        tag: u32,
        bytes: u64,
        segment: usize,
        begun_ns: u64,
    },
    Write {
        tag: u32,
    },
    Destage,
}

/// What the arm and the heads are doing.
#[derive(Clone, Copy)]
enum Motion {
    Idle,
    /// On the way to, or passing over, sectors up to `end`.
    Access {
        work: Work,
        /// The track of the last sectors.
        run: Run,
        end: u64,
        end_ns: u64,
    },
    /// Reading on behind a read, into its segment, up to `limit`.
    ReadAhead {
        run: Run,
        segment: usize,
        limit: u64,
    },
}

/// What may go next.
#[derive(Clone, Copy)]
enum Next {
    Waiting(usize),
    Dirty(usize),
}

/// A flush that waits for the writes before `sequence`.
struct Flush {
    tag: u32,
    sequence: u64,
}

/// A rotating disk: see [`RotatingParameters`] for what describes it, and
/// for the disks that are known by name.
///
/// ```
/// use iolane_disk::model::{Rotating, RotatingParameters};
/// use iolane_disk::{Command, Kind, Model};
///
/// let mut disk = Rotating::new(RotatingParameters::ultrastar_36lzx()).unwrap();
/// let (kind, offset, length) = (Kind::Read, 10 << 30, 16 << 10);
/// disk.submit(0, Command { tag: 1, kind, offset, length, durable: false });
/// let mut done = Vec::new();
/// while let Some(event_ns) = disk.next_event_ns() {
///     disk.advance(event_ns, &mut done);
/// }
/// assert!((1_000_000..20_000_000).contains(&done[0].at_ns));
/// ```
pub struct Rotating {
    mechanics: Mechanics,
    command_overhead_ns: u64,
    hit_overhead_ns: u64,
    interface_ns_per_byte: f64,
    age_max_ns: u64,
    queue_max: usize,
    read_ahead: bool,
    write_back: bool,
    capacity_bytes: u64,

    arm: Arm,
    motion: Motion,
    waiting: Vec<Waiting>,
    buffer: ReadBuffer,
    cache: WriteCache,
    /// Writes for which the cache has no room, in order of arrival, and when
    /// the controller has prepared each.
    held: VecDeque<(u64, Command)>,
    flushes: VecDeque<Flush>,
    /// When the interface is free for the next transfer.
    interface_free_ns: u64,
    /// Each ends with the interface, so they are in order of time.
    done: VecDeque<Done>,
    outstanding: usize,
}

impl Rotating {
    /// # Errors
    /// [`ParameterError`] for parameters of which no disk can be made.
    pub fn new(parameters: RotatingParameters) -> Result<Rotating, ParameterError> {
        parameters.validate()?;
        let seek = SeekCurve::new(
            parameters.seek_track_ms,
            parameters.seek_average_ms,
            parameters.seek_full_ms,
            parameters.cylinders(),
        )?;
        let segments = parameters.segments as usize;
        let segment_sectors =
            parameters.buffer_bytes / SECTOR_BYTES / u64::from(parameters.segments);
        let write_segments = parameters.write_segments as usize;
        Ok(Rotating {
            mechanics: Mechanics {
                geometry: Geometry::new(&parameters),
                seek,
                write_settle_ns: ms_to_ns(parameters.write_settle_ms),
                arrival_margin_ns: us_to_ns(parameters.arrival_margin_us),
            },
            command_overhead_ns: us_to_ns(parameters.command_overhead_us),
            hit_overhead_ns: us_to_ns(parameters.hit_overhead_us),
            interface_ns_per_byte: 1e3 / parameters.interface_mb_per_second,
            age_max_ns: ms_to_ns(parameters.age_max_ms),
            queue_max: parameters.queue_max,
            read_ahead: parameters.read_ahead,
            write_back: parameters.write_back,
            capacity_bytes: parameters.capacity_bytes,
            arm: Arm {
                cylinder: 0,
                head: 0,
            },
            motion: Motion::Idle,
            waiting: Vec::with_capacity(parameters.queue_max),
            buffer: ReadBuffer::new(segments - write_segments, segment_sectors),
            cache: WriteCache::new(write_segments, segment_sectors),
            held: VecDeque::with_capacity(parameters.queue_max),
            flushes: VecDeque::with_capacity(parameters.queue_max),
            interface_free_ns: 0,
            done: VecDeque::with_capacity(parameters.queue_max),
            outstanding: 0,
        })
    }

    /// Moves bytes over the interface, not before `from_ns`, and not to their
    /// end before `until_ns`.
    fn transfer(&mut self, from_ns: u64, bytes: u64, until_ns: u64) -> u64 {
        let transfer_ns = (bytes as f64 * self.interface_ns_per_byte) as u64;
        let end_ns = (from_ns.max(self.interface_free_ns) + transfer_ns).max(until_ns);
        self.interface_free_ns = end_ns;
        end_ns
    }

    /// Announces a command whose `bytes` are ready at `from_ns`.
    fn finish(&mut self, tag: u32, from_ns: u64, bytes: u64) {
        let at_ns = self.transfer(from_ns, bytes, 0);
        self.done.push_back(Done { tag, at_ns });
    }

    fn submit_read(&mut self, now_ns: u64, tag: u32, first: u64, end: u64) {
        let bytes = (end - first) * SECTOR_BYTES;
        if self.cache.holds(first, end) || self.is_buffered(now_ns, first, end) {
            self.finish(tag, now_ns + self.hit_overhead_ns, bytes);
            return;
        }
        self.wait(now_ns, tag, false, first, end);
        self.continue_stream(now_ns);
    }

    fn submit_write(&mut self, now_ns: u64, command: Command) {
        let (first, end) = sectors(&command);
        self.buffer.invalidate(first, end);
        if command.durable || !self.write_back {
            let in_ns = now_ns + self.hit_overhead_ns;
            let arrived_ns = self.transfer(in_ns, u64::from(command.length), 0);
            self.wait(now_ns, command.tag, true, first, end);
            let waiting = self.waiting.last_mut().expect("was pushed");
            waiting.ready_ns = waiting.ready_ns.max(arrived_ns);
        } else if self.held.is_empty() && self.cache.fits(first, end) {
            self.admit(now_ns + self.hit_overhead_ns, command);
        } else {
            let ready_ns = now_ns + self.hit_overhead_ns;
            self.held.push_back((ready_ns, command));
        }
    }

    fn submit_flush(&mut self, now_ns: u64, tag: u32) {
        let sequence = self.cache.sequence;
        if self.cache.is_durable(sequence) {
            self.finish(tag, now_ns + self.hit_overhead_ns, 0);
        } else {
            self.flushes.push_back(Flush { tag, sequence });
        }
    }

    /// Queues a command for the medium. Commands that continue each other are
    /// taken from the first on: the rotation alone would have the head enter a
    /// sequence in its middle, and leave the commands before that to age.
    fn wait(&mut self, now_ns: u64, tag: u32, write: bool, first: u64, end: u64) {
        let mut follows = false;
        for waiting in self.waiting.iter_mut().filter(|it| it.write == write) {
            follows |= waiting.end == first;
            waiting.follows |= waiting.first == end;
        }
        self.waiting.push(Waiting {
            tag,
            write,
            first,
            end,
            place: self.mechanics.geometry.locate(first),
            since_ns: now_ns,
            ready_ns: now_ns + self.command_overhead_ns,
            follows,
        });
    }

    fn take_waiting(&mut self, index: usize) -> Waiting {
        let taken = self.waiting.swap_remove(index);
        for waiting in self.waiting.iter_mut().filter(|it| it.write == taken.write) {
            waiting.follows &= waiting.first != taken.end;
        }
        taken
    }

    /// Takes a write into the cache, for which there is room.
    fn admit(&mut self, from_ns: u64, command: Command) {
        let (first, end) = sectors(&command);
        let at_ns = self.transfer(from_ns, u64::from(command.length), 0);
        self.cache.admit(Dirty {
            first,
            end,
            place: self.mechanics.geometry.locate(first),
            since_ns: from_ns,
            available_ns: at_ns,
            sequence: self.cache.sequence,
            writing: false,
        });
        self.done.push_back(Done {
            tag: command.tag,
            at_ns,
        });
    }

    /// Sectors up to `end` pass, beginning with those of `run`.
    fn pass(&mut self, work: Work, mut run: Run, end: u64) {
        while run.end < end {
            run = self
                .mechanics
                .geometry
                .next_run(&run)
                .expect("commands end within the capacity");
        }
        self.motion = Motion::Access {
            work,
            run,
            end,
            end_ns: run.passed_ns(end),
        };
    }

    /// Sends the arm to a range.
    fn access(&mut self, now_ns: u64, work: Work, first: u64, end: u64, place: &Place) {
        let write = !matches!(work, Work::Read { .. });
        let start_ns = self.mechanics.start_ns(self.arm, now_ns, place, write);
        let run = self.mechanics.geometry.run(first, place, start_ns);
        self.pass(work, run, end);
    }

    /// When the heads have something else to do than what they do.
    fn motion_event_ns(&self) -> Option<u64> {
        if let Motion::Access { end_ns, .. } = self.motion {
            return Some(end_ns);
        }
        let flushing = !self.flushes.is_empty();
        let first = self.waiting.iter().filter(|waiting| !waiting.follows);
        let waiting = first.map(|waiting| waiting.ready_ns);
        let dirty = self.cache.dirty.iter().map(|dirty| dirty.available_ns);
        dirty.chain(waiting.filter(|_| !flushing)).min()
    }

    fn step(&mut self, now_ns: u64) {
        if let Motion::Access { work, run, end, .. } = self.motion {
            self.arm = Arm {
                cylinder: run.cylinder,
                head: run.head,
            };
            self.motion = Motion::Idle;
            self.end_access(now_ns, work, run, end);
        }
        self.begin_next(now_ns);
        self.continue_stream(now_ns);
    }

    fn end_access(&mut self, now_ns: u64, work: Work, run: Run, end: u64) {
        match work {
            Work::Read {
                tag,
                bytes,
                segment,
                begun_ns,
            } => {
                self.buffer.extend(segment, end);
                let transfer_ns = (bytes as f64 * self.interface_ns_per_byte) as u64;
                let from_ns = now_ns.saturating_sub(transfer_ns).max(begun_ns);
                let at_ns = self.transfer(from_ns, bytes, now_ns);
                self.done.push_back(Done { tag, at_ns });
                if self.read_ahead {
                    let limit = end + self.buffer.segment_sectors;
                    self.motion = Motion::ReadAhead {
                        run,
                        segment,
                        limit: limit.min(self.mechanics.geometry.sectors),
                    };
                }
            }
            Work::Write { tag } => self.finish(tag, now_ns, 0),
            Work::Destage => {
                self.cache.written();
                self.take_held(now_ns);
                self.end_flushes(now_ns);
            }
        }
    }

    fn take_held(&mut self, now_ns: u64) {
        while let Some((ready_ns, command)) = self.held.front().copied() {
            let (first, end) = sectors(&command);
            if !self.cache.fits(first, end) {
                return;
            }
            self.held.pop_front();
            self.admit(now_ns.max(ready_ns), command);
        }
    }

    fn end_flushes(&mut self, now_ns: u64) {
        while let Some(flush) = self.flushes.front() {
            if !self.cache.is_durable(flush.sequence) {
                return;
            }
            let tag = flush.tag;
            self.flushes.pop_front();
            self.finish(tag, now_ns, 0);
        }
    }

    /// Sends the arm for what is best at `now_ns`, if anything is ready.
    fn begin_next(&mut self, now_ns: u64) {
        self.read_on(now_ns);
        while let Some(next) = self.choose(now_ns) {
            match next {
                Next::Dirty(index) => {
                    self.cache.dirty[index].writing = true;
                    let Dirty {
                        first, end, place, ..
                    } = self.cache.dirty[index];
                    self.access(now_ns, Work::Destage, first, end, &place);
                    return;
                }
                Next::Waiting(index) => {
                    let waiting = self.take_waiting(index);
                    if self.begin_waiting(now_ns, waiting) {
                        return;
                    }
                }
            }
        }
    }

    /// Whether the medium was needed after all.
    fn begin_waiting(&mut self, now_ns: u64, waiting: Waiting) -> bool {
        let Waiting {
            tag, first, end, ..
        } = waiting;
        if waiting.write {
            self.access(now_ns, Work::Write { tag }, first, end, &waiting.place);
            return true;
        }
        if self.is_buffered(now_ns, first, end) {
            self.finish(tag, now_ns, (end - first) * SECTOR_BYTES);
            return false;
        }
        let held = self.buffer.find(first);
        let segment = held.unwrap_or_else(|| self.buffer.replace(first));
        self.buffer.touch(segment);
        let work = Work::Read {
            tag,
            bytes: (end - first) * SECTOR_BYTES,
            segment,
            begun_ns: now_ns,
        };
        let missing = self.buffer.end(segment);
        if missing == first {
            self.access(now_ns, work, first, end, &waiting.place);
        } else {
            let place = self.mechanics.geometry.locate(missing);
            self.access(now_ns, work, missing, end, &place);
        }
        true
    }

    fn choose(&self, now_ns: u64) -> Option<Next> {
        let mut choice = Choice::new(&self.mechanics, self.arm, now_ns, self.age_max_ns);
        let flushing = !self.flushes.is_empty();
        if !flushing {
            for (index, waiting) in self.waiting.iter().enumerate() {
                if waiting.ready_ns <= now_ns && !waiting.follows {
                    let what = Next::Waiting(index);
                    choice.offer(&waiting.place, waiting.write, waiting.since_ns, what);
                }
            }
        }
        // Commands that a host waits for go before writes that it does not
        // wait for, unless somebody waits for the room or for the flush.
        let pressed = flushing || !self.held.is_empty() || choice.is_empty();
        for (index, dirty) in self.cache.dirty.iter().enumerate() {
            if dirty.available_ns <= now_ns && (pressed || choice.is_aged(dirty.since_ns)) {
                choice.offer_ageless(&dirty.place, true, Next::Dirty(index));
            }
        }
        choice.best()
    }
}

impl Model for Rotating {
    fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn queue_max(&self) -> usize {
        self.queue_max
    }

    fn rotating(&self) -> bool {
        true
    }

    fn submit(&mut self, now_ns: u64, command: Command) {
        assert_valid(self, self.outstanding, &command);
        self.outstanding += 1;
        match command.kind {
            Kind::Read => {
                let (first, end) = sectors(&command);
                self.submit_read(now_ns, command.tag, first, end);
            }
            Kind::Write => self.submit_write(now_ns, command),
            Kind::Flush => self.submit_flush(now_ns, command.tag),
        }
    }

    fn next_event_ns(&self) -> Option<u64> {
        let done = self.done.front().map(|done| done.at_ns);
        match (done, self.motion_event_ns()) {
            (Some(done), Some(motion)) => Some(done.min(motion)),
            (done, motion) => done.or(motion),
        }
    }

    fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        while let Some(event_ns) = self.motion_event_ns()
            && event_ns <= now_ns
        {
            self.step(event_ns);
        }
        while let Some(first) = self.done.front()
            && first.at_ns <= now_ns
        {
            done.push(*first);
            self.done.pop_front();
            self.outstanding -= 1;
        }
    }
}

/// The first sector of a command's range, and the one behind its last.
fn sectors(command: &Command) -> (u64, u64) {
    let end = command.offset + u64::from(command.length);
    (command.offset / SECTOR_BYTES, end / SECTOR_BYTES)
}

/// Microseconds of a description in nanoseconds.
pub(in crate::model) fn us_to_ns(us: f64) -> u64 {
    ms_to_ns(us / 1e3)
}
