//! Undoing a transaction's changes, the last one first.
//!
//! Each record is undone in one mini-transaction that also marks it, and says
//! in the slot's header that the one before it is the last now. What comes
//! before that (index entries, pages of long values) can be done again after a
//! crash.

use super::Error;
use super::read::damaged;
use super::version::{RollPointer, Version};
use crate::access::{MiniTransaction, Miss, PagesError};
use crate::attempt::in_mini;
use crate::backing::Backing;
use crate::ids::PageId;
use crate::overflow::OverflowRef;
use crate::page::Op;
use crate::system::System;
use crate::table::Table;
use crate::tree::{Decision, ModifyError, Reserve};
use crate::undo::record::{Body, KIND_AT, Record, UNDONE};
use crate::undo::{Slot, read_record};
use std::borrow::Cow;

/// A record that is being undone.
struct Undoing<'a> {
    slot: &'a Slot,
    record: &'a Record<'a>,
    at: RollPointer,
    kind: u8,
}

impl Undoing<'_> {
    fn page(&self) -> PageId {
        PageId::new(self.slot.header.space, self.at.page())
    }

    fn latch(&self, mini: &mut impl MiniTransaction) -> Result<(), Miss> {
        mini.exclusive(self.page())?;
        mini.exclusive(self.slot.header)
    }

    /// Marks it as undone. It is latched.
    fn done(&self, mini: &mut impl MiniTransaction) {
        let offset = self.at.offset() + KIND_AT as u16;
        let bytes = &[self.kind | UNDONE];
        mini.apply(self.page(), &Op::Patch { offset, bytes });
        self.slot.step_back(mini, self.record.previous);
    }
}

impl<B: Backing> System<B> {
    /// Undoes all records of a transaction behind `mark`.
    pub(super) fn undo_to(
        &self,
        trx: u64,
        slot: &mut Slot,
        mark: RollPointer,
    ) -> Result<(), Error> {
        while slot.last != mark {
            let _changing = self.gate.read();
            slot.last = self.undo_last(trx, slot)?;
        }
        Ok(())
    }

    /// Undoes the last record, and returns where the one before it is.
    fn undo_last(&self, trx: u64, slot: &Slot) -> Result<RollPointer, Error> {
        let at = slot.last;
        let bytes = read_record(&self.backing, self.slots.space(), at)?;
        let record = Record::decode(&bytes).filter(|record| record.trx == trx);
        let Some(record) = record else {
            return Err(PagesError::Unreadable {
                page: PageId::new(self.slots.space(), at.page()),
                reason: format!("the undo record at {} is not of {trx}", at.offset()),
            }
            .into());
        };
        let undoing = Undoing {
            slot,
            record: &record,
            at,
            kind: bytes[KIND_AT],
        };
        let table = match record.body {
            Body::Row { table, .. } | Body::Long { table, .. } => self.catalog.by_id(table),
            Body::End { .. } | Body::Prepared { .. } => None,
        };
        match (record.body, table) {
            (Body::Row { key, before, .. }, Some(table)) => {
                let before = before.map(|before| before.to_version());
                self.undo_row(&undoing, &table, key, before.as_ref())?;
            }
            (Body::Long { value, .. }, Some(table)) => {
                self.undo_long(&undoing, &table, value)?;
            }
            // With a table that was dropped, all of its rows have gone.
            _ => {
                in_mini(&self.backing, &[], 0, |mini| {
                    undoing.latch(mini)?;
                    undoing.done(mini);
                    Ok(())
                })?;
            }
        }
        self.unsettled.settled(&record);
        Ok(record.previous)
    }

    fn undo_row(
        &self,
        undoing: &Undoing<'_>,
        table: &Table,
        key: &[u8],
        before: Option<&Version>,
    ) -> Result<(), Error> {
        let newest = self.newest(table, key)?;
        let undone = (undoing.record.trx, undoing.at);
        let Some(newest) = newest.filter(|newest| newest.name() == undone) else {
            let reason = "a row is not as its transaction left it".to_owned();
            return Err(damaged(table, reason));
        };
        let oldest = self.views.open_oldest();
        if !newest.is_deleted() {
            let row = self.row(table, key, &newest)?;
            let entries = self.entries_of(table, &row, key)?;
            for (index, entry) in table.indexes.iter().zip(&entries) {
                self.remove_entry(table, index, entry, key, Some(undone), &oldest.view)?;
            }
        }
        let expected = newest.encoded();
        // A deleted row that nobody can see: purge may have left it because it
        // was there again, and will not come back to it.
        let before = before.filter(|before| !(before.is_deleted() && oldest.view.sees(before.trx)));
        let restored = before.map(Version::encoded);
        let modified = table.rows.modify(
            &self.backing,
            key,
            restored.as_ref().map(Vec::len),
            Reserve::default(),
            |existing, mini| {
                if existing != Some(&expected) {
                    return Decision::Abort(());
                }
                if let Err(miss) = undoing.latch(mini) {
                    return Decision::Miss(miss);
                }
                undoing.done(mini);
                match &restored {
                    Some(value) => Decision::Put(Cow::Borrowed(value)),
                    None => Decision::Remove,
                }
            },
        );
        match modified {
            Ok(_) => Ok(()),
            Err(ModifyError::Tree(error)) => Err(error.into()),
            Err(ModifyError::Aborted(())) => {
                let reason = "a locked row was changed by another transaction".to_owned();
                Err(damaged(table, reason))
            }
        }
    }

    /// Frees the pages of a long value, of which no version speaks any more.
    fn undo_long(
        &self,
        undoing: &Undoing<'_>,
        table: &Table,
        value: OverflowRef,
    ) -> Result<(), Error> {
        Ok(table.long.free(
            &self.backing,
            value,
            Reserve::default(),
            |mini| undoing.latch(mini),
            |mini| undoing.done(mini),
        )?)
    }
}
