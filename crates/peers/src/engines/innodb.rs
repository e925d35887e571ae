//! InnoDB: a MariaDB server of this run, on a Unix socket in its directory.
//! Each operation is a round trip to another process, which is part of what is
//! measured; reads of many rows are summed up by the server.

mod server;

use super::{Database, Seen, Session, Settings};
use crate::rows::{Row, Rows};
use anyhow::{Context, Result};
use mysql::prelude::Queryable;
use mysql::{Conn, Statement};
use server::Server;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

/// Rows of one text, where a transaction inserts many.
const ROWS_PER_TEXT: usize = 1000;

pub struct Innodb {
    server: Server,
    indexed: bool,
    load_file: PathBuf,
}

impl Innodb {
    pub fn open(settings: &Settings) -> Result<Innodb> {
        let server = Server::start(settings)?;
        let index = if settings.indexed {
            "second BIGINT NOT NULL, value VARBINARY(255) NOT NULL, KEY by_second (second)"
        } else {
            "value VARBINARY(255) NOT NULL"
        };
        let mut connection = server.connect()?;
        connection.query_drop("CREATE DATABASE IF NOT EXISTS peers")?;
        connection.query_drop(format!(
            "CREATE TABLE IF NOT EXISTS peers.t (id BIGINT NOT NULL PRIMARY KEY, {index}) \
             ENGINE=InnoDB STATS_PERSISTENT=0"
        ))?;
        Ok(Innodb {
            server,
            indexed: settings.indexed,
            load_file: settings.directory.join("load.csv"),
        })
    }

    fn connect(&self) -> Result<InnodbSession> {
        let mut connection = self.server.connect()?;
        connection.query_drop("USE peers")?;
        let insert = connection.prep(if self.indexed {
            "INSERT INTO t VALUES (?, ?, ?)"
        } else {
            "INSERT INTO t VALUES (?, ?)"
        })?;
        Ok(InnodbSession {
            insert,
            update: connection.prep("UPDATE t SET value = ? WHERE id = ?")?,
            update_range: connection
                .prep("UPDATE t SET value = REVERSE(value) WHERE id BETWEEN ? AND ?")?,
            get: connection.prep("SELECT value FROM t WHERE id = ?")?,
            connection,
            indexed: self.indexed,
        })
    }
}

impl Database for Innodb {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(self.connect()?))
    }

    fn prepare_load(&self, rows: &Rows) -> Result<()> {
        let mut file = BufWriter::new(File::create(&self.load_file)?);
        for row in rows.ascending() {
            write!(file, "{},", row.key)?;
            if self.indexed {
                write!(file, "{},", row.second)?;
            }
            file.write_all(row.value)?;
            file.write_all(b"\n")?;
        }
        file.into_inner()?.sync_all()?;
        Ok(())
    }

    fn load(&self, _rows: &Rows) -> Result<()> {
        let mut session = self.connect()?;
        // With both checks off, and the table empty, MariaDB 10.6 and later
        // write pages instead of inserting row by row.
        session
            .connection
            .query_drop("SET unique_checks = 0, foreign_key_checks = 0")?;
        let file = self.load_file.to_str().context("path of the file")?;
        session.connection.query_drop(format!(
            "LOAD DATA INFILE '{file}' INTO TABLE t CHARACTER SET binary \
             FIELDS TERMINATED BY ','"
        ))?;
        std::fs::remove_file(&self.load_file)?;
        Ok(())
    }

    fn process(&self) -> u32 {
        self.server.process()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.server.end()
    }
}

struct InnodbSession {
    connection: Conn,
    insert: Statement,
    update: Statement,
    update_range: Statement,
    get: Statement,
    indexed: bool,
}

impl InnodbSession {
    /// Many rows as text: only for preparing tables.
    fn insert_text(&mut self, rows: &[Row<'_>]) -> Result<()> {
        let mut text = "INSERT INTO t VALUES ".to_owned();
        for (number, row) in rows.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(text, "{comma}({},", row.key)?;
            if self.indexed {
                write!(text, "{},", row.second)?;
            }
            // Letters and digits: nothing to quote.
            write!(text, "'{}')", std::str::from_utf8(row.value)?)?;
        }
        Ok(self.connection.query_drop(text)?)
    }

    fn sum(&mut self, condition: &str) -> Result<Seen> {
        let text =
            format!("SELECT COUNT(*), IFNULL(SUM(LENGTH(value)), 0) FROM peers.t {condition}");
        let (rows, bytes) = self
            .connection
            .query_first::<(u64, u64), _>(text)?
            .context("no answer")?;
        Ok(Seen { rows, bytes })
    }
}

impl Session for InnodbSession {
    fn insert(&mut self, rows: &[Row<'_>]) -> Result<()> {
        if let [row] = rows {
            let connection = &mut self.connection;
            if self.indexed {
                connection.exec_drop(&self.insert, (row.key, row.second, row.value))?;
            } else {
                connection.exec_drop(&self.insert, (row.key, row.value))?;
            }
            return Ok(());
        }
        self.connection.query_drop("START TRANSACTION")?;
        for rows in rows.chunks(ROWS_PER_TEXT) {
            self.insert_text(rows)?;
        }
        Ok(self.connection.query_drop("COMMIT")?)
    }

    /// Many rows are changed by the server, in one round trip: their keys
    /// follow each other.
    fn update(&mut self, rows: &[Row<'_>]) -> Result<()> {
        match rows {
            [] => Ok(()),
            [row] => Ok(self
                .connection
                .exec_drop(&self.update, (row.value, row.key))?),
            [first, .., last] => Ok(self
                .connection
                .exec_drop(&self.update_range, (first.key, last.key))?),
        }
    }

    fn get(&mut self, keys: &[u64]) -> Result<Seen> {
        let bracketed = keys.len() > 1;
        if bracketed {
            self.connection
                .query_drop("START TRANSACTION WITH CONSISTENT SNAPSHOT")?;
        }
        let mut seen = Seen::default();
        for &key in keys {
            if let Some(value) = self
                .connection
                .exec_first::<Vec<u8>, _, _>(&self.get, (key,))?
            {
                seen.add(&value);
            }
        }
        if bracketed {
            self.connection.query_drop("COMMIT")?;
        }
        Ok(seen)
    }

    fn scan(&mut self) -> Result<Seen> {
        self.sum("FORCE INDEX (PRIMARY)")
    }

    fn range(&mut self, from: u64, count: u64) -> Result<Seen> {
        self.sum(&format!(
            "FORCE INDEX (by_second) WHERE second BETWEEN {from} AND {}",
            from + count - 1
        ))
    }
}
