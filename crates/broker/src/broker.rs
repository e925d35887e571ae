//! The broker as its owner sees it.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use iolane_protocol::Memory;
use iolane_protocol::sys::mapping;

use crate::door::Door;
use crate::error::BrokerError;
use crate::report::Report;
use crate::rounds::Rounds;
use crate::rules::{Rules, Uring};
use crate::sys::{life, memory_file, process};

/// The schedulers of all processes under one `iolane run`.
///
/// Dropping it ends its threads; processes that are still there go on unscheduled.
pub struct Broker {
    door: Arc<Door>,
    memory: &'static Memory,
    is_over: Arc<AtomicBool>,
    rounds: Option<JoinHandle<Report>>,
    reports: Sender<Sender<Report>>,
}

impl Broker {
    /// Begins to serve. `counting`: calls are counted by name.
    ///
    /// # Errors
    /// What the kernel does not give.
    pub fn start(rules: &Rules, counting: bool) -> Result<Broker, BrokerError> {
        let file = memory_file::create(mapping::BYTES)
            .map_err(BrokerError::without_memory(mapping::BYTES))?;
        let memory = mapping::map_new(file.as_fd(), |memory| {
            memory.rules.fill(&rules.entries);
            memory.rules.refuses_uring = rules.uring == Some(Uring::Refuse);
            memory.rules.follows_uring = rules.uring.is_none_or(|uring| uring == Uring::Follow);
            memory.rules.read_ahead_bytes = rules.read_ahead_bytes;
        })
        .map_err(BrokerError::when("map shared memory"))?;
        let is_over = Arc::new(AtomicBool::new(false));
        let (reports, asked_reports) = mpsc::channel();
        let (began, has_begun) = mpsc::channel();
        let door = Arc::new(Door::open(file, memory)?);
        let (door_too, over_too) = (Arc::clone(&door), Arc::clone(&is_over));
        let (roles, objective) = (rules.roles.clone(), rules.objective);
        let rounds = thread::Builder::new()
            .name("broker".to_owned())
            .spawn(move || {
                let _ = began.send(begin(memory, counting));
                let rounds = Rounds::new(memory, door_too, roles, objective);
                go_round(rounds, &over_too, &asked_reports)
            })
            .map_err(BrokerError::when("start a thread"))?;
        let broker = Broker {
            door,
            memory,
            is_over,
            rounds: Some(rounds),
            reports,
        };
        match has_begun.recv() {
            Ok(began) => began.map(|()| broker),
            // It sends before all else.
            Err(mpsc::RecvError) => unreachable!("the thread ended before it began"),
        }
    }

    /// The environment variable that leads processes to it: name and value.
    pub fn environment(&self) -> (&'static str, String) {
        (iolane_protocol::ENVIRONMENT, self.door.address())
    }

    /// Processes that are there.
    pub fn clients(&self) -> usize {
        self.door.clients()
    }

    /// What became of requests so far. `None` if the broker's thread has ended.
    pub fn report(&self) -> Option<Report> {
        let (sender, receiver) = mpsc::channel();
        self.reports.send(sender).ok()?;
        self.memory.header.ring(true);
        receiver.recv().ok()
    }

    /// Ends it; gives what became of requests. `None` if its thread had panicked.
    pub fn finish(mut self) -> Option<Report> {
        self.end()
    }

    fn end(&mut self) -> Option<Report> {
        let rounds = self.rounds.take()?;
        self.is_over.store(true, Ordering::SeqCst);
        self.door.close();
        self.memory.header.ring(true);
        rounds.join().ok()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.end();
    }
}

fn begin(memory: &'static Memory, counting: bool) -> Result<(), BrokerError> {
    life::hold(memory.header.life()).map_err(BrokerError::when("tell processes of its end"))?;
    process::hurry();
    memory.header.open(counting);
    Ok(())
}

fn go_round(
    mut rounds: Rounds,
    is_over: &AtomicBool,
    asked_reports: &Receiver<Sender<Report>>,
) -> Report {
    while !is_over.load(Ordering::SeqCst) {
        rounds.round();
        for asked in asked_reports.try_iter() {
            // Who asked may have gone.
            let _ = asked.send(rounds.report());
        }
        rounds.rest(|| is_over.load(Ordering::SeqCst));
    }
    rounds.round();
    rounds.close();
    rounds.report()
}
