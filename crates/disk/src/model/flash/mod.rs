//! Flash: many dies behind one interface.
//!
//! A read occupies one die for each flash page that it touches, then the die's
//! channel, then the interface. A write goes over the interface into a buffer,
//! and is announced there; the buffer's data are programmed, a unit at a time,
//! on whichever die is free. Garbage collection makes every die copy and erase
//! beside that, as much as the map of what is valid where says.
//!
//! Times are computed when a command comes, as far as nothing later can change
//! them. What is left are two kinds of events: a page is ready in its die, and
//! a die has ended a program or erase.
//!
//! Not modelled: reads that find their data in the buffer, trim, wear, heat,
//! a faster cache of single-bit cells.

mod buffer;
mod die;
mod foresight;
mod mapping;
mod parameters;
mod slots;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub use parameters::FlashParameters;

use super::check::us_to_ns;
use super::seeded::Seeded;
use super::{Command, Done, Kind, Model, ParameterError, assert_valid};
use buffer::Buffer;
use die::{Die, DieTimes};
use foresight::{Passing, Pending};
use mapping::Mapping;
use parameters::MAPPED_BYTES;
use slots::Slots;

/// Something that happens inside. Ordered by time, then by when it was planned,
/// so that runs repeat.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at_ns: u64,
    planned: u64,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The page of a read is ready in its die. The number is of the page read.
    PageReady(u32),
    /// A die has ended a program, copy or erase.
    DieFree(u32),
}

/// One flash page of a read command.
#[derive(Clone, Copy)]
struct PageRead {
    read: u32,
    channel: u32,
    bytes: u32,
    /// As it was foreseen.
    passing: Passing,
}

/// A read command with pages outstanding.
#[derive(Clone, Copy)]
struct Read {
    tag: u32,
    pages_left: u32,
    done_ns: u64,
}

/// A write that has not found room for all of its data.
struct WaitingWrite {
    tag: u32,
    arrived_ns: u64,
    bytes_left: u64,
    durable: bool,
}

/// A flush, or a durable write, that waits for the flash.
struct WaitingDurable {
    tag: u32,
    position: u64,
}

/// A flash disk. See the module's description.
pub struct Flash {
    parameters: FlashParameters,
    dies: Vec<Die>,
    /// Dies without a program, copy or erase, in the order in which they
    /// became so.
    idle: VecDeque<u32>,
    /// What a die works at, when that is a unit of the buffer.
    unit_of_die: Vec<Option<u32>>,
    die_times: DieTimes,
    channels_free_ns: Vec<u64>,
    to_host_free_ns: u64,
    /// The same clock as `to_host_free_ns` on an interface that is not duplex.
    from_host_free_ns: u64,
    mapping: Mapping,
    buffer: Buffer,
    waiting_writes: VecDeque<WaitingWrite>,
    waiting_durable: VecDeque<WaitingDurable>,
    page_reads: Slots<PageRead>,
    reads: Slots<Read>,
    events: BinaryHeap<Reverse<Event>>,
    planned: u64,
    /// In order of time.
    completions: VecDeque<Done>,
    outstanding: usize,
    /// The command that was submitted last, and its end if it is a read.
    last: (u32, Option<u64>),
    /// Of page reads.
    pending: Pending,
    chance: Seeded,
    times: Times,
}

/// The parameters' times, in nanoseconds.
struct Times {
    read_least_ns: u64,
    read_range_ns: u64,
    read_ns: u64,
    program_ns: u64,
    erase_ns: u64,
    command_ns: f64,
    interface_ns_per_byte: f64,
    channel_ns_per_byte: f64,
    read_overhead_ns: u64,
    buffered_write_ns: u64,
}

impl Times {
    fn new(parameters: &FlashParameters) -> Times {
        let read_ns = parameters.read_us * 1e3;
        Times {
            read_least_ns: (read_ns * (1.0 - parameters.read_spread)) as u64,
            read_range_ns: (read_ns * parameters.read_spread * 2.0) as u64 + 1,
            read_ns: us_to_ns(parameters.read_us),
            program_ns: us_to_ns(parameters.program_us),
            erase_ns: us_to_ns(parameters.erase_us),
            command_ns: parameters.command_us * 1e3,
            interface_ns_per_byte: 1e3 / parameters.interface_mb_per_second,
            channel_ns_per_byte: 1e3 / parameters.channel_mb_per_second,
            read_overhead_ns: us_to_ns(parameters.read_overhead_us),
            buffered_write_ns: us_to_ns(parameters.buffered_write_us),
        }
    }

    /// How long a command's data, or the `part` of it, keep the interface.
    fn interface_ns(&self, bytes: u64, part: f64) -> u64 {
        (self.command_ns * part + bytes as f64 * self.interface_ns_per_byte).round() as u64
    }

    /// No completion comes sooner after the event that leads to it.
    fn event_to_completion_ns(&self) -> u64 {
        self.read_overhead_ns.min(self.buffered_write_ns)
    }
}

impl Flash {
    /// # Errors
    /// [`ParameterError`] for parameters of no possible disk.
    pub fn new(parameters: FlashParameters, seed: u64) -> Result<Flash, ParameterError> {
        parameters.validate()?;
        let dies = parameters.dies();
        let mut chance = Seeded::new(seed);
        let mapping = Mapping::new(&parameters, chance.next());
        let die = Die::default();
        let mut flash = Flash {
            dies: vec![die; dies as usize],
            idle: (0..dies).collect(),
            unit_of_die: vec![None; dies as usize],
            die_times: DieTimes {
                suspend_ns: us_to_ns(parameters.suspend_us),
                suspends_max: parameters.suspends_max,
            },
            channels_free_ns: vec![0; parameters.channels as usize],
            to_host_free_ns: 0,
            from_host_free_ns: 0,
            mapping,
            buffer: Buffer::new(
                parameters.buffer_bytes,
                u64::from(parameters.program_bytes),
                dies as usize,
            ),
            waiting_writes: VecDeque::with_capacity(parameters.queue_max),
            waiting_durable: VecDeque::with_capacity(parameters.queue_max),
            page_reads: Slots::new(),
            reads: Slots::new(),
            events: BinaryHeap::with_capacity(parameters.queue_max + dies as usize),
            planned: 0,
            completions: VecDeque::with_capacity(parameters.queue_max),
            outstanding: 0,
            last: (0, None),
            pending: Pending::new(parameters.channels),
            times: Times::new(&parameters),
            chance,
            parameters,
        };
        flash.scatter_erases();
        Ok(flash)
    }

    /// Dies of a disk in use are at different places in their blocks.
    fn scatter_erases(&mut self) {
        let units = self.parameters.erase_block_bytes / u64::from(self.parameters.program_bytes);
        for die in &mut self.dies {
            die.erase_debt_bytes =
                self.chance.below(units) * u64::from(self.parameters.program_bytes);
        }
    }

    /// The die and channel on which a logical page lies. Pages that follow each
    /// other lie on different dies, each row of them rotated by chance: on a
    /// disk in use no regular step of addresses meets one die only.
    fn die_of(&self, page: u64) -> u32 {
        // 64 TiB of the smallest pages fit: narrower divisions are faster.
        let dies = self.dies.len() as u32;
        let (row, column) = match u32::try_from(page) {
            Ok(page) => (u64::from(page / dies), page % dies),
            Err(_) => (page / u64::from(dies), (page % u64::from(dies)) as u32),
        };
        let turned = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let turn = ((turned * u64::from(dies)) >> 32) as u32;
        let die = column + turn;
        if die >= dies { die - dies } else { die }
    }

    fn plan(&mut self, at_ns: u64, what: What) {
        self.planned += 1;
        self.events.push(Reverse(Event {
            at_ns,
            planned: self.planned,
            what,
        }));
    }

    /// Completions come nearly in order: the right place is near the end.
    fn complete(&mut self, tag: u32, at_ns: u64) {
        let mut index = self.completions.len();
        while index > 0 && self.completions[index - 1].at_ns > at_ns {
            index -= 1;
        }
        self.completions.insert(index, Done { tag, at_ns });
    }

    fn submit_read(&mut self, now_ns: u64, command: &Command) {
        let page_bytes = u64::from(self.parameters.page_bytes);
        let end = command.offset + u64::from(command.length);
        let first = command.offset / page_bytes;
        let last = (end - 1) / page_bytes;
        let read = self.reads.put(Read {
            tag: command.tag,
            pages_left: (last - first + 1) as u32,
            done_ns: 0,
        });
        let mut foreseen_ns = 0;
        for page in first..=last {
            let from = command.offset.max(page * page_bytes);
            let to = end.min((page + 1) * page_bytes);
            let die = self.die_of(page);
            let read_ns = self.times.read_least_ns + self.chance.below(self.times.read_range_ns);
            let ready_ns = self.dies[die as usize].read(now_ns, read_ns, &self.die_times);
            let channel = die % self.parameters.channels;
            let part = if page == first { 1.0 } else { 0.0 };
            let passing = Passing::new(to - from, part, &self.times);
            let free_ns = (
                now_ns.max(self.channels_free_ns[channel as usize]),
                now_ns.max(self.to_host_free_ns),
            );
            let passed_ns = self.pending.foresee_ns(channel, passing, ready_ns, free_ns);
            foreseen_ns = foreseen_ns.max(passed_ns);
            let page_read = self.page_reads.put(PageRead {
                read,
                channel,
                bytes: (to - from) as u32,
                passing,
            });
            self.plan(ready_ns, What::PageReady(page_read));
        }
        self.last.1 = Some(foreseen_ns + self.times.read_overhead_ns);
    }

    /// A page leaves its die. Channel and interface pass on what they have
    /// while the rest still comes, so the slower of the two decides.
    fn page_ready(&mut self, now_ns: u64, page_read: u32) {
        let page = self.page_reads.take(page_read);
        self.pending.pass(page.channel, page.passing);
        let bytes = u64::from(page.bytes);
        let channel = &mut self.channels_free_ns[page.channel as usize];
        *channel = now_ns.max(*channel) + page.passing.over_channel_ns;
        let channel_ns = *channel;
        let read = self.reads.get(page.read);
        // The command itself is paid for once, with its last page.
        let part = if read.pages_left == 1 { 1.0 } else { 0.0 };
        let interface_ns = now_ns.max(self.to_host_free_ns) + self.times.interface_ns(bytes, part);
        self.to_host_free_ns = interface_ns;
        if !self.parameters.interface_duplex {
            self.from_host_free_ns = interface_ns;
        }
        read.pages_left -= 1;
        read.done_ns = read.done_ns.max(channel_ns).max(interface_ns);
        if read.pages_left == 0 {
            let read = self.reads.take(page.read);
            self.complete(read.tag, read.done_ns + self.times.read_overhead_ns);
        }
    }

    /// When a command and its data have come over the interface.
    fn receive(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let arrived_ns = now_ns.max(self.from_host_free_ns) + self.times.interface_ns(bytes, 1.0);
        self.from_host_free_ns = arrived_ns;
        if !self.parameters.interface_duplex {
            self.to_host_free_ns = arrived_ns;
        }
        arrived_ns
    }

    fn submit_write(&mut self, now_ns: u64, command: &Command) {
        let length = u64::from(command.length);
        let arrived_ns = self.receive(now_ns, length);
        let first_page = command.offset / MAPPED_BYTES;
        let pages = (command.offset + length).div_ceil(MAPPED_BYTES) - first_page;
        self.mapping.write(first_page, pages);
        self.waiting_writes.push_back(WaitingWrite {
            tag: command.tag,
            arrived_ns,
            bytes_left: pages * MAPPED_BYTES,
            durable: command.durable,
        });
        self.admit(now_ns);
    }

    /// Lets waiting writes into the buffer, first come first served, and its
    /// data on to the dies.
    fn admit(&mut self, now_ns: u64) {
        while let Some(write) = self.waiting_writes.front_mut() {
            let taken = self.buffer.accept(write.bytes_left);
            write.bytes_left -= taken;
            let at_ns = now_ns.max(write.arrived_ns);
            if write.bytes_left > 0 {
                if taken == 0 {
                    break;
                }
                self.feed_dies(at_ns);
                continue;
            }
            let (tag, durable) = (write.tag, write.durable);
            self.waiting_writes.pop_front();
            if durable && !self.parameters.power_loss_protected {
                self.wait_until_durable(tag);
            } else {
                self.complete(tag, at_ns + self.times.buffered_write_ns);
            }
            self.feed_dies(at_ns);
        }
    }

    fn wait_until_durable(&mut self, tag: u32) {
        self.buffer.force();
        self.waiting_durable.push_back(WaitingDurable {
            tag,
            position: self.buffer.accepted(),
        });
    }

    fn submit_flush(&mut self, now_ns: u64, tag: u32) {
        let arrived_ns = self.receive(now_ns, 0);
        let nothing_to_do = self.buffer.durable() == self.buffer.accepted();
        if self.parameters.power_loss_protected || nothing_to_do {
            self.complete(tag, arrived_ns + self.times.buffered_write_ns);
        } else {
            self.wait_until_durable(tag);
            self.feed_dies(arrived_ns);
        }
    }

    /// Gives dies without a slow operation what there is to program.
    fn feed_dies(&mut self, now_ns: u64) {
        while self.buffer.has_unit()
            && let Some(die) = self.idle.pop_front()
        {
            self.occupy(now_ns, die);
        }
    }

    /// The next slow operation of a die: erase and copy as much as is due, then
    /// program; without any it idles.
    fn occupy(&mut self, now_ns: u64, index: u32) {
        let program_bytes = u64::from(self.parameters.program_bytes);
        let die = &mut self.dies[index as usize];
        let slow_ns;
        if die.erase_debt_bytes >= self.parameters.erase_block_bytes {
            die.erase_debt_bytes -= self.parameters.erase_block_bytes;
            slow_ns = self.times.erase_ns;
        } else if die.copy_debt_bytes >= program_bytes as f64 {
            die.copy_debt_bytes -= program_bytes as f64;
            die.erase_debt_bytes += program_bytes;
            slow_ns = self.times.read_ns + self.times.program_ns;
        } else if self.buffer.has_unit() {
            die.copy_debt_bytes += self.mapping.copy_ratio() * program_bytes as f64;
            die.erase_debt_bytes += program_bytes;
            self.unit_of_die[index as usize] = Some(self.buffer.dispatch());
            slow_ns = self.times.program_ns;
        } else {
            self.idle.push_back(index);
            return;
        }
        let end_ns = die.begin_slow(now_ns, slow_ns);
        self.plan(end_ns, What::DieFree(index));
    }

    fn die_free(&mut self, now_ns: u64, index: u32) {
        let end_ns = self.dies[index as usize].slow_end_ns();
        if end_ns > now_ns {
            // Reads have gone first.
            self.plan(end_ns, What::DieFree(index));
            return;
        }
        if let Some(unit) = self.unit_of_die[index as usize].take() {
            self.buffer.programmed(unit);
            self.tell_durable(now_ns);
            self.admit(now_ns);
        }
        self.occupy(now_ns, index);
    }

    fn tell_durable(&mut self, now_ns: u64) {
        while let Some(first) = self.waiting_durable.front()
            && first.position <= self.buffer.durable()
        {
            let tag = first.tag;
            self.waiting_durable.pop_front();
            self.complete(tag, now_ns + self.times.buffered_write_ns);
        }
    }
}

impl Model for Flash {
    fn capacity_bytes(&self) -> u64 {
        self.parameters.capacity_bytes
    }

    fn queue_max(&self) -> usize {
        self.parameters.queue_max
    }

    fn submit(&mut self, now_ns: u64, command: Command) {
        assert_valid(self, self.outstanding, &command);
        self.outstanding += 1;
        self.last = (command.tag, None);
        match command.kind {
            Kind::Read => self.submit_read(now_ns, &command),
            Kind::Write => self.submit_write(now_ns, &command),
            Kind::Flush => self.submit_flush(now_ns, command.tag),
        }
    }

    fn foreseen_ns(&self) -> Option<u64> {
        let (tag, read_ends_ns) = self.last;
        let is_it = |done: &&Done| done.tag == tag;
        read_ends_ns.or_else(|| Some(self.completions.iter().rev().find(is_it)?.at_ns))
    }

    fn next_event_ns(&self) -> Option<u64> {
        // Events are handled at their own times even when the host comes later.
        // So it need not come before one of them can have ended a command.
        let event_ns = self
            .events
            .peek()
            .map(|event| event.0.at_ns + self.times.event_to_completion_ns());
        let done_ns = self.completions.front().map(|done| done.at_ns);
        match (event_ns, done_ns) {
            (Some(event_ns), Some(done_ns)) => Some(event_ns.min(done_ns)),
            (event_ns, done_ns) => event_ns.or(done_ns),
        }
    }

    fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        while let Some(&Reverse(event)) = self.events.peek()
            && event.at_ns <= now_ns
        {
            self.events.pop();
            match event.what {
                What::PageReady(page_read) => self.page_ready(event.at_ns, page_read),
                What::DieFree(die) => self.die_free(event.at_ns, die),
            }
        }
        while let Some(first) = self.completions.front()
            && first.at_ns <= now_ns
        {
            done.push(*first);
            self.completions.pop_front();
            self.outstanding -= 1;
        }
    }
}
