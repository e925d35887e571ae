//! The end of a served disk while it is used: one moment, after which nothing
//! is moved and nothing answered, and before which every flush held.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use iolane_disk::Medium;
use iolane_disk::fault::Faults;
use iolane_disk::medium::MemoryMedium;
use iolane_disk::model::{Constant, ConstantParameters};
use iolane_disk::served::{Request, Server, ServerOptions};

const SECTOR: usize = 512;
/// A write's: some sectors, so that it can be torn.
const BLOCK: usize = 8 * SECTOR;
const WRITERS: u64 = 6;
const BLOCKS: u64 = 16;
const SIZE_BYTES: u64 = WRITERS * BLOCKS * BLOCK as u64;
const EIO: i32 = 5;
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Of the random moments and choices below.
fn seed() -> u64 {
    let seed = std::env::var("IOLANE_SEED").ok();
    let seed = seed.map_or(31, |seed| seed.parse().expect("IOLANE_SEED is a number"));
    println!("IOLANE_SEED={seed}");
    seed
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

fn server(medium: Arc<dyn Medium>, latency: Duration, options: &ServerOptions) -> Arc<Server> {
    let model = Constant::new(ConstantParameters {
        capacity_bytes: SIZE_BYTES,
        queue_max: 8,
        latency_ns: latency.as_nanos() as u64,
    });
    Arc::new(Server::start(Box::new(model.unwrap()), medium, options).unwrap())
}

fn ask(server: &Server, request: Request<'_>) -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, answer) = mpsc::channel();
    server.submit(
        request,
        // Whoever has stopped at an error does not listen any more.
        Box::new(move |result| drop(sender.send(result))),
    );
    answer
}

fn is_eio(answer: io::Result<Vec<u8>>) -> bool {
    answer.is_err_and(|error| error.raw_os_error() == Some(EIO))
}

/// What its sectors hold of a block's versions, each a number.
fn versions(medium: &MemoryMedium, block: u64) -> Vec<u64> {
    let mut memory = [0; BLOCK];
    let read = medium.read(block * BLOCK as u64, &mut memory).unwrap();
    assert_eq!(read, BLOCK);
    let version = |sector: &[u8]| {
        let (number, rest) = sector.split_first_chunk().unwrap();
        let version = u64::from_le_bytes(*number);
        assert!(rest.iter().all(|&byte| byte == version as u8));
        version
    };
    memory.chunks(SECTOR).map(version).collect()
}

fn contents(version: u64) -> Vec<u8> {
    let mut sector = vec![version as u8; SECTOR];
    sector[..8].copy_from_slice(&version.to_le_bytes());
    sector.repeat(BLOCK / SECTOR)
}

/// Memory that takes a while, some bytes at a time: transfers are under way
/// whenever the power goes.
struct Slow {
    memory: MemoryMedium,
    random: Mutex<Random>,
}

impl Medium for Slow {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> io::Result<usize> {
        self.memory.read(offset, memory)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        let mut random = self.random.lock().unwrap();
        let (pause_us, sectors) = (random.below(150), 1 + random.below(8) as usize);
        drop(random);
        thread::sleep(Duration::from_micros(pause_us));
        let some = data.len().min(sectors * SECTOR);
        self.memory.write(offset, &data[..some])
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What is known of one block.
#[derive(Clone, Copy, Default)]
struct Known {
    submitted: u64,
    answered: u64,
    /// Answered before a flush was submitted that was answered.
    durable: u64,
}

/// One that writes its own blocks, flushes now and then, and stops at the first
/// error.
fn write_until_it_fails(
    server: &Server,
    writer: u64,
    mut random: Random,
    is_cut: &AtomicBool,
    after_the_cut: &AtomicU64,
) -> Vec<Known> {
    let mut known = vec![Known::default(); BLOCKS as usize];
    let good = |answer: mpsc::Receiver<io::Result<Vec<u8>>>, was_cut: bool| {
        let is_good = answer.recv_timeout(WAIT_MAX).unwrap().is_ok();
        after_the_cut.fetch_add(u64::from(is_good && was_cut), Ordering::SeqCst);
        is_good && !was_cut
    };
    loop {
        let mut batch = Vec::new();
        for _ in 0..1 + random.below(4) {
            let block = random.below(BLOCKS);
            let of = &mut known[block as usize];
            // One write of a block at a time: the last one counts.
            if of.submitted > of.answered {
                continue;
            }
            of.submitted += 1;
            let data = contents(of.submitted);
            let offset = (writer * BLOCKS + block) * BLOCK as u64;
            let durable = random.below(8) == 0;
            let was_cut = is_cut.load(Ordering::SeqCst);
            let request = Request::Write {
                offset,
                data: &data,
                durable,
            };
            batch.push((block, durable, was_cut, ask(server, request)));
        }
        for (block, durable, was_cut, answer) in batch {
            if !good(answer, was_cut) {
                return known;
            }
            let of = &mut known[block as usize];
            of.answered = of.submitted;
            if durable {
                of.durable = of.answered;
            }
        }
        if random.below(3) == 0 {
            let answered: Vec<u64> = known.iter().map(|of| of.answered).collect();
            let was_cut = is_cut.load(Ordering::SeqCst);
            if !good(ask(server, Request::Flush), was_cut) {
                return known;
            }
            for (of, answered) in known.iter_mut().zip(answered) {
                of.durable = answered;
            }
        }
    }
}

/// Bytes that the cut took, as it said; and sectors whose last answered version
/// is not there.
fn one_cut(plan: &str, mut random: Random) -> (u64, u64) {
    let medium = Arc::new(Slow {
        memory: MemoryMedium::new(SIZE_BYTES),
        random: Mutex::new(Random(random.below(u64::MAX))),
    });
    let faults = plan.parse().map(|plan| Faults::new(plan).unwrap());
    let options = ServerOptions {
        outstanding_max: 8,
        faults: Some(Arc::new(faults.unwrap())),
        ..ServerOptions::default()
    };
    let latency = Duration::from_micros(50);
    let server = server(Arc::clone(&medium) as Arc<dyn Medium>, latency, &options);
    let is_cut = AtomicBool::new(false);
    let after_the_cut = AtomicU64::new(0);
    let (known, took_bytes, image) = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let random = Random(random.below(u64::MAX));
                let (server, is_cut, after_the_cut) = (&server, &is_cut, &after_the_cut);
                scope.spawn(move || {
                    write_until_it_fails(server, writer, random, is_cut, after_the_cut)
                })
            })
            .collect();
        thread::sleep(Duration::from_micros(2_000 + random.below(15_000)));
        let took_bytes = server.power_cut().unwrap();
        is_cut.store(true, Ordering::SeqCst);
        let image: Vec<_> = (0..WRITERS * BLOCKS)
            .map(|block| versions(&medium.memory, block))
            .collect();
        let known = writers.into_iter().map(|writer| writer.join().unwrap());
        (known.collect::<Vec<_>>().concat(), took_bytes, image)
    });
    assert_eq!(after_the_cut.into_inner(), 0, "answered after the cut");
    assert_eq!(server.power_cut().unwrap(), took_bytes);
    let mut missing = 0;
    for (block, (of, image)) in (0..).zip(known.iter().zip(&image)) {
        assert_eq!(
            versions(&medium.memory, block),
            *image,
            "moved after the cut"
        );
        for &version in image {
            let fits = of.durable <= version && version <= of.submitted;
            assert!(
                fits,
                "block {block}: {image:?} of {} to {}",
                of.durable, of.submitted
            );
            missing += u64::from(version < of.answered);
        }
    }
    (took_bytes, missing)
}

#[test]
fn each_flush_holds_and_nothing_is_moved_or_answered_after_the_cut() {
    let seed = seed();
    for (plan, loses) in [
        ("", false),
        ("lost=0.5:power-cut", true),
        ("torn=512:0.5:power-cut", true),
        (
            "lost=0.3:power-cut,torn=1k:0.5:power-cut,stall=1ms:0.05",
            true,
        ),
    ] {
        let mut cuts = (0, 0);
        for round in 0..25 {
            let plan = format!("{plan}{}seed={round}", if loses { "," } else { "" });
            let (took_bytes, missing) = one_cut(&plan, Random(seed.wrapping_mul(round + 1)));
            // Nothing else goes missing. What an unanswered write has lost is
            // not missed.
            assert!(missing * SECTOR as u64 <= took_bytes, "{plan}: {missing}");
            cuts = (cuts.0 + took_bytes, cuts.1 + missing);
        }
        assert_eq!((cuts.0 > 0, cuts.1 > 0), (loses, loses), "{plan}: {cuts:?}");
    }
}

/// A medium whose writes wait until they are let through.
struct Held {
    memory: MemoryMedium,
    gate: Mutex<(bool, bool)>,
    changed: Condvar,
}

impl Held {
    fn wait_for_a_write(&self) {
        let gate = self.gate.lock().unwrap();
        let begun = self.changed.wait_while(gate, |(has_begun, _)| !*has_begun);
        drop(begun.unwrap());
    }

    fn open(&self) {
        self.gate.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

impl Medium for Held {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> io::Result<usize> {
        self.memory.read(offset, memory)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        let mut gate = self.gate.lock().unwrap();
        gate.0 = true;
        self.changed.notify_all();
        drop(self.changed.wait_while(gate, |(_, is_open)| !*is_open));
        self.memory.write(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_cut_waits_for_what_is_under_way_and_lets_nothing_else_begin() {
    let medium = Arc::new(Held {
        memory: MemoryMedium::new(SIZE_BYTES),
        gate: Mutex::default(),
        changed: Condvar::new(),
    });
    let options = ServerOptions {
        outstanding_max: 1,
        ..ServerOptions::default()
    };
    let long = Duration::from_millis(1);
    let server = server(Arc::clone(&medium) as Arc<dyn Medium>, long, &options);
    let read = Request::Read {
        offset: 0,
        length: 512,
    };
    thread::scope(|scope| {
        let under_way = scope.spawn(|| {
            let request = Request::Write {
                offset: 0,
                data: &[1; 512],
                durable: false,
            };
            ask(&server, request).recv_timeout(WAIT_MAX).unwrap()
        });
        medium.wait_for_a_write();
        // There is room for one.
        let waiting = scope.spawn(|| ask(&server, read).recv_timeout(WAIT_MAX).unwrap());
        let cut = scope.spawn(|| server.power_cut().unwrap());
        while server.has_power() {
            thread::yield_now();
        }
        assert!(is_eio(waiting.join().unwrap()));
        assert!(is_eio(ask(&server, read).recv_timeout(WAIT_MAX).unwrap()));
        assert!(!cut.is_finished() && !under_way.is_finished());
        medium.open();
        assert_eq!(cut.join().unwrap(), 0);
        assert!(is_eio(under_way.join().unwrap()));
    });
    let statistics = server.take_statistics();
    assert_eq!((statistics.operations(), statistics.without_power), (0, 3));
    assert_eq!(statistics.model_latency_sum_ns, 0);
}

#[test]
fn a_flush_holds_once_it_is_answered_and_not_before() {
    let medium = Arc::new(MemoryMedium::new(SIZE_BYTES));
    let faults = Faults::new("lost=1:power-cut".parse().unwrap()).unwrap();
    let options = ServerOptions {
        faults: Some(Arc::new(faults)),
        ..ServerOptions::default()
    };
    let long = Duration::from_millis(300);
    let server = server(Arc::clone(&medium) as Arc<dyn Medium>, long, &options);
    let write = |block: u64| {
        let data = contents(1);
        let request = Request::Write {
            offset: block * BLOCK as u64,
            data: &data,
            durable: false,
        };
        ask(&server, request)
    };
    let good = |answer: mpsc::Receiver<io::Result<Vec<u8>>>| {
        answer.recv_timeout(WAIT_MAX).unwrap().is_ok()
    };
    assert!(good(write(0)));
    assert!(good(ask(&server, Request::Flush)));
    assert!(good(write(1)));
    let flush = ask(&server, Request::Flush);
    let said_bytes = server.power_cut().unwrap();
    // A machine that held this thread up for as long has answered it.
    let (took_bytes, left) = match good(flush) {
        true => (0, 1),
        false => (BLOCK as u64, 0),
    };
    assert_eq!(said_bytes, took_bytes);
    assert_eq!(versions(&medium, 0), [1; BLOCK / SECTOR]);
    assert_eq!(versions(&medium, 1), [left; BLOCK / SECTOR]);
}

#[test]
fn what_waits_for_its_time_fails_at_the_cut() {
    let medium = Arc::new(MemoryMedium::new(SIZE_BYTES));
    let never = Duration::from_secs(1000);
    let server = server(medium, never, &ServerOptions::default());
    let read = Request::Read {
        offset: 0,
        length: 512,
    };
    // More than the model takes at once.
    let answers: Vec<_> = (0..20).map(|_| ask(&server, read)).collect();
    server.power_cut().unwrap();
    for answer in answers {
        assert!(is_eio(answer.try_recv().unwrap()));
    }
}
