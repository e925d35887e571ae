//! Mirrored pairs of rotating disks, striped, behind a controller that may
//! have a cache.
//!
//! The parts, each in its file: where the bytes lie (`layout`), the disks and
//! their queues (`member`), what the controller holds (`cache`), how it reads
//! (`reads`, `streams`) and writes (`writes`). Here they are put together.
//!
//! A command's way: the controller's processor takes it, one after the other.
//! A read goes over the link when all its lines are in the cache; those that
//! are not are read from one disk of each pair, the one that stands there or
//! has less to do. A write into a battery-backed cache is done when it is in
//! there; the lines go to both disks of their pair later, in order of
//! position and with their neighbours. Without such a cache a write is done
//! when both disks say so.
//!
//! Left out: failed disks, rebuilding, and batteries that run down.

mod cache;
mod layout;
mod member;
mod parameters;
mod reads;
mod slab;
mod streams;
mod writes;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub use parameters::Raid10Parameters;

use self::cache::{Batch, Cache, Key, LINE_BYTES};
use self::layout::{Layout, Piece};
use self::member::Member;
use self::slab::Slab;
use self::streams::Streams;
use super::rotating::us_to_ns;
use super::{Command, Done, Kind, Model, ParameterError, Rotating, assert_valid};

/// Between two spindles' phases, in turns: the golden section spreads any
/// number of them.
const PHASE_STEP_TURNS: f64 = 0.618_033_988_749_895;

/// A command of the host, until it is done.
struct Host {
    command: Command,
    /// What it still waits for.
    parts_left: usize,
    /// When its data came over the link, if that is behind it.
    transferred_ns: Option<u64>,
}

/// What a command given to a disk is for.
enum Purpose {
    /// Part of a host's command.
    Host(u32),
    /// Brings lines into the cache, for the hosts' commands that wait.
    Fill {
        first: Key,
        lines: u64,
        waiters: Vec<u32>,
    },
    /// One of the two writes of a batch.
    Destage(u32),
}

/// Lines on their way to both disks of a pair.
struct Destaging {
    batch: Batch,
    mirrors_left: u32,
}

/// When something happens next, and where.
enum Event {
    Processed,
    Aging,
    Member(usize),
}

/// A RAID-10 array: see [`Raid10Parameters`] for what describes it.
///
/// ```
/// use iolane_disk::model::{Raid10, Raid10Parameters};
/// use iolane_disk::{Command, Kind, Model};
///
/// let mut array = Raid10::new(Raid10Parameters::database_box_8()).unwrap();
/// let (kind, offset, length) = (Kind::Write, 1 << 30, 4 << 10);
/// array.submit(0, Command { tag: 1, kind, offset, length, durable: true });
/// let mut done = Vec::new();
/// array.advance(100_000, &mut done);
/// assert_eq!(done.len(), 1, "the write is in the controller's cache");
/// ```
pub struct Raid10 {
    layout: Layout,
    capacity_bytes: u64,
    queue_max: usize,
    command_overhead_ns: u64,
    command_latency_ns: u64,
    link_ns_per_byte: f64,
    write_back: bool,
    dirty_high: usize,
    dirty_low: usize,
    flush_interval_ns: u64,
    destage_depth: usize,
    destage_bytes_max: u64,
    read_ahead_bytes: u64,

    /// The mirrors of a pair stand next to each other.
    members: Vec<Member>,
    cache: Option<Cache>,
    streams: Streams,
    hosts: Slab<Host>,
    parts: Slab<Purpose>,
    batches: Slab<Destaging>,
    /// Lists of waiting commands, emptied, to be used again.
    spare: Vec<Vec<u32>>,
    /// Commands that the processor has before it, and when it has done each.
    processing: VecDeque<(u64, u32)>,
    processor_free_ns: u64,
    link_free_ns: u64,
    /// Writes for which the cache has no room, in order of arrival.
    held: VecDeque<u32>,
    /// Batches under way, and the line behind the last one, of each pair.
    destaging: Vec<(usize, u64)>,
    /// Whether dirty data go to the disks because there are too many.
    pressed: bool,
    /// Lines that are still to go because of their age.
    aged: usize,
    aging_ns: Option<u64>,
    done: BinaryHeap<Reverse<(u64, u64, u32)>>,
    finished: u64,
    outstanding: usize,
    /// Reused for what the disks report.
    ended: Vec<Done>,
}

impl Raid10 {
    /// # Errors
    /// [`ParameterError`] for parameters of which no array can be made.
    pub fn new(parameters: Raid10Parameters) -> Result<Raid10, ParameterError> {
        parameters.validate()?;
        let members = (0..parameters.disks)
            .map(|disk| {
                let mut each = parameters.disk.clone();
                let turns = each.spindle_phase_turns + disk as f64 * PHASE_STEP_TURNS;
                each.spindle_phase_turns = turns.fract();
                Rotating::new(each).map(Member::new)
            })
            .collect::<Result<Vec<Member>, ParameterError>>()?;
        let pairs = parameters.disks as u64 / 2;
        let chunks = parameters.disk.capacity_bytes / parameters.chunk_bytes;
        let lines = parameters.cache_bytes / LINE_BYTES;
        let share = |percent: f64| (lines as f64 * percent / 100.0) as usize;
        Ok(Raid10 {
            layout: Layout {
                chunk_bytes: parameters.chunk_bytes,
                pairs,
            },
            capacity_bytes: chunks * parameters.chunk_bytes * pairs,
            queue_max: parameters.queue_max,
            command_overhead_ns: us_to_ns(parameters.command_overhead_us),
            command_latency_ns: us_to_ns(parameters.command_latency_us),
            link_ns_per_byte: 1e3 / parameters.link_mb_per_second,
            write_back: parameters.write_back,
            dirty_high: share(parameters.dirty_high_percent),
            dirty_low: share(parameters.dirty_low_percent),
            flush_interval_ns: us_to_ns(parameters.flush_interval_ms * 1e3),
            destage_depth: parameters.destage_depth,
            destage_bytes_max: parameters.destage_bytes_max,
            read_ahead_bytes: parameters.read_ahead_bytes,
            members,
            cache: (lines > 0).then(|| Cache::new(parameters.cache_bytes)),
            streams: Streams::new(),
            hosts: Slab::new(),
            parts: Slab::new(),
            batches: Slab::new(),
            spare: Vec::new(),
            processing: VecDeque::with_capacity(parameters.queue_max),
            processor_free_ns: 0,
            link_free_ns: 0,
            held: VecDeque::new(),
            destaging: vec![(0, 0); pairs as usize],
            pressed: false,
            aged: 0,
            aging_ns: None,
            done: BinaryHeap::with_capacity(parameters.queue_max),
            finished: 0,
            outstanding: 0,
            ended: Vec::new(),
        })
    }

    /// The processor has taken a command: what is to be done for it begins.
    fn begin(&mut self, now_ns: u64, host: u32) {
        let command = self.hosts.get(host).command;
        match command.kind {
            Kind::Read => self.begin_read(now_ns, host, command),
            Kind::Write if self.write_back => {
                if self.held.is_empty() && self.fits(&command) {
                    self.admit(now_ns, host);
                } else {
                    self.held.push_back(host);
                    self.press(now_ns);
                }
            }
            Kind::Write => self.write_through(now_ns, host, command),
            // The battery keeps what is in the cache.
            Kind::Flush if self.write_back => self.finish(now_ns, host),
            Kind::Flush => self.flush_members(now_ns, host),
        }
    }

    /// Gives a disk a command, and says which number it has.
    fn send(
        &mut self,
        now_ns: u64,
        member: usize,
        piece: Piece,
        kind: Kind,
        durable: bool,
        purpose: Purpose,
    ) -> u32 {
        let tag = self.parts.insert(purpose);
        let command = Command {
            tag,
            kind,
            offset: piece.offset,
            length: piece.length as u32,
            durable,
        };
        self.members[member].push(now_ns, command);
        tag
    }

    fn flush_members(&mut self, now_ns: u64, host: u32) {
        self.hosts.get(host).parts_left = self.members.len();
        for member in 0..self.members.len() {
            let nothing = Piece {
                pair: member / 2,
                offset: 0,
                length: 0,
            };
            self.send(
                now_ns,
                member,
                nothing,
                Kind::Flush,
                false,
                Purpose::Host(host),
            );
        }
    }

    /// A disk has done what it was given.
    fn end(&mut self, now_ns: u64, part: u32) {
        match self.parts.remove(part) {
            Purpose::Host(host) => self.end_part(now_ns, host),
            Purpose::Fill {
                first,
                lines,
                mut waiters,
            } => {
                let cache = self.cache.as_mut().expect("only with a cache");
                for line in first.line..first.line + lines {
                    cache.filled(Key { line, ..first });
                }
                for host in waiters.drain(..) {
                    self.end_part(now_ns, host);
                }
                self.spare.push(waiters);
                self.take_held(now_ns);
            }
            Purpose::Destage(number) => {
                let destaging = self.batches.get(number);
                destaging.mirrors_left -= 1;
                if destaging.mirrors_left == 0 {
                    let batch = self.batches.remove(number).batch;
                    self.end_batch(now_ns, &batch);
                }
            }
        }
    }

    fn end_part(&mut self, now_ns: u64, host: u32) {
        let state = self.hosts.get(host);
        state.parts_left -= 1;
        if state.parts_left == 0 {
            self.finish(now_ns, host);
        }
    }

    /// Moves bytes over the link.
    fn transfer(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let transfer_ns = (bytes as f64 * self.link_ns_per_byte) as u64;
        self.link_free_ns = now_ns.max(self.link_free_ns) + transfer_ns;
        self.link_free_ns
    }

    /// Announces a command to the host.
    fn finish(&mut self, now_ns: u64, host: u32) {
        let Host {
            command,
            transferred_ns,
            ..
        } = self.hosts.remove(host);
        let end_ns = match transferred_ns {
            Some(transferred_ns) => now_ns.max(transferred_ns),
            None => self.transfer(now_ns, u64::from(command.length)),
        };
        self.finished += 1;
        let at_ns = end_ns + self.command_latency_ns;
        self.done.push(Reverse((at_ns, self.finished, command.tag)));
    }

    fn next_event(&self) -> Option<(u64, Event)> {
        let processed = self.processing.front();
        let processed = processed.map(|(at_ns, _)| (*at_ns, Event::Processed));
        let aging = self.aging_ns.map(|at_ns| (at_ns, Event::Aging));
        let members =
            self.members.iter().enumerate().filter_map(|(number, it)| {
                it.event_ns().map(|at_ns| (at_ns, Event::Member(number)))
            });
        members
            .chain(processed)
            .chain(aging)
            .min_by_key(|(at_ns, _)| *at_ns)
    }

    fn handle(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::Processed => {
                let (_, host) = self.processing.pop_front().expect("made the event");
                self.begin(now_ns, host);
            }
            Event::Aging => self.age(now_ns),
            Event::Member(number) => {
                let mut ended = std::mem::take(&mut self.ended);
                self.members[number].advance(now_ns, &mut ended);
                for done in ended.drain(..) {
                    self.end(now_ns, done.tag);
                }
                self.ended = ended;
                self.destage(now_ns, number / 2);
            }
        }
    }
}

impl Model for Raid10 {
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
        let host = self.hosts.insert(Host {
            command,
            parts_left: 0,
            transferred_ns: None,
        });
        self.processor_free_ns = now_ns.max(self.processor_free_ns) + self.command_overhead_ns;
        self.processing.push_back((self.processor_free_ns, host));
    }

    fn next_event_ns(&self) -> Option<u64> {
        let done = self.done.peek().map(|Reverse((at_ns, ..))| *at_ns);
        let event = self.next_event().map(|(at_ns, _)| at_ns);
        match (done, event) {
            (Some(done), Some(event)) => Some(done.min(event)),
            (done, event) => done.or(event),
        }
    }

    fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        while let Some((at_ns, event)) = self.next_event()
            && at_ns <= now_ns
        {
            self.handle(at_ns, event);
        }
        while let Some(Reverse((at_ns, _, tag))) = self.done.peek().copied()
            && at_ns <= now_ns
        {
            self.done.pop();
            self.outstanding -= 1;
            done.push(Done { tag, at_ns });
        }
    }
}

/// A command's first byte, and the one behind its last.
fn range(command: &Command) -> (u64, u64) {
    (command.offset, command.offset + u64::from(command.length))
}
