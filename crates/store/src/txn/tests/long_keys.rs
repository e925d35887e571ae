//! Keys that no row can have.

use super::basics::filled;
use super::*;
use crate::data::KEY_BYTES_MAX;
use crate::tree::Direction::Forward;
use crate::txn::WhenLocked;
use crate::txn::locks::LockMode;
use std::ops::Bound;

#[test]
fn no_row_has_a_key_that_is_too_long() {
    let system = filled(7);
    let schema = TableSchema::new("named").column("name", ColumnType::Text);
    system.create_table(&schema.primary_key(["name"])).unwrap();
    let long: [Value; 1] = ["x".repeat(KEY_BYTES_MAX + 1).into()];
    let mut one = Transaction::begin(&system);
    let mut two = Transaction::begin(&system);
    one.insert("named", vec!["x".into()]).unwrap();
    one.insert("named", vec!["y".into()]).unwrap();
    one.commit().unwrap();
    assert_eq!(two.get("named", &long).unwrap(), None);
    assert_eq!(
        two.lock_row("named", &long, LockMode::Exclusive, WhenLocked::Wait)
            .unwrap(),
        None
    );
    assert!(!two.delete("named", &long).unwrap());
    let bounds = (Bound::Included(&long[..]), Bound::Unbounded);
    let rows = two.range("named", bounds, Forward).unwrap();
    let names: Vec<Row> = rows.map(Result::unwrap).collect();
    assert_eq!(names, [vec![Value::from("y")]]);
    let bounds = (Bound::Unbounded, Bound::Excluded(&long[..]));
    assert_eq!(two.range("named", bounds, Forward).unwrap().count(), 1);
    let bounds = (Bound::Included(&long[..]), Bound::Included(&long[..]));
    assert_eq!(
        two.range_by("t", "by_group", bounds, Forward)
            .unwrap()
            .count(),
        0
    );
}
