//! A tree does what a map does, whatever misses, and its log makes it again.

mod common;

use common::{Fixture, Random};
use iolane_store::access::memory::MemoryOptions;
use iolane_store::tree::{Direction, TreeError};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>, usize),
    Put(Vec<u8>, usize),
    Replace(Vec<u8>, usize),
    Remove(Vec<u8>),
    Get(Vec<u8>),
    Range(Bound<Vec<u8>>, Bound<Vec<u8>>, bool),
    /// So many keys in order from there, up or down.
    Run(u16, u16, bool),
    /// All keys of a range, which empties pages side by side.
    Clear(Vec<u8>, Vec<u8>),
}

/// Few different keys, of very different lengths, with long shared prefixes.
fn key() -> impl Strategy<Value = Vec<u8>> {
    (0u16..400, 0usize..4).prop_map(|(number, length)| {
        let mut key = vec![b'k'; [0, 2, 30, 700][length]];
        key.extend(number.to_be_bytes());
        key
    })
}

fn bound() -> impl Strategy<Value = Bound<Vec<u8>>> {
    prop_oneof![
        Just(Bound::Unbounded),
        key().prop_map(Bound::Included),
        key().prop_map(Bound::Excluded),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let value = prop_oneof![0usize..40, 0usize..290];
    prop_oneof![
        6 => (key(), value.clone()).prop_map(|(key, bytes)| Step::Insert(key, bytes)),
        4 => (key(), value.clone()).prop_map(|(key, bytes)| Step::Put(key, bytes)),
        2 => (key(), value).prop_map(|(key, bytes)| Step::Replace(key, bytes)),
        5 => key().prop_map(Step::Remove),
        2 => key().prop_map(Step::Get),
        1 => (bound(), bound(), any::<bool>())
            .prop_map(|(lower, upper, forward)| Step::Range(lower, upper, forward)),
        1 => (0u16..400, 1u16..80, any::<bool>())
            .prop_map(|(from, count, up)| Step::Run(from, count, up)),
        1 => (key(), key()).prop_map(|(from, to)| Step::Clear(from, to)),
    ]
}

fn run(fixture: &Fixture, model: &mut Model, step: Step) {
    let (tree, pages) = (&fixture.tree, &fixture.pages);
    let value = |bytes: usize| vec![model.len() as u8; bytes];
    match step {
        Step::Insert(key, bytes) => {
            let value = value(bytes);
            let new = tree.insert(pages, &key, &value).unwrap();
            assert_eq!(new, !model.contains_key(&key));
            model.entry(key).or_insert(value);
        }
        Step::Put(key, bytes) => {
            let value = value(bytes);
            let existed = tree.put(pages, &key, &value).unwrap();
            assert_eq!(existed, model.insert(key, value).is_some());
        }
        Step::Replace(key, bytes) => {
            let value = value(bytes);
            let existed = tree.replace(pages, &key, &value).unwrap();
            assert_eq!(existed, model.contains_key(&key));
            model.entry(key).and_modify(|old| *old = value);
        }
        Step::Remove(key) => {
            let existed = tree.remove(pages, &key).unwrap();
            assert_eq!(existed, model.remove(&key).is_some());
        }
        Step::Get(key) => {
            let value = tree.get(pages, &key, <[u8]>::to_vec).unwrap();
            assert_eq!(value.as_ref(), model.get(&key));
        }
        Step::Range(lower, upper, forward) => {
            compare_range(fixture, model, &lower, &upper, forward);
        }
        Step::Run(from, count, up) => {
            let mut numbers: Vec<u16> = (from..from + count).collect();
            if !up {
                numbers.reverse();
            }
            for number in numbers {
                let key = [&b"run"[..], &number.to_be_bytes()].concat();
                tree.put(pages, &key, &[7; 90]).unwrap();
                model.insert(key, vec![7; 90]);
            }
        }
        Step::Clear(from, to) => {
            let (from, to) = (from.clone().min(to.clone()), from.max(to));
            let keys: Vec<_> = model.range(from..to).map(|(key, _)| key.clone()).collect();
            for key in keys {
                assert!(tree.remove(pages, &key).unwrap());
                model.remove(&key);
            }
        }
    }
}

fn compare_range(
    fixture: &Fixture,
    model: &Model,
    lower: &Bound<Vec<u8>>,
    upper: &Bound<Vec<u8>>,
    forward: bool,
) {
    let within = |key: &Vec<u8>| {
        (match lower {
            Bound::Included(lower) => key >= lower,
            Bound::Excluded(lower) => key > lower,
            Bound::Unbounded => true,
        }) && (match upper {
            Bound::Included(upper) => key <= upper,
            Bound::Excluded(upper) => key < upper,
            Bound::Unbounded => true,
        })
    };
    let mut expected: Vec<_> = model
        .iter()
        .filter(|&(key, _)| within(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let direction = if forward {
        Direction::Forward
    } else {
        expected.reverse();
        Direction::Backward
    };
    let bounds = || {
        (
            lower.as_ref().map(|key| &key[..]),
            upper.as_ref().map(|key| &key[..]),
        )
    };
    let mut cursor = fixture.tree.cursor(bounds().0, bounds().1, direction);
    let (mut found, mut visited) = (Vec::new(), Vec::new());
    while let Some((key, value)) = cursor.next(&fixture.pages).unwrap() {
        found.push((key.to_vec(), value.to_vec()));
        if cursor.leaf() != visited.last().copied() {
            visited.extend(cursor.leaf());
        }
    }
    assert_eq!(found, expected);
    let mut leaves = Vec::new();
    let mut walk = fixture.tree.leaves(bounds().0, bounds().1, direction);
    while walk.next(&fixture.pages, &mut leaves).unwrap() {}
    let mut named = leaves.iter();
    for leaf in visited {
        assert!(
            named.any(|&named| named == leaf),
            "{leaf} is not named in its turn"
        );
    }
}

proptest! {
    #![proptest_config(iolane_testing::cases(60))]

    #[test]
    fn a_tree_does_what_a_map_does(
        steps in proptest::collection::vec(step(), 1..300),
        seed in any::<u64>(),
    ) {
        let fixture = Fixture::new(MemoryOptions {
            page_bytes: 4096,
            pages_max: 4000,
            miss_one_in: 12,
            seed,
            log: true,
        });
        let mut model = Model::new();
        for (number, step) in steps.into_iter().enumerate() {
            run(&fixture, &mut model, step);
            if number % 16 == 0 {
                fixture.assert_in_order();
            }
        }
        for forward in [true, false] {
            compare_range(&fixture, &model, &Bound::Unbounded, &Bound::Unbounded, forward);
        }
        let report = fixture.assert_in_order();
        prop_assert_eq!(report.records, model.len() as u64);
        fixture.assert_replayed();
        for key in model.keys() {
            prop_assert!(fixture.tree.remove(&fixture.pages, key).unwrap());
        }
        prop_assert_eq!(fixture.tree.stats(&fixture.pages).unwrap().height, 1);
        fixture.assert_in_order();
        fixture.assert_replayed();
    }
}

/// Three levels and more, every split and merge with misses, in all orders.
#[test]
fn a_high_tree_grows_and_shrinks() {
    for (order, name) in ["ascending", "descending", "random"]
        .into_iter()
        .enumerate()
    {
        let fixture = Fixture::new(MemoryOptions {
            pages_max: 40_000,
            miss_one_in: 20,
            log: true,
            ..common::SMALL
        });
        let (tree, pages) = (&fixture.tree, &fixture.pages);
        let mut keys: Vec<Vec<u8>> = (0..6000u32)
            .map(|number| {
                let mut key = vec![0; 100];
                key.extend(number.to_be_bytes());
                // Long tails and short ones, so that separators differ.
                key.resize(104 + number as usize % 5 * 100, 1);
                key
            })
            .collect();
        let mut random = Random(order as u64 + 1);
        match order {
            0 => {}
            1 => keys.reverse(),
            _ => random.shuffle(&mut keys),
        }
        for key in &keys {
            assert!(tree.insert(pages, key, b"v").unwrap());
        }
        let report = fixture.assert_in_order();
        assert_eq!(report.records, 6000);
        let stats = tree.stats(pages).unwrap();
        assert!(stats.height >= 3, "{name}: {stats:?}");
        assert_eq!(stats.leaf_pages, report.leaf_pages.len() as u64);
        assert_eq!(stats.branch_pages, report.branch_pages.len() as u64);
        assert!(
            stats.records_estimate.abs_diff(6000) < 1500,
            "{name}: {stats:?}"
        );
        let fill_expected = if order == 2 { 0.5 } else { 0.85 };
        assert!(stats.leaf_fill > fill_expected, "{name}: {stats:?}");
        let branches = report.branch_pages.len();
        random.shuffle(&mut keys);
        for (number, key) in keys.iter().enumerate() {
            assert!(tree.remove(pages, key).unwrap());
            if number % 1000 == 0 {
                fixture.assert_in_order();
            }
            if number == 5800 {
                let left = fixture.assert_in_order().branch_pages.len();
                assert!(left * 2 < branches, "{name}: {left} of {branches} branches");
            }
            if number == 5000 {
                let report = fixture.assert_in_order();
                assert!(
                    report.sparse_leaves * 4 <= report.leaf_pages.len() as u64,
                    "{name}: {} of {} leaves are sparse",
                    report.sparse_leaves,
                    report.leaf_pages.len()
                );
            }
        }
        assert_eq!(tree.stats(pages).unwrap().height, 1);
        assert_eq!(pages.pages_of(tree.leaf_segment).len(), 0);
        assert_eq!(pages.pages_of(tree.branch_segment).len(), 1);
        fixture.assert_replayed();
        assert!(pages.misses() > 1000);
    }
}

#[test]
fn a_load_holds_what_inserts_make() {
    for count in [0u32, 1, 5, 100, 4000] {
        for fill in [50, 90, 100] {
            let loaded = Fixture::new(MemoryOptions {
                pages_max: 20_000,
                miss_one_in: 20,
                log: true,
                ..common::SMALL
            });
            let inserted = Fixture::new(MemoryOptions {
                pages_max: 20_000,
                ..common::SMALL
            });
            let records = || {
                (0..count).map(|number| {
                    let key = [&number.to_be_bytes()[..], &vec![9; number as usize % 300]].concat();
                    (key, vec![1; number as usize % 70])
                })
            };
            let (tree, pages) = (&loaded.tree, &loaded.pages);
            let done = tree.bulk_load(pages, records(), fill).unwrap();
            assert_eq!(done.records, u64::from(count));
            for (key, value) in records() {
                inserted.tree.insert(&inserted.pages, &key, &value).unwrap();
            }
            let report = loaded.assert_in_order();
            assert_eq!(report.records, u64::from(count));
            assert_eq!(loaded.records(), inserted.records());
            loaded.assert_replayed();
            if count == 4000 {
                let used = tree.stats(pages).unwrap().leaf_fill;
                let least = f64::from(fill) / 100.0 - 0.09;
                assert!(used > least, "{used} of {fill} %");
            }
            // And it goes on as any other.
            tree.put(pages, b"\0\0\x01", &[3; 200]).unwrap();
            tree.remove(pages, &[&5u32.to_be_bytes()[..], &[9; 5]].concat())
                .unwrap();
            loaded.assert_in_order();
        }
    }
}

#[test]
fn a_load_refuses_what_it_cannot_hold() {
    let fixture = Fixture::new(common::SMALL);
    let (tree, pages) = (&fixture.tree, &fixture.pages);
    let unsorted = [(b"a", b""), (b"c", b""), (b"c", b"")];
    assert!(matches!(
        tree.bulk_load(pages, unsorted, 100),
        Err(TreeError::Unsorted { position: 2 })
    ));
    assert!(matches!(
        tree.bulk_load(pages, [(vec![0; 769], b"")], 100),
        Err(TreeError::KeyTooLong {
            bytes: 769,
            max: 768
        })
    ));
    tree.insert(pages, b"a", b"").unwrap();
    assert!(matches!(
        tree.bulk_load(pages, [(b"b", b"")], 100),
        Err(TreeError::NotEmpty)
    ));
    assert_eq!(fixture.records().len(), 1);
}

#[test]
fn lengths_are_limited() {
    let fixture = Fixture::new(common::SMALL);
    let (tree, pages) = (&fixture.tree, &fixture.pages);
    assert!(matches!(
        tree.insert(pages, &[0; 769], b""),
        Err(TreeError::KeyTooLong { .. })
    ));
    let key = [0; 768];
    let max = iolane_store::tree::Tree::value_bytes_max(pages, key.len());
    assert!(matches!(
        tree.insert(pages, &key, &vec![0; max + 1]),
        Err(TreeError::ValueTooLong { .. })
    ));
    assert!(tree.insert(pages, &key, &vec![0; max]).unwrap());
    assert!(tree.insert(pages, b"", b"the empty key is one").unwrap());
    fixture.assert_in_order();
}

/// Keys that ascend within each of many groups, as orders by customer do, leave
/// pages nearly as full as if they ascended in all.
#[test]
fn groups_that_ascend_fill_their_pages() {
    let fixture = Fixture::new(MemoryOptions {
        pages_max: 10_000,
        log: true,
        ..common::SMALL
    });
    let (tree, pages) = (&fixture.tree, &fixture.pages);
    let mut random = Random(5);
    let mut lengths = [0u32; 20];
    for _ in 0..1000 {
        // A group goes on for a while, then another.
        let group = random.below(20) as u32;
        for _ in 0..20 {
            let length = &mut lengths[group as usize];
            let key = [group.to_be_bytes(), length.to_be_bytes()].concat();
            assert!(tree.insert(pages, &key, &[1; 50]).unwrap());
            *length += 1;
        }
    }
    let stats = tree.stats(pages).unwrap();
    assert!(stats.leaf_fill > 0.85, "{stats:?}");
    fixture.assert_in_order();
    fixture.assert_replayed();
}

/// Ranges that begin and end at each key, and so at each fence, name exactly
/// the leaves that have their records.
#[test]
fn ranges_end_where_they_say() {
    let fixture = Fixture::new(common::SMALL);
    let mut model = Model::new();
    for number in 0..400u32 {
        let (key, value) = (number.to_be_bytes().to_vec(), vec![4; 150]);
        fixture.tree.insert(&fixture.pages, &key, &value).unwrap();
        model.insert(key, value);
    }
    assert!(fixture.assert_in_order().leaf_pages.len() > 15);
    let kinds = [Bound::Included, Bound::Excluded];
    for (at, key) in model.keys().enumerate() {
        let other = model.keys().nth((at + 40).min(399)).unwrap();
        for (lower, upper) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (lower, upper) = (kinds[lower](key.clone()), kinds[upper](other.clone()));
            for forward in [true, false] {
                compare_range(&fixture, &model, &lower, &upper, forward);
            }
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let (lower, upper) = (Bound::Included(&key[..]), Bound::Included(&other[..]));
            let mut cursor = fixture.tree.cursor(lower, upper, direction);
            let mut visited = Vec::new();
            while cursor.next(&fixture.pages).unwrap().is_some() {
                visited.extend(cursor.leaf());
                visited.dedup();
            }
            if direction == Direction::Forward {
                let leaf = fixture.tree.leaf_number(&fixture.pages, key);
                assert_eq!(leaf.ok(), visited.first().copied());
            }
            let mut named = Vec::new();
            let mut walk = fixture.tree.leaves(lower, upper, direction);
            while walk.next(&fixture.pages, &mut named).unwrap() {}
            assert_eq!(named, visited, "from {at} {direction:?}");
        }
    }
}

/// Offsets up to the last byte of the largest page, and of the default one.
#[test]
fn large_pages_do_the_same() {
    for page_bytes in [16 << 10, 64 << 10] {
        let fixture = Fixture::new(MemoryOptions {
            page_bytes,
            log: true,
            ..common::SMALL
        });
        let (tree, pages) = (&fixture.tree, &fixture.pages);
        let mut random = Random(page_bytes as u64);
        let mut model = Model::new();
        for step in 0..3000u32 {
            let number = random.below(900);
            let mut key = number.to_be_bytes().to_vec();
            key.resize(8 + number as usize % 7 * 100, 3);
            if random.below(4) == 0 {
                let existed = tree.remove(pages, &key).unwrap();
                assert_eq!(existed, model.remove(&key).is_some());
            } else {
                let most = iolane_store::tree::Tree::value_bytes_max(pages, key.len());
                let value = vec![step as u8; random.below(most as u64 / 8) as usize];
                tree.put(pages, &key, &value).unwrap();
                model.insert(key, value);
            }
        }
        assert!(fixture.records() == model.into_iter().collect::<Vec<_>>());
        assert!(fixture.assert_in_order().leaf_pages.len() > 3);
        fixture.assert_replayed();
    }
}

/// A leaf that is drained between full ones is evened out with a neighbour as
/// long as it cannot be merged with one.
#[test]
fn no_leaf_stays_sparse() {
    for backward in [false, true] {
        let fixture = Fixture::new(MemoryOptions {
            log: true,
            ..common::SMALL
        });
        let (tree, pages) = (&fixture.tree, &fixture.pages);
        // 42 have room in a leaf: the last one is full too.
        let keys: Vec<_> = (0..19 * 42u32).map(u32::to_be_bytes).collect();
        let records = keys.iter().map(|key| (key, [6; 80]));
        tree.bulk_load(pages, records, 100).unwrap();
        let leaves = fixture.assert_in_order().leaf_pages.len();
        let mut drained = keys[300..380].to_vec();
        if backward {
            drained.reverse();
        }
        for key in drained {
            assert!(tree.remove(pages, &key).unwrap());
            let report = fixture.assert_in_order();
            assert_eq!(report.sparse_leaves, 0);
        }
        assert!(fixture.assert_in_order().leaf_pages.len() < leaves);
        fixture.assert_replayed();
    }
}
