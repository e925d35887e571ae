//! The catalogue: which tables there are.
//!
//! A tree in the system's tablespace, by name: tablespace (4),
//! segment (4) and reference (8) of the table's description, JSON in a long
//! value there. A table has a tablespace of its own, and is there when its name is in the
//! tree: so making it ends with one mini-transaction, and dropping it begins
//! with one. Tablespaces that no name leads to are dropped when the store is
//! opened.

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
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of a record of the catalogue.
const RECORD_BYTES: usize = 16;
/// References that the catalogue itself has to each table.
const OWN_REFERENCES: usize = 2;

#[derive(Default)]
struct Tables {
    by_name: BTreeMap<String, Arc<Table>>,
    by_id: HashMap<u64, Arc<Table>>,
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
}

/// Where the description of a table is read from.
fn description(space: u32, number: u32) -> Overflow {
    Overflow {
        segment: SegmentId { space, number },
        owner: CATALOGUE_OWNER,
    }
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
        let mut cursor = tree.cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        while let Some((name, value)) = cursor.next(backing)? {
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
            let space = get_u32(head, 0);
            if !backing.spaces().contains(&space) {
                return Err(damaged("its file is missing"));
            }
            let mut json = Vec::new();
            description(space, get_u32(head, 4)).read(
                backing,
                OverflowRef::from_bytes(*reference),
                &mut json,
            )?;
            let record: TableRecord =
                serde_json::from_slice(&json).map_err(|error| damaged(&error.to_string()))?;
            if record.space != space || record.schema.name.as_bytes() != name {
                return Err(damaged("its description is of another one"));
            }
            tables.add(Arc::new(Table::new(record)?));
        }
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
        found.ok_or_else(|| Error::UnknownTable(name.to_owned()))
    }

    /// The table with a number, as undo records name it.
    pub(crate) fn by_id(&self, id: u64) -> Result<Arc<Table>, Error> {
        let tables = self.tables.read();
        let found = tables.by_id.get(&id).map(Arc::clone);
        found.ok_or_else(|| Error::UnknownTable(format!("number {id}")))
    }

    /// All tables in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Table>> {
        self.tables
            .read()
            .by_name
            .values()
            .map(Arc::clone)
            .collect()
    }

    /// Tablespaces of all tables.
    pub(crate) fn spaces(&self) -> HashSet<u32> {
        let tables = self.tables.read();
        tables.by_id.values().map(|table| table.space).collect()
    }
}

impl<B: Backing> System<B> {
    /// Makes an empty table. It is there for good when this returns.
    pub(crate) fn create_table(&self, schema: &TableSchema) -> Result<(), Error> {
        schema.validate()?;
        let _one_at_a_time = self.catalog.changing.lock();
        if self.catalog.table(&schema.name).is_ok() {
            return Err(Error::TableExists(schema.name.clone()));
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

    /// The pages with a table's description, for a check.
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
        let table = self.take_unused(name)?;
        let gone = self
            .enter(name, None)
            .and_then(|lsn| Ok(self.backing.make_durable(lsn)?));
        if let Err(error) = gone {
            self.catalog.tables.write().add(table);
            return Err(error);
        }
        self.backing.drop_space(table.space)
    }

    /// Takes a table that no transaction uses out of the catalogue in memory.
    fn take_unused(&self, name: &str) -> Result<Arc<Table>, Error> {
        let mut tables = self.catalog.tables.write();
        let Some(table) = tables.by_name.get(name).map(Arc::clone) else {
            return Err(Error::UnknownTable(name.to_owned()));
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
