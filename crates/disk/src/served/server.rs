//! The disk itself: operations in, answers out when the model says.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::contents::{Contents, Transferred};
use super::expected::Taken;
use super::lead::Lead;
use super::queue::Queue;
use super::statistics::Statistics;
use super::waking::Waking;
use crate::fault::Faults;
use crate::medium::Medium;
use crate::model::{Command, Done, Kind, Model};
use crate::sys::{Timer, go_first, now_ns};

/// Longest operation. No transport lets one through that is as long.
const LENGTH_MAX: u64 = 1 << 30;

/// The timing thread looks for news so often while it spins.
const SPIN_NS: u64 = 5_000;

/// What a client wants.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// So many bytes from there.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// These bytes to there.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes.
        data: &'a [u8],
        /// Answered only when durable.
        durable: bool,
    },
    /// Everything answered so far durable.
    Flush,
}

impl Request<'_> {
    fn kind(&self) -> Kind {
        match self {
            Request::Read { .. } => Kind::Read,
            Request::Write { .. } => Kind::Write,
            Request::Flush => Kind::Flush,
        }
    }

    fn range(&self) -> (u64, u32) {
        match *self {
            Request::Read { offset, length } => (offset, length),
            Request::Write { offset, data, .. } => (offset, data.len() as u32),
            Request::Flush => (0, 0),
        }
    }
}

/// Called once, from the timing thread or the one that submitted: what was
/// read, or nothing for writes and flushes. Must not block.
pub type Reply = Box<dyn FnOnce(io::Result<Vec<u8>>) + Send>;

/// How much at once.
#[derive(Clone)]
pub struct ServerOptions {
    /// Operations outstanding, at least 1; whoever brings more waits.
    pub outstanding_max: usize,
    /// Bytes that these read, in memory until answered; at least one
    /// operation is let in whatever its size.
    pub outstanding_bytes_max: u64,
    /// By how much answers go out before the model's time.
    pub lead: Lead,
    /// What goes wrong.
    pub faults: Option<Arc<Faults>>,
    /// Operations whose moments are kept for [`Server::take_taken`]; of more,
    /// the first.
    pub taken_max: usize,
}

impl Default for ServerOptions {
    fn default() -> ServerOptions {
        ServerOptions {
            outstanding_max: 4096,
            outstanding_bytes_max: 256 << 20,
            lead: Lead::NONE,
            faults: None,
            taken_max: 0,
        }
    }
}

/// One disk. Shared by all transports; ends when dropped. Operations that are
/// outstanding then are never answered: their [`Reply`] is dropped.
pub struct Server {
    shared: Arc<Shared>,
    timing: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    /// Signalled when an operation was answered.
    room: Condvar,
    timer: Timer,
    contents: Contents,
    size_bytes: u64,
    outstanding_max: usize,
    outstanding_bytes_max: u64,
}

struct State {
    queue: Queue,
    lead: Lead,
    operations: Vec<Option<Operation>>,
    free: Vec<u32>,
    outstanding_bytes: u64,
    /// By the powers of two of their lengths.
    outstanding_lengths: [u32; 33],
    /// Ended in the model, not yet answered: when to, and which.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    ended: Vec<Done>,
    armed_ns: Option<u64>,
    waking: Waking,
    statistics: Statistics,
    taken: Vec<Taken>,
    taken_max: usize,
    stopped: bool,
}

struct Operation {
    kind: Kind,
    length: u32,
    arrived_ns: u64,
    /// When its answer should go out, once the model has said.
    send_ns: Option<u64>,
    /// A fault's delay, which is added to the model's time once.
    stall_ns: u64,
    /// Its answer should be out, but for the data.
    overdue: bool,
    result: Option<io::Result<Vec<u8>>>,
    reply: Reply,
}

/// An answer that is ready.
struct Answer {
    send_ns: u64,
    result: io::Result<Vec<u8>>,
    reply: Reply,
}

impl Server {
    /// Serves `medium`, as much of it as both it and the model hold, with the
    /// timing of `model`.
    ///
    /// # Errors
    /// When the kernel gives no timer or thread.
    pub fn start(
        model: Box<dyn Model>,
        medium: Arc<dyn Medium>,
        options: &ServerOptions,
    ) -> io::Result<Server> {
        let block = u64::from(model.block_bytes());
        let contents = Contents::new(medium, options.faults.clone());
        let size_bytes = contents.size_bytes().min(model.capacity_bytes()) / block * block;
        let mut queue = Queue::new(model);
        queue.advance(now_ns(), &mut Vec::new());
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue,
                lead: options.lead,
                operations: Vec::new(),
                free: Vec::new(),
                outstanding_bytes: 0,
                outstanding_lengths: [0; 33],
                due: BinaryHeap::new(),
                ended: Vec::new(),
                armed_ns: None,
                waking: Waking::default(),
                statistics: Statistics::default(),
                // No copying of what there is while others wait.
                taken: Vec::with_capacity(options.taken_max),
                taken_max: options.taken_max,
                stopped: false,
            }),
            room: Condvar::new(),
            timer: Timer::new()?,
            contents,
            size_bytes,
            outstanding_max: options.outstanding_max.max(1),
            outstanding_bytes_max: options.outstanding_bytes_max,
        });
        let own = Arc::clone(&shared);
        let timing = thread::Builder::new()
            .name("disk-timing".to_owned())
            .spawn(move || own.keep_time())?;
        Ok(Server {
            shared,
            timing: Some(timing),
        })
    }

    /// Bytes that are served.
    pub fn size_bytes(&self) -> u64 {
        self.shared.size_bytes
    }

    /// Takes an operation and transfers its data on this thread; the answer
    /// comes by `reply`, when the model says. Waits where too many are
    /// outstanding. Ranges need not be aligned: the model moves whole blocks
    /// then.
    ///
    /// An operation beyond the end, empty, or longer than 1 GiB, is answered at once with
    /// [`InvalidInput`](io::ErrorKind::InvalidInput).
    pub fn submit(&self, request: Request<'_>, reply: Reply) {
        let arrived_ns = now_ns();
        if let Err(error) = self.shared.check(&request) {
            reply(Err(error));
            return;
        }
        let tag = self.shared.enter(&request, arrived_ns, reply);
        let transferred = self.shared.contents.transfer(request);
        self.shared.finish_transfer(tag, transferred);
    }

    /// Takes away what the plan's faults left in the disk's cache only, as a
    /// power cut does, and says how many bytes that was. To be called when
    /// nobody uses the disk any more.
    ///
    /// # Errors
    /// The medium's.
    pub fn power_cut(&self) -> io::Result<u64> {
        self.shared.contents.power_cut()
    }

    /// Takes the statistics, and begins new ones.
    pub fn take_statistics(&self) -> Statistics {
        std::mem::take(&mut self.shared.lock().statistics)
    }

    /// Takes what the model was given, and when, since the last call: what
    /// [`latencies_ns`](super::latencies_ns) works on.
    pub fn take_taken(&self) -> Vec<Taken> {
        std::mem::take(&mut self.shared.lock().taken)
    }

    /// By how much answers go out before the model's time from now on.
    pub fn set_lead(&self, lead: Lead) {
        self.shared.lock().lead = lead;
    }

    /// The present one.
    pub fn lead(&self) -> Lead {
        self.shared.lock().lead
    }

    /// The model's smallest unit.
    pub fn block_bytes(&self) -> u32 {
        self.shared.lock().queue.model().block_bytes()
    }

    /// The model moves a head.
    pub fn rotating(&self) -> bool {
        self.shared.lock().queue.model().rotating()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.lock().stopped = true;
        self.shared.timer.arm(Some(0));
        if let Some(timing) = self.timing.take() {
            // A panic of that thread has been reported when it happened.
            let _ = timing.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, request: &Request<'_>) -> io::Result<()> {
        let (offset, length) = match *request {
            Request::Write { offset, data, .. } => (offset, data.len() as u64),
            _ => {
                let (offset, length) = request.range();
                (offset, u64::from(length))
            }
        };
        let inside = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.size_bytes);
        if inside && length <= LENGTH_MAX && (length > 0 || request.kind() == Kind::Flush) {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{length} bytes at {offset} are no range of a disk of {} bytes",
                self.size_bytes
            ),
        ))
    }

    /// Gives an operation to the model.
    fn enter(&self, request: &Request<'_>, arrived_ns: u64, reply: Reply) -> u32 {
        let (offset, length) = request.range();
        let mut state = self.lock();
        while state.outstanding() >= self.outstanding_max
            || (state.outstanding() > 0
                && state.outstanding_bytes + u64::from(length) > self.outstanding_bytes_max)
        {
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let operation = Operation {
            kind: request.kind(),
            length,
            arrived_ns,
            send_ns: None,
            stall_ns: 0,
            overdue: false,
            result: None,
            reply,
        };
        let durable = matches!(request, Request::Write { durable: true, .. });
        let tag = state.add(operation);
        state.give(tag, (offset, length), durable);
        self.rearm_if_earlier(&mut state);
        tag
    }

    /// The data have been moved; answers if the model was faster.
    fn finish_transfer(&self, tag: u32, transferred: Transferred) {
        let mut state = self.lock();
        let operation = state.operation(tag);
        operation.result = Some(transferred.result);
        operation.stall_ns = transferred.stall_ns;
        if !operation.overdue {
            return;
        }
        if state.postpone(tag) {
            self.rearm_if_earlier(&mut state);
            return;
        }
        state.statistics.medium_late += 1;
        let answer = state.remove(tag);
        drop(state);
        self.room.notify_all();
        let late = now_ns().saturating_sub(answer.send_ns);
        (answer.reply)(answer.result);
        self.lock().statistics.record_lateness(late);
    }

    /// The kernel moves the alarm; the timing thread sleeps on.
    fn rearm_if_earlier(&self, state: &mut State) {
        let target = state.alarm_ns();
        if target.is_some_and(|target| state.armed_ns.is_none_or(|armed| target < armed)) {
            state.armed_ns = target;
            self.timer.arm(target);
        }
    }

    /// The timing thread.
    fn keep_time(&self) {
        go_first();
        let mut answers = Vec::new();
        let mut lateness = Vec::new();
        let mut state = self.lock();
        while !state.stopped {
            for late in lateness.drain(..) {
                state.statistics.record_lateness(late);
            }
            state.take_due(now_ns(), &mut answers);
            if answers.is_empty() {
                state = self.wait_for_next(state);
                continue;
            }
            drop(state);
            for answer in answers.drain(..) {
                lateness.push(now_ns().saturating_sub(answer.send_ns));
                (answer.reply)(answer.result);
            }
            self.room.notify_all();
            state = self.lock();
        }
    }

    /// Sleeps until shortly before the next answer, and spins for the rest.
    fn wait_for_next<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let alarm_ns = state.alarm_ns();
        if let Some(next_ns) = state.next_ns()
            && alarm_ns.is_some_and(|alarm_ns| alarm_ns <= now_ns())
        {
            // Submitters need not wake it: it looks again in a moment.
            state.armed_ns = Some(0);
            drop(state);
            let until_ns = next_ns.min(now_ns() + SPIN_NS);
            while now_ns() < until_ns {
                std::hint::spin_loop();
            }
            return self.lock();
        }
        state.armed_ns = alarm_ns;
        self.timer.arm(alarm_ns);
        drop(state);
        self.timer.wait();
        let woken_ns = now_ns();
        let mut state = self.lock();
        if let Some(armed_ns) = state.armed_ns {
            state.waking.learn(woken_ns.saturating_sub(armed_ns));
        }
        state
    }
}

impl State {
    fn outstanding(&self) -> usize {
        self.operations.len() - self.free.len()
    }

    fn add(&mut self, operation: Operation) -> u32 {
        self.outstanding_bytes += u64::from(operation.length);
        self.outstanding_lengths[length_class(operation.length)] += 1;
        if let Some(tag) = self.free.pop() {
            self.operations[tag as usize] = Some(operation);
            return tag;
        }
        self.operations.push(Some(operation));
        self.operations.len() as u32 - 1
    }

    /// A tag is in use from [`add`](Self::add) to [`remove`](Self::remove).
    fn operation(&mut self, tag: u32) -> &mut Operation {
        self.operations[tag as usize]
            .as_mut()
            .expect("outstanding until it is removed")
    }

    fn give(&mut self, tag: u32, (offset, length): (u64, u32), durable: bool) {
        let operation = self.operation(tag);
        let (kind, arrived_ns) = (operation.kind, operation.arrived_ns);
        let block = u64::from(self.queue.model().block_bytes());
        let start = offset / block * block;
        let end = (offset + u64::from(length)).next_multiple_of(block);
        let command = Command {
            tag,
            kind,
            offset: start,
            length: (end - start) as u32,
            durable,
        };
        let mut ended = std::mem::take(&mut self.ended);
        self.queue.submit(arrived_ns, command, &mut ended);
        self.ended = ended;
        if self.taken.len() < self.taken_max {
            self.taken.push(Taken {
                arrived_ns,
                taken_ns: self.queue.now_ns(),
                command,
            });
        }
        self.schedule();
    }

    /// Says of what has ended in the model when to answer.
    fn schedule(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        for done in ended.drain(..) {
            let lead = self.lead;
            let operation = self.operation(done.tag);
            let send_ns = done.at_ns.saturating_sub(lead.of(operation.length));
            operation.send_ns = Some(send_ns);
            let latency_ns = done.at_ns.saturating_sub(operation.arrived_ns);
            self.statistics.model_latency_sum_ns += u128::from(latency_ns);
            self.due.push(Reverse((send_ns, done.tag)));
        }
        self.ended = ended;
    }

    /// How far the model is ahead of the clock, so that each answer is known
    /// when it must go out.
    fn ahead_ns(&self) -> u64 {
        let longest = self
            .outstanding_lengths
            .iter()
            .rposition(|&count| count > 0);
        longest.map_or(0, |class| self.lead.of(class_length_max(class)))
    }

    /// When to look again.
    fn next_ns(&self) -> Option<u64> {
        let event = self.queue.next_event_ns();
        let event = event.map(|at_ns| at_ns.saturating_sub(self.ahead_ns()));
        let due = self.due.peek().map(|Reverse((at_ns, _))| *at_ns);
        event.into_iter().chain(due).min()
    }

    /// When to wake up for it.
    fn alarm_ns(&self) -> Option<u64> {
        let margin_ns = self.waking.margin_ns();
        self.next_ns().map(|at_ns| at_ns.saturating_sub(margin_ns))
    }

    fn take_due(&mut self, now_ns: u64, answers: &mut Vec<Answer>) {
        let mut ended = std::mem::take(&mut self.ended);
        self.queue.run_events(now_ns + self.ahead_ns(), &mut ended);
        self.ended = ended;
        self.schedule();
        while let Some(&Reverse((send_ns, tag))) = self.due.peek()
            && send_ns <= now_ns
        {
            self.due.pop();
            let operation = self.operation(tag);
            if operation.result.is_none() {
                operation.overdue = true;
            } else if !self.postpone(tag) {
                answers.push(self.remove(tag));
            }
        }
    }

    /// Adds a fault's delay to what is due. False where there is none.
    fn postpone(&mut self, tag: u32) -> bool {
        let operation = self.operation(tag);
        let stall_ns = std::mem::take(&mut operation.stall_ns);
        let send_ns = operation.send_ns.unwrap_or_default() + stall_ns;
        if stall_ns > 0 {
            operation.send_ns = Some(send_ns);
            operation.overdue = false;
            self.due.push(Reverse((send_ns, tag)));
        }
        stall_ns > 0
    }

    /// What is due and has its data.
    fn remove(&mut self, tag: u32) -> Answer {
        let operation = self.operations[tag as usize]
            .take()
            .expect("outstanding until it is removed");
        self.free.push(tag);
        self.outstanding_bytes -= u64::from(operation.length);
        self.outstanding_lengths[length_class(operation.length)] -= 1;
        let result = operation.result.expect("removed only with its data");
        match operation.kind {
            Kind::Read => self.statistics.reads += 1,
            Kind::Write => self.statistics.writes += 1,
            Kind::Flush => self.statistics.flushes += 1,
        }
        self.statistics.errors += u64::from(result.is_err());
        Answer {
            send_ns: operation.send_ns.unwrap_or_default(),
            result,
            reply: operation.reply,
        }
    }
}

/// Lengths up to a power of two are one class.
fn length_class(length: u32) -> usize {
    (u32::BITS - length.leading_zeros()) as usize
}

fn class_length_max(class: usize) -> u32 {
    u32::MAX
        .checked_shr(u32::BITS - class as u32)
        .unwrap_or_default()
}
