//! The catalogue: which tables there are.
//!
//! A tree in the system's tablespace, by name: tablespace (4),
//! segment (4) and reference (8) of the table's description, JSON in a long
//! value there, and the table's number (8). A table has a tablespace of its own, and is there when its name is in the
//! tree: so making it ends with one mini-transaction, and dropping it begins
//! with one. Tablespaces that no name leads to are dropped when the store is
//! opened.
//!
//! There may be thousands: a table's description is read when it is needed first,
//! or when undo that is left speaks of it. One
//! whose description cannot be read is damaged: it keeps its name and
//! its tablespace, and whoever wants to use it is told why that cannot be. All
//! others are as they were. It may become readable again, so nothing that it
//! needs is passed over: see [`System::open`].

mod change;

pub(crate) use change::NewTable;

use crate::access::Pages;
use crate::backing::Backing;
use crate::ids::SegmentId;
use crate::master::CATALOGUE_OWNER;
use crate::overflow::{Overflow, OverflowRef};
use crate::page::header::{get_u32, get_u64};
use crate::space::SpaceState;
use crate::table::{Table, TableRecord};
use crate::tree::{Direction, Tree};
use crate::txn::Error;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

/// Bytes of a record of the catalogue.
const RECORD_BYTES: usize = 24;
/// Those of tables that were made before numbers stood in it.
const RECORD_BYTES_UNNUMBERED: usize = 16;
/// Why a table without a tablespace is damaged.
const MISSING: &str = "its file is missing";
/// References that the catalogue itself has to each table.
const OWN_REFERENCES: usize = 2;

/// What is known of a table in memory.
enum Listed {
    /// What the tree has: nobody has needed it yet.
    Unread(Place),
    Read(Arc<Table>),
    Damaged(Damaged),
}

#[derive(Default)]
struct Tables {
    by_name: BTreeMap<String, Listed>,
    by_id: HashMap<u64, Arc<Table>>,
    /// Names of those that are not read, or damaged, where their numbers are
    /// known.
    others: HashMap<u64, String>,
}

/// A table whose description cannot be read.
#[derive(Clone)]
struct Damaged {
    space: u32,
    id: Option<u64>,
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

/// An index of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IndexName {
    /// The table.
    pub table: String,
    /// `None`: its primary key.
    pub index: Option<String>,
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
        self.others.remove(&table.id);
        self.by_id.insert(table.id, Arc::clone(&table));
        self.by_name
            .insert(table.name().to_owned(), Listed::Read(table));
    }

    /// Enters one that is not read, or damaged.
    fn add_other(&mut self, name: &str, id: Option<u64>, listed: Listed) {
        self.others.extend(id.map(|id| (id, name.to_owned())));
        self.by_name.insert(name.to_owned(), listed);
    }

    fn remove(&mut self, name: &str) {
        match self.by_name.remove(name) {
            Some(Listed::Read(table)) => drop(self.by_id.remove(&table.id)),
            Some(Listed::Unread(place)) => drop(place.id.map(|id| self.others.remove(&id))),
            Some(Listed::Damaged(it)) => drop(it.id.map(|id| self.others.remove(&id))),
            None => {}
        }
    }

    fn space_of(listed: &Listed) -> u32 {
        match listed {
            Listed::Unread(place) => place.space,
            Listed::Read(table) => table.space,
            Listed::Damaged(damaged) => damaged.space,
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

/// Where a table is.
#[derive(Clone, Copy)]
struct Place {
    space: u32,
    /// Segment of its long values, the description among them.
    segment: u32,
    described: OverflowRef,
    /// Its number, if the record says it.
    id: Option<u64>,
}

impl Place {
    fn encode(self) -> Vec<u8> {
        let mut value = self.space.to_le_bytes().to_vec();
        value.extend(self.segment.to_le_bytes());
        value.extend(self.described.to_bytes());
        value.extend(self.id.map(u64::to_le_bytes).iter().flatten());
        value
    }

    fn decode(name: &[u8], value: &[u8]) -> Result<Place, Error> {
        let (of_all, id) = match value.len() {
            RECORD_BYTES => (&value[..RECORD_BYTES_UNNUMBERED], Some(get_u64(value, 16))),
            _ => (value, None),
        };
        let parts = of_all.split_last_chunk();
        let Some((head, reference)) = parts.filter(|_| of_all.len() == RECORD_BYTES_UNNUMBERED)
        else {
            let name = String::from_utf8_lossy(name);
            let reason = format!("table {name}: its record has another length");
            return Err(Error::DamagedCatalogue(reason));
        };
        Ok(Place {
            space: get_u32(head, 0),
            segment: get_u32(head, 4),
            described: OverflowRef::from_bytes(*reference),
            id,
        })
    }

    /// The table, or why it is damaged.
    ///
    /// # Errors
    /// Those that say nothing of the table.
    fn table<B: Backing>(&self, backing: &B, name: &str) -> Result<Result<Table, String>, Error> {
        match backing.look_at_space(self.space)? {
            SpaceState::Usable => {}
            SpaceState::Missing => return Ok(Err(MISSING.to_owned())),
            SpaceState::Damaged(reason) => return Ok(Err(reason)),
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
        let is_its = self.id.is_none_or(|id| id == record.rows.id);
        if record.space != self.space || record.schema.name != name || !is_its {
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
    mut with: impl FnMut(&str, Place) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut cursor = tree.cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
    while let Some((name, value)) = cursor.next(pages)? {
        let place = Place::decode(name, value)?;
        let name = std::str::from_utf8(name).map_err(|error| {
            let name = String::from_utf8_lossy(name);
            Error::DamagedCatalogue(format!("table {name}: {error}"))
        })?;
        with(name, place)?;
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
    for_each(pages, tree, |name, place| {
        if passed_over.contains(&place.space) {
            return Err(Error::DamagedCatalogue(format!(
                "table {name}: {MISSING}, and the log has changes of it"
            )));
        }
        Ok(())
    })
}

/// All tables of a store. Each is read when it is needed first.
pub(crate) struct Catalog {
    pub(crate) tree: Tree,
    tables: RwLock<Tables>,
    /// Held while tables come and go.
    changing: Mutex<()>,
}

impl Catalog {
    /// Reads which there are.
    pub(crate) fn load<B: Backing>(backing: &B, tree: Tree) -> Result<Catalog, Error> {
        let mut tables = Tables::default();
        for_each(backing, &tree, |name, place| {
            tables.add_other(name, place.id, Listed::Unread(place));
            Ok(())
        })?;
        let catalog = Catalog {
            tree,
            tables: RwLock::new(tables),
            changing: Mutex::new(()),
        };
        let unnumbered = catalog.unread(|place| place.id.is_none());
        // Undo speaks of tables by their numbers.
        for name in unnumbered {
            catalog.look_at(backing, &name)?;
        }
        Ok(catalog)
    }

    fn unread(&self, of: impl Fn(&Place) -> bool) -> Vec<String> {
        let tables = self.tables.read();
        let unread = tables.by_name.iter().filter(|(_, listed)| match listed {
            Listed::Unread(place) => of(place),
            _ => false,
        });
        unread.map(|(name, _)| name.clone()).collect()
    }

    /// Keeps tables from coming and going.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }

    /// The table of a name.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::DamagedTable`]; those of reading it when
    /// it is needed first.
    pub(crate) fn table<B: Backing>(&self, backing: &B, name: &str) -> Result<Arc<Table>, Error> {
        if let Some(found) = self.listed(name) {
            return found;
        }
        self.look_at(backing, name)?;
        let found = self.listed(name);
        found.unwrap_or_else(|| Err(Error::UnknownTable(name.to_owned())))
    }

    /// What is known of a table, `None` if it must be read.
    fn listed(&self, name: &str) -> Option<Result<Arc<Table>, Error>> {
        match self.tables.read().by_name.get(name) {
            Some(Listed::Read(table)) => Some(Ok(Arc::clone(table))),
            Some(Listed::Damaged(damaged)) => Some(Err(damaged.named(name).into())),
            Some(Listed::Unread(_)) => None,
            None => Some(Err(Error::UnknownTable(name.to_owned()))),
        }
    }

    /// Reads a table, unless it was read before.
    ///
    /// # Errors
    /// Those that say nothing of the table.
    fn look_at<B: Backing>(&self, backing: &B, name: &str) -> Result<(), Error> {
        let place = match self.tables.read().by_name.get(name) {
            Some(Listed::Unread(place)) => *place,
            _ => return Ok(()),
        };
        let read = place.table(backing, name)?;
        let mut tables = self.tables.write();
        // Another thread may have been quicker, or have dropped it.
        if !matches!(tables.by_name.get(name), Some(Listed::Unread(_))) {
            return Ok(());
        }
        match read {
            Ok(table) => tables.add(Arc::new(table)),
            Err(reason) => {
                let damaged = Damaged {
                    space: place.space,
                    id: place.id,
                    reason,
                };
                tables.add_other(name, place.id, Listed::Damaged(damaged));
            }
        }
        Ok(())
    }

    /// The table with a number, as undo records name it. `None` if it was
    /// dropped: those that undo speaks of were read when the store was opened, or
    /// used since, and undo of damaged ones is left alone.
    pub(crate) fn by_id(&self, id: u64) -> Option<Arc<Table>> {
        let tables = self.tables.read();
        tables.by_id.get(&id).map(Arc::clone)
    }

    /// Which table and index has a number. `None`: it was dropped, or nobody has used
    /// the table.
    pub(crate) fn index_name(&self, id: u64) -> Option<IndexName> {
        let tables = self.tables.read();
        tables.by_id.values().find_map(|table| {
            let named = |index: Option<&str>| IndexName {
                table: table.name().to_owned(),
                index: index.map(str::to_owned),
            };
            let mut indexes = table.indexes.iter();
            match table.id == id {
                true => Some(named(None)),
                false => indexes
                    .find(|index| index.id == id)
                    .map(|index| named(Some(&index.name))),
            }
        })
    }

    /// Reads the tables of these numbers. Returns whether a damaged one may be
    /// among them: one whose record does not say its number may have any that is
    /// not known, as may those that have been dropped.
    ///
    /// # Errors
    /// Those that say nothing of the tables.
    pub(crate) fn need_damaged<B: Backing>(
        &self,
        backing: &B,
        ids: &BTreeSet<u64>,
    ) -> Result<bool, Error> {
        for id in ids {
            let name = self.tables.read().others.get(id).cloned();
            if let Some(name) = name {
                self.look_at(backing, &name)?;
            }
        }
        let tables = self.tables.read();
        let mut damaged = tables.by_name.values().filter_map(|listed| match listed {
            Listed::Damaged(damaged) => Some(damaged.id),
            _ => None,
        });
        let unknown = ids.iter().any(|id| !tables.by_id.contains_key(id));
        Ok(damaged.any(|id| id.map_or(unknown, |id| ids.contains(&id))))
    }

    /// Reads all tables. Those that could not be read for reasons that say nothing
    /// of them stay unread.
    fn look_at_all<B: Backing>(&self, backing: &B) -> Vec<DamagedTable> {
        let unread = self.unread(|_| true).into_iter();
        let failed = unread.filter_map(|name| match self.look_at(backing, &name) {
            Ok(()) => None,
            Err(error) => Some(DamagedTable {
                name,
                reason: error.to_string(),
            }),
        });
        failed.collect()
    }

    /// The tables that cannot be used, in the order of their names.
    pub(crate) fn damaged<B: Backing>(&self, backing: &B) -> Vec<DamagedTable> {
        let mut all = self.look_at_all(backing);
        let tables = self.tables.read();
        all.extend(tables.by_name.iter().filter_map(|(name, it)| match it {
            Listed::Damaged(damaged) => Some(damaged.named(name)),
            _ => None,
        }));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// All tables that can be used, in the order of their names.
    pub(crate) fn all<B: Backing>(&self, backing: &B) -> Vec<Arc<Table>> {
        self.look_at_all(backing);
        let tables = self.tables.read();
        let all = tables.by_name.values().filter_map(|listed| match listed {
            Listed::Read(table) => Some(Arc::clone(table)),
            _ => None,
        });
        all.collect()
    }

    /// The names of all, whether they can be used or not.
    pub(crate) fn names(&self) -> Vec<String> {
        self.tables.read().by_name.keys().cloned().collect()
    }

    /// Tablespaces of all tables, the damaged ones among them.
    pub(crate) fn spaces(&self) -> HashSet<u32> {
        let tables = self.tables.read();
        tables.by_name.values().map(Tables::space_of).collect()
    }
}

#[cfg(test)]
mod tests;
