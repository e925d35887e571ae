//! The engine's futures on tokio: a commit log is written and made durable while
//! tasks scan a table in the background, and a query promotes what it needs.
//! Nothing of tokio's knows the engine: a `Pending` is a future like any other.
//!
//! `cargo run --release -p iolane --example on_tokio -- FOLDER`

use iolane::{Buffer, Completion, Engine, File, Level, OpenOptions, Operation};
use std::error::Error;
use std::path::Path;

/// What tasks may return.
type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PAGE: usize = 16 << 10;
const PAGES: u64 = 256;
const SCANS: u64 = 4;
const COMMITS: u64 = 32;

fn main() -> Fallible<()> {
    let folder = std::env::args_os().nth(1).ok_or("which folder?")?;
    let (pages, commits) = run(Path::new(&folder))?;
    println!("{pages} pages scanned beside {commits} commits");
    Ok(())
}

/// Pages scanned and commits made, in files of this folder.
pub fn run(folder: &Path) -> Fallible<(u64, u64)> {
    let engine = Engine::new()?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    let table = engine.open(folder.join("table"), &options)?;
    let log = engine.open(folder.join("log"), &options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()?;
    runtime.block_on(async {
        load(&table).await?;
        let scans: Vec<_> = (0..SCANS)
            .map(|part| tokio::spawn(scan(table.clone(), part)))
            .collect();
        let committed = tokio::spawn(commit(log));
        query(&table).await?;
        let mut pages = 0;
        for scan in scans {
            pages += scan.await??;
        }
        Ok((pages, committed.await??))
    })
}

/// Page n holds the number n modulo 251.
async fn load(table: &File) -> Fallible<()> {
    for page in 0..PAGES {
        let contents = vec![(page % 251) as u8; PAGE];
        table
            .write(contents, page * PAGE as u64, Level::Normal)?
            .await
            .result?;
    }
    Ok(())
}

/// A part of the table, the next page on its way while one is looked at.
async fn scan(table: File, part: u64) -> Fallible<u64> {
    let mut pages = part * PAGES / SCANS..(part + 1) * PAGES / SCANS;
    let read = |page: u64, buffer| table.read(buffer, page * PAGE as u64, Level::Prefetch);
    let mut scanned = 0;
    let mut ahead = match pages.next() {
        Some(first) => Some((first, read(first, Buffer::new(PAGE))?)),
        None => None,
    };
    while let Some((page, pending)) = ahead.take() {
        if let Some(next) = pages.next() {
            ahead = Some((next, read(next, Buffer::new(PAGE))?));
        }
        let Completion { result, buffer } = pending.await;
        if result? != PAGE || buffer[0] != (page % 251) as u8 {
            return Err(format!("page {page} is not what was written").into());
        }
        scanned += 1;
    }
    Ok(scanned)
}

/// Records are appended one by one, each durable before the next.
async fn commit(log: File) -> Fallible<u64> {
    for number in 0..COMMITS {
        let record = number.to_le_bytes().to_vec();
        log.write(record, number * 8, Level::Critical)?
            .await
            .result?;
        log.submit_sync(Operation::SyncData, Level::Critical)?
            .await
            .result?;
    }
    Ok(COMMITS)
}

/// Read ahead at first, and then waited for.
async fn query(table: &File) -> Fallible<()> {
    let ahead = table.read(Buffer::new(PAGE), 7 * PAGE as u64, Level::Prefetch)?;
    ahead.promote(Level::Foreground);
    let page = ahead.await;
    page.result?;
    assert_eq!(page.buffer[PAGE - 1], 7);
    Ok(())
}
