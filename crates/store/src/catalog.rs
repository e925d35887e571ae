//! The catalogue: which tables there are.
//!
//! A tree in the system's tablespace, by name: tablespace (4),
//! segment (4) and reference (8) of the table's description, JSON in a long
//! value there. A table has a tablespace of its own, and is there when its name is in the
//! tree: so making it ends with one mini-transaction, and dropping it begins
//! with one. Tablespaces that no name leads to are dropped when the store is
//! opened.
//!
//! A table whose description cannot be read is damaged: it keeps its name and
//! its tablespace, and whoever wants to use it is told why that cannot be. All
//! others are as they were. It may become readable again, so nothing that it
//! needs is passed over: see [`System::open`].

use crate::access::{Pages, PagesError};
use crate::backing::Backing;
use crate::data::TableSchema;
use crate::ids::{Lsn, SegmentId};
use crate::master::CATALOGUE_OWNER;
use crate::overflow::{Overflow, OverflowRef};
use crate::page::header::get_u32;
use crate::system::System;
use crate::table::{Table, TableRecord, TreePlace};
use crate::tree::{Decision, Direction, ModifyError, Reserve, Tree};
use crate::txn::Error;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of a record of the catalogue.
const RECORD_BYTES: usize = 16;
/// Why a table without a tablespace is damaged.
const MISSING: &str = "its file is missing";
/// References that the catalogue itself has to each table.
const OWN_REFERENCES: usize = 2;

#[derive(Default)]
struct Tables {
    by_name: BTreeMap<String, Arc<Table>>,
    by_id: HashMap<u64, Arc<Table>>,
    damaged: BTreeMap<String, Damaged>,
}

/// A table whose description cannot be read.
struct Damaged {
    space: u32,
    reason: String,
}

/// A table that is there and cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DamagedTable {
    /// Its name.
    pub name: String,
    /// What is wrong.
    pub reason: String,
}

impl From<DamagedTable> for Error {
    fn from(table: DamagedTable) -> Error {
        Error::DamagedTable {
            table: table.name,
            reason: table.reason,
        }
    }
}

impl Tables {
    fn add(&mut self, table: Arc<Table>) {
        self.by_id.insert(table.id, Arc::clone(&table));
        self.by_name.insert(table.name().to_owned(), table);
    }

    fn remove(&mut self, table: &Table) {
        self.by_id.remove(&table.id);
        self.by_name.remove(table.name());
    }

    /// Why there is no such table that could be used.
    fn missing(&self, name: &str) -> Error {
        match self.damaged.get(name) {
            Some(damaged) => damaged.named(name).into(),
            None => Error::UnknownTable(name.to_owned()),
        }
    }
}

impl Damaged {
    fn named(&self, name: &str) -> DamagedTable {
        DamagedTable {
            name: name.to_owned(),
            reason: self.reason.clone(),
        }
    }
}

/// What the tree has of a table.
struct Entry<'a> {
    name: &'a str,
    space: u32,
    /// Segment of its long values, the description among them.
    segment: u32,
    described: OverflowRef,
}

impl<'a> Entry<'a> {
    fn decode(name: &'a [u8], value: &[u8]) -> Result<Entry<'a>, Error> {
        let damaged = |reason: &str| {
            let name = String::from_utf8_lossy(name);
            Error::DamagedCatalogue(format!("table {name}: {reason}"))
        };
        let Some((head, reference)) = value
            .split_last_chunk()
            .filter(|_| value.len() == RECORD_BYTES)
        else {
            return Err(damaged("its record has another length"));
        };
        Ok(Entry {
            name: std::str::from_utf8(name).map_err(|error| damaged(&error.to_string()))?,
            space: get_u32(head, 0),
            segment: get_u32(head, 4),
            described: OverflowRef::from_bytes(*reference),
        })
    }

    /// The table, or why it is damaged.
    ///
    /// # Errors
    /// Those that say nothing of the table.
    fn table<B: Backing>(&self, backing: &B) -> Result<Result<Table, String>, Error> {
        if !backing.spaces().contains(&self.space) {
            let mut unusable = backing.unusable().into_iter();
            let found = unusable.find(|unusable| unusable.space == self.space);
            return Ok(Err(found.map_or(MISSING.to_owned(), |it| it.reason)));
        }
        let mut json = Vec::new();
        let read = description(self.space, self.segment).read(backing, self.described, &mut json);
        match read.map_err(Error::from) {
            Ok(()) => {}
            Err(error) if error.is_damage() => return Ok(Err(error.to_string())),
            Err(error) => return Err(error),
        }
        let record: TableRecord = match serde_json::from_slice(&json) {
            Ok(record) => record,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if record.space != self.space || record.schema.name != self.name {
            return Ok(Err("its description is of another one".to_owned()));
        }
        Ok(Table::new(record).map_err(|error| error.to_string()))
    }
}

/// Where the description of a table is read from.
fn description(space: u32, number: u32) -> Overflow {
    Overflow {
        segment: SegmentId { space, number },
        owner: CATALOGUE_OWNER,
    }
}

/// Calls `with` for each table that the tree has.
fn for_each<P: Pages>(
    pages: &P,
    tree: &Tree,
    mut with: impl FnMut(Entry<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut cursor = tree.cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
    while let Some((name, value)) = cursor.next(pages)? {
        with(Entry::decode(name, value)?)?;
    }
    Ok(())
}

/// Whether none of the tablespaces whose changes redo has passed over, as their
/// files are missing, is a table's. While the log has these, the file can be put
/// back; later it would be as it was before them, and nobody would know.
///
/// # Errors
/// [`Error::DamagedCatalogue`].
pub(crate) fn expect_dropped<P: Pages>(
    pages: &P,
    tree: &Tree,
    passed_over: &BTreeSet<u32>,
) -> Result<(), Error> {
    if passed_over.is_empty() {
        return Ok(());
    }
    for_each(pages, tree, |entry| {
        if passed_over.contains(&entry.space) {
            let name = entry.name;
            return Err(Error::DamagedCatalogue(format!(
                "table {name}: {MISSING}, and the log has changes of it"
            )));
        }
        Ok(())
    })
}

/// All tables of a store.
pub(crate) struct Catalog {
    pub(crate) tree: Tree,
    tables: RwLock<Tables>,
    /// Held while tables come and go.
    changing: Mutex<()>,
}

impl Catalog {
    /// Reads what there is.
    pub(crate) fn load<B: Backing>(backing: &B, tree: Tree) -> Result<Catalog, Error> {
        let mut tables = Tables::default();
        for_each(backing, &tree, |entry| {
            match entry.table(backing)? {
                Ok(table) => tables.add(Arc::new(table)),
                Err(reason) => {
                    let space = entry.space;
                    let damaged = Damaged { space, reason };
                    tables.damaged.insert(entry.name.to_owned(), damaged);
                }
            }
            Ok(())
        })?;
        Ok(Catalog {
            tree,
            tables: RwLock::new(tables),
            changing: Mutex::new(()),
        })
    }

    /// Keeps tables from coming and going.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// The table of a name.
    pub(crate) fn table(&self, name: &str) -> Result<Arc<Table>, Error> {
        let tables = self.tables.read();
        let found = tables.by_name.get(name).map(Arc::clone);
        found.ok_or_else(|| tables.missing(name))
    }

    /// The table with a number, as undo records name it. `None` if it was
    /// dropped: undo of damaged ones is left alone.
    pub(crate) fn by_id(&self, id: u64) -> Option<Arc<Table>> {
        let tables = self.tables.read();
        tables.by_id.get(&id).map(Arc::clone)
    }

    /// Whether the tables that `speaks_of` gives, by their numbers, may have a
    /// damaged one among them. Such a one does not say which number it has; those
    /// that are not known may also have been dropped.
    pub(crate) fn may_need_damaged(
        &self,
        speaks_of: impl FnOnce() -> Result<BTreeSet<u64>, PagesError>,
    ) -> Result<bool, PagesError> {
        let tables = self.tables.read();
        if tables.damaged.is_empty() {
            return Ok(false);
        }
        let ids = speaks_of()?;
        Ok(ids.iter().any(|id| !tables.by_id.contains_key(id)))
    }

    /// The damaged tables, in the order of their names.
    pub(crate) fn damaged(&self) -> Vec<DamagedTable> {
        let tables = self.tables.read();
        let damaged = tables.damaged.iter();
        damaged.map(|(name, damaged)| damaged.named(name)).collect()
    }

    /// All tables that can be used, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Table>> {
        self.tables
            .read()
            .by_name
            .values()
            .map(Arc::clone)
            .collect()
    }

    /// Tablespaces of all tables, the damaged ones among them.
    pub(crate) fn spaces(&self) -> HashSet<u32> {
        let tables = self.tables.read();
        let damaged = tables.damaged.values().map(|damaged| damaged.space);
        let usable = tables.by_id.values().map(|table| table.space);
        usable.chain(damaged).collect()
    }
}

impl<B: Backing> System<B> {
    /// Makes an empty table. It is there for good when this returns.
    pub(crate) fn create_table(&self, schema: &TableSchema) -> Result<(), Error> {
        schema.validate()?;
        let _one_at_a_time = self.catalog.changing.lock();
        match self.catalog.table(&schema.name) {
            Err(Error::UnknownTable(_)) => {}
            Err(damaged) => return Err(damaged),
            Ok(_) => return Err(Error::TableExists(schema.name.clone())),
        }
        let table = self.build_table(schema, |_| Ok(()))?;
        self.catalog.tables.write().add(Arc::new(table));
        Ok(())
    }

    /// Makes a table in a tablespace of its own, lets `fill` put something into
    /// it, and enters it in the catalogue, also in the place of another of its
    /// name. If that fails nothing is left, or a tablespace that is dropped
    /// when the store is opened again.
    pub(crate) fn build_table(
        &self,
        schema: &TableSchema,
        fill: impl FnOnce(&Table) -> Result<(), Error>,
    ) -> Result<Table, Error> {
        let id = self.views.number(&self.backing)?;
        let space = self.backing.create_space(&format!("table-{id}"))?;
        let (table, value) = match self.build_in(schema, id, space, fill) {
            Ok(built) => built,
            Err(error) => {
                // The first error says more than one of cleaning up.
                let _ = self.backing.drop_space(space);
                return Err(error);
            }
        };
        // From here on the tablespace stays: if this fails, nobody knows
        // whether the catalogue on the disk leads to it.
        let lsn = self.enter(&schema.name, Some(&value))?;
        self.backing.make_durable(lsn)?;
        Ok(table)
    }

    /// Makes a table's trees, fills them, and makes its record for the catalogue.
    fn build_in(
        &self,
        schema: &TableSchema,
        id: u64,
        space: u32,
        fill: impl FnOnce(&Table) -> Result<(), Error>,
    ) -> Result<(Table, Vec<u8>), Error> {
        let backing = &self.backing;
        let segment = || backing.create_segment(space);
        let tree = |id| -> Result<TreePlace, Error> {
            let (leaves, branches) = (segment()?, segment()?);
            let tree = Tree::create(backing, leaves, branches, id)?;
            Ok(TreePlace {
                id,
                root: tree.root.page,
                leaves: leaves.number,
                branches: branches.number,
            })
        };
        let mut record = TableRecord {
            schema: schema.clone(),
            space,
            rows: tree(id)?,
            long: segment()?.number,
            indexes: Vec::with_capacity(schema.indexes.len()),
        };
        for _ in &schema.indexes {
            let place = tree(self.views.number(backing)?)?;
            record.indexes.push(place);
        }
        let json = serde_json::to_vec(&record).expect("names and numbers have a form in JSON");
        let described = description(space, record.long).write(
            backing,
            &json,
            Reserve::default(),
            |_| Ok(()),
            |_, _| {},
        )?;
        let mut value = space.to_le_bytes().to_vec();
        value.extend(record.long.to_le_bytes());
        value.extend(described.to_bytes());
        let table = Table::new(record)?;
        fill(&table)?;
        Ok((table, value))
    }

    /// The pages with a table's description, for a check. They are read: the
    /// store could not open the table without them.
    pub(crate) fn description_pages(&self, table: &Table) -> Result<Vec<u32>, Error> {
        let name = table.name().as_bytes();
        let record = self.catalog.tree.get(&self.backing, name, |value| {
            let reference = value.last_chunk().copied();
            reference.map(OverflowRef::from_bytes)
        })?;
        let Some(value) = record.flatten() else {
            return Ok(Vec::new());
        };
        let described = description(table.space, table.long.segment.number);
        described.read(&self.backing, value, &mut Vec::new())?;
        let pages = described.pages_of(&self.backing, value)?;
        let all = pages.lists.iter().chain(&pages.data);
        Ok(all.map(|page| page.page).collect())
    }

    /// Changes a record of the catalogue.
    fn enter(&self, name: &str, value: Option<&[u8]>) -> Result<Lsn, Error> {
        let modified = self.catalog.tree.modify(
            &self.backing,
            name.as_bytes(),
            value.map(<[u8]>::len),
            Reserve::default(),
            |_, _| match value {
                Some(value) => Decision::Put(Cow::Borrowed(value)),
                None => Decision::<()>::Remove,
            },
        );
        match modified {
            Ok(modified) => Ok(modified.lsn),
            Err(ModifyError::Tree(error)) => Err(error.into()),
            Err(ModifyError::Aborted(())) => unreachable!("nothing is aborted here"),
        }
    }

    /// Drops a table that no transaction uses.
    pub(crate) fn drop_table(&self, name: &str) -> Result<(), Error> {
        let _one_at_a_time = self.catalog.changing.lock();
        let _not_purged = self.purge.keep_out();
        let damaged = self.catalog.tables.write().damaged.remove(name);
        if let Some(damaged) = damaged {
            return self.drop_damaged(name, damaged);
        }
        let table = self.take_unused(name)?;
        if let Err(error) = self.take_name(name) {
            self.catalog.tables.write().add(table);
            return Err(error);
        }
        self.backing.drop_space(table.space)
    }

    /// Drops a table that nobody could use: its record says where it is.
    fn drop_damaged(&self, name: &str, damaged: Damaged) -> Result<(), Error> {
        if let Err(error) = self.take_name(name) {
            let mut tables = self.catalog.tables.write();
            tables.damaged.insert(name.to_owned(), damaged);
            return Err(error);
        }
        let unusable = self.backing.unusable().into_iter();
        let mut all = unusable.map(|it| it.space).chain(self.backing.spaces());
        if all.any(|space| space == damaged.space) {
            self.backing.drop_space(damaged.space)?;
        }
        Ok(())
    }

    /// Takes a table's record out of the catalogue for good.
    fn take_name(&self, name: &str) -> Result<(), Error> {
        let lsn = self.enter(name, None)?;
        Ok(self.backing.make_durable(lsn)?)
    }

    /// Takes a table that no transaction uses out of the catalogue in memory.
    fn take_unused(&self, name: &str) -> Result<Arc<Table>, Error> {
        let mut tables = self.catalog.tables.write();
        let Some(table) = tables.by_name.get(name).map(Arc::clone) else {
            return Err(tables.missing(name));
        };
        if Arc::strong_count(&table) > OWN_REFERENCES + 1 {
            return Err(Error::TableInUse(name.to_owned()));
        }
        tables.remove(&table);
        Ok(table)
    }

    /// Replaces a table that no transaction uses, and that `is_replaceable`, by
    /// a new one of the same schema with what `fill` puts into it.
    pub(crate) fn replace_table(
        &self,
        name: &str,
        is_replaceable: impl FnOnce(&Table) -> Result<(), Error>,
        fill: impl FnOnce(&Table) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _one_at_a_time = self.catalog.changing.lock();
        let _not_purged = self.purge.keep_out();
        let old = self.take_unused(name)?;
        let built = is_replaceable(&old).and_then(|()| self.build_table(&old.schema, fill));
        let mut tables = self.catalog.tables.write();
        match built {
            Ok(table) => {
                tables.add(Arc::new(table));
                drop(tables);
                self.backing.drop_space(old.space)
            }
            Err(error) => {
                tables.add(old);
                Err(error)
            }
        }
    }
}
