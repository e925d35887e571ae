//! What stands between the host's requests and the disk's queue, in virtual
//! time.
//!
//! | Elevator | What it is |
//! |---|---|
//! | [`Core`] | `iolane-sched`, the project's own, with any of its policies |
//! | [`LinuxNoop`] | Linux 2.6: first in, first out, with merging |
//! | [`LinuxDeadline`] | Linux 2.6: position order in batches, with expiry times |
//! | [`Anticipatory`] | Linux 2.6: the same, but waits for a process that will read on |
//! | [`Cfq`] | Linux 2.6: time slices for each process |
//!
//! The Linux ones are written from what was published about them, and stand
//! here as the reference that the documents measured. Where they differ from a
//! particular kernel, their pages say so.

mod core;
mod linux;

pub use self::core::Core;
pub use linux::{
    Anticipatory, AnticipatoryParameters, AnticipatoryScheduler, BlockLayer, BlockLayerParameters,
    Cfq, CfqParameters, CfqScheduler, DeadlineParameters, DeadlineScheduler, LinuxDeadline,
    LinuxNoop, LinuxScheduler, NoopScheduler, Queued,
};

use crate::model::Kind;
use iolane_sched::Level;

/// One request of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it does.
    pub kind: Kind,
    /// First byte; 0 for a flush.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub length: u32,
    /// A write that must be durable when it ends.
    pub durable: bool,
    /// Which thread submitted it. Schedulers that keep books by process go by
    /// this, as Linux gives every thread an I/O context of its own.
    pub process: u32,
    /// Somebody waits for it: a read, or a write for a commit. Linux schedulers
    /// treat what is not as work that can wait.
    pub sync: bool,
    /// How urgent it is.
    pub level: Level,
}

/// One command for the disk, made of one or several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Its name: the tag of one of its requests.
    pub tag: u32,
    /// What it does.
    pub kind: Kind,
    /// First byte.
    pub offset: u64,
    /// Bytes, gaps that are read through included.
    pub length: u32,
    /// Whether it must be durable when it ends.
    pub durable: bool,
    /// Where its requests end in [`Dispatched::members`]; they begin where
    /// those of the transfer before it end.
    pub members_end: usize,
}

/// What [`Elevator::dispatch`] fills. Reuse one: it keeps its memory.
#[derive(Clone, Debug, Default)]
pub struct Dispatched {
    /// To hand to the disk, in this order.
    pub transfers: Vec<Transfer>,
    /// Tags of their requests.
    pub members: Vec<u32>,
}

impl Dispatched {
    /// Empties it.
    pub fn clear(&mut self) {
        self.transfers.clear();
        self.members.clear();
    }
}

/// A scheduler of one disk, in virtual time: a deterministic state machine, as
/// the [`Model`](crate::Model) is.
///
/// Requests are named by tags that the caller chooses: small numbers, unique
/// among those that have not ended, because tables are indexed by them.
pub trait Elevator: Send {
    /// The disk that it stands before: how many commands that takes at once.
    /// Called once, before everything else.
    fn attach(&mut self, queue_max: usize);

    /// Longest request that it takes. The host splits what is longer.
    fn request_bytes_max(&self) -> u32;

    /// Whether [`add`](Elevator::add) would take the request now. `false`
    /// blocks the submitter until something was dispatched or has ended.
    fn admits(&self, request: &Request) -> bool;

    /// Takes a request that it [`admits`](Elevator::admits).
    fn add(&mut self, now_ns: u64, tag: u32, request: &Request);

    /// Appends what should go to the disk now, at most `room` commands.
    fn dispatch(&mut self, now_ns: u64, room: usize, out: &mut Dispatched);

    /// The transfer of this name has ended, and all its requests with it.
    fn complete(&mut self, now_ns: u64, tag: u32);

    /// When to call [`dispatch`](Elevator::dispatch) again though nothing has
    /// come and nothing ended. `None`: there is no such moment.
    fn next_timer_ns(&self) -> Option<u64>;
}

impl<E: Elevator + ?Sized> Elevator for Box<E> {
    fn attach(&mut self, queue_max: usize) {
        (**self).attach(queue_max);
    }

    fn request_bytes_max(&self) -> u32 {
        (**self).request_bytes_max()
    }

    fn admits(&self, request: &Request) -> bool {
        (**self).admits(request)
    }

    fn add(&mut self, now_ns: u64, tag: u32, request: &Request) {
        (**self).add(now_ns, tag, request);
    }

    fn dispatch(&mut self, now_ns: u64, room: usize, out: &mut Dispatched) {
        (**self).dispatch(now_ns, room, out);
    }

    fn complete(&mut self, now_ns: u64, tag: u32) {
        (**self).complete(now_ns, tag);
    }

    fn next_timer_ns(&self) -> Option<u64> {
        (**self).next_timer_ns()
    }
}

/// The place of `tag` in a table that grows to the highest tag ever used.
fn at_tag<T: Clone>(table: &mut Vec<T>, tag: u32, empty: T) -> &mut T {
    let index = tag as usize;
    if index >= table.len() {
        table.resize(index + 1, empty);
    }
    &mut table[index]
}
