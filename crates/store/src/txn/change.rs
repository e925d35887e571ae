//! One version becomes another: the row and its undo record, as one.

use super::Error;
use super::transaction::Writer;
use super::version::{LONG, Version, VersionRef};
use crate::backing::Backing;
use crate::overflow::OverflowRef;
use crate::system::System;
use crate::table::Table;
use crate::tree::{Decision, ModifyError, Reserve, Tree};
use crate::undo::record::{Body, Change, Record};
use std::borrow::Cow;

/// What a new version holds.
pub(super) struct Content {
    pub(super) flags: u8,
    pub(super) payload: Vec<u8>,
}

impl<B: Backing> System<B> {
    /// What a new version with these columns holds: themselves, or where they
    /// are if they are too long for a leaf. They are written there then.
    pub(super) fn content(
        &self,
        writer: &mut Writer<'_>,
        table: &Table,
        key: &[u8],
        payload: Vec<u8>,
    ) -> Result<Content, Error> {
        let room = Tree::value_bytes_max(&self.backing, key.len()) - VersionRef::HEAD_BYTES;
        if payload.len() <= room {
            return Ok(Content { flags: 0, payload });
        }
        let value = self.write_long(writer, table, &payload)?;
        Ok(Content {
            flags: LONG,
            payload: value.to_bytes().to_vec(),
        })
    }

    /// Writes columns to pages of their own. The first page comes with an undo
    /// record, by which all are freed again if the transaction does not commit.
    fn write_long(
        &self,
        writer: &mut Writer<'_>,
        table: &Table,
        payload: &[u8],
    ) -> Result<OverflowRef, Error> {
        let Writer { trx, slot, .. } = writer;
        let segment = self.slots.segment();
        let record = |value| {
            let table = table.id;
            Record::new(*trx, slot.last, Body::Long { table, value }).encode()
        };
        let longest = record(OverflowRef { page: 0, bytes: 0 }).len();
        let reserve = Reserve {
            segments: &[segment],
            pages: slot.needs_page(longest, self.backing.page_bytes()).into(),
        };
        let mut appended = None;
        let written = table.long.write(
            &self.backing,
            payload,
            reserve,
            |mini| slot.latch(mini),
            |mini, value| appended = Some(slot.append(mini, segment, *trx, &record(value))),
        );
        // Also of one that was not written to its end.
        if let Some(appended) = appended {
            slot.appended(appended, false);
        }
        Ok(written?)
    }

    /// Gives a row, which is locked, a new version, if `before` is still its
    /// newest one. Only purge can have removed it meanwhile.
    pub(super) fn change(
        &self,
        writer: &mut Writer<'_>,
        table: &Table,
        key: &[u8],
        change: Change,
        before: Option<&Version>,
        content: &Content,
    ) -> Result<bool, Error> {
        let Writer { trx, slot, .. } = writer;
        let body = Body::Row {
            table: table.id,
            key,
            change,
            before: before.map(Version::borrow),
        };
        let record = Record::new(*trx, slot.last, body).encode();
        let segment = self.slots.segment();
        let reserve = Reserve {
            segments: &[segment],
            pages: slot
                .needs_page(record.len(), self.backing.page_bytes())
                .into(),
        };
        let expected = before.map(Version::encoded);
        let bytes_max = VersionRef::HEAD_BYTES + content.payload.len();
        let mut appended = None;
        let modified = table.rows.modify(
            &self.backing,
            key,
            Some(bytes_max),
            reserve,
            |existing, mini| {
                if existing != expected.as_deref() {
                    return Decision::Abort(());
                }
                if let Err(miss) = slot.latch(mini) {
                    return Decision::Miss(miss);
                }
                let record = slot.append(mini, segment, *trx, &record);
                appended = Some(record);
                let version = VersionRef {
                    trx: *trx,
                    roll: record.pointer,
                    flags: content.flags,
                    payload: &content.payload,
                };
                let mut value = Vec::new();
                version.encode(&mut value);
                Decision::Put(Cow::Owned(value))
            },
        );
        match modified {
            Ok(_) => {
                slot.appended(appended.expect("changed after it was appended"), false);
                Ok(true)
            }
            Err(ModifyError::Aborted(())) => Ok(false),
            Err(ModifyError::Tree(error)) => Err(error.into()),
        }
    }
}
