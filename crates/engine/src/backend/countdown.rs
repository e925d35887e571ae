//! What is left of a timeout while a blocking call is repeated.

use std::time::{Duration, Instant};

pub(super) struct Countdown {
    /// `None`: no limit.
    end: Option<Instant>,
}

impl Countdown {
    /// A timeout beyond what the clock can name is none.
    pub(super) fn new(timeout: Option<Duration>) -> Countdown {
        Countdown {
            end: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
        }
    }

    /// How long the next call may block; `None` has no limit.
    pub(super) fn left(&self) -> Option<Duration> {
        self.end
            .map(|end| end.saturating_duration_since(Instant::now()))
    }

    pub(super) fn is_over(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }
}
