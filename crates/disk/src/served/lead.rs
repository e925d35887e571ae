//! What is taken off the model's time to make up for the transport's own.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::correction::Accounted;
use super::server::{Server, ServerOptions};
use crate::medium::MemoryMedium;
use crate::model::{Constant, ConstantParameters};
use crate::sys::go_first;

/// By how much an answer is sent before the instant that the model says: the
/// time that a request and its answer spend in the transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lead {
    /// Of every operation, in nanoseconds.
    pub base_ns: u64,
    /// So many more of one that comes a millisecond after the last, or later,
    /// as threads and processors have fallen asleep; of one that comes sooner,
    /// its share.
    pub rested_ns: u64,
    /// So many more of one that comes while others are outstanding, as threads
    /// on its way are busy with these.
    pub crowded_ns: u64,
    /// And so many more for each MiB that is moved, for copying.
    pub per_mebibyte_ns: u64,
    /// What it follows while it is used.
    #[serde(flatten)]
    pub follows: Follows,
}

/// How a server knows what its clients see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "follows")]
pub enum Follows {
    /// It does not: the lead stays what it is.
    #[default]
    Nothing,
    /// From the transport's own accounts ([`Server::correct_lead`]).
    Accounts {
        /// What a client sees later than these say: its thread has to be woken.
        client_ns: u64,
    },
    /// It sees them take their answers ([`Client`](super::Client)).
    Clients,
}

impl Lead {
    /// Answers at the instant that the model says, and never before.
    pub const NONE: Lead = Lead {
        base_ns: 0,
        rested_ns: 0,
        crowded_ns: 0,
        per_mebibyte_ns: 0,
        follows: Follows::Nothing,
    };

    /// Of an operation of so many bytes.
    pub fn of(self, length: u32, company: Company) -> u64 {
        let copied = u128::from(self.per_mebibyte_ns) * u128::from(length);
        let more_ns = match company {
            Company::Others => self.crowded_ns,
            Company::None { since_ns } => {
                let share = u128::from(since_ns.min(RESTED_NS));
                (u128::from(self.rested_ns) * share / u128::from(RESTED_NS)) as u64
            }
        };
        self.base_ns + (copied >> 20) as u64 + more_ns
    }

    /// That fits what requests take.
    fn fit(way: Way) -> Lead {
        let copied_ns = way.long_ns.saturating_sub(way.short_ns);
        let per_mebibyte_ns = (copied_ns << 20) / u64::from(LONG_BYTES - SHORT_BYTES);
        Lead {
            base_ns: way.short_ns.min(BASE_MAX_NS),
            rested_ns: way.rested_ns.saturating_sub(way.short_ns).min(BASE_MAX_NS),
            crowded_ns: way.crowded_ns.saturating_sub(way.short_ns).min(BASE_MAX_NS),
            per_mebibyte_ns: per_mebibyte_ns.min(PER_MEBIBYTE_MAX_NS),
            follows: Follows::Nothing,
        }
    }
}

/// What else is there when an operation comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Company {
    /// Others are outstanding.
    Others,
    /// Nothing came, and nothing was answered, for so long.
    None {
        /// In nanoseconds.
        since_ns: u64,
    },
}

/// The lead could not be measured.
#[derive(Debug, thiserror::Error)]
#[error("the round trip of the transport could not be measured: {0}")]
pub struct NotMeasured(#[from] pub io::Error);

/// Whose latency is longer is measured with this: after 300 us, virtual
/// processors are woken faster than after 1 ms, but after 10 ms as after this.
const LATENCY_MAX_NS: u64 = 1_000_000;
const SHORT_BYTES: u32 = 4 << 10;
const LONG_BYTES: u32 = 256 << 10;
/// Of each kind, in each turn.
const ROUNDS: usize = 24;
/// Threads and processors sleep as deep after it as after any longer one.
const RESTED_NS: u64 = 1_000_000;
/// Some requests come after a pause, as clients come that do not only wait for
/// the disk, and each from another thread, which was on any processor.
const PAUSE: Duration = Duration::from_micros(1_500);
const CLIENTS: usize = 8;
/// Some come while another is outstanding.
const AT_ONCE: usize = 2;
/// What the machine does besides changes from moment to moment: measured in
/// turns, of which the middle one counts, by its mean: what is usually late by
/// a little is made up for too, and on average no answer is early or late.
const TURNS: usize = 9;
/// Turns before these. Each sends answers as early as the one before it found
/// right: where little time is left, threads do not fall asleep between.
const SETTLING_TURNS: usize = 2;
const BETWEEN_TURNS: Duration = Duration::from_millis(50);
/// More would be no round trip, but a stall of the machine.
const BASE_MAX_NS: u64 = 1_000_000;
const PER_MEBIBYTE_MAX_NS: u64 = 5_000_000;

/// What the transport adds to requests, on average.
#[derive(Clone, Copy, Debug)]
struct Way {
    /// Short ones, one after the other.
    short_ns: u64,
    /// Short ones with pauses between.
    rested_ns: u64,
    /// Short ones of two clients that do not wait for each other.
    crowded_ns: u64,
    /// Long ones, one after the other.
    long_ns: u64,
}

/// A disk of 1 MiB and constant latency, on which a transport's round trip is
/// measured.
pub struct RoundTrip {
    server: Arc<Server>,
}

impl RoundTrip {
    /// For a disk with [`usual_latency_ns`](super::usual_latency_ns), of which
    /// at most 1 ms is used: how long a request is under way decides how deep
    /// threads and processors sleep.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start(usual_latency_ns: u64) -> io::Result<RoundTrip> {
        let latency_ns = usual_latency_ns.min(LATENCY_MAX_NS);
        let parameters = ConstantParameters {
            capacity_bytes: 1 << 20,
            queue_max: 32,
            latency_ns,
        };
        let model = Constant::new(parameters).map_err(io::Error::other)?;
        let medium = MemoryMedium::new(1 << 20);
        let options = ServerOptions {
            usual_latency_ns,
            ..ServerOptions::default()
        };
        let server = Server::start(Box::new(model), Arc::new(medium), &options)?;
        Ok(RoundTrip {
            server: Arc::new(server),
        })
    }

    /// What the transport should serve meanwhile.
    pub fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Measures it: `read` reads so many bytes at 0 of the
    /// [`server`](Self::server) through the transport, on any thread, at most
    /// two at once, and says what that took in nanoseconds. What goes beyond
    /// the time that the server means it to take is the transport's.
    /// `accounted` says what the transport's own accounts are, where it keeps
    /// any. Takes about two seconds.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn measure(
        &self,
        read: impl Fn(u32) -> io::Result<u64> + Sync,
        accounted: impl Fn() -> Option<Accounted>,
    ) -> Result<Lead, NotMeasured> {
        let way = |times: io::Result<Vec<u64>>| -> io::Result<u64> {
            let times = times?;
            let mean_ns = times.iter().sum::<u64>() / times.len() as u64;
            // No answer goes out before its request has come.
            let statistics = self.server.take_statistics();
            let meant_ns = statistics.meant_sum_ns / u128::from(statistics.operations().max(1));
            Ok(mean_ns.saturating_sub(meant_ns as u64))
        };
        let (requests, took_ns) = (AtomicU64::new(0), AtomicU64::new(0));
        let short = || {
            let request_ns = read(SHORT_BYTES)?;
            requests.fetch_add(1, Ordering::Relaxed);
            took_ns.fetch_add(request_ns, Ordering::Relaxed);
            Ok(request_ns)
        };
        let short_after_a_pause = || {
            thread::sleep(PAUSE);
            short()
        };
        let settled = || {
            // The kernel accounts of a request after it has woken who waits for it.
            thread::sleep(PAUSE);
            accounted()
        };
        let mut ways = Vec::new();
        // Of all turns in which nobody else came: programs that look at every block device do.
        let (mut clients, mut accounts) = (Accounted::default(), Accounted::default());
        for turn in 0..SETTLING_TURNS + TURNS {
            if turn > 0 {
                thread::sleep(BETWEEN_TURNS);
            }
            // Some devices divide long requests: only the short ones' accounts are used.
            let long_ns = way(in_turn(1, || read(LONG_BYTES)))?;
            let before = settled();
            let measured = Way {
                short_ns: way(in_turn(1, short))?,
                rested_ns: way(in_turn(CLIENTS, short_after_a_pause))?,
                crowded_ns: way(at_once(AT_ONCE, short))?,
                long_ns,
            };
            let seen = Accounted {
                requests: requests.swap(0, Ordering::Relaxed),
                took_ns: took_ns.swap(0, Ordering::Relaxed),
            };
            if let Some(accounted) = accounted_between(before, settled(), seen.requests) {
                clients.add(seen);
                accounts.add(accounted);
            }
            self.server.set_lead(Lead::fit(measured));
            if turn >= SETTLING_TURNS {
                ways.push(measured);
            }
        }
        let middle = |part: fn(&Way) -> u64| median(&mut ways.iter().map(part).collect::<Vec<_>>());
        let lead = Lead::fit(Way {
            short_ns: middle(|way| way.short_ns),
            rested_ns: middle(|way| way.rested_ns),
            crowded_ns: middle(|way| way.crowded_ns),
            long_ns: middle(|way| way.long_ns),
        });
        let client_ns = beyond(Some(Accounted::default()), Some(accounts), clients);
        let accounts = client_ns.map(|client_ns| Follows::Accounts { client_ns });
        Ok(Lead {
            follows: accounts.unwrap_or_default(),
            ..lead
        })
    }
}

/// By how much longer `clients`' requests took than was accounted of them
/// meanwhile, on average.
fn beyond(before: Option<Accounted>, after: Option<Accounted>, clients: Accounted) -> Option<u64> {
    let accounted = accounted_between(before, after, clients.requests)?;
    let beyond_ns = clients.took_ns.saturating_sub(accounted.took_ns);
    let each_ns = beyond_ns.checked_div(clients.requests)?;
    Some(each_ns.min(BASE_MAX_NS))
}

/// What was accounted from one time to another, if it is of so many requests: otherwise these
/// were divided, merged, or somebody else's.
fn accounted_between(
    before: Option<Accounted>,
    after: Option<Accounted>,
    requests: u64,
) -> Option<Accounted> {
    let (before, after) = (before?, after?);
    let between = Accounted {
        requests: after.requests.checked_sub(before.requests)?,
        took_ns: after.took_ns.checked_sub(before.took_ns)?,
    };
    (between.requests == requests).then_some(between)
}

/// `ROUNDS` times `work`, by so many threads that take turns. They go first:
/// what else the machine does at this moment is not the transport's.
fn in_turn(threads: usize, work: impl Fn() -> io::Result<u64> + Sync) -> io::Result<Vec<u64>> {
    let done = Mutex::new(Ok(Vec::with_capacity(ROUNDS)));
    let turned = Condvar::new();
    let take_turns = &|thread: usize| {
        go_first();
        let mut turns = done.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(done) = &mut *turns
            && done.len() < ROUNDS
        {
            if done.len() % threads != thread {
                turns = turned.wait(turns).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            match work() {
                Ok(value) => done.push(value),
                Err(error) => *turns = Err(error),
            }
            turned.notify_all();
        }
    };
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || take_turns(thread));
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// `ROUNDS` times `work`, by so many threads together, all at once.
fn at_once(threads: usize, work: impl Fn() -> io::Result<u64> + Sync) -> io::Result<Vec<u64>> {
    let part = &|| {
        go_first();
        (0..ROUNDS / threads)
            .map(|_| work())
            .collect::<io::Result<Vec<u64>>>()
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(part)).collect();
        let parts = running.into_iter().map(|thread| {
            let done = thread.join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let parts = parts.collect::<io::Result<Vec<_>>>()?;
        Ok(parts.concat())
    })
}

fn median(values: &mut [u64]) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::served::server::Request;
    use crate::sys::now_ns;
    use std::sync::mpsc;

    #[test]
    fn the_lead_grows_with_what_is_copied_after_pauses_and_beside_others() {
        let lead = Lead {
            base_ns: 1000,
            rested_ns: 200,
            crowded_ns: 70,
            per_mebibyte_ns: 4096,
            follows: Follows::Nothing,
        };
        let alone = |since_ns| Company::None { since_ns };
        assert_eq!(lead.of(0, alone(0)), 1000);
        assert_eq!(lead.of(256 << 10, alone(0)), 2024);
        assert_eq!(lead.of(0, alone(500_000)), 1100);
        assert_eq!(lead.of(0, alone(u64::MAX)), 1200);
        assert_eq!(lead.of(0, Company::Others), 1070);
        assert_eq!(Lead::NONE.of(u32::MAX, Company::Others), 0);
    }

    /// Of a transport that takes `extra_ns`, and more for what is copied.
    fn measured(latency_ns: u64, extra_ns: u64) -> Lead {
        let trip = RoundTrip::start(latency_ns).unwrap();
        let read = |length| {
            let start = now_ns();
            let copied_ns = u64::from(length) / 4;
            thread::sleep(Duration::from_nanos(extra_ns + copied_ns));
            let (sender, receiver) = mpsc::channel();
            let request = Request::Read { offset: 0, length };
            let reply = move |result| sender.send(result).unwrap();
            trip.server().submit(request, Box::new(reply));
            receiver.recv().unwrap()?;
            Ok(now_ns() - start)
        };
        trip.measure(read, || None).unwrap()
    }

    #[test]
    fn what_a_transport_adds_is_measured_without_the_disk() {
        let lead = measured(LATENCY_MAX_NS, 50_000);
        // 51 us at least; a busy machine sleeps longer.
        assert!(lead.base_ns >= 51_000, "{lead:?}");
        assert!(lead.base_ns <= BASE_MAX_NS);
    }

    #[test]
    fn a_transport_that_takes_longer_than_the_disk_is_measured_too() {
        let lead = measured(20_000, 200_000);
        assert!((201_000..=BASE_MAX_NS).contains(&lead.base_ns), "{lead:?}");
    }

    #[test]
    fn what_clients_see_beyond_the_accounts_is_known_where_they_fit() {
        let of = |requests, took_ns| Accounted { requests, took_ns };
        let before = Some(of(10, 1_000_000));
        let clients = of(100, 9_000_000);
        let after = |requests| Some(of(requests, 9_000_000));
        assert_eq!(beyond(before, after(110), clients), Some(10_000));
        assert_eq!(beyond(before, after(111), clients), None);
        assert_eq!(beyond(before, None, clients), None);
        assert_eq!(beyond(before, before, Accounted::default()), None);
    }

    #[test]
    fn others_that_come_during_a_turn_cost_that_turn() {
        let follows = |others_at: fn(u64) -> u64| {
            let trip = RoundTrip::start(20_000).unwrap();
            let (looks, requests) = (AtomicU64::new(0), AtomicU64::new(0));
            // Long ones are divided.
            let read = |length| {
                let divided = if length == SHORT_BYTES { 1 } else { 2 };
                requests.fetch_add(divided, Ordering::Relaxed);
                Ok(100_000)
            };
            // Before and after each turn.
            let accounted = || {
                let others = others_at(looks.fetch_add(1, Ordering::Relaxed));
                let requests = requests.fetch_add(others, Ordering::Relaxed) + others;
                let took_ns = requests * 90_000;
                Some(Accounted { requests, took_ns })
            };
            trip.measure(read, accounted).unwrap().follows
        };
        let client_ns = 10_000;
        assert_eq!(follows(|_| 0), Follows::Accounts { client_ns });
        let once = follows(|look| u64::from(look == 3));
        assert_eq!(once, Follows::Accounts { client_ns });
        assert_eq!(follows(|_| 1), Follows::Nothing);
    }

    #[test]
    fn a_failing_transport_is_reported() {
        let trip = RoundTrip::start(LATENCY_MAX_NS).unwrap();
        let failed = trip.measure(|_| Err(io::ErrorKind::NotConnected.into()), || None);
        assert!(failed.unwrap_err().to_string().contains("round trip"));
    }
}
