//! Any bit of any page of a closed store flips: it is found and named, or
//! repaired from a copy, or nobody uses the page; never are other rows read.

mod area;
mod simulated;
mod workload;

use iolane::{Arena, Engine, Level, OpenOptions, SimulatedDisk};
use iolane_disk::power::{CrashPlan, Image, Images, RecorderLimits};
use iolane_store::ids::PageId;
use iolane_store::page::header;
use iolane_store::{DOUBLEWRITE_FILE, LOG_FILE, Store};
use simulated::*;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use workload::*;

const PAGE: usize = 4096;

/// A closed store.
struct Closed {
    image: Image,
    arena: Arena,
    state: State,
    files: Vec<(String, Vec<u8>)>,
    /// Pages whose newest copy stands in the doublewrite area.
    copied: HashSet<PageId>,
}

fn closed(seed: u64) -> Closed {
    let arena = arena();
    let disk = SimulatedDisk::builder().record(RecorderLimits::default());
    let disk = disk.build().unwrap();
    let store = Store::create(DIRECTORY, &options(&disk, &arena)).unwrap();
    let mut last = State::new();
    let mut after = |state: &State| last = state.clone();
    let filled = fill(&store, 20, &mut after).unwrap();
    // Until the log has gone round.
    run(&store, filled, seed, 260, after).unwrap();
    assert!(store.statistics().pages.log_end.0 > 1 << 20);
    store.close().unwrap();
    let recording = disk.recorder().unwrap().recording();
    let images = Images::new(&recording, CrashPlan::sampled(seed, 1)).unwrap();
    let image = images.image(images.count() - 1).unwrap();
    let files = files(&disk);
    let area = files
        .iter()
        .find(|(name, _)| name.ends_with(DOUBLEWRITE_FILE));
    let copied = area::copies(&area.unwrap().1).collect();
    Closed {
        image,
        arena,
        state: last,
        files,
        copied,
    }
}

/// What came of a flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Refused,
    Reported,
    Repaired,
    Harmless,
}

impl Closed {
    fn flip(&self, name: &str, bit: u64) -> Result<Fate, String> {
        let disk = SimulatedDisk::from_image(&self.image).unwrap();
        let engine = Engine::builder().simulated(&disk).build().unwrap();
        let mut open = OpenOptions::new();
        open.read(true).write(true);
        let file = engine.open(name, &open).unwrap();
        let at = bit / 8;
        let before = self.files.iter().find(|(other, _)| other == name).unwrap();
        let damaged = before.1[at as usize] ^ 1 << (bit % 8);
        file.write_at(&[damaged], at, Level::Normal).unwrap();
        file.sync(Level::Normal).unwrap();
        drop((file, engine));
        let short = Path::new(name).file_name().unwrap().to_str().unwrap();
        let page = at as usize / PAGE;
        let names = |text: &str| {
            let all = text.contains(short) || text.contains(&format!("page {page} "));
            all.then_some(())
                .ok_or_else(|| format!("not named: {text}"))
        };
        let store = match Store::open(DIRECTORY, &options(&disk, &self.arena)) {
            Ok(store) => store,
            Err(error) => return names(&error.to_string()).map(|()| Fate::Refused),
        };
        let report = match store.check() {
            Ok(report) => report,
            Err(error) => return names(&error.to_string()).map(|()| Fate::Reported),
        };
        match (try_read(&store), report.findings.first()) {
            (Ok(state), None) if state == self.state => {}
            (Ok(state), _) if state != self.state => return Err("other rows".to_owned()),
            (_, Some(_)) => {
                let all: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
                return names(&all.join("\n")).map(|()| Fate::Reported);
            }
            (Err(error), None) => return Err(format!("a check does not find: {error}")),
            (Ok(_), None) => unreachable!("looked at above"),
        }
        let now = disk.contents(name).unwrap_or_default();
        let repaired = now.get(at as usize) != Some(&damaged);
        // It goes on from here, also after it was closed.
        let mut random = Random(bit);
        let mut state = self.state.clone();
        for _ in 0..2 {
            step(&store, &mut random, &mut state).map_err(|stopped| format!("{stopped:?}"))?;
        }
        drop(store);
        let store = Store::open(DIRECTORY, &options(&disk, &self.arena));
        let store = store.map_err(|error| format!("opened again: {error}"))?;
        if try_read(&store).map_err(|error| error.to_string())? != state {
            return Err("commits after it are lost".to_owned());
        }
        drop(store);
        Ok(if repaired {
            Fate::Repaired
        } else {
            Fate::Harmless
        })
    }
}

#[test]
fn any_bit_that_flips_is_found_or_harmless() {
    let seed = setting("IOLANE_TEST_SEED", 20_261_120);
    let bits = setting("IOLANE_FLIP_BITS", 8);
    let closed = closed(seed);
    let mut random = Random(seed);
    let mut fates: BTreeMap<(String, Fate), u64> = BTreeMap::new();
    for (name, contents) in &closed.files {
        let log = name.ends_with(LOG_FILE);
        let other = log || name.ends_with(DOUBLEWRITE_FILE);
        for page in 0..contents.len() / PAGE {
            // Headers bit by bit; of what a checkpoint has left behind, little.
            let header = log && page < 2;
            let places: Vec<u64> = if header {
                (0..64 * 8).step_by(5).collect()
            } else if other && page > 2 && page % 16 > 0 {
                Vec::new()
            } else {
                (0..bits).map(|_| random.below(PAGE as u64 * 8)).collect()
            };
            let bytes = &contents[page * PAGE..][..PAGE];
            let used = bytes.iter().any(|byte| *byte > 0);
            if !used && !other && page % 16 > 0 {
                continue;
            }
            for bit in places {
                let at = (page * PAGE * 8) as u64 + bit;
                let fate = closed.flip(name, at).unwrap_or_else(|what| {
                    panic!("seed {seed}, bit {bit} of page {page} of {name}: {what}")
                });
                let id = PageId::new(header::get_u32(bytes, 8), page as u32);
                if !other && closed.copied.contains(&id) {
                    assert_eq!(fate, Fate::Repaired, "bit {bit} of page {page} of {name}");
                }
                *fates.entry((name.clone(), fate)).or_default() += 1;
            }
        }
    }
    println!("{} pages have copies; {fates:#?}", closed.copied.len());
    let any = |wanted: Fate| fates.keys().any(|(_, fate)| *fate == wanted);
    assert!(any(Fate::Repaired) && any(Fate::Reported) && any(Fate::Harmless));
}

/// The checksum sees every single bit, and a page in another's place.
#[test]
fn a_checksum_sees_every_bit() {
    let closed = closed(1);
    let mut kinds = HashSet::new();
    for (name, contents) in &closed.files {
        if !name.ends_with(".ts") {
            continue;
        }
        for page in contents.chunks_exact(PAGE) {
            let Some(kind) = header::kind(page).filter(|_| page.iter().any(|byte| *byte > 0))
            else {
                continue;
            };
            let id = header::id(page);
            if !kinds.insert(kind) {
                continue;
            }
            let mut page = page.to_vec();
            assert!(header::check(&page, id).is_ok());
            for bit in 0..PAGE * 8 {
                page[bit / 8] ^= 1 << (bit % 8);
                assert!(header::check(&page, id).is_err(), "{kind:?}, bit {bit}");
                page[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
    assert!(kinds.len() >= 8, "{kinds:?}");
}
