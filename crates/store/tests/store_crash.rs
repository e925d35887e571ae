//! Power cuts at every moment of a workload: what is opened then has every
//! commit that was acknowledged, nothing of a transaction that did not commit,
//! and is in order; also when the power fails again while it is recovered.

mod area;
mod simulated;
mod workload;

use area::Phase;
use iolane::{Arena, SimulatedDisk, SimulatedDiskBuilder};
use iolane_disk::Medium;
use iolane_disk::power::{CrashPlan, Image, Images, RecorderLimits, Recording};
use iolane_store::{DOUBLEWRITE_FILE, IoPolicy, Store, StoreOptions};
use simulated::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use workload::*;

/// One image in so many is recovered on a disk that fails again, and all whose
/// newest batch in the doublewrite area was cut short: only there may a page be
/// lost for good.
const AGAIN_ONE_IN: u64 = 40;
/// So often, after one power cut and after two.
const AGAIN_IMAGES: [u64; 2] = [12, 4];
/// Images of a moment at which anything can be lost.
const PER_MOMENT: u32 = 40;
/// The store is left alone for so long now and then.
const PAUSE: Duration = Duration::from_millis(15);
/// A directory with the files of an image that failed, to look at it again.
const REPLAY: &str = "IOLANE_CRASH_REPLAY";

/// Workloads of a test take turns with these. The steady one writes batches of
/// at most 16 pages from a pool of this size, whose list fits in a sector; the
/// others take up to 64 pages at once, whose list can be torn.
const POLICIES: [IoPolicy; 3] = [
    IoPolicy::AGGRESSIVE,
    IoPolicy::PAPER,
    IoPolicy::CONSERVATIVE,
];

/// What keeps pages from being torn on a test's disk: copies of them, or that
/// it writes each whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    Plain,
    Careful,
}

impl Disk {
    fn builder(self) -> SimulatedDiskBuilder {
        let disk = SimulatedDisk::builder();
        match self {
            Disk::Plain => disk,
            Disk::Careful => disk.atomic_unit(4096, 4096),
        }
    }
}

/// A recorded workload, and what must be found after each of its steps.
struct Recorded {
    seed: u64,
    disk: Disk,
    arena: Arena,
    states: Vec<State>,
}

/// An image that was not recovered as it must be.
struct Wrong {
    what: String,
    /// What the store was opened on.
    image: String,
    files: Vec<(String, Vec<u8>)>,
    promised: Option<u64>,
}

impl Wrong {
    fn new(what: String, image: &Image, promised: Option<u64>) -> Wrong {
        let disk = SimulatedDisk::from_image(image).unwrap();
        Wrong {
            what,
            image: image.to_string(),
            files: files(&disk),
            promised,
        }
    }
}

/// How the store of a seed is opened.
fn options_of(seed: u64, disk: &SimulatedDisk, arena: &Arena) -> StoreOptions {
    let mut options = options(disk, arena);
    options.pages.io = POLICIES[(seed % POLICIES.len() as u64) as usize];
    options
}

/// Runs the workload on a disk that records it. The store is closed and opened
/// again now and then.
fn record(kind: Disk, seed: u64, steps: u64) -> (Recorded, Recording) {
    let arena = arena();
    let disk = kind
        .builder()
        .seed(seed)
        .record(RecorderLimits::default())
        .build()
        .unwrap();
    let recorder = disk.recorder().unwrap();
    let options = options_of(seed, &disk, &arena);
    let mut store = Store::create(DIRECTORY, &options).unwrap();
    assert_eq!(store.torn_pages().is_atomic(), kind == Disk::Careful);
    recorder.mark(0);
    let mut states = vec![State::new()];
    let mut random = Random(seed);
    let (mut purged, mut flushed, mut log_end) = (0, 0, 0);
    while states.len() as u64 <= steps {
        let most = steps + 1 - states.len() as u64;
        let count = most.min(10 + random.below(30));
        while_the_log_is_written(&store, || {
            let state = states.last().unwrap().clone();
            run(&store, state, random.next(), count, |state| {
                recorder.mark(states.len() as u64);
                states.push(state.clone());
                if random.below(4) == 0 {
                    // Time for the flusher, to write what is not committed.
                    std::thread::sleep(PAUSE);
                }
            })
            .unwrap();
        });
        let statistics = store.statistics();
        purged += statistics.purged;
        flushed += statistics.pages.flush.pages;
        log_end = statistics.pages.log_end.0;
        store.close().unwrap();
        store = Store::open(DIRECTORY, &options).unwrap();
        assert_eq!(store.recovery().0.records, 0, "a checkpoint ends a log");
    }
    drop(store);
    println!("{purged} changes purged, {flushed} pages written, {log_end} bytes of log");
    // Without these, half of recovery would not be tested. A short workload is
    // written by the lazy policies when the store is closed only.
    assert!(purged > 0);
    assert!(flushed > 0 || options.pages.io != IoPolicy::AGGRESSIVE && steps < STEPS_ROUND);
    if steps >= STEPS_ROUND {
        assert!(log_end > options.pages.log_bytes);
    }
    let recording = recorder.recording();
    assert!(recording.is_complete());
    let recorded = Recorded {
        seed,
        disk: kind,
        arena,
        states,
    };
    (recorded, recording)
}

/// Another thread writes the log all the time: so that it ends within what
/// belongs together, too.
fn while_the_log_is_written(store: &Store, work: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                store.sync().unwrap();
                std::thread::yield_now();
            }
        });
        // Also when the work panics.
        let _stops = Stops(&stop);
        work();
    });
}

struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Recorded {
    /// Opens what is on a disk and looks at it; returns how many steps it has.
    /// `promised` is the last that was acknowledged; before the first the store
    /// may be unusable, but not wrong.
    fn recover(&self, disk: &SimulatedDisk, promised: Option<u64>) -> Result<usize, String> {
        let opened = Store::open(DIRECTORY, &options_of(self.seed, disk, &self.arena));
        let store = match (opened, promised) {
            (Ok(store), _) => store,
            (Err(_), None) => return Ok(0),
            (Err(error), Some(_)) => return Err(error.to_string()),
        };
        let report = store.check().map_err(|error| error.to_string())?;
        if !report.is_clean() {
            return Err(format!("{:#?}", report.findings));
        }
        let found = read(&store);
        let least = promised.unwrap_or(0) as usize;
        // The one that was being committed may be there.
        let most = promised.map_or(0, |promised| promised as usize + 1);
        let mut possible = least..self.states.len().min(most + 1);
        let count = possible.find(|&count| self.states[count] == found);
        count.ok_or_else(|| format!("it holds none of the states after {least}..={most} steps"))
    }

    fn examine(&self, image: &Image, tally: &mut Tally) -> Result<(), Wrong> {
        self.examine_as(image, image.mark(), None, 1, tally)
    }

    /// Recovers an image, which must have `same` many steps if so many were
    /// there before, and then what power cuts during that leave.
    fn examine_as(
        &self,
        image: &Image,
        promised: Option<u64>,
        same: Option<usize>,
        cuts: u32,
        tally: &mut Tally,
    ) -> Result<(), Wrong> {
        let phase = phase_of(image);
        *tally.entry((cuts, phase)).or_default() += 1;
        let cut_short = phase != Phase::Whole;
        let chosen = cut_short || (cuts == 1 && image.number().is_multiple_of(AGAIN_ONE_IN));
        let again = AGAIN_IMAGES.get(cuts as usize - 1);
        let again = again.filter(|_| promised.is_some() && chosen);
        let mut disk = self.disk.builder().image(image);
        if again.is_some() {
            disk = disk.record(RecorderLimits::default());
        }
        let disk = disk.build().unwrap();
        if let Some(recorder) = disk.recorder() {
            // From here on its files have their names.
            recorder.mark(0);
        }
        let recovered = self.recover(&disk, promised).and_then(|count| {
            let before = same.unwrap_or(count);
            let words = format!("{before} steps before it, {count} after it");
            (count == before).then_some(count).ok_or(words)
        });
        let count = recovered.map_err(|what| Wrong::new(what, image, promised))?;
        let (Some(recorder), Some(&again)) = (disk.recorder(), again) else {
            return Ok(());
        };
        let plan = CrashPlan::sampled(self.seed, 6);
        let images = Images::new(&recorder.recording(), plan).unwrap();
        for next in images.spread(again) {
            if next.mark().is_none() {
                continue;
            }
            self.examine_as(&next, promised, Some(count), cuts + 1, tally)
                .map_err(|mut wrong| {
                    wrong.what += &format!("\nafter an earlier power cut: {image}");
                    wrong
                })?;
        }
        Ok(())
    }
}

/// Images by how many power cuts led to them, and what was left of the batch.
type Tally = BTreeMap<(u32, Phase), u64>;

fn phase_of(image: &Image) -> Phase {
    let name = format!("{DIRECTORY}/{DOUBLEWRITE_FILE}");
    let Some(area) = image.open(&name) else {
        return Phase::Whole;
    };
    area::phase(|index| {
        let mut page = vec![0; 4096];
        // Shorter only while it is being made: zeros then.
        let _ = area.read(index as u64 * 4096, &mut page);
        page
    })
}

/// Keeps what was on the disk: what goes through the engine's queue depends on
/// the threads' timing, so the seed alone does not bring the image back.
fn fail(disk: Disk, seed: u64, steps: u64, wrong: &Wrong) -> ! {
    let Wrong { what, image, .. } = wrong;
    let promised = wrong.promised.map_or(-1, |promised| promised as i64);
    let directory = format!("crash-{disk:?}-{seed}-{steps}-{promised}");
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(directory);
    save(&wrong.files, &directory);
    panic!(
        "seed {seed}: {what}\n{image}\nagain with {REPLAY}={}",
        directory.display()
    );
}

/// Looks again at what [`fail`] has kept.
fn replay(directory: &std::path::Path) {
    let name = directory.file_name().unwrap().to_str().unwrap();
    let words: Vec<&str> = name.splitn(5, '-').collect();
    let [_, disk, seed, steps, promised] = words[..] else {
        panic!("{name} is not crash-DISK-SEED-STEPS-PROMISED");
    };
    let kinds = [Disk::Plain, Disk::Careful];
    let kind = kinds.into_iter().find(|kind| format!("{kind:?}") == disk);
    let (seed, steps) = (seed.parse().unwrap(), steps.parse().unwrap());
    let (recorded, _) = record(kind.unwrap(), seed, steps);
    let promised = promised.parse::<i64>().unwrap();
    let promised = u64::try_from(promised).ok();
    let count = recorded.recover(&load(directory), promised).unwrap();
    println!("it is recovered, with {count} steps");
}

/// Cuts the power at every moment of a workload, in as many ways as `images`.
fn cut_the_power(disk: Disk, seed: u64, steps: u64, images_wanted: u64) {
    if let Some(directory) = std::env::var_os(REPLAY) {
        return replay(directory.as_ref());
    }
    let mut seed = setting("IOLANE_TEST_SEED", 20_261_120) + seed;
    let mut tally = Tally::new();
    // As many workloads as it takes to have so many images, and of each policy.
    let most_of_one = images_wanted
        .div_ceil(POLICIES.len() as u64)
        .min(MOST_OF_ONE);
    let mut left = images_wanted;
    // What is cut short depends on when the flusher gets a processor: where
    // that has shown too little, more workloads do.
    let mut more = WORKLOADS_MORE;
    while left > 0 {
        let (recorded, recording) = record(disk, seed, steps);
        let plan = CrashPlan::sampled(seed, PER_MOMENT);
        let images = Images::new(&recording, plan).unwrap();
        let count = images.count().min(left).min(most_of_one);
        println!(
            "seed {seed}: {count} of {} images at {} moments",
            images.count(),
            images.boundaries()
        );
        for image in images.spread(count) {
            if let Err(wrong) = recorded.examine(&image, &mut tally) {
                fail(disk, seed, steps, &wrong);
            }
        }
        left -= count;
        // The next policy, as 1000 is no multiple of their number.
        seed += 1000;
        let wanted = images_wanted >= IMAGES_SHOWN && disk == Disk::Plain;
        if left == 0 && more > 0 && wanted && !shows_all(&tally) {
            more -= 1;
            left = most_of_one;
        }
    }
    println!("images by power cuts and batch: {tally:?}");
    if disk == Disk::Careful {
        // No copy of a page was ever on its way.
        assert!(tally.keys().all(|(_, phase)| *phase == Phase::Whole));
    }
    // Otherwise it does not show what it is for.
    if images_wanted >= IMAGES_SHOWN && disk == Disk::Plain {
        assert!(shows_all(&tally));
    }
}

/// Whether batches were cut short, and recoveries.
fn shows_all(tally: &Tally) -> bool {
    let seen = |cuts, phase| tally.get(&(cuts, phase)).is_some_and(|count| *count > 0);
    seen(1, Phase::ListAlone)
        && (1..=3).any(|cuts| seen(cuts, Phase::TornList))
        && seen(2, Phase::Whole)
        && seen(3, Phase::Whole)
}

/// So many images must show all that there is to see.
const IMAGES_SHOWN: u64 = 10_000;
/// Workloads beyond those that have as many images.
const WORKLOADS_MORE: u32 = 9;
/// Steps of a workload after which the log has gone round.
const STEPS_ROUND: u64 = 240;
/// Images of one workload.
const MOST_OF_ONE: u64 = 20_000;

#[test]
fn every_power_cut_leaves_what_was_committed() {
    let images = setting("IOLANE_CRASH_IMAGES", 20_000);
    cut_the_power(Disk::Plain, 0, 60, images / 2);
}

#[test]
fn every_power_cut_leaves_what_was_committed_when_the_log_goes_round() {
    let images = setting("IOLANE_CRASH_IMAGES", 20_000);
    cut_the_power(Disk::Plain, 1, STEPS_ROUND, images / 2);
}

#[test]
fn every_power_cut_leaves_what_was_committed_where_pages_are_written_whole() {
    let images = setting("IOLANE_CRASH_IMAGES", 20_000);
    cut_the_power(Disk::Careful, 2, STEPS_ROUND, images / 5);
}

/// What a failure keeps is what it saw.
#[test]
fn an_image_can_be_kept_and_looked_at_again() {
    let (recorded, recording) = record(Disk::Plain, 7, 30);
    let images = Images::new(&recording, CrashPlan::sampled(7, 4)).unwrap();
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    for image in images.spread(5).filter(|image| image.mark().is_some()) {
        let disk = SimulatedDisk::from_image(&image).unwrap();
        let path = directory.path().join(image.number().to_string());
        save(&files(&disk), &path);
        let again = load(&path);
        assert!(files(&again) == files(&disk), "{image}");
        let count = recorded.recover(&disk, image.mark()).unwrap();
        assert_eq!(recorded.recover(&again, image.mark()), Ok(count));
    }
}
