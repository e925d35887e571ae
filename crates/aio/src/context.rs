//! What `io_setup` makes: outstanding requests, and the events of those that
//! have completed.

use crate::direct::Direct;
use crate::parts::Parts;
use crate::submit::errno_of;
use crate::sys::abi::{Errno, IoEvent, Iocb};
use crate::sys::descriptor::Event;
use crate::sys::ring::Ring;
use crate::sys::wait;
use iolane::{Leave, Ticket};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// As many as the kernel has by default for all processes
/// (`/proc/sys/fs/aio-max-nr`).
pub(crate) const EVENTS_MAX: u32 = 65_536;

pub(crate) struct Context {
    ring: Ring,
    /// Requests outstanding, and events not taken, together.
    capacity: u32,
    state: Mutex<State>,
    /// Whoever takes events.
    taking: Mutex<()>,
    /// Changes when those who sleep should look again.
    changes: AtomicU32,
    /// The last request of a destroyed context has completed.
    drained: Condvar,
    pub direct: Direct,
}

struct State {
    requests: Vec<Option<Outstanding>>,
    free: Vec<u32>,
    outstanding: u32,
    /// The least events that any sleeper waits for.
    wanted: u32,
    /// Of sleepers that have a mask of signals.
    bells: Vec<Arc<Event>>,
    destroyed: bool,
}

struct Outstanding {
    iocb: u64,
    data: u64,
    event: Option<Arc<Event>>,
    parts: Parts,
    tickets: Vec<Ticket>,
    /// Of one that went to the kernel at once.
    leave: Option<Leave>,
}

/// How long to sleep, and with which signals.
pub(crate) struct Patience<'a> {
    pub timeout: Option<Duration>,
    pub mask: Option<&'a libc::sigset_t>,
}

impl Context {
    pub(crate) fn new(events: u32) -> Context {
        Context {
            ring: Ring::new(events),
            capacity: events,
            state: Mutex::new(State {
                requests: Vec::new(),
                free: Vec::new(),
                outstanding: 0,
                wanted: u32::MAX,
                bells: Vec::new(),
                destroyed: false,
            }),
            taking: Mutex::new(()),
            changes: AtomicU32::new(0),
            drained: Condvar::new(),
            direct: Direct::default(),
        }
    }

    pub(crate) fn address(&self) -> usize {
        self.ring.address()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is about to be submitted: its number.
    pub(crate) fn begin(
        &self,
        address: u64,
        iocb: &Iocb,
        event: Option<Arc<Event>>,
        parts: Parts,
    ) -> Result<u32, Errno> {
        let mut state = self.lock();
        if state.destroyed {
            return Err(Errno(libc::EINVAL));
        }
        if state.outstanding + self.ring.len() >= self.capacity {
            return Err(Errno(libc::EAGAIN));
        }
        let request = Outstanding {
            iocb: address,
            data: iocb.data,
            event,
            parts,
            tickets: Vec::new(),
            leave: None,
        };
        let number = match state.free.pop() {
            Some(number) => {
                state.requests[number as usize] = Some(request);
                number
            }
            None => {
                state.requests.push(Some(request));
                state.requests.len() as u32 - 1
            }
        };
        state.outstanding += 1;
        Ok(number)
    }

    /// What requests can be withdrawn by.
    pub(crate) fn hold(&self, tickets: impl Iterator<Item = (u32, Ticket)>) {
        let mut state = self.lock();
        for (number, ticket) in tickets {
            if let Some(request) = &mut state.requests[number as usize] {
                request.tickets.push(ticket);
            }
        }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// It goes to the kernel at once.
    pub(crate) fn carry(&self, number: u32, leave: Leave) {
        if let Some(request) = &mut self.lock().requests[number as usize] {
            request.leave = Some(leave);
        }
    }

    /// The kernel is done with it: bytes or a negative errno.
    pub(crate) fn carried(&self, number: u32, result: i64) {
        let leave = match &mut self.lock().requests[number as usize] {
            Some(request) => request.leave.take(),
            None => None,
        };
        let result = u32::try_from(result).map_err(|_| -result as i32);
        let Some(leave) = leave else {
            return;
        };
        let result = leave.finish(result).map_err(|error| errno_of(&error));
        self.part_done(number, 0, result);
    }

    /// It was not submitted after all.
    pub(crate) fn abandon(&self, number: u32) {
        let mut state = self.lock();
        state.remove(number);
        self.note_drained(&state);
    }

    /// A piece of a request has completed.
    pub(crate) fn part_done(&self, number: u32, part: usize, result: Result<usize, Errno>) {
        let mut state = self.lock();
        if let Some(request) = &mut state.requests[number as usize] {
            request.parts.done(part, result);
        }
        self.announce(state, number);
    }

    /// If all pieces of a request have completed: its event.
    fn announce(&self, mut state: MutexGuard<'_, State>, number: u32) {
        let done = |request: &Outstanding| request.parts.are_done();
        if !state.requests[number as usize].as_ref().is_some_and(done) {
            return;
        }
        let Some(request) = state.remove(number) else {
            return;
        };
        self.ring.push(IoEvent {
            data: request.data,
            obj: request.iocb,
            res: request.parts.result(),
            res2: 0,
        });
        self.note_drained(&state);
        let wake = self.ring.len() >= state.wanted;
        if wake {
            self.wake_sleepers(&mut state);
        }
        drop(state);
        if wake {
            wait::wake_all(&self.changes);
        }
        if let Some(event) = request.event {
            event.ring();
        }
    }

    /// A request without any piece completes at once.
    pub(crate) fn empty(&self, number: u32) {
        self.announce(self.lock(), number);
    }

    fn note_drained(&self, state: &State) {
        if state.destroyed && state.outstanding == 0 {
            self.drained.notify_all();
        }
    }

    /// To be followed by a `wake_all`, without the lock.
    fn wake_sleepers(&self, state: &mut State) {
        // Whoever still sleeps then says so again.
        state.wanted = u32::MAX;
        self.changes.fetch_add(1, Ordering::Relaxed);
        for bell in &state.bells {
            bell.ring();
        }
    }

    fn take(&self, most: u32, give: &mut impl FnMut(IoEvent)) -> u32 {
        let _taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = 0;
        while taken < most
            && let Some(event) = self.ring.take()
        {
            give(event);
            taken += 1;
        }
        taken
    }

    /// Gives events, at most `most`; waits for `least` of them.
    ///
    /// # Errors
    /// EINTR, or EINVAL when the context was destroyed meanwhile, and no event
    /// was given.
    pub(crate) fn events(
        &self,
        least: u32,
        most: u32,
        patience: &Patience<'_>,
        mut give: impl FnMut(IoEvent),
    ) -> Result<u32, Errno> {
        let mut taken = self.take(most, &mut give);
        if taken >= least {
            return Ok(taken);
        }
        // Beyond what an `Instant` can say is for ever.
        let end = patience
            .timeout
            .and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(taken);
            }
            let slept = self.sleep(least - taken, left, patience.mask);
            taken += self.take(most - taken, &mut give);
            match slept {
                _ if taken >= least => return Ok(taken),
                Err(_) if taken > 0 => return Ok(taken),
                Err(errno) => return Err(errno),
                Ok(()) => {}
            }
        }
    }

    /// Sleeps until there are so many events, or for less.
    fn sleep(
        &self,
        events: u32,
        timeout: Option<Duration>,
        mask: Option<&libc::sigset_t>,
    ) -> Result<(), Errno> {
        let bell = match mask {
            Some(_) => Some(Arc::new(Event::new()?)),
            None => None,
        };
        let seen = {
            let mut state = self.lock();
            if state.destroyed {
                return Err(Errno(libc::EINVAL));
            }
            if self.ring.len() >= events {
                return Ok(());
            }
            state.wanted = state.wanted.min(events);
            state.bells.extend(bell.clone());
            self.changes.load(Ordering::Relaxed)
        };
        let (Some(bell), Some(mask)) = (bell, mask) else {
            return wait::sleep(&self.changes, seen, timeout);
        };
        let slept = wait::poll(bell.borrow(), timeout, mask);
        self.lock().bells.retain(|other| !Arc::ptr_eq(other, &bell));
        slept
    }

    /// Withdraws the request of a control block, if it has not gone to the
    /// device. Its event then says ECANCELED.
    ///
    /// # Errors
    /// EINVAL: there is none. EAGAIN: it was not withdrawn.
    pub(crate) fn cancel(&self, iocb: u64) -> Result<(), Errno> {
        let of = |request: &Option<Outstanding>| request.as_ref().is_some_and(|r| r.iocb == iocb);
        let (number, tickets) = {
            let state = self.lock();
            let number = state
                .requests
                .iter()
                .position(of)
                .ok_or(Errno(libc::EINVAL))?;
            let request = state.requests[number].as_ref();
            let tickets = request.map_or_else(Vec::new, |request| request.tickets.clone());
            (number as u32, tickets)
        };
        // Without the lock: the engine has its own, under which it completes.
        let mut withdrawn = 0;
        for (part, ticket) in tickets.iter().enumerate() {
            if ticket.cancel() {
                withdrawn += 1;
                self.part_done(number, part, Err(Errno(libc::ECANCELED)));
            }
        }
        match withdrawn > 0 && withdrawn == tickets.len() {
            true => Ok(()),
            false => Err(Errno(libc::EAGAIN)),
        }
    }

    /// Refuses new requests, and waits for those outstanding.
    pub(crate) fn destroy(&self) {
        let mut state = self.lock();
        state.destroyed = true;
        self.wake_sleepers(&mut state);
        wait::wake_all(&self.changes);
        while state.outstanding > 0 {
            state = self
                .drained
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.direct.destroy();
    }
}

impl State {
    fn remove(&mut self, number: u32) -> Option<Outstanding> {
        let request = self.requests[number as usize].take()?;
        self.free.push(number);
        self.outstanding -= 1;
        Some(request)
    }
}
