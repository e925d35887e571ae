//! How many tables a store takes, and how soon it is open with them.
//!
//! `cargo run --release -p iolane-store --example many_tables -- DIRECTORY
//! [TABLES [POOL_MIB]]`, with few descriptors after `ulimit -n 512`.

use iolane_store::data::{ColumnType, TableSchema};
use iolane_store::{Durability, Error, Store, StoreOptions};
use std::path::Path;
use std::time::Instant;

fn name(number: u64) -> String {
    format!("t{number}")
}

fn on_disk(directory: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut blocks = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("table-") {
            blocks += entry.metadata()?.blocks();
        }
    }
    Ok(blocks * 512)
}

fn descriptors() -> std::io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/fd")?.count())
}

/// Puts a row into each table, and says how long that took.
fn touch_all(store: &Store, tables: u64, id: i64) -> Result<(), Error> {
    let begun = Instant::now();
    for number in 0..tables {
        let mut transaction = store.begin();
        transaction.insert(&name(number), vec![id.into(), "x".into()])?;
        transaction.commit_with(Durability::Lazy)?;
    }
    println!("a row into each: {:.2} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("which directory?")?;
    let tables: u64 = arguments.next().map_or(Ok(10_000), |it| it.parse())?;
    let pool_mib: u64 = arguments.next().map_or(Ok(128), |it| it.parse())?;
    let directory = Path::new(&directory).join("many-tables");
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = pool_mib << 20;
    let begun = Instant::now();
    let store = Store::create(&directory, &options)?;
    for number in 0..tables {
        let schema = TableSchema::new(&name(number))
            .column("id", ColumnType::Integer)
            .column("text", ColumnType::Text)
            .primary_key(["id"])
            .index("by_text", ["text"]);
        store.create_table(&schema)?;
    }
    println!(
        "{tables} tables made: {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    println!(
        "on the disk, each: {} KiB",
        on_disk(&directory)? / tables / 1024
    );
    store.close()?;
    for _ in 0..3 {
        let begun = Instant::now();
        let store = Store::open(&directory, &options)?;
        let opened = begun.elapsed();
        println!("opened: {:.3} s", opened.as_secs_f64());
        store.close()?;
    }
    let store = Store::open(&directory, &options)?;
    touch_all(&store, tables, 1)?;
    touch_all(&store, tables, 2)?;
    println!("descriptors: {}", descriptors()?);
    let begun = Instant::now();
    let report = store.check()?;
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "checked: {seconds:.1} s, {} rows, clean: {}",
        report.rows,
        report.is_clean()
    );
    drop(store);
    let begun = Instant::now();
    let store = Store::open(&directory, &options)?;
    println!("opened: {:.3} s", begun.elapsed().as_secs_f64());
    store.close()?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
