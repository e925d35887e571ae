//! RocksDB, the library that the system has.

use super::{Database, Seen, Session, Settings};
use crate::rows::{Row, Rows};
use anyhow::{Context, Result};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompressionType,
    IngestExternalFileOptions, Options, ReadOptions, SstFileWriter, WriteBatch, WriteOptions,
};
use std::path::PathBuf;

const INDEX: &str = "by_second";
/// The default family.
const TABLE: &str = "default";
/// Bits per key that its documentation recommends: 1 % false positives.
const BLOOM_BITS: f64 = 10.0;
/// Keys looked up by one call in a range of the index.
const LOOKUPS: usize = 256;

pub struct RocksDb {
    database: DB,
    options: Options,
    directory: PathBuf,
    indexed: bool,
    durable: bool,
}

impl RocksDb {
    pub fn open(settings: &Settings) -> Result<RocksDb> {
        let options = options(settings)?;
        let path = settings.directory.join("db");
        let families = [TABLE, INDEX];
        let families = if settings.indexed {
            &families[..]
        } else {
            &families[..1]
        };
        let families = families
            .iter()
            .map(|&name| ColumnFamilyDescriptor::new(name, options.clone()));
        Ok(RocksDb {
            database: DB::open_cf_descriptors(&options, path, families)?,
            options,
            directory: settings.directory.clone(),
            indexed: settings.indexed,
            durable: settings.durable,
        })
    }

    fn index(&self) -> Result<&rocksdb::ColumnFamily> {
        self.database.cf_handle(INDEX).context("no index")
    }

    fn write(&self, batch: WriteBatch) -> Result<()> {
        let mut options = WriteOptions::default();
        options.set_sync(self.durable);
        options.disable_wal(!self.durable);
        Ok(self.database.write_opt(batch, &options)?)
    }

    /// Writes sorted pairs to a table file, and makes it part of a family.
    fn ingest<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        family: &str,
        pairs: impl Iterator<Item = (K, V)>,
    ) -> Result<()> {
        let path = self.directory.join(format!("{family}.sst"));
        let mut writer = SstFileWriter::create(&self.options);
        writer.open(&path)?;
        for (key, value) in pairs {
            writer.put(key, value)?;
        }
        writer.finish()?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        let family = self.database.cf_handle(family).context("no family")?;
        self.database
            .ingest_external_file_cf_opts(family, &options, vec![path])?;
        Ok(())
    }
}

fn options(settings: &Settings) -> Result<Options> {
    let mut blocks = BlockBasedOptions::default();
    blocks.set_block_cache(&Cache::new_lru_cache(settings.cache_bytes as usize)?);
    blocks.set_bloom_filter(BLOOM_BITS, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_block_based_table_factory(&blocks);
    // As the others: values do not compress.
    options.set_compression_type(DBCompressionType::None);
    options.set_use_direct_reads(settings.direct);
    options.set_use_direct_io_for_flush_and_compaction(settings.direct);
    options.increase_parallelism(2);
    Ok(options)
}

fn entry(second: u64, key: u64) -> [u8; 16] {
    (u128::from(second) << 64 | u128::from(key)).to_be_bytes()
}

impl Database for RocksDb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(RocksDbSession {
            database: self,
            reading: ReadOptions::default(),
        }))
    }

    fn load(&self, rows: &Rows) -> Result<()> {
        let pairs = rows
            .ascending()
            .map(|row| (row.key.to_be_bytes(), row.value));
        self.ingest(TABLE, pairs)?;
        if self.indexed {
            let mut entries: Vec<[u8; 16]> = rows
                .ascending()
                .map(|row| entry(row.second, row.key))
                .collect();
            entries.sort_unstable();
            self.ingest(INDEX, entries.iter().map(|entry| (entry, [])))?;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        if !self.durable {
            self.database.flush()?;
            if self.indexed {
                self.database.flush_cf(self.index()?)?;
            }
        }
        self.database.cancel_all_background_work(true);
        Ok(())
    }
}

struct RocksDbSession<'a> {
    database: &'a RocksDb,
    /// Made once: each one is an allocation of the library's.
    reading: ReadOptions,
}

impl Session for RocksDbSession<'_> {
    fn insert(&mut self, rows: &[Row<'_>]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for row in rows {
            batch.put(row.key.to_be_bytes(), row.value);
            if self.database.indexed {
                batch.put_cf(self.database.index()?, entry(row.second, row.key), []);
            }
        }
        self.database.write(batch)
    }

    fn update(&mut self, rows: &[Row<'_>]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for row in rows {
            batch.put(row.key.to_be_bytes(), row.value);
        }
        self.database.write(batch)
    }

    fn get(&mut self, keys: &[u64]) -> Result<Seen> {
        let mut seen = Seen::default();
        let database = &self.database.database;
        if let [key] = keys {
            if let Some(value) = database.get_pinned_opt(key.to_be_bytes(), &self.reading)? {
                seen.add(&value);
            }
            return Ok(seen);
        }
        let snapshot = database.snapshot();
        let mut options = ReadOptions::default();
        options.set_snapshot(&snapshot);
        for key in keys {
            if let Some(value) = database.get_pinned_opt(key.to_be_bytes(), &options)? {
                seen.add(&value);
            }
        }
        Ok(seen)
    }

    fn scan(&mut self) -> Result<Seen> {
        let mut seen = Seen::default();
        let mut rows = self.database.database.raw_iterator();
        rows.seek_to_first();
        while let Some(value) = rows.value() {
            seen.add(value);
            rows.next();
        }
        rows.status()?;
        Ok(seen)
    }

    fn range(&mut self, from: u64, count: u64) -> Result<Seen> {
        let database = &self.database.database;
        let mut seen = Seen::default();
        let mut entries = database.raw_iterator_cf(self.database.index()?);
        entries.seek(entry(from, 0));
        let end = entry(from + count, 0);
        let mut keys: Vec<Vec<u8>> = Vec::with_capacity(LOOKUPS);
        loop {
            let found = entries.key().filter(|found| **found < end[..]);
            if let Some(found) = found {
                keys.push(found[8..].to_vec());
            }
            let last = found.is_none();
            if last || keys.len() == LOOKUPS {
                let table = database.cf_handle(TABLE).context("no table")?;
                for value in database.batched_multi_get_cf(table, keys.iter(), false) {
                    if let Some(value) = value? {
                        seen.add(&value);
                    }
                }
                keys.clear();
            }
            if last {
                break;
            }
            entries.next();
        }
        entries.status()?;
        Ok(seen)
    }
}
