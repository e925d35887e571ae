//! How much may be in flight.
//!
//! [`learned`] finds it by experiments while running; [`pace`] keeps what goes to a rate,
//! [`foreground`] knows whether there is one. This file says what a window means for each
//! level, a fixed one too.

mod foreground;
mod learned;
mod pace;
mod shortest;

use crate::config::WindowConfig;
use crate::objective::Objective;
use crate::request::{Direction, Held, Level, Request};
use crate::scheduler::Flight;
use learned::Learned;
pub use pace::{RateLimit, RateScope, RateUnit};
use shortest::Shortest;

/// Before anything was measured: a rotating disk.
const SERVICE_NS_START: u64 = 10_000_000;

/// What was learned of the device.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowState {
    /// Transfers of lower levels that may be in flight; with a fixed window, of all.
    pub transfers: f64,
    /// Shortest latency of a transfer seen lately.
    pub service_ns: u64,
    /// The volume's budget, while keeping below it pays.
    pub rate_limit: Option<RateLimit>,
    /// Most writes of lower levels between two flushes that somebody waits for, while
    /// that pays.
    pub unflushed_max: Option<u32>,
}

/// One finished transfer.
pub(crate) struct Sample {
    pub direction: Direction,
    pub bytes: u32,
    /// How many it was made of.
    pub requests: u32,
    pub enqueued_ns: u64,
    pub dispatched_ns: u64,
    pub ok: bool,
    /// Whether somebody waited for it.
    pub urgent: bool,
    /// Whether that was for stable storage.
    pub durable: bool,
    /// Whether a lower level has more to send.
    pub lower_waiting: bool,
    /// Requests queued that somebody waits for.
    pub urgent_queued: u32,
}

pub(crate) struct Window {
    config: WindowConfig,
    service: Shortest,
    learned: Option<Box<Learned>>,
}

impl Window {
    pub(crate) fn new(config: WindowConfig, objective: Objective) -> Window {
        let learns = config == WindowConfig::Learned;
        Window {
            config,
            service: Shortest::new(),
            learned: learns.then(|| Box::new(Learned::new(objective))),
        }
    }

    pub(crate) fn config(&self) -> WindowConfig {
        self.config
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, now_ns: u64, flight: &Flight) {
        if let Some(learned) = &mut self.learned {
            learned.advance(now_ns, flight);
        }
    }

    /// Whether one more transfer of `level` may go. With a fixed window under
    /// `lanes`, the two upper levels go in any case.
    pub(crate) fn has_room(&self, flight: &Flight, level: Level) -> bool {
        match self.config {
            WindowConfig::Learned => self.is(|it| it.has_room(flight, level)),
            WindowConfig::Fixed(limit) => level <= Level::Foreground || flight.transfers < limit,
        }
    }

    /// Whether a rate limit, or a device that is the foreground's, lets nothing of `level`
    /// go, not even its minimum.
    pub(crate) fn is_shut_out(&self, flight: &Flight, level: Level) -> bool {
        self.is(|it| it.is_shut_out(flight, level))
    }

    /// Which transfers of the lower levels have to wait: those whose budget is used up,
    /// and writes and syncs if the next flush that somebody waits for has enough to do.
    pub(crate) fn held(&self) -> Held {
        let learned = self.learned.as_deref();
        learned.map_or_else(Held::default, Learned::held)
    }

    /// Whether requests of one level go by position; `rotational`: the device is said to
    /// have a head, which matters to a fixed window alone.
    pub(crate) fn sorts(&self, rotational: bool) -> bool {
        match &self.learned {
            Some(learned) => learned.sorts(),
            None => rotational,
        }
    }

    /// Whether the window is learned, and this is so.
    fn is(&self, of: impl Fn(&Learned) -> bool) -> bool {
        self.learned.as_deref().is_some_and(of)
    }

    /// Notes that a transfer of so many bytes goes to the device; `flight` is before it.
    pub(crate) fn departed(&mut self, now_ns: u64, flight: &Flight, request: &Request, bytes: u32) {
        if let Some(learned) = &mut self.learned {
            learned.departed(now_ns, flight, request, bytes);
        }
    }

    /// Notes that a transfer has ended; `flight` is without it.
    pub(crate) fn completed(&mut self, now_ns: u64, flight: &Flight, sample: &Sample) {
        if sample.ok && sample.bytes > 0 {
            self.service
                .add(now_ns, now_ns.saturating_sub(sample.dispatched_ns));
        }
        if let Some(learned) = &mut self.learned {
            learned.completed(now_ns, flight, sample);
        }
    }

    /// When a rate limit or the limit of unflushed writes lets the next request go.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.learned.as_ref()?.next_timer()
    }

    /// The shortest latency seen lately.
    pub(crate) fn service_ns(&self) -> u64 {
        self.service.get().unwrap_or(SERVICE_NS_START)
    }

    pub(crate) fn state(&self) -> WindowState {
        let learned = self.learned.as_deref();
        WindowState {
            transfers: match self.config {
                WindowConfig::Fixed(limit) => f64::from(limit),
                WindowConfig::Learned => learned.map_or(0.0, Learned::transfers),
            },
            service_ns: self.service_ns(),
            rate_limit: learned.and_then(Learned::rate_limit),
            unflushed_max: learned.and_then(Learned::unflushed_max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Kind;

    #[test]
    fn clocks_of_threads_that_disagree_do_no_harm() {
        let mut window = Window::new(WindowConfig::Learned, Objective::default());
        let flight = Flight::default();
        let transfers = if cfg!(miri) { 2000 } else { 100_000 };
        for transfer in 0..transfers {
            // Every other completion was timed 30 us before the one before it.
            let now_ns = 1_000_000_000 + transfer * 20_000 - transfer % 2 * 50_000;
            let sample = Sample {
                direction: Direction::Read,
                bytes: 16_384,
                requests: 1,
                enqueued_ns: now_ns - 100_000,
                dispatched_ns: now_ns - 100_000,
                ok: true,
                urgent: false,
                durable: false,
                lower_waiting: true,
                urgent_queued: 0,
            };
            let request = Request {
                kind: Kind::Read,
                file: 0,
                offset: 0,
                length: 16_384,
                level: Level::Background,
                durable: false,
            };
            window.departed(now_ns, &flight, &request, 16_384);
            window.completed(now_ns, &flight, &sample);
        }
        let state = window.state();
        assert_eq!(state.rate_limit, None);
        assert!((1.0..=512.0).contains(&state.transfers), "{state:?}");
        assert!(state.service_ns <= 100_000, "{state:?}");
    }
}
