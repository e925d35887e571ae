//! Clients of the server: statements at a rate, and dumps beside.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::database::{Database, WITHOUT_IT};
use super::process::Process;
use super::scratch::{self, Server};
use super::{Case, ServerRun, TABLE_BYTES};
use crate::error::Failure;
use crate::session::Session;

const CLIENTS: u64 = 8;
/// A third of what the volume's requests allow, a write of the log and a read or so each.
pub const RATE_PER_SECOND: u64 = 400;
/// Programs that dump the table again and again.
const DUMPS: usize = 2;
/// Before the warm-up: all dumps have begun, and read from the disk.
const DUMPS_BEGIN: Duration = Duration::from_secs(1);
/// Between two times at which the page cache loses what it has of the table.
const FORGETS: Duration = Duration::from_millis(100);
/// Longer than any statement may wait: more counts as so much.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
const DIGITS: u8 = 3;
/// Stepping by it goes through all rows, seemingly at random: it is prime and larger than
/// their number.
const STEP: u64 = 2_147_483_647;

/// How long.
pub struct Setting {
    pub runtime: Duration,
    pub warm_up: Duration,
}

/// Measures one case.
///
/// # Errors
/// A client fails, or an interruption.
pub fn run(
    server: &Server<'_>,
    case: Case,
    setting: &Setting,
    session: &Session,
) -> Result<ServerRun, Failure> {
    let (what, begins) = match case {
        Case::Quiet => ("quiet", Duration::ZERO),
        Case::Without => ("beside dumps, without iolane", DUMPS_BEGIN),
        Case::With => ("beside dumps, iolane run", DUMPS_BEGIN),
    };
    let name = format!("{}, {what}", server.database.name());
    let dumps = match case {
        Case::Quiet => 0,
        Case::Without | Case::With => DUMPS,
    };
    let all = begins + setting.warm_up + setting.runtime;
    let phase = session.progress.phase(&name, all);
    let (dumped, over) = (AtomicU64::new(0), AtomicU64::new(0));
    let cached = server.cached_files()?;
    let begun = Instant::now();
    let from = begun + begins + setting.warm_up;
    let until = from + setting.runtime;
    let clients = (0..CLIENTS)
        .map(|_| Client::start(server, session))
        .collect::<Result<Vec<Client<'_>>, Failure>>()?;
    let (found, dumped_bytes) = thread::scope(|scope| {
        for _ in 0..dumps {
            scope.spawn(|| dump_on(server, session, &dumped, &over));
        }
        let threads: Vec<_> = (0..)
            .zip(clients)
            .map(|(number, client)| {
                scope.spawn(move || client.run(number, begun + begins, from, until, session))
            })
            .collect();
        let (mut before, mut forgot) = (0, begun);
        while Instant::now() < until && !session.stop.is_raised() {
            thread::sleep(Duration::from_millis(20));
            phase.elapsed(begun.elapsed());
            if forgot.elapsed() >= FORGETS {
                scratch::forget(&cached);
                forgot = Instant::now();
            }
            if before == 0 && Instant::now() >= from {
                before = dumped.load(Ordering::Relaxed).max(1);
            }
        }
        let bytes = dumped.load(Ordering::Relaxed).saturating_sub(before);
        let found: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        over.store(1, Ordering::Relaxed);
        (found, bytes)
    });
    session.stop.check()?;
    let mut all = new_histogram();
    for one in found {
        let one = one.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        all += one;
    }
    Ok(ServerRun {
        statements: all.len(),
        mean_ns: all.mean() as u64,
        p50_ns: all.value_at_quantile(0.5),
        p99_ns: all.value_at_quantile(0.99),
        max_ns: all.max(),
        dumped_bytes,
        elapsed_ns: setting.runtime.as_nanos() as u64,
    })
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_NS_MAX, DIGITS).expect("the limits are constants")
}

/// One dump after the other. One that fails is begun again: the figures say what was dumped.
fn dump_on(server: &Server<'_>, session: &Session, dumped: &AtomicU64, over: &AtomicU64) {
    const PIECE_BYTES: usize = 64 << 10;
    let is_over = || over.load(Ordering::Relaxed) > 0 || session.stop.is_raised();
    let mut piece = vec![0; PIECE_BYTES];
    while !is_over() {
        let Ok(process) = Process::start(&mut server.dump(), session) else {
            return;
        };
        let Ok(mut pipe) = process.take(|child| child.stdout.take()) else {
            return;
        };
        while let Ok(length @ 1..) = pipe.read(&mut piece) {
            dumped.fetch_add(length as u64, Ordering::Relaxed);
            if is_over() {
                break;
            }
        }
    }
}

struct Client<'a> {
    database: &'a dyn Database,
    into: ChildStdin,
    from: BufReader<ChildStdout>,
    _process: Process,
}

impl<'a> Client<'a> {
    fn start(server: &Server<'a>, session: &Session) -> Result<Self, Failure> {
        let process = Process::start(&mut server.client(), session)?;
        Ok(Self {
            database: server.database,
            into: process.take(|child| child.stdin.take())?,
            from: BufReader::new(process.take(|child| child.stdout.take())?),
            _process: process,
        })
    }

    /// Statements at moments that are fixed before: what begins late counts as longer.
    fn run(
        mut self,
        number: u64,
        begin: Instant,
        from: Instant,
        until: Instant,
        session: &Session,
    ) -> Result<Histogram<u64>, Failure> {
        let pause = Duration::from_secs(1) * CLIENTS as u32 / RATE_PER_SECOND as u32;
        let rows = scratch::rows(TABLE_BYTES);
        let mut found = new_histogram();
        let mut due = begin + pause * number as u32 / CLIENTS as u32;
        let mut turn = number;
        while due < until && !session.stop.is_raised() {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let row = turn.wrapping_mul(STEP) % rows + 1;
            self.ask(row, turn / CLIENTS % 2 == 1)?;
            if due >= from {
                found.saturating_record(due.elapsed().as_nanos() as u64);
            }
            turn += CLIENTS;
            due += pause;
        }
        Ok(found)
    }

    /// A look-up of a row, or a durable change of it.
    fn ask(&mut self, row: u64, changes: bool) -> Result<(), Failure> {
        let line = match changes {
            true => self.database.change(row),
            false => self.database.look_up(row),
        };
        let mut answer = String::new();
        let written = self.into.write_all(line.as_bytes());
        match written.and_then(|()| self.from.read_line(&mut answer)) {
            Ok(1..) => Ok(()),
            _ => Err(Failure::course(
                "a client of the scratch server has ended",
                WITHOUT_IT,
            )),
        }
    }
}
