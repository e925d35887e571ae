//! SQLite: WAL, `synchronous=FULL`.

use super::{Database, Seen, Session, Settings};
use crate::rows::{Row, Rows};
use anyhow::Result;
use rusqlite::{CachedStatement, Connection, params};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Another process could have it open; in this one writers queue before.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Sqlite {
    path: PathBuf,
    settings: Settings,
    /// SQLite has one writer at a time, and lets others sleep and try again:
    /// a lock hands over at once.
    writing: Mutex<()>,
}

impl Sqlite {
    pub fn open(settings: &Settings) -> Result<Sqlite> {
        let sqlite = Sqlite {
            path: settings.directory.join("t.sqlite"),
            settings: settings.clone(),
            writing: Mutex::new(()),
        };
        let connection = sqlite.connect()?;
        let columns = if settings.indexed {
            "id INTEGER PRIMARY KEY, second INTEGER, value BLOB"
        } else {
            "id INTEGER PRIMARY KEY, value BLOB"
        };
        connection.execute_batch(&format!("CREATE TABLE IF NOT EXISTS t ({columns});"))?;
        if settings.indexed {
            connection.execute_batch("CREATE INDEX IF NOT EXISTS by_second ON t (second);")?;
        }
        Ok(sqlite)
    }

    /// A connection of a thread's own, as SQLite recommends.
    fn connect(&self) -> Result<Connection> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let synchronous = if self.settings.durable { "FULL" } else { "OFF" };
        connection.execute_batch(&format!(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA cache_size=-{};",
            self.settings.cache_bytes >> 10
        ))?;
        Ok(connection)
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // A thread that panicked has ended its transaction.
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Database for Sqlite {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(SqliteSession {
            database: self,
            connection: self.connect()?,
        }))
    }

    fn load(&self, rows: &Rows) -> Result<()> {
        let mut session = SqliteSession {
            database: self,
            connection: self.connect()?,
        };
        session.in_transaction(|session| {
            let mut statement = session.insert_statement()?;
            for row in rows.ascending() {
                insert(&mut statement, &row, self.settings.indexed)?;
            }
            Ok(())
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        // The last connection that closes writes the log into the database.
        let connection = self.connect()?;
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(())
    }
}

struct SqliteSession<'a> {
    database: &'a Sqlite,
    connection: Connection,
}

impl SqliteSession<'_> {
    fn insert_statement(&self) -> Result<CachedStatement<'_>> {
        Ok(self
            .connection
            .prepare_cached(if self.database.settings.indexed {
                "INSERT INTO t VALUES (?1, ?2, ?3)"
            } else {
                "INSERT INTO t VALUES (?1, ?2)"
            })?)
    }

    /// A single statement is a transaction; more need to be bracketed.
    fn in_transaction(&mut self, work: impl FnOnce(&Self) -> Result<()>) -> Result<()> {
        let _writing = self.database.lock();
        self.connection
            .prepare_cached("BEGIN IMMEDIATE")?
            .execute([])?;
        work(self)?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    fn sum(&self, condition: &str, bounds: &[i64]) -> Result<Seen> {
        let text = format!("SELECT count(*), ifnull(sum(length(value)), 0) FROM t {condition}");
        let mut statement = self.connection.prepare_cached(&text)?;
        let seen = statement.query_row(rusqlite::params_from_iter(bounds), |row| {
            Ok(Seen {
                rows: row.get::<_, i64>(0)? as u64,
                bytes: row.get::<_, i64>(1)? as u64,
            })
        });
        Ok(seen?)
    }
}

fn insert(statement: &mut CachedStatement<'_>, row: &Row<'_>, indexed: bool) -> Result<()> {
    if indexed {
        statement.execute(params![row.key as i64, row.second as i64, row.value])?;
    } else {
        statement.execute(params![row.key as i64, row.value])?;
    }
    Ok(())
}

fn update(statement: &mut CachedStatement<'_>, row: &Row<'_>) -> Result<()> {
    statement.execute(params![row.value, row.key as i64])?;
    Ok(())
}

const UPDATE: &str = "UPDATE t SET value = ?1 WHERE id = ?2";

impl Session for SqliteSession<'_> {
    fn insert(&mut self, rows: &[Row<'_>]) -> Result<()> {
        let indexed = self.database.settings.indexed;
        if let [row] = rows {
            let _writing = self.database.lock();
            return insert(&mut self.insert_statement()?, row, indexed);
        }
        self.in_transaction(|session| {
            let mut statement = session.insert_statement()?;
            rows.iter()
                .try_for_each(|row| insert(&mut statement, row, indexed))
        })
    }

    fn update(&mut self, rows: &[Row<'_>]) -> Result<()> {
        if let [row] = rows {
            let _writing = self.database.lock();
            return update(&mut self.connection.prepare_cached(UPDATE)?, row);
        }
        self.in_transaction(|session| {
            let mut statement = session.connection.prepare_cached(UPDATE)?;
            rows.iter().try_for_each(|row| update(&mut statement, row))
        })
    }

    fn get(&mut self, keys: &[u64]) -> Result<Seen> {
        let mut seen = Seen::default();
        let bracketed = keys.len() > 1;
        if bracketed {
            self.connection.prepare_cached("BEGIN")?.execute([])?;
        }
        let mut statement = self
            .connection
            .prepare_cached("SELECT value FROM t WHERE id = ?1")?;
        for &key in keys {
            let mut rows = statement.query([key as i64])?;
            if let Some(row) = rows.next()? {
                seen.add(row.get_ref(0)?.as_blob()?);
            }
        }
        if bracketed {
            self.connection.prepare_cached("COMMIT")?.execute([])?;
        }
        Ok(seen)
    }

    fn scan(&mut self) -> Result<Seen> {
        self.sum("NOT INDEXED", &[])
    }

    fn range(&mut self, from: u64, count: u64) -> Result<Seen> {
        self.sum(
            "INDEXED BY by_second WHERE second BETWEEN ?1 AND ?2",
            &[from as i64, (from + count - 1) as i64],
        )
    }
}
