//! Readers, writers and cursors at once, on a tree that splits and merges all
//! the time and whose pages go missing.

mod common;

use common::{Fixture, Random, SMALL};
use iolane_store::access::memory::MemoryOptions;
use iolane_store::access::{MiniTransaction, Miss};
use iolane_store::page::Op;
use iolane_store::tree::{Decision, Direction, ModifyError, Reserve};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Every so many-th key is there from the beginning to the end.
const FIXED_ONE_IN: u32 = 8;
const KEYS: u32 = 3000;
const WRITERS: u32 = 3;
const ROUNDS: u32 = 8;

fn key(number: u32) -> Vec<u8> {
    let mut key = vec![b'x'; 30];
    key.extend(number.to_be_bytes());
    // Long keys here and there make separators of all lengths.
    key.resize(34 + (number % 3) as usize * 150, 0);
    key
}

fn number_of(key: &[u8]) -> u32 {
    u32::from_be_bytes(key[30..34].try_into().unwrap())
}

fn fixture(seed: u64) -> Fixture {
    let fixture = Fixture::new(MemoryOptions {
        pages_max: 20_000,
        miss_one_in: 100,
        seed,
        log: true,
        ..SMALL
    });
    for number in (0..KEYS).step_by(FIXED_ONE_IN as usize) {
        fixture
            .tree
            .insert(&fixture.pages, &key(number), &number.to_be_bytes())
            .unwrap();
    }
    fixture
}

/// Fills its own keys and clears them again, in runs and at random. Returns
/// what is left.
fn write(fixture: &Fixture, writer: u32, random: &mut Random) -> BTreeMap<u32, Vec<u8>> {
    let (tree, pages) = (&fixture.tree, &fixture.pages);
    let mut model = BTreeMap::new();
    let own: Vec<u32> = (0..KEYS)
        .filter(|number| number % FIXED_ONE_IN != 0 && number % WRITERS == writer)
        .collect();
    for round in 0..ROUNDS {
        let mut order = own.clone();
        match (round + writer) % 3 {
            0 => {}
            1 => order.reverse(),
            _ => random.shuffle(&mut order),
        }
        let filling = round % 2 == 0;
        for number in order {
            let key = key(number);
            if filling || random.below(20) == 0 {
                let value = vec![round as u8; random.below(200) as usize];
                let existed = tree.put(pages, &key, &value).unwrap();
                assert_eq!(existed, model.insert(number, value).is_some());
            } else {
                let existed = tree.remove(pages, &key).unwrap();
                assert_eq!(existed, model.remove(&number).is_some());
            }
            if random.below(10) == 0 {
                let number = own[random.below(own.len() as u64) as usize];
                let value = tree.get(pages, &self::key(number), <[u8]>::to_vec).unwrap();
                assert_eq!(value.as_ref(), model.get(&number));
            }
        }
    }
    model
}

/// Reads keys that are always there, and walks ranges that must have them all.
fn read(fixture: &Fixture, random: &mut Random, stop: &AtomicBool) -> u64 {
    let (tree, pages) = (&fixture.tree, &fixture.pages);
    let mut walks = 0;
    // One at least, also if the writers were done before this began.
    while walks == 0 || !stop.load(Ordering::Relaxed) {
        for _ in 0..20 {
            let number = random.below((KEYS / FIXED_ONE_IN).into()) as u32 * FIXED_ONE_IN;
            let value = tree.get(pages, &key(number), <[u8]>::to_vec).unwrap();
            assert_eq!(value.as_deref(), Some(&number.to_be_bytes()[..]));
        }
        let from = random.below(KEYS.into()) as u32;
        let to = from + random.below((KEYS - from).into()) as u32;
        let direction = if random.below(2) == 0 {
            Direction::Forward
        } else {
            Direction::Backward
        };
        walk(fixture, from, to, direction);
        walks += 1;
    }
    walks
}

fn walk(fixture: &Fixture, from: u32, to: u32, direction: Direction) {
    let (lower, upper) = (key(from), key(to));
    let mut cursor =
        fixture
            .tree
            .cursor(Bound::Included(&lower), Bound::Excluded(&upper), direction);
    let mut seen = Vec::new();
    while let Some((key, _)) = cursor.next(&fixture.pages).unwrap() {
        seen.push(number_of(key));
    }
    if direction == Direction::Backward {
        seen.reverse();
    }
    assert!(
        seen.is_sorted_by(|a, b| a < b),
        "{direction:?} {from}..{to}"
    );
    assert!(seen.iter().all(|number| (from..to).contains(number)));
    seen.retain(|number| number % FIXED_ONE_IN == 0);
    let fixed = (from..to).filter(|number| number % FIXED_ONE_IN == 0);
    assert!(seen.into_iter().eq(fixed), "{direction:?} {from}..{to}");
}

#[test]
fn readers_writers_and_cursors_do_not_disturb_each_other() {
    for seed in 1..4 {
        let fixture = fixture(seed);
        let stop = AtomicBool::new(false);
        let (mut left, walks) = thread::scope(|scope| {
            let (fixture, stop) = (&fixture, &stop);
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let mut random = Random(seed * 100 + u64::from(writer) + 1);
                    scope.spawn(move || write(fixture, writer, &mut random))
                })
                .collect();
            let readers: Vec<_> = (0..2)
                .map(|reader| {
                    let mut random = Random(seed * 1000 + reader + 1);
                    scope.spawn(move || read(fixture, &mut random, stop))
                })
                .collect();
            let left: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            stop.store(true, Ordering::Relaxed);
            let walks: u64 = readers
                .into_iter()
                .map(|reader| reader.join().unwrap())
                .sum();
            let left: BTreeMap<u32, Vec<u8>> =
                left.into_iter().flat_map(|left| left.unwrap()).collect();
            (left, walks)
        });
        for number in (0..KEYS).step_by(FIXED_ONE_IN as usize) {
            left.insert(number, number.to_be_bytes().to_vec());
        }
        let expected: Vec<_> = left
            .into_iter()
            .map(|(number, value)| (key(number), value))
            .collect();
        assert!(fixture.records() == expected, "seed {seed}");
        fixture.assert_in_order();
        fixture.assert_replayed();
        assert!(walks > 0 && fixture.pages.misses() > 0, "seed {seed}");
    }
}

/// All threads insert beside each other at one end: the leaf that one has split
/// is filled by another.
#[test]
fn all_append() {
    let fixture = fixture(9);
    thread::scope(|scope| {
        for writer in 0..4u32 {
            let fixture = &fixture;
            scope.spawn(move || {
                for step in 0..1500 {
                    let key = key(KEYS + step * 4 + writer);
                    assert!(fixture.tree.insert(&fixture.pages, &key, &[5; 60]).unwrap());
                }
            });
        }
    });
    let report = fixture.assert_in_order();
    assert_eq!(
        report.records,
        u64::from(KEYS.div_ceil(FIXED_ONE_IN) + 6000)
    );
    fixture.assert_replayed();
}

/// A decision is made on the value that it replaces, and what it writes
/// elsewhere is in the same mini-transaction.
#[test]
fn no_increment_is_lost() {
    let fixture = fixture(7);
    let (tree, pages) = (&fixture.tree, &fixture.pages);
    let counters: Vec<Vec<u8>> = (0..4u32).map(|number| key(number * 700 + 1)).collect();
    let undo_segment = iolane_store::access::memory::MemoryPages::segment(9);
    let mut mini = iolane_store::access::Pages::begin(pages, &[undo_segment], 1).unwrap();
    let undo = mini.allocate(undo_segment, None);
    let format = Op::Format {
        kind: iolane_store::page::header::PageKind::Undo,
        level: 0,
        owner: 9,
    };
    mini.apply(undo, &format);
    mini.commit();
    let undone = |page: &[u8]| u64::from_le_bytes(page[64..72].try_into().unwrap());
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let counters = &counters;
            scope.spawn(move || {
                let mut random = Random(thread + 1);
                for step in 0..400 {
                    let key = &counters[random.below(4) as usize];
                    let mut first = step % 16 == 0;
                    let done = tree.modify(
                        pages,
                        key,
                        Some(100),
                        Reserve::default(),
                        |existing, mini| {
                            if std::mem::take(&mut first) {
                                return Decision::Miss(Miss(undo));
                            }
                            if let Err(miss) = mini.exclusive(undo) {
                                return Decision::Miss(miss);
                            }
                            if step % 10 == 9 {
                                return Decision::Abort(step);
                            }
                            let count = undone(mini.page(undo)) + 1;
                            let bytes = &count.to_le_bytes();
                            mini.apply(undo, &Op::Patch { offset: 64, bytes });
                            let old = existing.map_or(0, |value| {
                                u64::from_le_bytes(value[..8].try_into().unwrap())
                            });
                            let mut value = (old + 1).to_le_bytes().to_vec();
                            value.resize(8 + random.below(92) as usize, 0);
                            Decision::Put(value.into())
                        },
                    );
                    match done {
                        Ok(_) => assert_ne!(step % 10, 9),
                        Err(ModifyError::Aborted(at)) => assert_eq!((at, step % 10), (step, 9)),
                        Err(ModifyError::Tree(error)) => panic!("{error}"),
                    }
                }
            });
        }
    });
    let count = |key: &Vec<u8>| {
        let value = tree.get(pages, key, |value| value[..8].to_vec()).unwrap();
        u64::from_le_bytes(value.unwrap().try_into().unwrap())
    };
    assert_eq!(counters.iter().map(count).sum::<u64>(), 4 * 360);
    assert_eq!(undone(&pages.bytes(undo.page)), 4 * 360);
    fixture.assert_in_order();
    fixture.assert_replayed();
}
