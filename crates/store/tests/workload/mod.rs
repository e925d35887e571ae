//! What stores of the tests hold, and the steps that change it: a model says
//! after each what must be there.
#![allow(dead_code, reason = "each test file uses a part")]

use crate::simulated::Random;
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, Error, RowChange, Store, Transaction};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Rows by their keys.
pub type Table = BTreeMap<i64, Row>;
/// What a store holds after so many commits.
pub type State = BTreeMap<String, Table>;

pub fn schema(name: &str) -> TableSchema {
    TableSchema::new(name)
        .column("id", ColumnType::Integer)
        .nullable_column("tag", ColumnType::Integer)
        .nullable_column("group", ColumnType::Text)
        .nullable_column("text", ColumnType::Text)
        .primary_key(["id"])
        .unique_index("by_tag", ["tag"])
        .index("by_group", ["group"])
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
        match random.below(7) {
            0 => change_range(random, transaction, name, table, id)?,
            1..3 => {
                let deleted = transaction.delete(name, &key)?;
                assert_eq!(deleted, table.remove(&id).is_some());
            }
            3..5 => match transaction.insert(name, row.clone()) {
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

/// Changes the rows from `from` on, some more or all, in one statement.
fn change_range(
    random: &mut Random,
    transaction: &mut Transaction<'_>,
    name: &str,
    table: &mut Table,
    from: i64,
) -> Result<(), Error> {
    let to = from + 1 + random.below(40) as i64;
    let mut seen = table.range(from..to);
    let (mut after, mut changed, mut takes) = (table.clone(), 0, false);
    let bounds = (from.into(), to.into());
    let bounds = (
        Bound::Included(std::slice::from_ref(&bounds.0)),
        Bound::Excluded(std::slice::from_ref(&bounds.1)),
    );
    let by_keys = random.below(2) == 0;
    let keys: Vec<[Value; 1]> = (from..to).map(|id| [id.into()]).collect();
    let change = |row: Row| {
        let (&id, expected) = seen.next().expect("no more rows than there are");
        assert_eq!(row, *expected);
        let mut new = random_row(random, id);
        match random.below(8) {
            0 => return RowChange::Keep,
            1 => {
                changed += 1;
                after.remove(&id);
                return RowChange::Delete;
            }
            // Mostly a statement can succeed.
            2 => takes |= new[1] != row[1] && new[1] != Value::Null,
            _ => new[1] = row[1].clone(),
        }
        changed += 1;
        after.insert(id, new.clone());
        RowChange::Update(new)
    };
    let result = if by_keys {
        transaction.change_many(name, &keys, change)
    } else {
        transaction.change_range(name, bounds, change)
    };
    match result {
        Ok(count) => {
            assert_eq!(count, changed);
            assert!(seen.next().is_none());
            *table = after;
        }
        Err(Error::Duplicate { .. }) => assert!(takes, "no row got another tag"),
        Err(error) => return Err(error),
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
        7 => {
            store.checkpoint()?;
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

/// A table that the steps leave alone.
pub const FILLER: &str = "filler";

/// Makes it in an empty store, with rows that take some pages each, and calls
/// `after` with the state after each commit.
pub fn fill(store: &Store, rows: i64, mut after: impl FnMut(&State)) -> Result<State, Stopped> {
    store.create_table(&schema(FILLER)).map_err(in_doubt)?;
    let mut state = State::from([(FILLER.to_owned(), Table::new())]);
    after(&state);
    let text = "f".repeat(9000);
    for id in 0..rows {
        let mut one = store.begin();
        let row = vec![id.into(), id.into(), FILLER.into(), text.as_str().into()];
        one.insert(FILLER, row.clone())?;
        one.commit().map_err(in_doubt)?;
        state.entry(FILLER.to_owned()).or_default().insert(id, row);
        after(&state);
    }
    Ok(state)
}

/// Runs steps on a store with `state` and calls `after` with the state after
/// each of them. The same seed gives the same states.
pub fn run(
    store: &Store,
    mut state: State,
    seed: u64,
    steps: u64,
    mut after: impl FnMut(&State),
) -> Result<(), Stopped> {
    let mut random = Random(seed);
    for _ in 0..steps {
        step(store, &mut random, &mut state)?;
        after(&state);
        if random.below(10) == 0
            && let Some((name, table)) = state.last_key_value()
        {
            // One that is running when the power fails, for a while.
            let mut running = store.begin();
            change(&mut random, &mut running, name, &mut table.clone(), 8)?;
        }
        if let Some(filler) = state.get(FILLER) {
            let (id, row) = filler
                .iter()
                .nth(random.below(filler.len() as u64) as usize)
                .expect("it has rows");
            let found = store.begin().get(FILLER, &[(*id).into()])?;
            assert_eq!(found.as_ref(), Some(row));
        }
    }
    Ok(())
}

/// What an open store holds, read in the order of every index.
pub fn read(store: &Store) -> State {
    try_read(store).unwrap()
}

/// The same, if everything can be read.
pub fn try_read(store: &Store) -> Result<State, Error> {
    let mut state = State::new();
    if let Some(damaged) = store.damaged_tables().into_iter().next() {
        return Err(damaged.into());
    }
    for schema in store.tables() {
        let name = schema.name;
        let mut transaction = store.begin();
        let collect = |rows: iolane_store::Rows<'_, '_>| -> Result<Table, Error> {
            rows.map(|row| {
                let row = row?;
                match row[0] {
                    Value::Integer(id) => Ok((id, row)),
                    _ => panic!("an id"),
                }
            })
            .collect()
        };
        let rows = collect(transaction.range(&name, .., Direction::Forward)?)?;
        for index in ["by_tag", "by_group"] {
            let by = transaction.range_by(&name, index, .., Direction::Backward)?;
            assert_eq!(collect(by)?, rows, "{index} of {name}");
        }
        state.insert(name, rows);
    }
    Ok(state)
}
