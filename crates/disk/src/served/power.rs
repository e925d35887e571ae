//! The end of a disk, also while it is used: one moment.

use std::io;
use std::sync::{MutexGuard, PoisonError};

use super::server::{Server, Shared};
use super::state::State;

/// Of one disk, under its lock.
#[derive(Default)]
pub(super) struct Power {
    is_cut: bool,
    /// Operations whose data are on their way.
    pub(super) transferring: usize,
    /// Threads that send answers which were due before.
    pub(super) answering: usize,
}

impl Power {
    pub(super) fn is_on(&self) -> bool {
        !self.is_cut
    }

    fn is_quiet(&self) -> bool {
        self.transferring == 0 && self.answering == 0
    }
}

/// What a disk says that is gone.
pub(super) fn no_power() -> io::Error {
    io::Error::from_raw_os_error(libc::EIO)
}

impl Server {
    /// Cuts the power, while the disk is used or not. From one moment on no
    /// operation begins. Those that were moving data then may end, so that each
    /// is on the medium as far as the faults let it; none of them is answered but
    /// with `EIO`, as are all that come later. Then the medium gets back what the
    /// plan's faults left in the disk's cache only. The power stays off.
    ///
    /// Returns when all that is done, and how many bytes of the medium went back
    /// to what they had been; once more, the same. Waits for the medium. Not to
    /// be called from a [`Reply`](super::Reply).
    ///
    /// # Errors
    /// The medium's. Called once more, it goes on with what is left to do.
    pub fn power_cut(&self) -> io::Result<u64> {
        let mut took_bytes = self.shared.took_bytes();
        for reply in self.shared.switch_off() {
            reply(Err(no_power()));
        }
        *took_bytes += self.shared.contents.power_cut()?;
        Ok(*took_bytes)
    }

    /// Until it is [cut](Self::power_cut).
    pub fn has_power(&self) -> bool {
        self.shared.lock().power.is_on()
    }
}

impl Shared {
    /// One cut at a time.
    fn took_bytes(&self) -> MutexGuard<'_, u64> {
        let took = self.took_bytes.lock();
        took.unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets nothing begin any more, and waits until nothing is under way.
    fn switch_off(&self) -> Vec<super::Reply> {
        let mut state = self.lock();
        state.power.is_cut = true;
        state.forget_due();
        // Who waits for room learns that there will be none.
        self.room.notify_all();
        while !state.power.is_quiet() {
            let waited = self.quiet.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.take_unanswered()
    }

    pub(super) fn tell_if_quiet(&self, state: &State) {
        if !state.power.is_on() && state.power.is_quiet() {
            self.quiet.notify_all();
        }
    }
}
