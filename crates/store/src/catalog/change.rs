//! Making, dropping and replacing tables.

use super::{Listed, OWN_REFERENCES, Place, description};
use crate::backing::Backing;
use crate::data::TableSchema;
use crate::ids::Lsn;
use crate::space::Owner;
use crate::system::System;
use crate::table::{Table, TableRecord, TreePlace};
use crate::tree::{Decision, ModifyError, Reserve, Tree};
use crate::txn::Error;
use std::borrow::Cow;
use std::sync::Arc;

/// A table to which nothing leads yet.
pub(crate) struct NewTable {
    pub(crate) table: Table,
    /// Its record for the catalogue.
    value: Vec<u8>,
}

impl<B: Backing> System<B> {
    /// Makes an empty table. It is there for good when this returns.
    pub(crate) fn create_table(&self, schema: &TableSchema) -> Result<(), Error> {
        schema.validate()?;
        let _one_at_a_time = self.catalog.changing.lock();
        self.expect_no_table(&schema.name)?;
        let table = self.build_table(schema, |_| Ok(()))?;
        self.catalog.tables.write().add(Arc::new(table));
        Ok(())
    }

    /// Makes a table, lets `fill` put something into it, and enters it in the
    /// catalogue, also in the place of another of its name. If that fails nothing
    /// is left, or a tablespace that is dropped when the store is opened again.
    pub(crate) fn build_table(
        &self,
        schema: &TableSchema,
        fill: impl FnOnce(&Table) -> Result<(), Error>,
    ) -> Result<Table, Error> {
        let new = self.begin_table(schema)?;
        if let Err(error) = fill(&new.table) {
            // The first error says more than one of cleaning up.
            let _ = self.backing.drop_space(new.table.space);
            return Err(error);
        }
        self.enter_table(&new)?;
        Ok(new.table)
    }

    /// Makes an empty table in a tablespace of its own, to which nothing leads.
    pub(crate) fn begin_table(&self, schema: &TableSchema) -> Result<NewTable, Error> {
        let id = self.views.number(&self.backing)?;
        let space = self.backing.create_space(&format!("table-{id}"))?;
        let built = self.build_in(schema, id, space);
        if built.is_err() {
            // The first error says more than one of cleaning up.
            let _ = self.backing.drop_space(space);
        }
        built
    }

    /// Enters a table in the catalogue, for good. From here on its tablespace
    /// stays: if this fails, nobody knows whether the catalogue on the disk leads to
    /// it.
    pub(crate) fn enter_table(&self, new: &NewTable) -> Result<(), Error> {
        let lsn = self.enter(new.table.name(), Some(&new.value))?;
        Ok(self.backing.make_durable(lsn)?)
    }

    /// The same for one that others shall use; it stays with the caller where its name
    /// has been taken meanwhile.
    pub(crate) fn add_table(&self, new: &mut Option<NewTable>) -> Result<(), Error> {
        let _one_at_a_time = self.catalog.changing.lock();
        if let Some(made) = new {
            self.expect_no_table(made.table.name())?;
        }
        if let Some(made) = new.take() {
            self.enter_table(&made)?;
            self.catalog.tables.write().add(Arc::new(made.table));
        }
        Ok(())
    }

    /// # Errors
    /// [`Error::TableExists`], [`Error::DamagedTable`].
    pub(crate) fn expect_no_table(&self, name: &str) -> Result<(), Error> {
        match self.catalog.table(&self.backing, name) {
            Err(Error::UnknownTable(_)) => Ok(()),
            Err(damaged) => Err(damaged),
            Ok(_) => Err(Error::TableExists(name.to_owned())),
        }
    }

    /// Makes a table's trees, and its record for the catalogue.
    fn build_in(&self, schema: &TableSchema, id: u64, space: u32) -> Result<NewTable, Error> {
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
        let place = Place {
            space,
            segment: record.long,
            described,
            id: Some(id),
        };
        Ok(NewTable {
            table: Table::new(record)?,
            value: place.encode(),
        })
    }

    /// The pages with a table's description, for a check. They are read: the
    /// store could not open the table without them.
    pub(crate) fn description_pages(&self, table: &Table) -> Result<Vec<u32>, Error> {
        let name = table.name().as_bytes();
        let record = self.catalog.tree.get(&self.backing, name, |value| {
            Place::decode(name, value).ok().map(|place| place.described)
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
        match self.catalog.table(&self.backing, name) {
            Err(Error::DamagedTable { .. }) => return self.drop_damaged(name),
            table => drop(table?),
        }
        let table = self.take_unused(name)?;
        if let Err(error) = self.take_name(name) {
            self.catalog.tables.write().add(table);
            return Err(error);
        }
        self.backing.drop_space(table.space)
    }

    /// Drops a table that nobody could use: its record says where it is. A file
    /// that may be another store's stays.
    fn drop_damaged(&self, name: &str) -> Result<(), Error> {
        let damaged = match self.catalog.tables.read().by_name.get(name) {
            Some(Listed::Damaged(damaged)) => damaged.clone(),
            _ => return Err(Error::UnknownTable(name.to_owned())),
        };
        self.take_name(name)?;
        self.catalog.tables.write().remove(name);
        let mut unusable = self.backing.unusable().into_iter();
        let is_others = unusable.any(|it| it.space == damaged.space && it.owner == Owner::Other);
        if !is_others && self.backing.spaces().contains(&damaged.space) {
            self.backing.drop_space(damaged.space)?;
        }
        Ok(())
    }

    /// Takes a table's record out of the catalogue for good.
    fn take_name(&self, name: &str) -> Result<(), Error> {
        let lsn = self.enter(name, None)?;
        Ok(self.backing.make_durable(lsn)?)
    }

    /// Takes a table that was read and that no transaction uses out of the catalogue
    /// in memory.
    fn take_unused(&self, name: &str) -> Result<Arc<Table>, Error> {
        let mut tables = self.catalog.tables.write();
        let Some(Listed::Read(table)) = tables.by_name.get(name) else {
            return Err(Error::UnknownTable(name.to_owned()));
        };
        if Arc::strong_count(table) > OWN_REFERENCES {
            return Err(Error::TableInUse(name.to_owned()));
        }
        let table = Arc::clone(table);
        tables.remove(name);
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
        drop(self.catalog.table(&self.backing, name)?);
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
