//! Rows whose keys are known beforehand.

use super::basics::filled;
use super::*;
use crate::RowChange;

#[test]
fn rows_come_in_the_order_of_their_keys_however_many() {
    let system = filled(21);
    let mut one = Transaction::begin(&system);
    assert!(one.delete("t", &key(40)).unwrap());
    assert!(one.update("t", row(41, None, "own", "")).unwrap());
    let mut two = Transaction::begin(&system);
    let ids = [99, 7, 41, 1000, 7, 40, -1, 0, 98];
    let keys = ids.map(key);
    for (reader, seen) in [(&mut one, false), (&mut two, true)] {
        let rows = reader.get_many("t", &keys).unwrap();
        assert_eq!(rows.len(), ids.len());
        for (id, found) in ids.into_iter().zip(rows) {
            assert_eq!(found, reader.get("t", &key(id)).unwrap(), "{id}");
            assert_eq!(
                found.is_some(),
                (0..100).contains(&id) && (id != 40 || seen)
            );
        }
    }
    let none: [[Value; 1]; 0] = [];
    assert!(one.get_many("t", &none).unwrap().is_empty());
    assert_eq!(one.change_many("t", &none, RowChange::Update).unwrap(), 0);
    let unknown = one.get_many("other", &keys);
    assert!(matches!(unknown, Err(Error::UnknownTable(name)) if name == "other"));
    let text: [Value; 1] = ["7".into()];
    let wrong = one.get_many("t", &[key(3), text]);
    assert!(matches!(wrong, Err(Error::Schema(_))));
    let long = one.get_many("t", &[[1.into(), 2.into()]]);
    assert!(matches!(long, Err(Error::KeyLength { .. })));
}

#[test]
fn rows_with_many_keys_are_changed_once_each_and_together() {
    let system = filled(22);
    let mut one = Transaction::begin(&system);
    let before = all(&mut one);
    let keys = [50, 3, 3, 200, 97, 50, 12].map(key);
    let mut seen = Vec::new();
    let made = one.change_many("t", &keys, |found| {
        let Value::Integer(id) = found[0] else {
            panic!("an id")
        };
        seen.push(id);
        match id {
            12 => RowChange::Keep,
            50 => RowChange::Delete,
            id => RowChange::Update(row(id, None, "many", "text")),
        }
    });
    assert_eq!((made.unwrap(), seen), (3, vec![3, 12, 50, 97]));
    let after = one.get_many("t", &keys).unwrap();
    assert_eq!(after[0], None);
    assert_eq!(after[1], Some(row(3, None, "many", "text")));
    // What fails at its last row leaves no trace of the others.
    let failed = one.change_many("t", &[key(4), key(5)], |found| match found[0] {
        Value::Integer(4) => RowChange::Delete,
        _ => RowChange::Update(row(6, None, "", "")),
    });
    assert!(matches!(failed, Err(Error::KeyChanged { .. })));
    assert!(one.get("t", &key(4)).unwrap().is_some());
    one.rollback().unwrap();
    assert_eq!(all(&mut Transaction::begin(&system)), before);
}

/// More than are kept at a time: whoever takes them into one row has each as it is.
#[test]
fn rows_of_many_keys_come_in_parts_into_one_row() {
    use std::ops::Bound::Included;

    let system = filled(23);
    let mut one = Transaction::begin(&system);
    let text = |id: i64| "x".repeat(id as usize % 7 * 20_000);
    for id in 100..300 {
        one.insert("t", row(id, None, "long", &text(id))).unwrap();
    }
    one.commit().unwrap();
    let mut two = Transaction::begin(&system);
    assert!(two.delete("t", &key(150)).unwrap());
    let ids: Vec<i64> = (0..400).rev().chain([7, 299, 150, 1000]).collect();
    let keys: Vec<[Value; 1]> = ids.iter().map(|&id| key(id)).collect();
    let both = |key: &'_ [Value; 1]| -> (Vec<Value>, Vec<Value>) { (key.to_vec(), key.to_vec()) };
    let ends: Vec<_> = keys.iter().map(both).collect();
    let ranges: Vec<_> = ends
        .iter()
        .map(|(from, to)| (Included(&from[..]), Included(&to[..])))
        .collect();
    let mut many = two.many_ranges("t", None, &ranges).unwrap();
    let (mut found, mut came) = (Vec::new(), Row::new());
    while let Some(number) = many.next_in(&mut two, &mut came).unwrap() {
        assert_eq!(came[0], ids[number].into());
        assert_eq!(two.get("t", &keys[number]).unwrap().as_ref(), Some(&came));
        found.push(number);
    }
    assert_eq!(many.next(&mut two).unwrap(), None);
    assert!(
        found.is_sorted_by_key(|&number| ids[number]),
        "in the order of the keys"
    );
    found.sort_unstable();
    let there = |&number: &usize| (0..300).contains(&ids[number]) && ids[number] != 150;
    assert_eq!(found, (0..ids.len()).filter(there).collect::<Vec<_>>());
}
