//! B+trees on pages that come and go: many times the pool, changed by several
//! threads, and opened again.

mod pages;

use iolane_store::PageStoreOptions;
use iolane_store::tree::{Direction, Tree};
use pages::*;
use std::collections::BTreeMap;
use std::ops::Bound;

fn key(number: u64) -> Vec<u8> {
    format!(
        "key {:08}",
        number.wrapping_mul(2_654_435_761) % 100_000_000
    )
    .into_bytes()
}

#[test]
fn trees_grow_and_shrink_in_a_small_pool() {
    const THREADS: u64 = 3;
    let directory = directory();
    let options = PageStoreOptions {
        pool_bytes: 128 * 4096,
        ..options()
    };
    let store = create(directory.path(), &options);
    let space = store.create_space("tree").unwrap();
    let [leaves, branches] = [(); 2].map(|()| store.create_segment(space).unwrap());
    let tree = Tree::create(&store, leaves, branches, 5).unwrap();
    let models: Vec<BTreeMap<Vec<u8>, Vec<u8>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (store, tree) = (&store, &tree);
                scope.spawn(move || {
                    let mut dice = Dice(0xabc + thread);
                    let mut model = BTreeMap::new();
                    for step in 0..4000 {
                        let key = key(THREADS * dice.roll(3000) + thread);
                        // More comes than goes, later the other way round.
                        if dice.roll(10) < if step < 2500 { 8 } else { 3 } {
                            let value = vec![step as u8; 20 + dice.roll(300) as usize];
                            let replaced = tree.put(store, &key, &value).unwrap();
                            assert_eq!(replaced, model.insert(key, value).is_some());
                        } else if dice.roll(2) == 0 {
                            let there = tree.remove(store, &key).unwrap();
                            assert_eq!(there, model.remove(&key).is_some());
                        } else {
                            let found = tree.get(store, &key, <[u8]>::to_vec).unwrap();
                            assert_eq!(found.as_ref(), model.get(&key));
                        }
                    }
                    model
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.collect::<Result<_, _>>().unwrap()
    });
    let expected: Vec<_> = models
        .into_iter()
        .flatten()
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .collect();
    let all = |store: &iolane_store::PageStore| {
        let mut cursor = tree.cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let mut records = Vec::new();
        while let Some((key, value)) = cursor.next(store).unwrap() {
            records.push((key.to_vec(), value.to_vec()));
        }
        records
    };
    assert!(all(&store) == expected);
    tree.check(&store).unwrap();
    let statistics = store.statistics();
    assert!(statistics.pool.evictions > 1000, "{statistics:?}");
    store.close().unwrap();
    let (store, _) = open(directory.path(), &options);
    tree.check(&store).unwrap();
    assert!(all(&store) == expected);
}
