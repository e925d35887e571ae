//! Random operations of interleaved transactions, against a model that keeps
//! every committed state.

use super::only_keys::{keys_of, try_only_keys};
use super::*;
use crate::RowChange;
use crate::tree::Direction;
use crate::txn::Savepoint;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

type Rows = BTreeMap<i64, Row>;

/// A transaction, and what it should see.
struct Twin<'s> {
    real: Transaction<'s, TestPages>,
    /// What it sees; `None` until it reads or changes something.
    sees: Option<Rows>,
    /// Number of the committed state that it began with.
    since: usize,
    savepoints: Vec<(Savepoint, Option<Rows>, BTreeSet<i64>)>,
    changed: BTreeSet<i64>,
}

/// All committed states, and who holds which row and tag.
#[derive(Default)]
struct Model {
    /// The table has secondary indexes; otherwise no row has a tag.
    indexed: bool,
    committed: Vec<Rows>,
    /// After which commit each row was changed last.
    changed: HashMap<i64, usize>,
    rows: HashMap<i64, usize>,
    tags: HashMap<i64, usize>,
}

impl Model {
    fn newest(&self) -> &Rows {
        self.committed.last().unwrap()
    }

    fn row(&self, random: &mut Random, id: i64) -> Row {
        let mut row = random_row(random, id);
        if !self.indexed {
            row[1] = Value::Null;
        }
        row
    }

    fn is_others(held: &HashMap<i64, usize>, what: i64, number: usize) -> bool {
        held.get(&what).is_some_and(|&holder| holder != number)
    }

    /// Whether another row than that of `id` has a tag for the transaction that
    /// holds it: committed, or its own among `changed`, which are in `own`.
    fn is_taken(&self, tag: i64, id: i64, own: &Rows, changed: &BTreeSet<i64>) -> bool {
        let has = |rows: &Rows, id: i64| rows.get(&id).and_then(tag_of) == Some(tag);
        (0..IDS as i64).filter(|&other| other != id).any(|other| {
            if changed.contains(&other) {
                has(own, other)
            } else {
                has(self.newest(), other)
            }
        })
    }
}

/// splitmix64 (Vigna 2015).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

const IDS: u64 = 24;
const TAGS: u64 = 30;

fn random_row(random: &mut Random, id: i64) -> Row {
    let tag = (random.below(3) > 0).then(|| random.below(TAGS) as i64);
    let length = match random.below(10) {
        0 => 1000 + random.below(12_000),
        _ => random.below(200),
    };
    let text = char::from(b'a' + random.below(26) as u8)
        .to_string()
        .repeat(length as usize);
    row(id, tag, &format!("g{}", random.below(4)), &text)
}

fn tag_of(row: &Row) -> Option<i64> {
    match row[1] {
        Value::Integer(tag) => Some(tag),
        _ => None,
    }
}

/// Checks everything that a transaction can see.
fn compare(twin: &mut Twin<'_>, model: &Model) {
    if twin.sees.is_none() {
        twin.sees = Some(model.newest().clone());
        twin.since = model.committed.len() - 1;
    }
    let expected: Vec<Row> = twin.sees.as_ref().unwrap().values().cloned().collect();
    assert_eq!(all(&mut twin.real), expected);
    let keys: Vec<_> = (0..IDS as i64).map(key).collect();
    let found = twin.real.get_many("t", &keys).unwrap().into_iter();
    assert_eq!(found.flatten().collect::<Vec<_>>(), expected);
    if !model.indexed {
        return;
    }
    for index in ["by_tag", "by_group"] {
        let rows = twin.real.range_by("t", index, .., Direction::Backward);
        let mut rows: Vec<Row> = rows.unwrap().map(Result::unwrap).collect();
        rows.sort_by_key(|row| match row[0] {
            Value::Integer(id) => id,
            _ => panic!("an id"),
        });
        assert_eq!(rows, expected, "{index}");
        for direction in [Direction::Forward, Direction::Backward] {
            let mut keys = try_only_keys(&mut twin.real, index, direction).unwrap();
            keys.sort_by_key(|row| match row[0] {
                Value::Integer(id) => id,
                _ => panic!("an id"),
            });
            let expected = expected.iter().map(|row| keys_of(index, row));
            assert_eq!(keys, expected.collect::<Vec<_>>(), "{index}");
        }
    }
    let group: [Value; 1] = ["g2".into()];
    let bounds = (Bound::Included(&group[..]), Bound::Included(&group[..]));
    let rows = twin
        .real
        .range_by("t", "by_group", bounds, Direction::Forward);
    let expected = expected.iter().filter(|row| row[2] == group[0]).cloned();
    assert_eq!(
        rows.unwrap().map(Result::unwrap).collect::<Vec<_>>(),
        expected.collect::<Vec<_>>()
    );
}

/// One random change, unless it would wait for another transaction: with one
/// thread that would be for ever.
fn change(number: usize, twin: &mut Twin<'_>, model: &mut Model, random: &mut Random) {
    let id = random.below(IDS) as i64;
    let new = model.row(random, id);
    let kind = random.below(3);
    if Model::is_others(&model.rows, id, number) {
        return;
    }
    let began = twin.sees.is_some();
    if !began {
        // The lock comes first, then the view.
        twin.sees = Some(model.newest().clone());
        twin.since = model.committed.len() - 1;
    }
    let sees = twin.sees.as_ref().unwrap();
    let own = twin.changed.contains(&id);
    let newest = if own {
        sees.get(&id)
    } else {
        model.newest().get(&id)
    }
    .cloned();
    let conflict = !own && model.changed.get(&id).is_some_and(|&at| at > twin.since);
    let mut tags: Vec<i64> = Vec::new();
    if kind != 0 {
        tags.extend(tag_of(&new));
    }
    if kind != 1 {
        tags.extend(newest.as_ref().and_then(tag_of));
    }
    let is_held = |&tag: &i64| Model::is_others(&model.tags, tag, number);
    if tags.iter().any(is_held) {
        if !began {
            twin.sees = None;
        }
        return;
    }
    let taken = tag_of(&new).is_some_and(|tag| model.is_taken(tag, id, sees, &twin.changed));
    let result = match kind {
        0 => twin.real.delete("t", &key(id)),
        1 => twin.real.insert("t", new.clone()).map(|()| true),
        _ => twin.real.update("t", new.clone()),
    };
    model.rows.insert(id, number);
    if conflict {
        assert!(
            matches!(result, Err(Error::WriteConflict { .. })),
            "{result:?} for a conflict"
        );
        return;
    }
    let expected = match (kind, &newest) {
        (1, Some(_)) => Err("primary key"),
        (0 | 2, None) => Ok(false),
        _ => {
            // What it gives up and takes is locked from here on.
            let gives_up = newest.as_ref().and_then(tag_of);
            let takes = (kind != 0).then(|| tag_of(&new)).flatten();
            if gives_up != takes {
                for tag in [gives_up, takes].into_iter().flatten() {
                    model.tags.insert(tag, number);
                }
            }
            if kind != 0 && gives_up != takes && taken {
                Err("by_tag")
            } else {
                Ok(true)
            }
        }
    };
    match (&result, expected) {
        (Ok(done), Ok(expected)) => assert_eq!(*done, expected),
        (Err(Error::Duplicate { key, .. }), Err(expected)) => assert_eq!(key, expected),
        _ => panic!("{result:?}, expected {expected:?}"),
    }
    if let Ok(true) = result {
        let sees = twin.sees.as_mut().unwrap();
        if kind == 0 {
            sees.remove(&id);
        } else {
            sees.insert(id, new);
        }
        twin.changed.insert(id);
    }
}

/// Changes a range of rows, or those with the keys in it, unless that would wait
/// for another transaction: all of them, or where one of them cannot be changed,
/// none.
fn change_range(number: usize, twin: &mut Twin<'_>, model: &mut Model, random: &mut Random) {
    let began = twin.sees.is_some();
    if !began {
        twin.sees = Some(model.newest().clone());
        twin.since = model.committed.len() - 1;
    }
    let sees = twin.sees.as_ref().unwrap();
    let from = random.below(IDS) as i64;
    let to = from + 1 + random.below(IDS) as i64;
    let mut decisions = Vec::new();
    for (&id, old) in sees.range(from..to) {
        let mut new = model.row(random, id);
        decisions.push(match random.below(6) {
            0 => RowChange::Keep,
            1 => RowChange::Delete,
            2 => RowChange::Update(new),
            _ => {
                new[1] = old[1].clone();
                RowChange::Update(new)
            }
        });
    }
    let (mut after, mut changed, mut count) = (sees.clone(), twin.changed.clone(), 0);
    let (mut rows, mut tags) = (Vec::new(), Vec::new());
    let mut expected = None;
    for ((&id, old), decision) in sees.range(from..to).zip(&decisions) {
        let new = match decision {
            RowChange::Keep => continue,
            RowChange::Update(new) => Some(new),
            RowChange::Delete => None,
        };
        rows.push(id);
        if !changed.contains(&id) && model.changed.get(&id).is_some_and(|&at| at > twin.since) {
            expected = Some("conflict");
            break;
        }
        let (gives_up, takes) = (tag_of(old), new.and_then(tag_of));
        if gives_up != takes {
            tags.extend([gives_up, takes].into_iter().flatten());
            if takes.is_some_and(|tag| model.is_taken(tag, id, &after, &changed)) {
                expected = Some("by_tag");
                break;
            }
        }
        changed.insert(id);
        count += 1;
        match new {
            Some(new) => after.insert(id, new.clone()),
            None => after.remove(&id),
        };
    }
    let is_others = |held: &HashMap<i64, usize>, all: &[i64]| {
        let mut all = all.iter();
        all.any(|&what| Model::is_others(held, what, number))
    };
    // Without indexes it shows only in the end that a row cannot be changed,
    // when those behind it are locked too.
    if !model.indexed {
        let is_changed = |(_, decision): &(_, &RowChange)| **decision != RowChange::Keep;
        let all = sees.range(from..to).zip(&decisions).filter(is_changed);
        rows = all.map(|((&id, _), _)| id).collect();
    }
    if is_others(&model.rows, &rows) || is_others(&model.tags, &tags) {
        if !began {
            twin.sees = None;
        }
        return;
    }
    let by_keys = random.below(2) == 0;
    let keys: Vec<_> = (from..to).rev().map(key).collect();
    let (from, to) = (key(from), key(to));
    let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    let mut decisions = decisions.into_iter();
    let change = |_| decisions.next().unwrap();
    let result = if by_keys {
        twin.real.change_many("t", &keys, change)
    } else {
        twin.real.change_range("t", bounds, change)
    };
    for id in rows {
        model.rows.insert(id, number);
    }
    for tag in tags {
        model.tags.insert(tag, number);
    }
    match (&result, expected) {
        (Err(Error::WriteConflict { .. }), Some("conflict")) => {}
        (Err(Error::Duplicate { key, .. }), Some(expected)) => assert_eq!(key, expected),
        (Ok(done), None) => {
            assert_eq!(*done, count);
            twin.sees = Some(after);
            twin.changed = changed;
        }
        _ => panic!("{result:?}, expected {expected:?}"),
    }
}

/// Ends a transaction, and returns its rows to others.
fn end(number: usize, twin: Twin<'_>, model: &mut Model, commits: bool) {
    model.rows.retain(|_, holder| *holder != number);
    model.tags.retain(|_, holder| *holder != number);
    if !commits {
        twin.real.rollback().unwrap();
        return;
    }
    twin.real.commit().unwrap();
    let mut newest = model.newest().clone();
    for &id in &twin.changed {
        match twin.sees.as_ref().unwrap().get(&id) {
            Some(row) => newest.insert(id, row.clone()),
            None => newest.remove(&id),
        };
        model.changed.insert(id, model.committed.len());
    }
    model.committed.push(newest);
}

fn play(seed: u64, steps: u64, indexed: bool) {
    let rig = Rig::new(MemoryOptions {
        miss_one_in: 50,
        ..small(seed)
    });
    let system = rig.open();
    let mut schema = schema();
    if !indexed {
        schema.indexes.clear();
    }
    system.create_table(&schema).unwrap();
    let mut random = Random(seed);
    let mut model = Model {
        indexed,
        ..Model::default()
    };
    model.committed.push(Rows::new());
    let mut twins: HashMap<usize, Twin<'_>> = HashMap::new();
    for number in 0..steps as usize {
        if twins.len() < 5 {
            let twin = Twin {
                real: Transaction::begin(&system),
                sees: None,
                since: 0,
                savepoints: Vec::new(),
                changed: BTreeSet::new(),
            };
            twins.insert(number, twin);
        }
        let mut running: Vec<usize> = twins.keys().copied().collect();
        running.sort_unstable();
        let chosen = running[random.below(running.len() as u64) as usize];
        let twin = twins.get_mut(&chosen).unwrap();
        match random.below(40) {
            0..22 => change(chosen, twin, &mut model, &mut random),
            22..25 => change_range(chosen, twin, &mut model, &mut random),
            25..28 => compare(twin, &model),
            28..30 => {
                let savepoint = twin.real.savepoint().unwrap();
                let seen = twin.sees.clone();
                twin.savepoints
                    .push((savepoint, seen, twin.changed.clone()));
            }
            30 => {
                if let Some((savepoint, sees, changed)) = twin.savepoints.last().cloned() {
                    twin.real.rollback_to(savepoint).unwrap();
                    twin.changed = changed;
                    // Its view was opened before or after; it stays open. Rows
                    // that were changed are as they were.
                    let began = &model.committed[twin.since];
                    if twin.sees.is_some() {
                        twin.sees = Some(sees.unwrap_or_else(|| began.clone()));
                    }
                }
            }
            31..35 => {
                let twin = twins.remove(&chosen).unwrap();
                end(chosen, twin, &mut model, true);
            }
            35 => {
                let twin = twins.remove(&chosen).unwrap();
                end(chosen, twin, &mut model, false);
            }
            36..38 => {
                system.purge(random.below(60) as usize).unwrap();
            }
            38 => assert_clean(&system),
            _ => {
                let rows = all(&mut Transaction::begin(&system));
                assert_eq!(rows, model.newest().values().cloned().collect::<Vec<_>>());
            }
        }
    }
    for (number, twin) in twins.drain() {
        end(number, twin, &mut model, false);
    }
    purge_all(&system);
    let rows = all(&mut Transaction::begin(&system));
    assert_eq!(rows, model.newest().values().cloned().collect::<Vec<_>>());
    assert_eq!(system.purge.waiting(), 0);
    if indexed {
        assert_eq!(entries(&system, 0).len(), rows.len());
    }
    assert_eq!(system.locks.held(), 0);
}

#[test]
fn interleaved_transactions_do_what_the_model_does() {
    let seed = std::env::var("IOLANE_TEST_SEED").ok();
    let first = seed.and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("IOLANE_TEST_SEED={first}");
    for seed in first..first + 12 {
        println!("seed {seed}");
        play(seed, 600, true);
        play(seed, 600, false);
    }
}
