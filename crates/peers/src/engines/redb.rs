//! redb.

use super::{Database, Seen, Session, Settings};
use crate::rows::{Row, Rows};
use anyhow::Result;
use redb::{Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("t");
const INDEX: TableDefinition<'_, (u64, u64), ()> = TableDefinition::new("by_second");

pub struct Redb {
    database: redb::Database,
    indexed: bool,
    durable: bool,
}

impl Redb {
    pub fn open(settings: &Settings) -> Result<Redb> {
        let database = redb::Database::builder()
            .set_cache_size(settings.cache_bytes as usize)
            .create(settings.directory.join("t.redb"))?;
        let redb = Redb {
            database,
            indexed: settings.indexed,
            durable: settings.durable,
        };
        redb.write(|transaction| {
            transaction.open_table(TABLE)?;
            if redb.indexed {
                transaction.open_table(INDEX)?;
            }
            Ok(())
        })?;
        Ok(redb)
    }

    fn write(&self, work: impl FnOnce(&WriteTransaction) -> Result<()>) -> Result<()> {
        let mut transaction = self.database.begin_write()?;
        if !self.durable {
            transaction.set_durability(Durability::None)?;
        }
        work(&transaction)?;
        Ok(transaction.commit()?)
    }

    fn put<'r>(&self, rows: impl Iterator<Item = Row<'r>>) -> Result<()> {
        self.write(|transaction| {
            let mut table = transaction.open_table(TABLE)?;
            let mut entries = Vec::new();
            for row in rows {
                table.insert(row.key, row.value)?;
                if self.indexed {
                    entries.push((row.second, row.key));
                }
            }
            if self.indexed {
                entries.sort_unstable();
                let mut index = transaction.open_table(INDEX)?;
                for entry in entries {
                    index.insert(entry, ())?;
                }
            }
            Ok(())
        })
    }
}

impl Database for Redb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RedbSession(self)))
    }

    fn load(&self, rows: &Rows) -> Result<()> {
        self.put(rows.ascending())
    }

    fn close(self: Box<Self>) -> Result<()> {
        // What was committed without a sync needs one that has.
        Ok(self.database.begin_write()?.commit()?)
    }
}

struct RedbSession<'a>(&'a Redb);

impl Session for RedbSession<'_> {
    fn insert(&mut self, rows: &[Row<'_>]) -> Result<()> {
        self.0.put(rows.iter().copied())
    }

    fn update(&mut self, rows: &[Row<'_>]) -> Result<()> {
        self.0.write(|transaction| {
            let mut table = transaction.open_table(TABLE)?;
            for row in rows {
                table.insert(row.key, row.value)?;
            }
            Ok(())
        })
    }

    fn get(&mut self, keys: &[u64]) -> Result<Seen> {
        let transaction = self.0.database.begin_read()?;
        let table = transaction.open_table(TABLE)?;
        let mut seen = Seen::default();
        for key in keys {
            if let Some(value) = ReadableTable::get(&table, key)? {
                seen.add(value.value());
            }
        }
        Ok(seen)
    }

    fn scan(&mut self) -> Result<Seen> {
        let transaction = self.0.database.begin_read()?;
        let table = transaction.open_table(TABLE)?;
        let mut seen = Seen::default();
        for row in table.iter()? {
            seen.add(row?.1.value());
        }
        Ok(seen)
    }

    fn range(&mut self, from: u64, count: u64) -> Result<Seen> {
        let transaction = self.0.database.begin_read()?;
        let table = transaction.open_table(TABLE)?;
        let index = transaction.open_table(INDEX)?;
        let mut seen = Seen::default();
        for entry in index.range((from, 0)..(from + count, 0))? {
            let (_, key) = entry?.0.value();
            if let Some(value) = ReadableTable::get(&table, key)? {
                seen.add(value.value());
            }
        }
        Ok(seen)
    }
}
