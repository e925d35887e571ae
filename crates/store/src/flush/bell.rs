//! Waking the flusher.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::task::Wake;
use std::time::Duration;

/// What the flusher sleeps on.
#[derive(Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Default)]
struct State {
    rung: bool,
    stop: bool,
}

impl Bell {
    /// There may be something to do.
    pub(crate) fn ring(&self) {
        self.change(|_| {});
    }

    /// Write everything, and end.
    pub(crate) fn stop(&self) {
        self.change(|state| state.stop = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        state.rung = true;
        self.rung.notify_all();
    }

    /// Sleeps until it rings or `timeout` has passed. Returns whether it rang.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.rung {
            self.rung.wait_for(&mut state, timeout);
        }
        std::mem::take(&mut state.rung)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state.lock().stop
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }
}
