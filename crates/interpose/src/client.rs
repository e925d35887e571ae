//! Who this process is for the broker.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use iolane_protocol::sys::introduce::{self, Missed, PATIENCE_MS};
use iolane_protocol::sys::{clock, confinement};
use iolane_protocol::{Address, ENVIRONMENT, Memory, Welcome};

use crate::sys::{environment, notice, page, reading};
use crate::{ahead, asynchronous};

/// What a child of a fork must not take over from its parent: the kernel
/// replaces the page by zeros there (`MADV_WIPEONFORK`).
#[repr(C)]
pub struct OwnPage {
    /// Whose it is: a child of vfork has its parent's memory. 0 in a child of fork that has not
    /// come yet.
    process: AtomicU32,
    /// [`STRANGER`], [`COMING`], [`REFUSED`], [`AWAY`], or [`WELCOME`] plus the client's number.
    standing: AtomicU32,
    /// When one that is away comes again, and how long it has stayed away before that.
    again_ns: AtomicU64,
    pause_ns: AtomicU64,
    /// Rules that match the command line.
    process_rules: AtomicU64,
    /// Requests so far.
    requests: AtomicU32,
    /// Whether the thread runs that submits asynchronous requests.
    has_submitter: AtomicBool,
    /// Whether the thread runs, or ran, that reads ahead.
    has_reader: AtomicBool,
}

const STRANGER: u32 = 0;
const COMING: u32 = 1;
const REFUSED: u32 = 2;
/// It found no way to the broker for now.
const AWAY: u32 = 3;
const WELCOME: u32 = 4;

/// How long one that is away stays so: longer each time.
const PAUSE_NS_MIN: u64 = 1_000_000_000;
const PAUSE_NS_MAX: u64 = 64 * PAUSE_NS_MIN;
/// How long the broker may take to answer one that was away.
const PATIENCE_AGAIN_MS: u32 = 100;

static ADDRESS: OnceLock<Address> = OnceLock::new();
static PAGE: OnceLock<&'static OwnPage> = OnceLock::new();
static MEMORY: page::Shared = page::Shared::none();
static IS_ON: AtomicBool = AtomicBool::new(false);
/// This process, or the one that forked it, has said that the broker died, or could not.
static HAS_MOURNED: AtomicBool = AtomicBool::new(false);

/// This process, under a broker that serves it.
#[derive(Clone, Copy)]
pub struct Client {
    pub memory: &'static Memory,
    pub number: usize,
    page: &'static OwnPage,
}

/// Called once, when the library is loaded. Without a valid variable everything
/// stays off.
pub fn begin() {
    let Some(value) = environment::value(ENVIRONMENT) else {
        return;
    };
    let Some(address) = Address::parse(value) else {
        return;
    };
    if confinement::filters().is_some_and(|filters| filters > address.filters) {
        // As after [`retreat_after`]: who executed this program has confined it.
        return;
    }
    let Some(page) = page::wiped_on_fork() else {
        return;
    };
    page.process
        .store(environment::process_number(), Ordering::Relaxed);
    notice::remember_standard_error();
    environment::find_command_line();
    if !reading::looks_at_forks() {
        ahead::give_up();
    }
    let is_first = ADDRESS.set(address).is_ok() && PAGE.set(page).is_ok();
    IS_ON.store(is_first, Ordering::Release);
}

/// Whether there is, or may come, anything to schedule.
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire)
}

/// This process as a client; `None` if nothing is to be scheduled. The first call
/// of a process, also after a fork, comes to the broker.
pub fn current() -> Option<Client> {
    if !IS_ON.load(Ordering::Acquire) {
        return None;
    }
    let page = *PAGE.get()?;
    let standing = match page.standing.load(Ordering::Acquire) {
        STRANGER => come(page, STRANGER)?,
        AWAY => come_again(page)?,
        standing => standing,
    };
    let memory = MEMORY.get()?;
    let number = standing.checked_sub(WELCOME);
    let Some(number) = number.filter(|_| memory.header.is_serving()) else {
        mourn(memory);
        return None;
    };
    Some(Client {
        memory,
        number: number as usize,
        page,
    })
}

/// If the broker died, one of all processes says so, once. One that ended after its command is not
/// missed.
#[cold]
pub fn mourn(memory: &Memory) {
    const TEXT: &[u8] = b"iolane: the broker has ended: I/O goes on unscheduled\n";
    let header = &memory.header;
    if !header.is_dead() || header.is_mourned() || !is_on() || is_guest() {
        return;
    }
    let is_first = !HAS_MOURNED.swap(true, Ordering::Relaxed);
    if is_first && notice::can_be_said() && header.mourn() {
        notice::say(TEXT);
    }
}

/// This process, whether or not the broker serves it; `None` if it never came.
pub fn of_request() -> Option<Client> {
    let page = *PAGE.get()?;
    let number = page.standing.load(Ordering::Acquire).checked_sub(WELCOME)?;
    Some(Client {
        memory: MEMORY.get()?,
        number: number as usize,
        page,
    })
}

/// Whether the calling process has the memory of another one, which goes on with it as it is: a
/// child of vfork(2), until it executes its program.
pub fn is_guest() -> bool {
    is_on() && PAGE.get().is_some_and(|page| is_guest_of(page))
}

fn is_guest_of(page: &OwnPage) -> bool {
    let owner = page.process.load(Ordering::Relaxed);
    owner != 0 && owner != environment::process_number()
}

/// The process confines itself to system calls of its choice (seccomp(2)), by this one. The library
/// makes none of its own after it, as the first that is not among them may be the process's last.
pub fn retreat_after<T>(confine: impl FnOnce() -> T, is_done: impl FnOnce(&T) -> bool) -> T {
    // Before: even that asks the kernel.
    let is_guest = is_guest();
    let result = confine();
    if is_done(&result) && !is_guest {
        IS_ON.store(false, Ordering::Release);
    }
    result
}

/// Whether the thread runs that submits asynchronous requests.
pub fn has_submitter() -> bool {
    PAGE.get()
        .is_some_and(|page| page.has_submitter.load(Ordering::Acquire))
}

/// Starts that thread, once in a process.
pub fn start_submitter(start: impl FnOnce() -> bool) {
    let Some(client) = current() else {
        return;
    };
    if !client.page.has_submitter.swap(true, Ordering::AcqRel) && !start() {
        client.page.has_submitter.store(false, Ordering::Release);
    }
}

/// Starts the thread that reads ahead, once in a process.
pub fn start_reader(start: impl FnOnce() -> bool) {
    let Some(client) = current() else {
        return;
    };
    if !client.page.has_reader.load(Ordering::Relaxed)
        && !client.page.has_reader.swap(true, Ordering::AcqRel)
        && !start()
    {
        ahead::give_up();
    }
}

/// Goes to the broker. One thread does; others go unscheduled meanwhile.
fn come(page: &OwnPage, before: u32) -> Option<u32> {
    if is_guest_of(page) {
        // It would come in its parent's name, and the name would go with it.
        return None;
    }
    page.process
        .store(environment::process_number(), Ordering::Relaxed);
    page.standing
        .compare_exchange(before, COMING, Ordering::AcqRel, Ordering::Acquire)
        .ok()?;
    let standing = match welcome(before == STRANGER) {
        Ok(welcome) => WELCOME + welcome.client,
        Err(Missed::Gone) => REFUSED,
        Err(Missed::ForNow) => {
            let pause_ns = 2 * page.pause_ns.load(Ordering::Relaxed);
            let pause_ns = pause_ns.clamp(PAUSE_NS_MIN, PAUSE_NS_MAX);
            page.pause_ns.store(pause_ns, Ordering::Relaxed);
            page.again_ns
                .store(clock::now_ns() + pause_ns, Ordering::Relaxed);
            AWAY
        }
    };
    page.standing.store(standing, Ordering::Release);
    Some(standing)
}

/// The same after it was in vain.
#[cold]
fn come_again(page: &OwnPage) -> Option<u32> {
    if clock::now_ns() < page.again_ns.load(Ordering::Relaxed) {
        return None;
    }
    come(page, AWAY)
}

fn welcome(is_first: bool) -> Result<Welcome, Missed> {
    let address = ADDRESS.get().ok_or(Missed::Gone)?;
    let patience_ms = if is_first {
        PATIENCE_MS
    } else {
        PATIENCE_AGAIN_MS
    };
    let (welcome, memory) = match MEMORY.get() {
        // A child has the mapping of the process that forked it.
        Some(memory) => {
            if is_first {
                asynchronous::forget_all();
            }
            (introduce::introduce(address, patience_ms)?, memory)
        }
        None => {
            let (welcome, memory) = introduce::introduce_and_map(address, patience_ms)?;
            MEMORY.set(memory);
            (welcome, memory)
        }
    };
    let is_known = memory.header.is_known();
    is_known.then_some(welcome).ok_or(Missed::Gone)
}

impl Client {
    /// The rules that match this process. Processes rename themselves after a fork,
    /// so the first requests look often.
    pub fn process_rules(&self) -> u64 {
        const LOOK_AGAIN: u32 = 4096;
        let requests = self.page.requests.fetch_add(1, Ordering::Relaxed);
        let is_early = requests.is_power_of_two() && requests < LOOK_AGAIN;
        if is_early || requests.is_multiple_of(LOOK_AGAIN) {
            let rules = environment::with_command_line(|line| self.memory.rules.of_process(line));
            self.page.process_rules.store(rules, Ordering::Relaxed);
            return rules;
        }
        self.page.process_rules.load(Ordering::Relaxed)
    }
}
