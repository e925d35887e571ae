//! LMDB, through heed.

use super::{Database, Seen, Session, Settings};
use crate::rows::{Row, Rows};
use crate::sys::open_lmdb;
use anyhow::Result;
use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64, U128, Unit};
use heed::{Env, PutFlags, RwTxn};

type Table = heed::Database<U64<BigEndian>, Bytes>;
type Index = heed::Database<U128<BigEndian>, Unit>;

/// Address space, and the largest database; files grow as needed.
const MAP_BYTES: usize = 8 << 30;

pub struct Lmdb {
    env: Env,
    table: Table,
    index: Option<Index>,
}

impl Lmdb {
    pub fn open(settings: &Settings) -> Result<Lmdb> {
        let env = open_lmdb(&settings.directory, MAP_BYTES, settings.durable)?;
        let mut transaction = env.write_txn()?;
        let table = env.create_database(&mut transaction, Some("t"))?;
        let index = if settings.indexed {
            Some(env.create_database(&mut transaction, Some("by_second"))?)
        } else {
            None
        };
        transaction.commit()?;
        Ok(Lmdb { env, table, index })
    }

    fn put(&self, transaction: &mut RwTxn<'_>, row: &Row<'_>) -> Result<()> {
        let flags = PutFlags::NO_OVERWRITE;
        self.table
            .put_with_flags(transaction, flags, &row.key, row.value)?;
        if let Some(index) = &self.index {
            index.put(transaction, &entry(row.second, row.key), &())?;
        }
        Ok(())
    }
}

/// Index entries are ordered by the second key, then by the first.
fn entry(second: u64, key: u64) -> u128 {
    u128::from(second) << 64 | u128::from(key)
}

impl Database for Lmdb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(LmdbSession(self)))
    }

    fn load(&self, rows: &Rows) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for row in rows.ascending() {
            let flags = PutFlags::APPEND;
            self.table
                .put_with_flags(&mut transaction, flags, &row.key, row.value)?;
        }
        if let Some(index) = &self.index {
            let mut entries: Vec<u128> = rows
                .ascending()
                .map(|row| entry(row.second, row.key))
                .collect();
            entries.sort_unstable();
            for entry in entries {
                index.put_with_flags(&mut transaction, PutFlags::APPEND, &entry, &())?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.force_sync()?;
        // It could be opened again before the last reader is gone.
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}

struct LmdbSession<'a>(&'a Lmdb);

impl Session for LmdbSession<'_> {
    fn insert(&mut self, rows: &[Row<'_>]) -> Result<()> {
        let mut transaction = self.0.env.write_txn()?;
        for row in rows {
            self.0.put(&mut transaction, row)?;
        }
        Ok(transaction.commit()?)
    }

    fn update(&mut self, rows: &[Row<'_>]) -> Result<()> {
        let mut transaction = self.0.env.write_txn()?;
        for row in rows {
            self.0.table.put(&mut transaction, &row.key, row.value)?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&mut self, keys: &[u64]) -> Result<Seen> {
        let transaction = self.0.env.read_txn()?;
        let mut seen = Seen::default();
        for key in keys {
            if let Some(value) = self.0.table.get(&transaction, key)? {
                seen.add(value);
            }
        }
        Ok(seen)
    }

    fn scan(&mut self) -> Result<Seen> {
        let transaction = self.0.env.read_txn()?;
        let mut seen = Seen::default();
        for row in self.0.table.iter(&transaction)? {
            seen.add(row?.1);
        }
        Ok(seen)
    }

    fn range(&mut self, from: u64, count: u64) -> Result<Seen> {
        let mut seen = Seen::default();
        let Some(index) = &self.0.index else {
            return Ok(seen);
        };
        let transaction = self.0.env.read_txn()?;
        let bounds = entry(from, 0)..entry(from + count, 0);
        for found in index.range(&transaction, &bounds)? {
            let key = found?.0 as u64;
            if let Some(value) = self.0.table.get(&transaction, &key)? {
                seen.add(value);
            }
        }
        Ok(seen)
    }
}
