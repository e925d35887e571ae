//! The table: how it is made, and how its store is opened for a run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use iolane::{Engine, EngineBuilder, IoPriority, Policy, WindowConfig};
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{DOUBLEWRITE_FILE, Durability, LOG_FILE, Store, StoreOptions};
use serde::Serialize;

use super::place::Place;
use super::{Setting, TableOptions};
use crate::args::choices::{IoMode, Switch};
use crate::args::store_bench::LoadOrder;
use crate::bench::load::nanoseconds;
use crate::bench::through_engine;
use crate::error::Failure;
use crate::session::Session;
use crate::store::failure::failure;
use crate::workload::offsets::Random;

pub const TABLE: &str = "t";
pub const INDEX: &str = "by_value";
/// Of one loading transaction.
const ROWS_PER_TRANSACTION: usize = 1000;
/// What a row takes beside its payload: keys, versions, its index entry.
const ROW_OVERHEAD_BYTES: u64 = 90;
/// Pages are so full when keys come in random order: ln 2.
const FILL_RANDOM: f64 = 0.69;
/// Pages split in the middle also at the right edge.
const FILL_KEY: f64 = 0.9;
/// Beside the table itself while it is loaded: undo, maps, the catalogue.
const LOAD_POOL_EXTRA_BYTES: u64 = 64 << 20;

/// What became of the loading.
#[derive(Clone, Debug, Serialize)]
pub struct TableFacts {
    pub rows: u64,
    pub order: LoadOrder,
    /// Of the files of all tablespaces.
    pub size_bytes: u64,
    pub load_ns: u64,
}

impl TableOptions {
    fn row_bytes(&self) -> f64 {
        let fill = match self.order {
            LoadOrder::Random => FILL_RANDOM,
            LoadOrder::Key => FILL_KEY,
        };
        (self.row_size_bytes + ROW_OVERHEAD_BYTES) as f64 / fill
    }

    /// Rows that take about so much.
    pub fn rows_of(&self, size_bytes: u64) -> u64 {
        ((size_bytes as f64 / self.row_bytes()) as u64).max(1)
    }

    pub fn size_bytes_about(&self) -> u64 {
        (self.rows as f64 * self.row_bytes()) as u64
    }
}

/// The store with the table, closed.
pub struct Table {
    pub place: Place,
    options: TableOptions,
    pub facts: TableFacts,
}

impl Table {
    /// Makes it.
    ///
    /// # Errors
    /// The store's, or an interruption.
    pub fn load(
        place: Place,
        options: &TableOptions,
        seed: u64,
        session: &Session,
    ) -> Result<Self, Failure> {
        let mut table = Self {
            place,
            options: options.clone(),
            facts: TableFacts {
                rows: options.rows,
                order: options.order,
                size_bytes: 0,
                load_ns: 0,
            },
        };
        let begin = Instant::now();
        table.fill(seed, session)?;
        table.facts.load_ns = nanoseconds(begin.elapsed());
        table.facts.size_bytes = table.data_files()?.iter().map(|file| file.1).sum();
        table.place.take_time();
        Ok(table)
    }

    fn fill(&self, seed: u64, session: &Session) -> Result<(), Failure> {
        let mut options = StoreOptions::default();
        let about = self.options.size_bytes_about();
        options.pages.pool_bytes = about + about / 4 + LOAD_POOL_EXTRA_BYTES;
        options.pages.log_bytes = self.options.log_size_bytes;
        options.durability = Durability::Lazy;
        self.place.name_files(&mut options);
        options.engine = Some(built(self.place.engine(Engine::builder()))?);
        let store = Store::create(self.place.path(), &options).map_err(|error| failure(&error))?;
        let schema = TableSchema::new(TABLE)
            .column("id", ColumnType::Integer)
            .column("value", ColumnType::Integer)
            .column("payload", ColumnType::Blob)
            .primary_key(["id"])
            .index(INDEX, ["value"]);
        let made = store.create_table(&schema);
        made.map_err(|error| failure(&error))?;
        let progress = session.progress.bytes(
            "loading the table",
            self.options.rows * self.options.row_size_bytes,
        );
        for chunk in self.order(seed).chunks(ROWS_PER_TRANSACTION) {
            session.stop.check()?;
            let mut transaction = store.begin();
            for &id in chunk {
                let inserted = transaction.insert(TABLE, self.row(id.into(), 0));
                inserted.map_err(|error| failure(&error))?;
            }
            transaction.commit().map_err(|error| failure(&error))?;
            progress.advance(chunk.len() as u64 * self.options.row_size_bytes);
        }
        store.close().map_err(|error| failure(&error))
    }

    /// The rows' numbers in the order of loading.
    fn order(&self, seed: u64) -> Vec<u32> {
        let mut ids: Vec<u32> = (0..self.options.rows as u32).collect();
        if self.options.order == LoadOrder::Random {
            let mut random = Random::new(seed, 0);
            for at in (1..ids.len()).rev() {
                ids.swap(at, (random.next() % (at as u64 + 1)) as usize);
            }
        }
        ids
    }

    /// A row in its `version`: versions are of the same size.
    pub fn row(&self, id: u64, version: u64) -> Row {
        let mut payload = vec![0; self.options.row_size_bytes as usize];
        // No disk gains from compressing it.
        let mut state = mix(id ^ version.rotate_left(32));
        for eight in payload.chunks_mut(8) {
            state = mix(state);
            eight.copy_from_slice(&state.to_le_bytes()[..eight.len()]);
        }
        vec![
            Value::Integer(id as i64),
            Value::Integer(value_of(id)),
            Value::Blob(payload),
        ]
    }

    pub fn rows(&self) -> u64 {
        self.options.rows
    }

    pub fn row_size_bytes(&self) -> u64 {
        self.options.row_size_bytes
    }

    /// Opens the store as a run wants it: cold, on an engine of its own.
    ///
    /// # Errors
    /// The store's.
    pub fn open(&self, setting: &Setting) -> Result<(Store, StoreOptions), Failure> {
        for (path, _) in self.data_files()? {
            self.place.drop_cached(&path).map_err(|error| {
                Failure::transfer(format!("dropping {} from memory", path.display()), error)
            })?;
        }
        let mut options = StoreOptions::default();
        options.pages.pool_bytes = self.options.pool_size_bytes;
        options.pages.log_bytes = self.options.log_size_bytes;
        options.pages.direct = setting.io == IoMode::Direct;
        options.pages.io = setting.io_policy();
        self.place.name_files(&mut options);
        options.engine = Some(built(self.place.engine(engine(setting)))?);
        let store = Store::open(self.place.path(), &options).map_err(|error| failure(&error))?;
        Ok((store, options))
    }

    /// Files of tablespaces and their sizes, the largest first.
    pub fn data_files(&self) -> Result<Vec<(PathBuf, u64)>, Failure> {
        let mut files = self.place.files_of_store()?;
        files.retain(|(path, _)| {
            let name = path.file_name().unwrap_or_default();
            name != LOG_FILE && name != DOUBLEWRITE_FILE
        });
        files.sort_by_key(|(path, bytes)| (std::cmp::Reverse(*bytes), path.clone()));
        Ok(files)
    }
}

fn built(builder: EngineBuilder) -> Result<Arc<Engine>, Failure> {
    let engine = builder.build().map_err(|error| Failure::Internal {
        message: error.to_string(),
    })?;
    Ok(Arc::new(engine))
}

/// Without priorities, what a program gets from the kernel: first come, first
/// served, as many at once as there are.
fn engine(setting: &Setting) -> EngineBuilder {
    let objective = setting.objective;
    let mut builder = Engine::builder()
        .backend(through_engine::choice(setting.backend))
        .configure(move |_, config| config.objective = objective);
    if setting.priorities == Switch::Off {
        builder = builder
            .policy(Policy::Noop)
            // The log asks for its level whatever the policy.
            .io_priority(IoPriority::Off)
            .configure(|_, config| {
                config.window = WindowConfig::Fixed(config.in_flight_max);
            });
    }
    if let Some(window) = setting.window {
        let window = u32::try_from(window).unwrap_or(u32::MAX);
        builder = builder.configure(move |_, config| config.window = WindowConfig::Fixed(window));
    }
    builder
}

/// What the secondary index is over: neighbours in it lie anywhere in the
/// table.
pub fn value_of(id: u64) -> i64 {
    (mix(id) >> 1) as i64
}

/// A bijection in which every bit depends on every other (`SplitMix64`).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_size_belong_together() {
        let mut options = TableOptions {
            rows: 0,
            row_size_bytes: 1000,
            order: LoadOrder::Random,
            pool_size_bytes: 2 << 20,
            log_size_bytes: 8 << 20,
        };
        options.rows = options.rows_of(256 << 20);
        let about = options.size_bytes_about();
        assert!(about.abs_diff(256 << 20) < 1 << 20, "{about}");
    }
}
