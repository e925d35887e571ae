//! The broker's rounds: what processes did, what may go now, who is woken.

use std::cell::RefCell;
use std::sync::Arc;

use iolane_protocol::sys::{clock, futex};
use iolane_protocol::{
    Asked, CELLS_PER_CLIENT, Cell, CellState, DEVICES_MAX, DeviceState, LEVELS, Memory, cell_of,
    client_of,
};
use iolane_sched::{Objective, RequestId};

use crate::clients::{Standing, Standings};
use crate::commits::Commits;
use crate::disks::{Disk, Taken};
use crate::door::Door;
use crate::identity;
use crate::report::{Report, Writer};
use crate::spans::{Spans, Whose};
use crate::statistics::{Ended, Key, Statistics};
use crate::waiting::Waiting;

/// While there is something to do the broker comes by itself after so long, so that
/// requests that started unasked need not wake it.
const DOZE_NS: u64 = 2_000_000;
/// The same where nothing waits for leave: then nobody notices when it takes note of what has ended,
/// and rounds cost the processor time of those who work.
const DOZE_CALM_NS: u64 = 10_000_000;
/// Rounds without news after which it sleeps.
const QUIET_ROUNDS_MAX: u32 = 5;
/// While it sleeps it shows so often that it lives.
const SLEEP_NS: u64 = 100_000_000;

/// No disk takes so long for a request while others wait.
const OVERDUE_NS: u64 = 2_000_000_000;
/// Between two looks at what does.
const OVERDUE_LOOK_NS: u64 = 100_000_000;

/// What the broker's thread has.
pub struct Rounds {
    objective: Option<Objective>,
    memory: &'static Memory,
    door: Arc<Door>,
    disks: Vec<Disk>,
    /// By entry in the table of devices.
    disk_of: [Option<usize>; DEVICES_MAX],
    standings: Standings,
    waiting: Waiting,
    statistics: Statistics,
    commits: Commits,
    sunk: Spans,
    promoted: Spans,
    begun_ns: u64,
    roles: Vec<String>,
    /// Of one round; kept for its memory.
    events: Vec<Event>,
    quiet_rounds: u32,
    next_overdue_ns: u64,
}

/// Something that a process did.
#[derive(Clone, Copy, Debug)]
struct Event {
    at_ns: u64,
    cell: usize,
    what: What,
}

/// In the order in which they come where the time is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Started,
    Asked,
    /// Somebody waits for it whose level is higher.
    Wanted,
    Ended,
    /// The same, but its process still needs the cell.
    Landed,
    Left,
    Withdrawn,
}

impl Rounds {
    pub fn new(
        memory: &'static Memory,
        door: Arc<Door>,
        roles: Vec<String>,
        objective: Option<Objective>,
    ) -> Rounds {
        Rounds {
            objective,
            memory,
            door,
            disks: Vec::new(),
            disk_of: [None; DEVICES_MAX],
            standings: Standings::new(),
            waiting: Waiting::default(),
            statistics: Statistics::default(),
            commits: Commits::default(),
            sunk: Spans::of_sunk(),
            promoted: Spans::of_promoted(),
            begun_ns: clock::now_ns(),
            roles,
            events: Vec::new(),
            quiet_rounds: 0,
            next_overdue_ns: 0,
        }
    }

    /// Takes note of all that is new, and lets go what may go.
    pub fn round(&mut self) {
        self.memory.header.beat();
        if self.memory.header.was_marked_stopped() {
            self.statistics.stops += 1;
        }
        self.answer_devices();
        // Before: all that these did is in what is collected then.
        let dead = self.door.take_dead();
        self.collect();
        for at in 0..self.events.len() {
            self.apply(self.events[at]);
        }
        for client in dead {
            self.bury(client);
        }
        self.land_overdue(clock::now_ns());
        self.grant();
        let at_ns = self.at_ns(clock::now_ns());
        for disk in &mut self.disks {
            disk.note(at_ns);
        }
    }

    /// Since the start of the run.
    fn at_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.begun_ns)
    }

    /// Until there is news, or it is time for the next round.
    pub fn rest(&mut self, is_over: impl Fn() -> bool) {
        let is_quiet = self.events.is_empty();
        self.quiet_rounds = if is_quiet { self.quiet_rounds + 1 } else { 0 };
        let dozes = self.quiet_rounds <= QUIET_ROUNDS_MAX;
        let is_calm = !self.disks.iter().any(Disk::has_queued);
        let most_ns = match (dozes, is_calm) {
            (true, false) => DOZE_NS,
            (true, true) => DOZE_CALM_NS,
            (false, _) => SLEEP_NS,
        };
        let now_ns = clock::now_ns();
        let timers = self.disks.iter().filter_map(Disk::next_timer);
        let timer_ns = timers.min().map_or(most_ns, |at| at.saturating_sub(now_ns));
        let (memory, door) = (self.memory, &self.door);
        let has_work =
            || !memory.news.is_empty() || door.has_dead() || is_over() || has_asked(memory);
        memory.header.rest(dozes, timer_ns.min(most_ns), has_work);
    }

    /// Nobody waits for it any more.
    pub fn close(&mut self) {
        self.memory.header.close();
        for disk in &self.disks {
            self.memory.devices[disk.leader].set_gate(0, false);
        }
        for cell in &self.memory.cells[..self.door.clients_ever() * CELLS_PER_CLIENT] {
            if cell.state() == Some(CellState::Posted) {
                futex::wake(cell.word(), u32::MAX);
            }
        }
    }

    pub fn report(&self) -> Report {
        Writer {
            at_ns: self.at_ns(clock::now_ns()),
            statistics: &self.statistics,
            commits: &self.commits,
            sunk: &self.sunk,
            promoted: &self.promoted,
            roles: &self.roles,
            disks: &self.disks,
            header: &self.memory.header,
            door: &self.door,
        }
        .report()
    }

    fn answer_devices(&mut self) {
        for (index, entry) in self.memory.devices.iter().enumerate() {
            let Some(number) = entry.number() else {
                return;
            };
            if entry.state() != DeviceState::Asked {
                continue;
            }
            match identity::disk_of(number) {
                None => entry.answer(DeviceState::Passed, index),
                Some(name) => {
                    let known = self.disks.iter().position(|disk| disk.name == name);
                    let at_ns = clock::now_ns().saturating_sub(self.begun_ns);
                    let disk = known.unwrap_or_else(|| {
                        let made = Disk::new(name, index, self.objective, at_ns);
                        self.disks.push(made);
                        self.disks.len() - 1
                    });
                    self.disk_of[index] = Some(disk);
                    let disk = &self.disks[disk];
                    // Before the answer: the first request of a disk need not ask.
                    self.memory.devices[disk.leader].set_gate(disk.gate(), disk.has_queued());
                    entry.answer(DeviceState::Scheduled, disk.leader);
                }
            }
            futex::wake(entry.word(), u32::MAX);
        }
    }

    /// What processes did since the last round, in the order in which they did it.
    fn collect(&mut self) {
        self.events.clear();
        let (memory, standings) = (self.memory, RefCell::new(&mut self.standings));
        let events = RefCell::new(&mut self.events);
        memory.news.drain(|client| {
            memory.clients[client].news.drain(|index| {
                let number = cell_of(client, index);
                let mut standings = standings.borrow_mut();
                let is_known = *standings.of(number) != Standing::Unknown;
                read(
                    &memory.cells[number],
                    number,
                    is_known,
                    &mut events.borrow_mut(),
                );
            });
        });
        self.events.sort_by_key(|event| (event.at_ns, event.what));
    }

    fn disk(&mut self, asked: &Asked) -> Option<usize> {
        let is_valid = usize::from(asked.level) < LEVELS && asked.length <= 1 << 30;
        let disk = *self.disk_of.get(usize::from(asked.device))?;
        disk.filter(|_| is_valid)
    }

    fn apply(&mut self, event: Event) {
        let cell = &self.memory.cells[event.cell];
        let standing = *self.standings.of(event.cell);
        match (event.what, standing) {
            (What::Started, Standing::Unknown) => {
                let asked = cell.asked();
                let Some(disk) = self.disk(&asked) else {
                    return;
                };
                self.promote_for(&asked);
                let started = self.disks[disk].started(event.cell, &asked, event.at_ns);
                *self.standings.of(event.cell) = match started {
                    Some(id) => {
                        self.commits.starts(Key::of(disk, &asked));
                        Standing::Flying(id, asked)
                    }
                    None => Standing::Loose(asked),
                };
            }
            (What::Asked, Standing::Unknown) => {
                let asked = cell.asked();
                self.promote_for(&asked);
                let taken = match self.disk(&asked) {
                    Some(disk) => self.disks[disk].ask(event.cell, &asked, event.at_ns),
                    // Nonsense: the kernel will say so.
                    None => Taken::Loose,
                };
                *self.standings.of(event.cell) = match taken {
                    Taken::Queued(id) => {
                        self.waiting.note(event.cell, &asked);
                        Standing::Queued(id, asked)
                    }
                    Taken::Crowded(id) => {
                        self.statistics.unaccounted += 1;
                        if let Some(disk) = self.disk(&asked) {
                            self.commits.starts(Key::of(disk, &asked));
                        }
                        let_go(self.memory, event.cell, clock::now_ns());
                        Standing::Flying(id, asked)
                    }
                    Taken::Loose => {
                        let_go(self.memory, event.cell, clock::now_ns());
                        Standing::Loose(asked)
                    }
                };
            }
            (What::Ended, _) => {
                self.end(event, standing);
                free(cell);
            }
            (What::Landed, Standing::Landed) => {}
            (What::Landed, _) => {
                self.end(event, standing);
                *self.standings.of(event.cell) = Standing::Landed;
            }
            (What::Left | What::Withdrawn, _) => {
                self.statistics.left += u64::from(event.what == What::Left);
                self.forget(event.cell, standing);
                *self.standings.of(event.cell) = Standing::Unknown;
                free(cell);
            }
            (What::Wanted, _) => self.promote(event.cell, cell.wanted()),
            // Told twice.
            (What::Started | What::Asked, _) => {}
        }
    }

    /// A read has come: what waits at its place is as urgent, if others are to read it.
    fn promote_for(&mut self, asked: &Asked) {
        for cell in self.waiting.wanted_by(asked) {
            self.promote(cell, asked.level);
        }
    }

    /// Somebody of this level waits for a request.
    fn promote(&mut self, cell: usize, level: u8) {
        if let Standing::Queued(id, asked) = *self.standings.of(cell)
            && level < asked.level
            && let Some(disk) = self.disk(&asked)
        {
            self.disks[disk].promote(id, level);
            self.waiting.forget(cell, &asked);
            let asked = Asked { level, ..asked };
            // It may still be one that a query reads after that.
            self.waiting.note(cell, &asked);
            *self.standings.of(cell) = Standing::Queued(id, asked);
        }
    }

    fn end(&mut self, event: Event, standing: Standing) {
        *self.standings.of(event.cell) = Standing::Unknown;
        let cell = &self.memory.cells[event.cell];
        let (ended_ns, result) = cell.end();
        let asked = match standing {
            Standing::Flying(id, asked) => {
                self.land(id, &asked, ended_ns, result >= 0);
                asked
            }
            Standing::Loose(asked) => asked,
            Standing::Queued(..) | Standing::Landed | Standing::Unknown => {
                return self.forget(event.cell, standing);
            }
        };
        let Some(disk) = self.disk(&asked) else {
            return;
        };
        let started_ns = cell.started_ns();
        let ended = Ended {
            bytes: u64::try_from(result)
                .unwrap_or(0)
                .min(u64::from(asked.length)),
            queued_ns: started_ns.saturating_sub(asked.asked_ns),
            device_ns: ended_ns.saturating_sub(started_ns),
            failed: result < 0,
            sunk: asked.level > asked.ruled_level,
            promoted: asked.level < cell.asked().level,
        };
        self.record(event.cell, Key::of(disk, &asked), &ended, ended_ns);
    }

    fn record(&mut self, cell: usize, key: Key, ended: &Ended, ended_ns: u64) {
        self.statistics.record(key, ended);
        self.commits.ended(&key, ended.queued_ns, ended.device_ns);
        self.disks[key.disk].record(key.level, ended);
        if !ended.sunk && !ended.promoted {
            return;
        }
        let whose = Whose {
            process: self.door.process_of(client_of(cell)),
            disk: key.disk,
            rule: key.rule,
        };
        let at_ns = self.at_ns(ended_ns);
        if ended.sunk {
            self.sunk.record(whose, at_ns, ended.bytes, key.level);
        }
        if ended.promoted {
            self.promoted.record(whose, at_ns, ended.bytes, key.level);
        }
    }

    /// A request is no longer with the device.
    fn land(&mut self, id: RequestId, asked: &Asked, at_ns: u64, ok: bool) {
        if let Some(disk) = self.disk(asked) {
            self.disks[disk].ended(id, at_ns, ok);
            self.commits.leaves(&Key::of(disk, asked));
        }
    }

    /// What has not come back for so long is with its process, which is stopped, or does not ask for
    /// its end: nobody waits for that.
    fn land_overdue(&mut self, now_ns: u64) {
        if now_ns < self.next_overdue_ns || !self.disks.iter().any(Disk::has_queued) {
            return;
        }
        self.next_overdue_ns = now_ns + OVERDUE_LOOK_NS;
        for number in 0..self.door.clients_ever() * CELLS_PER_CLIENT {
            let Standing::Flying(id, asked) = *self.standings.of(number) else {
                continue;
            };
            if self.memory.cells[number].started_ns() + OVERDUE_NS < now_ns {
                self.land(id, &asked, now_ns, false);
                *self.standings.of(number) = Standing::Loose(asked);
                self.statistics.overdue += 1;
            }
        }
    }

    /// The request will never be reported as ended.
    fn forget(&mut self, cell: usize, standing: Standing) {
        match standing {
            Standing::Queued(id, asked) => {
                self.waiting.forget(cell, &asked);
                if let Some(disk) = self.disk(&asked) {
                    self.disks[disk].withdraw(id);
                }
            }
            Standing::Flying(id, asked) => self.land(id, &asked, clock::now_ns(), false),
            Standing::Loose(_) | Standing::Landed | Standing::Unknown => {}
        }
    }

    /// A process has ended: its places come back, whatever it was doing.
    fn bury(&mut self, client: usize) {
        for (index, standing) in self.standings.take(client).into_iter().enumerate() {
            let is_under_way = !matches!(standing, Standing::Unknown | Standing::Landed);
            self.statistics.reclaimed += u64::from(is_under_way);
            self.forget(cell_of(client, index), standing);
        }
        self.memory.clients[client].news.drain(|_| ());
        self.memory.clients[client].grants.drain(|_| ());
        for cell in self.memory.cells_of(client) {
            free(cell);
        }
        self.door.let_in_another(client);
    }

    /// Wakes those whose turn it is, and says what may start unasked.
    fn grant(&mut self) {
        let now_ns = clock::now_ns();
        let (memory, standings) = (self.memory, &mut self.standings);
        for (index, disk) in self.disks.iter_mut().enumerate() {
            disk.dispatch(now_ns, |number, id| {
                let standing = standings.of(number);
                if let Standing::Queued(_, asked) = *standing {
                    self.waiting.forget(number, &asked);
                    self.commits.starts(Key::of(index, &asked));
                    *standing = Standing::Flying(id, asked);
                }
                let_go(memory, number, now_ns);
            });
            memory.devices[disk.leader].set_gate(disk.gate(), disk.has_queued());
        }
    }
}

/// Whether a device waits for an answer.
fn has_asked(memory: &Memory) -> bool {
    let taken = memory
        .devices
        .iter()
        .take_while(|entry| entry.number().is_some());
    taken
        .into_iter()
        .any(|entry| entry.state() == DeviceState::Asked)
}

/// What has become of a cell. Between two rounds a request may have come and ended.
fn read(cell: &Cell, number: usize, is_known: bool, events: &mut Vec<Event>) {
    let mut push = |at_ns, what| {
        events.push(Event {
            at_ns,
            cell: number,
            what,
        });
    };
    match cell.state() {
        Some(CellState::Posted) => {
            let asked = cell.asked();
            if !is_known {
                push(asked.asked_ns, What::Asked);
            }
            if cell.wanted() < asked.level {
                push(asked.asked_ns, What::Wanted);
            }
        }
        Some(CellState::Started) if !is_known => push(cell.started_ns(), What::Started),
        Some(CellState::Ended) => {
            if !is_known {
                push(cell.started_ns(), What::Started);
            }
            push(cell.end().0.max(cell.started_ns()), What::Ended);
        }
        Some(CellState::Landed) => {
            if !is_known {
                push(cell.started_ns(), What::Started);
            }
            push(cell.end().0.max(cell.started_ns()), What::Landed);
        }
        Some(CellState::Left) => push(u64::MAX, What::Left),
        Some(CellState::Withdrawn) => push(u64::MAX, What::Withdrawn),
        _ => {}
    }
}

/// Gives leave. Where the process has given up meanwhile, it says so itself.
fn let_go(memory: &Memory, number: usize, now_ns: u64) {
    let cell = &memory.cells[number];
    cell.set_started_ns(now_ns);
    let is_asynchronous = cell.asked().asynchronous;
    if cell.change(CellState::Posted, CellState::Granted) {
        futex::wake(cell.word(), 1);
        if is_asynchronous {
            memory.clients[client_of(number)].grant(number % CELLS_PER_CLIENT);
        }
    }
}

fn free(cell: &Cell) {
    cell.set(CellState::Free);
}
