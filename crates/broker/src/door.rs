//! Who comes and who has gone.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use iolane_protocol::sys::{clock, confinement};
use iolane_protocol::{CLIENTS_MAX, Memory, TOKEN_BYTES, Welcome};

use crate::error::BrokerError;
use crate::sys::{process, socket};

/// After a call that failed as the kernel had no memory or no descriptor for a moment.
const PAUSE: Duration = Duration::from_millis(50);
/// Processes that come in between two looks at who has gone: while they come one after the other, the
/// numbers of those that have gone would be missing.
const WELCOMES_MAX: usize = 64;
/// Until the number of one that has gone is free, which is the broker's to say.
const BURIAL: Duration = Duration::from_millis(1);

/// Lets processes in, and watches for their end.
pub struct Door {
    name: String,
    token: String,
    guests: Arc<Guests>,
    watch: Mutex<Option<Watch>>,
}

/// The door's thread. It wakes and ends when the other end of its line is dropped.
struct Watch {
    line: OwnedFd,
    thread: JoinHandle<()>,
}

/// What the door's thread and the broker's share.
struct Guests {
    memory: &'static Memory,
    state: Mutex<State>,
    has_dead: AtomicBool,
    present: AtomicUsize,
    came: AtomicUsize,
    turned_away: AtomicUsize,
}

struct State {
    /// Numbers that nobody has, the next one last.
    free: Vec<usize>,
    dead: Vec<usize>,
    /// Numbers of the processes, by client, as the broker sees them.
    processes: Vec<u32>,
    /// All numbers that were ever given are below this.
    ever: usize,
}

impl Door {
    /// Opens it. `file` is what the memory lies in.
    pub fn open(file: File, memory: &'static Memory) -> Result<Door, BrokerError> {
        let token = random_token().map_err(BrokerError::when("read random numbers"))?;
        let name = format!("iolane-run-{}-{}", std::process::id(), &token[..8]);
        let listener =
            socket::listen(name.as_bytes()).map_err(BrokerError::when("open a socket"))?;
        let guests = Arc::new(Guests {
            memory,
            state: Mutex::new(State {
                free: (0..CLIENTS_MAX).rev().collect(),
                dead: Vec::new(),
                processes: vec![0; CLIENTS_MAX],
                ever: 0,
            }),
            has_dead: AtomicBool::new(false),
            present: AtomicUsize::new(0),
            came: AtomicUsize::new(0),
            turned_away: AtomicUsize::new(0),
        });
        let (guests_too, token_too) = (Arc::clone(&guests), token.clone());
        let (line, end) = UnixStream::pair().map_err(BrokerError::when("open a socket"))?;
        let (line, end) = (OwnedFd::from(line), OwnedFd::from(end));
        let thread = thread::Builder::new()
            .name("door".to_owned())
            .spawn(move || guests_too.watch(&end, &listener, &file, token_too.as_bytes()))
            .map_err(BrokerError::when("start a thread"))?;
        Ok(Door {
            name,
            token,
            guests,
            watch: Mutex::new(Some(Watch { line, thread })),
        })
    }

    /// What processes need to come in.
    pub fn address(&self) -> String {
        let filters = confinement::filters().unwrap_or(u32::MAX);
        format!("{}:{filters}:{}", self.name, self.token)
    }

    /// Processes that are there.
    pub fn clients(&self) -> usize {
        self.guests.present.load(Ordering::SeqCst)
    }

    /// All numbers of processes that were ever there are below this.
    pub fn clients_ever(&self) -> usize {
        self.guests.lock().ever
    }

    /// Which process has the number, or had it last.
    pub fn process_of(&self, client: usize) -> u32 {
        self.guests.process_of(client)
    }

    /// How many came, and how many were sent away.
    pub fn counts(&self) -> (usize, usize) {
        let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        (count(&self.guests.came), count(&self.guests.turned_away))
    }

    pub fn has_dead(&self) -> bool {
        self.guests.has_dead.load(Ordering::SeqCst)
    }

    /// Processes that have ended since the last call.
    pub fn take_dead(&self) -> Vec<usize> {
        if !self.guests.has_dead.swap(false, Ordering::SeqCst) {
            return Vec::new();
        }
        std::mem::take(&mut self.guests.lock().dead)
    }

    /// Nothing is left of the one that had this number.
    pub fn let_in_another(&self, client: usize) {
        self.guests.memory.clients[client].set_used(false);
        self.guests.lock().free.push(client);
    }

    /// Lets nobody in any more.
    pub fn close(&self) {
        let watch = self
            .watch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(Watch { line, thread }) = watch {
            drop(line);
            // A panic of that thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Guests {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn process_of(&self, client: usize) -> u32 {
        self.lock().processes[client]
    }

    fn watch(&self, end: &OwnedFd, listener: &OwnedFd, file: &File, token: &[u8]) {
        let mut present: Vec<(usize, OwnedFd)> = Vec::new();
        let mut spare = Spare {
            descriptor: listener.try_clone().ok(),
            is_missed: false,
        };
        loop {
            let mut polled = vec![end, listener];
            polled.extend(present.iter().map(|(_, process)| process));
            let Ok(ready) = process::readable(&polled, process::FOREVER) else {
                // The kernel has no memory for a moment.
                thread::sleep(PAUSE);
                continue;
            };
            // From the back: what is taken out moves none that is still to come.
            for at in ready.into_iter().rev() {
                match at {
                    0 => return,
                    1 => self.welcome_all(listener, file, token, &mut present, &mut spare),
                    _ => self.bid_farewell(present.swap_remove(at - 2).0),
                }
            }
        }
    }

    /// Whether nobody can come in yet, as the numbers of some that have gone are not free yet.
    fn expects_numbers(&self) -> bool {
        self.lock().free.is_empty() && self.present.load(Ordering::SeqCst) < CLIENTS_MAX
    }

    fn bid_farewell(&self, client: usize) {
        self.lock().dead.push(client);
        self.present.fetch_sub(1, Ordering::SeqCst);
        self.has_dead.store(true, Ordering::SeqCst);
        self.memory.header.ring(true);
    }

    /// For whom there is no descriptor is sent away by means of a `spare` one: otherwise they
    /// would wait for an answer, and the listener would be ready all the while.
    fn welcome_all(
        &self,
        listener: &OwnedFd,
        file: &File,
        token: &[u8],
        present: &mut Vec<(usize, OwnedFd)>,
        spare: &mut Spare,
    ) {
        for _ in 0..WELCOMES_MAX {
            if self.expects_numbers() {
                thread::sleep(BURIAL);
                return;
            }
            let came = socket::accept(listener).or_else(|_| {
                drop(spare.descriptor.take());
                let guest = socket::accept(listener)?;
                self.turned_away.fetch_add(1, Ordering::Relaxed);
                drop(guest);
                spare.descriptor = listener.try_clone().ok();
                Ok::<_, io::Error>(None)
            });
            let guest = match came {
                Ok(Some(guest)) => guest,
                Ok(None) => return,
                Err(error) => {
                    if is_shortage(&error) && !spare.is_missed {
                        spare.is_missed = true;
                        self.turned_away.fetch_add(1, Ordering::Relaxed);
                    }
                    thread::sleep(PAUSE);
                    return;
                }
            };
            let was_missed = std::mem::take(&mut spare.is_missed);
            match self.welcome(&guest, file, token, present) {
                Ok(Some(come)) => {
                    self.turned_away
                        .fetch_sub(usize::from(was_missed), Ordering::Relaxed);
                    present.push(come);
                }
                Err(error) if is_shortage(&error) => {
                    self.turned_away.fetch_add(1, Ordering::Relaxed);
                }
                // Who fails here goes on unscheduled, by its own choice.
                Ok(None) | Err(_) => {}
            }
        }
    }

    fn welcome(
        &self,
        guest: &OwnedFd,
        file: &File,
        token: &[u8],
        present: &mut Vec<(usize, OwnedFd)>,
    ) -> io::Result<Option<(usize, OwnedFd)>> {
        // It lives: it waits for the answer.
        let number = socket::peer(guest)?;
        let process = process::open(number)?;
        let mut shown = [0; TOKEN_BYTES];
        let length = socket::read_token(guest, &mut shown)?;
        if shown[..length] != *token {
            return Ok(None);
        }
        // The process executes another program by now: what it was before is gone, as if it had
        // ended.
        let is_it = |(client, _): &(usize, OwnedFd)| self.process_of(*client) == number;
        let before = present.iter().position(is_it);
        let before = before.map(|at| present.swap_remove(at).0);
        let allotted = self.lock().allot(number);
        self.present
            .fetch_add(usize::from(allotted.is_some()), Ordering::SeqCst);
        // After that: there is no moment at which nobody is there.
        if let Some(client) = before {
            self.bid_farewell(client);
        }
        let Some(client) = allotted else {
            self.turned_away.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        };
        self.memory.clients[client].set_used(true);
        let welcome = Welcome {
            client: client as u32,
            now_ns: clock::now_ns(),
        };
        if socket::answer(guest, &welcome.to_bytes(), file.as_fd()).is_err() {
            // It has ended, or waits no longer and may come again.
            self.bid_farewell(client);
            return Ok(None);
        }
        self.came.fetch_add(1, Ordering::Relaxed);
        Ok(Some((client, process)))
    }
}

/// Kept for whom there is no other descriptor.
struct Spare {
    descriptor: Option<OwnedFd>,
    /// Another thread took its place as it was to be used. Whoever waits for an answer counts as
    /// sent away, until it comes in all the same.
    is_missed: bool,
}

impl State {
    fn allot(&mut self, process: u32) -> Option<usize> {
        let client = self.free.pop()?;
        self.processes[client] = process;
        self.ever = self.ever.max(client + 1);
        Some(client)
    }
}

/// There are no descriptors or no memory left, here or in the whole system.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS];
    error
        .raw_os_error()
        .is_some_and(|code| shortages.contains(&code))
}

/// Nobody comes in who does not know it.
fn random_token() -> io::Result<String> {
    let mut bytes = [0u8; TOKEN_BYTES / 2];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
