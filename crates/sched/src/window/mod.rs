//! How much may be in flight, learned while running.
//!
//! [`cost`] weighs what a transfer costs the device, [`knee`] finds how much cost
//! in flight is enough by [`comparisons`]. [`stalls`] and [`even`] recognise two
//! kinds of volumes with a budget, under which [`pace`] stays. [`foreground`] knows whether
//! there is one, this file puts them together and says what they mean for
//! each level. [`unflushed`] limits what they write into a drive's cache, by a [`line`] through
//! the latest flushes, [`head`] what
//! goes to a disk that has one beside somebody's transfer.
//!
//! [`climbing`] is another way to all of that, by experiments alone.

mod climbing;
mod comparisons;
pub(crate) mod cost;
mod even;
mod foreground;
mod head;
mod knee;
mod line;
mod pace;
mod presumed;
mod served;
mod shortest;
mod stalls;
mod unflushed;

use crate::config::WindowConfig;
use crate::objective::Objective;
use crate::request::{Kind, Level, Request};
use crate::scheduler::Flight;
use climbing::Climbing;
use cost::CostModel;
use even::Even;
use foreground::Foreground;
use head::Head;
use knee::{Completed, Knee};
use pace::Pace;
pub use pace::{RateLimit, RateUnit};
use shortest::Shortest;
use stalls::Stalls;
use unflushed::Unflushed;
pub use unflushed::WriteCache;
pub(crate) use unflushed::Written;

/// What a doubling of the window must bring in throughput: 11 % (2^0.15) when
/// the foreground pays for it with latency...
const ELASTICITY_SHARED: f64 = 0.15;
/// ... 3 % (2^0.04) when there is none.
const ELASTICITY_ALONE: f64 = 0.04;
/// Without a foreground so many may always be in flight: what the first request
/// of a foreground finds before it costs it a millisecond on flash, once, and
/// noise cannot shrink the window to a fraction of the throughput.
const ALONE_TRANSFERS_MIN: f64 = 32.0;
/// Requests that somebody waits for may fill this many windows; beyond, they
/// queue by level too, so that a log write is not behind a thousand reads.
const FOREGROUND_WINDOWS: f64 = 4.0;
/// But so many may always go.
const FOREGROUND_TRANSFERS_MIN: u32 = 32;
/// Before anything was measured: a rotating disk.
const SERVICE_NS_START: u64 = 10_000_000;

/// What was learned of the device.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowState {
    /// Transfers of the usual size that may be in flight before lower levels
    /// wait.
    pub transfers: f64,
    /// Shortest latency of a transfer seen lately.
    pub service_ns: u64,
    /// Size at which moving the data costs the device as much as the rest of
    /// a transfer.
    pub equal_bytes: f64,
    /// The volume's recognised budget.
    pub rate_limit: Option<RateLimit>,
    /// What lower levels' writes in the drive's cache cost the next flush, if they
    /// do.
    pub write_cache: Option<WriteCache>,
}

/// One finished transfer.
pub(crate) struct Sample {
    pub bytes: u32,
    /// How many it was made of.
    pub requests: u32,
    pub cost: u64,
    pub enqueued_ns: u64,
    pub dispatched_ns: u64,
    pub ok: bool,
    /// Whether somebody waited for it.
    pub urgent: bool,
    /// Whether a lower level has more to send.
    pub lower_waiting: bool,
    /// Requests queued that somebody waits for.
    pub urgent_queued: u32,
    pub kind: Kind,
    /// What [`Window::departed`] returned.
    pub flushes: Option<Written>,
}

struct Learned {
    service: Shortest,
    cost: CostModel,
    shared: Knee,
    alone: Knee,
    stalls: Stalls,
    even: Even,
    unflushed: Unflushed,
    foreground: Foreground,
    /// Of a disk that has one.
    head: Option<Head>,
    /// Throughput of the last epoch, in cost / ns.
    throughput: Option<f64>,
    /// Moving average of what the foreground has in flight, so that the lower
    /// levels leave room for it without reacting to each of its requests: a
    /// single request sent for each that returns would cost a doorbell each.
    foreground_cost: f64,
    now_ns: u64,
}

pub(crate) struct Window {
    config: WindowConfig,
    learned: Learned,
    climbing: Option<Box<Climbing>>,
}

impl Learned {
    /// Threads read the clock before they take the device's lock, so one may
    /// come with an earlier time than the one before it. Here time only goes
    /// forward.
    fn latest(&mut self, now_ns: u64) -> u64 {
        let was_active = self.foreground_is_active();
        self.now_ns = now_ns.max(self.now_ns);
        self.look_for_foreground(was_active);
        self.now_ns
    }

    fn look_for_foreground(&mut self, was_active: bool) {
        if was_active && !self.foreground_is_active() {
            self.alone.interrupt();
            self.foreground_cost = 0.0;
            self.shared.beside(0.0);
        }
    }

    fn foreground_is_active(&self) -> bool {
        self.foreground.is_active(self.now_ns)
    }

    /// How long the device takes for what the lower levels may fill it with
    /// where there is no foreground. Before that was measured: as if it took
    /// one after the other, so that at first a foreground is rather sheltered.
    fn drain_ns(&self) -> f64 {
        match self.throughput {
            Some(throughput) => self.alone.limit() / throughput,
            None => self.alone.transfers() * self.service_ns() as f64,
        }
    }

    fn service_ns(&self) -> u64 {
        self.service.get().unwrap_or(SERVICE_NS_START)
    }

    fn knee(&self) -> &Knee {
        if self.foreground_is_active() {
            &self.shared
        } else {
            &self.alone
        }
    }

    fn knee_mut(&mut self) -> &mut Knee {
        if self.foreground_is_active() {
            &mut self.shared
        } else {
            &mut self.alone
        }
    }

    /// The limit to keep to now. An even one costs nobody anything while nobody
    /// waits.
    fn pace(&self) -> Option<&Pace> {
        let even = self.even.pace(self.now_ns);
        let even = even.filter(|_| self.foreground_is_active());
        self.stalls.pace().or(even)
    }

    /// The limit that was recognised, whether it is kept now or not.
    fn limit(&self) -> Option<RateLimit> {
        let pace = self.stalls.pace().or(self.even.any_pace());
        pace.map(Pace::limit)
    }

    fn is_paced(&self) -> bool {
        self.pace().is_some_and(|pace| !pace.has_room())
    }

    /// Transfers of the lower levels that may be in flight, and their cost.
    fn window(&self) -> (f64, f64) {
        let knee = self.knee();
        match self.even.in_flight(self.now_ns) {
            // The foreground's own is among what was counted for it.
            Some(in_flight) if self.foreground_is_active() => in_flight,
            _ => (knee.transfers(), knee.limit() - self.foreground_cost),
        }
    }

    fn has_room(&self, flight: &Flight, level: Level) -> bool {
        if level == Level::Critical {
            return true;
        }
        let foreground = flight.levels[0] + flight.levels[1];
        if level == Level::Foreground {
            return foreground < FOREGROUND_TRANSFERS_MIN
                || (flight.urgent_cost as f64) < FOREGROUND_WINDOWS * self.shared.limit();
        }
        if self.is_shut_out(flight, level) {
            return false;
        }
        if flight.lower_cost == 0 {
            return true;
        }
        // What is sent while somebody's transfer is with the device may be
        // served before it: by a disk that goes where its head is nearest, all
        // of a sweep. Once a windowful has gone, the rest waits for it.
        let (transfers, limit) = self.window();
        if f64::from(flight.overtakers) >= transfers {
            return false;
        }
        // The last transfer may reach over the limit by half of itself, so
        // that the count is the limit rounded, not rounded up.
        let typical = self.knee().typical();
        (flight.lower_cost as f64) + typical / 2.0 < limit
    }

    fn spare_head(&mut self, throughput: f64) {
        let Some(head) = &self.head else { return };
        let spared = head.is_spared(self.now_ns);
        let alone_ns = self.shared.urgent_least_ns().filter(|_| spared);
        let most = alone_ns.map(|alone_ns| head::AHEAD * alone_ns as f64 * throughput);
        self.shared.limit_to(most);
    }

    fn advance(&mut self, now_ns: u64) {
        self.unflushed.advance(now_ns);
        let was_paced = self.stalls.pace().is_some();
        self.stalls.advance(now_ns);
        self.look_for_end(was_paced);
        if let Some(pace) = self.even.pace_mut() {
            pace.fill(now_ns);
        }
    }

    /// Where there is no budget that runs empty any more, a head is what it was.
    fn look_for_end(&mut self, was_paced: bool) {
        if was_paced && self.stalls.pace().is_none() && self.head.is_some() {
            self.unflushed.presume_head();
        }
    }

    /// Whether writes and syncs of `level` have to wait for a flush.
    fn holds_writes(&self, level: Level) -> bool {
        level > Level::Foreground && self.unflushed.is_full()
    }

    fn is_shut_out(&self, flight: &Flight, level: Level) -> bool {
        self.is_paced() || level > Level::Foreground && self.is_reserved(flight)
    }

    /// Whether the device's head is somebody's now.
    fn is_reserved(&self, flight: &Flight) -> bool {
        let head = self.head.as_ref().filter(|_| flight.has_urgent());
        head.is_some_and(|head| head.is_spared(self.now_ns))
    }

    fn next_timer(&self, flight: &Flight) -> Option<u64> {
        let paced = self.pace().and_then(Pace::next_timer);
        let unflushed = self.unflushed.next_timer();
        let head = self.head.as_ref().filter(|_| flight.has_urgent());
        let reserved = head.and_then(|head| head.spared_until_ns(self.now_ns));
        [paced, unflushed, reserved].into_iter().flatten().min()
    }

    fn departed(
        &mut self,
        now_ns: u64,
        flight: &Flight,
        request: &Request,
        cost: u64,
        bytes: u32,
    ) -> Option<Written> {
        let level = request.level;
        let now_ns = self.latest(now_ns);
        self.advance(now_ns);
        if let Some(head) = &mut self.head {
            head.advance(now_ns, flight.has_urgent());
        }
        if flight.transfers == 0 {
            self.stalls.begins(now_ns);
        }
        let urgent = level <= Level::Foreground;
        let written = if request.makes_durable() {
            Some(self.unflushed.begins(urgent))
        } else {
            match request.kind {
                Kind::Write if urgent => self.unflushed.urgent_sent(),
                Kind::Write => self.unflushed.sent(cost, bytes),
                _ => (),
            }
            None
        };
        let paces = [self.stalls.pace_mut(), self.even.pace_mut()];
        for pace in paces.into_iter().flatten() {
            pace.departed(f64::from(bytes), urgent);
        }
        if urgent {
            let drain_ns = self.drain_ns();
            if !self.foreground_is_active() {
                self.alone.interrupt();
                self.shared.interrupt();
            }
            self.foreground.came(now_ns, drain_ns);
        } else {
            self.knee_mut().departed(cost as f64);
        }
        self.foreground_cost += (flight.urgent_cost as f64 - self.foreground_cost) / 64.0;
        self.shared.beside(self.foreground_cost);
        written
    }

    fn completed(&mut self, now_ns: u64, flight: &Flight, sample: &Sample) {
        let now_ns = self.latest(now_ns);
        self.unflushed.advance(now_ns);
        let latency_ns = now_ns.saturating_sub(sample.dispatched_ns) as f64;
        if let Some(head) = &mut self.head {
            head.advance(now_ns, flight.has_urgent() || sample.urgent);
            // A write may be in the drive's cache.
            if sample.urgent && sample.ok && sample.kind == Kind::Read {
                head.served(latency_ns);
            }
        }
        match sample.flushes {
            Some(written) => {
                let Sample { urgent, ok, .. } = *sample;
                self.unflushed.ends(latency_ns, written, urgent, ok);
            }
            None if sample.kind == Kind::Write && sample.urgent => {
                self.unflushed.urgent_settled();
            }
            None if sample.kind == Kind::Write => {
                let Sample { cost, bytes, .. } = *sample;
                self.unflushed.settled(cost, bytes, latency_ns as u64);
            }
            None => (),
        }
        let service_ns = self.service_ns();
        let bytes = f64::from(sample.bytes);
        if bytes > 0.0 {
            let was_paced = self.stalls.pace().is_some();
            self.stalls
                .completed(now_ns, sample.dispatched_ns, bytes, service_ns);
            self.look_for_end(was_paced);
        }
        if self.stalls.pace().is_some() {
            self.even.forget();
            // A flush waits for the same budget as all else.
            self.unflushed.forget();
        }
        let is_even = self.foreground_is_active() && self.even.any_pace().is_some();
        if is_even {
            self.even.completed(now_ns, bytes, sample.lower_waiting);
            if self.even.any_pace().is_none() {
                self.shared.wake();
            }
        }
        let is_paced = is_even || self.stalls.pace().is_some();
        // A probe lets all go that there is to send, where that is more than
        // the window in use did: then it says what more of it brings.
        let full = sample.lower_waiting || self.knee().probes_beyond(flight.lower_cost as f64);
        if !full || !sample.ok || is_paced {
            self.knee_mut().interrupt();
            return;
        }
        let measured = self.knee_mut().completed(
            now_ns,
            flight.transfers,
            &Completed {
                latency_ns,
                cost: sample.cost as f64,
                bytes,
                urgent: sample.urgent,
            },
        );
        if let Some(measured) = measured {
            let is_first = self.throughput.replace(measured.throughput).is_none();
            if is_first {
                let was_active = self.foreground_is_active();
                self.foreground.drain_measured(self.drain_ns());
                self.look_for_foreground(was_active);
            }
            self.cost
                .learn(measured.elapsed_ns, measured.transfers, measured.bytes);
            if self.foreground_is_active() && !measured.is_rest {
                self.spare_head(measured.throughput);
                self.even.measured(now_ns, &measured);
            }
        }
    }
}

impl Window {
    pub(crate) fn new(config: WindowConfig, objective: Objective, rotational: bool) -> Window {
        let cost = CostModel::new();
        let typical = cost::UNIT;
        let climbs = config == WindowConfig::Climbing;
        Window {
            config,
            climbing: climbs.then(|| Box::new(Climbing::new(objective))),
            learned: Learned {
                service: Shortest::new(),
                cost,
                shared: Knee::new(typical, ELASTICITY_SHARED, 1.0),
                alone: Knee::new(typical, ELASTICITY_ALONE, ALONE_TRANSFERS_MIN),
                stalls: Stalls::default(),
                even: Even::default(),
                unflushed: match rotational {
                    true => Unflushed::of_head(),
                    false => Unflushed::default(),
                },
                foreground: Foreground::default(),
                head: rotational.then(Head::default),
                throughput: None,
                foreground_cost: 0.0,
                now_ns: 0,
            },
        }
    }

    pub(crate) fn config(&self) -> WindowConfig {
        self.config
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        if self.config == WindowConfig::Learned {
            let now_ns = self.learned.latest(now_ns);
            self.learned.advance(now_ns);
        }
        if let Some(climbing) = &mut self.climbing {
            climbing.advance(now_ns);
        }
    }

    /// Whether one more transfer of `level` may go. With a fixed window under
    /// `lanes`, the two upper levels go in any case.
    pub(crate) fn has_room(&self, flight: &Flight, level: Level) -> bool {
        match self.config {
            WindowConfig::Learned => self.learned.has_room(flight, level),
            WindowConfig::Climbing => self.climbs(|it| it.has_room(flight, level)),
            WindowConfig::Fixed(limit) => level <= Level::Foreground || flight.transfers < limit,
        }
    }

    /// Whether a rate limit or a head that is somebody's lets nothing of `level` go,
    /// not even its minimum.
    pub(crate) fn is_shut_out(&self, flight: &Flight, level: Level) -> bool {
        self.config == WindowConfig::Learned && self.learned.is_shut_out(flight, level)
            || self.climbs(|it| it.is_shut_out(flight, level))
    }

    /// What a transfer is predicted to cost the device.
    pub(crate) fn cost(&self, bytes: u32) -> u64 {
        self.learned.cost.cost(bytes)
    }

    /// Whether writes and syncs of `level` have to wait, as the next flush that
    /// somebody waits for has enough to do.
    pub(crate) fn holds_writes(&self, level: Level) -> bool {
        self.config == WindowConfig::Learned && self.learned.holds_writes(level)
            || self.climbs(|it| it.holds_writes(level))
    }

    /// Whether requests of one level go by position; `rotational`: it is said to have a
    /// head.
    pub(crate) fn sorts(&self, rotational: bool) -> bool {
        match &self.climbing {
            Some(climbing) => climbing.sorts(),
            None => rotational,
        }
    }

    /// Whether the window climbs, and this is so.
    fn climbs(&self, of: impl Fn(&Climbing) -> bool) -> bool {
        self.climbing.as_deref().is_some_and(of)
    }

    /// Notes that a transfer goes to the device, `request` with the transfer's
    /// cost and bytes; `flight` is before it. What is returned belongs into the
    /// transfer's [`Sample`].
    pub(crate) fn departed(
        &mut self,
        now_ns: u64,
        flight: &Flight,
        request: &Request,
        cost: u64,
        bytes: u32,
    ) -> Option<Written> {
        match self.config {
            WindowConfig::Learned => self.learned.departed(now_ns, flight, request, cost, bytes),
            WindowConfig::Climbing => {
                if let Some(climbing) = &mut self.climbing {
                    climbing.departed(now_ns, request, bytes);
                }
                None
            }
            WindowConfig::Fixed(_) => None,
        }
    }

    /// Notes that a transfer has ended; `flight` is without it.
    pub(crate) fn completed(&mut self, now_ns: u64, flight: &Flight, sample: &Sample) {
        if sample.ok && sample.bytes > 0 {
            self.learned
                .service
                .add(now_ns, now_ns.saturating_sub(sample.dispatched_ns));
        }
        if self.config == WindowConfig::Learned {
            self.learned.completed(now_ns, flight, sample);
        }
        if let Some(climbing) = &mut self.climbing {
            climbing.completed(now_ns, flight, sample);
        }
    }

    /// When a rate limit or the limit of unflushed writes lets the next request go.
    pub(crate) fn next_timer(&self, flight: &Flight) -> Option<u64> {
        match self.config {
            WindowConfig::Learned => self.learned.next_timer(flight),
            WindowConfig::Climbing => self.climbing.as_ref()?.next_timer(),
            WindowConfig::Fixed(_) => None,
        }
    }

    /// The shortest latency seen lately.
    pub(crate) fn service_ns(&self) -> u64 {
        self.learned.service_ns()
    }

    pub(crate) fn state(&self) -> WindowState {
        WindowState {
            transfers: match (self.config, &self.climbing) {
                (WindowConfig::Fixed(limit), _) => f64::from(limit),
                (_, Some(climbing)) => climbing.transfers(),
                (_, None) => self.learned.knee().transfers(),
            },
            service_ns: self.service_ns(),
            equal_bytes: self.learned.cost.equal_bytes(),
            rate_limit: match &self.climbing {
                Some(climbing) => climbing.rate_limit(),
                None => self.learned.limit(),
            },
            write_cache: self.learned.unflushed.state(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_of_threads_that_disagree_do_no_harm() {
        let mut window = Window::new(WindowConfig::Learned, Objective::default(), false);
        let flight = Flight::default();
        let transfers = if cfg!(miri) { 2000 } else { 100_000 };
        for transfer in 0..transfers {
            // Every other completion was timed 30 us before the one before it.
            let now_ns = 1_000_000_000 + transfer * 20_000 - transfer % 2 * 50_000;
            let sample = Sample {
                bytes: 16_384,
                requests: 1,
                cost: 1000,
                enqueued_ns: now_ns - 100_000,
                dispatched_ns: now_ns - 100_000,
                ok: true,
                urgent: false,
                lower_waiting: true,
                urgent_queued: 0,
                kind: Kind::Read,
                flushes: None,
            };
            let request = Request {
                kind: Kind::Read,
                file: 0,
                offset: 0,
                length: 16_384,
                level: Level::Background,
                durable: false,
            };
            window.departed(now_ns, &flight, &request, 1000, 16_384);
            window.completed(now_ns, &flight, &sample);
        }
        let state = window.state();
        assert_eq!(state.rate_limit, None);
        assert!((1.0..=512.0).contains(&state.transfers), "{state:?}");
        assert!(state.service_ns <= 100_000, "{state:?}");
    }
}
