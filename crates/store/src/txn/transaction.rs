//! A transaction's life.

use super::lag::PAID_TOGETHER;
use super::locks::{LockError, LockMode, LockName, TrxId, TrxLocks};
use super::version::RollPointer;
use super::{Error, OpenView};
use crate::attempt::in_mini;
use crate::backing::Backing;
use crate::ids::Lsn;
use crate::page_store::PageStore;
use crate::policy::Role;
use crate::stream::{Acting, Hurry, acting_until};
use crate::system::System;
use crate::table::Table;
use crate::undo::record::Body;
use crate::undo::{Place, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// When a commit is acknowledged, as InnoDB's `innodb_flush_log_at_trx_commit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is on the disk (InnoDB's 1).
    #[default]
    Synced,
    /// When it is in the log's file; about a second later it is on the disk
    /// (InnoDB's 2). It survives the end of the program, however that comes
    /// about. A crash of the machine may lose the last commits, as with
    /// [`Lazy`](Self::Lazy).
    Written,
    /// At once; about a second later it is on the disk (InnoDB's 0). A crash of
    /// the program or the machine may lose the last commits, all from one point
    /// on: none that is kept depends on a lost one.
    Lazy,
}

/// What a transaction sees of others, and what it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// It sees what had been committed when it first read something. A row that
    /// another one has changed since is not changed: [`Error::WriteConflict`].
    #[default]
    Snapshot,
    /// It sees what had been committed when it first read something without locking
    /// it; changes and locking reads are of the newest version of a row, as InnoDB's
    /// are.
    RepeatableRead,
    /// As [`RepeatableRead`](Self::RepeatableRead), but what it sees is what had
    /// been committed when the [statement](Transaction::begin_statement) first read
    /// something.
    ReadCommitted,
}

/// How a transaction begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// What it sees.
    pub isolation: Isolation,
    /// How long it waits for a row, or to begin writing; otherwise as long as the
    /// store's options say.
    pub lock_timeout: Option<Duration>,
    /// It is work that [nobody waits for](crate::Store::begin_bulk).
    pub bulk: bool,
}

/// A point in a transaction that it can go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(u64);

impl Savepoint {
    /// Its number, for interfaces that have no such type.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The savepoint of a number; one that is none is found out when it is used.
    pub const fn of(number: u64) -> Savepoint {
        Savepoint(number)
    }
}

/// Numbers of savepoints, different in all transactions of a program.
static SAVEPOINTS: AtomicU64 = AtomicU64::new(0);

/// What a transaction has once it writes.
pub(super) struct Writer<'s> {
    pub(super) trx: u64,
    /// Where its first record is, if there is one.
    begin: Place,
    pub(super) slot: Slot,
    pub(super) locks: TrxLocks<'s>,
}

impl Writer<'_> {
    /// Whether it has written no undo record, not even one that is undone.
    fn is_idle(&self) -> bool {
        self.slot.tail() == self.begin
    }
}

/// Reads and changes that happen together or not at all, as if alone: it sees
/// what had been committed when it first read or changed something, and its own
/// changes. Rolled back when dropped.
///
/// For one thread at a time. Readers wait for nobody; a change waits for
/// whoever has changed the same row and not ended.
///
/// Snapshots allow write skew: of two that read the same rows and change
/// different ones, both commit. Where that must not be, change (to the same
/// values) what the decision depends on: then one of them is refused.
///
/// One that is never dropped ([`std::mem::forget`]) keeps its rows locked, its
/// undo slot taken and all versions since its view, until the store is opened
/// again: that rolls it back. Others wait for its rows as long as
/// `lock_timeout` says.
pub struct Transaction<'s, B: Backing = PageStore> {
    pub(super) system: &'s System<B>,
    /// Closed after what it protects was read.
    pub(super) view: Option<OpenView<'s>>,
    pub(super) writer: Option<Writer<'s>>,
    /// Those that it has used, mostly a few.
    pub(super) tables: Vec<Arc<Table>>,
    /// Those that are valid, with the last record before each.
    savepoints: Vec<(u64, RollPointer)>,
    ended: bool,
    isolation: Isolation,
    owner: u64,
    /// How long it waits for others.
    patience: Duration,
    /// For whom its ranges are read ...
    pub(super) role: Role,
    /// ... until others wait for its rows.
    pub(super) hurry: Option<Hurry>,
}

impl<'s, B: Backing> Transaction<'s, B> {
    pub(crate) fn begin(system: &'s System<B>) -> Transaction<'s, B> {
        Transaction::begin_as(system, Role::Read)
    }

    /// One whose ranges are read for another role than a query.
    pub(crate) fn begin_as(system: &'s System<B>, role: Role) -> Transaction<'s, B> {
        Transaction {
            system,
            view: None,
            writer: None,
            tables: Vec::new(),
            savepoints: Vec::new(),
            ended: false,
            isolation: Isolation::default(),
            owner: 0,
            patience: system.options.lock_timeout,
            hurry: (role != Role::Read).then(Hurry::default),
            role,
        }
    }

    /// One that begins so.
    pub(crate) fn begin_with(
        system: &'s System<B>,
        options: &TransactionOptions,
    ) -> Transaction<'s, B> {
        let role = if options.bulk { Role::Bulk } else { Role::Read };
        let patience = options.lock_timeout.unwrap_or(system.options.lock_timeout);
        let mut transaction = Transaction::begin_as(system, role);
        transaction.isolation = options.isolation;
        transaction.patience = patience;
        transaction
    }

    /// How long it waits for others from here on.
    pub fn set_lock_timeout(&mut self, timeout: Duration) {
        self.patience = timeout;
    }

    /// Says whose it is for [`Store::cancel_wait`](crate::Store::cancel_wait) and
    /// [`Store::observe_waits`](crate::Store::observe_waits): a number that the program
    /// gives, perhaps to each connection, which has one transaction at a time; 0:
    /// nobody's. To be called before it locks or changes a row.
    pub fn set_owner(&mut self, owner: u64) {
        self.owner = owner;
    }

    /// Looks now: what has been committed by now is what it sees, where
    /// [`Isolation`] does not say otherwise of its later statements.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn open_view(&mut self) -> Result<(), Error> {
        self.check_open()?;
        self.look();
        Ok(())
    }

    /// Begins a statement: one that reads what is committed sees from now on what
    /// was committed when it next reads something. Others go on as they were.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn begin_statement(&mut self) -> Result<(), Error> {
        self.check_open()?;
        if self.isolation == Isolation::ReadCommitted {
            self.view = None;
        }
        Ok(())
    }

    pub(crate) fn system(&self) -> &'s System<B> {
        self.system
    }

    /// Its number as one that writes.
    pub(crate) fn number(&mut self) -> Result<u64, Error> {
        Ok(self.writer()?.trx)
    }

    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Are changes and locking reads of the newest version of a row?
    pub(super) fn is_of_newest(&self) -> bool {
        self.isolation != Isolation::Snapshot
    }

    /// Until it is dropped, the thread acts for the transaction's role: queries
    /// need not say so.
    pub(crate) fn acting(&self) -> Option<Acting> {
        (self.role != Role::Read).then(|| acting_until(self.role, self.hurry.clone()))
    }

    /// # Errors
    /// [`Error::Ended`].
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        if self.ended {
            Err(Error::Ended)
        } else {
            Ok(())
        }
    }

    /// A table, which cannot be dropped until the transaction ends.
    pub(crate) fn table(&mut self, name: &str) -> Result<Arc<Table>, Error> {
        let index = self.table_index(name)?;
        Ok(Arc::clone(&self.tables[index]))
    }

    /// Where it is in `tables`: whoever needs it only briefly does not count as
    /// its holder, in memory that all threads write to.
    pub(super) fn table_index(&mut self, name: &str) -> Result<usize, Error> {
        let found = self.tables.iter().position(|table| table.name() == name);
        if let Some(index) = found {
            return Ok(index);
        }
        let table = self.system.catalog.table(&self.system.backing, name)?;
        self.tables.push(table);
        Ok(self.tables.len() - 1)
    }

    /// Opens the view, if it is not open yet.
    pub(super) fn look(&mut self) {
        if self.view.is_none() {
            self.view = Some(self.system.views.open());
        }
    }

    /// The same before it changes or locks rows, where these are of its view.
    pub(super) fn look_for_changes(&mut self) {
        if !self.is_of_newest() {
            self.look();
        }
    }

    /// Number as far as reading its own changes goes.
    pub(crate) fn own(&self) -> Option<u64> {
        self.writer.as_ref().map(|writer| writer.trx)
    }

    /// Makes it one that writes.
    pub(super) fn writer(&mut self) -> Result<&mut Writer<'s>, Error> {
        if self.writer.is_none() {
            let system = self.system;
            let patience = self.patience;
            let slot = match system.slots.acquire(patience) {
                Ok(Some(slot)) => slot,
                Ok(None) => system.create_slot()?,
                Err(slots) => {
                    return Err(Error::TooManyWriters {
                        slots,
                        waited: patience,
                    });
                }
            };
            let trx = match system.views.begin_writing(&system.backing) {
                Ok(trx) => trx,
                Err(error) => {
                    system.slots.give_back(slot);
                    return Err(error.into());
                }
            };
            self.writer = Some(Writer {
                trx,
                begin: slot.tail(),
                slot,
                locks: system
                    .locks
                    .locks_of(TrxId(trx), self.hurry.clone(), self.owner),
            });
        }
        Ok(self.writer.as_mut().expect("made above"))
    }

    /// Locks a key of an index for changes. After a deadlock the transaction is
    /// rolled back.
    pub(super) fn lock(&mut self, index: u64, key: &Arc<[u8]>) -> Result<(), Error> {
        self.lock_as(index, key, LockMode::Exclusive, self.patience)
    }

    /// How many keys it has locked.
    pub(super) fn locks(&self) -> usize {
        self.writer.as_ref().map_or(0, |writer| writer.locks.len())
    }

    /// The same, in a mode and for as long.
    pub(super) fn lock_as(
        &mut self,
        index: u64,
        key: &Arc<[u8]>,
        mode: LockMode,
        patience: Duration,
    ) -> Result<(), Error> {
        let key = Arc::clone(key);
        let name = LockName { index, key };
        let writer = self.writer()?;
        match writer.locks.lock(name, mode, patience) {
            Ok(_) => Ok(()),
            Err(error) => {
                if matches!(error, LockError::Deadlock { .. }) {
                    self.system
                        .counters
                        .deadlocks
                        .fetch_add(1, Ordering::Relaxed);
                    self.end_by_rollback()?;
                }
                Err(error.into())
            }
        }
    }

    /// Calls a change of a row or a few. If it fails after it has begun, what
    /// it did is undone.
    pub(super) fn statement<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.check_open()?;
        let _acting = self.acting();
        let before = self.writer()?.slot.last;
        let error = match change(self) {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if let Some(writer) = &mut self.writer
            && writer.slot.last != before
            && let Err(undoing) = self.system.undo_to(writer.trx, &mut writer.slot, before)
        {
            self.abandon();
            return Err(undoing);
        }
        Err(error)
    }

    /// A point to which [`rollback_to`](Self::rollback_to) goes back.
    ///
    /// # Errors
    /// [`Error::Ended`].
    pub fn savepoint(&mut self) -> Result<Savepoint, Error> {
        self.check_open()?;
        let last = self
            .writer
            .as_ref()
            .map_or(RollPointer::NONE, |writer| writer.slot.last);
        let number = SAVEPOINTS.fetch_add(1, Ordering::Relaxed);
        self.savepoints.push((number, last));
        Ok(Savepoint(number))
    }

    /// Undoes what was changed since a savepoint, which stays valid; later ones
    /// do not. Rows that were changed stay locked.
    ///
    /// # Errors
    /// [`Error::UnknownSavepoint`], [`Error::Ended`]; when pages cannot be had,
    /// the transaction cannot go on: it is rolled back when the store is
    /// opened again.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        self.check_open()?;
        let found = self
            .savepoints
            .iter()
            .position(|&(number, _)| number == savepoint.0)
            .ok_or(Error::UnknownSavepoint)?;
        let (_, last) = self.savepoints[found];
        self.savepoints.truncate(found + 1);
        let _acting = self.acting();
        if let Some(writer) = &mut self.writer
            && let Err(error) = self.system.undo_to(writer.trx, &mut writer.slot, last)
        {
            self.abandon();
            return Err(error);
        }
        Ok(())
    }

    /// Forgets a savepoint and all later ones: a program that makes one for each
    /// statement gives them back so.
    ///
    /// # Errors
    /// [`Error::UnknownSavepoint`].
    pub fn release(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        let mut numbers = self.savepoints.iter();
        let found = numbers.position(|&(number, _)| number == savepoint.0);
        self.savepoints
            .truncate(found.ok_or(Error::UnknownSavepoint)?);
        Ok(())
    }

    /// Forgets a savepoint, but none of the later ones.
    ///
    /// # Errors
    /// [`Error::UnknownSavepoint`].
    pub fn forget(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        let mut numbers = self.savepoints.iter();
        let found = numbers.position(|&(number, _)| number == savepoint.0);
        self.savepoints
            .remove(found.ok_or(Error::UnknownSavepoint)?);
        Ok(())
    }

    /// Makes its changes visible to others, and durable as the store's options
    /// say.
    ///
    /// Blocks until one write of the log has its record, which others may share: it
    /// waits for them for a quarter of a write and at most 50 us if they committed
    /// with the last; on a volume with a budget of requests for which others wait,
    /// for a whole write and at most 2 ms, unless they hardly ever come.
    ///
    /// # Errors
    /// [`Error::Ended`]. [`Error::Pages`]: before its record was in the log, it
    /// is rolled back; after that the store has failed, and it shows when it is
    /// opened again whether the commit is in it.
    pub fn commit(self) -> Result<(), Error> {
        let durability = self.system.options.durability;
        self.commit_with(durability)
    }

    /// The same, with a durability of its own.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_with(mut self, durability: Durability) -> Result<(), Error> {
        // In a hurry whatever its role is: others wait for its rows.
        self.check_open()?;
        let system = self.system;
        let Some(writer) = self.writer.as_mut().filter(|writer| !writer.is_idle()) else {
            return self.end_by_rollback();
        };
        let (number, lsn) = system.append_end(writer.trx, &mut writer.slot, true)?;
        self.ended = true;
        let writer = self.writer.take().expect("looked at above");
        let unpaid = system.end_committed(writer.trx, number, lsn, writer.slot, durability)?;
        // Nobody waits for it any more, nor does purge for its view.
        drop(writer.locks);
        drop(self);
        system.pay_at_end(unpaid);
        Ok(())
    }

    /// Pays for what it has made, if that is much. The thread holds no latch,
    /// gate or mutex.
    pub(super) fn pay_on_the_way(&mut self) {
        if let Some(writer) = &mut self.writer
            && writer.slot.unpaid >= PAID_TOGETHER
        {
            let records = std::mem::take(&mut writer.slot.unpaid);
            self.system.pay(records);
        }
    }

    /// Undoes all its changes.
    ///
    /// # Errors
    /// [`Error::Pages`]: it is rolled back when the store is opened again.
    pub fn rollback(mut self) -> Result<(), Error> {
        if self.ended {
            return Ok(());
        }
        self.end_by_rollback()
    }

    fn end_by_rollback(&mut self) -> Result<(), Error> {
        self.ended = true;
        let _acting = self.acting();
        let Some(mut writer) = self.writer.take() else {
            return Ok(());
        };
        let system = self.system;
        if writer.is_idle() {
            system.slots.give_back(writer.slot);
            system.views.end(writer.trx, writer.trx);
            return Ok(());
        }
        let undone = system
            .undo_to(writer.trx, &mut writer.slot, RollPointer::NONE)
            .and_then(|()| system.append_end(writer.trx, &mut writer.slot, false));
        match undone {
            Ok((number, _)) => {
                system.slots.give_back(writer.slot);
                system.views.end(writer.trx, number);
                system.counters.rolled_back.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                self.writer = Some(writer);
                self.abandon();
                Err(error)
            }
        }
    }

    /// Ends it as it is, and hands over what it has.
    pub(super) fn leave(&mut self) -> Option<Writer<'s>> {
        self.ended = true;
        self.view = None;
        self.writer.take()
    }

    /// Leaves it as it is: its slot, its locks and its invisible versions wait
    /// for the store to be opened again.
    fn abandon(&mut self) {
        self.ended = true;
        std::mem::forget(self.writer.take());
    }
}

impl<B: Backing> Drop for Transaction<'_, B> {
    fn drop(&mut self) {
        if !self.ended {
            // Opening the store again rolls back what could not be now.
            let _ = self.end_by_rollback();
        }
    }
}

impl<B: Backing> System<B> {
    /// Makes an undo slot, and tells purge where its stream begins.
    fn create_slot(&self) -> Result<Slot, Error> {
        let _changing = self.gate.read();
        let slot = self.slots.create(&self.backing)?;
        self.purge.add(&slot, slot.tail());
        Ok(slot)
    }

    /// Appends the record with which a transaction ends, and tells purge. What
    /// is before it in the log is durable whenever it is.
    pub(super) fn append_end(
        &self,
        trx: u64,
        slot: &mut Slot,
        committed: bool,
    ) -> Result<(u64, Lsn), Error> {
        let number = self.views.begin_ending(&self.backing)?;
        let _changing = self.gate.read();
        match self.append_record(trx, slot, Body::End { number, committed }, 0) {
            Ok(lsn) => {
                self.purge.ended(slot, number);
                Ok((number, lsn))
            }
            Err(error) => {
                self.views.does_not_end(number);
                Err(error)
            }
        }
    }

    /// Appends a record of a transaction's fate to its slot, which then says that
    /// `active` is running. The caller shares the gate.
    pub(super) fn append_record(
        &self,
        trx: u64,
        slot: &mut Slot,
        body: Body<'_>,
        active: u64,
    ) -> Result<Lsn, Error> {
        let segment = self.slots.segment();
        let new_pages = slot.new_pages(body.record_bytes(), self.backing.page_bytes());
        let segments = self.slots.segments(new_pages);
        let (appended, lsn) = in_mini(&self.backing, segments, new_pages, |mini| {
            slot.latch(mini)?;
            let mut records = slot.append(segment);
            records.push(mini, trx, body);
            Ok(records.finish(mini, active))
        })?;
        slot.appended(appended);
        self.last_commit.fetch_max(lsn.0, Ordering::AcqRel);
        Ok(lsn)
    }

    /// Shows the changes of a transaction whose commit was appended, when that is
    /// as durable as was asked. Returns how many records purge is to be paid for.
    pub(super) fn end_committed(
        &self,
        trx: u64,
        number: u64,
        lsn: Lsn,
        slot: Slot,
        durability: Durability,
    ) -> Result<u64, Error> {
        let unpaid = slot.unpaid;
        self.slots.give_back(slot);
        // If that fails it stays invisible: nobody knows what is on disk.
        self.wait_for(lsn, durability)?;
        self.views.end(trx, number);
        self.counters.committed.fetch_add(1, Ordering::Relaxed);
        Ok(unpaid)
    }

    /// Waits until the log is as durable up to `lsn` as was asked.
    pub(super) fn wait_for(&self, lsn: Lsn, durability: Durability) -> Result<(), Error> {
        match durability {
            Durability::Synced => self.backing.make_durable(lsn)?,
            Durability::Written => self.backing.make_written(lsn)?,
            Durability::Lazy => {}
        }
        Ok(())
    }

    /// Rolls back a transaction that was running when the store was last open.
    pub(crate) fn roll_back_whole(&self, trx: u64, mut slot: Slot) -> Result<(), Error> {
        self.undo_to(trx, &mut slot, RollPointer::NONE)?;
        let (number, _) = self.append_end(trx, &mut slot, false)?;
        self.slots.give_back(slot);
        self.views.end(trx, number);
        Ok(())
    }
}
