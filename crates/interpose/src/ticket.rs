//! Leave for one request, from asking to giving the place back.

use iolane_protocol::sys::{clock, futex};
use iolane_protocol::{
    Asked, CELLS_PER_CLIENT, Call, Cell, CellState, DEVICES_MAX, DeviceEntry, GATE_URGENT,
    KIND_READ, KIND_SYNC, Operation, RuleTable, STOPPED_NS, UNRULED, cell_of,
};

use crate::asynchronous;
use crate::client::{self, Client};
use crate::descriptor::Known;
use crate::sys::environment;
use crate::thread;

/// Between two looks at whether the broker lives.
const LOOK_NS: u64 = 20_000_000;
/// The first look, also at what became of its asynchronous requests, of a thread that submits some;
/// then it looks less and less often.
const LOOK_SUBMITTER_NS: u64 = 1_000_000;
/// Cells that are looked at for a free one before the broker is asked to hurry.
const PROBES_MAX: usize = 64;

/// What a thread is about to do.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// `KIND_READ`, `KIND_WRITE` or `KIND_SYNC`.
    pub kind: u8,
    pub offset: u64,
    pub length: usize,
    /// The thread does not wait for it.
    pub asynchronous: bool,
    /// It is no more urgent than this, whatever the rule says.
    pub level_min: u8,
}

/// A place with the device.
#[must_use = "the place has to be given back"]
#[derive(Clone, Copy)]
pub struct Ticket {
    client: Client,
    number: usize,
}

/// Asks for leave and waits for it. `None`: the request is not scheduled. `noted`: before anything
/// comes of it.
pub fn take(known: &Known, request: &Request, noted: impl FnOnce(Ticket)) -> Option<Ticket> {
    let first = thread::hint(|| environment::thread_number().wrapping_mul(0x9e37_79b1) >> 8);
    let ticket = prepare(client::current()?, known, request, first, noted)?;
    thread::set_hint(ticket.index() as u32);
    if ticket.has_started() {
        return Some(ticket);
    }
    ticket.post();
    ticket.wait(u64::MAX).then_some(ticket)
}

/// Takes a cell for the request, from `first` on. It has started if it may go at once;
/// otherwise it has to be posted.
pub fn prepare(
    client: Client,
    known: &Known,
    request: &Request,
    first: u32,
    noted: impl FnOnce(Ticket),
) -> Option<Ticket> {
    let now_ns = clock::now_ns();
    let asked = judge(client, known, request, now_ns);
    let ticket = Ticket {
        client,
        number: claim(client, first)?,
    };
    let cell = ticket.cell();
    cell.fill(&asked);
    noted(ticket);
    if ticket.device().admits(asked.level, now_ns) {
        cell.set_started_ns(now_ns);
        cell.set(CellState::Started);
        client.memory.post(ticket.number, false);
    }
    Some(ticket)
}

/// The level that a request would have now.
pub fn level(client: Client, known: &Known, request: &Request) -> u8 {
    judge(client, known, request, clock::now_ns()).level
}

/// Whether a sync by this thread is preceded by paced write-back.
pub fn is_paced(client: Client, known: &Known) -> bool {
    let operation = Operation {
        kind: KIND_SYNC,
        asynchronous: false,
        buffered: !known.direct,
    };
    let found = client.memory.rules.find(mask(client, known), operation, 0);
    found.is_some_and(|(_, rule)| rule.paced)
}

/// Rules that match the file, the process and the thread.
fn mask(client: Client, known: &Known) -> u64 {
    known.rules & client.process_rules() & thread::rules(client.memory)
}

/// Which level the request has.
fn judge(client: Client, known: &Known, request: &Request, now_ns: u64) -> Asked {
    let rules = &client.memory.rules;
    let length = request.length.min(1 << 30) as u32;
    let operation = Operation {
        kind: request.kind,
        asynchronous: request.asynchronous,
        buffered: !known.direct,
    };
    let (rule, ruled_level, sinks) = match rules.find(mask(client, known), operation, length) {
        Some((number, rule)) => (number, rule.level, rule.sinks),
        None => (UNRULED, RuleTable::level_unruled(), false),
    };
    let ruled_level = ruled_level.max(request.level_min);
    let level = if sinks && request.kind == KIND_READ {
        thread::sunk_level(ruled_level, now_ns)
    } else {
        ruled_level
    };
    Asked {
        device: known.device,
        kind: request.kind,
        level,
        ruled_level,
        rule,
        durable: known.durable,
        asynchronous: request.asynchronous,
        file: known.file,
        length,
        offset: request.offset.min(i64::MAX as u64 - u64::from(length)),
        asked_ns: now_ns,
    }
}

/// A free cell, now this thread's.
fn claim(client: Client, first: u32) -> Option<usize> {
    let cells = client.memory.cells_of(client.number);
    let claim_within = |probes: usize| {
        (0..probes)
            .map(|step| (first as usize + step) % CELLS_PER_CLIENT)
            .find(|&index| cells[index].change(CellState::Free, CellState::Claimed))
    };
    let index = claim_within(PROBES_MAX).or_else(|| {
        // What has ended is not freed yet: the broker sleeps, or is behind.
        client.memory.header.ring(true);
        claim_within(CELLS_PER_CLIENT)
    });
    let Some(index) = index else {
        client.memory.header.count_no_cell();
        return None;
    };
    Some(cell_of(client.number, index))
}

/// The thread of the ticket with this number will not come back to it. It came then, and may have
/// ended all the same. It may be that of the process that forked this one.
pub fn abandon(number: usize, asked_ns: u64) {
    let Some(client) = client::of_request() else {
        return;
    };
    if number / CELLS_PER_CLIENT != client.number {
        return;
    }
    let ticket = Ticket { client, number };
    let is_open = matches!(
        ticket.cell().state(),
        Some(CellState::Claimed | CellState::Posted | CellState::Granted | CellState::Started)
    );
    if is_open && ticket.asked_ns() == asked_ns {
        ticket.withdraw();
    }
}

impl Ticket {
    fn cell(&self) -> &'static Cell {
        &self.client.memory.cells[self.number]
    }

    fn device(&self) -> &'static DeviceEntry {
        let devices = &self.client.memory.devices;
        let device = &devices[usize::from(self.cell().asked().device) % DEVICES_MAX];
        &devices[device.leader() % DEVICES_MAX]
    }

    /// That of a request that is under way.
    pub fn of_cell(client: Client, index: usize) -> Ticket {
        Ticket {
            client,
            number: cell_of(client.number, index),
        }
    }

    /// Which of all clients' cells.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Which of the client's cells.
    pub fn index(&self) -> usize {
        self.number % CELLS_PER_CLIENT
    }

    /// Bytes that it transfers.
    pub fn length(&self) -> usize {
        self.cell().asked().length as usize
    }

    /// Whether it needs no leave.
    pub fn has_started(&self) -> bool {
        self.cell().state() == Some(CellState::Started)
    }

    /// Asks the broker, unless another thread has withdrawn it.
    pub fn post(&self) {
        if self.cell().change(CellState::Claimed, CellState::Posted) {
            self.client.memory.post(self.number, true);
        }
    }

    /// Sleeps until the broker gives leave, at most so long. `false`: there is none, or the broker is
    /// gone or stopped, and the cell is given up.
    pub fn wait(&self, most_ns: u64) -> bool {
        let (cell, header) = (self.cell(), &self.client.memory.header);
        let pulse = header.pulse();
        let begun_ns = clock::now_ns();
        let mut look_ns = if thread::submits() {
            LOOK_SUBMITTER_NS
        } else {
            LOOK_NS
        };
        while cell.state() == Some(CellState::Posted) {
            if thread::submits() {
                // What would have to end before may be what this thread has not asked about.
                asynchronous::land_ended();
            }
            futex::wait(cell.word(), CellState::Posted as u32, look_ns.min(most_ns));
            look_ns = LOOK_NS.min(2 * look_ns);
            let waited_ns = clock::now_ns().saturating_sub(begun_ns);
            let is_stopped = header.pulse() == pulse && waited_ns > STOPPED_NS;
            if is_stopped {
                header.mark_stopped(pulse);
            }
            let is_vain = is_stopped || header.is_over() || waited_ns >= most_ns;
            if is_vain && cell.change(CellState::Posted, CellState::Left) {
                self.client.memory.post(self.number, false);
                client::mourn(self.client.memory);
                return false;
            }
        }
        true
    }

    /// Somebody of this level waits for the request. Whether that makes it more urgent, if it has
    /// no leave yet.
    pub fn promote(&self, level: u8) -> bool {
        let is_news = self.cell().want(level);
        if is_news {
            self.client.memory.post(self.number, true);
        }
        is_news
    }

    /// Leave is not needed any more; it may have been given meanwhile.
    pub fn withdraw(self) {
        let is_before = [CellState::Posted, CellState::Claimed]
            .iter()
            .any(|&state| self.cell().change(state, CellState::Withdrawn));
        if is_before {
            self.client.memory.post(self.number, false);
        } else {
            self.give_back(0);
        }
    }

    /// When it came: no other request of the cell's has the same.
    pub fn asked_ns(&self) -> u64 {
        self.cell().asked().asked_ns
    }

    /// The device is done with it, although the program does not ask for its end yet.
    pub fn land(&self, result: i64) {
        let (cell, is_attentive) = (self.cell(), self.device().is_attentive());
        let flying = [CellState::Granted, CellState::Started];
        let Some(state) = flying.into_iter().find(|&one| cell.state() == Some(one)) else {
            return;
        };
        cell.set_end(clock::now_ns(), result);
        if cell.change(state, CellState::Landed) {
            self.client.memory.post(self.number, is_attentive);
        }
    }

    /// Counts the call as one that asked for leave.
    pub fn count(&self, call: Call) {
        self.client.memory.header.count_scheduled(call as usize);
    }

    /// The system call has ended. `result` is what it gave, or minus the error's
    /// number.
    pub fn give_back(self, result: i64) {
        let (cell, memory) = (self.cell(), self.client.memory);
        let (asked, now_ns) = (cell.asked(), clock::now_ns());
        let is_attentive = self.device().is_attentive();
        if asked.kind == KIND_READ && !asked.asynchronous {
            thread::has_read(asked.length, now_ns);
        }
        if u32::from(asked.level) < GATE_URGENT && !asked.asynchronous {
            thread::has_waited(asked.asked_ns);
        }
        if cell.state() != Some(CellState::Landed) {
            cell.set_end(now_ns, result);
        }
        cell.set(CellState::Ended);
        memory.post(self.number, is_attentive);
    }
}

#[cfg(test)]
mod tests;
