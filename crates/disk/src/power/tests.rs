//! Images against a slow and obvious definition of what a power cut can
//! leave.

use super::recorder::Event;
use super::*;
use crate::fault::draw::Draw;
use crate::medium::Medium;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Files = BTreeMap<String, Vec<u8>>;

fn contents(image: &Image) -> Files {
    image
        .names()
        .map(|name| {
            let medium = image.open(name).unwrap();
            let mut bytes = vec![0; medium.size_bytes() as usize];
            assert_eq!(medium.read(0, &mut bytes).unwrap(), bytes.len());
            (name.to_owned(), bytes)
        })
        .collect()
}

/// By the definition in the module's documentation: is the change at `at`
/// durable before `position`?
fn is_durable(events: &[Event], at: usize, position: usize) -> bool {
    if matches!(events[at], Event::Name { .. }) {
        return events[at..position].iter().any(|event| match event {
            Event::Name { durable, .. } => *durable,
            event => matches!(event, Event::SyncNames),
        });
    }
    let end_of = |wanted: u32| {
        events[..position]
            .iter()
            .position(|event| matches!(event, Event::End { operation } if *operation == wanted))
    };
    let (of, end, forced) = match &events[at] {
        Event::Write {
            file,
            operation,
            promise,
            ..
        } => (*file, end_of(*operation), promise.durable),
        Event::Resize { file, .. } => (*file, Some(at), false),
        _ => unreachable!(),
    };
    if forced && end.is_some() {
        return true;
    }
    let synced = (0..position).any(|sync_at| match &events[sync_at] {
        Event::Sync { file, operation } => {
            *file == of && end.is_some_and(|end| end < sync_at) && end_of(*operation).is_some()
        }
        _ => false,
    });
    let resize = matches!(events[at], Event::Resize { .. });
    synced
        || resize
            && (at + 1..position).any(|later| match &events[later] {
                Event::Write { file, .. } | Event::Resize { file, .. } => {
                    *file == of && is_durable(events, later, position)
                }
                _ => false,
            })
}

/// Everything that a cut before `position` can leave, nothing torn.
fn oracle(recording: &Recording, position: usize) -> BTreeSet<Files> {
    let events = &recording.events;
    let is_change = |at: &usize| {
        let event = &events[*at];
        matches!(
            event,
            Event::Write { .. } | Event::Resize { .. } | Event::Name { .. }
        )
    };
    let changes: Vec<usize> = (0..position).filter(is_change).collect();
    let loose: Vec<usize> = changes
        .iter()
        .copied()
        .filter(|at| !is_durable(events, *at, position))
        .collect();
    (0..1u32 << loose.len())
        .map(|mask| {
            let arrives = |at: usize| match loose.iter().position(|loose| *loose == at) {
                Some(bit) => mask >> bit & 1 == 1,
                None => true,
            };
            let mut files: Vec<Vec<u8>> = recording
                .starts
                .iter()
                .map(|start| {
                    let mut bytes = vec![0; start.size_bytes() as usize];
                    start.read(0, &mut bytes);
                    bytes
                })
                .collect();
            let mut names: Vec<Option<String>> = vec![None; files.len()];
            let mut size_lost = vec![false; files.len()];
            for at in 0..position {
                match &events[at] {
                    Event::Name { file, name, .. } if arrives(at) => {
                        let name = name.as_ref().map(|name| name.to_string());
                        names
                            .iter_mut()
                            .filter(|other| **other == name)
                            .for_each(|other| {
                                *other = None;
                            });
                        names[*file as usize] = name;
                    }
                    Event::Write {
                        file, offset, data, ..
                    } if arrives(at) => {
                        let file = &mut files[*file as usize];
                        let (from, to) = (*offset as usize, *offset as usize + data.len());
                        file.resize(file.len().max(to), 0);
                        file[from..to].copy_from_slice(data);
                    }
                    Event::Resize { file, size_bytes } => {
                        let file = *file as usize;
                        size_lost[file] |= !arrives(at);
                        if !size_lost[file] {
                            files[file].resize(*size_bytes as usize, 0);
                        }
                    }
                    _ => {}
                }
            }
            names
                .into_iter()
                .zip(files)
                .filter_map(|(name, bytes)| Some((name?, bytes)))
                .collect()
        })
        .collect()
}

/// A few random operations on two files, some in flight together.
fn random_recording(seed: u64, steps: u64) -> Recording {
    let mut draw = Draw::new(seed, 1, 0);
    let recorder = Recorder::new(RecorderLimits::default());
    let start = CowMedium::new();
    start.write(0, &[255; 1500]).unwrap();
    let files = [
        recorder.file("a", Arc::new(start)),
        recorder.create("b", Arc::new(CowMedium::new())),
    ];
    let mut begun = Vec::new();
    for step in 0..steps {
        let file = &files[draw.below(3) as usize / 2];
        match draw.below(16) {
            0..8 => {
                let offset = draw.below(5) * 512;
                let data = vec![step as u8 + 1; (1 + draw.below(3) as usize) * 512];
                let durable = draw.below(5) == 0;
                let (_, one) = recorder.begin(durable, || file.write(offset, &data).unwrap());
                begun.push(one);
            }
            8..10 => {
                let (_, one) = recorder.begin(false, || file.sync().unwrap());
                begun.push(one);
            }
            10 => file.resize(draw.below(5) * 512),
            11 => {
                recorder.mark(step);
                match draw.below(6) {
                    0..2 => recorder.rename(file, ["a", "b", "c"][draw.below(3) as usize]),
                    2 => recorder.remove(file),
                    3 => recorder.sync_names(),
                    _ => {}
                }
            }
            _ if begun.is_empty() => {}
            _ => {
                let at = draw.below(begun.len() as u64) as usize;
                recorder.end(begun.swap_remove(at));
            }
        }
    }
    recorder.recording()
}

#[test]
fn exhaustive_images_are_exactly_what_a_power_cut_can_leave() {
    let mut compared = 0;
    for seed in 0..300 {
        let recording = random_recording(seed, 24);
        let images = match Images::new(&recording, CrashPlan::exhaustive()) {
            Ok(images) => images,
            Err(CrashPlanError::TooManyLoose { .. }) => continue,
            Err(error) => panic!("{error}"),
        };
        if images.count() > 3000 {
            continue; // The definition is slow.
        }
        let mut seen: BTreeMap<usize, BTreeSet<Files>> = BTreeMap::new();
        for image in images.iter() {
            seen.entry(image.position())
                .or_default()
                .insert(contents(&image));
        }
        for (position, seen) in seen {
            assert_eq!(
                seen,
                oracle(&recording, position),
                "seed {seed}, before event {position}"
            );
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
}

/// Torn images: every sector is that of some image without tears.
#[test]
fn sampled_images_hold_only_what_each_sector_can_hold() {
    let mut torn = 0;
    for seed in 0..60 {
        let recording = random_recording(seed, 16);
        let images = Images::new(&recording, CrashPlan::sampled(seed, 40)).unwrap();
        let mut at = usize::MAX;
        let mut legal = BTreeSet::new();
        for image in images.iter() {
            if image.position() != at {
                at = image.position();
                legal = oracle(&recording, at);
            }
            let files = contents(&image);
            torn += usize::from(!legal.contains(&files));
            for (name, bytes) in &files {
                for (number, sector) in bytes.chunks(512).enumerate() {
                    let can = legal
                        .iter()
                        .filter_map(|files| files.get(name))
                        .any(|bytes| {
                            // Behind an end there may be a hole, if something
                            // farther behind arrived.
                            let end = bytes.len().saturating_sub(number * 512);
                            let here = &bytes[bytes.len() - end..];
                            here.iter()
                                .chain(&[0; 512])
                                .zip(sector)
                                .all(|(one, two)| one == two)
                        });
                    assert!(can, "seed {seed}, {name}, sector {number}\n{image}");
                }
            }
        }
    }
    assert!(torn > 100, "{torn}");
}

#[test]
fn an_image_can_be_made_again_by_its_number() {
    let recording = random_recording(5, 60);
    let plan = CrashPlan::sampled(9, 20);
    let images = Images::new(&recording, plan).unwrap();
    let again = Images::new(&recording, plan).unwrap();
    assert!(images.count() > 200, "{}", images.count());
    assert_eq!(images.iter().count() as u64, images.count());
    for image in images.spread(50) {
        let same = again.image(image.number()).unwrap();
        assert_eq!(image.to_string(), same.to_string());
        assert_eq!(contents(&image), contents(&same));
        assert_eq!(image.mark(), same.mark());
    }
    assert!(images.image(images.count()).is_none());
    let other = Images::new(&recording, CrashPlan::sampled(10, 20)).unwrap();
    let differ = |(one, two): (Image, Image)| contents(&one) != contents(&two);
    assert!(images.iter().zip(other.iter()).any(differ));
}

#[test]
fn an_image_is_not_changed_by_who_opens_it() {
    let recording = random_recording(6, 30);
    let images = Images::new(&recording, CrashPlan::sampled(1, 4)).unwrap();
    for image in images.iter() {
        let before = contents(&image);
        for name in before.keys() {
            let medium = image.open(name).unwrap();
            medium.write(100, &[99; 3000]).unwrap();
            medium.resize(50);
        }
        assert_eq!(contents(&image), before);
    }
}

#[test]
fn a_sync_covers_what_had_ended_when_it_began() {
    let recorder = Recorder::new(RecorderLimits::default());
    let file = recorder.file("f", Arc::new(CowMedium::new()));
    let (_, early) = recorder.begin(false, || file.write(0, &[1; 512]).unwrap());
    let (_, late) = recorder.begin(false, || file.write(512, &[2; 512]).unwrap());
    recorder.end(early);
    let (_, sync) = recorder.begin(false, || file.sync().unwrap());
    recorder.end(late);
    recorder.end(sync);
    recorder.mark(1);
    let images = Images::new(&recorder.recording(), CrashPlan::exhaustive()).unwrap();
    let sizes: BTreeSet<u64> = images
        .iter()
        .filter(|image| image.mark() == Some(1))
        .map(|image| image.open("f").unwrap().size_bytes())
        .collect();
    // The first write is durable, the second may be lost.
    assert_eq!(sizes, [512, 1024].into());
}

#[test]
fn what_is_beyond_the_limits_is_not_recorded() {
    let limits = RecorderLimits {
        bytes_max: 1024,
        events_max: 100,
    };
    let recorder = Recorder::new(limits);
    let file = recorder.file("f", Arc::new(CowMedium::new()));
    file.write(0, &[1; 1024]).unwrap();
    file.sync().unwrap();
    assert!(recorder.recording().is_complete());
    file.write(0, &[2; 512]).unwrap();
    file.sync().unwrap();
    let recording = recorder.recording();
    assert!(!recording.is_complete());
    let images = Images::new(&recording, CrashPlan::exhaustive()).unwrap();
    let last = images.image(images.count() - 1).unwrap();
    assert_eq!(contents(&last)["f"], [1; 1024]);
}

#[test]
fn impossible_plans_say_what_to_ask_for() {
    let recorder = Recorder::new(RecorderLimits::default());
    let file = recorder.file("f", Arc::new(CowMedium::new()));
    for at in 0..=EXHAUSTIVE_MAX as u64 {
        file.write(at * 512, &[1; 512]).unwrap();
    }
    let recording = recorder.recording();
    let refused = |plan| Images::new(&recording, plan).err().unwrap().to_string();
    assert!(refused(CrashPlan::exhaustive()).contains("sample instead"));
    assert!(refused(CrashPlan::sampled(1, 0)).contains("at least 1"));
    let odd = CrashPlan {
        tear_unit_bytes: Some(1000),
        ..CrashPlan::sampled(1, 1)
    };
    assert!(refused(odd).contains("a power of two from 512"));
}

#[test]
fn an_image_tells_what_was_lost() {
    let recorder = Recorder::new(RecorderLimits::default());
    let file = recorder.file("log", Arc::new(CowMedium::new()));
    file.resize(8192);
    file.write(4096, &[1; 1024]).unwrap();
    recorder.mark(3);
    let images = Images::new(&recorder.recording(), CrashPlan::exhaustive()).unwrap();
    let nothing_arrived = images.image(images.count() - 4).unwrap();
    assert_eq!(
        nothing_arrived.to_string(),
        format!(
            "image {}: power cut before event 5, after mark 3; of 2 loose changes 0 arrived \
             whole\n  log: size of 8192 lost\n  log: write of 1024 at 4096 lost",
            images.count() - 4
        )
    );
}

#[test]
fn a_name_is_durable_when_names_are_synced() {
    let recorder = Recorder::new(RecorderLimits::default());
    let held = |mark| {
        let images = Images::new(&recorder.recording(), CrashPlan::exhaustive()).unwrap();
        let images = images.iter().filter(|image| image.mark() == Some(mark));
        let names = |image: Image| image.names().map(str::to_owned).collect::<Vec<_>>();
        images.map(names).collect::<BTreeSet<_>>()
    };
    let sets = |sets: &[&[&str]]| -> BTreeSet<Vec<String>> {
        let owned = |set: &&[&str]| set.iter().map(|name| (*name).to_owned()).collect();
        sets.iter().map(owned).collect()
    };
    let file = recorder.create("new", Arc::new(CowMedium::new()));
    file.write(0, &[1; 512]).unwrap();
    file.sync().unwrap();
    recorder.mark(1);
    assert_eq!(
        held(1),
        sets(&[&[], &["new"]]),
        "the file's sync is not enough"
    );
    recorder.rename(&file, "table");
    recorder.mark(2);
    // The later change says all, whether or not the earlier arrived.
    assert_eq!(held(2), sets(&[&[], &["new"], &["table"]]));
    recorder.sync_names();
    recorder.mark(3);
    assert_eq!(held(3), sets(&[&["table"]]));
    recorder.remove(&file);
    recorder.mark(4);
    assert_eq!(held(4), sets(&[&[], &["table"]]));
    let images = Images::new(&recorder.recording(), CrashPlan::exhaustive()).unwrap();
    let lost = images.iter().find(|image| image.mark() == Some(4)).unwrap();
    assert!(
        lost.to_string().ends_with("\n  table: removal lost"),
        "{lost}"
    );
    recorder.sync_names();
    recorder.mark(5);
    assert_eq!(held(5), sets(&[&[]]));
}
