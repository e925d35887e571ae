//! Reading and changing rows whose keys are known beforehand.

use super::change::Changes;
use super::{Error, RowChange, Transaction};
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::policy::Role;
use crate::stream::{KeysAhead, in_range, keys_at_once};
use crate::table::Table;

impl<B: Backing> Transaction<'_, B> {
    /// The rows with primary keys, in the order of the keys; `None` where there
    /// is no such row. As [`get`](Self::get) of each; but what is not in memory
    /// is read together, so that many take little longer than one.
    ///
    /// ```no_run
    /// # fn show(store: &iolane_store::Store) -> Result<(), iolane_store::Error> {
    /// let mut transaction = store.begin();
    /// let keys = [[17.into()], [4.into()], [99.into()]];
    /// let rows = transaction.get_many("person", &keys)?;
    /// assert_eq!(rows.len(), 3);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get): that of the first key, in the order of keys, that
    /// has one.
    pub fn get_many(
        &mut self,
        table: &str,
        keys: &[impl AsRef<[Value]>],
    ) -> Result<Vec<Option<Row>>, Error> {
        self.check_open()?;
        let table = self.table(table)?;
        let mut order: Vec<_> = encode_all(&table, keys)?.into_iter().zip(0..).collect();
        order.sort();
        let (sorted, places): (Vec<Vec<u8>>, Vec<usize>) = order.into_iter().unzip();
        self.look();
        let _acting = self.acting();
        let _range = in_range();
        let role = self.ahead_as(Role::Index);
        let mut ahead = KeysAhead::new(&self.system.backing, &table.rows, &sorted, role);
        let mut rows = vec![None; keys.len()];
        for (at, (key, &place)) in sorted.iter().zip(&places).enumerate() {
            rows[place] = self.seen_watched(&table, key, &mut |page| ahead.waits_for(at, page))?;
            ahead.is_through_with(at);
        }
        Ok(rows)
    }

    /// Calls `change` with the rows of a table with these primary keys, as this
    /// transaction sees them, in the order of the keys' values, and does with
    /// each what it says. Keys without a row are passed over. Returns how many
    /// were changed.
    ///
    /// The same as a [`get`](Self::get) and a change of each; but what is not
    /// in memory is read together, before a row of it is locked: others wait
    /// shorter for these rows. Rows are changed some time after `change` was
    /// called with them.
    ///
    /// ```no_run
    /// # use iolane_store::{RowChange, data::Value};
    /// # fn raise(store: &iolane_store::Store) -> Result<(), iolane_store::Error> {
    /// let mut transaction = store.begin_bulk();
    /// let keys: Vec<[Value; 1]> = (0..1000).map(|id| [(id * 7).into()]).collect();
    /// transaction.change_many("account", &keys, |mut row| {
    ///     row[1] = Value::Integer(0);
    ///     RowChange::Update(row)
    /// })?;
    /// transaction.commit()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`change_range`](Self::change_range): then none of these rows is
    /// changed, and but for a deadlock the transaction can go on.
    pub fn change_many(
        &mut self,
        table: &str,
        keys: &[impl AsRef<[Value]>],
        mut change: impl FnMut(Row) -> RowChange,
    ) -> Result<u64, Error> {
        self.check_open()?;
        let table = self.table(table)?;
        let mut keys = encode_all(&table, keys)?;
        keys.sort();
        keys.dedup();
        let at_once = keys_at_once(&self.system.backing);
        self.statement(|this| {
            let mut changes = Changes::default();
            for some in keys.chunks(at_once.unwrap_or(keys.len()).max(1)) {
                if at_once.is_some() {
                    this.bring(&table, some)?;
                }
                // After it: what others change meanwhile is no conflict, unless
                // the transaction has looked before.
                this.look();
                for key in some {
                    if let Some(row) = this.seen(&table, key)? {
                        this.decide(&table, key, row, &mut change, &mut changes)?;
                    }
                }
                this.change_planned(&table, &mut changes)?;
            }
            Ok(changes.made)
        })
    }

    /// Brings the leaves of keys into memory.
    fn bring(&self, table: &Table, keys: &[Vec<u8>]) -> Result<(), Error> {
        let _range = in_range();
        let backing = &self.system.backing;
        let role = self.ahead_as(Role::Index);
        let mut ahead = KeysAhead::new(backing, &table.rows, keys, role);
        for (at, key) in keys.iter().enumerate() {
            let waits_for = &mut |page| ahead.waits_for(at, page);
            table.rows.get_watched(backing, key, waits_for, |_| ())?;
            ahead.is_through_with(at);
        }
        Ok(())
    }
}

fn encode_all(table: &Table, keys: &[impl AsRef<[Value]>]) -> Result<Vec<Vec<u8>>, Error> {
    let keys = keys.iter().map(AsRef::as_ref);
    keys.map(|key| table.primary_key(key)).collect()
}
