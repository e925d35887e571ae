//! Batches on their way: to the doublewrite area, durable there, to their
//! places, durable there; of pages that are written as wholes only the latter
//! two. Several at once, so that the disk has pages to write
//! while others wait for a sync.
//!
//! Nothing here blocks but the log, which must be durable before a page that it
//! describes is written.

use super::doublewrite::{Outgoing, Ticket, write_all};
use super::pace::Haste;
use super::syncs::{Synced, Syncs, Target};
use super::{SLOTS, TICK};
use crate::core::Core;
use crate::error::StoreError;
use crate::files::PageFiles;
use crate::ids::{Lsn, PageId};
use crate::page::header;
use crate::policy::Role;
use iolane::{Buffer, Error, File, Level, Pending};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// Frames whose pages are to be written as one batch.
pub(super) struct Load {
    /// Those of the cleaning list first.
    pub(super) frames: Vec<u32>,
    /// How many of these come from the cleaning list.
    pub(super) cleaning: usize,
    /// What the others are written for.
    pub(super) role: Role,
    pub(super) level: Level,
    /// Does somebody wait?
    pub(super) urgent: bool,
}

/// The batches under way.
pub(super) struct Pipeline {
    core: Arc<Core>,
    /// Memory for pages, and for the headers of batches.
    staging: Vec<Buffer>,
    heads: Vec<Buffer>,
    flights: Vec<Flight>,
    /// Batches begun until now.
    begun: u64,
    syncs: Syncs,
    waker: Waker,
}

struct Flight {
    /// Syncs say by it whom they cover.
    number: u64,
    /// Its slot in the area, if it goes there.
    ticket: Option<Ticket>,
    frames: Vec<u32>,
    cleaning: usize,
    /// In the order of the files.
    pages: Vec<Item>,
    level: Level,
    urgent: bool,
    phase: Phase,
}

struct Item {
    id: PageId,
    lsn: Lsn,
    role: Role,
}

enum Phase {
    /// To the area; the header last.
    Copying(Writes),
    /// In the area, and not yet durable.
    Copied(Vec<Buffer>),
    /// To their places.
    Placing(Writes, Vec<(u32, File)>),
    /// In their places, and not yet durable in these files.
    Placed(Vec<(u32, File)>),
}

/// Writes under way, and the memory of those that are done, in order.
struct Writes {
    pending: VecDeque<Pending<Buffer>>,
    done: Vec<Buffer>,
}

impl Writes {
    fn new(pending: Vec<Pending<Buffer>>) -> Writes {
        Writes {
            done: Vec::with_capacity(pending.len()),
            pending: pending.into(),
        }
    }

    /// Are all done? The context hears of the first that is not.
    fn are_done(&mut self, context: &mut Context<'_>) -> Result<bool, Error> {
        while let Some(first) = self.pending.front_mut() {
            let Poll::Ready(done) = Pin::new(first).poll(context) else {
                return Ok(false);
            };
            self.pending.pop_front();
            done.result?;
            self.done.push(done.buffer);
        }
        Ok(true)
    }

    fn promote(&self, level: Level) {
        for request in &self.pending {
            request.promote(level);
        }
    }
}

/// What most of a batch is written for: the area is written and synced for all
/// of it.
fn role_of(pages: &[Item]) -> Role {
    let leaving = pages.iter().filter(|item| item.role == Role::Preflush);
    match 2 * leaving.count() > pages.len() {
        true => Role::Preflush,
        false => Role::Checkpoint,
    }
}

impl Pipeline {
    /// With memory for all batches and their headers.
    pub(super) fn new(core: Arc<Core>, mut memory: Vec<Buffer>) -> Pipeline {
        let heads = memory.split_off(memory.len() - SLOTS);
        let waker = Waker::from(Arc::clone(&core.bell));
        Pipeline {
            core,
            staging: memory,
            heads,
            flights: Vec::new(),
            begun: 0,
            syncs: Syncs::default(),
            waker,
        }
    }

    /// Batches under way.
    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }

    /// Of these, those that are not yet on their way to their places.
    pub(super) fn copying(&self) -> usize {
        let is_copying =
            |flight: &&Flight| matches!(flight.phase, Phase::Copying(_) | Phase::Copied(_));
        self.flights.iter().filter(is_copying).count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Pages in them.
    pub(super) fn pages(&self) -> usize {
        self.flights.iter().map(|flight| flight.frames.len()).sum()
    }

    /// Can another batch begin?
    pub(super) fn has_room(&self) -> bool {
        let files = &self.core.pool.files;
        match files.protection.is_atomic() {
            true => self.flights.len() < SLOTS,
            false => files.doublewrite.has_room(),
        }
    }

    /// When a sync that is held back becomes due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.syncs.due
    }

    /// Begins to write a batch, while there [is room](Self::has_room). The
    /// frames were taken from the dirty ones.
    pub(super) fn begin(&mut self, load: Load) -> Result<(), String> {
        let core = Arc::clone(&self.core);
        let mut batch = self.copy(&load);
        // A page may be missing because it is changed by half.
        core.pool
            .failure
            .check()
            .map_err(|error| error.to_string())?;
        batch.sort_unstable_by_key(|(item, _)| item.id);
        let Some(newest) = batch.iter().map(|(item, _)| item.lsn).max() else {
            // All discarded meanwhile.
            self.give_back(&load.frames, load.cleaning);
            return Ok(());
        };
        core.log
            .make_durable(newest)
            .map_err(|error| error.to_string())?;
        core.pool.files.raise_newest(newest);
        let begun = self.submit(load, batch);
        begun.map_err(|error| error.to_string())
    }

    fn submit(&mut self, load: Load, batch: Vec<(Item, Buffer)>) -> Result<(), StoreError> {
        let core = Arc::clone(&self.core);
        let files = &core.pool.files;
        let (pages, buffers): (Vec<Item>, Vec<Buffer>) = batch.into_iter().unzip();
        // One that was given away while it was written, and is already to be
        // written in its next life.
        while files.in_place.has_any(pages.iter().map(|item| item.id)) {
            if !self.advance()? {
                core.bell.wait(TICK);
            }
        }
        self.begun += 1;
        let mut flight = Flight {
            number: self.begun,
            ticket: None,
            frames: load.frames,
            cleaning: load.cleaning,
            pages,
            level: load.level,
            urgent: load.urgent,
            phase: Phase::Copied(Vec::new()),
        };
        let submitted = match files.protection.is_atomic() {
            true => {
                files.in_place.begin(flight.ids(), || ());
                flight.place(files, buffers, &mut self.staging)
            }
            false => {
                let head = self.heads.pop().expect("as many as batches under way");
                flight.copy(files, buffers, head)
            }
        };
        core.flushed
            .begun(load.level, flight.pages.len(), self.flights.len() + 1);
        // Also when a write was refused: those before it are waited for.
        self.flights.push(flight);
        submitted
    }

    /// Sealed copies of the pages in these frames.
    fn copy(&mut self, load: &Load) -> Vec<(Item, Buffer)> {
        let mut batch = Vec::with_capacity(load.frames.len());
        for (index, &frame) in load.frames.iter().enumerate() {
            let slot = self.core.pool.frames()[frame as usize].read();
            // Discarded meanwhile.
            let Some(id) = slot.id else { continue };
            let mut copy = self.staging.pop().expect("enough for all batches");
            copy.copy_from_slice(slot.bytes());
            drop(slot);
            header::seal(&mut copy);
            let role = match index < load.cleaning {
                true => Role::Preflush,
                false => load.role,
            };
            let lsn = header::lsn(&copy);
            batch.push((Item { id, lsn, role }, copy));
        }
        batch
    }

    /// Takes every batch as far as it goes without waiting. Returns whether any
    /// got further.
    pub(super) fn advance(&mut self) -> Result<bool, StoreError> {
        let waker = self.waker.clone();
        let mut context = Context::from_waker(&waker);
        let written = self.advance_writes(&mut context)?;
        let synced = self.syncs.finished(&mut context)?;
        for over in &synced {
            self.synced(over)?;
        }
        self.land();
        // What was begun here has no waker yet: it counts as progress.
        let begun = self.begin_syncs()?;
        Ok(written || !synced.is_empty() || begun)
    }

    fn advance_writes(&mut self, context: &mut Context<'_>) -> Result<bool, StoreError> {
        let mut advanced = false;
        for flight in &mut self.flights {
            let (writes, files) = match &mut flight.phase {
                Phase::Copying(writes) => (writes, None),
                Phase::Placing(writes, files) => (writes, Some(files)),
                _ => continue,
            };
            if !writes.are_done(context)? {
                continue;
            }
            advanced = true;
            let mut buffers = std::mem::take(&mut writes.done);
            flight.phase = match files {
                None => {
                    self.heads.extend(buffers.pop());
                    Phase::Copied(buffers)
                }
                Some(files) => {
                    self.staging.append(&mut buffers);
                    Phase::Placed(std::mem::take(files))
                }
            };
        }
        Ok(advanced)
    }

    /// A sync is over, for all batches that it covers.
    fn synced(&mut self, over: &Synced) -> Result<(), StoreError> {
        let core = Arc::clone(&self.core);
        let covered = |flight: &&mut Flight| over.batches.contains(&flight.number);
        for flight in self.flights.iter_mut().filter(covered) {
            match (over.target, &mut flight.phase) {
                (Target::Area, Phase::Copied(buffers)) => {
                    let buffers = std::mem::take(buffers);
                    flight.place(&core.pool.files, buffers, &mut self.staging)?;
                }
                (Target::Space(space), Phase::Placed(files)) => {
                    files.retain(|(other, _)| *other != space);
                }
                _ => unreachable!("a batch waits for the syncs that cover it"),
            }
        }
        Ok(())
    }

    /// Batches that are durable in their places are over.
    fn land(&mut self) {
        let core = Arc::clone(&self.core);
        let files = &core.pool.files;
        let is_over =
            |flight: &mut Flight| matches!(&flight.phase, Phase::Placed(files) if files.is_empty());
        let landed: Vec<Flight> = self.flights.extract_if(.., is_over).collect();
        for flight in landed {
            let pages = flight.pages.iter();
            let pages = pages.map(|item| (item.id, item.lsn)).collect();
            // Before anybody may repair them from these copies.
            if let Some(ticket) = &flight.ticket {
                files.doublewrite.finished(ticket, pages);
            }
            files.in_place.end(flight.ids());
            core.flushed.landed(flight.pages.len());
            self.give_back(&flight.frames, flight.cleaning);
        }
    }

    fn give_back(&self, frames: &[u32], cleaning: usize) {
        let pool = &self.core.pool;
        pool.dirty.written(pool.frames(), frames);
        pool.cleaned(&frames[..cleaning]);
    }

    /// Syncs what waits for it. Returns whether it began any.
    fn begin_syncs(&mut self) -> Result<bool, StoreError> {
        let mut begun = false;
        self.syncs.due = None;
        let core = Arc::clone(&self.core);
        let mut wanted: Vec<(Target, File)> = Vec::new();
        for flight in &self.flights {
            match &flight.phase {
                Phase::Copied(_) => {
                    let area = &core.pool.files.doublewrite;
                    wanted.push((Target::Area, area.file_for(flight.role())));
                }
                Phase::Placed(files) => {
                    let files = files.iter();
                    wanted.extend(files.map(|(space, file)| (Target::Space(*space), file.clone())));
                }
                _ => {}
            }
        }
        for (index, (target, file)) in wanted.iter().enumerate() {
            if wanted[..index].iter().any(|(other, _)| other == target) {
                continue;
            }
            let waiting = self.flights.iter().filter(|flight| flight.awaits(*target));
            let batches: Vec<u64> = waiting.clone().map(|flight| flight.number).collect();
            let Some(level) = waiting
                .map(|flight| flight.level)
                .min_by_key(|level| level.index())
            else {
                continue;
            };
            let hurry = self.flights.iter().any(|flight| flight.urgent);
            if self.syncs.begin(*target, file, &batches, level, hurry)? {
                begun = true;
                core.flushed.synced(*target != Target::Area);
            }
        }
        Ok(begun)
    }

    /// Somebody waits now.
    pub(super) fn promote(&mut self, haste: Haste) {
        let level = haste.level(&self.core.pool.files.policy);
        for flight in &mut self.flights {
            flight.urgent |= haste == Haste::Urgent;
            if flight.level.index() <= level.index() {
                continue;
            }
            flight.level = level;
            if let Phase::Copying(writes) | Phase::Placing(writes, _) = &flight.phase {
                writes.promote(level);
            }
        }
        self.syncs.promote(level);
    }
}

impl Drop for Pipeline {
    /// Waits for what is under way when writing has failed: it would overwrite
    /// what the store writes once it is opened again.
    fn drop(&mut self) {
        for flight in self.flights.drain(..) {
            if let Phase::Copying(writes) | Phase::Placing(writes, _) = flight.phase {
                for request in writes.pending {
                    drop(request.wait());
                }
            }
        }
        self.syncs.wait();
    }
}

impl Flight {
    /// What most of its pages are written for.
    fn role(&self) -> Role {
        role_of(&self.pages)
    }

    fn awaits(&self, target: Target) -> bool {
        match (&self.phase, target) {
            (Phase::Copied(_), Target::Area) => true,
            (Phase::Placed(files), Target::Space(space)) => {
                files.iter().any(|(other, _)| *other == space)
            }
            _ => false,
        }
    }

    fn ids(&self) -> impl Iterator<Item = PageId> + '_ {
        self.pages.iter().map(|item| item.id)
    }

    /// Writes the pages to the area, their list from `head`.
    fn copy(
        &mut self,
        files: &PageFiles,
        buffers: Vec<Buffer>,
        head: Buffer,
    ) -> Result<(), StoreError> {
        let area = &files.doublewrite;
        let ticket = files.in_place.begin(self.ids(), || area.begin());
        let ticket = ticket.expect("the caller has asked for room");
        let outgoing: Vec<Outgoing> = self.ids().zip(buffers).collect();
        let submitted = area.submit(&ticket, outgoing, head, self.role(), self.level);
        self.ticket = Some(ticket);
        self.phase = Phase::Copying(Writes::new(submitted?));
        Ok(())
    }

    /// Writes the pages to their places.
    fn place(
        &mut self,
        files: &PageFiles,
        buffers: Vec<Buffer>,
        staging: &mut Vec<Buffer>,
    ) -> Result<(), StoreError> {
        let mut pending = Vec::with_capacity(buffers.len());
        let mut touched: Vec<(u32, File)> = Vec::new();
        let mut buffers = buffers.into_iter();
        for items in self.pages.chunk_by(|a, b| a.id.space == b.id.space) {
            let space = items[0].id.space;
            let taken = buffers.by_ref().take(items.len());
            let file = |role| files.to_place(space, role);
            let (leaving, aged) = match (file(Role::Preflush), file(Role::Checkpoint)) {
                (Ok(Some(leaving)), Ok(Some(aged))) => (leaving, aged),
                (Err(error), _) | (_, Err(error)) => {
                    self.phase = Phase::Placing(Writes::new(pending), touched);
                    return Err(error);
                }
                // Dropped meanwhile.
                _ => {
                    staging.extend(taken);
                    continue;
                }
            };
            let writes = items.iter().zip(taken).map(|(item, buffer)| {
                let file = match item.role {
                    Role::Preflush => &leaving,
                    _ => &aged,
                };
                (file, buffer, files.offset(item.id))
            });
            match write_all(writes, self.level) {
                Ok(submitted) => pending.extend(submitted),
                Err(error) => {
                    // For whoever waits for what is under way at the end.
                    self.phase = Phase::Placing(Writes::new(pending), touched);
                    return Err(error.into());
                }
            }
            touched.push((space, aged));
        }
        self.phase = Phase::Placing(Writes::new(pending), touched);
        Ok(())
    }
}
