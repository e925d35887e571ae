//! A system that is left as it is, and taken up again.

use super::*;

fn fill(system: &System<TestPages>, ids: std::ops::Range<i64>, text: &str) {
    let mut one = Transaction::begin(system);
    for id in ids {
        one.insert("t", row(id, Some(id), "g", text)).unwrap();
    }
    one.commit().unwrap();
}

#[test]
fn who_had_not_committed_is_rolled_back() {
    let rig = Rig::new(small(21));
    let system = rig.open();
    system.create_table(&schema()).unwrap();
    fill(&system, 0..50, "first");
    let long = "long ".repeat(2000);
    let mut lost = Vec::new();
    for at in 0..3 {
        let mut one = Transaction::begin(&system);
        for id in at * 10..at * 10 + 10 {
            one.update("t", row(id, Some(-id - 1), "lost", &long))
                .unwrap();
            one.delete("t", &key(id)).unwrap();
        }
        let savepoint = one.savepoint().unwrap();
        one.insert("t", row(1000 + at, None, "lost", &long))
            .unwrap();
        if at == 1 {
            // Some of it is undone already.
            one.rollback_to(savepoint).unwrap();
        }
        lost.push(one);
    }
    let mut last = Transaction::begin(&system);
    last.delete("t", &key(49)).unwrap();
    last.commit().unwrap();
    std::mem::forget(lost);
    std::mem::forget(system);

    let (system, opened) = rig.open_with(options());
    assert_eq!(opened.rolled_back, 3);
    assert_clean(&system);
    let rows = all(&mut Transaction::begin(&system));
    let expected: Vec<Row> = (0..49).map(|id| row(id, Some(id), "g", "first")).collect();
    assert_eq!(rows, expected);
    assert_eq!(entries(&system, 0).len(), 49);
    // What had been deleted is purged by who comes later.
    assert_eq!(system.purge.waiting(), 0);
    drop(system);
    let (_, opened) = rig.open_with(options());
    assert_eq!(opened.rolled_back, 0);
}

#[test]
fn numbers_are_not_given_twice() {
    let rig = Rig::new(small(22));
    let mut numbers = BTreeSet::new();
    for _ in 0..3 {
        let system = rig.open();
        for _ in 0..1500 {
            let number = system.views.number(&system.backing).unwrap();
            assert!(numbers.insert(number), "{number} again");
        }
    }
}

#[test]
fn what_was_not_purged_is_purged_later() {
    let rig = Rig::new(small(23));
    let system = rig.open();
    system.create_table(&schema()).unwrap();
    fill(&system, 0..200, &"text ".repeat(500));
    let before = {
        assert_clean(&system);
        pages_of_table(&system)
    };
    fill(&system, 200..400, &"text ".repeat(500));
    let mut one = Transaction::begin(&system);
    for id in 200..400 {
        one.delete("t", &key(id)).unwrap();
    }
    one.commit().unwrap();
    // A part of it now, the rest by the next one.
    system.purge(300).unwrap();
    drop(system);
    let system = rig.open();
    assert!(system.purge.waiting() > 0);
    purge_all(&system);
    assert_eq!(system.purge.waiting(), 0);
    assert_eq!(pages_of_table(&system), before);
}
