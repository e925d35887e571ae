//! A disk that is served: its time, its data, its protocol.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use iolane_disk::Medium;
use iolane_disk::fault::Faults;
use iolane_disk::medium::MemoryMedium;
use iolane_disk::model::{Constant, ConstantParameters};
use iolane_disk::served::nbd::{self, Nbd, NbdError};
use iolane_disk::served::{
    Accounted, Client, Follows, Lead, Request, Server, ServerOptions, Taken, latencies_ns, now_ns,
};
use iolane_disk::{Description, Model};

const SIZE_BYTES: u64 = 1 << 20;
const LATENCY: Duration = Duration::from_millis(20);

/// Held by tests with disks so fast that they keep processors awake: one sees
/// whether this process does.
static FAST_DISKS: Mutex<()> = Mutex::new(());

fn alone_with_fast_disks() -> MutexGuard<'static, ()> {
    FAST_DISKS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn constant(queue_max: usize, latency: Duration) -> Box<Constant> {
    let parameters = ConstantParameters {
        capacity_bytes: SIZE_BYTES,
        queue_max,
        latency_ns: latency.as_nanos() as u64,
    };
    Box::new(Constant::new(parameters).unwrap())
}

fn server(queue_max: usize, latency: Duration, options: &ServerOptions) -> Arc<Server> {
    let medium = Arc::new(MemoryMedium::new(SIZE_BYTES));
    Arc::new(Server::start(constant(queue_max, latency), medium, options).unwrap())
}

/// Of a disk that usually takes so long.
fn following(follows: Follows, usual: Duration) -> ServerOptions {
    ServerOptions {
        lead: Lead {
            follows,
            ..Lead::NONE
        },
        usual_latency_ns: usual.as_nanos() as u64,
        ..ServerOptions::default()
    }
}

/// Submits, and gives the channel on which the answer and its time come.
fn submit(server: &Server, request: Request<'_>) -> mpsc::Receiver<(io::Result<Vec<u8>>, Instant)> {
    let (sender, receiver) = mpsc::channel();
    let reply = move |result| sender.send((result, Instant::now())).unwrap();
    server.submit(request, Box::new(reply));
    receiver
}

const READ: Request<'static> = Request::Read {
    offset: 0,
    length: 4096,
};

#[test]
fn an_answer_never_comes_before_the_model_says() {
    let server = server(32, LATENCY, &ServerOptions::default());
    let start = Instant::now();
    let answers: Vec<_> = (0..32).map(|_| submit(&server, READ)).collect();
    for answer in answers {
        let (result, at) = answer.recv().unwrap();
        assert_eq!(result.unwrap(), [0; 4096]);
        assert!(at - start >= LATENCY, "{:?}", at - start);
    }
    let statistics = server.take_statistics();
    assert_eq!((statistics.reads, statistics.errors), (32, 0));
    assert!(statistics.model_latency_mean_ns().unwrap() >= LATENCY.as_nanos() as f64);
    assert_eq!(server.take_statistics().operations(), 0);
}

#[test]
fn what_goes_beyond_the_disks_queue_waits_its_turn() {
    let server = server(2, LATENCY, &ServerOptions::default());
    let start = Instant::now();
    let answers: Vec<_> = (0..6).map(|_| submit(&server, READ)).collect();
    for (number, answer) in (0..).zip(answers) {
        let (_, at) = answer.recv().unwrap();
        assert!(at - start >= LATENCY * (number / 2 + 1), "{number}");
    }
}

#[test]
fn more_than_may_be_outstanding_waits_for_room() {
    let options = ServerOptions {
        outstanding_max: 2,
        ..ServerOptions::default()
    };
    let server = server(32, LATENCY, &options);
    let start = Instant::now();
    let answers: Vec<_> = (0..3).map(|_| submit(&server, READ)).collect();
    assert!(start.elapsed() >= LATENCY, "the third waited");
    for answer in answers {
        answer.recv().unwrap().0.unwrap();
    }
}

#[test]
fn a_lead_makes_answers_early_by_so_much_and_no_more() {
    let lead = Lead {
        base_ns: 5_000_000,
        rested_ns: 0,
        crowded_ns: 0,
        per_mebibyte_ns: 0,
        follows: Follows::Nothing,
    };
    let options = ServerOptions {
        lead,
        ..ServerOptions::default()
    };
    let server = server(32, LATENCY, &options);
    let start = Instant::now();
    let (_, at) = submit(&server, READ).recv().unwrap();
    assert!(at - start >= LATENCY - Duration::from_nanos(lead.base_ns));
}

#[test]
fn a_lead_follows_what_clients_see_where_the_disk_is_fast_and_accounts_are_known() {
    let _alone = alone_with_fast_disks();
    const FAST: Duration = Duration::from_micros(100);
    const CLIENT_NS: u64 = 8_000;
    const READS: u64 = 40;
    // Clients that see so much more than the model says.
    let corrected = |usual: Duration, follows: Follows, more_ns: u64| {
        let server = server(32, FAST, &following(follows, usual));
        server.correct_lead(Accounted::default());
        for _ in 0..READS {
            submit(&server, READ).recv().unwrap().0.unwrap();
        }
        server.correct_lead(Accounted {
            requests: READS,
            took_ns: READS * (FAST.as_nanos() as u64 + more_ns - CLIENT_NS),
        });
        server.lead_correction_ns()
    };
    // A fifth of it, or less where the machine held up the memory's copying.
    let accounts = Follows::Accounts {
        client_ns: CLIENT_NS,
    };
    let seen = (0..10).map(|_| corrected(FAST, accounts, 50_000));
    assert!({ seen }.any(|by_ns| (9_000..=10_000).contains(&by_ns)));
    assert_eq!(corrected(FAST, Follows::Nothing, 50_000), 0);
    assert_eq!(corrected(Duration::from_millis(5), accounts, 50_000), 0);
}

/// Takes an answer so long after it was sent.
#[derive(Default)]
struct Taker {
    after: Duration,
    sent: Mutex<Option<Instant>>,
}

impl Client for Taker {
    fn has_taken_all(&self) -> bool {
        let sent = *self.sent.lock().unwrap();
        sent.is_none_or(|sent| sent.elapsed() >= self.after)
    }
}

#[test]
fn a_lead_follows_clients_that_are_seen_to_take_their_answers() {
    let _alone = alone_with_fast_disks();
    const FAST: Duration = Duration::from_micros(300);
    const REQUESTS: usize = 200;
    let corrected = |follows: Follows, after: Duration| {
        let server = server(32, FAST, &following(follows, FAST));
        let taker = Arc::new(Taker {
            after,
            ..Taker::default()
        });
        for _ in 0..REQUESTS {
            let (sender, receiver) = mpsc::channel();
            let own = Arc::clone(&taker);
            let reply = move |result: io::Result<Vec<u8>>| {
                *own.sent.lock().unwrap() = Some(Instant::now());
                sender.send(result).unwrap();
            };
            let client = Arc::clone(&taker) as Arc<dyn Client>;
            server.submit_for(Some(client), READ, Box::new(reply));
            receiver.recv().unwrap().unwrap();
            // It has taken this one when the next is sent.
            std::thread::sleep(after.min(FAST));
        }
        server.lead_correction_ns()
    };
    let after = Duration::from_micros(30);
    // There and back it is 72 us, and as much more as the machine is late; a
    // hundred looks find most of that.
    let by_ns: Vec<_> = (0..5).map(|_| corrected(Follows::Clients, after)).collect();
    let fits = |by_ns: &i64| (35_000..110_000).contains(by_ns);
    assert!(by_ns.iter().any(fits), "{by_ns:?}");
    assert_eq!(corrected(Follows::Nothing, after), 0);
    assert_eq!(corrected(Follows::Clients, Duration::from_secs(9)), 0);
}

#[test]
fn data_come_back_and_bad_ranges_are_refused_at_once() {
    let server = server(32, Duration::from_micros(100), &ServerOptions::default());
    let data: Vec<u8> = (0..8192u32).map(|byte| (byte % 251) as u8).collect();
    let write = Request::Write {
        offset: 1000,
        data: &data,
        durable: true,
    };
    assert_eq!(submit(&server, write).recv().unwrap().0.unwrap(), []);
    submit(&server, Request::Flush).recv().unwrap().0.unwrap();
    let read = Request::Read {
        offset: 1000,
        length: 8192,
    };
    assert_eq!(submit(&server, read).recv().unwrap().0.unwrap(), data);
    for (offset, length) in [(SIZE_BYTES, 1), (SIZE_BYTES - 1, 2), (u64::MAX, 1), (0, 0)] {
        let read = Request::Read { offset, length };
        let error = submit(&server, read).try_recv().unwrap().0.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}

#[test]
fn faults_reach_the_client_and_stalls_take_their_time() {
    let faults = Faults::new("eio=#2,stall=50ms:#3,seed=1".parse().unwrap()).unwrap();
    let options = ServerOptions {
        faults: Some(Arc::new(faults)),
        ..ServerOptions::default()
    };
    let server = server(32, LATENCY, &options);
    submit(&server, READ).recv().unwrap().0.unwrap();
    let error = submit(&server, READ).recv().unwrap().0.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5));
    let start = Instant::now();
    let (result, at) = submit(&server, READ).recv().unwrap();
    result.unwrap();
    assert!(at - start >= LATENCY + Duration::from_millis(50));
}

/// A medium that is slower than the model.
struct Slow(MemoryMedium);

impl Medium for Slow {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read(&self, offset: u64, memory: &mut [u8]) -> io::Result<usize> {
        std::thread::sleep(LATENCY);
        let short = memory.len().min(1000);
        self.0.read(offset, &mut memory[..short])
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<usize> {
        self.0.write(offset, data)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

#[test]
fn a_slow_medium_is_waited_for_and_counted() {
    let model = constant(32, Duration::from_micros(10));
    let medium = Arc::new(Slow(MemoryMedium::new(SIZE_BYTES)));
    let server = Server::start(model, medium, &ServerOptions::default()).unwrap();
    // The lateness is noted after the answer was sent; and on a busy machine the model's time
    // may be noticed later than the medium has answered.
    let until = Instant::now() + Duration::from_secs(30);
    let mut late = 0;
    while late == 0 && Instant::now() < until {
        let (result, _) = submit(&server, READ).recv().unwrap();
        assert_eq!(result.unwrap().len(), 4096);
        late += server.take_statistics().medium_late;
    }
    assert!(late > 0);
}

struct Socket {
    path: PathBuf,
    nbd: Option<Nbd>,
    _directory: tempfile::TempDir,
}

fn listen(latency: Duration) -> Socket {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let server = server(32, latency, &ServerOptions::default());
    Socket {
        nbd: Some(Nbd::listen(&path, server).unwrap()),
        path,
        _directory: directory,
    }
}

#[test]
fn nbd_answers_many_requests_of_several_connections() {
    let socket = listen(LATENCY);
    let mut clients: Vec<_> = (0..3)
        .map(|_| nbd::connect(&socket.path).unwrap())
        .collect();
    let start = now_ns();
    for (number, (sender, _)) in (0u8..).zip(&mut clients) {
        assert_eq!(sender.size_bytes(), SIZE_BYTES);
        for cookie in 0..8 {
            let offset = (u64::from(number) * 8 + cookie) * 512;
            sender
                .write(cookie, offset, &[number; 512], cookie == 7)
                .unwrap();
        }
        sender.flush(8).unwrap();
    }
    for (_, receiver) in &mut clients {
        let mut cookies: Vec<u64> = (0..9)
            .map(|_| {
                let answer = receiver.receive().unwrap();
                assert_eq!(answer.error, 0);
                answer.cookie
            })
            .collect();
        cookies.sort_unstable();
        assert_eq!(cookies, (0..9).collect::<Vec<_>>());
    }
    assert!(now_ns() - start >= LATENCY.as_nanos() as u64);
    let (sender, receiver) = &mut clients[0];
    sender.read(77, 0, 3 * 8 * 512).unwrap();
    sender.disconnect().unwrap();
    let answer = receiver.receive().unwrap();
    let expected: Vec<u8> = (0..3).flat_map(|number| [number; 8 * 512]).collect();
    assert_eq!((answer.cookie, answer.data), (77, expected));
    let end = receiver.receive().unwrap_err();
    assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn nbd_bad_ranges_are_answered_and_the_connection_goes_on() {
    const EINVAL: u32 = 22;
    const ENOSPC: u32 = 28;
    let socket = listen(Duration::from_micros(10));
    let (mut sender, mut receiver) = nbd::connect(&socket.path).unwrap();
    sender.read(1, SIZE_BYTES, 512).unwrap();
    sender.write(2, SIZE_BYTES, &[0; 512], false).unwrap();
    sender.read(3, u64::MAX - 10, 512).unwrap();
    sender.read(4, 0, 0).unwrap();
    for (cookie, error) in [(1, EINVAL), (2, ENOSPC), (3, EINVAL), (4, EINVAL)] {
        // Two threads read requests: answers at once may overtake each other.
        let answer = receiver.receive().unwrap();
        let expected = if answer.cookie == 2 { ENOSPC } else { EINVAL };
        assert_eq!(answer.error, expected, "{cookie} {error}");
    }
    sender.read(5, SIZE_BYTES - 512, 512).unwrap();
    assert_eq!(receiver.receive().unwrap().error, 0);
}

/// Through the handshake by hand, then whatever comes.
#[test]
fn nbd_garbage_ends_the_connection_and_nothing_else() {
    let socket = listen(Duration::from_micros(10));
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    for round in 0..40 {
        let mut stream = UnixStream::connect(&socket.path).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut hello = [0; 18];
        stream.read_exact(&mut hello).unwrap();
        if round % 2 == 0 {
            let mut choice = 3u32.to_be_bytes().to_vec();
            choice.extend(*b"IHAVEOPT");
            choice.extend(1u32.to_be_bytes());
            choice.extend(0u32.to_be_bytes());
            stream.write_all(&choice).unwrap();
            let mut export = [0; 10];
            stream.read_exact(&mut export).unwrap();
            assert_eq!(export[..8], SIZE_BYTES.to_be_bytes());
        }
        let garbage: Vec<u8> = (0..200).map(|_| random()).collect();
        // It may have hung up already.
        let _ = stream.write_all(&garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    // The disk is still there.
    let (mut sender, mut receiver) = nbd::connect(&socket.path).unwrap();
    sender.read(1, 0, 512).unwrap();
    assert_eq!(receiver.receive().unwrap().error, 0);
}

#[test]
fn nbd_sockets_are_replaced_refused_and_removed() {
    let mut socket = listen(LATENCY);
    let other = server(32, LATENCY, &ServerOptions::default());
    assert!(matches!(
        Nbd::listen(&socket.path, Arc::clone(&other)),
        Err(NbdError::InUse { .. })
    ));
    let (mut sender, mut receiver) = nbd::connect(&socket.path).unwrap();
    sender.read(1, 0, 512).unwrap();
    socket.nbd = None;
    assert!(!socket.path.exists());
    // Outstanding or not: it is hung up on.
    while receiver.receive().is_ok() {}
    // What a killed server leaves.
    drop(std::os::unix::net::UnixListener::bind(&socket.path).unwrap());
    assert!(socket.path.exists());
    let again = Nbd::listen(&socket.path, Arc::clone(&other)).unwrap();
    drop(again);
    std::fs::write(&socket.path, "").unwrap();
    assert!(matches!(
        Nbd::listen(&socket.path, other),
        Err(NbdError::NoSocket { .. })
    ));
}

/// Whatever the machine does meanwhile: not a nanosecond is lost or won.
#[test]
fn a_lead_does_not_make_commands_wait_for_those_before_them() {
    // None of them ends in the model meanwhile.
    let latency = Duration::from_secs(1000);
    let options = ServerOptions {
        lead: Lead {
            base_ns: latency.as_nanos() as u64,
            ..Lead::NONE
        },
        taken_max: 8,
        ..ServerOptions::default()
    };
    let server = server(32, latency, &options);
    for _ in 0..8 {
        submit(&server, READ).recv().unwrap().0.unwrap();
    }
    let taken = server.take_taken();
    assert_eq!(taken.len(), 8);
    for taken in taken {
        assert_eq!(taken.taken_ns, taken.arrived_ns);
    }
}

#[test]
fn what_is_due_at_once_is_answered_by_the_thread_that_brought_it() {
    let options = ServerOptions {
        lead: Lead {
            base_ns: 2 * LATENCY.as_nanos() as u64,
            ..Lead::NONE
        },
        ..ServerOptions::default()
    };
    let server = server(32, LATENCY, &options);
    let here = thread::current().id();
    // The timing thread may be awake, and faster.
    let mut answered = (0..100).map(|_| {
        let (sender, receiver) = mpsc::channel();
        let reply = move |_| sender.send(thread::current().id()).unwrap();
        server.submit(READ, Box::new(reply));
        receiver.recv().unwrap()
    });
    assert!(answered.any(|thread| thread == here));
}

#[test]
fn processors_are_kept_awake_while_requests_come_to_a_fast_disk() {
    let _alone = alone_with_fast_disks();
    const DEVICE: &str = "/dev/cpu_dma_latency";
    if let Err(error) = OpenOptions::new().write(true).open(DEVICE) {
        iolane_testing::skipped(format!("{DEVICE} may not be written: {error}"));
        return;
    }
    let held = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap();
        let mut open = open.filter_map(|file| file.unwrap().path().read_link().ok());
        open.any(|file| file == Path::new(DEVICE))
    };
    let options = ServerOptions {
        usual_latency_ns: 100_000,
        ..ServerOptions::default()
    };
    let server = server(32, Duration::from_micros(100), &options);
    assert!(!held());
    // A thread that is held up for a second comes too late to see it.
    let seen = (0..10).find_map(|_| {
        let start = Instant::now();
        submit(&server, READ).recv().unwrap().0.unwrap();
        held().then_some(start)
    });
    let start = seen.expect("held");
    while held() {
        assert!(start.elapsed() < Duration::from_secs(60), "still awake");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() >= Duration::from_secs(1));
}

#[test]
fn the_served_model_does_what_one_of_its_own_does_with_the_same_commands() {
    const REQUESTS: u64 = 40;
    const DISK_BYTES: u64 = 64 << 20;
    let model = || -> Box<dyn Model> {
        let disk = Description::preset("ultrastar-36lzx").unwrap();
        disk.build(7).unwrap()
    };
    let options = ServerOptions {
        lead: Lead {
            base_ns: 200_000,
            rested_ns: 50_000,
            crowded_ns: 60_000,
            per_mebibyte_ns: 400_000,
            follows: Follows::Nothing,
        },
        taken_max: REQUESTS as usize,
        ..ServerOptions::default()
    };
    let medium = Arc::new(MemoryMedium::new(DISK_BYTES));
    let server = Arc::new(Server::start(model(), medium, &options).unwrap());
    let answers: Vec<_> = (0..REQUESTS)
        .map(|number| {
            // Scattered by a multiplier that is odd, in units of 4 KiB.
            let offset = number * 7919 % (DISK_BYTES / 4096) * 4096;
            let request = Request::Read {
                offset,
                length: 4096,
            };
            if number % 3 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
            submit(&server, request)
        })
        .collect();
    for answer in answers {
        answer.recv().unwrap().0.unwrap();
    }
    let taken = server.take_taken();
    let waited_ns = |taken: &Taken| u128::from(taken.taken_ns - taken.arrived_ns);
    let waited_ns: u128 = taken.iter().map(waited_ns).sum();
    let own_ns: u128 = latencies_ns(model(), &taken)
        .into_iter()
        .map(u128::from)
        .sum();
    let served_ns = server.take_statistics().model_latency_sum_ns;
    assert_eq!(taken.len() as u64, REQUESTS);
    assert_eq!(served_ns, own_ns + waited_ns);
}
