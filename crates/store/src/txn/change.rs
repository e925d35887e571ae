//! One version becomes another: the row and its undo record, as one.

use super::Error;
use super::transaction::Writer;
use super::version::{LONG, LongRef, Version, VersionRef};
use crate::attempt::in_mini;
use crate::backing::Backing;
use crate::long::Chain;
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
        let first = self.write_long(writer, table, &payload)?;
        let bytes = payload.len() as u64;
        Ok(Content {
            flags: LONG,
            payload: LongRef { first, bytes }.encode(),
        })
    }

    /// Writes columns to pages of their own. The first page comes with an undo
    /// record, by which all are freed again if the transaction does not commit.
    fn write_long(
        &self,
        writer: &mut Writer<'_>,
        table: &Table,
        payload: &[u8],
    ) -> Result<u32, Error> {
        let Writer { trx, slot, .. } = writer;
        let (trx, segment) = (*trx, self.slots.segment());
        let page_bytes = self.backing.page_bytes();
        let record = |first| {
            let table = table.id;
            Record::new(trx, slot.last, Body::Long { table, first }).encode()
        };
        let segments = [table.long, segment];
        let ((chain, appended), _) = in_mini(&self.backing, &segments, 1, |mini| {
            slot.latch(mini)?;
            let chain = Chain::begin(mini, table.long, table.id, page_bytes, payload);
            let appended = slot.append(mini, segment, trx, &record(chain.first));
            Ok((chain, appended))
        })?;
        slot.appended(appended, false);
        let first = chain.first;
        chain.finish(&self.backing, table.id, payload)?;
        Ok(first)
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
