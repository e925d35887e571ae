//! A backend that holds operations until they are released, and fails those
//! that it is told to.

use crate::backend::{
    self, Backend, BackendChoice, BackendKind, Completed, OpCode, PinnedOp, Wake,
};
use crate::device::OpenBackend;
use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// What happens to the operations of one kind that touch one position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub code: OpCode,
    /// Operations that begin here or reach over it; for a sync ignored.
    pub offset: u64,
    pub errno: i32,
    /// How often; then operations succeed again.
    pub times: u32,
}

#[derive(Default)]
struct Shared {
    hold: bool,
    /// Completions are held back until this many can be reaped at once.
    gather: usize,
    faults: Vec<Fault>,
    /// Code and offset of all operations, in the order in which they came.
    seen: Vec<(OpCode, u64)>,
    waker: Option<Arc<dyn Wake>>,
}

/// A test's hand on the backend.
#[derive(Default)]
pub(super) struct Control {
    shared: Mutex<Shared>,
    changed: Condvar,
}

impl Control {
    /// From now on operations wait until [`release`](Control::release).
    pub fn hold(&self) {
        self.shared.lock().unwrap().hold = true;
    }

    pub fn release(&self) {
        let mut shared = self.shared.lock().unwrap();
        shared.hold = false;
        if let Some(waker) = &shared.waker {
            waker.wake();
        }
    }

    /// The next `count` completions are reaped together, failures last.
    pub fn gather(&self, count: usize) {
        self.shared.lock().unwrap().gather = count;
    }

    pub fn fail(&self, fault: Fault) {
        self.shared.lock().unwrap().faults.push(fault);
    }

    pub fn seen(&self) -> Vec<(OpCode, u64)> {
        self.shared.lock().unwrap().seen.clone()
    }

    /// Waits until the backend has seen `count` operations.
    pub fn wait_seen(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(120);
        let mut shared = self.shared.lock().unwrap();
        while shared.seen.len() < count {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "only {:?} of {count}", shared.seen);
            shared = self.changed.wait_timeout(shared, left).unwrap().0;
        }
    }
}

/// For `EngineBuilder::open_backend`.
pub(super) fn opener(control: &Arc<Control>) -> Box<OpenBackend> {
    let control = Arc::clone(control);
    Box::new(move |capacity| {
        let choice = BackendChoice::Only(BackendKind::Threads);
        let (inner, report) = backend::open(choice, capacity)?;
        control.shared.lock().unwrap().waker = Some(inner.waker());
        let faulty = Faulty {
            inner,
            control: Arc::clone(&control),
            held: Vec::new(),
            failed: Vec::new(),
            gathered: Vec::new(),
        };
        Ok((Box::new(faulty), report))
    })
}

struct Faulty {
    inner: Box<dyn Backend>,
    control: Arc<Control>,
    held: Vec<PinnedOp>,
    failed: Vec<Completed>,
    gathered: Vec<Completed>,
}

impl Faulty {
    fn carry_out(&mut self, op: PinnedOp) {
        let mut shared = self.control.shared.lock().unwrap();
        let (code, offset, token) = (op.op().code, op.op().offset, op.op().token);
        let sync = matches!(code, OpCode::SyncData | OpCode::SyncAll);
        let length = if sync { 0 } else { op.length() };
        let fault = shared.faults.iter_mut().find(|fault| {
            fault.times > 0
                && fault.code == code
                && (sync || (offset..offset + length).contains(&fault.offset))
        });
        match fault {
            Some(fault) => {
                fault.times -= 1;
                let result = -fault.errno;
                self.failed.push(Completed { token, result });
            }
            None => self.inner.push(op),
        }
    }
}

impl Backend for Faulty {
    fn kind(&self) -> BackendKind {
        self.inner.kind()
    }

    fn capacity(&self) -> u32 {
        self.inner.capacity()
    }

    fn push(&mut self, op: PinnedOp) {
        let mut shared = self.control.shared.lock().unwrap();
        shared.seen.push((op.op().code, op.op().offset));
        self.control.changed.notify_all();
        let hold = shared.hold;
        drop(shared);
        if hold {
            self.held.push(op);
        } else {
            self.carry_out(op);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    fn reap(&mut self, timeout: Option<Duration>, out: &mut Vec<Completed>) -> io::Result<()> {
        if !self.control.shared.lock().unwrap().hold {
            for op in std::mem::take(&mut self.held) {
                self.carry_out(op);
            }
        }
        let timeout = if self.failed.is_empty() {
            timeout
        } else {
            Some(Duration::ZERO)
        };
        let reaped = self.inner.reap(timeout, &mut self.gathered);
        let mut shared = self.control.shared.lock().unwrap();
        if self.gathered.len() + self.failed.len() >= shared.gather {
            shared.gather = 0;
            out.append(&mut self.gathered);
            out.append(&mut self.failed);
        }
        reaped
    }

    fn waker(&self) -> Arc<dyn Wake> {
        self.inner.waker()
    }
}
