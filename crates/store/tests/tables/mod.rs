//! A disk, a pool, and a table on them.
#![allow(dead_code, reason = "each test file uses a part")]

use crate::simulated::{DIRECTORY, options};
use iolane::{Arena, Device, SimulatedDisk};
use iolane_disk::model::{Constant, ConstantParameters};
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{IndexReadAhead, IoPolicy, PoolStatistics, ScanReadAhead, Store, StoreOptions};

pub const PAGE: usize = 4096;
/// What a row takes on a page that is full, about.
pub const ROW: usize = 256;
pub const NONE: IoPolicy = IoPolicy {
    scan: ScanReadAhead::None,
    index: IndexReadAhead::None,
    ..IoPolicy::AGGRESSIVE
};

/// A disk and a pool of `frames` pages for one store after the other.
pub struct Rig {
    pub disk: SimulatedDisk,
    pub arena: Arena,
    pub frames: usize,
}

impl Rig {
    pub fn new(frames: usize) -> Rig {
        Rig::on(frames, SimulatedDisk::builder().build().unwrap())
    }

    /// On a disk that takes its time, so that reads are outstanding for a while.
    pub fn slow(frames: usize, latency_us: u64) -> Rig {
        let disk = SimulatedDisk::builder().model(constant(latency_us));
        Rig::on(frames, disk.build().unwrap())
    }

    pub fn on(frames: usize, disk: SimulatedDisk) -> Rig {
        // Beside the pool there is what the flusher needs.
        let bytes = (frames * PAGE) as u64 + (16 << 20);
        let arena = Arena::builder().bytes(bytes).build().unwrap();
        Rig {
            disk,
            arena,
            frames,
        }
    }

    pub fn options(&self, io: IoPolicy) -> StoreOptions {
        let mut options = options(&self.disk, &self.arena);
        options.pages.pool_bytes = (self.frames * PAGE) as u64;
        options.pages.log_bytes = 8 << 20;
        options.pages.io = io;
        options
    }

    pub fn open(&self, io: IoPolicy) -> (Store, Device) {
        let options = self.options(io);
        let engine = options.engine.clone().unwrap();
        let store = Store::open(DIRECTORY, &options).unwrap();
        let device = engine.devices().into_iter().next().unwrap();
        (store, device)
    }

    /// A store of a table with so many rows, in order of their keys or not.
    pub fn filled(self, rows: i64, in_order: bool) -> Rig {
        let store = Store::create(DIRECTORY, &self.options(NONE)).unwrap();
        let schema = TableSchema::new("t")
            .column("id", ColumnType::Integer)
            .column("other", ColumnType::Integer)
            .column("filler", ColumnType::Blob)
            .primary_key(["id"])
            .index("by_other", ["other"]);
        store.create_table(&schema).unwrap();
        if in_order {
            store
                .bulk_load("t", (0..rows).map(|id| row(id, rows)))
                .unwrap();
        } else {
            for chunk in (0..rows).collect::<Vec<_>>().chunks(200) {
                let mut transaction = store.begin();
                for &number in chunk {
                    transaction
                        .insert("t", row(scattered(number, rows), rows))
                        .unwrap();
                }
                transaction.commit().unwrap();
            }
        }
        store.close().unwrap();
        self
    }
}

pub fn constant(latency_us: u64) -> Box<Constant> {
    let model = Constant::new(ConstantParameters {
        capacity_bytes: 1 << 34,
        queue_max: 8,
        latency_ns: latency_us * 1000,
    });
    Box::new(model.unwrap())
}

pub fn scattered(number: i64, rows: i64) -> i64 {
    number * 12_347 % rows
}

pub fn row(id: i64, rows: i64) -> Row {
    vec![
        id.into(),
        scattered(id, rows).into(),
        Value::Blob(filler(id)),
    ]
}

/// Found in no other row.
pub fn filler(id: i64) -> Vec<u8> {
    format!("{id:08}").repeat((ROW - 40) / 8).into_bytes()
}

pub fn pool(store: &Store) -> PoolStatistics {
    store.statistics().pages.pool
}
