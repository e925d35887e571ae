//! Purge: taking away what nobody can see any more.
//!
//! Each slot's stream is eaten from its head, one transaction after the other,
//! as soon as every open view sees that transaction. What an eaten record
//! replaced goes: index entries that no version needs, pages of long values,
//! and the row itself if it was deleted and is so still. Every step can be
//! repeated after a crash; the head in the slot's header moves when pages are
//! freed, or all is eaten.

use super::lag::Lag;
use super::version::{Version, VersionRef};
use super::{Error, Unsettled, View};
use crate::access::{MiniTransaction, Pages, PagesError};
use crate::attempt::in_mini;
use crate::backing::Backing;
use crate::ids::PageId;
use crate::overflow::OverflowRef;
use crate::page::Op;
use crate::policy::Role;
use crate::stream::acting_as;
use crate::system::System;
use crate::table::Table;
use crate::tree::{Decision, ModifyError, Reserve};
use crate::undo::record::{Body, Change, FREEING, KIND_AT, Record, reference_at};
use crate::undo::{HEAD_AT, Place, Slot, Step, read_header, step};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Undo pages that one mini-transaction frees.
const PAGES_FREED_MAX: usize = 16;

/// Undo records that are eaten in one go: each looks at all versions of its row
/// that were made since the go began.
pub(crate) const PURGE_RECORDS: usize = 1000;

/// So many transactions end before whoever eats is woken before its time.
const ENDED_BEFORE_WAKING: u64 = 1000;

/// How far a slot's stream is eaten.
#[derive(Clone, Debug)]
struct Eaten {
    header: PageId,
    head: Place,
    /// Pages before the head that are not freed yet.
    passed: Vec<PageId>,
}

/// A slot's stream.
#[derive(Debug)]
struct Stream {
    eaten: Eaten,
    /// Commit numbers of the transactions that have ended, the first one first.
    ended: VecDeque<u64>,
}

impl Stream {
    fn note(&mut self, eaten: &Eaten) {
        self.eaten.head = eaten.head;
        self.eaten.passed.clone_from(&eaten.passed);
    }
}

/// What purge knows.
pub(crate) struct Purge {
    slots: Mutex<BTreeMap<u32, Stream>>,
    /// Held by who eats; also keeps tables from being dropped.
    pub(crate) running: Mutex<()>,
    /// So many wait for who eats to let go.
    wanted: AtomicUsize,
    /// Transactions that have ended since the store was opened.
    ended: AtomicU64,
    bell: Mutex<bool>,
    rung: Condvar,
    pub(crate) lag: Lag,
}

impl Purge {
    /// No slots yet. Writers are held up once purge is so many bytes of undo
    /// behind.
    pub(crate) fn new(lag_bytes_max: u64) -> Purge {
        Purge {
            slots: Mutex::default(),
            running: Mutex::new(()),
            wanted: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            bell: Mutex::new(false),
            rung: Condvar::new(),
            lag: Lag::new(lag_bytes_max),
        }
    }

    /// While this is held nobody eats. Whoever does now lets go after a record,
    /// and reads what that takes at once.
    pub(crate) fn keep_out(&self) -> MutexGuard<'_, ()> {
        self.wanted.fetch_add(1, Ordering::Relaxed);
        let held = self.running.lock();
        self.wanted.fetch_sub(1, Ordering::Relaxed);
        held
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Records to eat before letting go: one while others wait.
    fn limit(&self, limit: usize) -> usize {
        if self.is_wanted() {
            limit.min(1)
        } else {
            limit
        }
    }

    /// A new slot, whose stream begins at a place.
    pub(crate) fn add(&self, slot: &Slot, head: Place) {
        let eaten = Eaten {
            header: slot.header,
            head,
            passed: Vec::new(),
        };
        let ended = VecDeque::new();
        let stream = Stream { eaten, ended };
        self.slots.lock().insert(slot.number, stream);
    }

    /// A slot that was there when the store was opened.
    pub(crate) fn adopt<P: Pages>(
        &self,
        pages: &P,
        unsettled: &Unsettled,
        slot: &mut Slot,
    ) -> Result<(), PagesError> {
        let head = read_header(pages, slot.header)?.head;
        self.add(slot, head);
        let mut place = head;
        loop {
            let (next, ended) = match step(pages, slot.header.space, place)? {
                Step::End => return Ok(()),
                Step::NextPage(page) => (Place::begin_of(page), None),
                Step::Record { bytes, next } => {
                    let record = Record::decode(&bytes);
                    if let Some(record) = &record {
                        unsettled.found(record);
                    }
                    match record.map(|record| record.body) {
                        Some(Body::End { number, .. }) => (next, Some(number)),
                        _ => (next, None),
                    }
                }
            };
            slot.bytes += place.bytes_to(next, pages.page_bytes());
            if let Some(number) = ended {
                self.push(slot, number);
            }
            place = next;
        }
    }

    fn push(&self, slot: &mut Slot, number: u64) {
        // First, as it may be eaten at once.
        self.lag.came(mem::take(&mut slot.bytes));
        let mut slots = self.slots.lock();
        let stream = slots.get_mut(&slot.number);
        let stream = stream.expect("added before it is used");
        stream.ended.push_back(number);
    }

    /// The transaction that owns a slot has ended. In a slot they end one after
    /// the other.
    pub(crate) fn ended(&self, slot: &mut Slot, number: u64) {
        self.push(slot, number);
        let ended = self.ended.fetch_add(1, Ordering::Relaxed);
        if ended.is_multiple_of(ENDED_BEFORE_WAKING) {
            self.wake();
        }
    }

    /// Transactions that have ended and are not eaten.
    pub(crate) fn waiting(&self) -> usize {
        self.slots
            .lock()
            .values()
            .map(|slot| slot.ended.len())
            .sum()
    }

    /// The commit number of the one that ended last; 0 if there is none.
    pub(crate) fn last(&self) -> u64 {
        let slots = self.slots.lock();
        let lasts = slots
            .values()
            .filter_map(|stream| stream.ended.back().copied());
        lasts.max().unwrap_or_default()
    }

    /// Is there any with this number or a lower one?
    pub(crate) fn is_any_up_to(&self, number: u64) -> bool {
        self.first().is_some_and(|(_, first)| first <= number)
    }

    /// The slot with the transaction that ended first.
    fn first(&self) -> Option<(u32, u64)> {
        let slots = self.slots.lock();
        let firsts = slots
            .iter()
            .filter_map(|(&slot, stream)| stream.ended.front().map(|&number| (slot, number)));
        firsts.min_by_key(|&(_, number)| number)
    }

    /// Wakes whoever [waits](Self::wait).
    pub(crate) fn wake(&self) {
        *self.bell.lock() = true;
        self.rung.notify_all();
    }

    /// Waits until there may be something to do.
    pub(crate) fn wait(&self, timeout: Duration) {
        let mut rung = self.bell.lock();
        if !*rung {
            self.rung.wait_for(&mut rung, timeout);
        }
        *rung = false;
    }
}

impl<B: Backing> System<B> {
    /// Eats up to about `limit` records. Returns how many; 0: there is nothing
    /// that could be eaten now.
    pub(crate) fn purge(&self, limit: usize) -> Result<usize, Error> {
        let running = self.purge.running.lock();
        let eaten = self.purge_held(&running, limit);
        // Who waits wakes up later than the next one begins.
        MutexGuard::unlock_fair(running);
        eaten
    }

    /// A round of the thread that purges. Whether it could have eaten more holds
    /// writers up, or lets them go.
    pub(crate) fn purge_round(&self) -> Result<usize, Error> {
        let running = self.purge.running.lock();
        let begin = Instant::now();
        let eaten = self.purge_held(&running, PURGE_RECORDS);
        match eaten {
            Ok(count) if count >= self.purge.limit(PURGE_RECORDS) => {
                self.purge.lag.round(count as u64, begin.elapsed());
            }
            _ => self.purge.lag.nothing_to_eat(),
        }
        MutexGuard::unlock_fair(running);
        eaten
    }

    /// The same as [`purge`](Self::purge) by who holds [`Purge::running`].
    pub(crate) fn purge_held(
        &self,
        _running: &MutexGuard<'_, ()>,
        limit: usize,
    ) -> Result<usize, Error> {
        let oldest = self.views.open_oldest();
        let mut count = 0;
        while count < self.purge.limit(limit) {
            let Some((slot, number)) = self.purge.first() else {
                break;
            };
            if number >= oldest.view.ended_below {
                break;
            }
            // Not with all that have ended, which may be many.
            let eaten = self.purge.slots.lock()[&slot].eaten.clone();
            count += self.eat(slot, eaten, &oldest.view, limit - count)?;
        }
        self.counters
            .purged
            .fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    /// Eats a transaction's records, up to `limit`, or one if others wait.
    fn eat(
        &self,
        slot: u32,
        mut eaten: Eaten,
        oldest: &View,
        limit: usize,
    ) -> Result<usize, Error> {
        let space = self.slots.space();
        let mut count = 0;
        while count < self.purge.limit(limit) {
            let begin = eaten.head;
            let mut is_end = false;
            match self.step_to_eat(eaten.head)? {
                Step::End => {
                    return Err(PagesError::Unreadable {
                        page: PageId::new(space, eaten.head.page),
                        reason: "a stream of undo records ends within a transaction".to_owned(),
                    }
                    .into());
                }
                Step::NextPage(page) => {
                    eaten.passed.push(PageId::new(space, eaten.head.page));
                    eaten.head = Place::begin_of(page);
                    if eaten.passed.len() == PAGES_FREED_MAX {
                        self.move_head(&mut eaten)?;
                    }
                }
                Step::Record { bytes, next } => {
                    is_end = self.eat_record(&bytes, eaten.head, oldest)?;
                    eaten.head = next;
                    count += 1;
                }
            }
            let went = begin.bytes_to(eaten.head, self.backing.page_bytes());
            self.purge.lag.went(went);
            if is_end {
                return self.eaten_whole(slot, eaten).map(|()| count);
            }
            let mut slots = self.purge.slots.lock();
            let known = slots.get_mut(&slot).expect("it was there before");
            known.note(&eaten);
        }
        Ok(count)
    }

    /// What is to be eaten next. Undo that has left memory is read for it as
    /// nobody's need, until somebody is held up: nothing is locked meanwhile
    /// but what keeps tables from being dropped.
    fn step_to_eat(&self, place: Place) -> Result<Step, PagesError> {
        let is_needed = self.purge.lag.is_large() || self.purge.is_wanted();
        let _background = (!is_needed).then(|| acting_as(Role::Purge));
        step(&self.backing, self.slots.space(), place)
    }

    /// Notes that a transaction has been eaten.
    fn eaten_whole(&self, slot: u32, mut eaten: Eaten) -> Result<(), Error> {
        let is_last = {
            let mut slots = self.purge.slots.lock();
            let known = slots.get_mut(&slot).expect("it was there before");
            known.ended.pop_front();
            known.note(&eaten);
            known.ended.is_empty()
        };
        if is_last || !eaten.passed.is_empty() {
            self.move_head(&mut eaten)?;
            let mut slots = self.purge.slots.lock();
            let known = slots.get_mut(&slot).expect("it was there before");
            known.eaten.passed.clear();
        }
        Ok(())
    }

    /// Frees the pages before the head, and says in the slot's header where it
    /// is.
    fn move_head(&self, eaten: &mut Eaten) -> Result<(), Error> {
        let segment = self.slots.segment();
        let _changing = self.gate.read();
        in_mini(&self.backing, &[segment], 0, |mini| {
            mini.exclusive(eaten.header)?;
            let bytes = &eaten.head.encode();
            let offset = HEAD_AT;
            mini.apply(eaten.header, &Op::Patch { offset, bytes });
            for &page in &eaten.passed {
                mini.free(segment, page);
            }
            Ok(())
        })?;
        eaten.passed.clear();
        Ok(())
    }

    /// Takes away what a record replaced. Returns whether it is a transaction's
    /// end.
    fn eat_record(&self, bytes: &[u8], at: Place, oldest: &View) -> Result<bool, Error> {
        let record = Record::decode(bytes).expect("the stream was checked");
        let is_end = self.eat_what_was(&record, bytes[KIND_AT], at, oldest)?;
        self.unsettled.settled(&record);
        Ok(is_end)
    }

    fn eat_what_was(
        &self,
        record: &Record<'_>,
        kind: u8,
        at: Place,
        oldest: &View,
    ) -> Result<bool, Error> {
        if record.undone {
            return Ok(false);
        }
        let (table, key, change, entries_stayed, before) = match record.body {
            Body::End { .. } => return Ok(true),
            Body::Long { .. } | Body::Prepared { .. } => return Ok(false),
            Body::Row {
                table,
                key,
                change,
                entries_stayed,
                before,
            } => (table, key, change, entries_stayed, before),
        };
        // Of a dropped table nothing is left to be taken away.
        let (Some(table), Some(before)) = (self.catalog.by_id(table), before) else {
            return Ok(false);
        };
        let _changing = self.gate.read();
        if !before.is_deleted() && !entries_stayed && !record.freeing {
            self.eat_entries(&table, key, &before.to_version(), oldest)?;
        }
        if change == Change::Delete {
            self.eat_row(&table, key, record, at)?;
        }
        if let Some(value) = before.long() {
            self.eat_long(&table, key, value, kind, at)?;
        }
        Ok(false)
    }

    fn eat_entries(
        &self,
        table: &Table,
        key: &[u8],
        before: &Version,
        oldest: &View,
    ) -> Result<(), Error> {
        if table.indexes.is_empty() {
            return Ok(());
        }
        let row = self.row(table, key, before)?;
        let entries = self.entries_of(table, &row, key)?;
        for (index, entry) in table.indexes.iter().zip(&entries) {
            self.remove_entry(table, index, entry, key, None, oldest)?;
        }
        Ok(())
    }

    /// Removes a deleted row, unless it is there again.
    fn eat_row(
        &self,
        table: &Table,
        key: &[u8],
        record: &Record<'_>,
        at: Place,
    ) -> Result<(), Error> {
        let modified = table.rows.modify(
            &self.backing,
            key,
            None,
            Reserve::default(),
            |existing, _| {
                let version = existing.and_then(VersionRef::decode);
                match version.map(|version| version.name()) {
                    Some(name) if name == (record.trx, at.pointer()) => Decision::Remove,
                    _ => Decision::Abort(()),
                }
            },
        );
        match modified {
            Ok(_) | Err(ModifyError::Aborted(())) => Ok(()),
            Err(ModifyError::Tree(error)) => Err(error.into()),
        }
    }

    /// Frees the pages of a long value that was replaced. Its index entries are
    /// gone: once pages are freed, it cannot be read to find them.
    fn eat_long(
        &self,
        table: &Table,
        key: &[u8],
        value: OverflowRef,
        kind: u8,
        at: Place,
    ) -> Result<(), Error> {
        if value.page == 0 {
            return Ok(());
        }
        let page = PageId::new(self.slots.space(), at.page);
        in_mini(&self.backing, &[], 0, |mini| {
            mini.exclusive(page)?;
            let offset = at.offset + KIND_AT as u16;
            let bytes = &[kind | FREEING];
            mini.apply(page, &Op::Patch { offset, bytes });
            Ok(())
        })?;
        let freed = OverflowRef { page: 0, ..value };
        let offset = at.offset + reference_at(key) as u16;
        Ok(table.long.free(
            &self.backing,
            value,
            Reserve::default(),
            |mini| mini.exclusive(page),
            |mini| {
                let bytes = &freed.to_bytes();
                mini.apply(page, &Op::Patch { offset, bytes });
            },
        )?)
    }
}
