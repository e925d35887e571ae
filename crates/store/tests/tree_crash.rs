//! Wherever the log ends, the tree is in order and holds what had been changed
//! by then: no split or merge changes what it holds.

mod common;

use common::{Fixture, Random, SMALL};
use iolane_store::access::memory::MemoryOptions;
use iolane_store::ids::Lsn;
use iolane_store::tree::{Decision, ModifyError, Reserve};
use std::collections::BTreeMap;
use std::convert::Infallible;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[test]
fn every_end_of_the_log_leaves_a_tree_in_order() {
    for seed in 1..3 {
        let fixture = Fixture::new(MemoryOptions {
            miss_one_in: 40,
            log: true,
            seed,
            ..SMALL
        });
        let states = change(&fixture, &mut Random(seed));
        let ends = fixture.pages.lsns();
        assert!(
            ends.len() > states.len() + 40,
            "{} mini-transactions for {} changes",
            ends.len(),
            states.len()
        );
        // The root is formatted by the first.
        for &end in &ends {
            let recovered = fixture.pages.recovered(end);
            let report = fixture.tree.check(&recovered).unwrap();
            assert!(report.findings.is_empty(), "{end}: {:?}", report.findings);
            let state = states.range(..=end).next_back();
            let expected: Vec<_> = state
                .map(|(_, model)| model.clone().into_iter().collect())
                .unwrap_or_default();
            assert!(
                fixture.records_in(&recovered) == expected,
                "seed {seed}, {end}"
            );
        }
        let starts = [Lsn(0)].into_iter().chain(ends.iter().copied());
        let longest = starts.zip(&ends).map(|(start, end)| end.0 - start.0).max();
        assert!(longest.unwrap() < 2 * 4096, "{longest:?} bytes at once");
    }
}

/// Grows and shrinks the tree. Returns what it held from each LSN on.
fn change(fixture: &Fixture, random: &mut Random) -> BTreeMap<Lsn, Model> {
    let mut model = Model::new();
    let mut states = BTreeMap::new();
    for step in 0..450 {
        let number = random.below(120);
        let key = [
            vec![b'k'; 600 * (number as usize % 2)],
            number.to_be_bytes().to_vec(),
        ]
        .concat();
        let growing = step % 225 < 130;
        let remove = random.below(10) < if growing { 1 } else { 9 };
        let value = vec![step as u8; random.below(300) as usize];
        let modified = fixture
            .tree
            .modify(
                &fixture.pages,
                &key,
                Some(value.len()),
                Reserve::default(),
                |existing, _| {
                    assert_eq!(existing, model.get(&key).map(|value| &value[..]));
                    if remove {
                        Decision::Remove
                    } else {
                        Decision::Put((&value).into())
                    }
                },
            )
            .map_err(|error: ModifyError<Infallible>| error.to_string())
            .unwrap();
        if remove {
            model.remove(&key);
        } else {
            model.insert(key, value);
        }
        states.insert(modified.lsn, model.clone());
    }
    states
}
