//! Memory that an engine takes, against what it was given.
//!
//! Each engine is measured in a process of its own: what others have left in
//! the allocator is not its.

use super::{Bench, Experiment};
use crate::engines::{self, Kind, Settings};
use crate::process;
use crate::report::Sample;
use crate::rows::{Random, Rows};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Transactions of one row each, after the scan.
const TRANSACTIONS: u64 = 2000;

pub struct Memory {
    pub rows: Rows,
    pub cache_bytes: u64,
}

impl Memory {
    const DATABASE: &str = "memory";
}

/// The part that runs in a process of its own: its input, as JSON.
#[derive(Serialize, Deserialize)]
pub struct MemoryOf {
    engine: Kind,
    directory: PathBuf,
    cache_bytes: u64,
    log_bytes: u64,
    rows: u64,
}

/// Its output.
#[derive(Serialize, Deserialize)]
struct Taken {
    /// Resident bytes, less those that the process had before.
    resident: u64,
    /// Of these, pages of mapped files.
    of_files: u64,
}

impl Experiment for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn prepare(&mut self, kind: Kind, bench: &Bench) -> Result<()> {
        let settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        bench.load(kind, &settings, &self.rows)
    }

    fn run(&mut self, kind: Kind, bench: &Bench) -> Result<Vec<Sample>> {
        let settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        crate::scratch::drop_cached(&settings.directory)?;
        let task = serde_json::to_string(&MemoryOf {
            engine: kind,
            directory: settings.directory,
            cache_bytes: settings.cache_bytes,
            log_bytes: settings.log_bytes,
            rows: self.rows.count(),
        })?;
        let output = Command::new(std::env::current_exe()?)
            .args(["memory-of", &task])
            .stderr(Stdio::inherit())
            .output()?;
        if !output.status.success() {
            bail!("its process failed");
        }
        let taken: Taken = serde_json::from_slice(&output.stdout)?;
        let share = |bytes: u64| bytes as f64 / self.cache_bytes as f64;
        let own = taken.resident.saturating_sub(taken.of_files);
        Ok(vec![
            Sample::new("resident, of the pool", "share", share(taken.resident)),
            Sample::new("without mapped files, of the pool", "share", share(own)),
        ])
    }
}

impl MemoryOf {
    /// Fills the engine's pool, and prints what that takes.
    ///
    /// # Errors
    /// The engine's.
    pub fn run(self, stop: crate::stop::Stop) -> Result<()> {
        let rows = Rows::new(self.rows);
        let before = process::memory(std::process::id())?;
        let database = engines::open(
            self.engine,
            &Settings {
                directory: self.directory,
                cache_bytes: self.cache_bytes,
                log_bytes: self.log_bytes,
                indexed: false,
                direct: true,
                durable: true,
                stop: stop.clone(),
            },
        )?;
        let mut session = database.session()?;
        session.scan()?;
        let mut random = Random::new(0);
        for version in 0..TRANSACTIONS {
            stop.check()?;
            session.get(&[random.below(rows.count())])?;
            session.update(&[rows.version(random.below(rows.count()), version)])?;
        }
        let after = process::memory(database.process())?;
        // A server has a process of its own, all of which it needs.
        let before = if database.process() == std::process::id() {
            before
        } else {
            process::Memory::default()
        };
        let taken = Taken {
            resident: after.resident.saturating_sub(before.resident),
            of_files: after.of_files.saturating_sub(before.of_files),
        };
        drop(session);
        database.close()?;
        println!("{}", serde_json::to_string(&taken)?);
        Ok(())
    }
}
