//! Reading: which version of a row a view sees.

use super::version::{Version, VersionRef};
use super::{Error, Transaction, View};
use crate::access::PagesError;
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::ids::PageId;
use crate::system::System;
use crate::table::Table;
use crate::undo::read_record;
use crate::undo::record::{Body, Record};

impl<B: Backing> System<B> {
    /// The newest version of a row.
    pub(crate) fn newest(&self, table: &Table, key: &[u8]) -> Result<Option<Version>, Error> {
        self.newest_watched(table, key, &mut |_| {})
    }

    /// The same, and tells for which pages it has to wait.
    pub(crate) fn newest_watched(
        &self,
        table: &Table,
        key: &[u8],
        waits_for: &mut impl FnMut(PageId),
    ) -> Result<Option<Version>, Error> {
        let rows = &table.rows;
        let found = rows.get_watched(&self.backing, key, waits_for, |bytes| {
            VersionRef::decode(bytes).map(VersionRef::to_version)
        })?;
        match found {
            Some(None) => Err(damaged(table, "a row without its head".to_owned())),
            Some(version) => Ok(version),
            None => Ok(None),
        }
    }

    /// The version before one. Somebody's view must be open that does not see
    /// the transaction which made that one.
    pub(crate) fn before(
        &self,
        table: &Table,
        key: &[u8],
        version: &Version,
    ) -> Result<Option<Version>, Error> {
        if version.roll.is_none() {
            return Ok(None);
        }
        let bytes = read_record(&self.backing, self.slots.space(), version.roll)?;
        match Record::decode(&bytes) {
            Some(Record {
                trx,
                body:
                    Body::Row {
                        table: of,
                        key: of_key,
                        before,
                        ..
                    },
                ..
            }) if trx == version.trx && of == table.id && of_key == key => {
                Ok(before.map(VersionRef::to_version))
            }
            _ => {
                let page = PageId::new(self.slots.space(), version.roll.page());
                let offset = version.roll.offset();
                let reason = format!("the undo record at {offset} is of another row");
                Err(PagesError::Unreadable { page, reason }.into())
            }
        }
    }

    /// The version that a view sees, or that `own` made; `None` if the row is
    /// not there for it.
    pub(super) fn visible(
        &self,
        view: &View,
        own: Option<u64>,
        table: &Table,
        key: &[u8],
        newest: Version,
    ) -> Result<Option<Version>, Error> {
        let mut version = newest;
        while own != Some(version.trx) && !view.sees(version.trx) {
            match self.before(table, key, &version)? {
                Some(before) => version = before,
                None => return Ok(None),
            }
        }
        Ok((!version.is_deleted()).then_some(version))
    }

    /// The row of a version.
    pub(crate) fn row(&self, table: &Table, key: &[u8], version: &Version) -> Result<Row, Error> {
        if version.is_long() {
            let payload = table.whole_payload(&self.backing, version.borrow())?;
            return table.row(key, &payload);
        }
        table.row(key, &version.payload)
    }
}

/// The newest version of a row.
#[derive(Default)]
pub(super) struct Newest {
    /// It is not that the row was deleted.
    pub is_there: bool,
    /// The transaction that made it; `None`: there is no version.
    pub by: Option<u64>,
}

/// What a transaction sees of a row.
enum Seen {
    /// It is in its place.
    Row,
    Nothing,
    /// It must look further, from this version on.
    Look(Version),
}

/// What the newest version says of itself without another page.
#[inline]
fn newest_at_once(
    table: &Table,
    key: &[u8],
    newest: VersionRef<'_>,
    row: &mut Row,
) -> Result<Seen, Error> {
    if newest.is_deleted() {
        return Ok(Seen::Nothing);
    }
    if newest.is_long() {
        return Ok(Seen::Look(newest.to_version()));
    }
    table.put_row(key, newest.payload, row)?;
    Ok(Seen::Row)
}

pub(super) fn damaged(table: &Table, reason: String) -> Error {
    Error::DamagedRow {
        table: table.name().to_owned(),
        reason,
    }
}

impl<B: Backing> Transaction<'_, B> {
    /// The row with a primary key, as this transaction sees it.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::DamagedTable`], [`Error::KeyLength`],
    /// [`Error::Schema`] for a key of other types, [`Error::Ended`],
    /// [`Error::Pages`].
    pub fn get(&mut self, table: &str, key: &[Value]) -> Result<Option<Row>, Error> {
        let mut row = Row::new();
        let is_there = self.get_in(table, key, &mut row)?;
        Ok(is_there.then_some(row))
    }

    /// The same in the place of another row, in whose blobs it puts its own. Returns
    /// whether there is one; if not, what is in `row` means nothing.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_in(&mut self, table: &str, key: &[Value], row: &mut Row) -> Result<bool, Error> {
        self.check_open()?;
        let index = self.table_index(table)?;
        let key = self.tables[index].primary_key(key)?;
        self.look();
        let _acting = self.acting();
        self.put_seen(&self.tables[index], &key, &mut |_| {}, row)
    }

    /// The row at a [position](crate::Store::position_of), as this transaction sees
    /// it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_at(&mut self, table: &str, position: &[u8]) -> Result<Option<Row>, Error> {
        self.check_open()?;
        let index = self.table_index(table)?;
        self.look();
        let _acting = self.acting();
        self.seen(&self.tables[index], position)
    }

    /// The row of a key for this transaction, whose view is open.
    pub(super) fn seen(&self, table: &Table, key: &[u8]) -> Result<Option<Row>, Error> {
        self.seen_watched(table, key, &mut |_| {})
    }

    /// The same, and tells for which pages of the table it has to wait.
    pub(super) fn seen_watched(
        &self,
        table: &Table,
        key: &[u8],
        waits_for: &mut impl FnMut(PageId),
    ) -> Result<Option<Row>, Error> {
        let mut row = Row::new();
        let is_there = self.put_seen(table, key, waits_for, &mut row)?;
        Ok(is_there.then_some(row))
    }

    /// The same in the place of another row. Returns whether there is one.
    pub(super) fn put_seen(
        &self,
        table: &Table,
        key: &[u8],
        waits_for: &mut impl FnMut(PageId),
        row: &mut Row,
    ) -> Result<bool, Error> {
        let backing = &self.system.backing;
        let found = table.rows.get_watched(backing, key, waits_for, |bytes| {
            let newest = self.newest_of(table, bytes)?;
            self.at_once(table, key, newest, row)
        })?;
        let seen = found.transpose()?.unwrap_or(Seen::Nothing);
        self.put_rest(table, key, seen, row)
    }

    /// The same, with the bytes of the newest version, or one that was it.
    pub(super) fn seen_of(
        &self,
        table: &Table,
        key: &[u8],
        bytes: &[u8],
    ) -> Result<Option<Row>, Error> {
        let mut row = Row::new();
        let is_there = self.put_seen_of(table, key, bytes, &mut row)?;
        Ok(is_there.then_some(row))
    }

    /// The same in the place of another row. Returns whether there is one; if not,
    /// nobody may look at what is there.
    pub(super) fn put_seen_of(
        &self,
        table: &Table,
        key: &[u8],
        bytes: &[u8],
        row: &mut Row,
    ) -> Result<bool, Error> {
        let newest = self.newest_of(table, bytes)?;
        let seen = self.at_once(table, key, newest, row)?;
        self.put_rest(table, key, seen, row)
    }

    /// What was not seen at once, mostly nothing.
    #[inline]
    fn put_rest(
        &self,
        table: &Table,
        key: &[u8],
        seen: Seen,
        row: &mut Row,
    ) -> Result<bool, Error> {
        match seen {
            Seen::Row => Ok(true),
            Seen::Look(newest) => {
                let seen = self.seen_after(table, key, newest)?;
                Ok(seen.map(|seen| *row = seen).is_some())
            }
            Seen::Nothing => Ok(false),
        }
    }

    /// The newest version of a row that is locked, if this transaction may change it, in
    /// the place of another row.
    pub(super) fn put_newest(
        &self,
        table: &Table,
        key: &[u8],
        row: &mut Row,
    ) -> Result<Newest, Error> {
        let mut by = None;
        let found = table.rows.get(&self.system.backing, key, |bytes| {
            let newest = self.newest_of(table, bytes)?;
            self.check_changeable(table, newest.trx)?;
            by = Some(newest.trx);
            newest_at_once(table, key, newest, row)
        })?;
        let is_there = match found.transpose()?.unwrap_or(Seen::Nothing) {
            Seen::Row => true,
            Seen::Nothing => false,
            Seen::Look(newest) => {
                *row = self.system.row(table, key, &newest)?;
                true
            }
        };
        Ok(Newest { is_there, by })
    }

    fn newest_of<'a>(&self, table: &Table, bytes: &'a [u8]) -> Result<VersionRef<'a>, Error> {
        let version = VersionRef::decode(bytes);
        version.ok_or_else(|| damaged(table, "a row without its head".to_owned()))
    }

    pub(super) fn view(&self) -> &View {
        &self.view.as_ref().expect("opened before reading").view
    }

    /// What the newest version says without another page: mostly all. A row takes the
    /// place of another one.
    fn at_once(
        &self,
        table: &Table,
        key: &[u8],
        newest: VersionRef<'_>,
        row: &mut Row,
    ) -> Result<Seen, Error> {
        if !self.view().sees(newest.trx) && self.own() != Some(newest.trx) {
            return Ok(Seen::Look(newest.to_version()));
        }
        newest_at_once(table, key, newest, row)
    }

    /// What takes more pages: older versions, long values.
    pub(super) fn seen_after(
        &self,
        table: &Table,
        key: &[u8],
        newest: Version,
    ) -> Result<Option<Row>, Error> {
        let visible = self
            .system
            .visible(self.view(), self.own(), table, key, newest)?;
        visible
            .map(|version| self.system.row(table, key, &version))
            .transpose()
    }
}
