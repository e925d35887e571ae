//! A copy of a store while it is in use.
//!
//! One transaction reads all tables, as they were at one moment, and loads them
//! into a new store. So the copy has no holes, no old versions and no log to
//! be gone through, and it is read by the same code that serves queries: what
//! is damaged is noticed.

use crate::access::Pages;
use crate::data::TableSchema;
use crate::error::StoreError;
use crate::policy::Role;
use crate::store::{Store, StoreOptions};
use crate::stream::acting_as;
use crate::tree::Direction;
use crate::txn::{Error, Transaction};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Ending of the directory's name until the copy is complete.
const PART_SUFFIX: &str = ".part";

/// A store as it is at one moment, while transactions go on: what is to be copied.
/// Its tables can be neither dropped nor loaded in bulk until it is.
///
/// ```
/// # use iolane_store::{Store, StoreOptions};
/// # let directory = tempfile::tempdir_in("/var/tmp")?;
/// # let mut options = StoreOptions::default();
/// # options.pages.pool_bytes = 16 << 20;
/// # let store = Store::create(directory.path().join("people"), &options)?;
/// let mut backup = store.begin_backup()?;
/// // What is committed by now is in the copy, and nothing else.
/// backup.open_view()?;
/// let rows = backup.copy_while(directory.path().join("copy"), &options, &|| true)?;
/// # assert_eq!(rows, 0);
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Backup<'s> {
    store: &'s Store,
    transaction: Transaction<'s>,
    /// Those that it keeps from being dropped.
    tables: BTreeMap<String, TableSchema>,
    has_view: bool,
}

impl Store {
    /// Copies the store as it is now into a new one at `path`, which others can
    /// open when this returns. Transactions go on meanwhile; tables can be
    /// neither dropped nor loaded in bulk. Returns how many rows it has.
    ///
    /// `options` are those of the copy while it is made; its page size may be
    /// another one.
    ///
    /// # Errors
    /// [`Error::Files`]: there is something at `path`, or the system refuses;
    /// [`Error::Pages`] when rows cannot be read or written;
    /// [`Error::DamagedTable`] when a table cannot be used. What was copied
    /// by then is removed.
    pub fn backup(&self, path: impl AsRef<Path>, options: &StoreOptions) -> Result<u64, Error> {
        self.backup_while(path, options, &|| true)
    }

    /// The same as long as `go_on` says so. It is asked for every row: it should
    /// be quick.
    ///
    /// # Errors
    /// As [`backup`](Self::backup), and [`Error::Stopped`].
    pub fn backup_while(
        &self,
        path: impl AsRef<Path>,
        options: &StoreOptions,
        go_on: &dyn Fn() -> bool,
    ) -> Result<u64, Error> {
        self.begin_backup()?.copy_while(path, options, go_on)
    }

    /// Begins a backup: for programs that choose its moment. Reads the descriptions
    /// of all tables.
    ///
    /// # Errors
    /// [`Error::DamagedTable`], and those of pages.
    pub fn begin_backup(&self) -> Result<Backup<'_>, Error> {
        // A copy without them would look whole.
        if let Some(damaged) = self.damaged_tables().into_iter().next() {
            return Err(damaged.into());
        }
        let mut backup = Backup {
            store: self,
            transaction: Transaction::begin_as(&self.system, Role::Backup),
            tables: BTreeMap::new(),
            has_view: false,
        };
        backup.keep_tables()?;
        Ok(backup)
    }
}

impl Backup<'_> {
    /// What has been committed by now is copied, and nothing else; a second time it does
    /// nothing. Quick, as it reads only the descriptions of tables that were made since it
    /// was begun.
    ///
    /// # Errors
    /// Those of pages.
    pub fn open_view(&mut self) -> Result<(), Error> {
        if std::mem::replace(&mut self.has_view, true) {
            return Ok(());
        }
        self.transaction.open_view()?;
        // The view may see into a table that was made meanwhile. One that was dropped
        // meanwhile is kept: whoever led to it then is seen, too.
        self.keep_tables()
    }

    /// Bytes of a page of the store.
    pub fn page_bytes(&self) -> usize {
        self.store.system.backing.page_bytes()
    }

    /// Once the transaction has looked at a table, that cannot be dropped.
    fn keep_tables(&mut self) -> Result<(), Error> {
        for name in self.store.table_names() {
            if self.tables.contains_key(&name) {
                continue;
            }
            match self.transaction.table(&name) {
                Ok(table) => {
                    self.tables.insert(name, table.schema.clone());
                }
                Err(Error::UnknownTable(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Copies it to a new store at `path`, as long as `go_on` says so, which is asked
    /// for every row. As [`Store::backup`].
    ///
    /// # Errors
    /// As [`Store::backup_while`].
    pub fn copy_while(
        mut self,
        path: impl AsRef<Path>,
        options: &StoreOptions,
        go_on: &dyn Fn() -> bool,
    ) -> Result<u64, Error> {
        // Without a slash at its end, behind which the other name would stand.
        let path: &Path = &path.as_ref().components().collect::<PathBuf>();
        let names = &options.pages.names;
        let has_files = |path: &Path| names.list(path).is_ok_and(|files| !files.is_empty());
        let mut part = path.as_os_str().to_owned();
        part.push(PART_SUFFIX);
        let part = PathBuf::from(part);
        let taken = (names.exists(path) || has_files(path)).then_some(path);
        // That of another backup, or of one that was killed; perhaps not ours.
        if let Some(taken) = taken.or(has_files(&part).then_some(&part)) {
            return Err(Error::Files(StoreError::Exists {
                path: taken.to_owned(),
            }));
        }
        let failed = |source| Error::Files(StoreError::system(&part, source));
        self.open_view()?;
        // Also what makes the copy: its log alone is many writes.
        let _acting = acting_as(Role::Backup);
        let copied = Store::create(&part, options).and_then(|made| {
            let rows = self.copy_to(&made, go_on)?;
            made.close()?;
            names.rename(&part, path).map_err(failed)?;
            Ok(rows)
        });
        match copied {
            Ok(rows) => {
                if let Some(above) = path.parent() {
                    names.sync(above).map_err(failed)?;
                }
                Ok(rows)
            }
            // Another backup was quicker: what is there is its.
            Err(error @ Error::Files(StoreError::Locked { .. } | StoreError::Exists { .. })) => {
                Err(error)
            }
            Err(error) => {
                // The first error says more than one of cleaning up.
                for file in names.list(&part).unwrap_or_default() {
                    let _ = names.remove(&file);
                }
                let _ = names.remove_directory(&part);
                Err(error)
            }
        }
    }

    /// Copies all rows that it sees.
    fn copy_to(&mut self, copy: &Store, go_on: &dyn Fn() -> bool) -> Result<u64, Error> {
        let mut count = 0;
        for (name, schema) in &self.tables {
            copy.create_table(schema)?;
            let mut failed = None;
            let rows = self.transaction.range(name, .., Direction::Forward)?;
            let rows = rows.map(|row| if go_on() { row } else { Err(Error::Stopped) });
            let rows = rows.map_while(|row| row.map_err(|error| failed = Some(error)).ok());
            // Grown at once, not sync by sync.
            let pages = self.store.table_space(name)?.used;
            let loaded = copy.system.bulk_load(name, rows, pages);
            if let Some(error) = failed {
                return Err(error);
            }
            count += loaded?;
        }
        Ok(count)
    }
}
