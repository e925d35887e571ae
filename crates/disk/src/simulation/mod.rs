//! A workload, an elevator and a modelled disk, event by event in virtual time.
//!
//! ```
//! use iolane_disk::elevator::{BlockLayerParameters, LinuxNoop};
//! use iolane_disk::model::{Constant, ConstantParameters};
//! use iolane_disk::simulation::{Arrival, Simulation, Stream, Time};
//!
//! let disk = Constant::new(ConstantParameters {
//!     capacity_bytes: 1 << 30,
//!     queue_max: 32,
//!     latency_ns: 100_000,
//! })?;
//! let elevator = LinuxNoop::noop(BlockLayerParameters::default())?;
//! let report = Simulation::new(disk, elevator, 1)
//!     .stream(Stream {
//!         arrival: Arrival::Closed {
//!             outstanding: 16,
//!             think: Time::Fixed(0),
//!         },
//!         ..Stream::default()
//!     })
//!     .run(1_000_000, 10_000_000)?;
//! assert_eq!(report.streams[0].per_second(), 160_000.0);
//! # Ok::<(), iolane_disk::ParameterError>(())
//! ```
//!
//! # Mixes of priorities
//!
//! "200 outstanding, of which p % have high priority" (Hall and Bonnet,
//! section 4.3) is two closed loops with fixed shares, here two [`Stream`]s. The
//! other reading, one loop in which each new request is high with probability
//! p, does not agree with the paper's own numbers: by Little's law, 10 % high
//! ones in 280 ms and low ones in 1000 ms at its 4 MB/s (250 requests a second)
//! are 20 and 180 outstanding as fixed shares, but 7 and 225, not 200 together,
//! if the percentages were those of the requests submitted. With one thread for
//! each priority ([`Stream::process`]) a full allocation group blocks only its
//! own; with one for both, the low ones block the high ones too.

mod addresses;
mod check;
mod engine;
mod events;
mod meter;
mod random;
mod report;
mod stream;
mod transactions;
mod workload;

pub use addresses::Addresses;
pub use meter::Ended;
pub use random::Random;
pub use report::{Report, Tally, TransactionsTally};
pub use workload::{Activity, Arrival, Commit, Host, Pattern, Size, Stream, Time, Transactions};

use crate::elevator::Elevator;
use crate::model::{Model, ParameterError};
use engine::{Engine, Finished};
use events::Action;
use iolane_sched::Level;
use stream::StreamSource;
use transactions::TransactionsSource;

/// A simulation that is being put together.
///
/// The same parts with the same seed give the same report. `Box<dyn Model>` and
/// `Box<dyn Elevator>` serve as well as concrete types, which are faster.
pub struct Simulation<M, E> {
    model: M,
    elevator: E,
    seed: u64,
    host: Host,
    streams: Vec<Stream>,
    transactions: Vec<Transactions>,
}

impl<M: Model, E: Elevator> Simulation<M, E> {
    /// A disk and what stands before it, both unused so far; without any work.
    pub fn new(model: M, elevator: E, seed: u64) -> Simulation<M, E> {
        Simulation {
            model,
            elevator,
            seed,
            host: Host::default(),
            streams: Vec::new(),
            transactions: Vec::new(),
        }
    }

    /// What submission costs; nothing without this.
    pub fn host(mut self, host: Host) -> Simulation<M, E> {
        self.host = host;
        self
    }

    /// Adds a stream.
    pub fn stream(mut self, stream: Stream) -> Simulation<M, E> {
        self.streams.push(stream);
        self
    }

    /// Adds threads that commit.
    pub fn transactions(mut self, transactions: Transactions) -> Simulation<M, E> {
        self.transactions.push(transactions);
        self
    }

    /// Runs for `warm_up_ns`, and then for `duration_ns`, of which it reports.
    ///
    /// # Errors
    /// A workload that the disk cannot have, or a duration of 0.
    pub fn run(self, warm_up_ns: u64, duration_ns: u64) -> Result<Report, ParameterError> {
        self.run_keeping(warm_up_ns, duration_ns)
            .map(|(report, _, _)| report)
    }

    /// As [`run`](Simulation::run); gives the disk and the elevator back too,
    /// in the state in which they are at the end.
    ///
    /// # Errors
    /// A workload that the disk cannot have, or a duration of 0.
    pub fn run_keeping(
        self,
        warm_up_ns: u64,
        duration_ns: u64,
    ) -> Result<(Report, M, E), ParameterError> {
        if duration_ns == 0 {
            return Err(ParameterError::new("duration_ns", 0, "must be above 0"));
        }
        let end_ns = warm_up_ns.saturating_add(duration_ns);
        let mut run = self.prepare()?;
        run.start();
        run.until(warm_up_ns);
        run.restart_meters();
        run.until(end_ns);
        Ok(run.report(duration_ns))
    }

    fn prepare(self) -> Result<Run<M, E>, ParameterError> {
        let sources = self.streams.len() + self.transactions.len();
        let mut engine = Engine::new(self.model, self.elevator, self.host, sources);
        let mut sources = Vec::with_capacity(sources);
        for stream in &self.streams {
            check::stream(stream, &engine.model)?;
            let region = check::region(&stream.name, "region", &stream.region, &engine.model)?;
            let index = sources.len() as u32;
            let gate = engine.gate(stream.process);
            let source = StreamSource::new(stream, region, index, gate, self.seed);
            if stream.trace {
                engine.meters[index as usize].trace = Some(Vec::new());
            }
            sources.push(Source::Stream(source));
        }
        for work in &self.transactions {
            check::transactions(work, &engine.model)?;
            let data = check::region(&work.name, "data", &work.data, &engine.model)?;
            let index = sources.len() as u32;
            let gates = (0..work.threads)
                .map(|thread| engine.gate(work.process_first + thread))
                .collect();
            let source = TransactionsSource::new(work.clone(), data, index, gates, self.seed);
            sources.push(Source::Transactions(Box::new(source)));
        }
        Ok(Run {
            engine,
            sources,
            streams: self.streams,
        })
    }
}

/// Where operations come from.
enum Source {
    Stream(StreamSource),
    Transactions(Box<TransactionsSource>),
}

impl Source {
    fn start<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>) {
        match self {
            Source::Stream(stream) => stream.start(engine),
            Source::Transactions(transactions) => transactions.start(engine),
        }
    }

    fn finished<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>, finished: Finished) {
        match self {
            Source::Stream(stream) => stream.finished(engine, finished),
            Source::Transactions(transactions) => transactions.finished(engine, finished.thread),
        }
    }

    fn wake<M: Model, E: Elevator>(&mut self, engine: &mut Engine<M, E>, thread: u32) {
        match self {
            Source::Stream(stream) => stream.wake(engine, thread),
            Source::Transactions(transactions) => transactions.wake(engine, thread),
        }
    }
}

/// A simulation under way.
struct Run<M, E> {
    engine: Engine<M, E>,
    sources: Vec<Source>,
    streams: Vec<Stream>,
}

impl<M: Model, E: Elevator> Run<M, E> {
    fn start(&mut self) {
        for source in &mut self.sources {
            source.start(&mut self.engine);
        }
        self.engine.dispatch();
    }

    /// Lets everything happen that is due before `until_ns`.
    fn until(&mut self, until_ns: u64) {
        loop {
            let next_ns = self.engine.next_ns();
            if next_ns >= until_ns {
                self.engine.now_ns = until_ns;
                return;
            }
            self.engine.advance(next_ns);
            self.end_commands();
            self.act();
            self.engine.dispatch();
        }
    }

    fn end_commands(&mut self) {
        let mut ended = self.engine.take_ended();
        for done in ended.drain(..) {
            let mut member = self.engine.end_command(done.tag);
            while let Some(tag) = member {
                // The slot is free from here on, and may be in use again.
                let (next, finished) = self.engine.end_request(tag);
                if let Some(finished) = finished {
                    let source = &mut self.sources[finished.source as usize];
                    source.finished(&mut self.engine, finished);
                }
                member = next;
            }
        }
        self.engine.return_ended(ended);
    }

    fn act(&mut self) {
        while let Some(action) = self.engine.events.take_due(self.engine.now_ns) {
            match action {
                Action::Wake { source } => {
                    self.sources[source as usize].wake(&mut self.engine, 0);
                }
                Action::Thread { source, thread } => {
                    self.sources[source as usize].wake(&mut self.engine, thread);
                }
                Action::Enter { gate, first } => self.engine.enter_all(gate, first),
            }
        }
    }

    fn restart_meters(&mut self) {
        self.engine.restart_meters();
        let now_ns = self.engine.now_ns;
        for source in &mut self.sources {
            if let Source::Transactions(transactions) = source {
                transactions.meter.restart(now_ns);
            }
        }
    }

    fn report(mut self, duration_ns: u64) -> (Report, M, E) {
        let now_ns = self.engine.now_ns;
        let mut meters = self.engine.take_meters().into_iter();
        let streams = self
            .streams
            .iter()
            .zip(meters.by_ref())
            .map(|(stream, meter)| Tally::new(&stream.name, stream.level, duration_ns, meter))
            .collect();
        let committing = self.sources.into_iter().filter_map(|source| match source {
            Source::Stream(_) => None,
            Source::Transactions(transactions) => Some(transactions),
        });
        let tally = |(mut source, operations): (Box<TransactionsSource>, _)| {
            let name = &source.work.name;
            source.meter.outstanding.settle(now_ns);
            let level = source.work.log_level;
            TransactionsTally {
                operations: Tally::new(name, level, duration_ns, operations),
                transactions: Tally::new(name, level, duration_ns, source.meter),
            }
        };
        let transactions = committing.zip(meters).map(tally).collect();
        let engine = self.engine;
        let report = Report {
            duration_ns,
            streams,
            transactions,
            commands: engine.commands,
            command_bytes: engine.command_bytes,
            requests: engine.requests,
            in_disk: engine.in_disk.shares(),
            in_elevator: engine.in_elevator.shares(),
            blocked_mean: engine.blocked.mean(duration_ns),
        };
        (report, engine.model, engine.elevator)
    }
}

/// What a source wants done.
#[derive(Clone, Copy, Debug)]
struct Operation {
    kind: crate::model::Kind,
    offset: u64,
    length: u32,
    durable: bool,
    sync: bool,
    level: Level,
}
