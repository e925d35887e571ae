use super::*;
use crate::access::memory::{MemoryOptions, MemoryPages};
use std::cell::Cell;

/// As in a check of a store.
const TRIES: u32 = 4;

fn pages() -> (MemoryPages, Tree) {
    let pages = MemoryPages::new(MemoryOptions {
        page_bytes: 4096,
        pages_max: 4000,
        ..MemoryOptions::default()
    });
    let (leaves, branches) = (MemoryPages::segment(1), MemoryPages::segment(2));
    let tree = Tree::create(&pages, leaves, branches, 42).unwrap();
    (pages, tree)
}

/// Short separators: a branch has more leaves than a step looks at.
fn short(id: u32) -> Vec<u8> {
    [&[1][..], &id.to_be_bytes()].concat()
}

/// Long ones: ten or so in a branch.
fn long(id: u32) -> Vec<u8> {
    [&[2; 350][..], &id.to_be_bytes()].concat()
}

const VALUE: [u8; 380] = [0; 380];

/// Walks the tree, and calls `change` at each question but where everything is
/// to stand still. All pages that were not changed since are found, once.
fn walk_beside(pages: &MemoryPages, tree: &Tree, change: impl Fn()) {
    let since = pages.log_end();
    let still = Cell::new(false);
    let go_on = || {
        if !still.get() {
            change();
        }
        true
    };
    let mut nobody = ();
    let mut walk = tree.walk(pages, since, &go_on, &mut nobody);
    let mut tries = 0;
    while !walk.is_done() {
        tries += 1;
        still.set(tries > TRIES);
        if walk.step(still.get()).unwrap() {
            tries = 0;
        }
    }
    let report = walk.end();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    for (segment, mut found) in [
        (tree.branch_segment, report.branch_pages),
        (tree.leaf_segment, report.leaf_pages),
    ] {
        found.sort_unstable();
        assert!(found.is_sorted_by(|a, b| a < b));
        for page in pages.pages_of(segment) {
            let is_changed = header::lsn(&pages.bytes(page)) > since;
            assert!(is_changed || found.binary_search(&page).is_ok(), "{page}");
        }
    }
}

#[test]
fn a_root_that_rises_under_a_walk() {
    for at in [1, 20, 70, 90, 110] {
        let (pages, tree) = pages();
        for id in 0..1200 {
            tree.insert(&pages, &short(id), &VALUE).unwrap();
        }
        let height = || tree.stats(&pages).unwrap().height;
        let (before, asked) = (height(), Cell::new(0));
        walk_beside(&pages, &tree, || {
            asked.set(asked.get() + 1);
            if asked.get() == at {
                for id in 0..1500 {
                    tree.insert(&pages, &long(id), b"").unwrap();
                }
            }
        });
        assert!(height() > before);
        asked.set(0);
        walk_beside(&pages, &tree, || {
            asked.set(asked.get() + 1);
            if asked.get() == at {
                for id in 0..1500 {
                    tree.remove(&pages, &long(id)).unwrap();
                }
            }
        });
        assert_eq!(height(), before);
    }
}

/// A branch is split after its parent was copied, and before it is: what is in
/// its new right half must not be passed over.
#[test]
fn a_branch_that_is_split_on_the_way_to_it() {
    // Questions before the copy of the first branch in each step, and where rows
    // come, so that a step begins in one half of it and ends in the other.
    for (at, from) in [(2, 1), (68, 1), (2, 1501), (68, 1501), (134, 1501)] {
        let (pages, tree) = pages();
        for id in (0..3000).step_by(2) {
            tree.insert(&pages, &short(id), &VALUE).unwrap();
        }
        for id in 0..300 {
            tree.insert(&pages, &long(id), b"").unwrap();
        }
        let branches = || tree.stats(&pages).unwrap().branch_pages;
        let (before, asked) = (branches(), Cell::new(0));
        walk_beside(&pages, &tree, || {
            asked.set(asked.get() + 1);
            if asked.get() == at {
                for id in (from..from + 1500).step_by(2) {
                    tree.insert(&pages, &short(id), &VALUE).unwrap();
                }
            }
        });
        assert!(branches() > before);
    }
}

/// Splits and merges at every question, near the walk and far from it.
#[test]
fn splits_and_merges_under_a_walk() {
    for seed in 0..30 {
        let (pages, tree) = pages();
        for id in (0..1500).step_by(2) {
            tree.insert(&pages, &short(id), &VALUE).unwrap();
            tree.insert(&pages, &long(id), b"").unwrap();
        }
        // splitmix64 (Vigna 2015).
        let state = Cell::new(seed);
        let below = |end: u64| {
            state.set(u64::wrapping_add(state.get(), 0x9e37_79b9_7f4a_7c15));
            let mut z = state.get();
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % end
        };
        let changes_of_step = 1 + seed % 5;
        walk_beside(&pages, &tree, || {
            if below(8) > changes_of_step {
                return;
            }
            let first = below(1500) as u32;
            let (inserts, is_short) = (below(2) == 0, below(2) == 0);
            for id in first..first + below(40) as u32 {
                let key = if is_short { short(id) } else { long(id) };
                if inserts {
                    tree.put(&pages, &key, if is_short { &VALUE } else { b"" })
                        .unwrap();
                } else {
                    tree.remove(&pages, &key).unwrap();
                }
            }
        });
    }
}
