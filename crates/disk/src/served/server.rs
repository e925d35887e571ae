//! The disk itself: operations in, answers out when the model says.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::contents::Contents;
use super::correction::Accounted;
use super::expected::Taken;
use super::lead::{Follows, Lead};
use super::power::no_power;
use super::queue::Queue;
use super::state::{Answer, Look, Operation, State};
use super::statistics::Statistics;
use crate::fault::Faults;
use crate::medium::Medium;
use crate::model::{Kind, Model};
use crate::sys::{Timer, go_first, now_ns};

/// Longest operation. No transport lets one through that is as long.
const LENGTH_MAX: u64 = 1 << 30;

/// A disk whose requests take less suffers from what idle processors take to
/// wake up: some 20 us a thread on a virtual machine, several on the way.
const FAST_NS: u64 = 2_000_000;

/// A thread looks for news so often while it spins.
const SPIN_NS: u64 = 5_000;

/// So long a client is looked at that has an answer: who has not taken it by
/// then does something else, or waits for a processor, perhaps for this one.
const LOOK_NS: u64 = 100_000;

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

/// Whoever brings requests, as far as it can be seen.
pub trait Client: Send + Sync {
    /// It has taken every answer that was sent to it. Must not block.
    fn has_taken_all(&self) -> bool;
}

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
    /// As of [`usual_latency_ns`](super::usual_latency_ns). Where it is less
    /// than 2 ms, and that is allowed, processors are kept from sleeping while
    /// requests come, and for a second after.
    pub usual_latency_ns: u64,
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
            usual_latency_ns: u64::MAX,
            faults: None,
            taken_max: 0,
        }
    }
}

/// One disk. Shared by all transports; ends when dropped. Operations that are
/// outstanding then are never answered: their [`Reply`] is dropped.
pub struct Server {
    pub(super) shared: Arc<Shared>,
    timing: Option<JoinHandle<()>>,
}

pub(super) struct Shared {
    state: Mutex<State>,
    /// Signalled when an operation was answered.
    pub(super) room: Condvar,
    /// Signalled after a power cut, when nothing is under way any more.
    pub(super) quiet: Condvar,
    timer: Timer,
    pub(super) contents: Contents,
    /// By a power cut. Taken before the state.
    pub(super) took_bytes: Mutex<u64>,
    size_bytes: u64,
    outstanding_max: usize,
    outstanding_bytes_max: u64,
    keeps_awake: bool,
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
            state: Mutex::new(State::new(queue, options)),
            room: Condvar::new(),
            quiet: Condvar::new(),
            timer: Timer::new()?,
            contents,
            took_bytes: Mutex::default(),
            size_bytes,
            outstanding_max: options.outstanding_max.max(1),
            outstanding_bytes_max: options.outstanding_bytes_max,
            keeps_awake: options.usual_latency_ns < FAST_NS,
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
    /// [`InvalidInput`](io::ErrorKind::InvalidInput). After a
    /// [power cut](Server::power_cut) all are, with `EIO`.
    pub fn submit(&self, request: Request<'_>, reply: Reply) {
        self.submit_for(None, request, reply);
    }

    /// The same for a client that can be seen. Where the lead
    /// [follows](super::Follows::Clients) such clients, the timing thread looks
    /// up to 1000 times a second when an answer is taken, for at most 100 us.
    pub fn submit_for(&self, client: Option<Arc<dyn Client>>, request: Request<'_>, reply: Reply) {
        let arrived_ns = now_ns();
        if let Err(error) = self.shared.check(&request) {
            reply(Err(error));
            return;
        }
        let from = (client, reply);
        let tag = match self.shared.enter(&request, arrived_ns, from) {
            Ok(tag) => tag,
            Err(reply) => return reply(Err(no_power())),
        };
        let transferred = self.shared.contents.transfer(request);
        let mut state = self.shared.lock();
        state.finish_transfer(tag, transferred);
        self.shared.tell_if_quiet(&state);
        self.shared.stay_for_answers(state);
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

    /// Where [`correct_lead`](Self::correct_lead) does something: the disk is
    /// so fast that it matters, and the lead was measured together with what a
    /// client sees beyond the accounts.
    pub fn can_be_corrected(&self) -> bool {
        self.shared.keeps_awake && matches!(self.lead().follows, Follows::Accounts { .. })
    }

    /// There have been enough reads and writes since the last
    /// [`correct_lead`](Self::correct_lead) for another one.
    pub fn has_news(&self) -> bool {
        self.shared.lock().correction.has_news()
    }

    /// Adapts the lead to what somebody has accounted of the requests of this
    /// server's clients, all of them, since a time that is always the same.
    /// Called a few times to some tens of times a second it keeps their mean
    /// latency at the model's; a mean within a few microseconds, as far as the
    /// transport is faster than the model. Does not block. Without effect where
    /// the server [cannot be corrected](Self::can_be_corrected), or `seen` is
    /// of other requests than the server had.
    pub fn correct_lead(&self, seen: Accounted) {
        let mut state = self.shared.lock();
        if let (true, Follows::Accounts { client_ns }) =
            (self.shared.keeps_awake, state.lead.follows)
        {
            let lead_ns = state.lead.base_ns;
            state.correction.learn(seen, client_ns, lead_ns);
        }
    }

    /// What that has come to: added to each lead, in nanoseconds.
    pub fn lead_correction_ns(&self) -> i64 {
        self.shared.lock().correction.by_ns()
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
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
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

    /// Gives an operation to the model. Without power nothing is begun: its
    /// reply comes back.
    fn enter(
        &self,
        request: &Request<'_>,
        arrived_ns: u64,
        from: (Option<Arc<dyn Client>>, Reply),
    ) -> Result<u32, Reply> {
        let (offset, length) = request.range();
        let mut state = self.lock();
        while state.power.is_on()
            && (state.outstanding >= self.outstanding_max
                || (state.outstanding > 0
                    && state.outstanding_bytes + u64::from(length) > self.outstanding_bytes_max))
        {
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if !state.power.is_on() {
            state.statistics.without_power += 1;
            return Err(from.1);
        }
        let company = state.company(arrived_ns);
        let operation = Operation::new(request.kind(), length, (arrived_ns, company), from);
        if self.keeps_awake {
            state.keep_awake(arrived_ns);
        }
        let durable = matches!(request, Request::Write { durable: true, .. });
        let tag = state.add(operation);
        state.give(tag, (offset, length), durable);
        Ok(tag)
    }

    /// What is due sooner than the timing thread can be woken is answered by
    /// the thread that submitted, before it goes for the next request. Only
    /// then is the alarm set: its own operation cannot be answered before it has
    /// its data, and for the others it has been set. To set one that rings at
    /// once takes a virtual machine 25 us.
    fn stay_for_answers<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        let mut answers = Vec::new();
        if state.attended {
            return;
        }
        loop {
            let now_ns = now_ns();
            state.take_due(now_ns, &mut answers);
            if !answers.is_empty() {
                state.attended = true;
                state = self.answer(state, &mut answers);
                continue;
            }
            if state.next_ns().is_none_or(|at_ns| at_ns > now_ns + SPIN_NS) {
                let alarm_ns = state.alarm_ns();
                self.leave(&mut state, alarm_ns);
                return;
            }
            state = self.spin(state, now_ns);
        }
    }

    /// Until the next answer is due, or may have become so.
    fn spin<'a>(&'a self, mut state: MutexGuard<'a, State>, now_ns: u64) -> MutexGuard<'a, State> {
        let until_ns = now_ns + SPIN_NS;
        let until_ns = state.next_ns().map_or(now_ns, |at_ns| at_ns.min(until_ns));
        state.attended = true;
        drop(state);
        while self::now_ns() < until_ns {
            std::hint::spin_loop();
        }
        self.lock()
    }

    fn answer<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        answers: &mut Vec<Answer>,
    ) -> MutexGuard<'a, State> {
        state.power.answering += 1;
        drop(state);
        let mut lateness = Vec::with_capacity(answers.len());
        let mut sent_ns = 0;
        for answer in answers.drain(..) {
            sent_ns = now_ns();
            lateness.push(sent_ns.saturating_sub(answer.send_ns));
            self.contents.synced(answer.covered);
            (answer.reply)(answer.result);
        }
        self.room.notify_all();
        let mut state = self.lock();
        state.power.answering -= 1;
        self.tell_if_quiet(&state);
        state.sent_ns = sent_ns;
        state.active_ns = now_ns();
        for late in lateness {
            state.statistics.record_lateness(late);
        }
        state
    }

    /// To the alarm. The kernel moves it; the timing thread sleeps on.
    fn leave(&self, state: &mut State, alarm_ns: Option<u64>) {
        state.attended = false;
        if state.armed_ns != alarm_ns {
            state.armed_ns = alarm_ns;
            self.timer.arm(alarm_ns);
        }
    }

    /// The timing thread.
    fn keep_time(&self) {
        go_first();
        let mut answers = Vec::new();
        let mut state = self.lock();
        while !state.stopped {
            let now_ns = now_ns();
            state.let_sleep(now_ns);
            state.take_due(now_ns, &mut answers);
            if answers.is_empty() {
                state = self.wait_for_next(state);
                continue;
            }
            let look = if self.keeps_awake {
                state.look(&answers, now_ns)
            } else {
                None
            };
            state = self.answer(state, &mut answers);
            if let Some(look) = look {
                state = self.see_taken(state, &look);
            }
        }
    }

    /// Waits until the client has its answer, unless another is due before.
    fn see_taken<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        look: &Look,
    ) -> MutexGuard<'a, State> {
        // Other threads' answers come later.
        let sent_ns = state.sent_ns;
        let until_ns = sent_ns + LOOK_NS;
        let until_ns = state
            .next_ns()
            .map_or(until_ns, |at_ns| at_ns.min(until_ns));
        state.attended = true;
        drop(state);
        let taken_ns = loop {
            let now_ns = now_ns();
            if look.client.has_taken_all() {
                break Some(now_ns);
            }
            if now_ns >= until_ns {
                break None;
            }
            std::hint::spin_loop();
        };
        let mut state = self.lock();
        if let Some(taken_ns) = taken_ns {
            state.learn_way(look, sent_ns, taken_ns);
        }
        state
    }

    /// Sleeps until shortly before the next answer, and spins for the rest.
    fn wait_for_next<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let now_ns = now_ns();
        let alarm_ns = state.alarm_ns();
        if alarm_ns.is_some_and(|alarm_ns| alarm_ns <= now_ns) {
            return self.spin(state, now_ns);
        }
        self.leave(&mut state, alarm_ns);
        drop(state);
        self.timer.wait();
        let woken_ns = self::now_ns();
        let mut state = self.lock();
        // Else it was moved while it rang.
        if let Some(armed_ns) = state.armed_ns.take_if(|armed_ns| *armed_ns <= woken_ns) {
            state.waking.learn(woken_ns - armed_ns);
        }
        state
    }
}
