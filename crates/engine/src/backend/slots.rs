//! The operations in flight, in a table of fixed size.

use crate::backend::PinnedOp;

/// Every operation in flight has a slot, whose number is what the kernel gets
/// and gives back. Nothing is allocated after [`Slots::new`].
pub(crate) struct Slots {
    slots: Box<[Option<Slot>]>,
    /// Last freed, first used: its memory is still in the cache.
    free: Vec<u32>,
}

struct Slot {
    op: PinnedOp,
    retries: u8,
}

impl Slots {
    pub fn new(capacity: u32) -> Slots {
        Slots {
            slots: (0..capacity).map(|_| None).collect(),
            free: (0..capacity).rev().collect(),
        }
    }

    pub fn capacity(&self) -> u32 {
        self.slots.len() as u32
    }

    pub fn len(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// # Panics
    /// When all slots are in use.
    pub fn insert(&mut self, op: PinnedOp) -> u32 {
        let slot = self
            .free
            .pop()
            .expect("no more operations in flight than the backend's capacity");
        self.slots[slot as usize] = Some(Slot { op, retries: 0 });
        slot
    }

    /// # Panics
    /// When the slot is free.
    pub fn get(&self, slot: u32) -> &PinnedOp {
        &self.slots[slot as usize]
            .as_ref()
            .expect("a slot in use")
            .op
    }

    /// Frees the slot; its operation's token.
    ///
    /// # Panics
    /// When the slot is free: the kernel reported an operation twice.
    pub fn remove(&mut self, slot: u32) -> u64 {
        let token = self.get(slot).op().token;
        self.slots[slot as usize] = None;
        self.free.push(slot);
        token
    }

    /// Whether the operation, which failed with `errno`, is to be submitted
    /// again: interrupted or refused for a passing reason (at most
    /// `retries_max` times), or refused because of its priority, which is
    /// then given up.
    pub fn retry(&mut self, slot: u32, errno: i32, retries_max: u8) -> bool {
        let slot = self.slots[slot as usize].as_mut().expect("a slot in use");
        match errno {
            libc::EAGAIN | libc::EINTR if slot.retries < retries_max => {
                slot.retries += 1;
                true
            }
            libc::EPERM if slot.op.op().ioprio != 0 => {
                slot.op.clear_ioprio();
                true
            }
            _ => false,
        }
    }
}
