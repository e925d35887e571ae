//! Transactions that are told later whether they commit: the first half of a
//! commit in two phases.
//!
//! A prepared one has its changes and a record with its name in its undo slot,
//! durably. It keeps its slot and its locks, is invisible, and belongs to nobody
//! until it is committed or rolled back by its name. Where it was prepared when the
//! store ended, it is so when that is opened again: its last record that is not
//! undone says so, and its locks follow from its changes.

use super::locks::{DetachedLocks, LockMode, LockName, TrxId, TrxLocks};
use super::transaction::Writer;
use super::version::{RollPointer, Version};
use super::{Durability, Error, Transaction};
use crate::access::PagesError;
use crate::backing::Backing;
use crate::ids::Lsn;
use crate::system::System;
use crate::table::Table;
use crate::undo::record::{Body, Record};
use crate::undo::{Slot, read_record};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest name of a prepared transaction: what XA allows, with the lengths of its
/// parts and its format.
pub const XID_BYTES_MAX: usize = 140;

/// One that is prepared.
struct Prepared {
    trx: u64,
    slot: Slot,
    locks: DetachedLocks,
    /// Which cannot be dropped.
    tables: Vec<Arc<Table>>,
}

/// All that are prepared. `None`: one is being prepared, or ended.
#[derive(Default)]
pub(crate) struct PreparedTransactions(Mutex<BTreeMap<Vec<u8>, Option<Prepared>>>);

impl PreparedTransactions {
    /// Keeps a name for one that is about to be prepared.
    fn keep_name(&self, xid: &[u8]) -> Result<(), Error> {
        let mut all = self.0.lock();
        if all.contains_key(xid) {
            return Err(Error::PreparedExists(xid.to_vec()));
        }
        all.insert(xid.to_vec(), None);
        Ok(())
    }

    fn put(&self, xid: &[u8], prepared: Prepared) {
        self.0.lock().insert(xid.to_vec(), Some(prepared));
    }

    fn forget(&self, xid: &[u8]) {
        self.0.lock().remove(xid);
    }

    /// Takes one to end it. Its name stays.
    fn take(&self, xid: &[u8]) -> Result<Prepared, Error> {
        let mut all = self.0.lock();
        let found = all.get_mut(xid).and_then(Option::take);
        found.ok_or_else(|| Error::UnknownPrepared(xid.to_vec()))
    }

    /// Whether one has changed a table. Of one that is being prepared, or ended, nothing is said.
    fn have_changed(&self, table: u64) -> bool {
        let all = self.0.lock();
        let mut tables = all.values().flatten().flat_map(|one| &one.tables);
        tables.any(|changed| changed.id == table)
    }

    /// The names of all that can be ended.
    pub(crate) fn names(&self) -> Vec<Vec<u8>> {
        let all = self.0.lock();
        let complete = all.iter().filter(|(_, it)| it.is_some());
        complete.map(|(name, _)| name.clone()).collect()
    }
}

impl<B: Backing> Transaction<'_, B> {
    /// Makes all that it has changed durable, and leaves it to
    /// [`Store::commit_prepared`](crate::Store::commit_prepared) or
    /// [`rollback_prepared`](crate::Store::rollback_prepared), now or after the
    /// store was opened again, to end it by this name. Its rows stay locked until
    /// then. One that has changed nothing is prepared, too.
    ///
    /// # Errors
    /// [`Error::PreparedExists`], [`Error::XidLength`]; [`Error::Ended`],
    /// [`Error::TooManyWriters`]: nothing has happened but that it is rolled back.
    /// [`Error::Pages`]: before its record was in the log, it is rolled back; after
    /// that the store has failed, and it shows when it is opened again whether it
    /// is prepared.
    pub fn prepare(self, xid: &[u8]) -> Result<(), Error> {
        let durability = self.system.options.durability;
        self.prepare_with(xid, durability)
    }

    /// The same, with a durability of its own: a caller that makes several prepared
    /// ones durable together calls [`Store::sync`](crate::Store::sync) after them.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_with(mut self, xid: &[u8], durability: Durability) -> Result<(), Error> {
        self.check_open()?;
        if xid.is_empty() || xid.len() > XID_BYTES_MAX {
            return Err(Error::XidLength(xid.len()));
        }
        let system = self.system;
        system.prepared.keep_name(xid)?;
        let lsn = match self.append_prepared(xid) {
            Ok(lsn) => lsn,
            Err(error) => {
                system.prepared.forget(xid);
                return Err(error);
            }
        };
        let writer = self.leave().expect("it has written its record");
        let Writer {
            trx, slot, locks, ..
        } = writer;
        let prepared = Prepared {
            trx,
            slot,
            locks: locks.detach(),
            tables: std::mem::take(&mut self.tables),
        };
        system.prepared.put(xid, prepared);
        drop(self);
        system.wait_for(lsn, durability)
    }

    fn append_prepared(&mut self, xid: &[u8]) -> Result<Lsn, Error> {
        let system = self.system;
        // Older programs would take the record for damage.
        system.backing.need_present_format()?;
        let writer = self.writer()?;
        let trx = writer.trx;
        let _changing = system.gate.read();
        system.append_record(trx, &mut writer.slot, Body::Prepared { xid }, trx)
    }
}

impl<B: Backing> System<B> {
    /// Whether a prepared transaction has changed a table.
    pub(crate) fn is_changed_by_prepared(&self, name: &str) -> Result<bool, Error> {
        let table = self.catalog.table(&self.backing, name)?;
        Ok(self.prepared.have_changed(table.id))
    }

    /// Commits a prepared transaction.
    pub(crate) fn commit_prepared(&self, xid: &[u8], durability: Durability) -> Result<(), Error> {
        let mut prepared = self.prepared.take(xid)?;
        let (number, lsn) = match self.append_end(prepared.trx, &mut prepared.slot, true) {
            Ok(end) => end,
            Err(error) => {
                self.prepared.put(xid, prepared);
                return Err(error);
            }
        };
        let Prepared {
            trx,
            slot,
            locks,
            tables,
        } = prepared;
        let unpaid = self.end_committed(trx, number, lsn, slot, durability)?;
        drop(self.locks.attach(locks));
        drop(tables);
        self.prepared.forget(xid);
        self.pay_at_end(unpaid);
        Ok(())
    }

    /// Undoes a prepared transaction.
    pub(crate) fn rollback_prepared(&self, xid: &[u8]) -> Result<(), Error> {
        let mut prepared = self.prepared.take(xid)?;
        let undone = self
            .undo_to(prepared.trx, &mut prepared.slot, RollPointer::NONE)
            .and_then(|()| self.append_end(prepared.trx, &mut prepared.slot, false));
        match undone {
            Ok((number, lsn)) => {
                self.slots.give_back(prepared.slot);
                self.views.end(prepared.trx, number);
                self.counters.rolled_back.fetch_add(1, Ordering::Relaxed);
                drop(self.locks.attach(prepared.locks));
                self.prepared.forget(xid);
                // Otherwise it could be prepared again after a crash.
                self.wait_for(lsn, self.options.durability)
            }
            Err(error) => {
                // What is left of it can be undone again.
                self.prepared.put(xid, prepared);
                Err(error)
            }
        }
    }

    fn record_of(&self, trx: u64, at: RollPointer) -> Result<Vec<u8>, Error> {
        let bytes = read_record(&self.backing, self.slots.space(), at)?;
        match Record::decode(&bytes) {
            Some(record) if record.trx == trx => Ok(bytes),
            _ => Err(Error::Pages(PagesError::Unreadable {
                page: crate::ids::PageId::new(self.slots.space(), at.page()),
                reason: format!("the undo record at {} is not of {trx}", at.offset()),
            })),
        }
    }

    /// Takes up a transaction that had not ended when the store did, if it was
    /// prepared. Otherwise gives its slot back.
    pub(crate) fn adopt_prepared(&self, trx: u64, slot: Slot) -> Result<Option<Slot>, Error> {
        if slot.last.is_none() {
            return Ok(Some(slot));
        }
        let bytes = self.record_of(trx, slot.last)?;
        let xid = match Record::decode(&bytes).map(|record| record.body) {
            Some(Body::Prepared { xid }) => xid.to_vec(),
            _ => return Ok(Some(slot)),
        };
        let mut locks = self.locks.locks(TrxId(trx));
        let mut tables = BTreeMap::new();
        for (table, key) in self.keys_changed(trx, slot.last)? {
            // Undo of damaged ones is left alone before; others were dropped.
            let Some(table) = self.catalog.by_id(table) else {
                continue;
            };
            self.lock_again(trx, &table, &key, &mut locks)?;
            tables.insert(table.id, table);
        }
        self.prepared.keep_name(&xid)?;
        let prepared = Prepared {
            trx,
            slot,
            locks: locks.detach(),
            tables: tables.into_values().collect(),
        };
        self.prepared.put(&xid, prepared);
        Ok(None)
    }

    /// The rows that a transaction has changed, by tables.
    fn keys_changed(&self, trx: u64, last: RollPointer) -> Result<BTreeSet<(u64, Vec<u8>)>, Error> {
        let mut keys = BTreeSet::new();
        let mut at = last;
        while !at.is_none() {
            let bytes = self.record_of(trx, at)?;
            let record = Record::decode(&bytes).expect("decoded before");
            if let Body::Row { table, key, .. } = record.body {
                keys.insert((table, key.to_vec()));
            }
            at = record.previous;
        }
        Ok(keys)
    }

    /// Locks a row that a transaction has changed, and what its versions have of
    /// unique indexes, as the transaction had.
    fn lock_again(
        &self,
        trx: u64,
        table: &Table,
        key: &[u8],
        locks: &mut TrxLocks<'_>,
    ) -> Result<(), Error> {
        let mut take = |index: u64, key: &[u8]| {
            let key = Arc::from(key);
            let name = LockName { index, key };
            locks.lock(name, LockMode::Exclusive, Duration::ZERO)
        };
        take(table.id, key)?;
        let mut version: Option<Version> = self.newest(table, key)?;
        while let Some(this) = version {
            if !this.is_deleted() {
                let row = self.row(table, key, &this)?;
                let unique = table.indexes.iter();
                for index in unique.filter(|index| table.is_unique_for(index, &row)) {
                    take(index.id, &table.index_key(index, &row)?)?;
                }
            }
            version = match this.trx == trx {
                true => self.before(table, key, &this)?,
                false => None,
            };
        }
        Ok(())
    }
}
