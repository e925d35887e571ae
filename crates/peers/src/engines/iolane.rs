//! iolane-store.

use super::{Database, Seen, Session, Settings};
use crate::rows::{Row, Rows};
use anyhow::Result;
use iolane_store::data::{ColumnType, Row as StoreRow, TableSchema, Value};
use iolane_store::{Direction, Durability, RowChange, Store, StoreOptions, Transaction};
use std::ops::Bound;

const TABLE: &str = "t";
const INDEX: &str = "by_second";

pub struct Iolane {
    store: Store,
    indexed: bool,
}

impl Iolane {
    pub fn open(settings: &Settings) -> Result<Iolane> {
        let mut options = StoreOptions::default();
        options.pages.pool_bytes = settings.cache_bytes;
        options.pages.log_bytes = settings.log_bytes;
        options.pages.direct = settings.direct;
        options.durability = if settings.durable {
            Durability::Synced
        } else {
            Durability::Lazy
        };
        let path = settings.directory.join("store");
        let store = if path.exists() {
            Store::open(&path, &options)?
        } else {
            let store = Store::create(&path, &options)?;
            store.create_table(&schema(settings.indexed))?;
            store
        };
        Ok(Iolane {
            store,
            indexed: settings.indexed,
        })
    }
}

fn schema(indexed: bool) -> TableSchema {
    let table = TableSchema::new(TABLE).column("id", ColumnType::Integer);
    let table = if indexed {
        table
            .column("second", ColumnType::Integer)
            .index(INDEX, ["second"])
    } else {
        table
    };
    table.column("value", ColumnType::Blob).primary_key(["id"])
}

fn number(number: u64) -> Value {
    Value::Integer(number as i64)
}

fn values(row: &Row<'_>, indexed: bool) -> StoreRow {
    let value = Value::Blob(row.value.to_vec());
    if indexed {
        vec![number(row.key), number(row.second), value]
    } else {
        vec![number(row.key), value]
    }
}

fn add(seen: &mut Seen, row: &StoreRow) {
    if let Some(Value::Blob(value)) = row.last() {
        seen.add(value);
    }
}

impl Database for Iolane {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(IolaneSession(self)))
    }

    fn load(&self, rows: &Rows) -> Result<()> {
        let indexed = self.indexed;
        self.store
            .bulk_load(TABLE, rows.ascending().map(|row| values(&row, indexed)))?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.store.close()?)
    }
}

fn scan(mut transaction: Transaction<'_>) -> Result<Seen> {
    let mut seen = Seen::default();
    for row in transaction.range(TABLE, .., Direction::Forward)? {
        add(&mut seen, &row?);
    }
    Ok(seen)
}

struct IolaneSession<'a>(&'a Iolane);

impl Session for IolaneSession<'_> {
    fn insert(&mut self, rows: &[Row<'_>]) -> Result<()> {
        let mut transaction = self.0.store.begin();
        for row in rows {
            transaction.insert(TABLE, values(row, self.0.indexed))?;
        }
        Ok(transaction.commit()?)
    }

    /// Many are changed as a range: their keys follow each other.
    fn update(&mut self, rows: &[Row<'_>]) -> Result<()> {
        let mut transaction = self.0.store.begin();
        match rows {
            [] => {}
            [row] => {
                transaction.update(TABLE, values(row, self.0.indexed))?;
            }
            [first, .., last] => {
                let (from, to) = ([number(first.key)], [number(last.key)]);
                let bounds = (Bound::Included(&from[..]), Bound::Included(&to[..]));
                let mut rows = rows.iter();
                transaction.change_range(TABLE, bounds, |_| match rows.next() {
                    Some(row) => RowChange::Update(values(row, self.0.indexed)),
                    None => RowChange::Keep,
                })?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&mut self, keys: &[u64]) -> Result<Seen> {
        let mut transaction = self.0.store.begin();
        let mut seen = Seen::default();
        for &key in keys {
            if let Some(row) = transaction.get(TABLE, &[number(key)])? {
                add(&mut seen, &row);
            }
        }
        Ok(seen)
    }

    fn scan(&mut self) -> Result<Seen> {
        scan(self.0.store.begin())
    }

    fn scan_behind(&mut self) -> Result<Seen> {
        scan(self.0.store.begin_bulk())
    }

    fn range(&mut self, from: u64, count: u64) -> Result<Seen> {
        let mut transaction = self.0.store.begin();
        let (first, last) = ([number(from)], [number(from + count - 1)]);
        let bounds = (
            std::ops::Bound::Included(&first[..]),
            std::ops::Bound::Included(&last[..]),
        );
        let mut seen = Seen::default();
        for row in transaction.range_by(TABLE, INDEX, bounds, Direction::Forward)? {
            add(&mut seen, &row?);
        }
        Ok(seen)
    }
}
