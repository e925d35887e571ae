//! What all transactions of an open store share.

use crate::backing::Backing;
use crate::catalog::Catalog;
use crate::ids::{Lsn, PageId};
use crate::master::{Master, slots_max};
use crate::space::Owner;
use crate::txn::locks::LockTable;
use crate::txn::{Durability, EntryLocks, Error, PreparedTransactions, Purge, Unsettled, Views};
use crate::undo::{Slot, Slots, read_header, tables_of};
use parking_lot::RwLock;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How transactions behave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemOptions {
    pub(crate) durability: Durability,
    /// How long a transaction waits for a row, or to begin writing.
    pub(crate) lock_timeout: Duration,
    /// Row locks that there may be.
    pub(crate) locks_max: usize,
    /// Transactions that may write at a time.
    pub(crate) undo_slots: u32,
    /// Bytes of undo that purge may be behind before writers are held up.
    pub(crate) purge_lag_bytes: u64,
    /// Bytes of memory that a load sorts in.
    pub(crate) sort_bytes: usize,
}

/// Numbers of what has happened since the store was opened.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) committed: AtomicU64,
    pub(crate) rolled_back: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) deadlocks: AtomicU64,
    pub(crate) purged: AtomicU64,
}

pub(crate) struct System<B> {
    pub(crate) backing: B,
    pub(crate) options: SystemOptions,
    pub(crate) master: Master,
    pub(crate) catalog: Catalog,
    pub(crate) views: Views,
    pub(crate) locks: LockTable,
    pub(crate) slots: Slots,
    pub(crate) entries: EntryLocks,
    pub(crate) unsettled: Unsettled,
    pub(crate) purge: Purge,
    pub(crate) prepared: PreparedTransactions,
    /// Shared by who changes rows, for as long as rows and index entries do not
    /// agree; exclusive for who compares them. Nobody waits for a row's lock
    /// while holding it.
    pub(crate) gate: RwLock<()>,
    pub(crate) counters: Counters,
    /// Transactions that were not rolled back when the store was opened, as they
    /// may have changed a damaged table. They are active, without locks:
    /// what they have changed is neither seen nor changed by anybody.
    pub(crate) unfinished: BTreeSet<u64>,
    /// End of the last commit's record.
    pub(crate) last_commit: AtomicU64,
}

/// What opening had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opened {
    /// Transactions rolled back.
    pub(crate) rolled_back: u32,
    /// Tablespaces dropped that belonged to no table.
    pub(crate) spaces_dropped: u32,
}

impl<B: Backing> System<B> {
    /// Makes the pages of an empty store in tablespace `space`, which is new.
    /// Returns where the master page is.
    pub(crate) fn create(backing: &B, space: u32) -> Result<PageId, Error> {
        let branches = backing.create_segment(space)?;
        let leaves = backing.create_segment(space)?;
        let undo = backing.create_segment(space)?;
        Ok(Master::create(backing, undo, leaves, branches)?.page)
    }

    /// Takes up what is in the pages: rolls back whoever had not committed, and
    /// drops what belongs to nobody.
    ///
    /// Slots whose undo may be of a damaged table stay as they are until the store
    /// is opened without it: what is in them is neither undone nor purged, and
    /// nobody writes to them. So a table that becomes readable again shows nothing
    /// that was not committed, and nothing of it is lost.
    pub(crate) fn open(
        backing: B,
        master: PageId,
        options: SystemOptions,
    ) -> Result<(System<B>, Opened), Error> {
        let master = Master { page: master };
        let says = master.read(&backing)?;
        let catalog = Catalog::load(&backing, says.catalogue)?;
        let mut found: Vec<(u32, PageId, u64)> = Vec::with_capacity(says.slots.len());
        let mut left_alone = 0;
        let mut unfinished = BTreeSet::new();
        for (number, &header) in says.slots.iter().enumerate() {
            let active = read_header(&backing, header)?.active;
            if catalog.need_damaged(&backing, &tables_of(&backing, header)?)? {
                left_alone += 1;
                unfinished.extend((active != 0).then_some(active));
            } else {
                found.push((number as u32, header, active));
            }
        }
        // Whoever writes has as many slots as ever.
        let slots_max = slots_max(backing.page_bytes()) as u32 - left_alone;
        let undo_slots = options
            .undo_slots
            .max(found.len() as u32)
            .max(1)
            .min(slots_max);
        let slots = Slots::new(master, says.undo, undo_slots);
        let purge = Purge::new(options.purge_lag_bytes);
        let mut unsettled = Unsettled::default();
        if left_alone > 0 {
            unsettled.leave_out_some();
        }
        let mut owned: Vec<(Slot, u64)> = Vec::with_capacity(found.len());
        for (number, header, active) in found {
            let mut slot = slots.adopt(&backing, number, header)?;
            purge.adopt(&backing, &unsettled, &mut slot)?;
            owned.push((slot, active));
        }
        let active = owned.iter().map(|&(_, active)| active);
        let active: Vec<u64> = active
            .filter(|&trx| trx != 0)
            .chain(unfinished.clone())
            .collect();
        unsettled.remember(active.iter().copied());
        let system = System {
            views: Views::new(master, says.numbers, active),
            catalog,
            locks: LockTable::new(options.locks_max),
            entries: EntryLocks::default(),
            unsettled,
            gate: RwLock::new(()),
            counters: Counters::default(),
            unfinished,
            prepared: PreparedTransactions::default(),
            last_commit: AtomicU64::new(0),
            backing,
            options,
            master,
            slots,
            purge,
        };
        let mut opened = Opened {
            spaces_dropped: system.drop_unknown_spaces()?,
            ..Opened::default()
        };
        let mut unprepared = Vec::new();
        for (slot, active) in owned {
            if active == 0 {
                system.slots.give_back(slot);
            } else if let Some(slot) = system.adopt_prepared(active, slot)? {
                unprepared.push((active, slot));
            }
        }
        // When all that others keep locked is.
        for (active, slot) in unprepared {
            system.roll_back_whole(active, slot)?;
            opened.rolled_back += 1;
        }
        Ok((system, opened))
    }

    /// Drops tablespaces of tables that were being made or dropped. A file that
    /// may not be this store's is left alone, and told by [checks](Self::check).
    fn drop_unknown_spaces(&self) -> Result<u32, Error> {
        let known = self.catalog.spaces();
        let mut dropped = 0;
        for space in self.backing.spaces() {
            if known.contains(&space) {
                continue;
            }
            match self.backing.owner_of_space(space)? {
                Owner::Store => {
                    self.backing.drop_space(space)?;
                    dropped += 1;
                }
                Owner::Unknown | Owner::Other => drop(self.backing.look_at_space(space)?),
            }
        }
        Ok(dropped)
    }

    /// Makes durable what was committed without waiting for that.
    pub(crate) fn sync_commits(&self) -> Result<(), Error> {
        let last = self.last_commit.load(Ordering::Acquire);
        Ok(self.backing.make_durable(Lsn(last))?)
    }
}
