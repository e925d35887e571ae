//! What stores of the tests hold, and the steps that change it: a model says
//! after each what must be there.
#![allow(dead_code, reason = "each test file uses a part")]

use crate::simulated::Random;
use iolane_store::data::{Column, ColumnType, Index, Row, TableSchema, Value};
use iolane_store::{Direction, Error, Store, Transaction};
use std::collections::BTreeMap;

/// Rows by their keys.
pub type Table = BTreeMap<i64, Row>;
/// What a store holds after so many commits.
pub type State = BTreeMap<String, Table>;

pub fn schema(name: &str) -> TableSchema {
    let column = |name: &str, column_type, nullable| Column {
        name: name.into(),
        column_type,
        nullable,
    };
    let index = |name: &str, column: &str, unique| Index {
        name: name.into(),
        columns: vec![column.into()],
        unique,
    };
    TableSchema {
        name: name.into(),
        columns: vec![
            column("id", ColumnType::Integer, false),
            column("tag", ColumnType::Integer, true),
            column("group", ColumnType::Text, true),
            column("text", ColumnType::Text, true),
        ],
        primary_key: vec!["id".into()],
        indexes: vec![
            index("by_tag", "tag", true),
            index("by_group", "group", false),
        ],
    }
}

pub fn random_row(random: &mut Random, id: i64) -> Row {
    let tag = random.below(4) > 0;
    let tag = tag.then(|| random.below(60) as i64);
    let group = format!("group {}", random.below(5));
    let length = match random.below(12) {
        0 => 3000 + random.below(20_000),
        1..4 => 300 + random.below(500),
        _ => random.below(30),
    };
    let letter = char::from(b'a' + random.below(26) as u8);
    let text: String = std::iter::repeat_n(letter, length as usize).collect();
    vec![id.into(), tag.into(), group.into(), text.into()]
}

/// Why a step stopped, and whether what it was to commit may be there.
#[derive(Debug)]
pub struct Stopped {
    pub error: Error,
    pub in_doubt: bool,
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped {
            error,
            in_doubt: false,
        }
    }
}

fn in_doubt(error: Error) -> Stopped {
    Stopped {
        error,
        in_doubt: true,
    }
}

/// Changes some rows of a table, in the transaction and in `table`.
pub fn change(
    random: &mut Random,
    transaction: &mut Transaction<'_>,
    name: &str,
    table: &mut Table,
    count: u64,
) -> Result<(), Error> {
    for _ in 0..count {
        let id = random.below(40) as i64;
        let row = random_row(random, id);
        let key = [id.into()];
        match random.below(3) {
            0 => {
                let deleted = transaction.delete(name, &key)?;
                assert_eq!(deleted, table.remove(&id).is_some());
            }
            1 => match transaction.insert(name, row.clone()) {
                Ok(()) => assert_eq!(table.insert(id, row), None),
                Err(Error::Duplicate { .. }) => {}
                Err(error) => return Err(error),
            },
            _ => match transaction.update(name, row.clone()) {
                Ok(true) => assert!(table.insert(id, row).is_some()),
                Ok(false) => assert!(!table.contains_key(&id)),
                Err(Error::Duplicate { .. }) => {}
                Err(error) => return Err(error),
            },
        }
    }
    Ok(())
}

/// One step: what it commits, and what it does beside that.
pub fn step(store: &Store, random: &mut Random, state: &mut State) -> Result<(), Stopped> {
    let name = format!("t{}", random.below(3));
    let Some(table) = state.get_mut(&name) else {
        store.create_table(&schema(&name)).map_err(in_doubt)?;
        state.insert(name, Table::new());
        return Ok(());
    };
    match random.below(20) {
        0 => {
            store.drop_table(&name).map_err(in_doubt)?;
            state.remove(&name);
            return Ok(());
        }
        1..5 => {
            store.purge(random.below(100) as usize)?;
        }
        5 | 6 => {
            // Rolled back: nobody must ever see it.
            let mut undone = store.begin();
            let count = 1 + random.below(10);
            change(random, &mut undone, &name, &mut table.clone(), count)?;
            undone.rollback()?;
        }
        _ => {}
    }
    let mut transaction = store.begin();
    let count = 1 + random.below(12);
    change(random, &mut transaction, &name, table, count)?;
    if random.below(3) == 0 {
        let savepoint = transaction.savepoint()?;
        let count = 1 + random.below(12);
        change(random, &mut transaction, &name, &mut table.clone(), count)?;
        transaction.rollback_to(savepoint)?;
        change(random, &mut transaction, &name, table, 2)?;
    }
    transaction.commit().map_err(in_doubt)
}

/// Runs steps on an empty store and calls `after` with the state after each of
/// them, counted from 0: the store without tables. The same seed gives the
/// same states.
pub fn run(
    store: &Store,
    seed: u64,
    steps: u64,
    mut after: impl FnMut(u64, &State),
) -> Result<(), Stopped> {
    let mut random = Random(seed);
    let mut state = State::new();
    after(0, &state);
    for number in 1..=steps {
        step(store, &mut random, &mut state)?;
        after(number, &state);
        if random.below(10) == 0
            && let Some((name, table)) = state.first_key_value()
        {
            // One that is running when the power fails, for a while.
            let mut running = store.begin();
            change(&mut random, &mut running, name, &mut table.clone(), 8)?;
        }
    }
    Ok(())
}

/// What an open store holds, read in the order of every index.
pub fn read(store: &Store) -> State {
    let mut state = State::new();
    for schema in store.tables() {
        let name = schema.name;
        let mut transaction = store.begin();
        let collect = |rows: iolane_store::Rows<'_, '_>| -> Table {
            rows.map(|row| {
                let row = row.unwrap();
                match row[0] {
                    Value::Integer(id) => (id, row),
                    _ => panic!("an id"),
                }
            })
            .collect()
        };
        let rows = collect(transaction.range(&name, .., Direction::Forward).unwrap());
        for index in ["by_tag", "by_group"] {
            let by = transaction
                .range_by(&name, index, .., Direction::Backward)
                .unwrap();
            assert_eq!(collect(by), rows, "{index} of {name}");
        }
        state.insert(name, rows);
    }
    state
}
