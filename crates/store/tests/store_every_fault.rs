//! Every operation of a workload fails in turn: the caller is told, what was
//! acknowledged is there when the store is opened again, also when the power
//! fails then, and a store that has failed does nothing until it is reopened.

mod rig;
mod simulated;
mod workload;

use iolane::{Arena, SimulatedDisk};
use iolane_disk::fault::{Access, Effect, Fault, FaultPlan, Rule, Trigger};
use iolane_disk::power::{CrashPlan, Image, Images, RecorderLimits};
use iolane_store::access::PagesError;
use iolane_store::data::Value;
use iolane_store::{Error, Store, StoreError};
use rig::*;
use simulated::*;
use std::time::Duration;
use workload::*;

/// Rows that fill the pool.
const ROWS: i64 = 40;
/// So many operations fail one after the other, or one.
const BURSTS: [u64; 2] = [1, 40];
/// Power cuts after each fault.
const CUTS: u64 = 3;
/// Images whose recovery fails at each of its operations.
const IMAGES: u64 = 4;
/// Bytes by which a file grows at least.
const EXTENT_BYTES: u64 = 64 * 4096;

/// What goes wrong with an operation, whichever kind it is of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Eio,
    NoSpace,
    Short,
}

const KINDS: [Kind; 3] = [Kind::Eio, Kind::NoSpace, Kind::Short];

fn plan(kind: Kind, first: u64, burst: u64) -> FaultPlan {
    let faults: &[Fault] = match kind {
        Kind::Eio => &[Fault::EioRead, Fault::EioWrite, Fault::EioSync],
        Kind::NoSpace => &[Fault::NoSpace],
        Kind::Short => &[Fault::ShortRead, Fault::ShortWrite],
    };
    // At most 64 rules: a burst of all kinds takes turns.
    let per_operation = if burst == 1 { faults.len() } else { 1 };
    let rule = |operation: u64, turn: usize| Rule {
        fault: faults[(operation as usize + turn) % faults.len()],
        trigger: Trigger::Operation(operation),
        range: None,
    };
    let operations = first..first + burst;
    let rules =
        operations.flat_map(|operation| (0..per_operation).map(move |turn| rule(operation, turn)));
    FaultPlan {
        seed: first,
        rules: rules.collect(),
    }
}

fn has_failed(error: &Error) -> bool {
    matches!(error, Error::Pages(PagesError::Failed { .. }))
}

/// Whether an error says that something could not be read or written, and not
/// that what is there is wrong.
fn is_due(error: &Error) -> bool {
    match error {
        Error::Pages(_) | Error::DamagedTable { .. } => true,
        Error::Files(error) => matches!(
            error,
            StoreError::Io(_)
                | StoreError::Open(_)
                | StoreError::System { .. }
                | StoreError::Log { .. }
                | StoreError::Pages(_)
        ),
        _ => false,
    }
}

/// Nothing can be changed any more, and nothing waits.
fn assert_poisoned(store: &Store) {
    let refused = |what: &str, result: Result<(), Error>| match result {
        Ok(()) => panic!("a failed store did this: {what}"),
        Err(error) => assert!(has_failed(&error), "{what}: {error}"),
    };
    refused("create", store.create_table(&schema("after")));
    refused("sync", store.sync());
    if let Some(table) = store.tables().first() {
        let mut one = store.begin();
        let row = vec![1000.into(), Value::Null, "after".into(), "".into()];
        let inserted = one.insert(&table.name, row);
        // What is still in memory may be changed there, but never committed.
        refused("commit", inserted.and_then(|()| one.commit()));
    }
}

/// What a fault did to a workload.
#[derive(Default)]
struct Tally {
    runs: u64,
    absorbed: u64,
    told: u64,
    poisoned: u64,
    /// By reads, writes and syncs.
    injected: [u64; 3],
    images: u64,
}

impl Tally {
    fn note(&mut self, disk: &SimulatedDisk) {
        self.runs += 1;
        for injected in disk.faults().unwrap().log().first {
            self.injected[match injected.access {
                Access::Read => 0,
                Access::Write => 1,
                Access::Sync => 2,
            }] += 1;
        }
    }
}

/// Steps after that.
fn steps() -> u64 {
    setting("IOLANE_FAULT_STEPS", 30)
}

struct Workload {
    seed: u64,
    steps: u64,
    states: Vec<State>,
    arena: Arena,
}

impl Workload {
    fn new(seed: u64) -> (Workload, u64) {
        let mut workload = Workload {
            seed,
            steps: steps(),
            states: vec![State::new()],
            arena: arena(),
        };
        let disk = SimulatedDisk::builder().faults(counting()).build().unwrap();
        let store = Store::create(DIRECTORY, &quick(&disk, &workload.arena)).unwrap();
        let mut states = std::mem::take(&mut workload.states);
        workload
            .whole(&store, |state| states.push(state.clone()))
            .unwrap();
        workload.states = states;
        store.close().unwrap();
        let count = operations(&disk);
        (workload, count)
    }

    /// Fills a new store and goes on with steps.
    fn whole(&self, store: &Store, mut after: impl FnMut(&State)) -> Result<(), Stopped> {
        let filled = fill(store, ROWS, &mut after)?;
        run(store, filled, self.seed, self.steps, after)
    }

    /// Opens the store until it can be opened, and compares; every refusal
    /// must have an injected cause.
    fn reopen(&self, disk: &SimulatedDisk, done: u64, in_doubt: bool) -> Result<(), String> {
        let options = quick(disk, &self.arena);
        let injected = || disk.faults().map_or(0, |faults| faults.log().total);
        // One that hits the flusher while the store is opened is seen later.
        let (store, before) = loop {
            let before = injected();
            match Store::open(DIRECTORY, &options) {
                Ok(store) => break (store, before),
                Err(error) if injected() > before && is_due(&error) => {}
                Err(error) => return Err(format!("opening it: {error}")),
            }
        };
        match self.compare(&store, done, in_doubt) {
            Ok(()) => {}
            // A burst that is not over yet.
            Err(_) if injected() > before => {
                drop(store);
                return self.reopen(disk, done, in_doubt);
            }
            Err(what) => return Err(what),
        }
        match store.close() {
            Err(error) if injected() == 0 => Err(format!("closing it: {error}")),
            _ => Ok(()),
        }
    }

    fn compare(&self, store: &Store, done: u64, in_doubt: bool) -> Result<(), String> {
        let report = store.check().map_err(|error| error.to_string())?;
        if !report.is_clean() {
            return Err(format!("{:#?}", report.findings));
        }
        let found = try_read(store).map_err(|error| error.to_string())?;
        let most = done + u64::from(in_doubt);
        let mut possible = done..=most;
        let any = possible.any(|number| self.states.get(number as usize) == Some(&found));
        let told = format!("it holds none of the states after {done}..={most} steps");
        any.then_some(()).ok_or(told)
    }

    /// Runs on a disk with faults.
    fn run(&self, plan: FaultPlan, tally: &mut Tally) -> Result<(), String> {
        let disk = SimulatedDisk::builder()
            .faults(plan)
            .record(RecorderLimits::default())
            .build()
            .unwrap();
        let recorder = disk.recorder().unwrap();
        let store = match Store::create(DIRECTORY, &quick(&disk, &self.arena)) {
            Ok(store) => store,
            Err(error) => {
                tally.note(&disk);
                tally.told += 1;
                return match (is_due(&error), has_failed(&error)) {
                    (true, _) => Ok(()),
                    _ => Err(format!("making it: {error}")),
                };
            }
        };
        let mut done = 0;
        recorder.mark(0);
        let ended = self.whole(&store, |_| {
            done += 1;
            recorder.mark(done);
        });
        let mut in_doubt = false;
        match &ended {
            Ok(()) => tally.absorbed += 1,
            Err(stopped) => {
                tally.told += 1;
                in_doubt = stopped.in_doubt;
                if !is_due(&stopped.error) {
                    return Err(format!("after {done} steps: {:?}", stopped.error));
                }
                if has_failed(&stopped.error) {
                    tally.poisoned += 1;
                    assert_poisoned(&store);
                } else {
                    // It goes on.
                    let before = operations(&disk);
                    match self.compare(&store, done, in_doubt) {
                        // A flusher that failed after that.
                        Err(what) if what.contains("must be reopened") => {}
                        Err(what) if operations(&disk) == before => {
                            return Err(format!("without reopening: {what}"));
                        }
                        _ => {}
                    }
                }
            }
        }
        let failed = operations(&disk) > 0;
        let closed = store.close();
        if let Err(error) = &closed
            && !(failed && is_due(error))
        {
            return Err(format!("closing it: {error}"));
        }
        tally.note(&disk);
        let recording = recorder.recording();
        self.reopen(&disk, done, in_doubt)?;
        let plan = CrashPlan::sampled(self.seed, 4);
        let images = Images::new(&recording, plan).unwrap();
        for number in images.count().saturating_sub(CUTS)..images.count() {
            let image: Image = images.image(number).unwrap();
            let cut = SimulatedDisk::from_image(&image).unwrap();
            tally.images += 1;
            // The power may also fail a little before the end.
            let Some(then) = image.mark() else { continue };
            self.reopen(&cut, then, in_doubt || then < done)
                .map_err(|what| format!("{what}\nafter a power cut: {image}"))?;
        }
        Ok(())
    }
}

/// As other tests, but a lock that a lost transaction holds costs less time.
fn quick(disk: &SimulatedDisk, arena: &Arena) -> iolane_store::StoreOptions {
    iolane_store::StoreOptions {
        lock_timeout: Duration::from_secs(1),
        ..options(disk, arena)
    }
}

/// Each operation of the workload fails, alone and with those behind it.
fn every_operation_can_fail(kind: Kind) {
    let watchdog = Watchdog::start();
    let panics = Panics::count();
    let seed = setting("IOLANE_TEST_SEED", 20_261_120);
    let (workload, count) = Workload::new(seed);
    let mut tally = Tally::default();
    for first in 1..=count {
        for burst in BURSTS {
            let words = format!("seed {seed}, {kind:?} from operation {first}, {burst} of them");
            watchdog.at(&words);
            if let Err(what) = workload.run(plan(kind, first, burst), &mut tally) {
                panic!("{words}: {what}");
            }
            assert_eq!(panics.so_far(), 0, "{words}: a thread panicked");
        }
    }
    println!(
        "{kind:?} at each of {count} operations: {} runs, {} absorbed, {} told, of them {} failed \
         stores; {:?} reads, writes and syncs failed; {} power cuts",
        tally.runs, tally.absorbed, tally.told, tally.poisoned, tally.injected, tally.images
    );
    assert!(tally.absorbed > 0 || kind == Kind::Eio);
    assert_eq!(tally.poisoned > 0, kind != Kind::Short);
    let [reads, writes, syncs] = tally.injected.map(|count| count > 0);
    assert_eq!(reads, kind != Kind::NoSpace);
    assert_eq!((writes, syncs), (true, kind == Kind::Eio));
}

#[test]
fn every_operation_can_fail_by_eio() {
    every_operation_can_fail(Kind::Eio);
}

#[test]
fn every_operation_can_fail_by_enospc() {
    every_operation_can_fail(Kind::NoSpace);
}

#[test]
fn every_operation_can_be_short() {
    every_operation_can_fail(Kind::Short);
}

/// A file cannot grow, at each of its growths.
#[test]
fn every_growth_can_fail() {
    let watchdog = Watchdog::start();
    let panics = Panics::count();
    let seed = setting("IOLANE_TEST_SEED", 20_261_120);
    let (workload, _) = Workload::new(seed);
    let used = |disk: &SimulatedDisk| -> u64 {
        let files = files(disk).into_iter();
        files.map(|(_, contents)| contents.len() as u64).sum()
    };
    let disk = SimulatedDisk::builder().build().unwrap();
    let store = Store::create(DIRECTORY, &quick(&disk, &workload.arena)).unwrap();
    let least = used(&disk);
    workload.whole(&store, |_| {}).unwrap();
    store.close().unwrap();
    let most = used(&disk);
    let mut refused = 0;
    // An extent of pages at a time, and one beside that.
    for room in (0..=most - least + EXTENT_BYTES).step_by(EXTENT_BYTES as usize) {
        let words = format!("seed {seed}, {room} bytes of room");
        watchdog.at(&words);
        let disk = SimulatedDisk::builder().capacity_bytes(least + room);
        let disk = disk.build().unwrap();
        let store = Store::create(DIRECTORY, &quick(&disk, &workload.arena)).unwrap();
        let mut done = 0;
        let in_doubt = match workload.whole(&store, |_| done += 1) {
            Ok(()) => false,
            Err(stopped) => {
                assert!(is_due(&stopped.error), "{words}: {:?}", stopped.error);
                refused += 1;
                stopped.in_doubt
            }
        };
        // Still full when it is closed and opened.
        store
            .close()
            .unwrap_or_else(|error| panic!("{words}: {error}"));
        if let Err(what) = workload.reopen(&disk, done, in_doubt) {
            panic!("{words}: {what}");
        }
        assert_eq!(panics.so_far(), 0, "{words}: a thread panicked");
    }
    println!("{refused} growths refused");
    assert!(refused > 3);
}

/// Recovery and what follows it, on a disk that fails at each operation.
#[test]
fn every_operation_of_recovery_can_fail() {
    let watchdog = Watchdog::start();
    let panics = Panics::count();
    let seed = setting("IOLANE_TEST_SEED", 20_261_120);
    let (workload, _) = Workload::new(seed);
    let disk = SimulatedDisk::builder()
        .record(RecorderLimits::default())
        .build()
        .unwrap();
    let recorder = disk.recorder().unwrap();
    let store = Store::create(DIRECTORY, &quick(&disk, &workload.arena)).unwrap();
    let mut done = 0;
    let mark = |_: &State| {
        done += 1;
        recorder.mark(done);
    };
    workload.whole(&store, mark).unwrap();
    drop(store);
    let images = Images::new(&recorder.recording(), CrashPlan::sampled(seed, 4)).unwrap();
    let (mut runs, mut refused) = (0, 0);
    for image in images.spread(IMAGES).filter(|image| image.mark().is_some()) {
        let done = image.mark().unwrap();
        let counted = SimulatedDisk::builder().image(&image).faults(counting());
        let counted = counted.build().unwrap();
        let options = quick(&counted, &workload.arena);
        Store::open(DIRECTORY, &options).unwrap().close().unwrap();
        let count = operations(&counted);
        for (first, kind) in (1..=count).flat_map(|first| KINDS.map(|kind| (first, kind))) {
            let words = format!("seed {seed}, {kind:?} at operation {first} of opening {image}");
            watchdog.at(&words);
            let disk = SimulatedDisk::builder()
                .image(&image)
                .faults(plan(kind, first, 1))
                .record(RecorderLimits::default())
                .build()
                .unwrap();
            disk.recorder().unwrap().mark(0);
            let options = quick(&disk, &workload.arena);
            match Store::open(DIRECTORY, &options).and_then(Store::close) {
                Ok(()) => {}
                Err(error) if is_due(&error) && operations(&disk) > 0 => refused += 1,
                Err(error) => panic!("{words}: {error:?}"),
            }
            let recording = disk.recorder().unwrap().recording();
            let again = Images::new(&recording, CrashPlan::sampled(seed, 2)).unwrap();
            let last = again.image(again.count() - 1).unwrap();
            let cut = SimulatedDisk::from_image(&last).unwrap();
            for disk in [&disk, &cut] {
                if let Err(what) = workload.reopen(disk, done, true) {
                    panic!("{words}: {what}");
                }
            }
            runs += 1;
            assert_eq!(panics.so_far(), 0, "{words}: a thread panicked");
        }
    }
    println!("{runs} runs, {refused} of them could not be opened or closed");
    assert!(refused > 0 && refused < runs);
}

/// A disk without room: whoever needs more is told, all others go on, and when
/// there is room again so does everybody.
#[test]
fn a_full_disk_is_told_and_harms_nothing() {
    let watchdog = Watchdog::start();
    let panics = Panics::count();
    for extra in [1_u64 << 20, 3 << 20] {
        watchdog.at(&format!("{extra} bytes of room"));
        let arena = arena();
        let bytes = 4 << 20;
        let disk = SimulatedDisk::builder().capacity_bytes(bytes + extra);
        let disk = disk.build().unwrap();
        let options = quick(&disk, &arena);
        let store = Store::create(DIRECTORY, &options).unwrap();
        store.create_table(&schema("t")).unwrap();
        let row = |id: i64| {
            let text = "x".repeat(9000);
            vec![id.into(), id.into(), "full".into(), text.as_str().into()]
        };
        let mut id = 0;
        let refused = loop {
            let mut one = store.begin();
            if let Err(error) = one.insert("t", row(id)).and_then(|()| one.commit()) {
                break error;
            }
            id += 1;
            assert!(id < 1000, "more than the disk has room for");
        };
        let told = matches!(refused, Error::Pages(PagesError::NoSpace { .. }));
        assert!(told, "{refused}");
        let rows = |store: &Store| read(store)["t"].len() as i64;
        assert_eq!(rows(&store), id);
        assert!(store.check().unwrap().is_clean());
        // A few small ones find room in what is less than an extent.
        let mut more = (0..1000).map(|number| store.create_table(&schema(&format!("u{number}"))));
        let refused = more.find_map(Result::err).expect("no room");
        assert!(is_due(&refused) && !has_failed(&refused), "{refused}");
        // What makes room works on a full disk.
        for gone in 0..id / 2 {
            let mut one = store.begin();
            assert!(one.delete("t", &[gone.into()]).unwrap());
            one.commit().unwrap();
        }
        while store.purge(1000).unwrap() > 0 {}
        for again in 0..id / 4 {
            let mut one = store.begin();
            one.insert("t", row(again)).unwrap();
            one.commit().unwrap();
        }
        store.close().unwrap();
        let store = Store::open(DIRECTORY, &options).unwrap();
        assert!(store.check().unwrap().is_clean());
        assert_eq!(rows(&store), id - id / 2 + id / 4);
        assert_eq!(panics.so_far(), 0);
    }
}

/// After a sync that failed nobody knows what is on the disk: a later one that
/// succeeds must not make the store trust it.
#[test]
fn a_failed_sync_poisons_the_store() {
    let arena = arena();
    let counted = SimulatedDisk::builder().faults(counting()).build().unwrap();
    let make = |disk: &SimulatedDisk| -> Result<Store, Error> {
        let store = Store::create(DIRECTORY, &quick(disk, &arena))?;
        store.create_table(&schema("t"))?;
        Ok(store)
    };
    let store = make(&counted).unwrap();
    let before = operations(&counted);
    drop(store);
    let fault = |operation| Rule {
        fault: if operation % 2 == 0 {
            Fault::EioSync
        } else {
            Fault::EioWrite
        },
        trigger: Trigger::Operation(operation),
        range: None,
    };
    let rules: Vec<Rule> = (before + 1..before + 60).map(fault).collect();
    // What the flusher writes meanwhile can be more than when it was counted.
    let made = (0..20).find_map(|_| {
        let rules = rules.clone();
        let disk = SimulatedDisk::builder().faults(FaultPlan { seed: 1, rules });
        let disk = disk.build().unwrap();
        let store = make(&disk).ok()?;
        Some((disk, store))
    });
    let (disk, store) = made.expect("the first fault comes after the table is made");
    let id = |number: u64| Value::from(number as i64);
    let mut acknowledged = 0;
    let error = loop {
        let mut one = store.begin();
        let row = vec![id(acknowledged), Value::Null, "g".into(), "".into()];
        match one.insert("t", row).and_then(|()| one.commit()) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(has_failed(&error), "{error}");
    let log = disk.faults().unwrap().log();
    assert!(log.first.iter().all(|fault| fault.effect == Effect::Eio));
    assert_poisoned(&store);
    assert!(store.close().is_err());
    let store = loop {
        match Store::open(DIRECTORY, &quick(&disk, &arena)) {
            Ok(store) => break store,
            Err(error) => assert!(is_due(&error), "{error}"),
        }
    };
    let rows = read(&store)["t"].len() as u64;
    assert!((acknowledged..=acknowledged + 1).contains(&rows));
}
