//! What is outstanding, and when it is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;

use super::contents::Transferred;
use super::correction::Correction;
use super::expected::Taken;
use super::lead::{Company, Follows, Lead};
use super::power::Power;
use super::queue::{Queue, Said};
use super::server::{Client, Reply, ServerOptions};
use super::statistics::Statistics;
use super::waking::Waking;
use crate::fault::Covered;
use crate::model::{Command, Done, Kind};
use crate::sys::Awake;

/// How long processors are kept awake for the next request.
const AWAKE_NS: u64 = 1_000_000_000;

/// Between two looks at a client that takes its answer, each of which keeps the
/// timing thread for some 10 to 20 us.
const LOOK_PERIOD_NS: u64 = 1_000_000;

/// What a request's way takes, of its answer's: measured with processors idle
/// (144 to 167 %) and busy (123 to 149 %), 1000 to 5000 requests a second.
const THERE_PERCENT: u64 = 140;

/// Of one disk, under its lock.
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) lead: Lead,
    pub(super) correction: Correction,
    operations: Vec<Slot>,
    free: Vec<u32>,
    /// Operations without an answer.
    pub(super) outstanding: usize,
    pub(super) outstanding_bytes: u64,
    /// Operations whose end is not known, by the powers of two of their
    /// lengths.
    undecided_lengths: [u32; 33],
    /// Of known end, not yet answered: when to, and which.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    said: Vec<Said>,
    /// What the alarm is set to.
    pub(super) armed_ns: Option<u64>,
    /// A thread is awake that looks for what is due, and sets the alarm when
    /// it leaves.
    pub(super) attended: bool,
    /// When the last operation came or was answered.
    pub(super) active_ns: u64,
    /// When the last answer began to go out.
    pub(super) sent_ns: u64,
    /// When to look at a client again.
    look_ns: u64,
    pub(super) waking: Waking,
    /// While requests come to a disk that is fast.
    awake: Option<KeptAwake>,
    pub(super) statistics: Statistics,
    pub(super) taken: Vec<Taken>,
    taken_max: usize,
    pub(super) stopped: bool,
    pub(super) power: Power,
}

struct KeptAwake {
    /// Where it is allowed.
    _processors: Option<Awake>,
    last_request_ns: u64,
    /// When to see whether requests still come.
    until_ns: u64,
}

/// What a tag stands for.
enum Slot {
    Free,
    Outstanding(Operation),
    /// The model has not come to the end yet.
    Answered,
}

pub(super) struct Operation {
    kind: Kind,
    length: u32,
    arrived_ns: u64,
    company: Company,
    /// When its answer should go out, once the model has said.
    send_ns: Option<u64>,
    /// Until its end, by the model and its faults.
    latency_ns: u64,
    /// It has ended in the model.
    ended: bool,
    /// A fault's delay, which is added to the model's time once.
    stall_ns: u64,
    /// Its answer should be out, but for the data.
    overdue: bool,
    result: Option<io::Result<Vec<u8>>>,
    /// Durable when it is answered.
    covered: Covered,
    client: Option<Arc<dyn Client>>,
    reply: Reply,
}

impl Operation {
    /// That came then, and had that company.
    pub(super) fn new(
        kind: Kind,
        length: u32,
        (arrived_ns, company): (u64, Company),
        (client, reply): (Option<Arc<dyn Client>>, Reply),
    ) -> Operation {
        Operation {
            kind,
            length,
            arrived_ns,
            company,
            send_ns: None,
            latency_ns: 0,
            ended: false,
            stall_ns: 0,
            overdue: false,
            result: None,
            covered: Covered::default(),
            client,
            reply,
        }
    }
}

/// An answer that is ready.
pub(super) struct Answer {
    pub(super) send_ns: u64,
    pub(super) result: io::Result<Vec<u8>>,
    pub(super) covered: Covered,
    pub(super) reply: Reply,
    /// The client that can be seen, and what its request is, unless it waited
    /// for its data.
    seen: Option<Look>,
}

/// An answer whose client is looked at.
#[derive(Clone)]
pub(super) struct Look {
    pub(super) client: Arc<dyn Client>,
    /// When it should go out, after it came.
    send_ns: u64,
    /// By how much that is before the model's time.
    lead_ns: u64,
    /// Of the model.
    latency_ns: u64,
}

impl State {
    pub(super) fn new(queue: Queue, options: &ServerOptions) -> State {
        State {
            queue,
            lead: options.lead,
            correction: Correction::default(),
            operations: Vec::new(),
            free: Vec::new(),
            outstanding: 0,
            outstanding_bytes: 0,
            undecided_lengths: [0; 33],
            due: BinaryHeap::new(),
            said: Vec::new(),
            armed_ns: None,
            attended: false,
            active_ns: 0,
            sent_ns: 0,
            look_ns: 0,
            waking: Waking::default(),
            awake: None,
            statistics: Statistics::default(),
            // No copying of what there is while others wait.
            taken: Vec::with_capacity(options.taken_max),
            taken_max: options.taken_max,
            stopped: false,
            power: Power::default(),
        }
    }

    pub(super) fn keep_awake(&mut self, now_ns: u64) {
        let awake = self.awake.get_or_insert_with(|| KeptAwake {
            _processors: Awake::hold(),
            last_request_ns: now_ns,
            until_ns: now_ns + AWAKE_NS,
        });
        awake.last_request_ns = now_ns;
    }

    /// Once no request has come for long enough.
    pub(super) fn let_sleep(&mut self, now_ns: u64) {
        let Some(awake) = &mut self.awake else {
            return;
        };
        if awake.until_ns <= now_ns {
            awake.until_ns = awake.last_request_ns + AWAKE_NS;
        }
        if awake.until_ns <= now_ns {
            self.awake = None;
        }
    }

    pub(super) fn company(&self, now_ns: u64) -> Company {
        if self.outstanding > 0 {
            return Company::Others;
        }
        Company::None {
            since_ns: now_ns.saturating_sub(self.active_ns),
        }
    }

    pub(super) fn add(&mut self, operation: Operation) -> u32 {
        self.active_ns = operation.arrived_ns;
        self.power.transferring += 1;
        self.outstanding += 1;
        self.outstanding_bytes += u64::from(operation.length);
        self.undecided_lengths[length_class(operation.length)] += 1;
        let slot = Slot::Outstanding(operation);
        if let Some(tag) = self.free.pop() {
            self.operations[tag as usize] = slot;
            return tag;
        }
        self.operations.push(slot);
        self.operations.len() as u32 - 1
    }

    /// Outstanding from [`add`](Self::add) to [`remove`](Self::remove).
    fn operation(&mut self, tag: u32) -> &mut Operation {
        match &mut self.operations[tag as usize] {
            Slot::Outstanding(operation) => operation,
            Slot::Free | Slot::Answered => unreachable!("outstanding until it is removed"),
        }
    }

    pub(super) fn give(&mut self, tag: u32, (offset, length): (u64, u32), durable: bool) {
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
        self.queue.submit(arrived_ns, command, &mut self.said);
        if self.taken.len() < self.taken_max {
            self.taken.push(Taken {
                arrived_ns,
                taken_ns: self.queue.now_ns(),
                command,
            });
        }
        self.schedule();
    }

    /// The data have been moved. If the model was faster, the answer is due.
    pub(super) fn finish_transfer(&mut self, tag: u32, transferred: Transferred) {
        self.power.transferring -= 1;
        let is_on = self.power.is_on();
        let operation = self.operation(tag);
        operation.result = Some(transferred.result);
        operation.stall_ns = transferred.stall_ns;
        operation.covered = transferred.covered;
        // After a power cut it is due to nobody.
        if operation.overdue && is_on {
            let is_stalled = operation.stall_ns > 0;
            let send_ns = operation.send_ns.unwrap_or_default();
            self.due.push(Reverse((send_ns, tag)));
            self.statistics.medium_late += u64::from(!is_stalled);
        }
    }

    /// Decides when to answer, of what the model has said.
    fn schedule(&mut self) {
        let mut all = std::mem::take(&mut self.said);
        for said in all.drain(..) {
            match said {
                Said::WillEnd(done) => self.decide(done),
                Said::Ended(done) => self.end(done),
            }
        }
        self.said = all;
    }

    /// By how much the answer to such an operation goes out early.
    fn lead_ns(&self, length: u32, company: Company) -> u64 {
        let measured_ns = self.lead.of(length, company);
        measured_ns.saturating_add_signed(self.correction.by_ns())
    }

    fn decide(&mut self, done: Done) {
        let operation = self.operation(done.tag);
        let (length, company) = (operation.length, operation.company);
        let lead_ns = self.lead_ns(length, company);
        let operation = self.operation(done.tag);
        let send_ns = done.at_ns.saturating_sub(lead_ns);
        operation.send_ns = Some(send_ns);
        let latency_ns = done.at_ns.saturating_sub(operation.arrived_ns);
        let meant_ns = send_ns.saturating_sub(operation.arrived_ns);
        operation.latency_ns = latency_ns;
        self.statistics.model_latency_sum_ns += u128::from(latency_ns);
        self.statistics.meant_sum_ns += u128::from(meant_ns);
        self.undecided_lengths[length_class(length)] -= 1;
        self.due.push(Reverse((send_ns, done.tag)));
    }

    fn end(&mut self, done: Done) {
        let slot = &mut self.operations[done.tag as usize];
        let Slot::Outstanding(operation) = slot else {
            *slot = Slot::Free;
            self.free.push(done.tag);
            return;
        };
        operation.ended = true;
        if operation.send_ns.is_none() {
            self.decide(done);
        }
    }

    /// How far the model is ahead of the clock, so that each answer is known
    /// when it must go out. What comes until then, begins then: so a model is
    /// asked to foresee ends, and is ahead only for those that it cannot.
    fn ahead_ns(&self) -> u64 {
        let longest = self.undecided_lengths.iter().rposition(|&count| count > 0);
        longest.map_or(0, |class| {
            let length = class_length_max(class);
            let alone = self.lead_ns(length, Company::None { since_ns: u64::MAX });
            alone.max(self.lead_ns(length, Company::Others))
        })
    }

    /// When to look again.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let undecided = self.undecided_lengths.iter().any(|&count| count > 0);
        let event = self.queue.next_event_ns().filter(|_| undecided);
        let event = event.map(|at_ns| at_ns.saturating_sub(self.ahead_ns()));
        let due = self.due.peek().map(|Reverse((at_ns, _))| *at_ns);
        event.into_iter().chain(due).min()
    }

    /// When to wake up for it.
    pub(super) fn alarm_ns(&self) -> Option<u64> {
        let margin_ns = self.waking.margin_ns();
        let next_ns = self.next_ns();
        let early_ns = next_ns.map(|at_ns| at_ns.saturating_sub(margin_ns));
        let until_ns = self.awake.as_ref().map(|awake| awake.until_ns);
        early_ns.into_iter().chain(until_ns).min()
    }

    /// Nothing any more after a power cut.
    pub(super) fn take_due(&mut self, now_ns: u64, answers: &mut Vec<Answer>) {
        if !self.power.is_on() {
            return;
        }
        let until_ns = now_ns + self.ahead_ns();
        self.queue.run_events(until_ns, &mut self.said);
        self.schedule();
        while let Some(&Reverse((send_ns, tag))) = self.due.peek()
            && send_ns <= now_ns
        {
            self.due.pop();
            let operation = self.operation(tag);
            if operation.result.is_none() {
                operation.overdue = true;
            } else if !self.postpone(tag) {
                self.note(tag, now_ns);
                answers.push(self.remove(tag));
            }
        }
    }

    /// No answer is due from now on, whatever the model says.
    pub(super) fn forget_due(&mut self) {
        self.due.clear();
        self.undecided_lengths.fill(0);
    }

    /// Everything that has no answer, once all of it has its data.
    pub(super) fn take_unanswered(&mut self) -> Vec<Reply> {
        self.free.clear();
        self.outstanding = 0;
        self.outstanding_bytes = 0;
        let mut unanswered = Vec::new();
        for slot in std::mem::take(&mut self.operations) {
            let Slot::Outstanding(operation) = slot else {
                continue;
            };
            self.statistics.without_power += 1;
            if let Some(send_ns) = operation.send_ns {
                let meant_ns = send_ns.saturating_sub(operation.arrived_ns);
                self.statistics.take_back(operation.latency_ns, meant_ns);
            }
            unanswered.push(operation.reply);
        }
        unanswered
    }

    /// Adds a fault's delay to what is due. False where there is none.
    fn postpone(&mut self, tag: u32) -> bool {
        let operation = self.operation(tag);
        let stall_ns = std::mem::take(&mut operation.stall_ns);
        let send_ns = operation.send_ns.unwrap_or_default() + stall_ns;
        if stall_ns > 0 {
            operation.send_ns = Some(send_ns);
            operation.latency_ns += stall_ns;
            self.due.push(Reverse((send_ns, tag)));
        }
        stall_ns > 0
    }

    /// What the client of an operation that is answered now should see. That
    /// it waits for the backing file is not the transport's.
    fn note(&mut self, tag: u32, now_ns: u64) {
        let operation = self.operation(tag);
        if operation.kind == Kind::Flush {
            return;
        }
        let send_ns = operation.send_ns.unwrap_or_default();
        let late_ns = now_ns.saturating_sub(send_ns);
        let waited_ns = if operation.overdue { late_ns } else { 0 };
        let expected_ns = operation.latency_ns + waited_ns;
        self.correction.note(expected_ns);
    }

    /// Whether to look when these answers' client takes them: of one that goes
    /// out alone to a client that waits for it, that can be seen.
    pub(super) fn look(&mut self, answers: &[Answer], now_ns: u64) -> Option<Look> {
        let [answer] = answers else {
            return None;
        };
        if self.lead.follows != Follows::Clients || now_ns < self.look_ns {
            return None;
        }
        let look = answer.seen.clone()?;
        if !look.client.has_taken_all() {
            return None;
        }
        self.look_ns = now_ns + LOOK_PERIOD_NS;
        Some(look)
    }

    /// A client has taken its answer. Its request came to the disk as its
    /// answer came to it, by the waking of a thread that waits on the socket.
    pub(super) fn learn_way(&mut self, look: &Look, sent_ns: u64, taken_ns: u64) {
        let late_ns = sent_ns.saturating_sub(look.send_ns);
        let back_ns = taken_ns.saturating_sub(sent_ns);
        let there_ns = back_ns * THERE_PERCENT / 100;
        let way_ns = there_ns + late_ns + back_ns;
        let error_ns = way_ns as i64 - look.lead_ns as i64;
        let base_ns = self.lead.base_ns;
        self.correction
            .learn_one(error_ns, look.latency_ns, base_ns);
    }

    /// What is due and has its data.
    fn remove(&mut self, tag: u32) -> Answer {
        let ended = self.operation(tag).ended;
        let left = if ended { Slot::Free } else { Slot::Answered };
        let slot = std::mem::replace(&mut self.operations[tag as usize], left);
        let Slot::Outstanding(operation) = slot else {
            unreachable!("outstanding until it is removed");
        };
        if ended {
            self.free.push(tag);
        }
        self.outstanding -= 1;
        self.outstanding_bytes -= u64::from(operation.length);
        let result = operation.result.expect("removed only with its data");
        let send_ns = operation.send_ns.unwrap_or_default();
        let latency_ns = operation.latency_ns;
        let seen = operation.client.filter(|_| !operation.overdue);
        // No answer goes out before its request has come.
        let could_ns = send_ns.max(operation.arrived_ns);
        let seen = seen.map(|client| Look {
            client,
            send_ns: could_ns,
            lead_ns: latency_ns.saturating_sub(could_ns - operation.arrived_ns),
            latency_ns,
        });
        match operation.kind {
            Kind::Read => self.statistics.reads += 1,
            Kind::Write => self.statistics.writes += 1,
            Kind::Flush => self.statistics.flushes += 1,
        }
        self.statistics.errors += u64::from(result.is_err());
        Answer {
            send_ns,
            result,
            covered: operation.covered,
            reply: operation.reply,
            seen,
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
